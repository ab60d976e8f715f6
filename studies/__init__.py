"""Data sets, baselines, experiments and figures. Everything here is a simulation on public data."""
