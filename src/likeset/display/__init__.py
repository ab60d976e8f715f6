"""What people see: the terminal, how a program ends, the look of drawings."""
