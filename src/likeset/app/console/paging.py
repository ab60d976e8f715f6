"""Long lists, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Pages"]

_ON_A_PAGE = 15

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
        last = max(1, -(-items // _ON_A_PAGE))
        return cls(min(max(1, number), last), last, items)

    def part(self, items: Sequence[Item]) -> Sequence[Item]:
        """What is on the page."""
        first = (self.number - 1) * _ON_A_PAGE
        return items[first : first + _ON_A_PAGE]
