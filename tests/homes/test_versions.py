"""Homes of different versions: each pair writes the newest that both read, and a mismatch is known before it costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from home_world import CONSUMER, Network, terms

from likeset.homes.consumer import PartyState, RunProgress
from likeset.homes.review import rows_sent
from likeset.homes.runs import Ending, Run
from likeset.protocol import wire
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.transports.sync import Synced

NOW = wire.READS[-1]
LATER = NOW + 1
RUN = terms()


@dataclass
class Versions(Network):
    """Homes that read messages of versions of their own; others read the present ones."""

    reads: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(wire, "READS", self.reads.get(name, (NOW,)))
            yield

    def ask(self, agreed: Terms) -> Run:
        with self.within(CONSUMER):
            return super().ask(agreed)

    def approve(self, agreed: Terms, *names: str) -> None:
        for name in names or self.owners:
            with self.within(name):
                super().approve(agreed, name)

    def turn(self, *names: str) -> Synced:
        together = Synced()
        for name in names or (CONSUMER, *self.owners, CURATOR):
            with self.within(name):
                together.add(super().turn(name))
        return together

    def progress(self) -> RunProgress:
        with self.within(CONSUMER):
            return self.consumer.progress(self.consumer.run(RUN.run))

    def charges(self) -> int:
        return sum(account.charges for account in self.consumer.home.database.accounts())


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str, int]]:
    """Writers and readers of all messages, with their versions."""
    found, encode = set[tuple[str, str, int]](), wire.encode

    def noted(message: wire.Message) -> bytes:
        found.add((message.sender, message.receiver, message.version))
        return encode(message)

    monkeypatch.setattr(wire, "encode", noted)
    return found


def _all_in(version: int) -> set[tuple[str, str, int]]:
    pairs = [(CONSUMER, CURATOR), (CURATOR, CONSUMER), *((CONSUMER, owner) for owner in "ab")]
    return {(*pair, version) for pair in [*pairs, *((owner, CURATOR) for owner in "ab")]}


def test_a_peer_of_a_higher_version_writes_the_older_one(tmp_path: Path, written: set[tuple[str, str, int]]) -> None:
    with Versions(tmp_path, reads={"a": (NOW, LATER)}) as network:
        network.held(RUN)
        assert network.progress().done
        assert rows_sent(network.owner("a").mail.letters(network.owner("a").runs()[0])) > 0
    assert written == _all_in(NOW)


def test_a_peer_of_a_lower_version_is_written_to_in_it_and_all_others_in_the_newer_one(
    tmp_path: Path, written: set[tuple[str, str, int]]
) -> None:
    newer = (NOW, LATER)
    with Versions(tmp_path, reads={CONSUMER: newer, CURATOR: newer, "b": newer}) as network:
        network.held(RUN)
        assert network.progress().done
    of_a = {entry for entry in _all_in(NOW) if "a" in entry}
    assert written == of_a | {entry for entry in _all_in(LATER) if "a" not in entry}


@pytest.mark.parametrize("quorum", [1, 2])
@pytest.mark.parametrize("apart", [{"a": (LATER,)}, {CONSUMER: (NOW, LATER), "b": (NOW, LATER), "a": (LATER,)}])
def test_an_owner_that_cannot_take_part_costs_nothing(
    tmp_path: Path, apart: dict[str, tuple[int, ...]], quorum: int
) -> None:
    """It shares no version with the consumer; or with the consumer, and none with the curator."""
    agreed = terms(quorum=quorum, answer_by="2029-04-01")
    with Versions(tmp_path, reads=apart) as network:
        network.approved(agreed)
        network.settle()
        owner, signs = network.owner("a"), CONSUMER in apart
        assert owner.home.database.accounts()[0].charges == 0
        run = owner.runs()[0]
        assert bool(run.acceptance) == signs
        if not signs:
            assert run.reason == f"{CONSUMER} reads messages of version {NOW}, and this home {LATER}"
            network.clock.now = run.deadline
            network.settle()
        progress = network.progress()
        assert progress.done == (quorum == 1)
        assert network.charges() == (1 if quorum == 1 else 0)
        if signs:
            assert progress.parties["a"] is PartyState.ABSTAINS
        if quorum == 2:
            assert progress.ended is Ending.QUORUM_MISSED
            assert (
                not signs
                or progress.detail == f"a reads messages of version {LATER}, and {CURATOR} those of version {NOW}"
            )


def test_a_curator_that_cannot_take_part_costs_nothing_and_the_consumer_learns_why(tmp_path: Path) -> None:
    with Versions(tmp_path, reads={CURATOR: (LATER,)}) as network:
        network.approved(RUN)
        network.settle()
        progress = network.progress()
        assert progress.parties[CURATOR] is PartyState.ABSTAINS
        assert progress.detail == f"{CONSUMER} reads messages of version {NOW}, and this home {LATER}"
        assert network.charges() == 0


def test_an_upgrade_between_two_letters_changes_no_byte_and_no_version(
    tmp_path: Path, written: set[tuple[str, str, int]]
) -> None:
    with Versions(tmp_path) as network:
        network.approved(RUN)
        network.turn("a", "b", CURATOR, CONSUMER)
        assert network.consumer.run(RUN.run).state == "begun"
        network.reads = dict.fromkeys((CONSUMER, "a", CURATOR), (NOW, LATER))
        network.drop()
        network.settle()
        assert network.progress().done
        for name in (CONSUMER, "a", "b", CURATOR):
            assert not network.sync(name).mail.home.database.verify().problems
    assert {version for *_, version in written} == {NOW}
