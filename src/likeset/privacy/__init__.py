"""What is done to protected data, what it costs, and the only secret randomness.

``events`` is the closed vocabulary of what mechanisms do, ``accounting`` turns events into guarantees, ``noise`` draws.
Each mechanism is planned first (its event is fixed before data are read) and run then: ``gaussian_mean``,
``mwem_mean``, ``width_choice``, ``kept_rows``, ``auction``.
"""
