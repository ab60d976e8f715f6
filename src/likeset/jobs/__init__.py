"""A job: files in, a directory out. Planned before anything is read, run, and resumed if it was interrupted."""
