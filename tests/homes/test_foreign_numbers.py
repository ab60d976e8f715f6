"""No loop and no array grows with a number that a stranger writes: steps and bytes are counted, not seconds.

A step is a line of Python, in likeset and in all libraries. The bounds leave ample room above what was measured; a loop
or an array that depends on a number passes them by orders of magnitude, and is stopped there.
"""

import contextlib
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from home_world import introduce, make_owner, opened, signed_text
from odd_terms import FIELDS, SHAPES, odd_numbers, odd_texts, ordinary, written

from likeset.errors import InvalidArgument, LikesetError
from likeset.homes.owner import Owner, accounts_for
from likeset.protocol.terms import Terms, read_foreign

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


def measured(work: Callable[[], object], *, most: int) -> Any:
    """Run it, counting lines and bytes; returns its result or its error of likeset, and raises whatever else it is."""
    steps = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal steps
        if event == "line":
            steps += 1
            if steps > most:
                raise TooMuch(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(trace)
    try:
        return work()
    except LikesetError as error:
        return error
    finally:
        sys.settrace(before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < _BYTES


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    """One whose policy forbids little, so that prices are computed."""
    limits = {"epsilon": 5, "delta": 1e-5, "rows": 10**9}
    unproven = ["summary-release", "paper-auction"]
    folder = make_owner(tmp_path_factory.mktemp("owner"), total=limits, per_run=dict(limits), accept_unproven=unproven)
    with opened(folder) as made:
        for shape in ("gaussian", "sealed"):  # loads libraries
            small = read_foreign(written(ordinary(shape), ("size",), "6"))
            accounts_for(made.ledger, made.name, small, made.policy)
        introduce(made.home, small)
        yield made


def _is_let_in(text: str) -> bool:
    """If terms are not let in, they are refused with an error of likeset, in few words."""
    seen = measured(lambda: read_foreign(text), most=_TO_READ)
    assert len(str(seen)) < 70_000 or isinstance(seen, Terms), "the text that came is at most repeated"
    return isinstance(seen, Terms)


def _ends(shape: str) -> list[str]:
    """Of all numbers that are let in, in a field that a price could depend on, the smallest and the largest."""
    let_in, chosen = dict[str, str](), list[str]()
    for name, text in odd_numbers(shape):
        with contextlib.suppress(LikesetError):
            read_foreign(text)
            let_in[name] = text
    for path in FIELDS:
        if path not in _PRICELESS:
            numbers = [name for name in let_in if name.startswith(".".join(path) + " = ")]
            numbers.sort(key=lambda name: float(name.split(" = ")[1]))
            chosen += [*numbers[:1], *numbers[-1:]]
    chosen += [name for name in let_in if name.startswith("as many owners")]
    return [let_in[name] for name in dict.fromkeys(chosen)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", _SHAPES)
def test_terms_with_odd_numbers_are_read_or_refused_in_few_steps_and_little_room(shape: str) -> None:
    assert sum(_is_let_in(text) for _, text in odd_numbers(shape)) > 50, "what is meant is let in"


@pytest.mark.slow
@pytest.mark.parametrize("shape", _SHAPES)
def test_what_terms_cost_is_computed_or_refused_in_few_steps_and_little_room(owner: Owner, shape: str) -> None:
    priced, policy = 0, owner.policy
    for text in _ends(shape):
        agreed = read_foreign(text)
        seen = measured(lambda: accounts_for(owner.ledger, owner.name, agreed, policy), most=_TO_PRICE)  # noqa: B023
        priced += not isinstance(seen, LikesetError)
        assert owner.judge(agreed).accepted or owner.judge(agreed).reasons
    assert priced > 10


@pytest.mark.slow
def test_terms_with_odd_texts_are_read_or_refused_in_few_steps_and_little_room() -> None:
    for _, text in odd_texts():
        _is_let_in(text)


@pytest.mark.slow
def test_a_home_refuses_odd_terms_in_few_steps(owner: Owner) -> None:
    """Whatever the numbers are, terms are let in or refused with an error of likeset."""
    auctions = (odd for odd in odd_numbers("threshold") if odd[0].startswith("auction"))
    for _, text in (*odd_texts(), *auctions):
        signed = signed_text(text)
        seen = measured(lambda: owner.mail.consider(owner.mail.invited(signed)), most=_TO_PRICE)  # noqa: B023
        assert isinstance(seen, LikesetError) or seen.state in ("invited", "waiting")


@pytest.mark.parametrize("number", ["5e-324", "1e-300", "1e-17", "1e-9", "1001", "1e999"])
def test_an_auction_that_nobody_can_mean_is_refused_by_its_fields_name(number: str) -> None:
    with pytest.raises(InvalidArgument, match="auction_epsilon"):
        read_foreign(written(ordinary("threshold"), ("auction_epsilon",), number))
