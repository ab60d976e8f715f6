"""Rows: where they lie and how an owner passes over them."""
