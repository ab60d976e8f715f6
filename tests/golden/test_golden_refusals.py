"""What is refused, with which error and which exit code, held against ``refusals.json``; nothing is charged for it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_scenarios import TARGET, owners
from file_market import FileMarket
from golden_command import books, say
from golden_records import hold, names_in
from typer.testing import CliRunner

from likeset import Summarizer
from likeset.app.cli import app
from likeset.errors import LikesetError
from summarizer_world import arguments

_USUAL: dict[str, Any] = {"size": 6, "epsilon": 8.0, "release_gamma": 0.8, "noise": "simulated", "random_state": 1}
_ROUNDS: dict[str, Any] = {"protocol": "interactive"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "no rows wanted": {"size": 0},
    "epsilon below 0": {"epsilon": -1.0},
    "epsilon of 0 for a release": {**_ROUNDS, "epsilon": 0.0},
    "delta of 0 for a release": {"delta": 0.0},
    "add or remove without a declared size": {"relation": "add-or-remove"},
    "the paper's auction, not accepted": {**_ROUNDS, "auction": "paper", "summary_release": "none"},
    "a summary release, not accepted": {
        **_ROUNDS,
        "summary_release": "mwem",
        "auction": "threshold",
        "owner_epsilon": 4.0,
        "dimension": 8,
    },
    "the paper's auction in the sealed protocol": {"auction": "paper"},
    "more owners than there are": {"quorum": 4},
    "a schedule without a width": {**_ROUNDS, "schedule": "proof", "release_gamma": None},
    "no budget for a summary release": {**_ROUNDS, "summary_release": "gaussian"},
    "an unknown relation": {"relation": "neighbours"},
}


def refused(run: Callable[[], object], *, words: str | None = None) -> str:
    """The class of the error, with these words in its text if any are given."""
    with pytest.raises(LikesetError, match=words) as caught:
        run()
    return type(caught.value).__name__


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_refused_as_they_were(name: str) -> None:
    summarizer = Summarizer(**arguments({**_USUAL, **ARGUMENTS[name]}))
    hold("refusals", name, {"error": refused(lambda: summarizer.fit(TARGET, owners()))})


def test_tables_are_refused_as_they_were() -> None:
    spoiled = TARGET.copy()
    spoiled[3, 1] = np.nan
    summarizer = Summarizer(**_USUAL)
    hold("refusals", "not a number in the target", {"error": refused(lambda: summarizer.fit(spoiled, owners()))})
    narrow = {**owners(), "south": owners()["south"][:, :2]}
    hold("refusals", "an owner with other columns", {"error": refused(lambda: summarizer.fit(TARGET, narrow))})
    hold("refusals", "no owner", {"error": refused(lambda: summarizer.fit(TARGET, {}))})


def test_a_budget_that_is_spent_is_refused_and_not_charged(tmp_path: Path) -> None:
    """A second run would come to more than 9 where 8 are spent; and a run's name stands for one run."""
    ledger = tmp_path / "ledger.sqlite"
    settings = {**_USUAL, "noise": "secret", "ledger": ledger}
    Summarizer(**settings, run="first").fit(TARGET, owners())
    again = Summarizer(**settings, run="second")
    error = refused(lambda: again.fit(TARGET, owners()), words="rows")
    hold("refusals", "rows that are spent", {"error": error})
    change_limits(ledger, "--of=consumer", "--epsilon=9")
    before = books(ledger)
    error = refused(lambda: again.fit(TARGET, owners()), words="epsilon")
    hold("refusals", "a budget that is spent", {"error": error})
    other = Summarizer(**{**settings, "size": 5}, run="first")
    hold("refusals", "another run of the same name", {"error": refused(lambda: other.fit(TARGET, owners()))})
    assert books(ledger) == before


