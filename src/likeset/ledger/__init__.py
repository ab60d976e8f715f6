"""Budgets of views over all runs: reserve, run, commit; resend, never redraw."""
