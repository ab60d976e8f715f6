"""``reconstruction``: what a curator learns from hashes ``h_1(x)`` of rows.

``frequencies``: everybody knows those of h_1, so a row is fitted to its hash within the columns' public bounds, from
rows that the curator knows, as it knows the target.
``distances``: without them, from exact distances between rows, by scaling and independent component analysis.
"""

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from sklearn.decomposition import FastICA

from likeset.geometry.features import FourierFeatures
from likeset.geometry.kernels import median_gamma
from studies.contract import Cell, Options, Presentation, RecordLine
from studies.data.columns import read_adult, read_heart
from studies.data.sources import table_folder
from studies.pages import mean_table

_FILES = {"heart": ("heart_disease_4hospitals.csv", read_heart), "adult": ("adult.csv.gz", read_adult)}
_DIMENSION, _GAMMA, _SCALES = 140, 0.1, (None, 1.0, 3.0)
_ROWS, _STARTS, _STEPS = 20, 20, 60
_MANY = 1500
_SEEDS = 5
Values = NDArray[np.float64]


def row_of_hash(features: FourierFeatures, hashed: Values, starts: Values) -> Values:
    """The row between 0 and 1 whose hash (kind ``paper``) comes nearest, from one start after another."""
    frequencies, phases, scale = features.waves

    def miss(row: Values) -> Values:
        return np.asarray(scale * np.cos(frequencies @ row + phases) - hashed)

    def slope(row: Values) -> Values:
        return np.asarray(-scale * np.sin(frequencies @ row + phases)[:, None] * frequencies)

    fits = []
    for start in starts:
        fits.append(least_squares(miss, start, slope, bounds=(-0.01, 1.01), max_nfev=_STEPS))
        if fits[-1].cost < 1e-8:
            break
    return np.asarray(min(fits, key=lambda fit: float(fit.cost)).x)


def columns_of_distances(squared: Values, seed: int) -> Values:
    """Columns from squared distances alone: rows up to a rotation, then the rotation of independent components."""
    centred = -0.5 * (squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean())
    sizes, directions = np.linalg.eigh(centred)
    some = sizes > 1e-8 * sizes[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps that ran out
        analysis = FastICA(whiten="unit-variance", random_state=seed, max_iter=1000)
        return np.asarray(analysis.fit_transform(directions[:, some] * np.sqrt(sizes[some])))


class Reconstruction:
    """The study."""

    name = "reconstruction"
    description = "rows of Heart Disease and Adult from their hashes: with the frequencies, and from distances alone"

    def cells(self, options: Options) -> Sequence[Cell]:
        """Seed by seed."""
        folder = table_folder(options.data, [file for file, _ in _FILES.values()])
        return [
            Cell(self.name, {"data": data, "part": part, "scale": scale, "seed": seed, "revision": 2}, source=folder)
            for seed in range(options.seeds or _SEEDS)
            for data in _FILES
            for part, scale in (*(("frequencies", scale) for scale in _SCALES), ("distances", None))
        ]

    def run(self, cell: Cell) -> dict[str, Any]:
        """How much of the rows is found, and in how many seconds."""
        file, read = _FILES[cell["data"]]
        table = read(str(Path(str(cell.source)) / file))[1].astype(np.float64)
        coins, started = np.random.default_rng([cell["seed"], 0]), time.perf_counter()
        rows, known = np.split(coins.permutation(table)[:_MANY], [_ROWS])
        if cell["part"] == "frequencies":
            scale = cell["scale"]
            gamma = _GAMMA if scale is None else median_gamma(table, scale=scale, coins=np.random.default_rng(0))
            features = FourierFeatures(rows.shape[1], _DIMENSION, gamma, cell["seed"], "paper")
            found = [row_of_hash(features, hashed, known[:_STARTS]) for hashed in features(rows).astype(np.float64)]
            right = np.abs(np.array(found) - rows).max(axis=1) < 1e-3
            return {"found": float(right.mean()), "gamma": gamma, "seconds_each": _since(started) / len(rows)}
        varied = known[:, known.std(axis=0) > 0.0]
        norms = (varied**2).sum(axis=1)
        parts = columns_of_distances(norms[:, None] + norms - 2.0 * varied @ varied.T, cell["seed"])
        # Which component is which column is what the schema tells; here the experimenter looks.
        alike = np.abs(np.corrcoef(parts.T, varied.T)[: parts.shape[1], parts.shape[1] :]).max(axis=0)
        return {"alike": float((alike > 0.95).mean()), "mean_alike": float(alike.mean()), "seconds": _since(started)}

    def present(self, lines: Sequence[RecordLine], out: Path) -> Presentation:  # noqa: ARG002 - no figures
        """A table for each way."""
        done = [line for line in lines if line.done]
        by_part = [[line for line in done if line["part"] == part] for part in ("frequencies", "distances")]
        found = {"rows found": ("found", ".2f"), "gamma": ("gamma", ".3f"), "seconds a row": ("seconds_each", ".3f")}
        alike = {
            "columns found, correlation above .95": ("alike", ".2f"),
            "mean correlation": ("mean_alike", ".3f"),
            "seconds": ("seconds", ".1f"),
        }
        tables = [
            mean_table(
                f"With the frequencies, d = {_DIMENSION}: share of rows of which every number is found to 0.001",
                by_part[0],
                lambda line: f"{line['data']}, gamma {line['gamma']:.3f}",
                found,
            ),
            mean_table(
                f"From distances between up to {_MANY - _ROWS:,} rows",
                by_part[1],
                lambda line: str(line["data"]),
                alike,
            ),
        ]
        words = ("Numbers of a row lie between 0 and 1, by public bounds. Heart Disease has 920 rows in all.",)
        return Presentation("Rows from their hashes", words, tables)


def _since(started: float) -> float:
    return time.perf_counter() - started


STUDY = Reconstruction()
