"""What a steward decides: approvals of one version of the terms, denials, withdrawals, and limits over all runs."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from home_world import (
    CANARY,
    CONSUMER,
    Clock,
    Network,
    Outside,
    answer,
    answered,
    approve,
    give_card,
    heard,
    invite,
    logged,
    make_owner,
    opened,
    pin,
    rows_text,
    secret_of,
    terms,
    write_policy,
)

from likeset.errors import (
    BadDocument,
    ChargeRefused,
    DecidedMeanwhile,
    IllegalMessage,
    InvalidArgument,
    LedgerUnavailable,
    LikesetError,
    TryLater,
)
from likeset.homes import review
from likeset.homes.data import DataSet
from likeset.homes.notify import events_of
from likeset.homes.owner import Owner, open_owner
from likeset.homes.owner import put as put_policy
from likeset.homes.review import rows_sent
from likeset.privacy.events import View
from likeset.protocol.wire import Offer, SummaryRelease, decode
from likeset.transports.sync import Note


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owner(tmp_path: Path, clock: Clock) -> Iterator[Owner]:
    with opened(make_owner(tmp_path), clock=clock) as found:
        yield found


def rows_spent(owner: Owner) -> int:
    return sum(account.rows for account in owner.ledger.accounts() if account.view == View.curator("a"))


def status(owner: Owner, run: str = "run-1") -> str:
    return review.status_of(owner, owner.run(run))


def test_a_name_that_another_run_has_gets_an_end_and_new_terms_cost_again(owner: Owner) -> None:
    """Nobody occupies a name: neither another consumer nor a run that was denied here."""
    approve(owner, terms())
    answer(owner, terms())
    pin(owner.home, "other", "consumer")
    again = [terms(size=5), terms(consumer="other"), terms(consumer="other", size=5)]
    names = [f"run-1-{agreed.digest[:8]}" for agreed in again]
    assert [invite(owner, agreed).name for agreed in again] == names
    assert invite(owner, again[0]).name == names[0], "the same terms are the same run"
    owner.deny(names[1], by="Ada", reason="a test")
    assert owner.approve(names[0], again[0].digest, by="Ada").accepted
    before = rows_spent(owner)
    assert owner.mail.consider(owner.run(names[0])).state == "accepted"
    answer(owner, again[0])
    assert (status(owner, names[0]), status(owner, names[1])) == ("rows sent", "denied")
    assert rows_spent(owner) == before + again[0].rows_per_owner
    assert {charge["run"] for charge in owner.spent_by_run()} == {"run-1", names[0]}
    assert len(owner.began()) == 2
    offers = [review.letters_out(owner, name)[0].message for name in ("run-1", names[0])]
    first, second = (decode(data).body for data in offers if data is not None)
    assert isinstance(first, Offer)
    assert isinstance(second, Offer)
    assert not set(first.handles.tolist()) & set(second.handles.tolist()), "no draw of one is that of the other"
    found = [review.find_row(owner, name, int(one.handles[0])) for name, one in (("run-1", first), (names[0], second))]
    assert [row["run"] for row in found] == ["run-1", names[0]]


def test_an_approval_is_for_one_version_of_the_terms(owner: Owner) -> None:
    approve(owner, terms())
    assert (status(owner), review.open_decisions(owner, owner.run("run-1"))) == ("approved", ("withdraw",))
    with pytest.raises(InvalidArgument, match="was approved"):
        owner.deny("run-1", by="Bob", reason="too late")
    with pytest.raises(IllegalMessage, match="never came here"):
        owner.approve("run-1", terms(size=5).digest, by="Ada")
    answer(owner, terms())
    assert (status(owner), rows_spent(owner)) == ("rows sent", 12)
    with pytest.raises(InvalidArgument, match=r"^RUN"):
        owner.approve("run-1", terms().digest, by="Ada")


def test_a_denial_can_be_taken_back_until_the_run_begins(owner: Owner) -> None:
    invite(owner, terms())
    owner.deny("run-1", by="Ada", reason="no contract yet")
    assert (status(owner), review.open_decisions(owner, owner.run("run-1"))) == ("denied", ("approve",))
    assert review.last_word(owner.run("run-1")).startswith("denied by Ada")
    assert owner.mail.consider(owner.run("run-1")).state == "refused"
    assert owner.approve("run-1", terms().digest, by="Bob").accepted
    answer(owner, terms())
    with pytest.raises(InvalidArgument, match=r"^RUN"):
        owner.deny("run-1", by="Ada", reason="too late")
    assert review.open_decisions(owner, owner.run("run-1")) == ("withdraw",)


def test_a_withdrawal_is_final_and_what_left_stays_charged(owner: Owner) -> None:
    outside, _ = answered(owner, terms())
    owner.withdraw("run-1", by="Ada")
    owner.withdraw("run-1", by="Bob")  # no change
    assert [entry["by"] for entry in logged(owner.home, "withdrawn")] == ["Ada"]
    assert (status(owner), rows_spent(owner)) == ("closed: you withdrew", 12)
    assert review.last_word(owner.run("run-1")).startswith("withdrawn by Ada (command) at 2029-03-05")
    with pytest.raises(LikesetError):
        owner.mail.hear(outside.ask(2))
    with pytest.raises(InvalidArgument, match=r"^RUN"):
        owner.approve("run-1", terms().digest, by="Ada")
    assert review.open_decisions(owner, owner.run("run-1")) == ()


def test_a_run_that_is_done_cannot_be_withdrawn_from(owner: Owner) -> None:
    outside, letters = answered(owner, terms())
    owner.mail.hear(outside.receipt(letters, 12))
    (left,) = [review.sent_run(owner, name) for name in review.runs_that_sent(owner)]
    assert (left["rows"], left["receipt"]) == (12, "yes")
    assert "1 of 1 letters" in dict(review.review(owner, "run-1").lines)["Did the curator acknowledge what was sent?"]
    with pytest.raises(InvalidArgument, match=r"^RUN"):
        owner.withdraw("run-1", by="Ada")
    owner.home.pins.revoke(CONSUMER, "stolen", by="Ada")
    assert (owner.run("run-1").state, status(owner)) == ("closed", "rows sent")
    shown = review.review(owner, "run-1")
    assert shown.outcome == "12 rows were sent, the last at 2029-03-05 12:00 UTC; a receipt names 1 of 1 letters."
    assert shown.lines[0] == ("What happened?", shown.outcome)
    assert review.open_decisions(owner, owner.run("run-1")) == ()


def test_a_run_begins_with_the_data_set_that_was_approved_last(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another data set is approved while the rows of the first one are read: nothing of the first one leaves."""
    (tmp_path / "newer.csv").write_text(rows_text(9))
    owner.registry.add("newer", str(tmp_path / "newer.csv"), schema=tmp_path / "schema.yaml")
    approve(owner, terms(), data="patients")
    letter, guarded = Outside(owner, terms()).release(), DataSet.guarded

    def meanwhile(data: DataSet, *words: Any, **options: Any) -> Any:
        if data.name == "patients":
            with opened(owner.home.folder) as other:
                assert other.approve("run-1", terms().digest, by="Bob", data="newer").accepted
        return guarded(data, *words, **options)

    monkeypatch.setattr(DataSet, "guarded", meanwhile)
    with pytest.raises(TryLater):
        owner.mail.hear(letter)
    assert (rows_spent(owner), owner.run("run-1").has_begun) == (0, False)
    assert heard(owner, letter)
    assert logged(owner.home, "began")[0]["data"] == "newer"
    with pytest.raises(InvalidArgument, match=r"^RUN"):
        owner.approve("run-1", terms().digest, by="Ada", data="patients")


