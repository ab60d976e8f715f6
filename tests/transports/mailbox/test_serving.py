"""Looking again and again: pauses grow, deadlines wake it, troubles are told once, a stop comes between two looks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

import pytest

from likeset.errors import BadDocument, HomeRestored, MailboxTrouble
from likeset.transports.posts import Look
from likeset.transports.sync import look_once, serve

NOW = datetime(2026, 11, 16, tzinfo=UTC)
GONE = MailboxTrouble("file:///share", "is gone; mount it")


@dataclass
class ScriptedDesk:
    """Does at each look what a list says, and nothing when that has come to its end."""

    script: list[Look | Exception]
    looks: int = 0
    is_live: bool = False

    def look(self) -> Look:
        self.looks += 1
        what = self.script.pop(0) if self.script else Look()
        if isinstance(what, Exception):
            raise what
        return what

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class CountingStop:
    """Is set after so many waits, and remembers how long each was to be."""

    after: int
    waits: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return len(self.waits) >= self.after

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return self.is_set()


def served(
    *scripts: list[Look | Exception], after: int, looked: Callable[[Look], None] = lambda _: None
) -> tuple[list[float], list[str]]:
    """The pauses and the lines of so many rounds."""
    stop, told = CountingStop(after), list[str]()
    desks = [ScriptedDesk(script) for script in scripts]
    serve(desks, stop=stop, tell=told.append, looked=looked, shortest=1.0, longest=4.0, clock=lambda: NOW)
    return stop.waits, told


def test_pauses_grow_while_nothing_comes_and_start_anew_when_something_does() -> None:
    waits, told = served([Look(), Look(), Look(), Look(), Look(taken=1), Look()], after=6)
    assert waits == [1.5, 2.25, 3.375, 4.0, 1.0, 1.5]
    assert told == []


def test_a_deadline_ends_a_pause_and_one_that_has_passed_makes_nobody_busy() -> None:
    near, past = NOW + timedelta(seconds=3), NOW - timedelta(hours=1)
    looks: list[Look | Exception] = [Look(), Look(), Look(), Look(next_deadline=near), Look(next_deadline=past)]
    assert served(looks, after=5)[0][3:] == [3.0, 1.0]


def test_trouble_is_told_once_and_once_more_when_it_is_over() -> None:
    waits, told = served([GONE, GONE, GONE, Look(taken=1, notes=("2 letters were put back",)), Look()], after=5)
    assert told == [
        "mailbox file:///share: is gone; mount it; trying on",
        "that is over: the mailbox can be used again",
        "2 letters were put back",
    ]
    assert waits[:3] == [1.5, 2.25, 3.375]  # it is not hammered


def test_another_trouble_is_told_and_other_desks_go_on() -> None:
    bad = BadDocument("owner.yaml", "is empty")
    _, told = served([GONE, bad, bad], [Look(notes=("first",)), Look(notes=("second",))], after=3)
    assert [line.partition(";")[0] for line in told] == [
        "mailbox file:///share: is gone",
        "first",
        "owner.yaml: is empty",
        "second",
    ]


def test_an_error_of_our_own_does_not_end_it_and_its_text_is_not_shown() -> None:
    waits, told = served([KeyError("a value of a row"), Look(taken=1)], after=2)
    assert len(waits) == 2
    assert "KeyError" in told[0]
    assert "a value of a row" not in " ".join(told)


def test_a_home_that_is_an_old_copy_ends_it() -> None:
    with pytest.raises(HomeRestored):
        served([HomeRestored("put the newest copy back")], after=5)


def test_a_stop_comes_before_the_next_desk_is_looked_at() -> None:
    class SetAtOnce(CountingStop):
        def is_set(self) -> bool:
            return first.looks > 0

    first, second = ScriptedDesk([]), ScriptedDesk([])
    serve([first, second], stop=SetAtOnce(1), tell=lambda _: None, clock=lambda: NOW)
    assert (first.looks, second.looks) == (1, 0)


def test_what_came_of_all_desks_is_told_together() -> None:
    seen: list[Look] = []
    served([Look(taken=1)], [Look(sent=2)], after=1, looked=seen.append)
    assert seen == [Look(taken=1, sent=2)]


def test_one_look_tells_troubles_and_goes_on_to_the_next_mailbox() -> None:
    look, troubles = look_once([ScriptedDesk([GONE]), ScriptedDesk([Look(taken=3)])])
    assert (look.taken, troubles) == (3, [GONE])
