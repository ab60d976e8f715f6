"""What imputing a target's classes on secret shares would cost, and how good such an imputation is.

    .venv-split/bin/python benchmarks/split_labels.py cost --offers 2000 --target 360 --rank 64
    .venv/bin/python benchmarks/split_labels.py quality --seeds 3

``cost`` needs the environment of the split workers: ``imputed`` in the engine's own simulator, all three parties in
one process, with the program's number of bits; told are processor seconds and whether classes and skill are those in
the clear. ``quality`` does the same arithmetic in the clear on families of markets that judge the rule for labels, and
matches rows with the classes that it finds, weighted by its skill and by how many rows there are; beside it labels
ignored and the curator's own rule. One line of JSON each.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Classes of a target's rows by a ridge regression of low rank that secret shares can do: sums, products, one maximum.
#
# Written once for numpy (how good it is) and for JAX on shares (what it costs). The consumer knows its target, so it
# brings two small matrices: ``T``, whose rows are its target's rows in the leading directions of their own kernel
# matrix, and ``W``, which maps the kernel of an offer with all target rows to the same directions. What only the offers
# know is computed on shares: a regression of classes on these directions, by Newton's iteration for the inverse of a
# matrix of that rank; its skill on offers left out, half by half; and for each target row its best class.

RIDGE = 1.0
"""Added to the sum over offers."""
_SMALLEST_EIGENVALUE = 0.03  # below it numbers of W grow beyond what 16 bits behind the point tell apart
_NEWTON_STEPS = 18  # the smallest eigenvalue is RIDGE over the number of offers; each step doubles what is right

Array = Any  # of numpy, or traced by JAX
BestOfRows = Callable[[Array], Array]


def directions(kernel: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``T`` and ``W`` of a target whose kernel matrix that is."""
    values, vectors = np.linalg.eigh(kernel)
    kept = np.argsort(-values)[:rank]
    kept = kept[values[kept] > _SMALLEST_EIGENVALUE]
    roots = np.sqrt(values[kept])
    return vectors[:, kept] * roots, vectors[:, kept] / roots


def imputed(
    kernel: Array, indicators: Array, target: Array, whitening: Array, *, best: BestOfRows, xp: Any = np
) -> tuple[Array, Array]:
    """For each row of the target its class as a one-hot row, and the skill near the target, 1 at the most.

    Args:
        kernel: between offers and target rows.
        indicators: of the offers' classes.
        target: ``T``.
        whitening: ``W``.
        best: makes a one-hot row of each row.
        xp: numpy or JAX's.
    """
    count = kernel.shape[0]
    offers, means = kernel @ whitening, xp.sum(indicators, axis=0) * (1.0 / count)
    centred = indicators - means[None, :]
    scores = target @ _fitted(offers, centred, xp) + means[None, :]
    half = count // 2
    left_out = xp.concatenate(
        [
            offers[:half] @ _fitted(offers[half:], centred[half:], xp),
            offers[half:] @ _fitted(offers[:half], centred[:half], xp),
        ]
    )
    nearness = xp.sum(kernel, axis=1) * (1.0 / kernel.shape[1])
    relevance = nearness * nearness
    # Sums over offers are means here, and the whole is far from 0 where there are two classes near the target.
    share = (relevance @ centred) * (1.0 / count)
    total = xp.sum(relevance) * (1.0 / count)
    about = centred - (share / total)[None, :]
    wrong = centred - left_out
    whole = xp.sum(relevance * xp.sum(about * about, axis=1)) * (1.0 / count)
    rest = xp.sum(relevance * xp.sum(wrong * wrong, axis=1)) * (1.0 / count)
    return best(scores), 1.0 - rest / whole


def _fitted(offers: Array, centred: Array, xp: Any) -> Array:
    """The ridge regression's coefficients; offers have norms of at most 1, so Newton may begin with the identity."""
    count, rank = offers.shape
    one = np.eye(rank, dtype=np.float32)
    matrix = (offers.T @ offers) * (1.0 / count) + one * (RIDGE / count)
    inverse = one + xp.zeros_like(matrix)
    for _ in range(_NEWTON_STEPS):
        inverse = inverse @ (2.0 * one - matrix @ inverse)
    return inverse @ ((offers.T @ centred) * (1.0 / count))


_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(_ROOT),
    str(_ROOT / "src" / "likeset" / "split"),
]  # the engine's own folder: its worker has no likeset


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
