"""A finished run, as ``result.json`` and ``pictures.json`` tell it, without running anything."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        "distance": {
            "squared_mmd": 0.00419,
            "low": 0.00322,
            "high": 0.00501,
            "curve": curve.tolist(),
        },
        "in_sample_squared_mmd": 0.00298,
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
    """One line of a comparison."""
    return {"kind": kind, "name": name, "squared_mmd": squared_mmd, "meaning": meaning, "scores": {}}


def warning(text: str) -> dict[str, Any]:
    """What the user should know."""
    return {"kind": "canary-kind", "owner": None, "text": text}


def guarantee(observer: str, protects: str, epsilon: float | None, basis: str, note: str) -> dict[str, Any]:
    """One view's."""
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
    """Two clusters; the target is one of them and the summary finds it."""
    coins = public_coins(8)
    near, far = coins.normal((1.6, 0.4), (0.9, 0.7), (70, 2)), coins.normal((-1.4, -0.2), (1.3, 1.1), (620, 2))
    pool = np.concatenate([far, coins.normal((1.2, 0.4), (1.2, 0.9), (380, 2))])
    summary = coins.normal((1.6, 0.4), (0.85, 0.7), (100, 2))
    return {
        "labels": None,
        "projection": {
            "target": near.tolist(),
            "summary": summary.tolist(),
            "pool": pool.tolist(),
            "explained": [0.312, 0.184],
        },
        "marginals": [
            _values(name, place, coins) if name in ("sex", "chest pain") else _histogram(name, place, coins)
            for place, name in enumerate(columns)
        ],
        "images": _images(coins) if images else None,
    }


def _histogram(name: str, place: int, coins: np.random.Generator) -> dict[str, Any]:
    edges = np.linspace(20.0, 80.0, 13)
    parts = {"target": coins.normal(60, 8, 70), "summary": coins.normal(59.5, 8.5, 100)}
    return {
        "column": name,
        "kind": "numeric",
        "edges": edges.tolist(),
        "values": None,
        "missing": None,
        **{part: _shares(np.histogram(rows, edges)[0]) for part, rows in parts.items()},
        "difference_before": 0.6 - 0.07 * place,
        "difference_after": 0.08 - 0.01 * place,
    }


def _values(name: str, place: int, coins: np.random.Generator) -> dict[str, Any]:
    values = ["female", "male"] if name == "sex" else ["typical angina", "atypical angina", "other pain", "none"]
    weights = {"target": 3.0, "summary": 2.8}
    return {
        "column": name,
        "kind": "category",
        "edges": None,
        "values": values,
        "missing": None,
        "others": {"count": 0, "target": 0.0, "summary": 0.0},
        **{part: _shares(scale ** np.arange(len(values)) + coins.random()) for part, scale in weights.items()},
        "difference_before": 0.5 - 0.06 * place,
        "difference_after": 0.03,
    }


def _shares(counts: NDArray[Any]) -> list[float]:
    return [float(one) for one in counts / counts.sum()]


def _images(coins: np.random.Generator) -> dict[str, Any]:
    return {"target": coins.random((30, 64)).tolist(), "summary": coins.random((40, 64)).tolist(), "side": 8}
