"""Get a training set that looks like your target, from data owners who never learn about each other."""

from likeset import errors
from likeset.geometry.discrepancy import squared_mmd

__version__ = "0.1.0"
__all__ = ["errors", "squared_mmd"]
