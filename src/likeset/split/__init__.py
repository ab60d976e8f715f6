"""The curator's arithmetic on secret shares: the public program, the worker that runs it, the links between parties."""