def test_in_each_round_that_the_terms_foresee_one_row_leaves_and_no_other(owner: Owner) -> None:
    agreed = terms(protocol="interactive", size=2)
    outside, letters = answered(owner, agreed)
    assert rows_sent(review.out_rows(owner, owner.run("run-1"))) == 2
    nothing = SummaryRelease(coordinates=np.empty(0, dtype=np.int64), values=np.empty(0))
    with pytest.raises(LikesetError):
        owner.mail.hear(outside.ask(3, nothing))
    assert rows_sent(review.out_rows(owner, owner.run("run-1"))) == 2
    assert len(letters) == 4, "a bid and a row in each round"


def test_of_two_who_decide_one_wins(owner: Owner) -> None:
    invite(owner, terms())
    seen = owner.mark(owner.run("run-1"))
    owner.mail.consider(owner.run("run-1"))
    assert owner.mark(owner.run("run-1")) == seen, "what a sync does is no decision"
    owner.approve("run-1", terms().digest, by="Ada", seen=seen)
    for decide in (
        lambda: owner.approve("run-1", terms().digest, by="Bob", seen=seen),
        lambda: owner.deny("run-1", by="Bob", reason="no", seen=seen),
        lambda: owner.withdraw("run-1", by="Bob", seen=seen),
    ):
        with pytest.raises(DecidedMeanwhile, match="approved by Ada"):
            decide()
    seen = owner.mark(owner.run("run-1"))
    assert owner.mail.consider(owner.run("run-1")).state == "accepted"
    owner.withdraw("run-1", by="Bob", seen=seen)
    assert owner.mark(owner.run("run-1")) != seen


