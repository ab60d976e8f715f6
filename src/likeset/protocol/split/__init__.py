"""A run whose curator is split: owners share their offers, and three or two parties select on shares. Pure."""
