"""Public mathematics on arrays: kernels, discrepancy, features, selection, tilting. No privacy, no input or output."""
