"""Empirical lower bounds on epsilon: the sound mechanisms must stay above them, the broken set must not.

``auditor`` turns observations into a lower bound, ``trials`` puts a claim, a pair of inputs and a channel together,
``sound`` lists the sound mechanisms and ``broken`` the deliberately wrong ones.
"""
