"""What each command shows to people: one snapshot for each screen. Documents and exit codes are tested elsewhere."""

import json
from pathlib import Path
from typing import Any

import pytest
import typed
from between_world import Market
from home_world import (
    CANARY,
    CONSUMER,
    SCHEMA,
    SCHEMA_OF_ALL,
    Clock,
    answer,
    give_card,
    introduce,
    invite,
    make_owner,
    pin,
    rows_text,
    secret_of,
    signed_terms,
    terms,
    write_policy,
)
from test_audit_cli import trial
from test_split_cli import half_made

import job_world
from likeset.homes.home import Home, utc_now
from likeset.homes.owner import open_owner
from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import (
    ROW,
    VERSION,
    Gaussian,
    Norm,
    PaperAuction,
    Relation,
    RowSum,
    Unbounded,
    View,
    as_json,
)
from likeset.protocol.terms import Kernel, SplitTerms
from likeset.split.host import locked_versions
from screens import Screens

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR, offers="uniform")


def mistakes(commands: list[str], **options: Any) -> dict[str, BaseException | None]:
    return {words: typed.run(*words.split(), code=1, **options).exception for words in commands}


class TestOwner:
    def test_a_home_is_set_up(self, screens: Screens) -> None:
        home = Path("a")
        Path("rows.csv").write_text(rows_text(1, rare=3))
        Path("schema.yaml").write_text(SCHEMA)
        screens.show("init", "init", home, "--name", "a", "--role", "owner")
        give_card(home, "a")
        screens.show("check not set up", "check", home=home, code=1)
        write_policy(home, smallest_group=4)
        added = ("owner", "data", "add", "patients", "rows.csv", "--schema", "schema.yaml")
        typed.run(*added, home=home)
        screens.show("data check", "owner", "data", "check", "patients", home=home)
        Path("rows.csv").write_text(rows_text(1) + f"400,1.5,{CANARY}-2,no\n")
        write_policy(home, columns=["age"])
        home.chmod(0o755)
        screens.show("check bad", "check", home=home, code=1)

    def test_a_run_is_decided_and_its_rows_leave(self, screens: Screens) -> None:
        home = make_owner(screens.folder)
        (home / "key").write_text("ab" * 32)  # which rows are offered depends on it
        Path("run-1.invitation").write_bytes(signed_terms(RUN))
        screens.show("inbox of a stranger", "owner", "inbox", "--add", "run-1.invitation", home=home)
        screens.show("review of a stranger", "owner", "review", "run-1", home=home)
        Path("others.invitation").write_bytes(signed_terms(terms(**FAR, owners=("b", "c"))))
        Path("changed.invitation").write_bytes(signed_terms(terms(**FAR, size=5)))
        Path("terms.json").write_text(RUN.to_json())
        Path("wrong.yaml").write_text("likeset: owner\nversion: 1\ncolumns: all\n")
        commands = [f"owner {words} nosuch" for words in ("review", "outbox", "withdraw", "data check", "data remove")]
        names = ("others.invitation", "changed.invitation", "terms.json", "gone.json")
        commands += [f"owner inbox --add {name}" for name in names]
        commands += [
            "owner row run-1 7",
            "owner row nosuch 7",
            "owner policy put wrong.yaml",
        ]
        commands += [f"init {words} --role owner" for words in ("a --name a", "c --name ä")]
        screens.mistakes("mistakes", mistakes(commands, home=home) | mistakes(["owner inbox"]))
        screens.show("approve refused", "owner", "approve", "run-1", home=home, code=1)
        with Home(home) as opened:
            introduce(opened, RUN)
        typed.run("owner", "deny", "run-1", "--reason", "no contract yet", "--by", "Ada", home=home)
        screens.show("inbox all", "owner", "inbox", "--all", home=home)
        screens.show("review", "owner", "review", "run-1", home=home)
        screens.show("dry-run", "owner", "dry-run", "run-1", "--show", 2, home=home)
        typed.run("owner", "approve", "run-1", "--by", "Ada", home=home)
        with open_owner(home) as owner:
            answer(owner, RUN)
        screens.show("outbox rows", "owner", "outbox", "run-1", "--rows", "--show", 2, home=home)
        screens.show("budget", "owner", "budget", home=home)
        typed.run("owner", "withdraw", "run-1", "--by", "Ada", home=home)
        screens.show("log", "owner", "audit", "list", "--last", 4, home=home)
        text = (home / "owner.yaml").read_text().replace("rows: 36", "rows: 50")
        Path("new.yaml").write_text(text)
        screens.show("policy", "owner", "policy", "put", "new.yaml", "--check", home=home)

    def test_a_split_run(self, screens: Screens) -> None:
        home = make_owner(screens.folder)
        kernel = Kernel(columns=SCHEMA_OF_ALL.width, dimension=16, gamma=0.4, seed=7, largest=10.0)
        split = terms(**FAR, run="split-1", split=SplitTerms("ab" * 32, 6, gamma=0.3), kernel=kernel)
        with open_owner(home) as owner:
            pin(owner.home, "witness", "witness")
            invite(owner, split)
        screens.show("review", "owner", "review", "split-1", home=home)


