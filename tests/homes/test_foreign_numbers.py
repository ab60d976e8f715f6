"""No loop and no array grows with a number that a stranger writes: steps and bytes are counted, not seconds.

A step is a line of Python, in likeset and in all libraries. The bounds leave ample room above what was measured; a loop
or an array that depends on a number passes them by orders of magnitude, and is stopped there.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
from home_world import introduce, make_owner, opened, signed_text
from odd_terms import FIELDS, SHAPES, OddTerms, odd_numbers, odd_texts, ordinary, written

from likeset.errors import InvalidArgument, LikesetError
from likeset.homes.owner import Owner, accounts_for
from likeset.protocol.terms import Terms, read_foreign, read_foreign_canonical

_TO_READ, _TO_PRICE = 600_000, 3_000_000  # steps; reading is linear in a text that is at most 128 KiB long
_BYTES = 24_000_000
_PAPER = ("theorem", "proof", "experiment", "interactive threshold", "paper auction")
_SHAPES = [
    pytest.param(
        shape, marks=[] if shape == "threshold" else [pytest.mark.soak if shape in _PAPER else pytest.mark.slow]
    )
    for shape in SHAPES
]
_PRICELESS = [("quorum",), ("price_per_row",), ("kernel", "columns"), ("kernel", "gamma"), ("kernel", "seed")]


class TooMuch(BaseException):
    """More steps than allowed; no code catches this one."""


@dataclass
class Measured:
    """What some work took, and how it ended."""

    steps: int = 0
    peak: int = 0
    result: Any = None
    error: LikesetError | None = None


def measured(work: Callable[[], object], *, most: int) -> Measured:
    """Run it, counting lines and bytes; raises ``TooMuch``, or whatever else is no error of likeset."""
    seen = Measured()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            seen.steps += 1
            if seen.steps > most:
                raise TooMuch(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(trace)
    try:
        seen.result = work()
    except LikesetError as error:
        seen.error = error
    finally:
        sys.settrace(before)
        seen.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert seen.peak < _BYTES
    return seen


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """One whose policy forbids little, so that prices are computed."""
    limits = {"epsilon": 5, "delta": 1e-5, "rows": 10**9}
    unproven = ["summary-release", "paper-auction"]
    folder = make_owner(tmp_path_factory.mktemp("owner"), total=limits, per_run=dict(limits), accept_unproven=unproven)
    with opened(folder) as made:
        small = read_foreign_canonical(written(ordinary(), ("size",), "6"))
        accounts_for(made.ledger, made.name, small, made.policy)  # loads libraries
        introduce(made.home, small)
        yield made


def _read(odd: OddTerms) -> Terms | None:
    """The terms, if they are let in; else they are refused with an error of likeset, in few words."""
    seen = measured(lambda: read_foreign(odd.text), most=_TO_READ)
    if seen.error is not None:
        assert len(str(seen.error)) < 70_000, "the text that came is at most repeated"
        return None
    assert isinstance(seen.result, Terms)
    return seen.result


def _is_let_in(odd: OddTerms) -> bool:
    try:
        read_foreign(odd.text)
    except LikesetError:
        return False
    return True


def _ends(shape: str) -> Iterator[OddTerms]:
    """Of all numbers that are let in, in a field that a price could depend on, the smallest and the largest."""
    let_in = [odd for odd in odd_numbers(shape) if _is_let_in(odd)]
    for path in FIELDS:
        if path not in _PRICELESS:
            numbers = [odd for odd in let_in if odd.name.startswith(".".join(path) + " = ")]
            numbers.sort(key=lambda odd: float(odd.name.split(" = ")[1]))
            yield from {odd.name: odd for odd in [*numbers[:1], *numbers[-1:]]}.values()
    yield from (odd for odd in let_in if odd.name.startswith("as many owners"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", _SHAPES)
def test_terms_with_odd_numbers_are_read_or_refused_in_few_steps_and_little_room(shape: str) -> None:
    let_in = [odd.name for odd in odd_numbers(shape) if _read(odd) is not None]
    assert len(let_in) > 50, "what is meant is let in"


@pytest.mark.slow
@pytest.mark.parametrize("shape", _SHAPES)
def test_what_terms_cost_is_computed_or_refused_in_few_steps_and_little_room(owner: Owner, shape: str) -> None:
    priced, policy = 0, owner.policy
    for odd in _ends(shape):
        agreed = read_foreign(odd.text)
        seen = measured(lambda: accounts_for(owner.ledger, owner.name, agreed, policy), most=_TO_PRICE)  # noqa: B023
        priced += seen.error is None
        assert owner.judge(agreed).accepted or owner.judge(agreed).reasons
    assert priced > 10


@pytest.mark.slow
def test_terms_with_odd_texts_are_read_or_refused_in_few_steps_and_little_room() -> None:
    for odd in odd_texts():
        _read(odd)


@pytest.mark.slow
def test_a_home_refuses_odd_terms_in_few_steps(owner: Owner) -> None:
    """Whatever the numbers are, terms are let in or refused with an error of likeset."""
    odd_ones = [*odd_texts(), *(odd for odd in odd_numbers("threshold") if odd.name.startswith("auction"))]
    for odd in odd_ones:
        signed = signed_text(odd.text)
        seen = measured(lambda: owner.mail.consider(owner.mail.invited(signed)), most=_TO_PRICE)  # noqa: B023
        assert seen.error is not None or seen.result.state in ("invited", "waiting")


@pytest.mark.parametrize("number", ["5e-324", "1e-300", "1e-17", "1e-9", "1001", "1e999"])
def test_an_auction_that_nobody_can_mean_is_refused_by_its_fields_name(number: str) -> None:
    with pytest.raises(InvalidArgument, match="auction_epsilon"):
        read_foreign(written(ordinary("threshold"), ("auction_epsilon",), number))


@pytest.mark.slow
@pytest.mark.parametrize("path", FIELDS)
def test_no_number_of_terms_makes_their_own_arithmetic_fail(path: tuple[str, ...]) -> None:
    """Also of terms that did not come from a stranger, and are under no limits but their own."""
    shape = "sealed"
    for odd in odd_numbers(shape):
        if odd.name.startswith(".".join(path)):
            try:
                agreed = Terms.from_json(odd.text)
            except LikesetError:
                continue
            assert agreed.rows_per_owner >= 1
            assert len(agreed.digest) == 64
