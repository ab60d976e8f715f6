"""Empirical lower bounds on epsilon: the sound mechanisms must stay above them, the broken set must not.

New trials go into ``sound_trials`` (mechanisms as they are) and ``broken_trials`` (deliberately wrong ones), new pairs
of inputs into ``neighbours``. ``auditor`` runs trials and turns their observations into lower bounds.
"""
