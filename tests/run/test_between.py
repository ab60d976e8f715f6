"""Runs between organisations from the consumer's side: terms once, a result from what came, nothing drawn twice."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from between_world import OWNERS, Market
from home_world import CONSUMER, rows_text, secret_of, signed_terms

from likeset.app.report import render
from likeset.errors import BadDocument, BudgetExceeded, IllegalMessage, InvalidArgument, LikesetError
from likeset.geometry.kernels import squared_mmd
from likeset.homes.curator import Curator
from likeset.homes.home import Home
from likeset.homes.runs import Run
from likeset.privacy.events import View
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import WITNESS, Terms
from likeset.protocol.wire import Message, Summary
from likeset.run import between
from likeset.run.between import collect, plan_between, published, settled_curator, times_of_terms
from likeset.run.job import Job
from likeset.trust.cards import CardSecret
from likeset.trust.letters import write_letter

pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    with Market(tmp_path) as made:
        yield made


def spent(market: Market) -> float:
    (account,) = [one for one in market.consumer.home.database.accounts() if one.view == View.owners(CONSUMER)]
    return account.epsilon or 0.0


def refuses(market: Market, error: type[LikesetError], words: str, **changes: Any) -> None:
    with pytest.raises(error, match=words) as told:
        market.invite(**changes)
    assert "\n" not in str(told.value)
    assert not any(entry.kind == "reserve" for entry in market.consumer.home.database.entries())
    assert market.consumer.runs() == []
    assert not (market.consumer.home.folder / "runs").exists()


class TestInviting:
    def test_terms_are_signed_once_and_the_private_choice_of_the_width_is_charged_once(self, market: Market) -> None:
        first = market.invite()
        charged = spent(market)
        assert 0.0 < charged < 8.0
        assert first.terms.cards == {name: secret_of(name).card.fingerprint for name in (CONSUMER, CURATOR, *OWNERS)}
        assert market.invite().signed == first.signed
        assert spent(market) == charged

    @pytest.mark.parametrize(
        ("owners", "words"),
        [
            (("a", "c"), r"owners.*c.*no card of that name is pinned here.*likeset card pin FILE --as owner"),
            (("a", "B"), "did you mean b"),
            (("a", "curator-2"), "pinned here with the role curator, not owner"),
        ],
    )
    def test_an_owner_whose_card_is_not_pinned_is_named(
        self, market: Market, owners: tuple[str, ...], words: str
    ) -> None:
        market.consumer.home.pins.pin(secret_of("curator-2").card, "curator")
        named = {name: f"network:{name}" for name in owners}
        refuses(market, InvalidArgument, words, owners=named, curator_card="curator")

    def test_among_several_curators_the_job_names_one(self, market: Market) -> None:
        market.consumer.home.pins.pin(secret_of("curator-2").card, "curator")
        refuses(market, InvalidArgument, r"curator_card.*name one of them: curator, curator-2")
        refuses(market, InvalidArgument, "did you mean curator-2", curator_card="curator-3")
        refuses(market, InvalidArgument, "with the role owner, not curator", curator_card="a")
        named = market.invite(curator_card="curator-2").terms.cards["curator"]
        assert named == secret_of("curator-2").card.fingerprint

    def test_without_a_curator_nobody_is_invited(self, market: Market) -> None:
        market.consumer.home.pins.revoke("curator", "it closed")
        refuses(market, InvalidArgument, "curator_card.*none is pinned.*likeset card pin FILE --as curator")

    def test_a_card_of_another_name_than_the_consumers_is_not_used(
        self, market: Market, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Home, "name", "other")  # as home.yaml says now
        refuses(market, InvalidArgument, f"is not the name on this home's card, which is {CONSUMER}", consumer="other")

    def test_a_new_card_ends_runs_under_the_old_one(self, market: Market) -> None:
        run = market.invite()
        market.consumer.home.make_card(by="Ada", new=True)
        with pytest.raises(InvalidArgument, match=r"^run"):
            market.invite()
        with pytest.raises(LikesetError, match="another card"):
            market.consumer.mail.check_open(run)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"run": None}, "needs a name"),
            ({"run": "a/b"}, "names a folder"),
            ({"consumer": "other"}, "must be new-clinic"),
            ({"noise": "simulated"}, "noise is secret"),
            ({"gamma": -0.5}, "gamma"),
            ({"gamma_scale": 1e300}, "is too large for these rows"),
            ({"purpose": "x" * 501}, "purpose"),
            ({"owners": {f"o{place}": f"network:o{place}" for place in range(1025)}}, "is too large: at most"),
            ({"protocol": "interactive", "size": 10_001}, "is too large: at most"),
        ],
    )
    def test_a_job_that_cannot_be_carried_is_refused_before_anything_is_spent(
        self, market: Market, changes: dict[str, Any], reason: str
    ) -> None:
        refuses(market, InvalidArgument, reason, **changes)

    def test_a_name_stands_for_one_job(self, market: Market) -> None:
        market.invite()
        with pytest.raises(InvalidArgument, match=r"^run"):
            market.invite(size=7)

    def test_a_name_stands_for_one_run_of_a_home_with_several_roles(self, market: Market) -> None:
        """Budgets know charges by the names of runs."""
        run = market.invite()
        with market.consumer.home.deciding() as t:
            t.connection.execute("UPDATE runs SET role = 'owner' WHERE digest = ?", (run.digest,))
        with pytest.raises(InvalidArgument, match="is the name of another run in this home"):
            market.invite()

    def test_days_are_counted_from_today(self) -> None:
        now = datetime(2028, 2, 1, 23, tzinfo=UTC)
        times = {"expires": "2028-03-02", "answer_by": "2028-02-16T11:30:00+00:00"}
        assert times_of_terms(30, now=now) == times
        assert times_of_terms(30, 0.5, now=now)["answer_by"] == "2028-02-02T11:00:00+00:00"
        assert times_of_terms(30, 99, now=now)["answer_by"] == "2028-03-02T00:00:00+00:00"


class TestResults:
    def test_a_run_gives_a_result_that_says_only_what_the_consumer_knows(self, market: Market) -> None:
        """Six rows are wanted with four offers for each: each of two owners discloses at most twelve, for 2 each."""
        run = market.invite(price_per_row=2.0)
        assert market.hold(run).ended == "done"
        result = published(market.consumer, run, render=render)
        assert (result["rows_selected"], result["rows_seen"], result["private"]) == (6, 24, True)
        assert [(one["disclosed"], one["disclosed_at_most"]) for one in result["owners"]] == [(None, 12)] * 2
        assert [(one["payment"], one["payment_at_most"]) for one in result["owners"]] == [(None, 24.0)] * 2
        assert sum(one["selected"] for one in result["owners"]) == 6
        assert all(one["rows"] is None and one["heard_bytes"] is None for one in result["owners"])
        table = pq.read_table(market.consumer.folder("run-1").result / "summary.parquet")
        assert table.num_rows == 6
        assert set(table.column("owner").to_pylist()) <= set(OWNERS)
        assert spent(market) == pytest.approx(8.0, rel=1e-3)
        assert result["guarantees"][0]["epsilon"] == pytest.approx(8.0, rel=1e-3)

    def test_another_runs_summary_is_not_taken_for_this_one(self, market: Market) -> None:
        run = market.invite()
        market.hold(run)
        other = market.invite(run="run-2", epsilon=0.0, offers="uniform")
        with pytest.raises(InvalidArgument, match=r"^RUN"):
            collect(market.consumer, other)
        folder = market.consumer.folder("run-2")
        folder.summary_path.write_bytes(market.consumer.folder("run-1").summary_path.read_bytes())
        with pytest.raises(BadDocument):
            collect(market.consumer, other)

    def test_a_schema_that_changed_since_the_terms_is_refused(self, market: Market) -> None:
        run = market.invite()
        path = market.consumer.folder("run-1").schema_path
        path.write_text(path.read_text().replace("[0, 120]", "[0, 121]"))
        with pytest.raises(BadDocument):
            market.consumer.make(run, {})


class TestTwoRuns:
    def test_two_runs_that_fit_alone_and_not_together_are_signed_and_the_last_one_is_not_released(
        self, market: Market
    ) -> None:
        first, second = (market.invite(run=name, release_gamma=1.0) for name in ("run-1", "run-2"))
        assert all(account.epsilon == 0.0 for account in market.consumer.home.database.accounts())
        assert market.hold(first).ended == "done"
        market.hold(second)
        assert not market.consumer.folder("run-2").summary_path.exists()
        assert 0.0 < spent(market) <= 8.0

    def test_a_run_beyond_the_limit_is_refused_when_it_is_signed(self, market: Market) -> None:
        market.hold(market.invite())
        with pytest.raises(BudgetExceeded):
            market.invite(run="run-2", epsilon=9.0)


class TestWishes:
    @pytest.mark.parametrize("protocol", ["sealed", "interactive"])
    def test_the_curator_takes_the_width_that_the_consumer_wishes(self, market: Market, protocol: str) -> None:
        run = market.invite(gamma=2.5, protocol=protocol)
        assert market.hold(run).done
        folder = market.consumer.folder("run-1")
        found, target = folder.summary(run.terms), folder.target
        assert found.squared_mmds[-1] == pytest.approx(squared_mmd(found.rows, target, gamma=2.5), rel=1e-3)

    def test_terms_say_nothing_of_wishes_for_the_selection(self, market: Market) -> None:
        """Owners read them. The release's kernel comes from public rows here, so chance has no part in it."""
        (market.place / "public.csv").write_text(rows_text(11, count=40))
        wishes: list[dict[str, Any]] = [{}, {"gamma": 3.0}, {"gamma_scale": 5.0}, {"folds": 0}]
        found = [
            market.invite(run=f"run-{place}", public_rows="public.csv", epsilon=2.0, offers="uniform", **one)
            for place, one in enumerate(wishes)
        ]

        def public(terms: Terms) -> str:
            kernel = dataclasses.replace(terms.kernel, seed=0)
            return dataclasses.replace(terms, run="any", run_id="0" * 32, kernel=kernel).to_json()

        assert len({public(run.terms) for run in found}) == 1
        chosen = [market.consumer.folder(run.name).selection for run in found]
        assert len({(one.gamma, one.folds) for one in chosen}) == 4

    def test_a_run_starts_from_public_rows_that_the_curator_has(self, market: Market) -> None:
        (market.place / "public.csv").write_text(rows_text(21, count=7))
        seeded = {"protocol": "interactive", "seed_rows": "public.csv", "summary_release": "gaussian"}
        run = market.invite(**seeded, owner_epsilon=4.0)
        assert run.terms.seed_rows == 7
        part = market.sync(CURATOR).mail.handlers["curator"]
        assert isinstance(part, Curator)
        market.consumer.start_run(run, market.address)
        market.settle()
        assert "does not have the public seed rows" in market.consumer.progress(run).detail
        (market.place / "other.csv").write_text(rows_text(22, count=7))
        assert part.add_seed_rows(str(market.place / "other.csv")) != (run.terms.seed_digest,)
        assert part.add_seed_rows(str(market.place / "public.csv")) == (run.terms.seed_digest,)
        kept = part.seed_rows / f"{run.terms.seed_digest}.npy"
        whole = kept.read_bytes()
        for data, reason in ((whole[:-4], "does not have"), (whole[:-4] + b"\0\0\0?", "are not what they were")):
            kept.write_bytes(data)
            market.settle()
            assert reason in market.consumer.progress(run).detail
        kept.write_bytes(whole)
        assert market.hold(run).done


