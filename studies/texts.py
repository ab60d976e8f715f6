"""``texts``: texts from one place among texts from others, by their vectors: do matched rows make better models?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likeset.errors import InvalidArgument
from likeset.simulation import LabelledMarket
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.data.texts import PLACES, REMEDY, rated_texts
from studies.disease_groups import judged_ways, ways_table

_FIRST_SEED, _SEEDS = 4300, 10
_SIZES = (100,)
_TARGET, _TEST, _RIGHT, _OF_EACH_OTHER, _OWNERS = 100, 300, 150, 800, 5


class Texts:
    """The study."""

    name = "texts"
    description = "sentiment of texts from one place, 1 in 17 at the owners, by vectors of a public model"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed; all ways in one cell."""
        if options.data is None:
            raise InvalidArgument("--data", "not given", REMEDY)
        digest = rated_texts(options.data).digest
        return [
            Cell(
                self.name,
                {
                    "family": place,
                    "size": size,
                    "seed": _FIRST_SEED + number,
                    "digest": digest,
                    "revision": 1,
                },
                source=options.data,
            )
            for number in range(options.seeds or _SEEDS)
            for size in options.sizes or _SIZES
            for place in PLACES
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """One market: training sets by all ways, judged on held-out texts of the place."""
        assert cell.source is not None  # noqa: S101 - ``cells`` requires it
        texts, place, seed = rated_texts(cell.source), cell["family"], int(cell["seed"])
        coins = np.random.default_rng([seed, 1])
        mine = coins.permutation(np.flatnonzero(texts.places == place))
        target, test, right = np.split(mine[: _TARGET + _TEST + _RIGHT], [_TARGET, _TARGET + _TEST])
        others = [
            coins.permutation(np.flatnonzero(texts.places == other))[:_OF_EACH_OTHER]
            for other in PLACES
            if other != place
        ]
        parts = np.array_split(coins.permutation(np.concatenate([right, *others])), _OWNERS)
        market = LabelledMarket(
            owners={f"owner {number}": texts.rows[part] for number, part in enumerate(parts)},
            labels={f"owner {number}": texts.positive[part] for number, part in enumerate(parts)},
            target=texts.rows[target],
            test=texts.rows[test],
            test_labels=texts.positive[test],
        )
        is_right = texts.places[np.concatenate(parts)] == place
        return judged_ways(market, is_right, size=int(cell["size"]), seed=seed)

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each measure."""
        words = (
            f"The target is {_TARGET} unlabelled texts from one of four places. {_OWNERS} owners hold "
            f"{_RIGHT + 3 * _OF_EACH_OTHER:,} texts, {_RIGHT} of them from that place. Texts are vectors of "
            "all-MiniLM-L6-v2. The label is whether people rated the text above 0 (Hutto and Gilbert 2014). Means of "
            f"a linear SVM, logistic regression and a forest on {_TEST} other texts from the place.",
            "*Right rows* are texts from the place: an oracle knows them. *Exact greedy* and *pooled* read all rows. "
            "The standard errors do not include that markets share texts.",
        )
        done = [line for line in lines if line.done]
        tables = [ways_table(done, measure) for measure in ("accuracy", "balanced", "auc")]
        return Presentation("Texts from one place among others", words, tables)


STUDY = Texts()
