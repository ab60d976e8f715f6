"""``likeset demo``: what matching does, on data that comes with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from likeset.app.cli.screen import JsonFlag, make_directory, show_json, show_table, stdout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from likeset.studies.market import Market
    from likeset.studies.matching import Outcome

__all__ = ["demo"]

_SEED = 2019
_SIZE = 100
_METHODS = 4
_SHOWN = 20
_MEANING = {
    "exact": "greedy on the exact kernel; sees every row",
    "block": "the same in blocks: for large pools",
    "feature-greedy": "the paper's baseline: 140 random features",
    "uniform": "the same number from each owner, at random",
}


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the picture; created if missing.")] = Path("demo"),
    json: JsonFlag = False,
) -> None:
    """Match 3s and 4s out of five owners' handwritten digits, and draw what was selected.

    Not private yet: this shows the matching core, where one party sees every row.

    Example: [bold]likeset demo --out demo[/]
    """
    import numpy as np

    from likeset.studies.market import digits_market
    from likeset.studies.matching import compare_methods

    make_directory(out)
    coins = np.random.default_rng(_SEED)
    market = digits_market(coins=coins)
    outcomes: list[Outcome] = []
    with Progress(console=stdout, transient=True, disable=json or not stdout.is_terminal) as bar:
        task = bar.add_task("matching", total=_METHODS)
        for outcome in compare_methods(market, size=_SIZE, coins=coins):
            outcomes.append(outcome)
            bar.update(task, advance=1, description=outcome.method)
    picture = out / "selected-digits.png"
    _draw(picture, market, outcomes)
    if json:
        show_json(_document(outcomes, picture))
        return
    _tell(market, outcomes, picture)


def _draw(picture: Path, market: "Market", outcomes: "list[Outcome]") -> None:
    from likeset.studies.figures import draw_images

    pool = market.pool
    strips = [("the target", market.target[:_SHOWN])]
    strips += [(outcome.method, pool[_spread(outcome.indices)]) for outcome in outcomes if outcome.method != "block"]
    draw_images(
        picture,
        strips,
        title="Rows selected to look like the target",
        note=f"Every {_SIZE // _SHOWN}th of {_SIZE} selected rows; scikit-learn digits, five owners. Not private.",
    )


def _spread(indices: "NDArray[np.int64]") -> "NDArray[np.int64]":
    return indices[:: len(indices) // _SHOWN][:_SHOWN]


def _document(outcomes: "list[Outcome]", picture: Path) -> dict[str, object]:
    return {
        "private": False,
        "seed": _SEED,
        "size": _SIZE,
        "methods": [
            {
                "method": outcome.method,
                "squared_mmd": outcome.squared_mmd,
                "accuracy": outcome.accuracy,
                "seconds": outcome.seconds,
            }
            for outcome in outcomes
        ],
        "picture": str(picture),
    }


def _tell(market: "Market", outcomes: "list[Outcome]", picture: Path) -> None:
    stdout.print(
        f"\n[bold]{len(market.owners)} owners[/] hold {len(market.pool)} handwritten digits. A consumer has "
        f"{len(market.target)} images, 3s and 4s only,\n"
        f"and wants [bold]{_SIZE} rows[/] to train on that look like them.\n"
    )
    best = min(outcome.squared_mmd for outcome in outcomes)
    rows = [
        (
            f"[bold]{outcome.method}[/]\n[dim]{_MEANING[outcome.method]}[/]",
            f"{outcome.squared_mmd:.5f}",
            f"{outcome.squared_mmd / best:.1f}x",
            f"{100 * outcome.accuracy:.1f}%",
            f"{outcome.seconds:.3f}",
        )
        for outcome in outcomes
    ]
    show_table(
        "How well do the selected rows match?",
        ("method", "MMD² to target", "of the best", "linear SVM", "seconds"),
        rows,
        caption="MMD²: smaller is more alike. SVM: trained on the selected rows, tested on held-out target rows.",
    )
    stdout.print(f"\nThe selected digits: [bold]{picture}[/]. [yellow]Not private:[/] one party saw every row.\n")
