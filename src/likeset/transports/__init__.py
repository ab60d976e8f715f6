"""How messages get from one party to another."""
