"""Runs between organisations with wishes of the consumer's own for the selection."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from node_world import SCHEMA_OF_ALL, rows_text, write_policy
from remote_world import OWNERS, hold, make_world, write_job

from likeset.app.report import render
from likeset.errors import BadDocument, InvalidArgument, NotCurated
from likeset.geometry.kernels import median_gamma, squared_mmd
from likeset.geometry.selection import Selection
from likeset.homes.consumer_home import ConsumerHome, KeptRun, consumer_run
from likeset.homes.curator_home import CuratorHome, curator_run
from likeset.homes.mail import CuratorShell
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Summary, decode
from likeset.run.job import Job
from likeset.run.runs import collect, invite, publish
from likeset.tables.records import DeclaredRecords
from likeset.tables.sources import open_source

pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture
def home(tmp_path: Path) -> ConsumerHome:
    return make_world(tmp_path)


def invited(home: ConsumerHome, **changes: Any) -> KeptRun:
    return invite(home, Job.load(write_job(home.folder.parent, **changes)), expires="2099-01-01")


def done(home: ConsumerHome, run: KeptRun) -> dict[str, Any]:
    """Brought to its end."""
    assert hold(home.folder.parent, run.name).ended == "done"
    return dict(publish(collect(run), run.result, render=render).result)


def received(run: KeptRun) -> Summary:
    body = decode((run.folder / "summary.bin").read_bytes()).body
    assert isinstance(body, Summary)
    return body


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_the_curator_takes_the_width_that_the_consumer_wishes(home: ConsumerHome, protocol: str) -> None:
    run = invited(home, gamma=2.5, protocol=protocol)
    assert done(home, run)["gamma"] == 2.5
    target, found = np.load(run.folder / "target.npy"), received(run)
    assert found.squared_mmds[-1] == pytest.approx(squared_mmd(found.rows, target, gamma=2.5), rel=1e-3)


def test_the_width_by_the_median_follows_its_scale(home: ConsumerHome) -> None:
    run = invited(home, gamma_scale=4.0)
    target = np.load(run.folder / "target.npy")
    gamma = median_gamma(target, scale=4.0, coins=np.random.default_rng(0))
    assert done(home, run)["gamma"] == run.selection.gamma == gamma
    found = received(run)
    assert found.squared_mmds[-1] == pytest.approx(squared_mmd(found.rows, target, gamma=gamma), rel=1e-3)


def test_weights_come_back_with_the_rows(home: ConsumerHome) -> None:
    run = invited(home, weights=True)
    result = done(home, run)
    weights = pq.read_table(run.result / "summary.parquet").column("weight").to_numpy()
    assert weights.sum() == pytest.approx(1.0)
    assert weights.max() > weights.min() + 0.01
    assert result["in_sample_squared_mmd"] < received(run).squared_mmds[-1]


def _public(terms: Terms) -> Terms:
    """What may not depend on wishes: all but the name, the id and the seed, which are new for each run."""
    return replace(terms, run="any", run_id="0" * 32, kernel=replace(terms.kernel, seed=0))


def test_terms_say_nothing_of_wishes_for_the_selection(home: ConsumerHome) -> None:
    """Owners read them. The release's kernel comes from public rows here, so that chance has no part in it."""
    (home.folder.parent / "public.csv").write_text(rows_text(11, count=40))
    wishes: list[dict[str, Any]] = [{}, {"gamma": 3.0}, {"gamma_scale": 5.0}, {"weights": True}]
    found = [
        invited(home, run=f"run-{place}", public_rows="public.csv", epsilon=2.0, offers="uniform", **one)
        for place, one in enumerate(wishes)
    ]
    assert len({_public(one.terms).to_json() for one in found}) == 1
    assert len({(one.selection.gamma, one.selection.weighted) for one in found}) == 4
    for one in found:
        assert (one.folder / "selection.json").stat().st_mode & 0o077 == 0


