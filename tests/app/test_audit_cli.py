"""``likeset audit`` on trials small enough to wait for; the real ones run in tests/audit."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from chance import pinned_coins
from likeset.app.cli import app
from likeset.audit.auditor import Claim, Trial
from likeset.privacy.events import Relation
from screens import Screens


def trial(name: str, *, claimed: float, shift: float) -> Trial:
    """N(0, 1) against N(shift, 1)."""
    coins = pinned_coins(1)
    return Trial(
        mechanism=name,
        pair="a number moves",
        relation=Relation.REPLACE_ONE,
        noise="simulated",
        claims=(Claim(claimed, 0.05),),
        observe=lambda side, size: side * shift + coins.normal(size=size),
        samples=4_000,
    )


HONEST = trial("honest", claimed=1.0, shift=0.1)
LYING = trial("lying", claimed=1.0, shift=5.0)


def invoke(monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], trials: Sequence[Trial]) -> tuple[int, str, str]:
    monkeypatch.setattr("likeset.app.cli.privacy.sound_trials", lambda: list(trials))
    monkeypatch.setattr("likeset.app.cli.privacy.broken_trials", lambda: list(trials))
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("trials", "broken", "code", "verdicts"),
    [
        ([HONEST, replace(HONEST, pair="another moves")], [], 0, ["holds", "holds"]),
        ([HONEST, LYING], [], 1, ["holds", "VIOLATED"]),
        ([LYING], ["--broken"], 0, ["caught"]),
        ([LYING, HONEST], ["--broken"], 1, ["caught", "MISSED"]),
        ([replace(LYING, claims=(Claim(1.0, 0.05), Claim(30.0, 0.0)))], ["--broken"], 1, ["caught", "MISSED"]),
    ],
)
def test_the_exit_code_is_one_if_a_claim_is_refuted_or_a_broken_mechanism_missed(
    monkeypatch: pytest.MonkeyPatch, trials: list[Trial], broken: list[str], code: int, verdicts: list[str]
) -> None:
    ended, out, progress = invoke(monkeypatch, broken, trials)
    assert (ended, len(progress.splitlines())) == (code, len(trials))
    assert all(verdict in out for verdict in verdicts)
    _, out, _ = invoke(monkeypatch, [*broken, "--json", "--samples", "3000"], trials)
    assert [(row["verdict"], row["samples"]) for row in json.loads(out)] == [(verdict, 3000) for verdict in verdicts]


def test_the_screen(monkeypatch: pytest.MonkeyPatch, screens: Screens) -> None:
    screens.check("audit", invoke(monkeypatch, [], [HONEST, LYING])[1])
