"""The front door: scikit-learn's conventions, results in terms of what the caller gave, budgets, and bad input."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from likeset import Summarizer, squared_mmd
from likeset.errors import (
    BudgetExceeded,
    DifferentRequest,
    InvalidArgument,
    LikesetError,
    QuorumMissed,
    UnprovenPart,
)
from likeset.ledger import Ledger
from likeset.ledger.accounts import Account
from likeset.privacy import accounting
from likeset.privacy.guarantee import Basis, Guarantee
from likeset.privacy.relation import Relation
from likeset.privacy.view import View

LARGE, SMALL = 200, 40  # rows of a target: a release at epsilon = 1 pays with the first and not with the second
TARGET_VIEW = View.owners("consumer")
PAPER: dict[str, Any] = {
    "protocol": "interactive",
    "dimension": 20,
    "summary_release": "mwem",
    "schedule": "experiment",
    "auction": "paper",
    "auction_epsilon": 0.02,
    "seed_rows": np.zeros((3, 3)),
}
PAPER_PARTS = ("paper-auction", "summary-release")


def rows(seed: int, count: int, *, shift: float = 0.0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(shift, 1.0, size=(count, 3))


TARGET = rows(0, LARGE)
OWNERS = {"north clinic": rows(1, 70), "south": rows(2, 50, shift=1.0), "west/2": rows(3, 60, shift=-0.5)}
LABELS = {name: np.arange(len(table)) % 4 for name, table in OWNERS.items()}


def simulated(size: int = 6, **settings: Any) -> Summarizer:
    return Summarizer(size, **{"release_gamma": 0.1, "noise": "simulated", "random_state": 7, **settings})


def labels_of(fitted: Summarizer) -> list[Any]:
    assert fitted.labels_ is not None
    return list(fitted.labels_.tolist())


def guarantee_of(fitted: Summarizer, view: View) -> Guarantee:
    (found,) = [one.guarantee for one in fitted.guarantees_ if one.view == view]
    assert isinstance(found, Guarantee)
    return found


def account(path: Path, view: View) -> Account:
    with Ledger(path, read_only=True) as ledger:
        (found,) = [one for one in ledger.accounts() if one.view == view]
    return found


@pytest.fixture(scope="module")
def fitted() -> Summarizer:
    """One run of the default protocol, to look at from many sides."""
    return simulated().fit(TARGET, OWNERS, LABELS)


class TestConventions:
    def test_parameters_are_kept_as_they_were_given_and_not_looked_at(self) -> None:
        odd: Any = {"size": -3, "epsilon": "much", "protocol": "unheard-of", "ledger": 3, "seed_rows": [[1, 2], [3]]}
        made = Summarizer(**odd)
        for name, value in odd.items():
            assert getattr(made, name) is value
            assert made.get_params()[name] is value

    def test_parameters_can_be_set(self) -> None:
        made = Summarizer(5).set_params(size=9, epsilon=0.5)
        assert (made.size, made.epsilon) == (9, 0.5)
        with pytest.raises(ValueError, match="no_such_thing"):
            made.set_params(no_such_thing=1)

    def test_a_clone_has_the_parameters_and_not_the_results(self, fitted: Summarizer) -> None:
        copy = clone(fitted)
        assert copy.get_params() == fitted.get_params()
        assert not [name for name in vars(copy) if name.endswith("_")]

    def test_a_clone_gives_the_same_simulated_result(self, fitted: Summarizer) -> None:
        assert clone(fitted).fit(TARGET, OWNERS, LABELS).indices_ == fitted.indices_

    def test_fit_returns_itself_and_leaves_the_parameters_alone(self) -> None:
        made = simulated(3)
        before = made.get_params()
        assert made.fit(TARGET, OWNERS) is made
        assert made.get_params() == before

    def test_what_is_found_ends_with_an_underscore_and_is_documented(self, fitted: Summarizer) -> None:
        found = set(vars(fitted)) - set(fitted.get_params())
        assert all(name.endswith("_") and not name.startswith("_") for name in found)
        described = set(re.findall(r"^        (\w+_): ", Summarizer.__doc__ or "", flags=re.MULTILINE))
        assert described == found

    def test_every_parameter_is_documented(self) -> None:
        described = set(re.findall(r"^        (\w+): ", Summarizer.__doc__ or "", flags=re.MULTILINE))
        assert set(Summarizer(1).get_params()) <= described


class TestResult:
    def test_the_summary_is_the_owners_rows_at_the_indices(self, fitted: Summarizer) -> None:
        assert isinstance(fitted.summary_, np.ndarray)
        assert fitted.summary_.dtype == np.float64
        expected = np.stack([OWNERS[owner][row] for owner, row in fitted.indices_])
        np.testing.assert_array_equal(fitted.summary_, expected)
        assert len(set(fitted.indices_)) == 6

    def test_labels_are_those_of_the_rows(self, fitted: Summarizer) -> None:
        assert labels_of(fitted) == [LABELS[owner][row] for owner, row in fitted.indices_]

    def test_without_labels_there_are_none(self) -> None:
        assert simulated(3).fit(TARGET, OWNERS).labels_ is None

    @pytest.mark.parametrize("as_objects", [True, False])
    def test_labels_may_be_text(self, as_objects: bool) -> None:
        """Data frames hold text as objects."""
        words = {name: np.array([f"class {label}" for label in values]) for name, values in LABELS.items()}
        given = {name: values.astype(object) for name, values in words.items()} if as_objects else words
        found = simulated(4).fit(TARGET, OWNERS, given)
        assert found.warnings_ == ()
        assert labels_of(found) == [words[owner][row] for owner, row in found.indices_]

    @pytest.mark.parametrize("dtype", [np.float32, np.int64])
    def test_the_summary_has_the_type_of_the_tables(self, dtype: Any) -> None:
        tables = {name: (10 * table).astype(dtype) for name, table in OWNERS.items()}
        found = simulated(4, release_gamma=0.001).fit((10 * TARGET).astype(dtype), tables)
        assert found.summary_.dtype == dtype
        np.testing.assert_array_equal(found.summary_, [tables[owner][row] for owner, row in found.indices_])

    def test_lists_are_tables_too(self) -> None:
        tables = {name: table.tolist() for name, table in OWNERS.items()}
        assert simulated(4).fit(TARGET.tolist(), tables).indices_ == simulated(4).fit(TARGET, OWNERS).indices_

    def test_history_ends_at_the_squared_mmd(self, fitted: Summarizer) -> None:
        """With equal weights the last pick's squared MMD is the summary's, up to the float32 of the messages."""
        assert [(pick.owner, pick.row) for pick in fitted.history_] == fitted.indices_
        np.testing.assert_allclose(fitted.weights_, 1 / 6)
        expected = squared_mmd(fitted.summary_, TARGET, gamma=fitted.gamma_)
        assert fitted.squared_mmd_ == pytest.approx(expected, abs=1e-12)
        assert fitted.history_[-1].squared_mmd == pytest.approx(expected, abs=1e-6)

    def test_history_follows_from_the_rows(self, fitted: Summarizer) -> None:
        for made, pick in enumerate(fitted.history_, start=1):
            so_far = squared_mmd(fitted.summary_[:made], TARGET, gamma=fitted.gamma_)
            assert pick.squared_mmd == pytest.approx(so_far, abs=1e-6)

    def test_weights_match_better(self, fitted: Summarizer) -> None:
        weighted = simulated(weights=True).fit(TARGET, OWNERS, LABELS)
        assert weighted.indices_ == fitted.indices_
        assert weighted.weights_.sum() == pytest.approx(1.0)
        assert weighted.weights_.min() >= 0.0
        assert weighted.squared_mmd_ < fitted.squared_mmd_
        assert weighted.squared_mmd_ == pytest.approx(
            squared_mmd(weighted.summary_, TARGET, gamma=weighted.gamma_, weights=weighted.weights_)
        )

    def test_the_access_ratio_counts_rows_seen(self, fitted: Summarizer) -> None:
        """60 rows are offered in all, 20 by each of three owners: (60 + 200) / (6 + 200)."""
        assert fitted.rows_seen_ == 60
        assert fitted.access_ratio_ == pytest.approx(260 / 206)

    def test_shares_add_up(self, fitted: Summarizer) -> None:
        assert list(fitted.shares_) == list(OWNERS)
        assert sum(fitted.shares_.values()) == pytest.approx(1.0)

    def test_owners_are_paid_for_the_rows_that_they_sent(self) -> None:
        tables = {**OWNERS, "tiny": rows(4, 5)}
        found = simulated(6, price_per_row=2.0).fit(TARGET, tables)
        paid = {one.owner: (one.rows_disclosed, one.payment) for one in found.attribution_.owners}
        assert paid == {"north_clinic": (15, 30.0), "south": (15, 30.0), "west/2": (15, 30.0), "tiny": (5, 10.0)}
        assert found.rows_seen_ == 50

    def test_gamma_by_the_median_follows_its_scale(self) -> None:
        one, three = (simulated(3, gamma_scale=scale).fit(TARGET, OWNERS).gamma_ for scale in (1.0, 3.0))
        assert three == pytest.approx(3.0 * one)
        assert simulated(3, gamma=0.25).fit(TARGET, OWNERS).gamma_ == 0.25

    def test_progress_is_told(self) -> None:
        heard: list[tuple[str, int, int]] = []
        simulated(3, progress=lambda *news: heard.append(news)).fit(TARGET, OWNERS)
        assert heard[-1] == ("owners", 3, 3)

    def test_a_summary_larger_than_all_rows_is_all_rows_and_a_warning(self) -> None:
        found = simulated(500).fit(TARGET, OWNERS)
        assert len(found.indices_) == len(set(found.indices_)) == 180
        assert "only 180 rows were offered where 500 were wanted" in found.warnings_


class TestFrames:
    def test_pandas_in_pandas_out(self) -> None:
        pandas = pytest.importorskip("pandas")
        tables = {
            name: pandas.DataFrame(table, columns=["x", "y", "z"], index=[f"{name}-{row}" for row in range(len(table))])
            for name, table in OWNERS.items()
        }
        labels = {name: pandas.Series(values) for name, values in LABELS.items()}
        found = simulated().fit(pandas.DataFrame(TARGET, columns=["x", "y", "z"]), tables, labels)
        assert isinstance(found.summary_, pandas.DataFrame)
        assert found.summary_.index.tolist() == [f"{owner}-{row}" for owner, row in found.indices_]
        assert found.terms_.columns == ("x", "y", "z")
        assert found.indices_ == simulated().fit(TARGET, OWNERS, LABELS).indices_

    def test_other_columns_are_refused_by_name(self) -> None:
        pandas = pytest.importorskip("pandas")
        target = pandas.DataFrame(TARGET, columns=["x", "y", "z"])
        for columns, words in ((["x", "y", "w"], "lacks"), (["y", "x", "z"], "order")):
            tables = {"south": pandas.DataFrame(OWNERS["south"], columns=columns)}
            with pytest.raises(InvalidArgument, match=rf"owners\['south'\].*{words}"):
                simulated().fit(target, tables)
        with pytest.raises(InvalidArgument, match="same kind"):
            simulated().fit(target, OWNERS)

    def test_polars_in_polars_out(self) -> None:
        polars = pytest.importorskip("polars")
        tables = {name: polars.DataFrame(table, schema=["x", "y", "z"]) for name, table in OWNERS.items()}
        found = simulated().fit(polars.DataFrame(TARGET, schema=["x", "y", "z"]), tables)
        assert isinstance(found.summary_, polars.DataFrame)
        np.testing.assert_array_equal(found.summary_.to_numpy(), [OWNERS[owner][row] for owner, row in found.indices_])


class TestRandomness:
    def test_a_simulated_run_repeats_itself_and_says_that_it_is_simulated(self, fitted: Summarizer) -> None:
        again = simulated().fit(TARGET, OWNERS, LABELS)
        assert again.indices_ == fitted.indices_
        assert again.terms_.digest == fitted.terms_.digest
        stated = guarantee_of(again, TARGET_VIEW)
        assert stated.basis is Basis.NONE
        assert "simulated" in stated.note
        assert simulated(random_state=8).fit(TARGET, OWNERS, LABELS).indices_ != fitted.indices_

    def test_secret_runs_differ_even_with_one_seed(self) -> None:
        """The seed is for public coins: features are the same, noise and draws are not."""
        first, second = (Summarizer(6, release_gamma=0.1, random_state=1).fit(TARGET, OWNERS) for _ in range(2))
        assert first.terms_.kernel == second.terms_.kernel
        assert first.indices_ != second.indices_

    def test_without_a_seed_features_differ_too(self) -> None:
        first, second = (Summarizer(6, release_gamma=0.1).fit(TARGET, OWNERS) for _ in range(2))
        assert first.terms_.kernel.seed != second.terms_.kernel.seed

    def test_secret_noise_is_proven(self) -> None:
        found = Summarizer(6, release_gamma=0.1).fit(TARGET, OWNERS)
        stated = guarantee_of(found, TARGET_VIEW)
        assert stated.basis is Basis.PROVEN
        assert 0.99 < stated.epsilon <= 1.0
        assert guarantee_of(found, View.owners("south")).epsilon == 0.0


class TestFallback:
    @pytest.mark.parametrize(("size", "offers"), [(LARGE, "tilted"), (SMALL, "uniform")])
    @pytest.mark.parametrize("wished", ["tilted", "auto"])
    def test_public_quantities_decide_whatever_the_data_are(self, size: int, offers: str, wished: Any) -> None:
        for seed in (10, 11):
            target = rows(seed, size, shift=5.0 * (seed - 10)) * (1 + 10 * (seed - 10))
            found = simulated(3, gamma=0.1, offers=wished).fit(target, {"a": rows(seed, 30), "b": rows(seed + 5, 90)})
            assert found.terms_.offers == offers
            assert any("offers are uniform" in words for words in found.warnings_) == (offers == "uniform")

    @pytest.mark.parametrize("wished", ["tilted", "uniform"])
    def test_uniform_offers_spend_nothing(self, tmp_path: Path, wished: Any) -> None:
        path = tmp_path / "ledger.sqlite"
        found = Summarizer(4, offers=wished, ledger=path).fit(rows(0, SMALL), OWNERS)
        assert found.terms_.offers == "uniform"
        assert account(path, TARGET_VIEW).epsilon == 0.0
        with Ledger(path, read_only=True) as ledger:
            charged = [entry.key for entry in ledger.entries() if entry.kind == "reserve"]
        assert not [key for key in charged if "target-release" in key or "width" in key]
        assert guarantee_of(found, TARGET_VIEW).epsilon == 0.0
        assert bool(found.warnings_) == (wished == "tilted")

    def test_a_wish_for_uniform_offers_is_no_warning(self) -> None:
        assert simulated(3, offers="uniform").fit(TARGET, OWNERS).warnings_ == ()


class TestLedger:
    def test_a_second_run_beyond_the_limit_is_refused_before_anything_is_spent(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        Summarizer(4, release_gamma=0.1, ledger=path, run="first").fit(TARGET, OWNERS)
        with Ledger(path, read_only=True) as ledger:
            before = ledger.head()
        with pytest.raises(BudgetExceeded):
            Summarizer(4, release_gamma=0.1, ledger=path, run="second").fit(TARGET, OWNERS)
        with Ledger(path, read_only=True) as ledger:
            assert ledger.head() == before
            assert ledger.messages(run="second") == ()

    def test_the_targets_budget_is_one_over_all_runs(self, tmp_path: Path) -> None:
        """Other owners, whose budgets are fresh: the target's is what is spent."""
        path = tmp_path / "ledger.sqlite"
        Summarizer(4, release_gamma=0.1, ledger=path, run="first").fit(TARGET, OWNERS)
        others = {f"new {name}": table for name, table in OWNERS.items()}
        with pytest.raises(BudgetExceeded, match="any owners see consumer"):
            Summarizer(4, release_gamma=0.1, ledger=path, run="second").fit(TARGET, others)
        assert account(path, TARGET_VIEW).epsilon == pytest.approx(1.0, rel=1e-5)
        uniform = Summarizer(4, offers="uniform", ledger=path, run="third").fit(TARGET, others)
        assert len(uniform.indices_) == 4

    def test_an_owner_without_rows_left_abstains_and_the_run_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        first = {"south": OWNERS["south"]}
        Summarizer(4, offers="uniform", ledger=path, run="first").fit(TARGET, first)
        found = Summarizer(4, offers="uniform", ledger=path, run="second").fit(TARGET, OWNERS)
        assert {owner for owner, _ in found.indices_} <= {"north clinic", "west/2"}
        assert "south did not take part" in found.warnings_
        assert any("budget exceeded" in words for words in found.warnings_)

    @pytest.mark.parametrize(
        "settings",
        [
            {"release_gamma": 0.1},
            {},
            {"release_gamma": 0.1, "hash_dimension": 32},
            {"release_gamma": 0.1, "protocol": "interactive"},
            {"release_gamma": 0.1, "auction": "threshold", "owner_epsilon": 2.0},
        ],
    )
    def test_a_run_of_the_same_name_is_resumed_and_gives_the_same_summary(
        self, tmp_path: Path, settings: dict[str, Any]
    ) -> None:
        path = tmp_path / "ledger.sqlite"
        first = Summarizer(4, ledger=path, **settings).fit(TARGET, OWNERS, LABELS)
        spent = account(path, TARGET_VIEW)
        second = Summarizer(4, ledger=path, **settings).fit(TARGET, OWNERS, LABELS)
        assert second.indices_ == first.indices_
        assert second.rows_seen_ == first.rows_seen_
        assert second.attribution_ == first.attribution_
        assert labels_of(second) == labels_of(first)
        assert account(path, TARGET_VIEW) == spent

    def test_a_run_does_not_go_on_with_other_data_or_other_terms(self, tmp_path: Path) -> None:
        """Else it would get answers that were made for the data that it began with."""
        path = tmp_path / "ledger.sqlite"
        Summarizer(4, release_gamma=0.1, ledger=path).fit(TARGET, OWNERS, LABELS)
        with pytest.raises(DifferentRequest):
            Summarizer(4, release_gamma=0.1, ledger=path).fit(TARGET + 1e-9, OWNERS, LABELS)
        with pytest.raises(DifferentRequest):
            Summarizer(4, release_gamma=0.1, ledger=path).fit(TARGET, OWNERS)
        with pytest.raises(DifferentRequest):
            Summarizer(5, release_gamma=0.1, ledger=path).fit(TARGET, OWNERS, LABELS)

    def test_without_a_file_every_run_is_its_own(self) -> None:
        for _ in range(2):
            Summarizer(4, release_gamma=0.1).fit(TARGET, OWNERS)


