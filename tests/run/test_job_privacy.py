"""What a job on files tells to whom: the same promises as a run on arrays, and what files add to them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import job_world
from job_world import OWNERS, World, charges, rows, run, write
from likeset.app.report import render_for_owner
from likeset.errors import BadTable, DifferentRequest, OtherUnit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Composition, Gaussian, View
from likeset.protocol.party import Party
from likeset.protocol.wire import Message, encode
from likeset.run.plan import plan_job

Heard = dict[str, list[bytes]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    heard: Heard = {}
    receive = Party.receive

    def overheard(self: Party, message: Message) -> Any:
        heard.setdefault(self.name, []).append(encode(message))
        return receive(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(Party, "receive", overheard)
        yield heard


# The unit of privacy


def with_ids(world: World, ids: list[Any], file: str = "target.csv") -> None:
    """A file with these ids in its first rows, and in all others ids of their own."""
    path = world.folder / file
    count = (pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)).num_rows
    world.replace(file, patient=[*ids, *(f"other-{place}" for place in range(count - len(ids)))])


@pytest.mark.parametrize(
    ("ids", "file", "most"),
    [
        ([f"p{row // 4}" + " " * (row % 2) for row in range(40)], "target.csv", 4),  # blanks make no other person
        ([None] * 3, "target.csv", 3),  # rows without an id could all be of one person
        ([None] * 3, "west.parquet", 3),
        (["NA", "?", " null "], "target.csv", 3),  # and so could all words for missing
    ],
)
def test_more_rows_of_a_person_than_declared_are_refused(world: World, ids: list[Any], file: str, most: int) -> None:
    with_ids(world, ids, file)
    for attempt in (run, plan_job) if file == "target.csv" else (run,):
        with pytest.raises(BadTable, match=f"{most} rows"):
            attempt(world.job())
    assert not world.out.exists()
    assert not world.partial.exists()


def test_all_prices_are_for_all_rows_of_an_id(world: World) -> None:
    """Twice the rows, twice the noise: the release and the choice of its width alike."""
    events = {}
    for most in (2, 4):
        text = job_world.SCHEMA.replace("rows_per_id: 2", f"rows_per_id: {most}")
        (world.folder / "schema.yaml").write_text(text, encoding="utf-8")
        about_target = plan_job(world.job(offers="tilted", epsilon=40.0)).guarantees[0]
        assert about_target.guarantee.epsilon == pytest.approx(40.0, rel=1e-3)
        assert isinstance(about_target.event, Composition)
        events[most] = about_target.event.events
    width, release = events[2]
    wider, louder = events[4]
    assert isinstance(release, Gaussian)
    assert isinstance(louder, Gaussian)
    assert louder.sigma == pytest.approx(2.0 * release.sigma, rel=1e-6)
    assert width != wider


# What owners hear


def changed_south(world: World, folder: Path) -> World:
    """The same market, but south has other rows, as many as before."""
    folder.mkdir()
    for path in world.folder.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    other = World(folder)
    write(other.place("south"), rows(50, seed=77, age=15.0, whose="elsewhere"))
    return other


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"offers": "uniform"}, {"protocol": "interactive"}])
def test_owners_hear_and_are_shown_the_same_whatever_another_owner_holds(
    world: World, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    transcripts, pages = [], []
    for market in (world, changed_south(world, world.folder / "other")):
        with listening(monkeypatch) as heard:
            done = run(market.job(noise="simulated", seed=5, **options))
        transcripts.append([heard[name] for name in ("north", "west")])
        pages.append([render_for_owner(done.result, name) for name in ("north", "west")])
    assert transcripts[0] == transcripts[1]
    assert pages[0] == pages[1]
    assert all(transcripts[0])


def test_an_owner_is_shown_the_same_page_whatever_the_target_is(world: World) -> None:
    pages = []
    for seed in (1, 2):
        write(world.folder / "target.csv", rows(40, seed=seed, age=20.0 * seed, whose="mine"))
        done = run(world.job(release_gamma=0.3, seed=5, out=str(world.folder / f"out{seed}")))
        pages.append(render_for_owner(done.result, "north"))
    assert pages[0] == pages[1]


# Interrupted, resumed, repeated


def test_what_was_drawn_before_an_interruption_is_sent_again_and_paid_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.job()
    answered = iter(range(2))  # the curator has heard the consumer, then one owner

    def stop_later(*_: object) -> None:
        if next(answered, None) is None:
            raise KeyboardInterrupt

    with listening(monkeypatch) as first, pytest.raises(KeyboardInterrupt):
        run(job, progress=stop_later)
    with Ledger(world.partial / "ledger.sqlite") as book:
        drawn = [stored.message for stored in book.messages() if stored.kind == "consumer/target-release"]
    with listening(monkeypatch) as second:
        run(job, resume=True)
    assert len(drawn) == 1
    assert first["north"] == second["north"]
    assert drawn[0] in first["north"][0]
    found = charges(world.out / "ledger.sqlite")
    assert sorted(found) == sorted(set(found))
    assert {"consumer/width", "consumer/target-release"} <= set(found)


def test_files_that_changed_places_are_not_those_that_the_run_began_with(world: World) -> None:
    """Two owners whose files are exchanged: the same contents, but not the same owners."""
    job = world.job()
    with pytest.raises(KeyboardInterrupt):
        run(job, progress=stop)
    north, south = world.place("north"), world.place("south")
    texts = north.read_bytes(), south.read_bytes()
    south.write_bytes(texts[0])
    north.write_bytes(texts[1])
    with pytest.raises(DifferentRequest):
        run(job, resume=True)


def test_another_version_does_not_resume_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terms would be others, and owners that answered would seem to abstain."""
    job, answered = world.job(offers="uniform"), iter(range(2))

    def stop_later(*_: object) -> None:
        if next(answered, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job, progress=stop_later)
    monkeypatch.setattr("likeset.run.job.version", lambda _: "0.0.1")
    with pytest.raises(DifferentRequest):
        run(job, resume=True)


