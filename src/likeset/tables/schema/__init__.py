"""Declared columns: what a schema says, the maps that it makes, and records in declared types."""
