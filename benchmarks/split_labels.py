"""What imputing a target's classes on secret shares would cost, and how good such an imputation is.

    .venv-split/bin/python benchmarks/split_labels.py cost --offers 2000 --target 360 --rank 64
    .venv/bin/python benchmarks/split_labels.py quality --seeds 3

``cost`` needs the environment of the split workers: the arithmetic of ``shared_imputation.py`` in the engine's own
simulator, all three parties in one process, with the program's number of bits; told are processor seconds and whether
classes and skill are those in the clear. ``quality`` does the same arithmetic in the clear on families of markets that
judge the rule for labels, and matches rows with the classes that it finds, weighted by its skill and by how many rows
there are; beside it labels ignored and the curator's own rule. One line of JSON each.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(_ROOT),
    str(_ROOT / "src" / "likeset" / "split"),
]  # the engine's own folder: its worker has no likeset

from benchmarks.shared_imputation import directions, imputed  # noqa: E402 - the path comes first

_CLASSES, _COLUMNS = 10, 50
_FIRST_SEED = 6000
_FEWEST_SKILL = 0.01

Rows = NDArray[np.float64]


def _kernel(rows: Rows, others: Rows, gamma: float) -> Rows:
    squares = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None, :] - 2.0 * rows @ others.T
    return np.asarray(np.exp(-gamma * squares))


def _one_hot(scores: Rows) -> Rows:
    return np.eye(scores.shape[1])[scores.argmax(axis=1)]


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """One imputation in the engine's simulator."""
    import jax.numpy as jnp
    import spu
    from engine.program import best_one_hot  # type: ignore[import-not-found]
    from engine.runtime import RUNTIME_FIELDS  # type: ignore[import-not-found]
    from spu.utils import simulation

    coins = np.random.default_rng(0)
    centres = coins.uniform(0.2, 0.8, (_CLASSES, _COLUMNS))
    codes, of_target = coins.integers(_CLASSES, size=arguments.offers), coins.integers(2, size=arguments.target)
    offers = centres[codes] + 0.1 * coins.standard_normal((arguments.offers, _COLUMNS))
    target = centres[of_target] + 0.1 * coins.standard_normal((arguments.target, _COLUMNS))
    gamma = 12.0 / _COLUMNS
    places, whitening = directions(_kernel(target, target, gamma), arguments.rank)
    inputs = (_kernel(offers, target, gamma), np.eye(_CLASSES)[codes], places, whitening)
    clear, clear_skill = imputed(*inputs, best=_one_hot)
    config = spu.RuntimeConfig(protocol=spu.ProtocolKind.ABY3, field=spu.FieldType.FM64)
    config.fxp_fraction_bits = RUNTIME_FIELDS["fxp_fraction_bits"]

    def on_shares(*shared: Any) -> tuple[Any, Any]:
        return imputed(*shared, best=lambda scores: best_one_hot(scores).astype(jnp.float32), xp=jnp)

    begun, clock = time.process_time(), time.perf_counter()
    found, skill = simulation.sim_jax(simulation.Simulator(3, config), on_shares)(
        *(array.astype(np.float32) for array in inputs)
    )
    return {
        "offers": arguments.offers,
        "target": arguments.target,
        "rank": places.shape[1],
        "processor_s": round(time.process_time() - begun, 1),
        "wall_s": round(time.perf_counter() - clock, 1),
        "same_classes": float((np.asarray(found).round() == clear).all(axis=1).mean()),
        "skill_off_by": float(abs(float(skill) - clear_skill)),
    }


def quality(arguments: argparse.Namespace) -> None:
    """What models make of three selections, by family: means over seeds."""
    from likeset.geometry.selection import Selection
    from studies.joint_families import JUDGEMENT, judge_selection, market_of

    for family in arguments.families or JUDGEMENT:
        judged: dict[str, list[dict[str, float]]] = {}
        for seed in range(_FIRST_SEED, _FIRST_SEED + arguments.seeds):
            market = market_of(family, seed)
            gamma = Selection().kernel_width(market.target)
            picks = {
                way: Selection().select(market.pool, market.target, market.size, labels=labels)
                for way, labels in (("ignore", None), ("match", market.labels))
            }
            chosen = {way: selected.indices for way, selected in picks.items()}
            chosen["on shares"] = _selected(market, gamma, arguments.rank)
            for way, indices in chosen.items():
                judged.setdefault(way, []).append(judge_selection(market, indices, gamma))
        means = {
            way: {name: round(float(np.mean([each[name] for each in results])), 3) for name in ("accuracy", "rare")}
            for way, results in judged.items()
        }
        print(json.dumps({"family": family, "seeds": arguments.seeds, **means}), flush=True)


def _selected(market: Any, gamma: float, rank: int) -> NDArray[np.int64]:
    """Rows matched with the classes that shares would find; these count by their skill and by the pool's supply."""
    from likeset.geometry.greedy import exact_greedy, swap
    from likeset.geometry.labels import ClassChances, joint_rows

    classes = int(market.labels.max()) + 1
    pool, target = market.pool.astype(np.float64), market.target.astype(np.float64)
    places, whitening = directions(_kernel(target, target, gamma), rank)
    chances, skill = imputed(
        _kernel(pool, target, gamma), np.eye(classes)[market.labels], places, whitening, best=_one_hot
    )
    weight = min(float(skill), 0.99) if skill > _FEWEST_SKILL else 0.0
    found = np.asarray(chances)
    told = ClassChances(market.labels, found.mean(axis=0), found, skill=float(skill), weight=weight)
    rows, wanted, shares, _ = joint_rows(market.pool, market.target, told, size=market.size, gamma=gamma)
    matched = exact_greedy(rows, wanted, market.size, gamma=gamma, target_weights=shares)
    return swap(rows, wanted, matched.indices, gamma=gamma, passes=2, target_weights=shares)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "quality"))
    parser.add_argument("--offers", type=int, default=500)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--families", nargs="+")
    arguments = parser.parse_args()
    if arguments.what == "cost":
        print(json.dumps(cost(arguments)))
    else:
        quality(arguments)


if __name__ == "__main__":
    main()
