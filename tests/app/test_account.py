"""``likeset account``: releases from a file, and mistakes told in one line."""

import json
from pathlib import Path
from typing import Any

from typed import document

from likeset.privacy.events import ROW, VERSION, Event, Gaussian, NoRelease, Norm, Relation, RowSum, as_json
from screens import Screens


def _gaussian(relation: Relation) -> Gaussian:
    quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=ROW, relation=relation)
    return Gaussian(sigma=8.0, quantity=quantity, coordinates=140, spacing=2.0**-30)


GAUSSIAN = _gaussian(Relation.REPLACE_ONE)


def _file(folder: Path, *events: Event) -> Path:
    path = folder / "releases.json"
    path.write_text(json.dumps({"version": VERSION, "events": [as_json(event) for event in events]}))
    return path


def test_releases_from_a_file_are_priced_under_the_relation_that_they_were_planned_under(tmp_path: Path) -> None:
    """Noise of 8 on a sum of unit rows, twice: rho = 2 * (2/8)²/2 replaced, 2 * (1/8)²/2 removed.

    As a plan both add up to one Gaussian of shift sqrt(2)/4: below what the filter charges.
    """

    def priced(relation: Relation) -> list[dict[str, Any]]:
        once = _gaussian(relation)
        rows: list[dict[str, Any]] = document("account", "--events", str(_file(tmp_path, once, NoRelease(), once)))
        assert {row["relation"] for row in rows} == {relation}
        return rows

    replaced, removed = priced(Relation.REPLACE_ONE), priced(Relation.ADD_OR_REMOVE)
    assert [row["what"] for row in replaced] == [
        "release 1: gaussian",
        "release 2: none",
        "release 3: gaussian",
        "all, as a plan fixed in advance",
        "all, each chosen after seeing the last",
    ]
    assert replaced[1]["proven"] == 0.0
    assert replaced[0]["proven"] < replaced[3]["proven"] < replaced[4]["proven"]
    assert all(half["proven"] <= whole["proven"] for half, whole in zip(removed, replaced, strict=True))


def test_a_single_event_and_several_deltas(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"version": VERSION, "event": as_json(GAUSSIAN)}))
    rows = document("account", "--events", str(path), "--delta", "1e-3", "--delta", "1e-6")
    assert {row["delta"] for row in rows} == {1e-3, 1e-6}


def test_the_screen(screens: Screens) -> None:
    _file(screens.folder, GAUSSIAN, GAUSSIAN)
    screens.show("releases", "account", "--events", "releases.json")


def _nested(count: int) -> str:
    return '{"kind": "repeated", "times": 1, "event": ' * count + '{"kind": "none"}' + "}" * count


def test_events_that_are_nested_as_in_practice_have_a_price(tmp_path: Path) -> None:
    path = tmp_path / "nested.json"
    path.write_text(f'{{"version": {VERSION}, "event": {_nested(32)}}}')
    assert document("account", "--events", str(path))


def test_a_file_that_is_not_understood_is_refused(screens: Screens) -> None:
    texts = ["", "[]", "{}", '{"version": 1, "events": []}', '{"version": "3", "events": []}', '{"version": 3}']
    texts += ['{"version": 3, "events": [{"kind": "free"}]}', f'{{"version": 3, "event": {_nested(400)}}}', "[" * 5000]
    for number, text in enumerate(texts):
        Path(f"{number}.json").write_text(text)
    commands = [f"account --events {name}.json" for name in (*range(len(texts)), "gone")]
    screens.mistakes("mistakes", *commands)
