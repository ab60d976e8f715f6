"""What people touch: the command line and the report. Thin; it has no rules of its own."""
