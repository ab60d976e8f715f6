"""Tests of the Summarizer: conventions, results, tables, randomness, the fallback."""

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from likeset import Summarizer, squared_mmd
from likeset.errors import InvalidArgument
from likeset.geometry.weights import weights
from likeset.ledger.ledger import Ledger
from likeset.privacy.accounting import Basis
from likeset.protocol import notices
from likeset.simulation import digits_market
from summarizer_world import LABELS, LARGE, OWNERS, SMALL, TARGET, TARGET_VIEW, guarantee_of, rows, simulated


@pytest.fixture(scope="module")
def fitted() -> Summarizer:
    """One run of the default protocol, to look at from many sides."""
    return simulated().fit(TARGET, OWNERS, LABELS)


class TestConventions:
    def test_parameters_are_kept_as_they_were_given_and_not_looked_at(self) -> None:
        odd: Any = {"size": -3, "epsilon": "much", "protocol": "unheard-of", "ledger": 3, "schema": [[1, 2], [3]]}
        made = Summarizer(**odd)
        for name, value in odd.items():
            assert getattr(made, name) is value
            assert made.get_params()[name] is value

    def test_a_clone_has_the_parameters_and_not_the_results(self, fitted: Summarizer) -> None:
        copy = clone(fitted)
        assert copy.get_params() == fitted.get_params()
        assert not [name for name in vars(copy) if name.endswith("_")]

    def test_what_is_found_ends_with_an_underscore_and_is_documented(self, fitted: Summarizer) -> None:
        found = set(vars(fitted)) - set(fitted.get_params())
        assert all(name.endswith("_") and not name.startswith("_") for name in found)
        described = set(re.findall(r"^    (\w+_): ", inspect.getdoc(Summarizer) or "", flags=re.MULTILINE))
        assert described == found


class TestResult:
    def test_the_summary_is_the_owners_rows_at_the_indices(self, fitted: Summarizer) -> None:
        assert isinstance(fitted.summary_, np.ndarray)
        assert fitted.summary_.dtype == np.float64
        expected = np.stack([OWNERS[owner][row] for owner, row in fitted.indices_])
        np.testing.assert_array_equal(fitted.summary_, expected)
        assert len(set(fitted.indices_)) == 6

    def test_history_ends_at_the_squared_mmd(self, fitted: Summarizer) -> None:
        """With equal weights the last pick's squared MMD is the summary's, up to the float32 of the messages."""
        assert [(pick.owner, pick.row) for pick in fitted.history_] == fitted.indices_
        np.testing.assert_allclose(fitted.weights_, 1 / 6)
        expected = squared_mmd(fitted.summary_, TARGET, gamma=fitted.gamma_)
        assert fitted.in_sample_squared_mmd_ == pytest.approx(expected, abs=1e-12)
        assert fitted.history_[-1].squared_mmd == pytest.approx(expected, abs=1e-6)

    def test_a_summary_larger_than_all_rows_is_all_rows_and_a_warning_where_fewer_are_allowed(self) -> None:
        found = simulated(500, allow_fewer=True).fit(TARGET, OWNERS)
        assert len(found.indices_) == len(set(found.indices_)) == 180
        assert "only 180 rows were offered where 500 were wanted" in map(str, found.warnings_)


class TestFrames:
    def test_other_columns_are_refused_by_name(self) -> None:
        pandas = pytest.importorskip("pandas")
        target = pandas.DataFrame(TARGET, columns=["x", "y", "z"])
        others = [pandas.DataFrame(OWNERS["south"], columns=columns) for columns in (["x", "y", "w"], ["y", "x", "z"])]
        for table in (*others, OWNERS["south"]):
            with pytest.raises(InvalidArgument, match=r"owners\['south'\].*\['x', 'y', 'z'\], in their order"):
                simulated().fit(target, {"south": table})