class TestParties:
    """Cards, invitations, runs of a consumer, mailboxes."""

    def test_cards(self, screens: Screens) -> None:
        homes = {name: make_owner(screens.folder, name) for name in ("st-mary", "clinic")}
        home = homes["st-mary"]
        card, secret = homes["clinic"] / "card", homes["clinic"] / "card.secret"
        told = secret_of("clinic").card.fingerprint
        typed.run("card", "pin", card, "--as", "consumer", "--fingerprint", told, home=home)
        typed.run("card", "show", "--export", "mine.card", home=home)
        screens.show("make", "card", "make", "--new", home=homes["clinic"])
        pin = "card pin {} --as {} --fingerprint {}"
        wrong = ("B" if told[0] == "A" else "A") + told[1:]
        commands = [
            pin.format(card, "consumer", secret_of("clinic").card.fingerprint),
            pin.format(card, "boss", told),
            pin.format(homes["st-mary"] / "card", "owner", told),
            pin.format(secret, "consumer", told),
            pin.format("gone.card", "consumer", wrong),
            "card revoke nobody --reason stolen",
            "card show --export mine.card",
            "card show --export none/x.card",
        ]
        screens.mistakes("mistakes", mistakes(commands, home=home))
        typed.run("card", "revoke", "clinic", "--reason", "keys stolen", home=home)
        screens.show("list revoked", "card", "list", home=home)

    def test_an_organisation_joins(self, screens: Screens, monkeypatch: pytest.MonkeyPatch) -> None:
        words = "abandon ability able about above absent absorb abstract"
        monkeypatch.setattr("likeset.homes.joining.Invitation.words", lambda *_: tuple(words.split()))
        Path("mailbox").mkdir()
        Path("schema.yaml").write_text(SCHEMA)
        Path("rules.yaml").write_text(
            "likeset: owner\nversion: 1\nconsumers: [clinic]\npurposes: [care]\ncolumns: [age, ill]\n"
            "per_run: {rows: 20}\ntotal: {rows: 50}\n"
        )
        mailbox = (screens.folder / "mailbox").as_uri()
        roles = ("--role", "consumer", "--role", "curator", "--schema", "schema.yaml", "--mailbox", mailbox)
        typed.run("init", "clinic", "--name", "clinic", *roles)
        clinic = Path("clinic")
        screens.show("invite", "invite", "st-mary", "--rules", "rules.yaml", home=clinic)
        screens.show("join without a mailbox", "join", "st-mary.invite", code=1)
        typed.run("join", "st-mary.invite", "--mailbox", mailbox, code=1)
        screens.show("invitations", "invite", home=clinic)
        wrong = " ".join(["zoo"] * 8)
        confirm = ("invite", "--confirm", "st-mary", "--words")
        screens.mistakes(
            "mistakes",
            {
                "wrong words there": typed.run("join", "st-mary.invite", "--words", wrong, code=1).exception,
                "wrong words here": typed.run(*confirm, wrong, home=clinic, code=1).exception,
                "not a word": typed.run(*confirm, "yess " * 8, home=clinic, code=1).exception,
                **mistakes(["invite --confirm nobody --words x", "invite --as owner a/b"], home=clinic),
                **mistakes(["join rules.yaml", "join gone.invite"]),
            },
        )
        screens.show("joined", "join", "st-mary.invite", "--mailbox", mailbox, "--words", words)

    @pytest.mark.usefixtures("without_figures")
    def test_a_consumer_runs(self, screens: Screens) -> None:
        with Market(screens.folder, clock=Clock(utc_now())) as market:
            job, home = market.write_job(price_per_row=2.5, currency="EUR"), screens.folder / CONSUMER
            screens.show("plan", "run", "plan", job)
            screens.show("invite", "run", "invite", job, home=home)
            screens.mistakes(
                "mistakes", mistakes([f"run {w}" for w in ("watch run-1", "report run-1", "watch other")], home=home)
            )
            screens.show("start", "run", "start", job, home=home)
            market.turn("curator", "a", "b", CONSUMER)
            screens.show("watch", "run", "watch", "run-1", "--once", home=home)
            market.owner("b").withdraw("run-1", by="Ada")
            market.hold(market.consumer.run("run-1"))
            screens.show("watch done", "run", "watch", "run-1", home=home)
            typed.run("run", "report", "run-1", home=home)
            screens.show("list", "run", "list", home=home)
            again = market.write_job(run="run-2")
            screens.mistakes("plan beyond the budget", mistakes([f"run plan {again}", "run cancel run-1"], home=home))
            Path("mailbox").rename("aside")
            screens.show("sync in trouble", "sync", home=home, code=1)

    def test_a_backup_is_restored(self, screens: Screens) -> None:
        home = make_owner(screens.folder)
        typed.run("backup", "b.tar", home=home)
        screens.show("restore", "restore", "b.tar", "new")
        screens.mistakes("mistakes", mistakes(["restore b.tar a", "restore schema.yaml other", "restore gone.tar x"]))


