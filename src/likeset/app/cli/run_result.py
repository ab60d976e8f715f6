"""``likeset run report`` and ``shares``: what came of a run."""

from likeset.app.cli.result_screen import show_result
from likeset.app.cli.run_setup import HERE, HomePath, RunName, opened_home, result_of
from likeset.display.screen import JsonFlag, literal, show_json, show_table, stdout
from likeset.run.words import SHARE, amount, or_bound

__all__ = ["report", "shares"]


def report(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """The result of a run that is done: the rows, who gave what, and the report's page.

    Example: `likeset run report sepsis-2026-07 --home clinic`
    """
    consumer = opened_home(home)
    kept_run = consumer.known(name)
    result = result_of(consumer, kept_run)
    if as_json:
        show_json({**result, "report": str(kept_run.result / "report.html")})
        return
    show_result(result)
    stdout.print(f"\nEverything is in [bold]{literal(str(kept_run.result))}[/].", soft_wrap=True)


def shares(name: RunName, *, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """What each owner's rows were worth, and what it is paid at most: by the rows that left it, which it knows itself.

    Telling an owner its share tells it something about the others and your rows: nobody priced that.

    Example: `likeset run shares sepsis-2026-07 --home clinic`
    """
    told, consumer = ("name", "selected", "share", "payment", "payment_at_most"), opened_home(home)
    result = result_of(consumer, consumer.known(name))
    owners = [{field: owner[field] for field in told} for owner in result["owners"]]
    if as_json:
        show_json({"run": name, "owners": owners})
        return
    rows = [
        [
            owner["name"],
            f"{owner['selected']:,}",
            f"{100 * owner['share']:.1f}%",
            or_bound(owner["payment"], owner["payment_at_most"], amount),
        ]
        for owner in owners
    ]
    caption = f"{SHARE} The payment is by rows disclosed."
    show_table("What owners contributed", ["owner", "rows used", "share", "payment"], rows, caption=caption)
