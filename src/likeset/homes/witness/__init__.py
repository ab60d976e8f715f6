"""A witness's own side: a third organisation that computes on shares, needs no data and learns nothing."""
