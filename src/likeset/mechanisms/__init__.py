"""Mechanisms: a plan, whose event is known before data are read, and a run, which returns a release."""
