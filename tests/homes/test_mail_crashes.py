"""A home that is interrupted before or after any SQL statement, and several processes on one home."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from home_world import Outside, approved_script, charged, heard, make_owner, opened, post, terms

from likeset.homes.owner import Owner
from likeset.protocol.terms import Terms


class _Interrupted(BaseException):
    """Not an error that the code could handle."""


class _Statements:
    """Counts the SQL statements of a home's connection, and interrupts before or after one of them."""

    def __init__(self, at: int = -1, *, after: bool = False) -> None:
        self.at, self.after, self.count = at, after, 0

    def step(self, execute: Callable[..., object], *arguments: object) -> object:
        number, self.count = self.count, self.count + 1
        if number == self.at and not self.after:
            raise _Interrupted
        result = execute(*arguments)
        if number == self.at:
            raise _Interrupted
        return result


class _Connection:
    def __init__(self, connection: object, statements: _Statements) -> None:
        self._connection, self._statements = connection, statements

    def execute(self, *arguments: object) -> object:
        return self._statements.step(self._connection.execute, *arguments)  # type: ignore[attr-defined]

    def executemany(self, *arguments: object) -> object:
        return self._statements.step(self._connection.executemany, *arguments)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@contextmanager
def interrupted(owner: Owner, statements: _Statements) -> Iterator[None]:
    store = owner.home.database._store
    whole = store._connection
    store._connection = _Connection(whole, statements)  # type: ignore[assignment]
    try:
        yield
    except _Interrupted:
        if whole.in_transaction:  # as when the process dies: SQLite undoes what was not committed
            whole.rollback()
    finally:
        store._connection = whole


def _heard(folder: Path, agreed: Terms, script: list[bytes]) -> tuple[list[bytes], list[tuple[str, str]]]:
    with opened(folder) as owner:
        outside = Outside(owner, agreed)
        said = [outside.read(reply).data for letter in script for reply in heard(owner, letter)]
        post(owner)
        assert owner.ledger.verify().ok
        return said, charged(owner)


def _points(folder: Path, script: list[bytes], place: Path) -> int:
    shutil.copytree(folder, place)
    statements = _Statements()
    with opened(place) as owner, interrupted(owner, statements):
        for letter in script:
            owner.mail.hear(letter)
        post(owner)
    return statements.count


