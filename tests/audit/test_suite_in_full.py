"""The whole suite with all its observations, as ``likeset audit`` runs it; wrong sensitivities of the slower mean."""

import pytest

from chance import SEED
from likeset.audit.sound import sound_trials
from likeset.audit.trials import run_trial
from likeset.privacy.events import Relation, RowSum, SelectionSum

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def test_no_lower_bound_exceeds_a_claim_with_all_observations() -> None:
    for trial in sound_trials(SEED):
        for verdict in run_trial(trial):
            assert not verdict.violated, verdict


def test_a_wrong_sensitivity_is_refuted_by_mwem_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(quantity: RowSum | SelectionSum) -> float:
        return 0.05 * quantity.rows * quantity.radius * (2.0 if quantity.relation is Relation.REPLACE_ONE else 1.0)

    for kind in (RowSum, SelectionSum):
        monkeypatch.setattr(kind, "sensitivity", property(tiny))
    trials = [trial for trial in sound_trials(SEED) if trial.mechanism.startswith("mwem mean")]
    assert len(trials) == 9
    for trial in trials:
        assert any(verdict.violated for verdict in run_trial(trial)), trial.mechanism