def test_the_total_over_runs_is_reached_and_the_next_run_is_refused_everywhere(owner: Owner) -> None:
    runs = [terms(run=f"run-{number}") for number in (1, 2, 3, 4)]
    for agreed in runs:
        approve(owner, agreed)
    for agreed in runs[:3]:
        answer(owner, agreed)
    reason = "total.rows: rows that leave: 36 of 36 are spent over all runs, and it would be 48 with this run"
    assert owner.judge(runs[3]).reasons == (reason,)
    assert review.review(owner, "run-4").verdict.reasons == (reason,)
    with pytest.raises(ChargeRefused, match="36 of 36"):
        owner.mail.hear(Outside(owner, runs[3]).release())
    assert (rows_spent(owner), owner.run("run-4").has_begun) == (36, False)


def test_so_many_runs_begin_in_a_month(tmp_path: Path, clock: Clock) -> None:
    with opened(make_owner(tmp_path, runs_per_month=1), clock=clock) as owner:
        for run in ("run-1", "run-2"):
            approve(owner, terms(run=run))
        outside = Outside(owner, terms(run="run-2"))
        letter = outside.release()
        answer(owner, terms())
        assert owner.judge(terms(run="run-3")).reasons == ("runs_per_month: 1 began already, 1 are allowed",)
        with pytest.raises(ChargeRefused, match="runs_per_month"):
            owner.mail.hear(letter)
        clock.now += timedelta(days=31)
        assert owner.judge(terms(run="run-3")).accepted


def test_a_change_of_the_policy_is_logged_and_counts_for_runs_that_have_not_begun(owner: Owner) -> None:
    approve(owner, terms())
    write_policy(owner.home.folder, purposes=["billing"])
    with pytest.raises(ChargeRefused, match="purposes: that of the terms"):
        owner.mail.hear(Outside(owner, terms()).release())
    text = owner.home.policy_file.read_text().replace("billing", "res*")
    assert put_policy(owner, text, by="Ada") == [{"rule": "purposes", "before": '["billing"]', "after": '["res*"]'}]
    assert logged(owner.home, "policy")[-1]["by"] == "Ada"
    answered(owner, terms(run="run-2"))
    write_policy(owner.home.folder, purposes=["billing"])
    assert owner.judge(terms(run="run-2")).reasons


def test_a_home_keeps_its_name_since_budgets_are_kept_by_it(owner: Owner) -> None:
    owner.put_policy_in_force()
    settings = owner.home.folder / "home.yaml"
    settings.write_text(settings.read_text().replace("name: a", "name: b"))
    with pytest.raises(BadDocument, match="a home keeps its name"):
        open_owner(owner.home.folder)


def test_a_sampling_key_that_others_may_read_or_that_is_damaged_is_refused(owner: Owner) -> None:
    approve(owner, terms())
    key = owner.home.folder / "key"
    whole = key.read_text()
    modes = [(mode, whole) for mode in (0o640, 0o604, 0o610)]
    damaged = ["", "x", whole[1:], f"{whole.strip()}0", "AB" * 32, "é"]
    for mode, text in [*modes, *((0o600, text) for text in damaged)]:
        key.write_text(text, encoding="utf-8")
        key.chmod(mode)
        with pytest.raises(LedgerUnavailable):
            review.rehearse(owner, terms())
    with pytest.raises(LedgerUnavailable):
        owner.mail.hear(Outside(owner, terms()).release())
    key.unlink()
    with pytest.raises(LedgerUnavailable):
        review.rehearse(owner, terms())
    assert rows_spent(owner) == 0