class TestWhoSpeaks:
    def letter(self, run: Run, secret: CardSecret, body: Summary, *, sender: str, number: int) -> bytes:
        """A letter to the consumer, sealed to its true key for the run, which all parties know."""
        message = Message(run.name, run.terms.digest, sender, CONSUMER, 0, body)
        signed = run.invitation.signed
        names = {"run_id": bytes.fromhex(run.terms.run_id), "terms": run.digest, "round": 0, "number": number}
        written = write_letter(
            secret,
            recipient=signed.card,
            recipient_key=signed.run_key,
            message=message.data,
            **names,  # type: ignore[arg-type]
        )
        return written.data

    @pytest.mark.parametrize("forger", ["an owner", "an owner as the curator", "a server", "a server as the curator"])
    def test_nobody_but_the_curator_hands_rows_to_the_consumer(self, market: Market, forger: str) -> None:
        run = market.invite()
        market.hold(run)
        folder = market.consumer.folder("run-1")
        true = folder.summary_path.read_bytes()
        body = folder.summary(run.terms)
        secret, sender = {
            "an owner": (secret_of("a"), "a"),
            "an owner as the curator": (secret_of("a"), CURATOR),
            "a server": (CardSecret.generate("server"), CURATOR),
            "a server as the curator": (CardSecret.generate(CURATOR), CURATOR),
        }[forger]
        for number in (0, 1, 7):
            with pytest.raises(LikesetError):
                market.consumer.mail.hear(self.letter(run, secret, body, sender=sender, number=number))
        assert folder.summary_path.read_bytes() == true

    def test_a_curator_does_not_curate_for_strangers_and_stores_nothing_of_them(self, tmp_path: Path) -> None:
        with Market(tmp_path) as market:
            home = market.sync(CURATOR).home
            home.pins.revoke(CONSUMER, "keys stolen")
            run = market.invite()
            with pytest.raises(LikesetError, match="was revoked here"):
                market.sync(CURATOR).mail.invited(run.signed)
            assert market.sync(CURATOR).mail.runs() == []

    def test_a_consumer_takes_no_terms_that_it_did_not_sign_here(self, market: Market) -> None:
        """Not even under its own card: it would release its target under terms of somebody who stole the card."""
        run = market.invite()
        other = signed_terms(dataclasses.replace(run.terms, purpose="Something else"))
        with pytest.raises(IllegalMessage, match="not pinned"):
            market.consumer.mail.invited(other)
        assert [known.digest for known in market.consumer.runs()] == [run.digest]


