"""Tests of the Summarizer: ledgers, the width of the release, the other protocols."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likeset import Interactive, Summarizer
from likeset.errors import BudgetExceeded, DifferentRequest, InvalidArgument, OtherRelation, UnprovenPart
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy import accounting
from likeset.privacy.accounting import Basis
from likeset.privacy.events import Relation, View
from summarizer_world import (
    LABELS,
    OWNERS,
    PAPER_PARTS,
    TARGET,
    TARGET_VIEW,
    account,
    guarantee_of,
    labels_of,
    rows,
    simulated,
)


class TestLedger:
    @pytest.mark.parametrize(
        "settings",
        [
            {"release_gamma": 0.1},
            {},
            {"release_gamma": 0.1, "protocol": "interactive"},
            {"release_gamma": 0.1, "auction": "threshold", "owner_epsilon": 30.0},
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


class TestRelation:
    REMOVED: Mapping[str, Any] = {"relation": "add-or-remove", "declared_size": 190, "release_gamma": 0.1}

    @pytest.mark.parametrize("options", [{}, {"offers": "uniform"}, {"protocol": "interactive", "release_gamma": 0.1}])
    def test_a_ledger_under_another_relation_refuses_before_anything_is_charged_or_told(
        self, tmp_path: Path, options: dict[str, Any]
    ) -> None:
        """The second run would publish the exact size, and be charged at half of its sensitivity.

        Its owners are new, so nothing but the target's account stands in its way; and that has enough left.
        """
        path = tmp_path / "ledger.sqlite"
        Summarizer(4, ledger=path, run="first", **self.REMOVED).fit(TARGET, OWNERS)
        with Ledger(path) as ledger:
            ledger.set_limit(TARGET_VIEW, Limit(60.0, 1e-5, Relation.ADD_OR_REMOVE, accept_unproven=("simulated",)))
            head, kept = ledger.head(), len(ledger.messages())
        second = Summarizer(4, ledger=path, run="second", **options)
        with pytest.raises(OtherRelation) as refused:
            second.fit(TARGET, {f"another {name}": table for name, table in OWNERS.items()})
        assert (refused.value.account, refused.value.planned) == ("add-or-remove", "replace-one")
        assert not hasattr(second, "terms_")
        with Ledger(path, read_only=True) as ledger:
            assert (ledger.head(), len(ledger.messages())) == (head, kept)
            assert ledger.verify().ok


class TestReleaseWidth:
    def test_public_rows_give_it_for_nothing_and_a_private_choice_is_charged_within_the_budget(
        self, tmp_path: Path
    ) -> None:
        public, path = rows(20, 100), tmp_path / "public.sqlite"
        found = Summarizer(4, ledger=path).fit(TARGET, OWNERS, public_rows=public)
        other = Summarizer(4).fit(2.0 * TARGET, OWNERS, public_rows=public)
        assert found.terms_.kernel.gamma == other.terms_.kernel.gamma
        assert found.terms_.target_budget.epsilon == 1.0
        self.check_guarantee(found, path)
        path = tmp_path / "private.sqlite"
        found = Summarizer(4, ledger=path).fit(TARGET, OWNERS)
        with Ledger(path, read_only=True) as ledger:
            assert any("consumer/width" in entry.key for entry in ledger.entries() if entry.kind == "reserve")
        assert found.terms_.target_budget.epsilon < 1.0
        self.check_guarantee(found, path)

    @pytest.mark.parametrize(("size", "columns", "warned"), [(70, 4, True), (110, 4, False), (110, 1, True)])
    def test_a_choice_that_may_go_wrong_is_announced_with_its_probability(
        self, size: int, columns: int, warned: bool
    ) -> None:
        """The bound falls below 5% with 110 rows; the share of the budget grows until it does, to 30% at most.

        Distances in one column vary more, so its bound is larger.
        """
        asked: dict[str, Any] = {"offer_factor": 40.0, "noise": "simulated", "random_state": 3}
        owners = {name: np.tile(table, (3, 1))[:, :columns] for name, table in OWNERS.items()}
        target = rows(20, size)[:, :columns]
        found = Summarizer(4, **asked).fit(target, owners)
        told = [notice for notice in found.warnings_ if notice.kind == "uncertain-width"]
        assert len(told) == warned
        if warned:
            assert 0.05 < told[0].details["probability"] < 0.2
        public = Summarizer(4, release_gamma=0.1, **asked).fit(target, owners)
        assert not [notice for notice in public.warnings_ if notice.kind == "uncertain-width"]

    @staticmethod
    def check_guarantee(found: Summarizer, path: Path) -> None:
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
        options: dict[str, Any] = {
            "relation": "add-or-remove",
            "release_gamma": 0.1,
            "noise": "simulated",
            "random_state": 3,
        }
        with pytest.raises(InvalidArgument, match=r"declared_size.*add-or-remove"):
            Summarizer(4, **options).fit(TARGET, OWNERS)
        all_rows = Summarizer(4, declared_size=25, **options).fit(TARGET, OWNERS)
        one_less = Summarizer(4, declared_size=25, **options).fit(TARGET[1:], OWNERS)
        assert all_rows.terms_ == one_less.terms_
        with pytest.raises(InvalidArgument, match="and only there"):
            Summarizer(4, declared_size=25).fit(TARGET, OWNERS)


class TestOtherProtocols:
    def test_the_papers_settings_have_one_name(self) -> None:
        published = Interactive.as_published(seed_rows=np.zeros((3, 3)), accept_unproven=PAPER_PARTS)
        five = {f"owner {place}": rows(place, 40) for place in range(5)}
        found = simulated(4, protocol=published, release_gamma=None).fit(TARGET, five)
        terms = found.terms_
        assert (terms.kernel.dimension, terms.kernel.gamma, found.gamma_) == (140, 0.1, 0.1)
        assert (terms.protocol, terms.auction, terms.summary_release) == ("interactive", "paper", "mwem")
        assert terms.auction_epsilon == pytest.approx(0.012, abs=5e-4)
        assert (terms.auction_patience, terms.schedule, terms.seed_rows) == (3, "experiment", 3)
        assert found.rows_seen_ > 4.5 * 4

    def test_an_owners_account_that_does_not_suffice_is_found_out_before_the_target_is_released(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "ledger.sqlite"
        limits = {View.owners("south"): Limit(0.2, 1e-5, Relation.REPLACE_ONE)}
        with Ledger(path) as ledger:
            ledger.set_limits(limits)
        for rounds, error in (
            (Interactive(summary_release="gaussian", owner_epsilon=1.0), BudgetExceeded),
            (Interactive(auction="paper", accept_unproven=PAPER_PARTS), UnprovenPart),
        ):
            with pytest.raises(error):
                Summarizer(4, release_gamma=0.1, protocol=rounds, ledger=path).fit(TARGET, OWNERS)
            with Ledger(path, read_only=True) as ledger:
                assert {one.view for one in ledger.accounts()} == set(limits)
