"""What a user should know about a run: typed facts from where they arise to where they are shown.

Whoever looks for a notice looks at its type and at whom it concerns. Its words are made last, for people alone: a name
that stands in them, or another text, finds nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from likeset.protocol.wire import Summary


@dataclass(frozen=True, slots=True)
class Notice(ABC):
    """Something that a user should know; ``str`` of it is its words."""

    kind: ClassVar[str]
    """What it is, for machines; no two notices share one."""

    @property
    @abstractmethod
    def text(self) -> str: ...

    @property
    def concerns(self) -> str | None:
        return None

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "owner": self.concerns, "text": self.text}

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class OwnerNotice(Notice):
    """Something about one owner.

    Attributes:
        owner: its name, as the user knows it.
    """

    owner: str

    @property
    def concerns(self) -> str | None:
        return self.owner


@dataclass(frozen=True, slots=True)
class NotBelieved(OwnerNotice):
    """The curator used nothing of what an owner sent.

    Attributes:
        reason: why, in the curator's words.
    """

    kind = "not-believed"
    reason: str

    @property
    def text(self) -> str:
        return f"{self.owner} was not believed: {self.reason}"


@dataclass(frozen=True, slots=True)
class LeftOut(OwnerNotice):
    """In a split run, an owner's offer or some of its picks were not used; this does not show who caused it.

    Attributes:
        reason: why, and for picks how many.
    """

    kind = "left-out"
    reason: str

    @property
    def text(self) -> str:
        return f"{self.owner}: {self.reason}"


@dataclass(frozen=True, slots=True)
class DidNotTakePart(OwnerNotice):
    """An owner sent nothing that counts.

    Attributes:
        answer: between organisations, what its site said in place of an answer; empty where that is not known.
    """

    kind = "did-not-take-part"
    answer: str = ""

    @property
    def text(self) -> str:
        return f"{self.owner} did not take part{f' ({self.answer})' if self.answer else ''}"


@dataclass(frozen=True, slots=True)
class CouldNotAnswer(OwnerNotice):
    """Why an owner in this process had no answer, or why its answer was refused.

    Attributes:
        reason: in the words of whoever refused.
    """

    kind = "could-not-answer"
    reason: str

    @property
    def text(self) -> str:
        return f"{self.owner}: {self.reason}"


def notices_on_owners(
    owners: Sequence[str], summary: Summary, *, answers: Mapping[str, str], split: bool
) -> list[Notice]:
    """Which owners the curator did not believe or a split run left out, and which did not take part.

    Args:
        owners: their names as the user knows them, in the order of the terms.
        summary: what the curator said.
        answers: what sites of owners said in place of an answer, as far as that is known.
        split: whether the curator was split.
    """
    notice = LeftOut if split else NotBelieved
    flagged = zip(summary.flagged, summary.reasons, strict=True)
    absent = [owners[number] for number in summary.absent]
    return [
        *(notice(owners[number], str(why)) for number, why in flagged),
        *(DidNotTakePart(name, answers.get(name, "")) for name in absent),
    ]


@dataclass(frozen=True, slots=True)
class UniformOffers(Notice):
    """Offers do not follow the target, otherwise than wished: a release would be mostly noise.

    Attributes:
        target_rows: how many rows the target has, as the terms say.
        epsilon: what a release could have spent.
    """

    kind = "uniform-offers"
    target_rows: int
    epsilon: float

    @property
    def text(self) -> str:
        return (
            f"offers are uniform: with {self.target_rows:,} target rows and epsilon = {self.epsilon:g} a release would "
            "be mostly noise, so none is made and nothing of the budget is spent"
        )


@dataclass(frozen=True, slots=True)
class FewRows(Notice):
    """Owners offered fewer rows than were wanted.

    Attributes:
        offered: how many came.
        wanted: how many were asked for.
    """

    kind = "few-rows"
    offered: int
    wanted: int

    @property
    def text(self) -> str:
        return f"only {self.offered:,} rows were offered where {self.wanted:,} were wanted"


@dataclass(frozen=True, slots=True)
class SplitCurator(Notice):
    """Nobody selects alone: parties compute on shares."""

    kind = "split-curator"

    @property
    def text(self) -> str:
        return (
            "curator, consumer and a witness compute on shares: nobody reads a row but its buyer, if all parties "
            "follow the protocol and no two of them work together; public are the program, the width of its kernel and "
            "all sizes"
        )


@dataclass(frozen=True, slots=True)
class LabelsNotMatched(Notice):
    """A split curator compares rows only."""

    kind = "labels-not-matched"

    @property
    def text(self) -> str:
        return (
            "labels are not matched: a split curator compares rows only, and look-alikes of other classes may be "
            "bought; labels come with the rows"
        )


@dataclass(frozen=True, slots=True)
class DistanceInSample(Notice):
    """The distance to rows that the selection did not see needs all offers, and nobody reads those."""

    kind = "distance-in-sample"

    @property
    def text(self) -> str:
        return (
            "the distance to new rows is not measured: that needs all offers, which nobody reads; only the in-sample "
            "number is known, which is too good"
        )


@dataclass(frozen=True, slots=True)
class PublicWidth(Notice):
    """The kernel of a split selection is public, and so is not read off the target."""

    kind = "public-width"

    @property
    def text(self) -> str:
        return (
            "the width of the selection's kernel is public here: it follows from the release's, and not from the "
            "target's own distances; give gamma as a number for another one"
        )
