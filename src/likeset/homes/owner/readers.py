"""Who may read rows of an owner in a run, and how many: by the trust that its terms ask for, and by the other."""

from dataclasses import asdict, dataclass
from typing import Any

from likeset.protocol.terms import Terms

__all__ = ["Reader", "other_trust", "readers_of"]


@dataclass(frozen=True, slots=True)
class Reader:
    """A party of a run, and what it may read of one owner's rows.

    Attributes:
        role: of the party.
        rows: of this owner that it may read, at most.
        words: which those are, or what it has in their place.
    """

    role: str
    rows: int
    words: str

    def document(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def readers_of(terms: Terms) -> tuple[Reader, ...]:
    """All who take part, those who may read most first."""
    bought = min(terms.rows_per_owner, terms.size)
    others = Reader("other owners", 0, "none")
    if terms.split is None:
        return (
            Reader("curator", terms.rows_per_owner, "every row that you offer"),
            Reader("consumer", bought, "those that it buys"),
            others,
        )
    shares = "none: shares, which tell nothing alone"
    return (
        Reader("consumer", terms.rows_readable, "those that it buys; of the others shares, which tell nothing alone"),
        *(Reader(role, 0, shares) for role in ("curator", "witness")),
        others,
    )


def other_trust(terms: Terms) -> tuple[str, str]:
    """What would be otherwise if the curator were trusted, or if it were not: a question and its answer."""
    offered = terms.rows_per_owner
    if terms.split is not None:
        alone = f"The curator alone would read all {offered:,} rows that you offer, bought or not, and no witness"
        return "What if the curator were trusted?", f"{alone} would be needed. These terms do not ask for that."
    most = min(offered, terms.size)
    split = (
        f"nobody but the consumer would read a row, and at most {most:,} of yours, if all parties follow the protocol"
    )
    return (
        "What if the curator were split?",
        f"Then {split}: ask the consumer for terms with `curator: split`. These terms ask you to trust the curator "
        f"with all {offered:,}.",
    )