class TestReleaseWidth:
    def test_a_given_width_is_used_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        found = Summarizer(4, release_gamma=0.123, ledger=path).fit(TARGET, OWNERS)
        assert found.terms_.kernel.gamma == 0.123
        self.check_guarantee(found, path)

    def test_public_rows_give_it_for_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        public = rows(20, 100)
        found = Summarizer(4, ledger=path).fit(TARGET, OWNERS, public_rows=public)
        other = Summarizer(4).fit(2.0 * TARGET, OWNERS, public_rows=public)
        assert found.terms_.kernel.gamma == other.terms_.kernel.gamma
        assert found.terms_.target_budget.epsilon == 1.0
        self.check_guarantee(found, path)

    def test_a_private_choice_is_charged_within_the_budget(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        found = Summarizer(4, ledger=path).fit(TARGET, OWNERS)
        with Ledger(path, read_only=True) as ledger:
            charged = [entry.key for entry in ledger.entries() if entry.kind == "reserve"]
        assert any("consumer/width" in key for key in charged)
        assert found.terms_.target_budget.epsilon < 1.0
        self.check_guarantee(found, path)

    @staticmethod
    def check_guarantee(found: Summarizer, path: Path) -> None:
        """What is stated is what the ledger counted, and no more than was asked for."""
        stated, spent = guarantee_of(found, TARGET_VIEW), account(path, TARGET_VIEW).epsilon
        assert spent is not None
        assert spent == pytest.approx(stated.epsilon, rel=1e-4)
        assert max(spent, stated.epsilon) <= 1.0 + 1e-9
        (event,) = [one.event for one in found.guarantees_ if one.view == TARGET_VIEW]
        priced = accounting.guarantee(event, relation=Relation.REPLACE_ONE, delta=1e-5)
        assert stated == priced

    def test_under_add_or_remove_it_must_be_given(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        with pytest.raises(InvalidArgument, match=r"release_gamma.*add-or-remove"):
            Summarizer(4, relation="add-or-remove", declared_size=len(TARGET), ledger=path).fit(TARGET, OWNERS)
        assert not path.exists()
        found = Summarizer(4, relation="add-or-remove", declared_size=len(TARGET), release_gamma=0.1).fit(
            TARGET, OWNERS
        )
        stated = guarantee_of(found, TARGET_VIEW)
        assert (stated.basis, stated.relation) == (Basis.PROVEN, Relation.ADD_OR_REMOVE)

    def test_under_add_or_remove_the_number_of_rows_is_nobody_s_business(self) -> None:
        """Neighbours differ in their number of rows: with a declared one, the terms are the same for both."""
        wishes: dict[str, Any] = {
            "relation": "add-or-remove",
            "release_gamma": 0.1,
            "noise": "simulated",
            "random_state": 3,
        }
        with pytest.raises(InvalidArgument, match=r"declared_size.*add-or-remove"):
            Summarizer(4, **wishes).fit(TARGET, OWNERS)
        all_rows = Summarizer(4, declared_size=25, **wishes).fit(TARGET, OWNERS)
        one_less = Summarizer(4, declared_size=25, **wishes).fit(TARGET[1:], OWNERS)
        assert all_rows.terms_ == one_less.terms_
        with pytest.raises(InvalidArgument, match="goes with add-or-remove"):
            Summarizer(4, declared_size=25).fit(TARGET, OWNERS)

    def test_with_a_schedule_it_must_be_given(self) -> None:
        with pytest.raises(InvalidArgument, match="release_gamma"):
            simulated(4, **PAPER, accept_unproven=PAPER_PARTS, release_gamma=None).fit(TARGET, OWNERS)


class TestOtherProtocols:
    def test_interactive_is_proven_by_default(self) -> None:
        found = Summarizer(5, protocol="interactive", release_gamma=0.1).fit(TARGET, OWNERS, LABELS)
        np.testing.assert_array_equal(found.summary_, [OWNERS[owner][row] for owner, row in found.indices_])
        assert labels_of(found) == [LABELS[owner][row] for owner, row in found.indices_]
        assert guarantee_of(found, TARGET_VIEW).basis is Basis.PROVEN
        assert guarantee_of(found, View.owners("south")).epsilon == 0.0
        assert found.rows_seen_ == 15
        assert found.history_[-1].squared_mmd == pytest.approx(found.squared_mmd_, abs=1e-6)

    def test_interactive_with_a_gaussian_summary_release_needs_a_budget_of_the_owners(self) -> None:
        settings: dict[str, Any] = {"protocol": "interactive", "summary_release": "gaussian"}
        with pytest.raises(InvalidArgument, match="owner_"):
            simulated(4, **settings).fit(TARGET, OWNERS)
        assert len(simulated(4, **settings, owner_epsilon=1.0).fit(TARGET, OWNERS).indices_) == 4

    def test_the_papers_settings_are_refused_unless_accepted_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "ledger.sqlite"
        for accepted in ((), PAPER_PARTS[:1], PAPER_PARTS[1:]):
            with pytest.raises(UnprovenPart):
                Summarizer(4, **PAPER, release_gamma=0.1, accept_unproven=accepted, ledger=path).fit(TARGET, OWNERS)
        assert not path.exists()

    def test_the_papers_settings_run_and_promise_no_more_than_is_proven(self) -> None:
        settings: dict[str, Any] = {**PAPER, "release_gamma": 0.1, "accept_unproven": PAPER_PARTS, "epsilon": 8.0}
        found = Summarizer(4, **settings).fit(TARGET, OWNERS)
        assert len(found.indices_) == 4
        assert guarantee_of(found, TARGET_VIEW).basis is Basis.PROVEN
        assert guarantee_of(found, View.owners("south")).basis is Basis.NONE

    def test_many_tiny_owners_are_chosen_among_once(self) -> None:
        """15 rows are wanted of 60 owners: an auction decides who is asked."""
        tables = {f"practice {place}": rows(100 + place, 6, shift=place / 30) for place in range(60)}
        found = simulated(3, offer_factor=5, epsilon=8.0, price_per_row=1.0).fit(TARGET, tables)
        assert found.terms_.auction == "threshold"
        asked = [one for one in found.attribution_.owners if one.rows_disclosed]
        assert 0 < len(asked) < 60
        assert found.rows_seen_ == sum(one.rows_disclosed for one in asked)
        assert sum(one.payment for one in found.attribution_.owners) == found.rows_seen_
        np.testing.assert_array_equal(found.summary_, [tables[owner][row] for owner, row in found.indices_])

    def test_the_auction_has_its_price_among_owners(self) -> None:
        tables = {f"practice {place}": rows(100 + place, 6) for place in range(60)}
        found = Summarizer(3, offer_factor=5, epsilon=8.0, release_gamma=0.1).fit(TARGET, tables)
        stated = guarantee_of(found, View.owners("practice_0"))
        assert stated.basis is Basis.PROVEN
        assert stated.epsilon == pytest.approx(np.log1p(np.e), rel=1e-4)  # for any coalition; a little less by delta

    @pytest.mark.parametrize("protocol", ["sealed", "interactive"])
    def test_a_curator_may_see_hashes_only(self, protocol: Any) -> None:
        settings: dict[str, Any] = {"hash_dimension": 256, "protocol": protocol, "gamma": 0.3, "release_gamma": 0.1}
        found = Summarizer(5, **settings).fit(TARGET, OWNERS, LABELS)
        np.testing.assert_array_equal(found.summary_, [OWNERS[owner][row] for owner, row in found.indices_])
        assert labels_of(found) == [LABELS[owner][row] for owner, row in found.indices_]
        assert found.gamma_ == 0.3
        assert "hashes" in guarantee_of(found, View.curator("south")).note

    def test_the_kernel_of_hashes_is_never_read_off_the_target(self) -> None:
        settings: dict[str, Any] = {"hash_dimension": 32, "offers": "uniform", "release_gamma": None}
        with pytest.raises(InvalidArgument, match="gamma"):
            simulated(4, **settings).fit(TARGET, OWNERS)
        assert simulated(4, **settings, gamma=0.3).fit(TARGET, OWNERS).gamma_ == 0.3
        widths = {simulated(4, hash_dimension=32).fit(scale * TARGET, OWNERS).gamma_ for scale in (1.0, 2.0)}
        assert len(widths) == 1


def with_nan() -> dict[str, NDArray[np.float64]]:
    spoiled = OWNERS["south"].copy()
    spoiled[17, 2] = np.nan
    return {**OWNERS, "south": spoiled}


BAD_DATA: list[tuple[str, dict[str, Any]]] = [
    (r"owners", {"owners": {}}),
    (r"owners", {"owners": list(OWNERS.values())}),
    (r"owners", {"owners": None}),
    (r"owners\['south'\].*2 columns where target has 3", {"owners": {**OWNERS, "south": rows(2, 9)[:, :2]}}),
    (r"owners\['south'\].*NaN in row 17, column 2", {"owners": with_nan()}),
    (r"owners\['south'\].*no rows", {"owners": {**OWNERS, "south": rows(2, 9)[:0]}}),
    (r"owners\['south'\].*text", {"owners": {"south": [["a", "b", "c"]]}}),
    (r"owners", {"owners": {"a b": rows(1, 9), "a_b": rows(2, 9)}}),
    (r"owners", {"owners": {1: rows(1, 9), "1": rows(2, 9)}}),
    (r"owners.*curator", {"owners": {"curator": rows(1, 9)}}),
    (r"labels.*west/2", {"labels": {name: LABELS[name] for name in ("north clinic", "south")}}),
    (r"labels\['south'\].*50 rows", {"labels": {**LABELS, "south": LABELS["west/2"]}}),
    (r"labels", {"labels": [1, 2, 3]}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array(["word"] * 50)}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": [[1], [2, 3]]}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array([None] * 50)}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.array(["word", 1] * 25, dtype=object)}}),
    (r"labels\['south'\]", {"labels": {**LABELS, "south": np.full(50, "2020-01-01", dtype="M8[D]")}}),
    (r"target", {"target": rows(0, 30)[0]}),
    (r"target.*no rows", {"target": rows(0, 30)[:0]}),
    (r"target.*two rows", {"target": rows(0, 1)}),
    (r"target.*equal", {"target": np.ones((30, 3))}),
    (r"target", {"target": None}),
    (r"public_rows.*2 columns", {"public_rows": rows(0, 30)[:, :2]}),
]


@pytest.mark.parametrize(("words", "changes"), BAD_DATA)
def test_bad_data_are_refused_by_name(words: str, changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    data: dict[str, Any] = {"target": TARGET, "owners": OWNERS, "labels": None, **changes}
    with pytest.raises(InvalidArgument, match=words):
        simulated(ledger=path).fit(**data)
    assert not path.exists()


BAD_SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(("size", {"size": value}) for value in (0, -1, 2.5, "5", None, True, 10**30)),
    *(
        (name, {name: value})
        for name in ("epsilon", "owner_epsilon", "auction_epsilon")
        for value in (-1.0, float("nan"), float("inf"), 1e300, "x", None)
    ),
    *(("delta", {"delta": value}) for value in (1, 1.0, -0.1, 0, float("nan"), "x", None)),
    *(
        (name, {name: value})
        for name in ("protocol", "offers", "auction", "noise", "relation", "summary_release", "schedule")
        for value in ("unheard-of", None, 3)
    ),
    *(("quorum", {"quorum": value}) for value in (0, 4, "x")),
    *(("gamma", {"gamma": value}) for value in (0.0, -1.0, float("nan"), 1e300, "mean", None)),
    *(("gamma_scale", {"gamma_scale": value}) for value in (0.0, float("inf"), 1e300, "x")),
    *(("release_gamma", {"release_gamma": value}) for value in (0.0, -1.0, 1e300, "x")),
    *(("offer_factor", {"offer_factor": value}) for value in (0.0, -1.0, float("nan"), 1e300, "x", None)),
    *(("dimension", {"dimension": value}) for value in (0, 7, 10**9, 2.0, "x")),
    *(("hash_dimension", {"hash_dimension": value}) for value in (0, 7, 10**9, 2.0, "x")),
    *(("rows_per_unit", {"rows_per_unit": value}) for value in (0, 1.5, "x")),
    *(("price_per_row", {"price_per_row": value}) for value in (-1.0, float("nan"), "x")),
    *(("accept_unproven", {"accept_unproven": value}) for value in ("paper-auction", None, (1,))),
    *(("random_state", {"random_state": value}) for value in (-1, 1.5, "x")),
    *((name, {name: "no"}) for name in ("weights", "label_strata", "thinning")),
    ("weights", {"weights": True, "hash_dimension": 16}),
    ("weights", {"weights": True, "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.zeros((2, 3))}),
    ("seed_rows", {"seed_rows": np.zeros((2, 4)), "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.full((2, 3), np.nan), "protocol": "interactive"}),
    ("seed_rows", {"seed_rows": np.zeros(3), "protocol": "interactive"}),
    ("offers", {"offers": "uniform", "protocol": "interactive"}),
    ("epsilon", {"epsilon": 0.0, "protocol": "interactive"}),
    ("protocol", {"auction": "paper"}),
    ("protocol", {"summary_release": "gaussian"}),
    ("size", {**PAPER, "accept_unproven": PAPER_PARTS, "size": 1}),
    ("progress", {"progress": 3}),
    ("run", {"run": "two words"}),
    ("run", {"run": ""}),
]


@pytest.mark.parametrize(("argument", "settings"), BAD_SETTINGS)
def test_bad_settings_are_refused_by_name(argument: str, settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(InvalidArgument) as caught:
        simulated(**{"size": 4, "ledger": path, **settings}).fit(TARGET, OWNERS)
    assert caught.value.argument == argument
    assert not path.exists()


@pytest.mark.parametrize("place", [3, Path(), Path("no-such-folder") / "ledger.sqlite"])
def test_a_ledger_must_be_a_file(place: Any, tmp_path: Path) -> None:
    path = tmp_path / place if isinstance(place, Path) else place
    with pytest.raises(LikesetError):
        simulated(ledger=path).fit(TARGET, OWNERS)


def test_a_quorum_that_is_missed_is_an_error(tmp_path: Path) -> None:
    """One of three owners may disclose nothing more, and all three must take part."""
    path = tmp_path / "ledger.sqlite"
    Summarizer(4, offers="uniform", ledger=path, run="first").fit(TARGET, {"south": OWNERS["south"]})
    with pytest.raises((BudgetExceeded, QuorumMissed)):
        Summarizer(4, offers="uniform", ledger=path, run="second", quorum=3).fit(TARGET, OWNERS)
