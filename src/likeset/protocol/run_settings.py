"""Every setting of a run, declared once: name, type, default, meaning, and where it goes.

``job.yaml``, the options of ``likeset match`` and ``likeset plan``, the arguments of ``likeset.match`` and of
``likeset.Summarizer``, and the terms are made from it.
"""

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_type_hints

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_FOLDS = 50  # of the target; each costs a selection


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as it is declared.

    Attributes:
        name: in a job; its option on the command line has the same name.
        type: of its value.
        default: its value if none is given; ``dataclasses.MISSING`` where it must be given.
        meaning: one sentence, without a full stop; ``words to type`` are marked.
        argument: its name as an argument of ``Summarizer``.
        is_fine: whether few people ever change it.
        is_of_interactive: whether it has a meaning for the protocol ``interactive`` only.
    """

    name: str
    type: Any
    default: Any
    meaning: str
    argument: str = ""
    is_fine: bool = False
    is_of_interactive: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


def _setting(meaning: str, default: Any = MISSING, **properties: Any) -> Any:
    return field(default=default, metadata={"meaning": meaning, **properties})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds:
    """Settings of an auction, and of the paper's protocol."""

    auction: Literal["auto", "everyone", "threshold", "paper"] = _setting(
        "who is asked for rows: ``everyone``, ``threshold``, ``paper`` (interactive only), or ``auto``", "auto"
    )
    auction_epsilon: float | None = _setting(
        "epsilon of one use of an auction other than ``everyone``; if not given, 1 for ``threshold`` and the paper's "
        "own for ``paper`` (0.012 with five owners)",
        None,
        is_fine=True,
    )
    patience: int | None = _setting(
        "how many rounds an owner bids the same row before the auction ``paper`` asks for it (the paper's tau); if not "
        "given, the paper's K^(2/3) with K owners",
        None,
        is_fine=True,
        is_of_interactive=True,
    )
    summary_release: Literal["none", "gaussian", "mwem"] = _setting(
        "what ``interactive`` releases about the summary each round: ``none``, ``gaussian``, ``mwem``",
        "none",
        is_fine=True,
        is_of_interactive=True,
    )
    schedule: str = _setting(
        "the paper's schedule for ``mwem``: ``theorem``, ``proof``, or ``experiment`` (with its own length and kernel "
        "of the release unless others are given); empty splits the budget",
        "",
        is_fine=True,
        is_of_interactive=True,
    )
    promised_epsilon: float = _setting(
        "the epsilon that the paper's theorem promises, from which its schedules and its auction's epsilon follow; "
        "what a run really costs must stay within epsilon and owner_epsilon",
        1.0,
        is_fine=True,
        is_of_interactive=True,
    )
    owner_epsilon: float | None = _setting(
        "what owners may learn about one another's rows; if not given, what a threshold auction needs; 0 is nothing: "
        "everyone is asked",
        None,
        is_fine=True,
    )
    accept_unproven: tuple[str, ...] = _setting(
        "names of parts without a proof that are accepted", (), is_of_interactive=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactive(_Rounds):
    """The paper's protocol (Algorithm 3), for ``Summarizer(size, protocol=Interactive(...))``.

    Its settings have the names and meanings of the options of ``likeset match``. ``seed_rows`` are public rows that
    start the summary; never owners' rows.

    Example:
        >>> Interactive.as_published().schedule
        'experiment'
    """

    seed_rows: "ArrayLike | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The settings of the paper's experiments, except for ``changes``.

        The paper starts from about 150 public ``seed_rows``. Its auction and its summary release have no proof, and
        must be accepted by name: ``accept_unproven=("paper-auction", "summary-release")``.
        """
        return cls(**{**_AS_PUBLISHED, **changes})

    def settings(self) -> dict[str, Any]:
        return {"protocol": "interactive", **{one.name: getattr(self, one.name) for one in fields(_Rounds)}}


_AS_PUBLISHED: dict[str, Any] = {"auction": "paper", "summary_release": "mwem", "schedule": "experiment"}
PRESETS: dict[str, dict[str, Any]] = {"paper": {"protocol": "interactive", **_AS_PUBLISHED}}
"""Settings by one name, for job files and the command line; what is said beside it counts instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(_Rounds):
    """What a user asks for, whether in a file, on the command line or in Python."""

    size: int = _setting("how many rows to collect")
    epsilon: float = _setting(
        "what owners may learn about a row of the target; 0 tells them nothing, and needs uniform offers", 1.0
    )
    delta: float = _setting("the delta at which epsilon is stated", 1e-5)
    protocol: Literal["sealed", "interactive"] = _setting(
        "how rows are asked for: ``sealed``, or ``interactive`` (the paper's Algorithm 3)", "sealed"
    )
    gamma: float | Literal["median"] = _setting(
        "gamma of the selection's kernel (larger looks closer), or ``median``: by the target's own distances, which no "
        "owner hears",
        "median",
    )
    gamma_scale: float = _setting("gamma times the median squared distance, for ``median``", 1.0, is_fine=True)
    release_gamma: float | None = _setting(
        "gamma of the release's kernel, which owners see; if not given, from public rows, or chosen privately within "
        "the budget",
        None,
    )
    dimension: int | Literal["auto"] = _setting("length of the released vector, or ``auto``", "auto", is_fine=True)
    offer_factor: float = _setting("about how many rows the curator sees for each row of the summary", 10.0)
    allow_fewer: bool = _setting(
        "whether a summary of fewer rows than ``size`` will do, where owners have or may offer no more",
        default=False,
    )
    offers: Literal["auto", "tilted", "uniform"] = _setting(
        "which rows owners offer: ``auto`` or ``tilted`` (toward the release, but uniform, with a warning, where a "
        "release would be mostly noise, by the target's size and the budget alone), or ``uniform`` (no release at all)",
        "auto",
    )
    thinning: bool = _setting(
        "whether owners thin more candidates than they offer to an offer that represents them",
        default=True,
        is_fine=True,
    )
    curator: Literal["auto", "trusted", "split"] = _setting(
        "who selects: ``trusted``, a curator who reads every offered row; ``split``, three parties who compute on "
        "shares, so that nobody reads a row but its buyer (with ``sealed``; labels are then not matched, and "
        "the distance to new rows is not measured); or ``auto``: split between organisations where a witness is named, "
        "else trusted",
        "auto",
    )
    weights: bool = _setting(
        "whether to weigh the selected rows so that they match better still",
        default=False,
    )
    labels: Literal["match", "ignore"] = _setting(
        "``match``: with ``sealed``, owners and the curator use labels that are classes, where rows tell them; or "
        "``ignore``. Numbers with decimals are never matched",
        "match",
    )
    folds: int = _setting(
        "in how many parts the curator splits the target, to measure the distance to rows that no selection has seen; "
        "each part costs a selection, 0 leaves the distance to new rows unknown",
        5,
        is_fine=True,
    )
    relation: Literal["replace-one", "add-or-remove"] = _setting(
        "what neighbouring data are: ``replace-one`` or ``add-or-remove``", "replace-one"
    )
    declared_size: int | None = _setting(
        "under add-or-remove, where the number of the target's rows is itself protected, the public number that stands "
        "for it",
        None,
    )
    price_per_row: float = _setting("what an owner is paid for each row disclosed", 0.0, is_fine=True)
    quorum: int = _setting("how many owners must take part", 1)
    noise: Literal["secret", "simulated"] = _setting(
        "kind of noise: ``secret``, or ``simulated`` (repeatable with a seed, and NOT private)", "secret"
    )
    seed: int | None = _setting(
        "seed of the public coins and, with simulated noise, of everything; a run with secret noise cannot be repeated",
        None,
        argument="random_state",
    )


def settings() -> tuple[Setting, ...]:
    """All settings: those of every run, then those of auctions and the paper's protocol."""
    types, declared, of_rounds = get_type_hints(RunSettings), fields(RunSettings), len(fields(_Rounds))
    return tuple(
        Setting(one.name, types[one.name], one.default, **{"argument": one.name, **one.metadata})
        for one in (*declared[of_rounds:], *declared[:of_rounds])
    )
