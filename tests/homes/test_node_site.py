"""A node behind the seat that engines talk to."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from node_world import Clock, approve, call, hear, invite, logged, make_node, terms

from likeset.homes.owner.node import OwnerNode
from likeset.protocol.messages import Asked, SummaryRelease, TargetRelease, encode
from likeset.protocol.term_parts import Budget
from likeset.protocol.terms import Terms
from likeset.transports.sites import REASONS_FILE, SETTINGS_FILE, SiteParties, load_settings


@pytest.fixture
def table(tmp_path: Path) -> SiteParties:
    """A site whose settings name the node's factory; terms that end in 2099, since sites have a real clock."""
    make_node(tmp_path)
    settings = {"factory": "likeset.homes.owner.site:owner", "folder": str(tmp_path / "node-{site}")}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
    run = terms(expires="2099-01-01")
    return SiteParties("a", {run.digest: run}, load_settings(tmp_path, "a"))


def test_a_site_waits_for_its_steward_and_answers_when_he_has_approved(table: SiteParties, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    assert table.standing(run.digest) == "waiting"
    assert table.hear(encode(call(run))) == "abstains"
    with OwnerNode(tmp_path / "node-a") as steward:
        approve(steward, run)
    assert table.standing(run.digest) == "ready"
    first = table.hear(encode(call(run)))
    assert isinstance(first, list)
    assert table.hear(encode(call(run))) == first
    with OwnerNode(tmp_path / "node-a") as steward:
        steward.withdraw(run.run, by="Ada")
    assert table.hear(encode(call(run))) == "abstains"


def test_a_node_remembers_in_its_ledger_what_it_answered(table: SiteParties, tmp_path: Path) -> None:
    """A second release in the place of the first, to a site that started anew."""
    (run,) = table.terms.values()
    with OwnerNode(tmp_path / "node-a") as steward:
        invite(steward, run)
        approve(steward, run)
    first = table.hear(encode(call(run)))
    assert isinstance(first, list)
    with OwnerNode(tmp_path / "node-a") as anew:
        other = replace(call(run), body=TargetRelease(release=np.ones(run.kernel.dimension)))
        assert hear(anew, encode(other)) == "abstains"
        assert hear(anew, encode(call(run))) == first


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


def test_a_site_whose_node_refuses_abstains(table: SiteParties, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    assert table.standing(run.digest) == "waiting"
    with OwnerNode(tmp_path / "node-a") as steward:
        steward.deny(run.run, by="Ada", reason="no contract")
    assert table.standing(run.digest) == "abstains"
    assert "no contract" not in (tmp_path / "node-a" / REASONS_FILE).read_text()


def test_a_site_of_another_name_than_its_node_abstains(table: SiteParties, tmp_path: Path) -> None:
    (run,) = table.terms.values()
    (tmp_path / "node-a").rename(tmp_path / "node-b")
    assert SiteParties("b", table.terms, load_settings(tmp_path, "b")).standing(run.digest) == "abstains"
    assert "the node in this directory is a" in (tmp_path / "node-b" / REASONS_FILE).read_text()


def refusals(tmp_path: Path) -> list[str]:
    with OwnerNode(tmp_path / "node-a") as steward:
        return [one["reason"] for one in logged(steward, "refused")]


def agreed(table: SiteParties, tmp_path: Path) -> Terms:
    (run,) = table.terms.values()
    assert table.standing(run.digest) == "waiting"
    with OwnerNode(tmp_path / "node-a") as steward:
        approve(steward, run)
    return run


def test_what_a_site_refuses_before_it_comes_to_the_node_is_in_the_audit_log(
    table: SiteParties, tmp_path: Path
) -> None:
    run = agreed(table, tmp_path)
    other = terms(expires="2099-01-01", size=5)
    for data, reason in (
        (encode(call(run, release=np.zeros(1 << 19))), "more than the"),
        (b"no message at all, but long enough to be looked at" * 3, "not a message of version"),
        (encode(call(other)), "under terms that did not come with this job"),
    ):
        before = refusals(tmp_path)
        assert table.hear(data) == "abstains"
        *earlier, last = refusals(tmp_path)
        assert earlier == before
        assert reason in last
    assert table.standing("0" * 64) == "abstains"
    assert table.start(run.digest) == "abstains"
    assert table.acknowledge(run.digest, b" " * (1 << 26)) == "noted"
    assert [one.partition(": ")[2] for one in refusals(tmp_path)[3:]] == [
        "it is under terms that did not come with this job",
        "an owner was asked to start a run",
        "run run-1: a receipt that is too large, or none",
    ]
    with OwnerNode(tmp_path / "node-a") as steward:
        assert steward.ledger.messages() == ()


def test_what_the_node_refuses_is_in_the_audit_log_once(table: SiteParties, tmp_path: Path) -> None:
    run = agreed(table, tmp_path)
    assert table.hear(encode(call(run, round_number=7))) == "abstains"
    (only,) = refusals(tmp_path)
    assert "may not come now" in only
    with OwnerNode(tmp_path / "node-a") as steward:
        steward.withdraw(run.run, by="Ada")
    fresh = SiteParties("a", table.terms, table.settings)
    assert fresh.hear(encode(call(run))) == fresh.standing(run.digest) == "abstains"
    assert ["withdrawn" in one for one in refusals(tmp_path)[1:]] == [True, True]


def test_a_site_that_cannot_tell_its_node_sounds_the_same(table: SiteParties, tmp_path: Path) -> None:
    (tmp_path / "node-a").rename(tmp_path / "elsewhere")
    assert table.hear(b"nonsense") == "abstains"


@pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")
def test_a_call_of_another_site_than_the_curators_is_refused_and_logged(table: SiteParties, tmp_path: Path) -> None:
    from likeset.transports.nvflare.parts import Site

    run = agreed(table, tmp_path)
    site = Site()
    site._table = table
    assert site.hear(encode(call(run)), context=SimpleNamespace(caller="b")) == "abstains"
    assert site.standing(run.digest, context=SimpleNamespace(caller="b")) == "abstains"
    assert ["does not come from the curator" in one for one in refusals(tmp_path)] == [True, True]
    assert site.standing(run.digest, context=SimpleNamespace(caller="server")) == "ready"
