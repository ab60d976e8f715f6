"""The parts of the comparison with peers; ``peers.py`` beside this folder runs them."""
