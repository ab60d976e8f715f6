"""No loop and no array grows with a number that a stranger writes: steps and bytes are counted, not seconds.

A step is a line of Python, in likeset and in all libraries. The bounds leave ample room above what was measured; a loop
or an array that depends on a number passes them by orders of magnitude, and is stopped there. Every numeric field of
the terms is tried at every extreme, in every shape of protocol, one after the other: nothing is drawn at random.
"""

import contextlib
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import FrameType
from typing import Any

import pytest
from home_world import fingerprint, introduce, make_owner, opened, signed_text, terms

from likeset.errors import InvalidArgument, LikesetError
from likeset.homes.owner import Owner
from likeset.protocol.terms import Budget, Kernel, Terms, read_foreign

_BUDGET = {"epsilon": 1.0, "delta": 1e-5}
_PAPER_KERNEL = {**json.loads(terms().to_json())["kernel"], "kind": "paper"}
_AUCTION = {"auction": "threshold", "auction_epsilon": 0.5, "auction_offset": 10, "owner_budget": _BUDGET}
_MWEM = {"protocol": "interactive", "summary_release": "mwem", "owner_budget": _BUDGET, "kernel": _PAPER_KERNEL}
SHAPES: dict[str, dict[str, Any]] = {
    "sealed": {},
    "threshold": _AUCTION,
    "interactive": {"protocol": "interactive"},
    "gaussian": {
        "protocol": "interactive",
        "summary_release": "gaussian",
        "owner_budget": _BUDGET,
        "relation": "add-or-remove",
        "seed_rows": 5,
        "seed_digest": "0" * 64,
    },
    "mwem": _MWEM,
    **{name: {**_MWEM, "schedule": name, "promised_epsilon": 1.0} for name in ("theorem", "proof")},
    "experiment": {**_MWEM, "schedule": "experiment"},
    "interactive threshold": {"protocol": "interactive", **_AUCTION, "size": 50},
    "paper auction": {
        "protocol": "interactive",
        "auction": "paper",
        "auction_epsilon": 0.5,
        "auction_patience": 3,
        "owner_budget": _BUDGET,
        "accept_unproven": ["paper-auction"],
    },
}
_MANY_OWNERS = ["a", *(f"o{place}" for place in range(1023))]
_PARTS = {(): Terms, ("kernel",): Kernel, ("target_budget",): Budget, ("owner_budget",): Budget}
FIELDS = tuple(
    (*path, declared.name)
    for path, part in _PARTS.items()
    for declared in fields(part)
    if declared.type in (int, float) and declared.metadata.get("range") is not None
)
_SMALL = ("5e-324", "1e-300", "1e-17", "1e-9", "1e-6", "0.001", "0.1", "0.0", "-1.0", "NaN", "Infinity", "-Infinity")
_LARGE = ("1000.0", "1000000.0", "1000000000000000.0", "1e+100", "1.7e+308", "1e999")
_WHOLE = (0, 1, 2, 16, 1000, 1001, 10_000, 10_001, 1_000_000, 1 << 16, 1 << 20, 1 << 26, 1 << 31, 1 << 40, 10**15, -1)
_DIGITS = tuple(sign + "9" * digits for digits in (100, 309, 400, 4000, 5000, 60_000) for sign in ("", "-"))
_HOLE = "a number stands here"


def ordinary(shape: str = "sealed", *, many: bool = False) -> dict[str, Any]:
    """Terms that somebody can mean; with as many owners as there may be, or two."""
    document: dict[str, Any] = {**json.loads(terms().to_json()), **SHAPES[shape]}
    return {**document, **_many_owners(document)} if many else document


def _many_owners(document: dict[str, Any]) -> dict[str, Any]:
    names = [document["consumer"], "curator", "witness", *_MANY_OWNERS]
    return {"owners": _MANY_OWNERS, "run_id": "0f" * 16, "cards": {name: fingerprint(name) for name in names}}


def odd_numbers(shape: str) -> Iterator[tuple[str, str]]:
    """What is odd, and the text: each number at each extreme, and at both ends of what is let in."""
    for path in FIELDS:
        document = ordinary(shape)
        for number in _numbers(path):
            yield f"{'.'.join(path)} = {number[:24]}", written(document, path, number)
    yield "as many owners as there may be", _canonical(ordinary(shape, many=True))
    for rounds in ("1000", "10000"):
        text = written(ordinary(shape, many=True), ("size",), rounds)
        yield f"as many owners as there may be, size = {rounds}", text


def written(document: dict[str, Any], path: tuple[str, ...], number: str) -> str:
    """Canonical text with a number in its place, as it is written: some are too long for Python to write."""
    if path == ("kernel", "seed"):
        number = f'"{number}"'
    inner: Any = _HOLE if len(path) == 1 else {**document[path[0]], path[1]: _HOLE}
    return _canonical({**document, path[0]: inner}).replace(f'"{_HOLE}"', number)


def odd_texts() -> Iterator[tuple[str, str]]:
    """Texts, lists and nesting that nobody can mean."""
    plain = ordinary()
    for name in ("run", "consumer", "purpose", "expires", "schema_digest", "seed_digest", "schedule"):
        for word in ("", "x" * 60_000, "\ud800", "\x00", "9" * 5000, "../../key"):
            yield f"{name} of {len(word)} letters", _canonical({**plain, name: word})
    for time in ("0001-01-01T00:00+23:59", "9999-12-31T23:59:59-23:59", "2030-W01-1", "0001-01-01"):
        yield f"expires {time}", _canonical({**plain, "expires": time})
    for name in ("owners", "columns", "accept_unproven"):
        for words in ([], ["x"] * 12_000, [f"x{place}" for place in range(8_000)], ["\ud800"], ["a", 1], [["a"]], "a"):
            yield f"{name} of {len(words)}", _canonical({**plain, name: words})
    many = _many_owners(plain)["cards"]
    for cards in ({}, {"a": "A"}, {"a": 1}, ["a"], many, dict.fromkeys(many, many["a"]), {"\ud800": many["a"]}):
        for number in ("", "0f" * 16, "0f" * 15, "0F" * 16, 15):
            odd = _canonical({**plain, "cards": cards, "run_id": number})
            yield f"{len(cards)} cards in run {number}", odd
    for name in plain:
        for depth in (200, 30_000):
            hole = _canonical({**plain, name: _HOLE})
            yield f"{name} {depth} deep", hole.replace(f'"{_HOLE}"', "[" * depth + "]" * depth)
    for text in ("", "[]", "null", "1e999", "9" * 60_000, '{"a":' * 10_000, "x" * (1 << 18), "{" * (1 << 17)):
        yield f"text of {len(text)} letters", text


def _numbers(path: tuple[str, ...]) -> list[str]:
    (declared,) = [declared for declared in fields(_PARTS[path[:-1]]) if declared.name == path[-1]]
    ends = [json.dumps(end) for end in declared.metadata["range"] if path[-1] != "seed"]
    return list(dict.fromkeys([*_SMALL, *_LARGE, *map(str, _WHOLE), *_DIGITS, *ends]))


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


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
            made.accounts_for(small, made.policy)
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
        seen = measured(lambda: owner.accounts_for(agreed, policy), most=_TO_PRICE)  # noqa: B023
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
