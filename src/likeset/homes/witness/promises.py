"""What an organisation promises that witnesses runs, in words for its people."""

from typing import Final

__all__ = ["PROMISES"]

PROMISES: Final = (
    "to compute, with the curator and the consumer, what the terms name by digest, and nothing else",
    "to show nobody the shares that it gets, neither the curator nor the consumer above all: two of the three together "
    "could read every row that was offered",
    "to be no owner of the run, nor the curator or the consumer under another name",
    "to sign for what it got, to open its shares to nobody, and to forget all shares when the terms end",
)
"""It reads no row and no target: what it gets is random numbers as long as it keeps these."""
