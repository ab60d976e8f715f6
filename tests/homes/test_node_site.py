"""A node behind the seat that engines talk to."""

import importlib.util
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from card_world import introduce
from node_world import Clock, approve, call, hear, logged, make_node, terms
from owner_letters import Outside

from likeset.homes.owner_node import OwnerNode
from likeset.protocol.terms import Budget
from likeset.protocol.wire import Asked, SummaryRelease, TargetRelease, encode
from likeset.transports.site_reasons import REASONS_FILE
from likeset.transports.sites import SETTINGS_FILE, SiteParties, SiteSettings, load_settings
from likeset.trust.cards import CardSecret

RUN = terms(expires="2099-01-01")  # sites have a real clock


def _settings(place: Path, site: str) -> SiteSettings:
    found = load_settings(place, site)
    assert isinstance(found, SiteSettings)
    return found


@dataclass
class Site:
    """A site whose settings name the node's factory, and who writes to it."""

    place: Path
    outside: Outside

    @property
    def folder(self) -> Path:
        """Of the node."""
        return self.place / "node-a"

    def table(self) -> SiteParties:
        """The site in a process that has just started."""
        return SiteParties("a", {RUN.digest: self.outside.invitation}, _settings(self.place, "a"))

    def decide(self) -> None:
        """Its steward approves."""
        with OwnerNode(self.folder) as steward:
            assert steward.approve(RUN.run, RUN.digest, by="Ada").accepted

    def accepted(self, table: SiteParties) -> bytes:
        """What the owner signs when its steward has approved."""
        assert table.standing(RUN.digest) == "waiting"
        self.decide()
        acceptance = table.standing(RUN.digest)
        assert isinstance(acceptance, bytes)
        return acceptance

    def refusals(self) -> list[str]:
        """In the audit log."""
        with OwnerNode(self.folder) as steward:
            return [entry["reason"] for entry in logged(steward, "refused")]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    introduce(make_node(tmp_path), RUN)
    settings = {"factory": "likeset.homes.owner.site:owner", "folder": str(tmp_path / "node-{site}")}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
    return Site(tmp_path, Outside(tmp_path / "outside", RUN))


def test_a_site_waits_for_its_steward_and_answers_when_he_has_approved(site: Site) -> None:
    table = site.table()
    assert table.standing(RUN.digest) == "waiting"
    acceptance = site.accepted(table)
    letter = site.outside.release(acceptance)
    first = table.hear(letter)
    assert isinstance(first, list)
    assert len(site.outside.read(first[0]).body.rows) == 12  # type: ignore[union-attr]
    assert table.hear(letter) == site.table().hear(letter) == first
    with OwnerNode(site.folder) as steward:
        steward.withdraw(RUN.run, by="Ada")
    assert table.hear(letter) == table.standing(RUN.digest) == "abstains"


def test_a_node_remembers_in_its_ledger_what_it_answered(site: Site) -> None:
    """A second release in the place of the first, to a site that started anew."""
    table = site.table()
    letter = site.outside.release(site.accepted(table))
    first = table.hear(letter)
    with OwnerNode(site.folder) as anew:
        other = replace(call(RUN), body=TargetRelease(release=np.ones(RUN.kernel.dimension)))
        assert hear(anew, encode(other), job=[RUN]) == "abstains"
        kept = hear(anew, encode(call(RUN)), job=[RUN])
    assert isinstance(first, list)
    assert [site.outside.read(answer).data for answer in first] == kept


def test_an_owner_that_starts_anew_sends_no_other_rows_to_other_releases(tmp_path: Path) -> None:
    """In ``interactive`` answers depend on all that was heard; a second telling of the run must be the same telling."""
    run = terms(
        protocol="interactive",
        size=2,
        summary_release="gaussian",
        owner_budget=Budget(2.0, 1e-5),
        seed_rows=1,
        seed_digest="0" * 64,
    )
    width = run.kernel.dimension

    def told(value: float) -> list[bytes]:
        release = SummaryRelease(coordinates=np.arange(width), values=np.linspace(-value, value, width))
        return [
            encode(replace(call(run), sender="curator", round=1, body=body)) for body in (release, Asked(asked=True))
        ]

    opening = encode(replace(call(run, release=np.linspace(0.0, 1.0, width)), round=0))
    allowed = {"epsilon": 2.0, "delta": 1e-5, "rows": 36}
    folder = make_node(tmp_path, per_run=allowed, total=dict(allowed))
    with OwnerNode(folder, clock=Clock()) as node:
        approve(node, run)
        said = [hear(node, data) for data in (opening, *told(0.5))]
        assert [len(answer) for answer in said] == [0, 1, 1]
    with OwnerNode(folder, clock=Clock()) as anew:
        assert hear(anew, opening) == []
        assert hear(anew, told(-3.0)[0]) == "abstains"
        assert "another one came in its place" in logged(anew, "refused")[-1]["reason"]
        assert [hear(anew, data) for data in (opening, *told(0.5))] == said