class TestFiles:
    """From files to a result, schemas and ledgers."""

    def test_schemas(self, screens: Screens) -> None:
        job_world.World.make(screens.folder)
        lines = ["age,site,ill", *(f"{20 + row},{('north', 'south')[row % 2]},{row % 3 // 2}" for row in range(30))]
        Path("rows.csv").write_text("\n".join(lines) + "\n")
        screens.show("draft", "schema", "draft", "rows.csv", "--label", "ill")
        screens.show("draft into a file", "schema", "draft", "rows.csv", "--label", "ill", "--out", "draft.yaml")
        screens.show("show", "schema", "show", "schema.yaml")
        Path("target.csv").write_text("age,site\n30,north\n40,south\n")
        screens.show("check of a target", "schema", "check", "--schema", "draft.yaml", "target.csv")
        Path("bad.csv").write_text("age,site,ill\n30,north,0\n4711,west,1\n,south,1\n")
        screens.show("check of bad rows", "schema", "check", "--schema", "draft.yaml", "rows.csv", "bad.csv", code=1)
        text = "patient_id,age,site,ill\n" + "".join(
            f"P{row // 3:04d},{20 + row % 9},north,{row}\n" for row in range(120)
        )
        Path("many.csv").write_text(text)
        Path("many.yaml").write_text(
            "likeset: schema\nversion: 1\ncolumns:\n  age: {kind: numeric, bounds: [0, 2000]}\n"
            "  site: {kind: category, values: [north]}\nlabel: {column: ill, kind: category}\n"
        )
        screens.show("check of suspicious columns", "schema", "check", "--schema", "many.yaml", "many.csv")
        Path("wrong.yaml").write_text(Path("draft.yaml").read_text().replace("bounds", "bonds", 1))
        Path("empty.csv").write_text("height,colour\n1,red\n")
        commands = [
            "show wrong.yaml",
            "show gone.yaml",
            "check --schema draft.yaml empty.csv",
            "draft rows.csv --out draft.yaml",
            "draft rows.csv --label height",
        ]
        screens.mistakes("mistakes", mistakes([f"schema {words}" for words in commands]))

    def test_a_plan(self, screens: Screens) -> None:
        world = job_world.World.make(screens.folder)
        screens.show("sealed", *job_world.arguments("plan", world.options()))
        unproven = world.options(protocol="interactive", auction="paper", accept_unproven="paper-auction")
        screens.show("unproven", *job_world.arguments("plan", unproven))

    def test_a_ledger(self, screens: Screens) -> None:
        """Two runs: one answered, one interrupted; an unproven part; a full account of rows."""
        target, curator = View.owners("target"), View.curator("clinic-a")
        quantity = RowSum(Norm.EUCLIDEAN, 1.0, ROW, Relation.REPLACE_ONE)
        mean = Gaussian(sigma=40.0, quantity=quantity, coordinates=140, spacing=1e-4)
        with Ledger(Path("l.sqlite")) as ledger:
            ledger.set_limit(target, Limit(1.0, 1e-5, Relation.REPLACE_ONE, 0, ("paper-auction",)))
            ledger.set_limit(curator, Limit.rows_only(40))
            ledger.draw(Charge(((target, mean),)), lambda: (b"message", None), request=Request("first", 0, "mean"))
            with ledger.deciding() as transaction:
                rows = Charge(((curator, Unbounded("rows [red]shown[/]")),), 40)
                transaction.reserve(rows, request=Request("second", 0, "rows"))
                auction = PaperAuction(epsilon=0.012, owners=5, rounds=1, patience=3)
                transaction.reserve(Charge(((target, auction),)), request=Request("second", 0, "auction"))
        screens.show("show", "ledger", "show", "l.sqlite", "--last", 4)
        screens.show("limit", "ledger", "limit", "l.sqlite", "--of", "target", "--epsilon", 2)
        commands = ["limit l.sqlite --of nobody --rows 3", "limit l.sqlite --of x", "show gone.sqlite", "show ."]
        screens.mistakes("mistakes", mistakes([f"ledger {words}" for words in commands]))

    def test_prices(self, screens: Screens, monkeypatch: pytest.MonkeyPatch) -> None:
        quantity = RowSum(norm=Norm.EUCLIDEAN, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
        release = Gaussian(sigma=8.0, quantity=quantity, coordinates=140, spacing=2.0**-30)
        Path("events.json").write_text(json.dumps({"version": VERSION, "events": [as_json(release)] * 2}))
        screens.show("account of releases", "account", "--events", "events.json")
        texts = {"a": "", "b": "[]", "c": '{"version": 3}', "d": '{"version": 3, "events": [{"kind": "free"}]}'}
        for name, text in texts.items():
            Path(name).write_text(text)
        commands = [f"account --events {name}" for name in [*texts, "gone"]]
        screens.mistakes("mistakes", mistakes([*commands, "account --paper --delta 1e-5"]))
        trials = [trial("honest", claimed=1.0, shift=0.1), trial("lying", claimed=1.0, shift=5.0)]
        monkeypatch.setattr("likeset.app.cli.privacy.sound_trials", lambda: trials)
        screens.show("audit", "audit", code=1)

    def test_a_worker_without_an_environment(self, screens: Screens) -> None:
        for name in ("other", "half", "whole"):
            Path(name).mkdir()
        for name in ("half", "whole"):
            half_made(Path(name), packages=5 if name == "half" else len(locked_versions()))
        Path("old").write_text("#!/bin/sh\necho 3.12\n")
        Path("old").chmod(0o700)
        old = screens.folder / "old"
        words = (f"half --python {old}", f"other --python {old}", "whole")
        screens.mistakes("mistakes", mistakes([f"split setup --at {word}" for word in words]))
