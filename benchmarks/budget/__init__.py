"""The parts of the budget for regressions; ``quick.py`` beside this folder runs them."""
