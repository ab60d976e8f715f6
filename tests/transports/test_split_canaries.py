"""No value of a row, a label, an id or the target in any byte of a curator or a witness, nor on the way to them.

All parties are processes of the command line. They stand still at moments before, in and after the computation; then
their memory and that of their workers, all their files, the mailbox and what passes the tunnels in the clear are
searched for every form of every value. The same search of the same kind of dump finds an owner's rows at that owner,
the target and what was bought at the consumer, and each compute party's own shares in its own memory.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from between_world import OWNERS
from canary_world import GAMMA, CanaryMarket, CanaryRow, SharedSlots, canaries, canary_rows, read_shared, target_rows
from held_party import go_on, reached
from home_world import CONSUMER
from memory_search import Search, memory_of
from split_homes import COMPUTING
from split_processes import RUN, Processes, run_of
from split_world import needs_engine

from likeset.homes.consumer import Consumer
from likeset.homes.home import Home
from likeset.homes.mail import Mail
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS

pytestmark = [
    pytest.mark.soak,
    needs_engine,
    pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc to read memory"),
]

HELD = str(Path(__file__).with_name("held_party.py"))
SHARING = tuple(f"shared by {name}" for name in (CONSUMER, *OWNERS))
SHARE = "share for"
_SECONDS = 1200.0  # until something must have happened, however busy the machine is


@dataclass
class Searched:
    """Names of what was found, and of whose shares, by (moment, party)."""

    tees: Path
    place: Path
    moments: list[str] = field(default_factory=list)
    found: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    shares: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    bought: frozenset[str] = frozenset()

    def at(self, *parties: str) -> set[str]:
        return {name for (_, party), names in self.found.items() if party in parties for name in names}


def named_rows(owner: str) -> Mapping[CanaryRow, str]:
    return {row: f"row {place} of {owner}" for place, row in enumerate(canary_rows(owner))}


def patterns_of(owner: str, shared: SharedSlots) -> dict[bytes, str]:
    rows = named_rows(owner)

    def whose(slot: int) -> str:
        return next(name for row, name in rows.items() if row.note.encode() in shared.records[slot])

    forms = dict(form for row, name in rows.items() for form in row.forms(name))
    return {**forms, **dict(shared.forms(owner, whose))}


def patterns_of_target(shared: SharedSlots) -> dict[bytes, str]:
    forms = dict(form for row in target_rows() for form in row.forms("target"))
    return {**forms, **dict(shared.forms("target", lambda _: "target"))}


def held_moments(tees: Path, processes: Processes) -> Iterator[str]:
    """Moments at which somebody stands still, one after another, until the consumer has ended."""
    seen, end = set[str](), time.monotonic() + _SECONDS
    while processes.running[CONSUMER].poll() is None:
        assert time.monotonic() < end, (seen, sorted(path.name for path in tees.iterdir()))
        for path in sorted(tees.glob("*.reached")):
            if path.stem not in seen:
                seen.add(path.stem)
                yield path.stem
                go_on(tees, path.stem)
                end = time.monotonic() + _SECONDS
        time.sleep(0.05)


def memory_found(processes: Processes, party: str, search: Search) -> set[str]:
    found = search.within(memory_of(processes.running[party].pid))
    for pid in processes.workers(party):
        with suppress(FileNotFoundError, ProcessLookupError):  # its work is done, and it ended meanwhile
            found |= search.within(memory_of(pid))
    return found


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """A whole run, looked at whenever it stands still."""
    folder = tmp_path_factory.mktemp("canaries")
    tees, place = folder / "tees", folder / "run"
    for name in ("mail", "tunnels"):
        (tees / name).mkdir(parents=True)
    result = Searched(tees, place)

    def command(name: str) -> tuple[str, ...]:
        return sys.executable, HELD, str(tees), name

    with canaries(), run_of(place, command=command, make=CanaryMarket, gamma=GAMMA) as processes:
        for moment in held_moments(tees, processes):
            result.moments.append(moment)
            look(result, processes, moment)
        assert processes.running[CONSUMER].wait() == 0, (place / f"log-{CONSUMER}").read_text()
        look_at_files(result)
    with Home(place / CONSUMER) as home:
        consumer = Consumer(Mail(home))
        terms = consumer.run(RUN).terms
        summary = consumer.folder(RUN).summary(terms)
    assert terms.split is not None
    assert terms.split.gamma == GAMMA
    labels = {row.label: name for owner in OWNERS for row, name in named_rows(owner).items()}
    result.bought = frozenset(labels[str(label)] for label in summary.labels)
    return result


def look(result: Searched, processes: Processes, moment: str) -> None:
    if moment in SHARING:
        name = moment.removeprefix("shared by ")
        shared = read_shared(result.tees, name)
        own = patterns_of_target(shared) if name == CONSUMER else patterns_of(name, shared)
        result.found[moment, name] = memory_found(processes, name, Search(own))
    if not all(reached(result.tees, word).exists() for word in SHARING):
        return
    everything = search_of(result.tees)
    for party in COMPUTING:
        found = memory_found(processes, party, everything)
        result.shares[moment, party] = {name for name in found if name.startswith(SHARE)}
        result.found[moment, party] = found - result.shares[moment, party]


@cache
def search_of(tees: Path) -> Search:
    """Everything that anybody shared, and every row; and the first share of each, to see that a search finds it."""
    patterns = patterns_of_target(read_shared(tees, CONSUMER))
    for name in OWNERS:
        patterns |= patterns_of(name, read_shared(tees, name))
    for name in (CONSUMER, *OWNERS):
        for party, share in zip(COMPUTING, read_shared(tees, name).shares, strict=True):
            patterns[share[0].astype("<i8").tobytes()] = f"{SHARE} {party} of {name}"
    return Search(patterns)


def look_at_files(result: Searched) -> None:
    everything = search_of(result.tees)
    folders = {party: result.place / party for party in COMPUTING}
    folders |= {what: result.tees / what for what in ("mail", "tunnels")} | {"mailbox": result.place / "mailbox"}
    for name, folder in folders.items():
        found = everything.in_files(folder)
        result.shares["files", name] = {name for name in found if name.startswith(SHARE)}
        result.found["files", name] = found - result.shares["files", name]
    logs = [(result.place / f"log-{party}").read_bytes() for party in (*COMPUTING, *OWNERS)]
    result.found["files", "logs"] = everything.within(logs)


def test_it_was_looked_before_in_and_after_the_computation(searched: Searched) -> None:
    assert set(searched.moments) >= {*SHARING, "preparing began", "picking began", "opened", "bought"}
    # The last word before the opening: swaps of so few picks are one round, so that their first word is their last.
    assert searched.moments[searched.moments.index("opened") - 1].startswith("improving")
    assert 0 < len(searched.bought) <= 6


def test_the_search_finds_what_is_there(searched: Searched) -> None:
    """Rows at their owners, the target at the consumer, what was bought at its buyer, shares where they belong."""
    for name in OWNERS:
        found = searched.found[f"shared by {name}", name]
        assert {form.partition(": ")[2] for form in found} >= {
            "a number in digits", "its note", "its label", "its handle", "its record", "r",
            "its words in 64 bits", "its encoded row in single precision",
        }, sorted(found)  # fmt: skip
        assert f"{name}: K" in found
    own = searched.found[f"shared by {CONSUMER}", CONSUMER]
    assert "target: its words in 64 bits" in own


def test_every_compute_party_holds_its_own_share_and_curator_and_witness_never_the_third(searched: Searched) -> None:
    """With three shares of a row anybody would have the row. Two of them the engine gives to each party."""
    for rank, party in enumerate(COMPUTING):
        own, third = (
            {f"{SHARE} {COMPUTING[(rank + step) % 3]} of {name}" for name in (CONSUMER, *OWNERS)} for step in (0, 2)
        )
        assert searched.shares["preparing began", party] >= own
        held = set[str]().union(*(held for (_, where), held in searched.shares.items() if where == party))
        assert party == CONSUMER or not held & third


def test_curator_and_witness_hold_no_value_of_anybody_at_any_moment(searched: Searched) -> None:
    looked = [party for moment, party in searched.found if party in (CURATOR, WITNESS) and moment != "files"]
    assert len(looked) >= 10
    assert searched.at(CURATOR, WITNESS) == set()


def test_nothing_is_on_any_way_between_parties(searched: Searched) -> None:
    mail, tunnels = (sorted((searched.tees / way).iterdir()) for way in ("mail", "tunnels"))
    assert len(mail) > 10
    assert {path.name.split("-")[0] for path in tunnels} >= {CURATOR, WITNESS, "new"}
    assert searched.at("mail", "mailbox", "tunnels", "logs") == set()
    assert len(searched.shares["files", "tunnels"]) == 9, "a search of tunnels that does not find the shares in them"


def test_the_consumer_holds_nothing_of_rows_that_it_did_not_buy(searched: Searched) -> None:
    theirs = {name for name in searched.at(CONSUMER) if not name.startswith("target") and not name.endswith(": K")}
    assert {name.partition(": ")[0] for name in theirs} == searched.bought
    assert not [name for name in theirs if name.endswith("its id")]
