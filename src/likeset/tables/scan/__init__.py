"""An owner's pass over its rows: in memory, over files, on a cluster."""
