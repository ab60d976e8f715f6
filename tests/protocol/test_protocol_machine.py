"""A hypothesis state machine: any network, any restarts, any impatience; what must hold, holds after every step."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from protocol_world import CONSUMER, THRESHOLD, open_accounts, terms, world
from test_faults import Network

from chance import examples
from likeset.errors import BadMessage, LikesetError, QuorumMissed
from likeset.ledger.ledger import Ledger
from likeset.privacy.guarantee import View
from likeset.protocol.terms import Budget
from likeset.protocol.wire import Delivery, Offer, Summary, decode
from likeset.transports.local import ChargedParty

INTERACTIVE: dict[str, Any] = {"protocol": "interactive", "size": 2}
KINDS: dict[str, tuple[dict[str, Any], int]] = {
    # The second number: how often noise is drawn in a run, at most.
    "sealed": ({}, 1),
    "threshold": (THRESHOLD, 2),
    "interactive": (INTERACTIVE, 1),
    "gaussian": ({**INTERACTIVE, "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)}, 2),
}
places = st.integers(0, 10**6)
names = st.sampled_from(["curator", CONSUMER, "a", "b", "c"])


class Machine(RuleBasedStateMachine):
    """One run over a ledger on disk."""

    options: dict[str, Any]
    draws: int

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        agreed = terms(**self.options)
        self.ledger = Ledger(Path(self.folder.name) / "ledger.sqlite")
        # Exactly what one run needs: a second charge for the same rows would be refused.
        open_accounts(self.ledger, agreed, rows=agreed.rows_per_owner)
        self.world = world(agreed, self.ledger)
        self.network = Network(self.world)
        self.gave_up = False
        self.failed = False
        self.first_summary: Summary | None = None

    @property
    def curator(self) -> ChargedParty[Any]:
        return self.network.parties["curator"]

    def _safely(self, action: Callable[[], object]) -> None:
        try:
            action()
        except QuorumMissed:
            self.failed = True
            self.network.mend("curator")

    @precondition(lambda self: self.network.bag)
    @rule(place=places)
    def deliver(self, place: int) -> None:
        data = self.network.bag.pop(place % len(self.network.bag))
        if not self.network.deliver(data):
            self.network.bag.append(data)

    @precondition(lambda self: self.network.bag)
    @rule(place=places)
    def deliver_twice(self, place: int) -> None:
        data = self.network.bag[place % len(self.network.bag)]
        self.network.deliver(data)

    @precondition(lambda self: self.network.bag)
    @rule(place=places)
    def lose(self, place: int) -> None:
        """Lost for now: whoever sent it sends it again when it is restarted or asked again."""
        self.network.bag.pop(place % len(self.network.bag))

    @rule(place=places)
    def deliver_something_old(self, place: int) -> None:
        old = [data for log in self.network.log.values() for data in log]
        if old:
            self.network.deliver(old[place % len(old)])

    @precondition(lambda self: self.network.bag)
    @rule(place=places, byte=places, value=st.integers(0, 255))
    def mangle(self, place: int, byte: int, value: int) -> None:
        data = bytearray(self.network.bag[place % len(self.network.bag)])
        head = 9 + int.from_bytes(data[5:9], "little")
        data[byte % head] = value
        data[-32:] = hashlib.sha256(data[:-32]).digest()
        try:
            message = decode(bytes(data))
        except BadMessage:
            return
        if message.receiver not in self.network.parties:
            return
        party = self.network.parties[message.receiver]
        if message.run != self.world.terms.run or message.terms != self.world.terms.digest:
            with pytest.raises(LikesetError):
                party.take(message)

    @rule(name=names)
    def restart(self, name: str) -> None:
        self._safely(lambda: self.network.restart(name))

    @rule()
    def send_all_again(self) -> None:
        """What every party that still waits gets sooner or later."""
        for log in list(self.network.log.values()):
            for data in list(log):
                self.network.deliver(data)

    @rule(name=st.sampled_from(["a", "b", "c"]))
    def give_up(self, name: str) -> None:
        self.gave_up = self.gave_up or name in self.curator.party.waiting_for
        self._safely(lambda: self.network.send(self.curator.give_up(name)))

    @invariant()
    def nothing_is_drawn_twice(self) -> None:
        assert self.world.noise.calls <= self.draws

    @invariant()
    def every_place_has_one_message(self) -> None:
        for (sender, _, _, kind), sent in self.network.places.items():
            # A curator that is restarted may be patient where it was not before, and then asks or selects otherwise.
            if not (self.gave_up and sender == "curator" and kind in ("asked", "summary")):
                assert len(sent) == 1

    @invariant()
    def rows_leave_once_within_what_was_announced_and_after_they_were_charged(self) -> None:
        charged = {account.view: account.rows for account in self.ledger.accounts()}
        for name in self.world.terms.owners:
            rows: dict[int, bytes] = {}
            for (sender, *_), sent in self.network.places.items():
                for data in sent if sender == name else ():
                    body = decode(data).body
                    if isinstance(body, Offer):
                        pairs = list(zip(body.handles.tolist(), body.rows, strict=True))
                    elif isinstance(body, Delivery):
                        pairs = [(body.handle, body.rows[0])]
                    else:
                        continue
                    for handle, row in pairs:
                        assert rows.setdefault(handle, row.tobytes()) == row.tobytes()
            assert len(set(rows.values())) == len(rows) <= self.world.terms.rows_per_owner
            assert len(rows) <= charged[View.curator(name)]

    @invariant()
    def what_owners_heard_was_charged(self) -> None:
        charges = {account.view: account.charges for account in self.ledger.accounts()}
        kinds = {(kind, number) for _, _, number, kind in self.network.places}
        if ("target", 0) in kinds:
            assert charges[View.owners(CONSUMER)] == 1
        drawn = self.world.terms.auction == "threshold" or self.world.terms.summary_release != "none"
        for name in self.world.terms.owners:
            heard = ("asked", 2) in kinds if self.world.terms.protocol == "sealed" else ("summary-release", 2) in kinds
            assert charges[View.owners(name)] >= int(heard and drawn)
            assert charges[View.owners(name)] <= 2 * int(drawn)

    @invariant()
    def the_curator_sees_no_more_rows_than_announced(self) -> None:
        assert self.curator.party.rows_seen <= len(self.world.terms.owners) * self.world.terms.rows_per_owner
        assert not self.curator.party.flags

    @invariant()
    def a_summary_holds_rows_of_owners_and_stays_what_it_is(self) -> None:
        summary = self.network.summary
        if summary is None:
            return
        assert len(summary.rows) <= self.world.terms.size
        for place, row in zip(summary.owners, summary.rows, strict=True):
            assert (self.world.data[self.world.terms.owners[place]] == row).all(axis=1).any()
        assert len(set(zip(summary.owners.tolist(), summary.handles.tolist(), strict=True))) == len(summary.rows)

    def teardown(self) -> None:
        """However it went so far: with patience, or without, the run comes to its end."""
        if not hasattr(self, "network"):
            return
        for _ in range(300):
            if self.network.summary is not None or self.failed:
                break
            if not self.network.bag:
                before = len(self.network.bag)
                self.network.start()
                self.send_all_again()
                for name in sorted(self.curator.party.waiting_for) if len(self.network.bag) > before else ():
                    self.give_up(name)
            while self.network.bag:
                self.network.deliver(self.network.bag.pop(0))
            for name in sorted(self.curator.party.waiting_for):
                self.give_up(name)
        assert self.network.summary is not None or self.failed
        self.nothing_is_drawn_twice()
        self.every_place_has_one_message()
        self.rows_leave_once_within_what_was_announced_and_after_they_were_charged()
        assert self.ledger.verify().ok
        self.ledger.close()
        self.folder.cleanup()


@pytest.mark.parametrize("kind", KINDS)
def test_machine(kind: str) -> None:
    options, draws = KINDS[kind]
    machine = type(f"{kind.title()}Machine", (Machine,), {"options": options, "draws": draws})
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(8),
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
        ),
    )