def test_a_run_that_a_limit_stops_tells_its_owner(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        network.approved(terms())
        network.turn("a", "b")
        owner = network.owner()
        write_policy(owner.home.folder, runs_per_month=0)
        notes = [note for _ in range(4) for note in network.turn().notes]
        (told,) = [note for note in notes if "did not continue" in note]
        assert isinstance(told, Note)
        assert told.run == "run-1"
        shown = review.review(owner, "run-1")
        assert shown.status == status(owner) == review.STOPPED
        (why,) = {entry["reason"] for entry in logged(owner.home, "refused")}
        assert "runs_per_month" in why
        assert why in shown.lines[0][1]
        assert rows_spent(owner) == rows_sent(review.out_rows(owner, owner.run("run-1"))) == 0
        assert review.open_decisions(owner, shown.run) == ("withdraw",)
        with pytest.raises(InvalidArgument, match=r"^RUN"):
            owner.approve("run-1", terms().digest, by="Ada")
        events = dict(events_of(owner, owner.mail, ()))
        assert [event["run"] for event in events.values() if event["event"] == "stopped"] == ["run-1"]


def test_a_home_that_declines_before_it_accepted_tells_its_owner_once(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        network.approved(terms())
        write_policy(network.owner().home.folder, runs_per_month=0)
        assert [len(network.turn("a").notes) for _ in range(2)] == [1, 0]
        network.drop()
        assert network.turn("a").notes == []
        events = dict(events_of(network.owner(), network.owner().mail, ()))
        assert [event["run"] for event in events.values() if event["event"] == "stopped"] == ["run-1"]


@pytest.mark.parametrize("given_up", ["new-clinic", "curator", "own"])
def test_runs_under_a_card_that_was_given_up_end(owner: Owner, given_up: str) -> None:
    approve(owner, terms())
    letter = Outside(owner, terms()).release()
    if given_up == "own":
        owner.home.make_card(by="Ada", new=True)
    else:
        owner.home.pins.revoke(secret_of(given_up).card.fingerprint, "stolen", by="Ada")
        with pytest.raises(InvalidArgument, match=r"^RUN"):
            owner.withdraw("run-1", by="Ada")
        assert review.open_decisions(owner, owner.run("run-1")) == ()
    with pytest.raises(LikesetError):
        owner.mail.hear(letter)
    assert not owner.judge(terms()).accepted
    assert rows_spent(owner) == 0
    give_card(owner.home.folder, "a")


def test_the_review_says_that_a_consumer_with_its_own_curator_reads_every_row(owner: Owner) -> None:
    consumer, curator = secret_of(CONSUMER).card, secret_of("curator").card
    owner.home.pins.pin(consumer, "consumer")
    owner.home.pins.pin(curator, "curator", belongs_to=CONSUMER)
    invite(owner, terms())
    shown = review.review(owner, "run-1")
    assert {role: rows for role, rows, _ in shown.readers} == {"curator": 12, "consumer": 12, "other owners": 0}
    with opened(make_owner(owner.home.folder.parent / "other")) as other:
        invite(other, terms())
        assert {role: rows for role, rows, _ in review.review(other, "run-1").readers}["consumer"] == 6


def test_a_refusal_is_logged_once_while_its_cause_lasts(owner: Owner) -> None:
    run = invite(owner, terms())
    owner.home.pins.revoke("curator", "a test", by="Ada")
    for _ in range(3):
        run = owner.mail.consider(run)
    assert len(logged(owner.home, "refused")) == 1


def test_a_curator_that_is_pinned_and_not_allowed_is_refused(tmp_path: Path) -> None:
    with opened(make_owner(tmp_path, curators=["hub"])) as owner:
        assert invite(owner, terms()).state == "invited"
        assert owner.judge(terms()).reasons == ("curators: curator is not among those in owner.yaml",)
        assert status(owner) == "the curator's card is not allowed by owner.yaml, or pinned for another role"


def test_terms_that_cannot_be_priced_are_refused_and_spoil_no_list(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    invite(owner, terms())

    def overflowing(*_: object, **__: object) -> None:
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr("likeset.homes.owner.Owner.accounts_for", overflowing)
    assert owner.judge(terms()).reasons == ("its cost cannot be computed (OverflowError)",)
    (listed,) = [review.inbox_run(owner, run) for run in owner.waiting()]
    assert listed["status"] == "your rules refuse it"


def test_extensions_of_terms_are_shown_and_change_neither_charges_nor_letters(tmp_path: Path) -> None:
    found = []
    for number, extensions in enumerate(({}, {"x": "y" * 500, "z.later": f"\u202e{CANARY}"})):
        place = tmp_path / str(number)
        place.mkdir()
        with opened(make_owner(place), clock=Clock()) as owner:
            agreed = terms(extensions=extensions)
            _, letters = answered(owner, agreed)
            shown = dict(review.review(owner, agreed.run).lines)
            sizes = [len(letter) for letter in letters]
            costs = [{**charge, "at": ""} for charge in owner.spent_by_run()]
            found.append((sizes, costs, rows_spent(owner), shown.pop("What is not understood here?", None)))
    assert found[0][:3] == found[1][:3]
    assert found[0][3] is None
    said = str(found[1][3])
    assert said.startswith("Neither prices nor the rows that leave depend on what the consumer adds")
    assert said.endswith(f"z.later: \\u202e{CANARY}"), "words of this program never follow a stranger's"
