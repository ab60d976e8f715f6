"""Empirical lower bounds on epsilon: the sound mechanisms must stay above them, the broken set must not.

A new trial goes into ``sound_trials`` (mechanisms as they are) or ``broken_trials`` (deliberately wrong ones). A trial
is made with ``harness``; ``auditor`` turns its observations into a lower bound.
"""
