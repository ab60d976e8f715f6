"""The console and the command line are two faces of one node: neither can do, or says, what the other cannot."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from card_world import introduce, signed_terms
from console_world import Answer, Browser, opened_console, signed_in
from node_world import held, make_node, terms, write_policy
from typer.testing import CliRunner

from likeset.app import cli
from likeset.app.console import consumer_app as consumer_pages
from likeset.app.console.owner_app import _DOING, _LOOKING
from likeset.app.console.owner_desk import OwnerDesk
from likeset.homes.owner_node import OwnerNode
from likeset.ledger.ledger import Request
from likeset.privacy.events import ROW, Gaussian, Norm, Relation, RowSum
from likeset.privacy.guarantee import View
from likeset.protocol.wire import Offer, decode

RUN = terms(expires="2099-01-01")

TWINS = {
    "/": "owner inbox",
    "/run": "owner review",
    "/budgets": "owner budget",
    "/left": "owner outbox",
    "/left/bytes": "owner outbox",
    "/left/row": "owner row",
    "/log": "owner audit list, owner audit verify",
    "/data": "owner data list",
    "/data/add": "owner data add",
    "/data/look": "owner data check",
    "/data/remove": "owner data remove",
    "/rules": "owner policy show, owner policy put",
    "/rules/try": "owner policy test",
    "/cards": "card list",
    "/cards/own": "card show",
    "/cards/compare": "card show",
    "/cards/pin": "card pin, card replace",
    "/cards/revoke": "card revoke",
    "/check": "owner check",
    "/add": "owner inbox",
    "/mail": "owner sync",
    "/trial": "owner dry-run",
    "/decide": "owner approve, owner deny, owner withdraw",
}
"""The commands that do what a page does; GET and POST of one address together."""

CONSUMER_TWINS = {"/": "run list", "/run": "run watch, run plan", "/report": "run report", "/publish": "run report"}
COMMAND_LINE_ONLY = {"owner init", "owner serve", "owner console"}
"""Of ``likeset owner``; docs/console.md says why."""


def commands() -> set[str]:
    """All that there are."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield " ".join(words)
        else:
            for name, part in inner.items():
                yield from below(part, (*words, name))

    return set(below(typer.main.get_command(cli.app), ()))


def named(twins: dict[str, str]) -> set[str]:
    return {command for words in twins.values() for command in words.split(", ")}


def test_a_page_does_nothing_that_no_command_does() -> None:
    assert set(TWINS) == {*_LOOKING, *_DOING}
    assert named(TWINS) <= commands()


def test_a_steward_can_do_in_a_browser_what_a_command_does() -> None:
    owners = {command for command in commands() if command.startswith("owner ")}
    assert owners - named(TWINS) == COMMAND_LINE_ONLY
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    told = page.partition("## What it cannot do")[2]
    assert all(f"`{words}`" in told or f"`likeset {words}`" in told for words in ("owner init", "owner serve"))


def test_the_consumers_pages_have_commands_too() -> None:
    source = Path(consumer_pages.__file__).read_text()
    assert set(re.findall(r'(?:looking|doing)\("(/\w*)"', source)) == set(CONSUMER_TWINS)
    assert named(CONSUMER_TWINS) <= commands()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[OwnerDesk]:
    """A node with one run that is done, with rows that left, and one that waits."""
    folder = make_node(tmp_path)
    waiting = terms(expires="2099-01-01", run="run-2", size=5)
    introduce(folder, RUN)
    with opened_console(folder) as opened:
        opened.node.take_invitation(signed_terms(RUN))
        opened.node.approve("run-1", RUN.digest, by="Ada")
        with OwnerNode(folder) as other:
            held(RUN, {"a": other}, tmp_path / "curator")
        opened.node.take_invitation(signed_terms(waiting))
        yield opened


@pytest.fixture
def ada(desk: OwnerDesk) -> Browser:
    return signed_in(desk)


