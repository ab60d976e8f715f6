"""For the same coins and simulated noise, letters leave the same summary and ledgers behind, whoever carries them.

Processes are started here, so a test does several runs per start.
"""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest
from engine_scenarios import (
    ORDERS,
    PYTHONPATH,
    SCENARIOS,
    check_traces,
    give_orders,
    invitation_to,
    run_locally,
    settle_sites,
    traces,
)
from letter_wire import LetterWire
from protocol_world import CONSUMER, same_summary, terms, world
from site_factory import SECRET, WISHES, receipt

from likeset.errors import QuorumMissed
from likeset.geometry.kernels import squared_mmd
from likeset.geometry.selection import Selection
from likeset.protocol.terms import Terms
from likeset.protocol.wire import Summary, decode
from likeset.transports.local import LocalEngine
from likeset.transports.nvflare.engine import simulate
from likeset.transports.nvflare.run_report import RunReport
from likeset.transports.site_reasons import REASONS_FILE

needs_nvflare = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")
RESUMED = ("sealed", "threshold", "interactive", "gaussian", "interactive-denied")
LATE = terms(run="decided-late")
SILENT = terms(run="unheard", protocol="interactive")  # runs go by name, and who is silent stays so for a while
EXPIRED = terms(run="expired", expires="2001-01-01")
CANARY = "123456.789"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_through_letters_is_repeated_without_a_new_draw_and_with_the_very_letters(
    tmp_path: Path, name: str
) -> None:
    """The second time the simulated noise would be another: what is equal was stored and sent again."""
    invited = settle_sites(tmp_path, [SCENARIOS[name]])[name]
    wires = []
    for seed in (0, 99):
        give_orders(tmp_path, noise_seed=seed)
        wires.append(LetterWire(tmp_path, invited))
        if name == "too-few":
            with pytest.raises(QuorumMissed):
                wires[-1].run()
        else:
            wires[-1].run()
        if seed == 0:
            before = traces(tmp_path, name)
    assert traces(tmp_path, name) == before
    first, again = (wire.told for wire in wires)
    assert first == again
    assert bool(first) == (name != "too-few")


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "-" not in name])
def test_letters_come_to_what_messages_in_one_process_come_to(tmp_path: Path, name: str) -> None:
    invited = settle_sites(tmp_path, [SCENARIOS[name]])[name]
    assert run_locally(invited, tmp_path) == "done"
    wished = WISHES.get(name, Selection())
    # Each with noise of its own, as at its own site.
    owners, curator, consumer = (world(invited.terms, secret=SECRET, selection=wished) for _ in range(3))
    result = LocalEngine().run(curator.curator(), owners.owners(), consumer.consumer())
    body = decode((tmp_path / CONSUMER / f"{name}.summary").read_bytes()).body
    assert isinstance(body, Summary)
    assert same_summary(body, result.summary)


@pytest.mark.parametrize("name", WISHES)
def test_what_the_consumer_wishes_is_heeded_in_runs_of_every_engine(tmp_path: Path, name: str) -> None:
    """By terms that are equal but for the run's name; the engines below are compared with this one."""
    run_locally(settle_sites(tmp_path, [SCENARIOS[name]])[name], tmp_path)
    body = decode((tmp_path / CONSUMER / f"{name}.summary").read_bytes()).body
    assert isinstance(body, Summary)
    target, gamma = world(SCENARIOS[name]).target, WISHES[name].gamma
    assert gamma is not None
    assert body.squared_mmds[-1] == pytest.approx(squared_mmd(body.rows, target, gamma=gamma), rel=1e-4)
    assert (body.weights.max() > body.weights.min()) == WISHES[name].weighted


