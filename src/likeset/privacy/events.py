"""What was done to protected data, and who observes it: relations, quantities, events with their JSON, and views.

A relation says what neighbouring data are, a quantity how far it can move between them, and an event what a mechanism
did to a quantity. What events cost is another question, and another module's (``accounting``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

from likeset.arguments import checked_name, count, positive
from likeset.errors import InvalidArgument, UnknownEvent


def _check_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidArgument(name, repr(value), f"must be of type {kind.__name__}")


class Relation(StrEnum):
    """When two data sets count as neighbours."""

    REPLACE_ONE = "replace-one"
    """One unit's rows are replaced by others; the number of rows is public."""

    ADD_OR_REMOVE = "add-or-remove"
    """One unit's rows are added or removed; a declared public size takes the place of the number of rows."""


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whose rows differ between neighbours: ``rows`` of one unit take part, at most.

    ``column`` has the ids that say which rows belong together; empty for single rows, and for groups of rows that no
    column names.
    """

    rows: int
    column: str

    def __post_init__(self) -> None:
        count("rows", self.rows)
        _check_type("column", self.column, str)

    def __str__(self) -> str:
        """Equal for units whose prices add up: ids of one column have one, however many of their rows take part."""
        if self.column:
            return f"id in column {self.column!r}"
        return "row" if self.rows == 1 else f"group of {self.rows} rows"


ROW = PrivacyUnit(1, "")
"""A row by itself."""


class Norm(StrEnum):
    """In which norm a row's contribution is bounded, and hence which noise the bound is good for."""

    EUCLIDEAN = "euclidean"
    """The whole vector: what Gaussian noise on all coordinates needs."""

    COORDINATE = "coordinate"
    """Each coordinate by itself: what a noisy choice of a coordinate, or noise on a single one, needs."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """Over rows, each of which contributes a vector of norm at most ``radius``."""

    norm: Norm
    radius: float
    unit: PrivacyUnit
    relation: Relation

    def __post_init__(self) -> None:
        for name, kind in (("norm", Norm), ("relation", Relation), ("unit", PrivacyUnit)):
            _check_type(name, getattr(self, name), kind)
        positive("radius", self.radius)


@dataclass(frozen=True, slots=True)
class RowSum(_Sum):
    """A sum over protected rows; a unit can change as many of them as it has."""

    @property
    def sensitivity(self) -> float:
        """The largest distance between the sums of two neighbours.

        A removed row takes at most ``radius`` with it; a replaced one moves from one end of a diameter to the
        other.
        """
        return (1.0 if self.relation is Relation.ADD_OR_REMOVE else 2.0) * self.unit.rows * self.radius


@dataclass(frozen=True, slots=True)
class SelectionSum(_Sum):
    """A sum over a fixed number of rows that were *selected* from the protected ones.

    Adding a row to what is selected from does not add a row to the selection: one selected row is replaced by another,
    as is proven for the way of selecting (docs/proofs/summary-stream.md: every owner is asked in every round, and rows
    that were sent are kept). Replacing one is removing it and adding another, so it can change twice as many.
    """

    @property
    def sensitivity(self) -> float:
        """The largest distance between the sums of two neighbours: a diameter for each row that is replaced."""
        return (2.0 if self.relation is Relation.ADD_OR_REMOVE else 4.0) * self.unit.rows * self.radius


@dataclass(frozen=True, slots=True)
class NearPairs:
    """The number of disjoint pairs of rows with a squared distance near a candidate.

    There is a bound under replace-one only (docs/proofs/width-choice.md): an added row would change all pairs.
    """

    unit: PrivacyUnit
    norm: ClassVar[Norm] = Norm.COORDINATE
    relation: ClassVar[Relation] = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        _check_type("unit", self.unit, PrivacyUnit)

    @property
    def sensitivity(self) -> float:
        return float(self.unit.rows)


Quantity = RowSum | SelectionSum | NearPairs
"""Everything that noise may be added to."""


# The closed vocabulary of what can be done to protected data, and the release that carries it.
#
# An event records what was done (which noise, of which scale, on which quantity that is bounded under which relation),
# never what it costs: that is computed by ``accounting``. Events are frozen, compare by value, and
# travel as versioned JSON. A word that is not in the vocabulary is refused with ``UnknownEvent``: it is never
# priced at zero.
#
# The JSON form is a contract: ledgers keep it for ever, and are never written anew. No kind gains, loses, renames or
# reinterprets a field, and none is removed: what changes gets a new kind.

VERSION = 3
"""Of documents of events that people write; ledgers need none."""
_MOST_NESTED = 32  # events within events, in the JSON form

Value = TypeVar("Value", covariant=True)
Text = TypeVar("Text", bound=str)


class Observer(StrEnum):
    """Who observes: one owner receives less than a coalition of owners."""

    ONE_OWNER = "one-owner"
    COALITION = "coalition"


@dataclass(frozen=True, slots=True)
class NoRelease:
    """Nothing that depends on the protected data was released."""


@dataclass(frozen=True, slots=True)
class PublicSize:
    """The exact number of protected rows was published, and nothing else; replace-one assumes that it is public."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """Something was released about which nothing is proven."""

    reason: str


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise of this scale, in the quantity's own units, on one number."""

    scale: float
    quantity: Quantity

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        _check_quantity(self.quantity, Norm.COORDINATE)


