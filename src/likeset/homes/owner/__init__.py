"""An owner's own side: who may ask, what may leave, what left, and what is left of the budgets."""