@pytest.mark.slow
@needs_nvflare
def test_the_simulator_comes_to_what_the_local_engine_comes_to_and_resumes(tmp_path: Path) -> None:
    """First all scenarios; then, with other noise and in new processes, some of them again, and what takes time."""
    local, simulated = tmp_path / "local", tmp_path / "simulated"
    invited = settle_sites(local, [*SCENARIOS.values(), LATE, SILENT, EXPIRED])
    shutil.copytree(local, simulated)
    outcomes = {name: run_locally(invited[name], local) for name in SCENARIOS}
    reports = _simulate(tmp_path, *SCENARIOS)
    for name, report in reports.items():
        assert report.outcome == {"done": "done", "QuorumMissed": "quorum missed"}[outcomes[name]]
        absent = name.partition("-")[2] in ("denied", "poor", "broken", "few")
        assert report.unanswered == ({"b": "abstains"} if absent else {})
        assert report.refused == ()
    check_traces(simulated, local)
    assert "somebody here said no" in (simulated / "b" / REASONS_FILE).read_text()
    _search_for_canaries(tmp_path)
    # Receipts come to all who take part, however the run ended; without a quorum nobody does.
    # Who could not pay for its answer wrote nothing down, not even who the curator is: nothing left, and no receipt.
    without = [*ORDERS["b"]["deny"], *ORDERS["b"]["poor"]]
    denied = {name: ["b"] if name in without else [] for name in SCENARIOS}
    denied["too-few"] = ["a", "b", "c"]
    assert {name: _unacknowledged(simulated, SCENARIOS[name]) for name in SCENARIOS} == denied

    for path in simulated.rglob("*.receipt"):
        path.unlink()
    give_orders(simulated, noise_seed=99)
    give_orders(simulated, "b", noise_seed=99, **{"decide-late": [LATE.run], "silent": [SILENT.run]})
    again = _simulate(
        tmp_path, *RESUMED, LATE.run, SILENT.run, EXPIRED.run, seconds_per_call=30.0, seconds_for_decisions=300.0
    )
    assert [name for name in RESUMED if traces(simulated, name) != traces(local, name)] == []
    assert {name: again[name].bytes_sent for name in RESUMED} == {name: reports[name].bytes_sent for name in RESUMED}
    assert again["decided-late"].outcome == "done"
    assert again["decided-late"].unanswered == {}
    assert again[SILENT.run].outcome == "done"
    assert again[SILENT.run].unanswered == {"b": "no answer"}
    # All four are asked whether they are ready; then two calls of the consumer and nine of each owner (the opening,
    # four rounds of two), one of whom is called once only.
    assert again[SILENT.run].calls == 4 + 2 + 2 * 9 + 1
    assert again["expired"].outcome == "terms expired"
    assert again["expired"].messages == 0
    # Who fell silent is not waited for again; what is resumed is acknowledged again.
    assert _unacknowledged(simulated, SILENT) == ["b"]
    assert _unacknowledged(simulated, LATE) == []
    assert _unacknowledged(simulated, EXPIRED) == ["a", "b", "c"]
    assert [name for name in RESUMED if _unacknowledged(simulated, SCENARIOS[name]) != denied[name]] == []


def _simulate(folder: Path, *names: str, **limits: float) -> dict[str, RunReport]:
    reports = simulate(
        *(invitation_to(folder / "simulated", name) for name in names),
        workspace=folder / "nvflare",
        factory="site_factory:seat",
        folder=str(folder / "simulated" / "{site}"),
        environment={**os.environ, "PYTHONPATH": PYTHONPATH, "OPENBLAS_NUM_THREADS": "1"},
        seconds=1200.0,
        seconds_after_auction=0.0,
        **limits,
    )
    return {report.run: report for report in reports}


def _unacknowledged(folder: Path, agreed: Terms) -> list[str]:
    """Owners who have no receipt of a run; all others have their own."""
    found = {name: folder / name / f"{agreed.run}.receipt" for name in agreed.owners}
    assert all(path.read_bytes() == receipt(agreed, name) for name, path in found.items() if path.exists())
    return [name for name, path in found.items() if not path.exists()]


def _search_for_canaries(folder: Path) -> None:
    """What an owner's own error said is in no file of NVFlare, of the curator or of another owner, nor in its own."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            assert CANARY.encode() not in data, path
            if not {folder / "local" / "b", folder / "simulated" / "b"} & set(path.parents):
                assert b"somebody here said no" not in data, path
