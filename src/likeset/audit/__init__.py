"""Empirical lower bounds on epsilon: the sound mechanisms must stay above them, the broken set must not.

``bounds`` turns observations into a lower bound, ``exact`` does the same for laws that can be written out,
``neighbours`` holds the worst pairs of inputs, ``trials`` puts a claim, a pair and a channel together,
``suite`` lists the sound mechanisms and ``broken`` the deliberately wrong ones.
"""
