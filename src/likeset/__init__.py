"""Get a training set that looks like your target, from data owners who never learn about each other."""

__version__ = "0.1.0"

from likeset import errors
from likeset.geometry.discrepancy import squared_mmd
from likeset.protocol.terms import Terms
from likeset.summarizer import Summarizer

__all__ = ["Summarizer", "Terms", "errors", "squared_mmd"]
