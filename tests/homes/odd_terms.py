"""Terms whose numbers nobody can mean: every numeric field, at every extreme, in every shape of protocol.

All of them, one after the other: nothing here is drawn at random.
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from home_world import fingerprint, terms

from likeset.protocol.terms import Budget, Kernel, Terms

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
    for name in ("run", "consumer", "purpose", "expires", "schema_digest", "seed_digest", "version", "schedule"):
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
