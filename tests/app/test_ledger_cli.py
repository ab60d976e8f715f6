"""``likeset ledger show``, ``verify`` and ``purge`` as a person and as a program would use them."""

from functools import partial
from pathlib import Path

import pytest
import typed

from likeset.ledger.budget import Charge, Limit, Request
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import ROW, Gaussian, Norm, PaperAuction, Relation, RowSum, Unbounded, View
from screens import Screens

TARGET, CURATOR = View.owners("target"), View.curator("clinic-a")
MEAN = Gaussian(
    sigma=40.0, quantity=RowSum(Norm.EUCLIDEAN, 1.0, ROW, Relation.REPLACE_ONE), coordinates=140, spacing=1e-4
)
AUCTION = PaperAuction(epsilon=0.012, owners=5, rounds=1, patience=3)


@pytest.fixture
def path(folder: Path) -> Path:
    """Two runs: one answered twice, one interrupted; an unproven part; a full account of rows."""
    path = folder / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.set_limit(TARGET, Limit(1.0, 1e-5, Relation.REPLACE_ONE, 0, ("paper-auction",)))
        ledger.set_limit(CURATOR, Limit.rows_only(40))
        for place in range(2):
            request = Request("first", place, "mean")
            ledger.draw(Charge(((TARGET, MEAN),)), lambda: (b"message", None), request=request)
        with ledger.deciding() as transaction:
            rows = Charge(((CURATOR, Unbounded("rows [red]shown[/]")),), 40)
            transaction.reserve(rows, request=Request("second", 0, "rows"))
            transaction.reserve(Charge(((TARGET, AUCTION),)), request=Request("second", 0, "auction"))
    return path


run, document = partial(typed.run, "ledger"), partial(typed.document, "ledger")


def test_screens(path: Path, screens: Screens) -> None:
    screens.show("show", "ledger", "show", path, "--last", 4)
    screens.show("limit", "ledger", "limit", path, "--of", "target", "--epsilon", 2)
    words = ["limit {} --of nobody --rows 3", "limit {} --of x", "show gone.sqlite", "show ."]
    screens.mistakes("mistakes", *(f"ledger {one}".format(path) for one in words))


def test_show_as_json_has_the_same_figures(path: Path) -> None:
    shown = document("show", path)
    target, curator = shown["accounts"]
    with Ledger(path, read_only=True) as ledger:
        assert target["spent"]["epsilon"] == ledger.accounts()[0].epsilon
        assert shown["head"] == str(ledger.head())
    assert target["view"] == {"observer": "owners", "protected": "target", "coalition": []}
    assert (target["basis"], target["unproven"]) == ("none", ["paper-auction"])
    assert (curator["spent"]["rows"], curator["limit"]["rows"]) == (40, 40)
    states = [item["state"] for item in shown["history"]]
    assert states == ["limit", "limit", "answered", "answered", "unanswered", "unanswered"]


def test_show_can_be_narrowed(path: Path) -> None:
    assert {item["run"] for item in document("show", path, "--run", "first")["history"]} == {"first"}


def test_verify_holds_and_prints_the_head(path: Path) -> None:
    verified = document("verify", path)
    assert verified["ok"]
    assert verified["problems"] == []
    assert verified["head"] in run("verify", path, "--head", verified["head"]).stdout


def test_purge_removes_messages_and_keeps_charges(path: Path) -> None:
    before = document("show", path)["accounts"]
    assert document("purge", path, "--run", "first", "--before", "2000-01-01") == {"messages_removed": 0}
    assert document("purge", path, "--run", "first") == {"messages_removed": 2}
    assert document("show", path)["accounts"] == before


def test_a_limit_that_is_raised_after_a_charge_adds_its_delta(path: Path) -> None:
    """Lowered, or put back, it adds nothing: an earlier limit allowed as much."""

    def shown() -> tuple[float, float]:
        (account,) = (one for one in document("show", path)["accounts"] if one["limit"]["epsilon"] is not None)
        return account["limit"]["epsilon"], account["delta"]

    first, delta = shown()
    for epsilon, limits in ((2 * first, 2), (first, 2), (1.5 * first, 2), (3 * first, 3)):
        run("limit", path, "--of", TARGET.protected, "--epsilon", epsilon)
        assert shown()[0] == epsilon
        assert shown()[1] == pytest.approx(limits * delta)