def test_a_site_whose_node_refuses_abstains(site: Site) -> None:
    table = site.table()
    assert table.standing(RUN.digest) == "waiting"
    with OwnerNode(site.folder) as steward:
        steward.deny(RUN.run, by="Ada", reason="no contract")
    assert table.standing(RUN.digest) == "abstains"
    assert "no contract" not in (site.folder / REASONS_FILE).read_text()


def test_a_site_of_another_name_than_its_node_abstains(site: Site) -> None:
    site.folder.rename(site.place / "node-b")
    table = SiteParties("b", {RUN.digest: site.outside.invitation}, _settings(site.place, "b"))
    assert table.standing(RUN.digest) == "abstains"
    assert "the node in this directory is a" in (site.place / "node-b" / REASONS_FILE).read_text()


def test_what_a_site_refuses_before_it_comes_to_the_node_is_in_the_audit_log(site: Site) -> None:
    table = site.table()
    site.accepted(table)
    other = Outside(site.place / "other", terms(run="run-2", expires="2099-01-01"))
    elsewhere = other.consumer.identity.secret
    with OwnerNode(site.folder) as node:
        of_another = site.outside.forged(node, elsewhere, run_id=bytes.fromhex(other.run.run_id))
    for data, reason in (
        (bytes(1 << 23), "larger than a letter may be"),
        (b"no letter at all, but long enough to be looked at" * 3, "the form of a letter"),
        (of_another, "of a run that did not come with this job"),
    ):
        before = site.refusals()
        assert table.hear(data) == "abstains"
        *earlier, last = site.refusals()
        assert earlier == before
        assert reason in last
    assert table.standing("0" * 64) == "abstains"
    assert table.start(RUN.digest, []) == "abstains"
    assert [reason.partition(": ")[2] for reason in site.refusals()[3:]] == [
        "it is under terms that did not come with this job",
        "an owner was asked to start a run",
    ]
    with OwnerNode(site.folder) as steward:
        assert steward.ledger.messages() == ()


def test_what_the_node_refuses_is_in_the_audit_log_once(site: Site) -> None:
    table = site.table()
    acceptance = site.accepted(table)
    assert table.hear(site.outside.release(acceptance, call(RUN, round_number=7))) == "abstains"
    (only,) = site.refusals()
    assert "may not come now" in only
    with OwnerNode(site.folder) as node:
        stranger = site.outside.forged(node, CardSecret.generate(RUN.consumer))
    assert table.hear(stranger) == "abstains"
    (_, second) = site.refusals()
    assert "somebody whom the terms do not name" in second
    with OwnerNode(site.folder) as steward:
        steward.withdraw(RUN.run, by="Ada")
    assert site.table().standing(RUN.digest) == "abstains"
    (withdrawn,) = site.refusals()[2:]
    assert "was withdrawn" in withdrawn


def test_a_site_that_cannot_tell_its_node_sounds_the_same(site: Site) -> None:
    site.folder.rename(site.place / "elsewhere")
    assert site.table().hear(b"nonsense") == "abstains"


@pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")
def test_a_call_of_another_site_than_the_curators_is_refused_and_logged(site: Site) -> None:
    from likeset.transports.nvflare.parts import Site as Seat

    table = site.table()
    acceptance = site.accepted(table)
    seat = Seat()
    seat._table = table
    assert seat.hear(site.outside.release(acceptance), context=SimpleNamespace(caller="b")) == "abstains"
    assert seat.standing(RUN.digest, context=SimpleNamespace(caller="b")) == "abstains"
    assert ["does not come from the curator" in reason for reason in site.refusals()] == [True, True]
    assert seat.standing(RUN.digest, context=SimpleNamespace(caller="server")) == acceptance
