"""A finished run, as ``result.json`` and ``pictures.json`` tell it, without running anything."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np

from chance import public_coins

OWNERS = ("north-clinic", "south-hospital", "east-insurer", "west-registry", "island-practice")
COLUMNS = ("age", "resting blood pressure", "cholesterol", "sex", "chest pain", "fasting sugar", "max heart rate")
RELATION = "replace-one"


class Page(HTMLParser):
    """Collects tags, attributes and visible text; open tags must be closed in order."""

    VOID = ("meta", "br", "img", "link", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def sample_result(
    owners: Sequence[str] = OWNERS, columns: Sequence[str] = COLUMNS, *, size: int = 100
) -> dict[str, Any]:
    """A run with secret noise in which all went well."""
    shares = [0.41, 0.27, 0.2, 0.12, 0.0][: len(owners)]
    picked = [41, 27, 20, 12, 0][: len(owners)]
    curve = 0.00419 * (size / np.arange(1, size + 1)) ** 1.05
    return {
        "format": 4,
        "run": "heart-2031",
        "created": "2031-01-31T09:26:53+00:00",
        "version": "0.5.0",
        "private": True,
        "noise": "secret",
        "seed": None,
        "protocol": "sealed",
        "size": size,
        "rows_selected": size,
        "distance": {"squared_mmd": 0.00419, "low": 0.00322, "high": 0.00501, "curve": curve.tolist()},
        "in_sample_squared_mmd": 0.00298,
        "weighted": False,
        "gamma": 0.1043,
        "labels": {"weight": 0.0, "skill": 0.0},
        "comparison": {
            "measure": "estimate",
            "rows": 70,
            "lines": [
                line("this summary", 0.00419, "", kind="summary"),
                line("fresh rows of the target", 0.00514, "what 100 more rows of your kind would give", kind="fresh"),
                line("random rows among those offered", 0.0213, "the same offers, picked by chance", kind="random"),
                line("the same number from each owner", 0.0587, "at random, from everything that owners hold"),
            ],
            "curve": curve.tolist(),
        },
        "access_ratio": 6.29,
        "rows_seen": 1000,
        "target": {"name": "target.csv", "rows": 70},
        "guarantees": guarantees(owners),
        "owners": [
            {
                "name": name,
                "table": f"{name}.csv",
                "rows": 303 + 97 * place,
                "disclosed": 200,
                "disclosed_at_most": 200,
                "selected": picked[place],
                "share": shares[place],
                "shapley": [0.37, 0.29, 0.21, 0.12, 0.01][place],
                "payment": 100.0,
                "payment_at_most": 100.0,
                "heard_bytes": 1240,
                "sent_bytes": 52311 + 17 * place,
                "messages": 2,
                "problem": None,
            }
            for place, name in enumerate(owners)
        ],
        "seconds": {"reading": 0.8, "running": 2.4, "total": 3.41},
        "warnings": [],
        "terms": {
            "digest": "9f3c0a51" * 8,
            "summary": {
                "consumer": "consumer",
                "purpose": "a matched training set",
                "owners": len(owners),
                "protocol": "sealed",
                "size": size,
                "target_size": 70,
                "offer_factor": 10.0,
                "offers": "tilted",
                "rows_per_owner": 200,
                "target_budget": "epsilon = 1, delta = 1e-05",
                "owner_budget": "epsilon = 0, delta = 0",
                "relation": RELATION,
                "auction": "everyone",
                "price_per_row": 0.5,
                "rows_per_unit": 1,
                "split": None,
            },
        },
        "schema": {
            "digest": "04be71d2" * 8,
            "id": None,
            "columns": [
                {"name": name, "kind": "numeric", "unit": "years" if name == "age" else "", "from_data": False}
                for name in columns
            ],
        },
        "budget": {"in_words": ""},
    }


def line(name: str, squared_mmd: float, meaning: str, *, kind: str = "study") -> dict[str, Any]:
    return {"kind": kind, "name": name, "squared_mmd": squared_mmd, "meaning": meaning, "scores": {}}


def warning(text: str) -> dict[str, Any]:
    return {"kind": "canary-kind", "owner": None, "text": text}


def guarantee(observer: str, protects: str, epsilon: float | None, basis: str, note: str) -> dict[str, Any]:
    return {
        "observer": observer,
        "protects": protects,
        "epsilon": epsilon,
        "delta": 0.0 if epsilon == 0.0 else 1e-5,
        "guess": {None: None, 0.0: 0.5}.get(epsilon, 0.55329),
        "protected_unit": "one row",
        "parts": [],
        "relation": RELATION,
        "basis": basis,
        "rows": 200 if epsilon is None else 0,
        "readable": epsilon is None,
        "shared": False,
        "note": note,
    }


def guarantees(owners: Sequence[str]) -> list[dict[str, Any]]:
    """Of the sealed protocol where everyone is asked."""
    found = [
        guarantee("owners", "consumer", 1.0, "proven", "Hear one noisy mean of the target's features, nothing else."),
        guarantee("curator", "consumer", None, "none", "Sees the target's rows in the clear."),
    ]
    for name in owners:
        found.append(guarantee("owners", name, 0.0, "proven", f"Hear nothing that depends on {name}'s rows."))
        found.append(guarantee("curator", name, None, "none", f"Sees up to 200 rows of {name} in the clear."))
        found.append(guarantee("consumer", name, None, "none", f"Gets the rows of {name} that were selected."))
    return found


def sample_pictures(columns: Sequence[str] = COLUMNS, *, images: bool = False) -> dict[str, Any]:
    """Points, two bars for each column, and images if wanted."""
    coins = public_coins(8)
    points = {
        part: coins.normal(size=(rows, 2)).tolist() for part, rows in (("target", 70), ("summary", 100), ("pool", 900))
    }
    return {
        "labels": None,
        "projection": {**points, "explained": [0.312, 0.184]},
        "marginals": [_marginal(name, place) for place, name in enumerate(columns)],
        "images": {part: coins.random((30, 64)).tolist() for part in ("target", "summary")} | {"side": 8}
        if images
        else None,
    }


def _marginal(name: str, place: int) -> dict[str, Any]:
    bars: dict[str, Any] = {"kind": "numeric", "edges": [20.0, 50.0, 80.0], "values": None}
    if name in ("sex", "chest pain"):
        bars = {"kind": "category", "edges": None, "values": ["some", "others"]}
        bars["others"] = {"count": 0, "target": 0.0, "summary": 0.0}
    shares = {"target": [0.6, 0.4], "summary": [0.7, 0.3], "missing": None}
    differences = {"difference_before": 0.6 - 0.07 * place, "difference_after": 0.08 - 0.01 * place}
    return {"column": name, **bars, **shares, **differences}
