"""How long a job takes: from what this machine was seen to do in a fraction of a second, and the sizes of the job.

The parts are told apart, since each grows with something else: owners' passes with rows and kinds of columns, their
offers and the curator's selection with pairs of rows, interactive rounds with durable writes. A part of which nobody
knows the size has no number; the words say why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from likeset.protocol.planned_terms import PlannedTerms
from likeset.run.split_plan import expected_seconds_of_split

__all__ = ["Calibration", "ExpectedTime", "PassCost", "expected_time"]

_STARTS = 180.0  # pieces of the interpreter's work that a job takes beside rows: modules, prices, figures, the report
_PROXIES, _CANDIDATES, _GROUP = 2500, 6, 3000  # of an owner's offer, see protocol/offers and geometry/thinning
_LANDMARKS = 500  # of matching labels, see geometry/ridge
_PROJECTED = 0.2  # what a row and a pair of landmarks cost, of what a decomposition costs for as many numbers
_WRITES = 3.5  # durable writes of an owner in a round of interactive


@dataclass(frozen=True, slots=True)
class PassCost:
    """What an owner's row costs on this machine, in seconds.

    Attributes:
        read: to read it.
        check: to check every cell of it, and to count its id.
        score: to map it to numbers and to weigh it.
        row_bytes: what it takes in a text file; 0 where the number of rows stands in the file.
    """

    read: float
    check: float
    score: float
    row_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What this machine was seen to do, in seconds.

    Attributes:
        piece: a fixed piece of the interpreter's work.
        pair: a kernel value, with as many columns as the schema maps to.
        pick: picking a row and reconsidering it, ...
        pick_row: ... and what that takes more for each row of the pool.
        cubic: an eigenvalue decomposition, over the cube of its size.
        write: a durable write.
        passes: of owners' rows, by kind of file.
        cores: how many may work at a time.
    """

    piece: float
    pair: float
    pick: float
    pick_row: float
    cubic: float
    write: float
    passes: Mapping[str, PassCost]
    cores: int


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """How long a job takes.

    Attributes:
        parts: seconds by what they are for; None for a part whose size is not known.
        unknown: why, one reason each.
    """

    parts: Mapping[str, float | None]
    unknown: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Of all parts; None where one is not known."""
        known = self._known()
        return round(sum(known), 1) if len(known) == len(self.parts) else None

    def _known(self) -> list[float]:
        return [seconds for seconds in self.parts.values() if seconds is not None]

    @property
    def words(self) -> str:
        """What it rests on, or why it is not known."""
        measured = "for this machine with nothing else to do, measured just now on copies of your target's rows"
        if self.seconds is not None:
            longest = max(self.parts, key=lambda name: self.parts[name] or 0.0)
            rest = "".join(f" {reason}." for reason in self.unknown)
            return f"The time is {measured}. Give or take a factor of two; {longest} takes most of it.{rest}"
        reasons = "; ".join(self.unknown)
        return (
            f"How long it takes is not known: {reasons}. The rest takes about {sum(self._known()):,.0f} s, {measured}."
        )

    def document(self) -> dict[str, Any]:
        """For machines."""
        parts = {name: None if seconds is None else round(seconds, 2) for name, seconds in self.parts.items()}
        return {"seconds": self.seconds, "seconds_by_part": parts, "seconds_in_words": self.words}


def expected_time(
    terms: PlannedTerms,
    rows: Mapping[str, tuple[str, int | None]],
    calibration: Calibration,
    *,
    folds: int,
    classes: bool,
    unknown: tuple[str, ...] = (),
) -> ExpectedTime:
    """Add up what a job does.

    Args:
        terms: of the run.
        rows: for each owner the kind of its file and its number of rows; None where that is not known.
        calibration: of this machine.
        folds: of the target, on each of which likeness is measured by another selection.
        classes: whether the rows have labels that are classes, and these are matched.
        unknown: why a number of rows is not known.
    """
    counts = [(calibration.passes[kind], count) for kind, count in rows.values() if count is not None]
    passes = sum(_passes(terms, cost, count, calibration.cores) for cost, count in counts)
    offers = sum(_offer(terms, count, calibration) for _, count in counts)
    parts: dict[str, float | None] = {
        "starting and reporting": _STARTS * calibration.piece,
        "passing over owners' rows": passes if len(counts) == len(rows) else None,
    }
    if terms.offers == "tilted" and terms.protocol == "sealed":
        parts["drawing offers"] = offers
    split = expected_seconds_of_split(terms)
    if split is not None:
        rule = "What compute parties take is a rule set by hand to four benchmarks, and not measured here"
        return ExpectedTime({**parts, "computing on shares": split}, (*unknown, rule))
    if terms.protocol == "interactive":
        each = len(terms.owners) * (_WRITES * calibration.write + calibration.piece / 50.0)
        return ExpectedTime({**parts, "rounds": terms.size * each}, unknown)
    return ExpectedTime({**parts, "selecting": _selection(terms, calibration, folds=folds, classes=classes)}, unknown)


def _passes(terms: PlannedTerms, cost: PassCost, rows: int, cores: int) -> float:
    """An owner reads all rows to check them, and again to draw from them; of the second pass cores share the work."""
    first = cost.read + cost.check
    work = cost.score if terms.offers == "tilted" else cost.check
    return rows * (first + max(cost.read, (cost.read + work) / cores))


def _offer(terms: PlannedTerms, rows: int, calibration: Calibration) -> float:
    """An owner thins the candidates that it drew, where it has more rows than it offers."""
    offered = terms.rows_per_owner
    if not terms.thinning or rows <= offered:
        return 0.0
    candidates = min(rows, _CANDIDATES * offered)
    group = min(candidates, _GROUP)
    return calibration.pair * (candidates * (min(rows, _PROXIES) + group) + offered * group)


def _selection(terms: PlannedTerms, calibration: Calibration, *, folds: int, classes: bool) -> float:
    """The curator selects once, and once more without each fold; labels ask for a regression and more pairs."""
    asked = terms.asked_owners if terms.auction == "threshold" else len(terms.owners)
    pool, size, target = terms.rows_per_owner * asked, terms.size, terms.target_size
    pairs, regression = (2 * target, _regression(pool, calibration)) if classes else (target, 0.0)
    picking = size * (calibration.pick + pool * calibration.pick_row)
    return regression + (1 + folds) * (pool * pairs * calibration.pair + picking)


def _regression(pool: int, calibration: Calibration) -> float:
    landmarks = min(pool, _LANDMARKS)
    projected = _PROJECTED * calibration.cubic * landmarks**2 + 2.0 * calibration.pair * landmarks
    return calibration.cubic * landmarks**3 + pool * projected