# Budgets


def test_the_size_of_a_target_under_add_or_remove_decides_nothing(world: World) -> None:
    """Owners have 180 rows together; with a row more or less in the target the run starts all the same."""
    started = []
    for count in (180, 181):
        write(world.folder / "target.csv", rows(count, seed=1, age=60.0, whose="mine"))
        out = str(world.folder / f"out{count}")
        job = world.job(relation="add-or-remove", declared_size=150, release_gamma=0.3, out=out)
        started.append(run(job).result["terms"]["summary"]["target_size"])
    assert started == [150, 150]


def test_a_ledger_that_took_an_unproven_auction_has_no_bound_for_those_owners(world: World) -> None:
    ledger = str(world.folder / "ledger.sqlite")
    paper = {"protocol": "interactive", "auction": "paper", "accept_unproven": ["paper-auction"], "offers": "tilted"}
    run(world.job(ledger=ledger, run="paper", size=4, **paper))
    fresh = {f"{name}-2": str(world.place(name)) for name in OWNERS}
    later = run(world.job(ledger=ledger, run="later", owners=fresh, offers="uniform", out=f"{world.out}-2"))
    assert "for the rows of north, south, west: it was charged for" in later.result["budget"]["in_words"]


@pytest.mark.parametrize("offers", ["tilted", "uniform"])
def test_prices_for_different_units_are_not_added_up(world: World, offers: str) -> None:
    """After a run per id, one that releases something per row is refused with both units; one without is not."""
    ledger = world.folder / "ledger.sqlite"
    fresh = {f"{name}-2": str(world.place(name)) for name in OWNERS}
    run(world.job(ledger=str(ledger), run="ids"))
    with Ledger(ledger) as book:
        view = View.owners("consumer")
        (account,) = [one for one in book.accounts() if one.view == view]
        book.set_limit(view, replace(account.limit, epsilon=20.0))
    text = job_world.SCHEMA.replace("id: {column: patient, rows_per_id: 2}\n", "")
    (world.folder / "schema.yaml").write_text(text, encoding="utf-8")
    job = world.job(ledger=str(ledger), run="rows", owners=fresh, out=f"{world.out}-2", offers=offers)
    if offers == "uniform":
        assert run(job).result["budget"]["delta"] == 2 * account.deltas[0], "the limit was raised after a charge"
        return
    with pytest.raises(OtherUnit) as caught:
        run(job)
    assert (caught.value.account, caught.value.planned) == ("id in column 'patient'", "row")
    with Ledger(ledger) as book:
        assert next(one for one in book.accounts() if one.view == view).charges == account.charges


# What stays in the output directory


def test_offers_do_not_outlive_the_run_in_the_output_directory(world: World) -> None:
    job = world.job()
    run(job)
    with Ledger(world.out / "ledger.sqlite") as ledger:
        assert ledger.messages() == ()
        assert ledger.verify().ok
    kept = b"".join(path.read_bytes() for path in world.out.iterdir() if "messages" in path.name)
    assert b"ARROW" not in kept
    assert b"offer" not in kept


def test_pictures_show_places_of_offered_rows_and_never_their_cells(world: World) -> None:
    """Two numbers for each of at most 400 offered rows, as docs/proofs/records.md says; nothing else of them."""
    run(world.job())
    pictures = json.loads((world.out / "pictures.json").read_text(encoding="utf-8"))
    assert np.array(pictures["projection"]["pool"]).shape == (120, 2)
    assert all("pool" not in one for one in pictures["marginals"])
    assert sum(pictures["labels"]["offers"]) == pytest.approx(1.0)
    assert np.allclose(
        np.array(pictures["labels"]["offers"]) * 120, np.round(np.array(pictures["labels"]["offers"]) * 120)
    )
