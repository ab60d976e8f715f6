"""Long lists, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["ON_A_PAGE", "Pages"]

ON_A_PAGE = 15
"""Of a list whose items take a while to judge, each."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Pages:
    """Which part of a list is shown.

    Attributes:
        number: of the page, from 1.
        last: the number of the last page.
        items: in the whole list.
    """

    number: int
    last: int
    items: int

    @classmethod
    def of(cls, items: int, number: int) -> "Pages":
        """The page of that number, or the nearest."""
        last = max(1, -(-items // ON_A_PAGE))
        return cls(min(max(1, number), last), last, items)

    def part(self, items: Sequence[Item]) -> Sequence[Item]:
        """What is on the page."""
        first = (self.number - 1) * ON_A_PAGE
        return items[first : first + ON_A_PAGE]
