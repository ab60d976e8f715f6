"""All parties of a run in one process: from what a user asks for to what came of it."""
