"""What each command shows to people: one snapshot for each screen. Documents and exit codes are tested elsewhere."""

from pathlib import Path
from typing import Any

import pytest
import typed
from between_world import Market
from home_world import (
    CANARY,
    CONSUMER,
    SCHEMA,
    Clock,
    answer,
    give_card,
    invite,
    make_owner,
    rows_text,
    secret_of,
    terms,
    write_policy,
)

import job_world
from likeset.homes.home import utc_now
from likeset.homes.owner import open_owner
from screens import Screens

FAR: dict[str, Any] = {"expires": "2099-01-01"}
RUN = terms(**FAR, offers="uniform")


class TestOwner:
    def test_a_home_is_set_up(self, screens: Screens) -> None:
        home = Path("a")
        Path("rows.csv").write_text(rows_text(1, rare=3))
        Path("schema.yaml").write_text(SCHEMA)
        screens.show("init", "init", home, "--name", "a", "--role", "owner")
        give_card(home, "a")
        screens.show("check not set up", "check", home=home, code=1)
        write_policy(home, smallest_group=4)
        typed.run("owner", "data", "add", "patients", "rows.csv", "--schema", "schema.yaml", home=home)
        screens.show("data check", "owner", "data", "check", "patients", home=home)
        Path("rows.csv").write_text(rows_text(1) + f"400,1.5,{CANARY}-2,no\n")
        write_policy(home, columns=["age"])
        home.chmod(0o755)
        screens.show("check bad", "check", home=home, code=1)

    def test_a_run_is_decided_and_its_rows_leave(self, screens: Screens) -> None:
        home = make_owner(screens.folder)
        (home / "key").write_text("ab" * 32)  # which rows are offered depends on it
        write_policy(home, consumers=["other"])
        with open_owner(home) as owner:
            invite(owner, RUN)
        screens.show("inbox of a refused run", "owner", "inbox", home=home)
        screens.show("review of a refused run", "owner", "review", "run-1", home=home)
        Path("wrong.yaml").write_text("likeset: owner\nversion: 1\ncolumns: all\n")
        commands = [f"owner {words} nosuch" for words in ("review", "outbox", "withdraw", "data check", "data remove")]
        commands += [
            "owner row run-1 7",
            "owner row nosuch 7",
            "owner policy put wrong.yaml",
        ]
        commands += [f"init {words} --role owner" for words in ("a --name a", "c --name ä")]
        screens.mistakes("mistakes", *commands, home=home)
        screens.mistakes("without a home", "owner inbox")
        screens.show("approve refused", "owner", "approve", "run-1", home=home, code=1)
        write_policy(home)
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
        Path("new.yaml").write_text((home / "owner.yaml").read_text().replace("rows: 36", "rows: 50"))
        screens.show("policy", "owner", "policy", "put", "new.yaml", "--check", home=home)


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
        screens.mistakes("mistakes", *commands, home=home)
        typed.run("card", "revoke", "clinic", "--reason", "keys stolen", home=home)
        screens.show("list revoked", "card", "list", home=home)

    @pytest.mark.usefixtures("without_figures")
    def test_a_consumer_runs(self, screens: Screens) -> None:
        with Market(screens.folder, clock=Clock(utc_now())) as market:
            job, home = market.write_job(price_per_row=2.5, currency="EUR"), screens.folder / CONSUMER
            screens.show("plan", "run", "plan", job)
            screens.mistakes("mistakes", *(f"run {one}" for one in ("watch run-1", "report run-1")), home=home)
            screens.show("start", "run", "start", job, home=home)
            market.turn("curator", "a", "b", CONSUMER)
            screens.show("watch", "run", "watch", "run-1", "--once", home=home)
            market.owner("b").withdraw("run-1", by="Ada")
            market.hold(market.consumer.run("run-1"))
            screens.show("watch done", "run", "watch", "run-1", home=home)
            typed.run("run", "report", "run-1", home=home)
            screens.show("list", "run", "list", home=home)
            again = market.write_job(run="run-2")
            screens.mistakes("plan beyond the budget", f"run plan {again}", "run cancel run-1", home=home)
            Path("mailbox").rename("aside")
            screens.show("sync in trouble", "sync", home=home, code=1)

    def test_a_backup_is_restored(self, screens: Screens) -> None:
        home = make_owner(screens.folder)
        typed.run("backup", "b.tar", home=home)
        screens.show("restore", "restore", "b.tar", "new")
        screens.mistakes("mistakes", "restore b.tar a", "restore schema.yaml other", "restore gone.tar x")


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
        Path("wrong.yaml").write_text(Path("draft.yaml").read_text().replace("bounds: [", "bonds: [", 1))
        Path("empty.csv").write_text("height,colour\n1,red\n")
        commands = [
            "show wrong.yaml",
            "show gone.yaml",
            "check --schema draft.yaml empty.csv",
            "draft rows.csv --out draft.yaml",
            "draft rows.csv --label height",
        ]
        screens.mistakes("mistakes", *(f"schema {words}" for words in commands))

    def test_a_plan(self, screens: Screens) -> None:
        world = job_world.World.make(screens.folder)
        screens.show("sealed", *job_world.arguments("plan", world.options()))
        unproven = world.options(protocol="interactive", auction="paper", accept_unproven="paper-auction")
        screens.show("unproven", *job_world.arguments("plan", unproven))