def test_a_budget_for_the_first_of_two_releases_is_not_spent_on_it(tmp_path: Path) -> None:
    """The choice of the width would fit into what is left, and the release after it would not."""
    ledger = tmp_path / "ledger.sqlite"
    settings = {**_USUAL, "noise": "secret", "ledger": ledger, "release_gamma": None}
    Summarizer(**settings, offers="uniform", run="first").fit(TARGET, owners())
    change_limits(ledger, "--of=consumer", "--epsilon=7")
    before = books(ledger)
    second = Summarizer(**settings, run="second")
    name = "a budget for the first of two releases"
    hold("refusals", name, {"error": refused(lambda: second.fit(TARGET, owners()), words="epsilon")})
    assert books(ledger) == before


def change_limits(ledger: Path, *words: str) -> None:
    """Set one, and let owners disclose as many rows as there are: only epsilon is short."""
    for options in (words, *((f"--of={name}", "--rows=1000") for name in owners())):
        code, _, complaint = say("ledger", "limit", ledger, *options)
        assert code == 0, complaint


@pytest.fixture
def market(tmp_path: Path) -> FileMarket:
    return FileMarket.make(tmp_path)


def _spoil(file: str, old: str, new: str) -> Callable[[FileMarket], None]:
    def spoil(market: FileMarket) -> None:
        path = market.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return spoil


def _nothing(_: FileMarket) -> None:
    pass


FILES: dict[str, tuple[str, Callable[[FileMarket], None], list[str]]] = {
    "no such option": ("plain", _nothing, ["--no-such-option"]),
    "no such target": ("plain", lambda market: (market.folder / "target.csv").unlink(), []),
    "a directory that exists": ("plain", lambda market: (market.folder / "out").mkdir(), []),
    "nothing to resume": ("plain", _nothing, ["--resume"]),
    "a column that is missing": ("plain", _spoil("south.csv", '"age"', '"years"'), []),
    "a value out of bounds": ("plain", _spoil("plain.yaml", "bounds: [20, 100]", "bounds: [20, 21]"), []),
    "a category that is not declared": ("plain", _spoil("plain.yaml", "leg, foot", "leg"), []),
    "an id too often": ("ids", _spoil("ids.yaml", "rows_per_id: 2", "rows_per_id: 1"), []),
    "a schema with an unknown field": ("plain", _spoil("plain.yaml", "bounds", "limits"), []),
    "a word where a number is wanted": ("plain", _nothing, ["--gamma=wide"]),
    "an unknown kind of noise": ("plain", _nothing, ["--noise=white"]),
    "a file of an unknown kind": ("plain", _nothing, ["--public-rows=rows.xlsx"]),
    "a ledger that is none": ("plain", _nothing, ["--ledger={folder}/plain.yaml"]),
    "another scan": ("plain", _nothing, ["--scan=abacus"]),
}


@pytest.mark.parametrize("name", FILES)
def test_files_and_options_are_refused_as_they_were(name: str, market: FileMarket) -> None:
    schema, spoil, more = FILES[name]
    spoil(market)
    out = market.folder / "out"
    words = ["match", *market.words(schema=schema), "--size=6", "--epsilon=8", f"--out={out}"]
    words += [word.replace("{folder}", str(market.folder)) for word in more]
    before = sorted(path.name for path in market.folder.iterdir())
    error = CliRunner().invoke(app, words).exception
    code, _, complaint = say(*words)
    assert complaint
    assert sorted(path.name for path in market.folder.iterdir()) == before
    hold("refusals", name, {"error": type(error).__name__, "exit code": code})


def test_a_ledger_that_was_altered_is_told(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    Summarizer(**_USUAL, ledger=ledger).fit(TARGET, owners())
    whole = say("ledger", "verify", ledger)[0]
    with closing(sqlite3.connect(ledger)) as database:
        database.execute("PRAGMA writable_schema=ON")
        triggers = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for trigger in triggers:
            database.execute(f'DROP TRIGGER "{trigger}"')
        database.execute("DELETE FROM log WHERE number = (SELECT max(number) - 1 FROM log)")
        database.commit()
    hold("refusals", "a ledger that was altered", {"whole": whole, "altered": say("ledger", "verify", ledger)[0]})


def test_the_file_has_these_refusals() -> None:
    assert names_in("refusals") > {*ARGUMENTS, *FILES}
    assert len(names_in("refusals") - {*ARGUMENTS, *FILES}) == 8, "of the tests of one refusal each"
