"""The runs that every engine must bring to the same end: the same summary and the same entries in every ledger."""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from protocol_world import CONSUMER, PAPER, THRESHOLD, terms
from site_factory import SECRET, ledger_of, open_ledger, seat

import likeset
from likeset.errors import LikesetError
from likeset.homes.shell import ConsumerShell, CuratorShell, Resident, Shell
from likeset.ledger import StoredMessage
from likeset.protocol.hashing import commitment
from likeset.protocol.messages import Message, encode
from likeset.protocol.owner import Owner
from likeset.protocol.party import CURATOR
from likeset.protocol.term_parts import Budget, Hashing
from likeset.protocol.terms import Terms
from likeset.transports.local import LocalEngine

_HERE = Path(__file__).parent
PYTHONPATH = os.pathsep.join(
    map(str, (_HERE, _HERE.parent, _HERE.parent / "protocol", Path(likeset.__file__).parents[1]))
)
"""For processes of sites: these modules, those of the protocols' tests, and the package that is tested here."""

SERVER = "server"
SITES = (SERVER, CONSUMER, "a", "b", "c")
INTERACTIVE: dict[str, Any] = {"protocol": "interactive"}
_HASHED = Hashing(dimension=64, gamma=0.2, commitment=commitment(SECRET))
_OPTIONS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
    "hashed": {"hashing": _HASHED},
    "interactive": INTERACTIVE,
    "gaussian": {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    "paper": PAPER,
    "wished": {},
    "wished-rounds": INTERACTIVE,
    "sealed-denied": {},
    "sealed-poor": {},
    "sealed-broken": {},
    "threshold-denied": THRESHOLD,
    "interactive-denied": INTERACTIVE,
    "interactive-poor": INTERACTIVE,
    "gaussian-denied": {**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
    "too-few": {"quorum": 3},
}
SCENARIOS: dict[str, Terms] = {name: terms(run=name, **options) for name, options in _OPTIONS.items()}
ORDERS: dict[str, dict[str, Any]] = {
    "b": {
        "deny": ["sealed-denied", "threshold-denied", "interactive-denied", "gaussian-denied", "too-few"],
        "poor": ["sealed-poor", "interactive-poor"],
        "break": ["sealed-broken"],
    },
}
"""What the sites of these names do in which runs."""


def give_orders(folder: Path, *sites: str, **more: Any) -> None:
    """Into each site's own folder, or into those of some."""
    for site in sites or SITES:
        place = folder / site
        place.mkdir(parents=True, exist_ok=True)
        (place / "site.json").write_text(json.dumps({**ORDERS.get(site, {}), **more}))


def settle_sites(folder: Path, agreed: Iterable[Terms]) -> None:
    """Folders of all sites as they are before the first run: orders, and ledgers with accounts and no charges."""
    give_orders(folder)
    for one in agreed:
        for site in SITES:
            open_ledger(one, site, folder / site)


def run_locally(agreed: Terms, folder: Path) -> str:
    """One scenario on the local engine, among parties that the same factory makes; returns how it ended."""
    owners: dict[str, Resident] = {}
    for name in agreed.owners:
        try:
            taken = seat(agreed, name, folder / name)
        except LikesetError:
            continue
        assert taken is not None
        assert isinstance(taken.party, Shell)
        owners[name] = _unbreakable(taken.party)
    curator, consumer = seat(agreed, CURATOR, folder / SERVER), seat(agreed, CONSUMER, folder / CONSUMER)
    assert curator is not None
    assert consumer is not None
    assert isinstance(curator.party, CuratorShell)
    assert isinstance(consumer.party, ConsumerShell)
    told: list[bytes] = []
    honest = consumer.party.take

    def take(message: Message) -> tuple[Message, ...]:
        told.append(encode(message))
        return honest(message)

    consumer.party.take = take  # type: ignore[method-assign]
    try:
        LocalEngine().run(curator.party, owners, consumer.party)
    except LikesetError as error:
        return type(error).__name__
    assert consumer.keep is not None
    consumer.keep(told[-1])
    return "done"


def _unbreakable(owner: Shell[Owner]) -> Shell[Owner]:
    """In one process an owner's bug would end the run of all; between sites it is an abstention."""
    honest = owner.take

    def take(message: Message) -> tuple[Message, ...]:
        try:
            return honest(message)
        except RuntimeError as error:
            raise LikesetError("broken") from error

    owner.take = take  # type: ignore[method-assign]
    return owner


def _unsalted(message: StoredMessage) -> StoredMessage:
    """Without its salt, and without the head that follows from the salts before it."""
    return replace(message, salt=b"", after="")


def _without_salt(document: dict[str, Any]) -> dict[str, Any]:
    """A ledger salts the digest of each message that it keeps; the messages themselves are compared beside it."""
    return {name: value for name, value in document.items() if name != "digest"}


def check_traces(between: Path, local: Path) -> None:
    """Runs between organisations leave what local ones leave, but where too few take part.

    The curator asks who does before anything is charged; in one process all are there.
    """
    assert [name for name in SCENARIOS if traces(between, name) != traces(local, name)] == ["too-few"]
    assert _charges(between, "too-few") == 0 < _charges(local, "too-few")


def _charges(folder: Path, run: str) -> int:
    """How many there are in all ledgers of a run."""
    count = 0
    for site in SITES:
        with ledger_of(folder / site, run) as ledger:
            count += sum(entry.kind == "reserve" for entry in ledger.entries())
    return count


def traces(folder: Path, run: str) -> dict[str, object]:
    """All that a run leaves behind: the bytes of the summary, and every ledger to its last entry."""
    found: dict[str, object] = {}
    summary = folder / CONSUMER / f"{run}.summary"
    found["summary"] = summary.read_bytes() if summary.exists() else None
    for site in SITES:
        with ledger_of(folder / site, run) as ledger:
            assert ledger.verify(messages=True).ok
            entries = [(entry.kind, entry.key, _without_salt(entry.document())) for entry in ledger.entries()]
            found[site] = entries, [_unsalted(message) for message in ledger.messages()]
    return found