class TestRandomness:
    def test_a_simulated_run_repeats_itself_and_says_that_it_is_simulated(self, fitted: Summarizer) -> None:
        again = simulated().fit(TARGET, OWNERS, LABELS)
        assert again.indices_ == fitted.indices_
        assert again.terms_.digest == fitted.terms_.digest
        stated = guarantee_of(again, TARGET_VIEW)
        assert stated.basis is Basis.NONE
        assert "simulated" in stated.note
        assert simulated(random_state=8).fit(TARGET, OWNERS, LABELS).indices_ != fitted.indices_

    def test_secret_runs_differ_even_with_one_seed(self, tmp_path: Path) -> None:
        """The seed is for public coins: features are the same, noise and draws are not.

        Not one message is the same; a release alone has 64 numbers with noise or more. Which rows are selected may be.
        """
        kernels, messages = set(), list[set[bytes]]()
        for place in ("first", "second"):
            path = tmp_path / f"{place}.sqlite"
            found = Summarizer(6, release_gamma=0.1, random_state=1, ledger=path).fit(TARGET, OWNERS)
            kernels.add(found.terms_.kernel)
            with Ledger(path, read_only=True) as ledger:
                messages.append({one.message for one in ledger.messages()})
            assert found.warnings_ == (notices.NOT_REPEATABLE,)
        assert len(kernels) == 1
        assert min(map(len, messages)) >= 1 + len(OWNERS)
        assert not messages[0] & messages[1]


class TestFallback:
    @pytest.mark.parametrize(("size", "offers"), [(LARGE, "tilted"), (SMALL, "uniform")])
    @pytest.mark.parametrize("wished", ["tilted", "auto"])
    def test_public_quantities_decide_whatever_the_data_are(self, size: int, offers: str, wished: Any) -> None:
        for seed in (10, 11):
            target = rows(seed, size, shift=5.0 * (seed - 10)) * (1 + 6 * (seed - 10))
            found = simulated(3, gamma=0.1, offers=wished).fit(target, {"a": rows(seed, 30), "b": rows(seed + 5, 90)})
            assert found.terms_.offers == offers
            assert any(one.kind == "uniform-offers" for one in found.warnings_) == (offers == "uniform")


def test_labels_make_a_summary_of_the_right_classes_and_can_be_ignored() -> None:
    """Digits, of which the target has 3s and 4s; of a pinned seed: what comes of other noise is likely only."""
    market = digits_market(coins=np.random.default_rng(3))
    options: dict[str, Any] = {"epsilon": 4.0, "release_gamma": 0.05, "offer_factor": 6.0, "noise": "simulated"}
    right = {}
    for labels in ("match", "ignore"):
        made = Summarizer(40, labels=labels, random_state=1, **options).fit(market.target, market.owners, market.labels)
        assert made.labels_ is not None
        right[labels] = float(np.isin(made.labels_, (3, 4)).mean())
        assert (made.label_weight_ > 0.5) == (labels == "match")
        assert made.label_weight_ <= made.label_skill_ <= float(labels == "match")
    unlabelled = Summarizer(40, random_state=1, **options).fit(market.target, market.owners)
    assert made.indices_ == unlabelled.indices_
    assert right["match"] > right["ignore"]


@pytest.mark.parametrize("protocol", ["sealed", "interactive"])
def test_weights_follow_from_bought_rows_and_target_and_the_estimate_is_for_equal_weights(protocol: Any) -> None:
    """Labels are matched in the sealed run; so labels of rows that were not bought influence no weight."""
    market = digits_market(coins=np.random.default_rng(3))
    options: dict[str, Any] = {"epsilon": 4.0, "release_gamma": 0.05, "noise": "simulated", "random_state": 1}
    if protocol == "interactive":
        options |= {"protocol": protocol, "dimension": 16}
    plain, weighted = (
        Summarizer(12, weights=wished, **options).fit(market.target, market.owners, market.labels)
        for wished in (False, True)
    )
    assert weighted.indices_ == plain.indices_
    assert (plain.label_weight_ > 0.0) == (protocol == "sealed")
    expected = weights(weighted.summary_, market.target, gamma=plain.gamma_)
    np.testing.assert_allclose(weighted.weights_, expected, rtol=1e-6, atol=1e-9)
    assert weighted.in_sample_squared_mmd_ < 0.95 * plain.in_sample_squared_mmd_
    assert weighted.distance_ == plain.distance_
    assert ("equal weight" in weighted.story_) == (protocol == "sealed")
