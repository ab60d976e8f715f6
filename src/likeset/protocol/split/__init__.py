"""A run whose curator is split: owners share their offers, and three parties select on shares. Pure."""
