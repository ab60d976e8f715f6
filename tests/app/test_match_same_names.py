"""Owners whose files are hard to tell apart: by their names, or not at all."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import job_world
from job_world import OWNERS, World


@pytest.fixture(autouse=True)
def plain_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take time, and are tested elsewhere."""
    monkeypatch.setattr("likeset.app.cli.match.render", lambda result, _: f"<p>{result['in_sample_squared_mmd']}</p>")


def test_files_of_the_same_name_in_different_folders_are_different_files(tmp_path: Path) -> None:
    """The same rows come out as with different names: nothing that owners leave or show clashes."""
    world = World.make(tmp_path)
    same_names = []
    for name in OWNERS:
        place = tmp_path / name / f"rows{world.place(name).suffix}"
        place.parent.mkdir()
        shutil.copy(world.place(name), place)
        same_names.append(f"{name}={place}")
    outs = tmp_path / "different", tmp_path / "same"
    for out, changed in zip(outs, ({}, {"owner": same_names}), strict=True):
        assert job_world.call("match", world.options(out=out, noise="simulated", seed=5, workers=2) | changed) == 0
    different, same = (pq.read_table(out / "summary.parquet") for out in outs)
    assert same.equals(different)


@pytest.mark.parametrize("way", ["twice", "linked", "copied"])
def test_two_owners_cannot_bring_the_same_rows(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World.make(tmp_path)
    north, again = world.place("north"), tmp_path / "again.csv"
    if way == "linked":
        again.symlink_to(north)
    elif way == "copied":
        shutil.copy(north, again)
    owners = [f"north={north}", f"twin={north if way == 'twice' else again}", f"south={world.place('south')}"]
    assert job_world.call("match", world.options(owner=owners)) == 2
    said = capsys.readouterr().err
    assert "owner twin has the same" in said
    assert "as owner north; each must bring its own rows" in said
    assert not world.partial.exists()
