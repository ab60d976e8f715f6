"""Simulated markets: somebody sees every row of everybody, all of it public, and noise comes from a seed.

For what is shown beside a real run, and for studies. Nothing here is private.
"""