def said(desk: OwnerDesk, *words: str) -> Any:
    place = "--home" if words[0] == "card" else "--node"
    result = CliRunner().invoke(cli.app, [*words, "--json", place, str(desk.node.home.folder)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def numbers_in_tables(page: Answer) -> list[float]:
    """What stands in columns of numbers."""
    cells = re.findall(r'<td class="number">([^<]*)</td>', page.text)
    return sorted(float(cell.replace(",", "")) for cell in cells if cell)


def shown_time(moment: str) -> str:
    return moment[:16].replace("T", " ")


def test_budgets_have_the_same_numbers(desk: OwnerDesk, ada: Browser) -> None:
    told, page = said(desk, "owner", "budget"), ada.get("/budgets")
    lines = [told[name] for name in ("rows", "readable", "epsilon")]
    now = [number for line in lines for number in (line["spent"], line["limit"], line["limit"] - line["spent"])]
    assert numbers_in_tables(page) == sorted([*now, *(charge["rows"] for charge in told["history"])])
    for charge in told["history"]:
        assert f"{charge['run']} {shown_time(charge['at'])} {charge['toward']} {charge['rows']} yes" in page.words
    assert f"{told['rows']['spent']} of {told['rows']['limit']} spent" in page.words


def test_a_raised_limit_adds_its_delta_for_owners_too(desk: OwnerDesk, ada: Browser) -> None:
    node = desk.node
    node.put_policy_in_force()
    quantity = RowSum(Norm.EUCLIDEAN, 1.0, ROW, Relation.REPLACE_ONE)
    name, total = node.policy.name, node.policy.total
    charge = Gaussian(sigma=40.0, quantity=quantity, coordinates=2, spacing=1e-4)
    before = said(desk, "owner", "budget")["epsilon"]["delta"]
    assert before == total.delta
    limits = {"epsilon": 9, "delta": total.delta, "rows": total.rows, "relation": total.relation}
    write_policy(node.home.folder, name, total=limits)
    node.put_policy_in_force()
    assert said(desk, "owner", "budget")["epsilon"]["delta"] == before, "nothing was charged under the first limit"
    node.ledger.reserve(View.owners(name), charge, request=Request("earlier", 0, "begin"))
    write_policy(node.home.folder, name, total={**limits, "epsilon": 10})
    assert said(desk, "owner", "budget")["epsilon"]["delta"] == pytest.approx(2 * before)
    assert f"at delta {2 * before:g}, the sum of 2 limits" in ada.get("/budgets").words


def test_what_left_has_the_same_numbers(desk: OwnerDesk, ada: Browser) -> None:
    told = said(desk, "owner", "outbox", "run-1", "--rows")
    page = ada.get("/left?run=run-1")
    numbers = [(message["round"], message["rows"], message["bytes"]) for message in told["messages"]]
    assert numbers_in_tables(page) == sorted(float(number) for line in numbers for number in line)
    assert f"{sum(message['rows'] for message in told['messages'])} rows left" in page.words
    runs = said(desk, "owner", "outbox")["runs"]
    listed = numbers_in_tables(ada.get("/left"))
    assert listed == sorted(float(number) for run in runs for number in (run["messages"], run["rows"]))
    values = [str(value) for row in told["rows"]["run-1"] for value in row.values()]
    shown = re.findall(r"<td>([^<]*)</td>", page.text.partition('aria-label="Table: Rows that left"')[2])
    assert (len(values), values) == (48, shown)


def test_the_inbox_and_a_run_have_the_same_numbers(desk: OwnerDesk, ada: Browser) -> None:
    listed, page = said(desk, "owner", "inbox", "--all")["runs"], ada.get("/?show=all").words
    for run in listed:
        part = page.partition(f" {run['run']} ")[2].lstrip()
        assert part.startswith(f"{run['status']} "), part[:40]
        assert f"Rows, at most {run['rows']} " in part
        assert f"Came (UTC) {shown_time(run['came'])}" in part
    for name in ("run-1", "run-2"):
        told, words = said(desk, "owner", "review", name), ada.get(f"/run?name={name}").words
        for question, answer in told["answers"].items():
            assert question in words
            assert " ".join(answer.split()) in words
        for reader in told["readers"]:
            assert f"{reader['role']} {reader['rows']} " in words
        past = [(run["run"], run["what"], shown_time(run["at"]), str(run["rows"])) for run in told["history"]]
        assert past
        assert all(" ".join(run) in words for run in past)


def test_data_cards_check_and_log_say_the_same(desk: OwnerDesk, ada: Browser) -> None:
    looked = said(desk, "owner", "data", "check", "patients")
    page = ada.post("/data/look", {"name": "patients"}).words
    assert f"What a look at its {looked['rows']} rows found" in page
    assert all(finding["words"] in page for finding in looked["findings"])
    cards, page = said(desk, "card", "list")["cards"], ada.get("/cards").words
    for card in cards:
        assert f"{card['name']} {card['role']} {card['fingerprint'].replace('-', ' ')}" in page
        assert f"{card['state']} since {shown_time(card['at'])}" in page
    findings = said(desk, "owner", "check")["findings"]
    page = ada.post("/check", {}).words
    lasting = [finding for finding in findings if not finding["what"].startswith(("disk", "clock"))]
    assert len(lasting) >= 7
    assert all(f"{finding['what']} ok {finding['words']}" in page for finding in lasting)
    entries = said(desk, "owner", "audit", "list")["entries"]
    assert numbers_in_tables(ada.get("/log")) == sorted(float(entry["entry"]) for entry in entries)
    head = said(desk, "owner", "audit", "verify")["head"]
    assert f'value="{head}"' in ada.get("/log").text


def test_a_row_is_found_by_its_handle(desk: OwnerDesk, ada: Browser) -> None:
    from likeset.homes.review import messages_that_left

    (offer,) = (decode(message.data).body for message in messages_that_left(desk.node, "run-1") if message.rows)
    assert isinstance(offer, Offer)
    handle, before = str(int(offer.handles[0])), desk.version()
    told = said(desk, "owner", "row", handle)
    for run in ("", "run-1"):
        page = ada.post("/left/row", {"handle": f" {handle} ", "run": run})
        assert page.status == 200
        assert told["place"] in page.words
        assert told["source"] in page.words
        assert all(f"{name} {value} yes" in page.words for name, value in told["record"].items())
    for wrong in ("", "-1", "1" * 21, "../x", "<b>", str(int(handle) ^ 1)):
        assert ada.post("/left/row", {"handle": wrong}).status == 400, wrong
    assert ada.post("/left/row", {"handle": handle, "run": "run-2"}).status == 400
    assert desk.version() == before, "to look writes nothing"