@dataclass(frozen=True, slots=True)
class ExponentialChoice:
    """One of several candidates, chosen with probability proportional to ``exp(rate * score)``.

    The scores move by at most the quantity's sensitivity each, so the privacy loss lies in a range of width
    ``2 * rate * sensitivity`` (*bounded range*), which costs less than pure privacy of that size.
    """

    rate: float
    quantity: Quantity

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        _check_quantity(self.quantity, Norm.COORDINATE)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise on every coordinate of a vector on a lattice, bounded in the Euclidean norm.

    ``sigma`` and ``spacing``, the distance between neighbouring lattice points, are in the quantity's own units.
    """

    sigma: float
    quantity: Quantity
    coordinates: int
    spacing: float

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        positive("spacing", self.spacing)
        count("coordinates", self.coordinates)
        _check_quantity(self.quantity, Norm.EUCLIDEAN)


@dataclass(frozen=True, slots=True)
class ThresholdAuction:
    """Owners of rank at most N = offset + discrete Laplace(1/epsilon) were asked, N new in each round.

    Rounds in which an owner's bid depends on what it was asked for earlier belong into one event; separate events stand
    for auctions whose bids do not depend on one another's results. ``summary_released``: whether anything about the
    rows so obtained was released between the rounds.
    """

    epsilon: float
    observer: Observer
    rounds: int
    summary_released: bool

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        count("rounds", self.rounds)
        _check_type("observer", self.observer, Observer)
        _check_type("summary_released", self.summary_released, bool)


@dataclass(frozen=True, slots=True)
class PaperAuction:
    """The paper's PrivAuction: rank i is asked with probability exp(-(i - 1) epsilon), independently.

    The paper's eps_auc, K, p and tau: a row that was its owner's best in tau rounds is asked for.
    """

    epsilon: float
    owners: int
    rounds: int
    patience: int

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        for name in ("owners", "rounds", "patience"):
            count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same thing done ``times`` times with fresh noise; later ones may depend on earlier results."""

    event: "Event"
    times: int

    def __post_init__(self) -> None:
        _check_event(self.event)
        count("times", self.times)


