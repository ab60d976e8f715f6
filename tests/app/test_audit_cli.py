"""``likeset audit`` on trials small enough to wait for; the real ones run in tests/audit."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from chance import pinned_coins
from likeset.app.cli import app
from likeset.audit.harness import Claim, Trial
from likeset.errors import InvalidArgument
from likeset.privacy.events import Relation


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


def test_claims_that_hold_exit_with_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, progress = invoke(monkeypatch, [], [HONEST, replace(HONEST, pair="another moves")])
    assert code == 0
    assert out.count("holds") == 2
    assert "2 of 2 claims not refuted" in out
    assert progress.splitlines() == ["trials run: 0 of 2", "trials run: 1 of 2"]


def test_a_refuted_claim_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = invoke(monkeypatch, [], [HONEST, LYING])
    assert code == 1
    assert "VIOLATED" in out


def test_broken_mechanisms_that_are_caught_exit_with_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = invoke(monkeypatch, ["--broken"], [LYING])
    assert code == 0
    assert "caught" in out


def test_a_broken_mechanism_that_is_missed_exits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = invoke(monkeypatch, ["--broken"], [LYING, HONEST])
    assert code == 1
    assert "MISSED" in out


def test_json_is_one_document_with_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = invoke(monkeypatch, ["--json", "--samples", "2000"], [HONEST, LYING])
    assert code == 1
    honest, lying = json.loads(out)
    assert honest["mechanism"] == "honest"
    assert honest["noise"] == "simulated"
    assert (honest["claimed"], honest["delta"], honest["samples"]) == (1.0, 0.05, 2000)
    assert honest["verdict"] == "holds"
    assert lying["verdict"] == "VIOLATED"
    assert lying["lower_bound"] > 1 > honest["lower_bound"]
    assert lying["error"] == 1e-9
    assert honest["relation"] == "replace-one"
    assert 1 < honest["found_from_epsilon"] < 3
    assert 0.05 < honest["found_from_leak"] < 0.5


def test_every_claim_of_a_trial_has_a_row_and_what_nothing_could_refute_has_no_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    several = replace(HONEST, claims=(Claim(1.0, 0.05), Claim(30.0, 0.0)))
    code, out, _ = invoke(monkeypatch, ["--json"], [several])
    assert code == 0
    sharp, blunt = json.loads(out)
    assert (sharp["delta"], blunt["delta"]) == (0.05, 0.0)
    assert blunt["found_from_epsilon"] is blunt["found_from_leak"] is None


def test_one_claim_of_several_that_is_not_refuted_counts_as_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    half_caught = replace(LYING, claims=(Claim(1.0, 0.05), Claim(30.0, 0.0)))
    code, out, _ = invoke(monkeypatch, ["--broken"], [half_caught])
    assert code == 1
    assert "1 of 2 broken mechanisms caught" in out


def test_verbose_also_names_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = invoke(monkeypatch, ["--verbose"], [LYING])
    assert "event" in out
    _, out, _ = invoke(monkeypatch, [], [LYING])
    assert "event" not in out


def test_too_few_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="samples = 10: must be at least 1000"):
        invoke(monkeypatch, ["--samples", "10"], [HONEST])
