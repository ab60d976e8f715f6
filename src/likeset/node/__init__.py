"""An organisation's own side: its policy, its decisions, its data sets, what left it, and the log of all of that."""