class TestSplit:
    """A split curator needs a witness, workers and a place to listen: one clear line each."""

    @pytest.fixture
    def split(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Market]:
        monkeypatch.setattr(between, "split_python", lambda: None)
        with Market(tmp_path, witness=True) as made:
            settings = made.consumer.home.folder / "home.yaml"
            settings.write_text(settings.read_text().replace('listen: ""', 'listen: "127.0.0.1:0"'))
            yield made

    def job(self, market: Market, **changes: Any) -> Job:
        return Job.load(market.write_job(quorum=1, **changes))

    @pytest.mark.parametrize(
        ("wished", "curator"),
        [
            ({}, "trusted"),
            ({"witness": WITNESS}, "split"),
            ({"curator": "trusted"}, "trusted"),
            ({"curator": "split", "witness": WITNESS}, "split"),
        ],
    )
    def test_a_witness_makes_the_curator_a_split_one(self, split: Market, wished: dict[str, Any], curator: str) -> None:
        asked = self.job(split, **wished)
        assert settled_curator(asked).curator == curator
        assert (plan_between(asked).terms.split is not None) == (curator == "split")

    @pytest.mark.parametrize(
        ("wished", "words"),
        [
            ({"curator": "split"}, "needs one whose card is pinned here"),
            ({"curator": "trusted", "witness": WITNESS}, "a trusted curator needs none"),
            ({"witness": WITNESS, "protocol": "interactive"}, "need a trusted curator"),
            ({"witness": WITNESS, "auction": "threshold"}, "need a trusted curator"),
            ({"witness": "a"}, "witness = .*a.*with the role owner"),
            ({"witness": "curator"}, "with the role curator"),
            ({"witness": "nobody"}, "no card of that"),
            ({"witness": CONSUMER}, "no card of that"),
        ],
    )
    def test_a_wrong_witness_is_named_before_anything_is_written(
        self, split: Market, wished: dict[str, Any], words: str
    ) -> None:
        refuses(split, InvalidArgument, words, **wished)

    def test_a_consumer_without_workers_or_a_place_to_listen_signs_nothing(
        self, split: Market, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing() -> None:
            raise InvalidArgument("environment", "none", "is none; make it with `likeset split setup`")

        monkeypatch.setattr(between, "split_python", missing)
        refuses(split, InvalidArgument, "likeset split setup", witness=WITNESS)
        monkeypatch.setattr(between, "split_python", lambda: None)
        settings = split.consumer.home.folder / "home.yaml"
        settings.write_text(settings.read_text().replace("127.0.0.1:0", ""))
        refuses(split, InvalidArgument, r"listen: a split run needs HOST:PORT", witness=WITNESS)

    def test_the_terms_name_the_witness_the_program_and_how_many_rows_may_be_opened(self, split: Market) -> None:
        terms = split.invite(witness=WITNESS).terms
        assert terms.split is not None
        assert terms.split.openings == 6
        assert WITNESS in terms.cards