def _interrupt_everywhere(tmp_path: Path, agreed: Terms, *, points: int | None = None, **policy: Any) -> None:
    folder = make_owner(tmp_path / "homes", **policy)
    script = approved_script(folder, agreed, rounds=1)
    count = _points(folder, script, tmp_path / "counted")
    shutil.copytree(folder, tmp_path / "expected")
    expected = _heard(tmp_path / "expected", agreed, script)
    assert expected[0]
    for number in range(count) if points is None else range(3, count, max(1, count // points)):
        for after in (False, True):
            place = tmp_path / f"{number}-{after}"
            shutil.copytree(folder, place)
            with opened(place) as owner, interrupted(owner, _Statements(number, after=after)):
                for letter in script:
                    owner.mail.hear(letter)
                post(owner)
            assert _heard(place, agreed, script) == expected, (number, after)
            shutil.rmtree(place)


_INTERACTIVE = {"protocol": "interactive", "size": 2}


class TestInterrupted:
    def test_at_some_statements(self, tmp_path: Path) -> None:
        _interrupt_everywhere(tmp_path, terms(), points=8)

    @pytest.mark.slow
    def test_at_every_statement(self, tmp_path: Path) -> None:
        _interrupt_everywhere(tmp_path, terms())

    @pytest.mark.parametrize(
        "points", [pytest.param(20, marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.soak)]
    )
    def test_at_statements_of_a_run_in_rounds(self, tmp_path: Path, points: int | None) -> None:
        _interrupt_everywhere(tmp_path, terms(**_INTERACTIVE), points=points, accept_unproven=["unbounded"])


class TestReplay:
    def test_replaying_twice_as_many_rounds_takes_at_most_twice_the_statements(self, tmp_path: Path) -> None:
        counts = []
        for size in (10, 20):
            agreed = terms(protocol="interactive", size=size)
            folder = make_owner(tmp_path / str(size), accept_unproven=["unbounded"])
            script = approved_script(folder, agreed)
            with opened(folder) as owner:
                for letter in script:
                    owner.mail.hear(letter)
            statements = _Statements()
            with opened(folder) as owner, interrupted(owner, statements):
                owner.mail.party(owner.mail.runs()[0])
            counts.append(statements.count)
        assert counts[1] < 2.2 * counts[0]

    def test_a_letter_costs_the_database_little_more_after_many_others(self, tmp_path: Path) -> None:
        agreed = terms(protocol="interactive", size=30)
        folder = make_owner(tmp_path, accept_unproven=["unbounded"])
        script = approved_script(folder, agreed)
        steps, costs = 0, list[int]()

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        with opened(folder) as owner:
            owner.home.database._store._connection.set_progress_handler(step, 1)
            for letter in script:
                owner.mail.hear(letter)
                costs.append(steps - sum(costs))
        early, late = costs[3:5], costs[-4:-2]  # of both kinds
        assert sum(late) - sum(early) < 12 * 2 * len(script)  # steps of SQLite's machine, of about 1,500 for a letter


_HEAR = """
import sys, time
from pathlib import Path
from home_world import heard, opened
from likeset.errors import LikesetError
folder, start, *letters = sys.argv[1:]
with opened(Path(folder)) as owner:
    while not Path(start).exists():
        time.sleep(0.001)
    for letter in letters:
        for reply in heard(owner, Path(letter).read_bytes()):
            sys.stdout.buffer.write(reply)
"""


class TestProcesses:
    @pytest.mark.slow
    def test_four_processes_hear_the_same_letter_at_once(self, tmp_path: Path) -> None:
        """All get the same bytes, and the run is charged once."""
        folder, agreed = make_owner(tmp_path / "homes"), terms()
        (tmp_path / "letter").write_bytes(approved_script(folder, agreed, rounds=1)[0])
        start = tmp_path / "start"
        arguments = [sys.executable, "-c", _HEAR, str(folder), str(start), str(tmp_path / "letter")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        running = [
            subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment)  # noqa: S603 - our own script
            for _ in range(4)
        ]
        start.touch()
        said = [process.communicate()[0] for process in running]
        assert [process.returncode for process in running] == [0] * 4
        assert len(set(said)) == 1
        assert said[0]
        with opened(folder) as owner:
            assert sum(kind == "reserve" for kind, _ in charged(owner)) == 2  # the run, and its offer
            assert len([row for row in owner.mail.letters(owner.mail.runs()[0]) if row.kind == "offer"]) == 1

    def test_a_letter_that_another_process_hears_meanwhile_is_no_repetition(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agreed, folder = terms(), make_owner(tmp_path / "homes")
        letter = approved_script(folder, agreed, rounds=1)[0]
        with opened(folder) as owner, opened(folder) as other:
            party_of, first = owner.mail._party, list[Any]()

            def after_the_other(*arguments: Any) -> Any:
                if not first:
                    first.append(heard(other, letter))
                return party_of(*arguments)

            monkeypatch.setattr(owner.mail, "_party", after_the_other)
            assert [heard(owner, letter)] == first

    def test_two_processes_that_take_turns_answer_as_one_does(self, tmp_path: Path) -> None:
        agreed = terms(**_INTERACTIVE)
        folder = make_owner(tmp_path / "homes", accept_unproven=["unbounded"])
        script = approved_script(folder, agreed)
        shutil.copytree(folder, tmp_path / "expected")
        expected = _heard(tmp_path / "expected", agreed, script)
        with opened(folder) as owner, opened(folder) as other:
            for number, letter in enumerate(script):
                (other if number % 2 else owner).mail.hear(letter)
        assert _heard(folder, agreed, script) == expected

    def test_a_letter_that_comes_while_another_changes_the_run_is_answered_after_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The step is discarded and computed again from both letters."""
        agreed = terms(**_INTERACTIVE)
        folder = make_owner(tmp_path / "homes", accept_unproven=["unbounded"])
        script = approved_script(folder, agreed, rounds=1)
        shutil.copytree(folder, tmp_path / "expected")
        expected = _heard(tmp_path / "expected", agreed, script)
        with opened(folder) as owner, opened(folder) as other:
            drawn, busy = owner.mail._draw_noise, iter([True])
            owner.mail.hear(script[0])

            def draw(*arguments: object) -> object:
                step = drawn(*arguments)  # type: ignore[arg-type]
                if next(busy, False):
                    other.mail.hear(script[1])
                return step

            monkeypatch.setattr(owner.mail, "_draw_noise", draw)
            owner.mail.hear(script[1])
            (run,) = owner.mail.runs()
            came = [row.letter for row in owner.mail.letters(run) if row.way == "in" and row.input is not None]
            assert len(came) == len(set(came)) == 2  # on record once, and answered once
        assert _heard(folder, agreed, script) == expected