def test_a_wish_that_got_lost_ends_the_run_before_anything_is_released(home: ConsumerHome) -> None:
    run = invited(home, weights=True)
    assert run.selection == Selection(gamma=run.selection.gamma, weighted=True, folds=5)
    for text in ("", "[]", '{"gamma": 1.0, "other": 2}'):
        (run.folder / "selection.json").write_text(text)
        with pytest.raises(BadDocument, match=r"selection\.json"):
            consumer_run(run.invitation, "new-clinic", home.folder)


SEEDED: dict[str, Any] = {
    "protocol": "interactive",
    "seed_rows": "public.csv",
    "summary_release": "gaussian",
    "owner_epsilon": 4.0,
}


def _with_public_rows(home: ConsumerHome, **changes: Any) -> KeptRun:
    folder = home.folder.parent
    (folder / "public.csv").write_text(rows_text(21, count=7))
    limits = {"epsilon": 5.0, "delta": 1e-5, "rows": 36}
    for name in OWNERS:
        write_policy(folder / f"node-{name}", name, manual_approval=False, per_run=limits, total=dict(limits))
    return invited(home, **{**SEEDED, **changes})


def test_a_run_starts_from_public_rows_that_the_curator_has(home: ConsumerHome) -> None:
    run = _with_public_rows(home)
    folder = home.folder.parent
    assert run.terms.seed_rows == 7
    assert CuratorHome(folder / "curator").add_seed_rows(str(folder / "public.csv")) == (run.terms.seed_digest,)
    result = done(home, run)
    assert result["rows_selected"] == 6
    assert all(one["problem"] is None for one in result["owners"])
    seat = curator_run(run.invitation, CURATOR, folder / "curator").resident
    assert isinstance(seat, CuratorShell)
    assert isinstance(seat.party, InteractiveCurator)
    expected = DeclaredRecords(SCHEMA_OF_ALL)
    with open_source(str(folder / "public.csv")) as source:
        (block,) = [one.table for one in source.blocks(SCHEMA_OF_ALL.record_columns)]
    features = run.terms.kernel.features()(expected.rows_of(expected.of(block))[0])
    assert np.array_equal(seat.party._seed_features, features)


def test_a_curator_without_the_public_rows_or_with_others_ends_the_run_first(home: ConsumerHome) -> None:
    run = _with_public_rows(home)
    folder = home.folder.parent
    place = CuratorHome(folder / "curator")
    (folder / "other.csv").write_text(rows_text(22, count=7))
    assert place.add_seed_rows(str(folder / "other.csv")) != (run.terms.seed_digest,)
    with pytest.raises(NotCurated, match=f"does not have the public seed rows {run.terms.seed_digest[:12]}"):
        curator_run(run.invitation, CURATOR, folder / "curator")
    place.add_seed_rows(str(folder / "public.csv"))
    kept = place.public_rows.folder / f"{run.terms.seed_digest}.npy"
    whole = kept.read_bytes()
    for data, reason in ((whole[:-4], "cannot read"), (whole[:-4] + b"\0\0\0?", "are not what they were")):
        kept.write_bytes(data)
        with pytest.raises(NotCurated, match=reason):
            curator_run(run.invitation, CURATOR, folder / "curator")
    for name in OWNERS:
        with OwnerNode(folder / f"node-{name}") as node:
            assert run.name not in node.runs.by_name  # nobody heard of it
    assert not (run.folder / "summary.bin").exists()


def test_public_rows_that_fit_no_schema_are_refused_by_name(home: ConsumerHome) -> None:
    folder = home.folder.parent
    (folder / "odd.csv").write_text("age,dose\n50,3\n")
    with pytest.raises(InvalidArgument, match=r"fits none of the schemas that are known here: .*odd\.csv"):
        CuratorHome(folder / "curator").add_seed_rows(str(folder / "odd.csv"))
    assert not CuratorHome(folder / "curator").public_rows.folder.exists()
