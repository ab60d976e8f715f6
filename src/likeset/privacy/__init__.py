"""What was done to protected data, what it costs, and the only secret randomness.

``relation`` says what neighbouring data are and how far a bounded quantity can move between them; ``events``
is the closed vocabulary of what mechanisms do; ``accounting`` turns events into guarantees; ``noise`` draws.
"""
