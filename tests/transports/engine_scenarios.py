"""The runs that every engine must bring to the same end: the same summary and the same entries in every ledger."""

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from letter_world import settle_identities, terms_between
from protocol_world import CONSUMER, PAPER, THRESHOLD, terms
from site_factory import ledger_of, open_ledger, seat

import likeset
from likeset.errors import LikesetError, QuorumMissed
from likeset.homes.mail import ConsumerRun, CuratorRun, Invitation, SiteRun
from likeset.ledger.ledger import StoredMessage
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Budget, Terms
from likeset.protocol.wire import MOST_BYTES
from likeset.trust.letters import letter_in

_HERE = Path(__file__).parent
_FLOORS = [_HERE.parent / floor for floor in ("protocol", "homes")]
PYTHONPATH = os.pathsep.join(map(str, (_HERE, _HERE.parent, *_FLOORS, Path(likeset.__file__).parents[1])))
"""For processes of sites: these modules, those of lower floors' tests, and the package that is tested here."""

SERVER = "server"
SITES = (SERVER, CONSUMER, "a", "b", "c")
_INVITATIONS = "invitations"
INTERACTIVE: dict[str, Any] = {"protocol": "interactive"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "uniform": {"offers": "uniform"},
    "threshold": THRESHOLD,
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


_templates: dict[tuple[Terms, ...], Path] = {}


def settle_sites(folder: Path, agreed: Iterable[Terms]) -> dict[str, Invitation]:
    """Folders of all sites as they are before the first run: cards, orders, and ledgers with accounts and no charges.

    They are made once in each process of tests, and copied.

    Returns:
        The terms, which now name cards, signed by the consumer; by the names of the runs.
    """
    unnamed = tuple(agreed)
    if unnamed not in _templates:
        private = Path(tempfile.mkdtemp(prefix="settled-sites-"))
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        template = private / "sites"  # whose modes are as usual, which copies have, too
        _settle(template, unnamed)
        _templates[unnamed] = template
    shutil.copytree(_templates[unnamed], folder, dirs_exist_ok=True)
    return {one.run: invitation_to(folder, one.run) for one in unnamed}


def _settle(folder: Path, unnamed: tuple[Terms, ...]) -> None:
    give_orders(folder)
    homes = settle_identities(folder, unnamed[0], curator=SERVER)
    (folder / _INVITATIONS).mkdir()
    for one in unnamed:
        run_id = hashlib.sha256(one.run.encode()).hexdigest()[:32]
        named = terms_between(one, {name: homes[name] for name in homes}, run_id=run_id)
        data = Invitation.sign(named, homes[CONSUMER]).to_bytes()
        (folder / _INVITATIONS / one.run).write_bytes(data)
        for site in SITES:
            open_ledger(named, site, folder / site)
    for home in homes.values():
        home.book.close()


def invitation_to(folder: Path, run: str) -> Invitation:
    """The signed terms of a run among sites that were settled."""
    return Invitation.read((folder / _INVITATIONS / run).read_bytes())


def run_locally(invitation: Invitation, folder: Path) -> str:
    """One scenario in this process, through letters between sites; returns how it ended."""
    try:
        _carry_letters(invitation, folder)
    except LikesetError as error:
        return type(error).__name__
    return "done"


def _carry_letters(invitation: Invitation, folder: Path) -> None:
    terms = invitation.terms
    curator, consumer = seat(invitation, CURATOR, folder / SERVER), seat(invitation, CONSUMER, folder / CONSUMER)
    assert isinstance(curator, CuratorRun)
    assert isinstance(consumer, ConsumerRun)
    runs: dict[str, SiteRun] = {CURATOR: curator, CONSUMER: consumer}
    for name in terms.owners:
        with suppress(LikesetError):
            run = seat(invitation, name, folder / name)
            assert run is not None
            runs[name] = run
    signed = [run.acceptance() for name, run in runs.items() if name in terms.owners]
    if len(signed) < terms.quorum:
        raise QuorumMissed(f"{len(signed)} owners take part")
    names = {fingerprint: name for name, fingerprint in terms.cards.items()}
    queue = deque(consumer.begin([*signed, curator.acceptance()]))
    while queue or curator.waiting_for:
        if not queue:
            queue.extend(letter for owner in sorted(curator.waiting_for) for letter in curator.give_up(owner))
            continue
        data = queue.popleft()
        reader = names[letter_in(data, most_bytes=MOST_BYTES).header.recipient]
        try:
            queue.extend(runs[reader].hear(data))
        except (LikesetError, RuntimeError):  # an owner may break
            if reader not in terms.owners:
                raise
            queue.extend(curator.give_up(reader))
    for data in curator.end():
        with suppress(LikesetError):
            runs[names[letter_in(data, most_bytes=MOST_BYTES).header.recipient]].hear(data)


def _unsalted(message: StoredMessage) -> StoredMessage:
    """Without its salt, and without the head that follows from the salts before it."""
    return replace(message, salt=b"", after="")


def _without_salt(document: dict[str, Any]) -> dict[str, Any]:
    """A ledger salts the digest of each message that it keeps; the messages themselves are compared beside it."""
    return {name: value for name, value in document.items() if name != "digest"}


def check_traces(between: Path, local: Path) -> None:
    """Runs between processes leave what those in one process leave; without a quorum that is nothing."""
    assert [name for name in SCENARIOS if traces(between, name) != traces(local, name)] == []
    assert sum(charges(local, site, "too-few") for site in SITES) == 0


def charges(folder: Path, site: str, run: str) -> int:
    """How many there are in a site's ledger of a run."""
    with ledger_of(folder / site, run) as ledger:
        return sum(entry.kind == "reserve" for entry in ledger.entries())


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
