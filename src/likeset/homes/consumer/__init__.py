"""A consumer's side of runs between organisations: its directory, its runs, and its party in them."""
