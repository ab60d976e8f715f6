"""From files or arrays to a result: what is asked for, what it will cost, the run itself, and what came of it."""