@dataclass(frozen=True, slots=True)
class Composition:
    """Several things done to the same data; later ones may depend on earlier results."""

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple):
            raise InvalidArgument("events", type(self.events).__name__, "must be a tuple of events")
        for event in self.events:
            _check_event(event)
        relation_of(self)
        unit_of(self)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What would have been done with secret noise, done with seeded noise: it protects nobody."""

    event: "Event"

    def __post_init__(self) -> None:
        _check_event(self.event)


Event = (
    NoRelease
    | PublicSize
    | Unbounded
    | Laplace
    | ExponentialChoice
    | Gaussian
    | ThresholdAuction
    | PaperAuction
    | Repeated
    | Composition
    | Simulated
)
"""The whole vocabulary."""


@dataclass(frozen=True, slots=True)
class Release(Generic[Value]):
    """A value that may leave, with the record of how it was made."""

    value: Value
    event: Event

    def __post_init__(self) -> None:
        _check_event(self.event)

    @property
    def simulated(self) -> bool:
        return isinstance(self.event, Simulated)


_KINDS: dict[str, type[Any]] = {
    "none": NoRelease,
    "public-size": PublicSize,
    "unbounded": Unbounded,
    "laplace": Laplace,
    "exponential-choice": ExponentialChoice,
    "gaussian": Gaussian,
    "threshold-auction": ThresholdAuction,
    "paper-auction": PaperAuction,
    "repeated": Repeated,
    "composition": Composition,
    "simulated": Simulated,
}
_QUANTITIES: dict[str, type[Any]] = {
    "row-sum": RowSum,
    "selection-sum": SelectionSum,
    "near-pairs": NearPairs,
}
_UNITS: dict[str, type[Any]] = {"unit": PrivacyUnit}
_NAMES = {kind: name for name, kind in (_KINDS | _QUANTITIES | _UNITS).items()}
_TYPES: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "bool": (bool,), "str": (str,)}


def relation_of(event: Event) -> Relation | None:
    """The relation under which an event was planned; None if it is the same under each, or has no bound under any."""
    done = list(steps(event))
    found = {quantity.relation for quantity in _quantities(done)}
    if any(isinstance(step, PublicSize) for step in done):
        found.add(Relation.REPLACE_ONE)
    return _only(found, "under one relation")


def unit_of(event: Event) -> str | None:
    """The unit of privacy that an event was planned for, in words; None if its bound holds for every unit."""
    return _only({str(quantity.unit) for quantity in _quantities(steps(event))}, "for one unit")


def steps(event: Event) -> Iterator[Event]:
    match event:
        case Repeated() | Simulated():
            yield from steps(event.event)
        case Composition():
            for part in event.events:
                yield from steps(part)
        case _:
            yield event


def _quantities(done: Iterable[Event]) -> Iterator[Quantity]:
    return (step.quantity for step in done if isinstance(step, Laplace | ExponentialChoice | Gaussian))


def _only(found: set[Text], words: str) -> Text | None:
    if len(found) > 1:
        raise InvalidArgument("events", " and ".join(sorted(found)), f"must all be planned {words}")
    return next(iter(found), None)


def as_json(event: Event) -> dict[str, Any]:
    """One event as plain JSON values, without the version: for documents that carry their own."""
    _check_event(event)
    document: dict[str, Any] = _json_value(event)
    return document


def from_json(document: object) -> Event:
    """The event that ``as_json`` wrote; ``UnknownEvent`` for everything outside the vocabulary."""
    event: Event = _build(document, _KINDS, "event", depth=0)
    return event


def _json_value(value: Any) -> Any:
    if type(value) in _NAMES:
        values = {field.name: _json_value(getattr(value, field.name)) for field in fields(value)}
        return {"kind": _NAMES[type(value)], **values}
    if isinstance(value, tuple):
        return [_json_value(part) for part in value]
    return value.value if isinstance(value, StrEnum) else value


def _build(document: object, kinds: dict[str, type[Any]], role: str, *, depth: int) -> Any:
    if depth > _MOST_NESTED:
        raise UnknownEvent(role, f"is nested more than {_MOST_NESTED} deep")
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise UnknownEvent(role, "must be an object with a field kind")
    name = document["kind"]
    if name not in kinds:
        raise UnknownEvent(f"{role} {name!r}", "is not in the vocabulary: " + ", ".join(sorted(kinds)))
    expected = fields(kinds[name])
    if set(document) != {"kind", *(field.name for field in expected)}:
        wanted = ", ".join(field.name for field in expected) or "none besides kind"
        raise UnknownEvent(f"{role} {name!r}", f"must have exactly the fields: {wanted}")
    values = {field.name: _value(document[field.name], field, name, depth=depth + 1) for field in expected}
    try:
        return kinds[name](**values)
    except InvalidArgument as error:
        raise UnknownEvent(f"{role} {name!r}", str(error)) from error


def _value(value: object, field: Any, name: str, *, depth: int) -> Any:
    """One field, built according to the type that its class declares."""
    if field.type is Quantity:
        return _build(value, _QUANTITIES, "quantity", depth=depth)
    if field.type is PrivacyUnit:
        return _build(value, _UNITS, "unit", depth=depth)
    if field.type == "Event":
        return _build(value, _KINDS, "event", depth=depth)
    if field.type == "tuple[Event, ...]":
        if not isinstance(value, list):
            raise UnknownEvent(f"{name}.{field.name}", "must be a list of events")
        return tuple(_build(part, _KINDS, "event", depth=depth) for part in value)
    if issubclass(field.type, StrEnum):
        try:
            return field.type(value)
        except ValueError:
            raise UnknownEvent(f"{name}.{field.name}", f"must be one of {', '.join(field.type)}") from None
    # JSON's true is a Python int: only an exact type is what the field says.
    if type(value) not in _TYPES[field.type.__name__]:
        raise UnknownEvent(f"{name}.{field.name}", f"must be a {field.type.__name__}")
    return field.type(value)


def _check_event(event: object) -> None:
    if type(event) not in _KINDS.values():
        raise UnknownEvent(type(event).__name__, "is not an event of the vocabulary")


def _check_quantity(quantity: object, norm: Norm) -> None:
    if type(quantity) not in _QUANTITIES.values():
        raise InvalidArgument("quantity", type(quantity).__name__, "must be a bounded quantity")
    if isinstance(quantity, Quantity) and quantity.norm is not norm:
        raise InvalidArgument("quantity", quantity, f"must be bounded in the {norm} norm for this event")


# Who observes, and whose rows are protected: every guarantee and every budget is stated for one such view.

ObserverRole = Literal["owners", "curator", "consumer"]


@dataclass(frozen=True, slots=True, order=True)
class View:
    """What one observer can learn about the data set ``protected``."""

    observer: ObserverRole
    protected: str

    def __post_init__(self) -> None:
        if self.observer not in get_args(ObserverRole):
            raise InvalidArgument("observer", repr(self.observer), "must be one of owners, curator, consumer")
        checked_name("protected", self.protected)

    @classmethod
    def owners(cls, protected: str) -> Self:
        """Any coalition of owners other than the one whose data set it is: owners may compare what they received."""
        return cls("owners", protected)

    @classmethod
    def curator(cls, protected: str) -> Self:
        return cls("curator", protected)

    @classmethod
    def consumer(cls, protected: str) -> Self:
        return cls("consumer", protected)

    def to_json(self) -> dict[str, Any]:
        # The empty coalition is any; digests of requests cover it.
        return {"observer": self.observer, "protected": self.protected, "coalition": []}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        if document["coalition"]:
            raise InvalidArgument("coalition", f"{len(document['coalition'])} names", "must be empty: any coalition")
        return cls(document["observer"], document["protected"])

    def __str__(self) -> str:
        return f"{'any owners see' if self.observer == 'owners' else f'{self.observer} sees'} {self.protected}"
