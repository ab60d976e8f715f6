"""The paper's bounds beside what is measured: pure functions of rows and numbers.

Each returns plain numbers, so that a line of results says all there is to say. Noise is simulated.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.svm import SVC, LinearSVC

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.features import FourierFeatures
from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import blocks, rbf_kernel
from likeset.privacy import gaussian_mean, mwem_mean
from likeset.privacy.accounting import mwem_epsilon
from likeset.privacy.events import ROW, Norm, Relation, RowSum
from likeset.privacy.noise import SimulatedNoise

Numbers = dict[str, float]
_ROUNDING = 1e-12
_FIRST_EPSILON = 0.05  # the paper's, of its first epoch


@dataclass(frozen=True)
class SubmodularityMargin:
    """How far a data set is from the condition under which Theorem 1 of the paper calls J submodular.

    Attributes:
        largest_kernel: the largest kernel value between two different rows.
        allowed_kernel: what the theorem allows, ``1 / (N³ + 3N² + N)`` for N rows.
        shortest_distance: the smallest distance between two different rows.
        required_distance: the smallest distance that the theorem allows at this gamma.
    """

    largest_kernel: float
    allowed_kernel: float
    shortest_distance: float
    required_distance: float

    @property
    def holds(self) -> bool:
        """Whether the condition is met."""
        return self.shortest_distance >= self.required_distance

    @property
    def excess(self) -> float:
        """By what factor the largest kernel value exceeds what is allowed (at most 1 where the condition holds)."""
        return self.largest_kernel / self.allowed_kernel


def submodularity_margin(rows: ArrayLike, *, gamma: float) -> SubmodularityMargin:
    """Check the condition of Theorem 1 on all rows of the system (owners' and target's together).

    The theorem asks for an off-diagonal kernel of at most ``1 / (N³ + 3N² + N)``. Where it holds, J(S) is about
    ``-1/|S|``, which is negative: the approximation guarantee that the paper derives does not follow either way.
    """
    array = arguments.matrix("rows", rows)
    number = len(array)
    if number < 2:
        raise InvalidArgument("rows", f"array of shape {array.shape}", "at least two rows are needed")
    arguments.positive("gamma", gamma)
    shortest = _shortest_squared_distance(array)
    log_allowed = -float(np.log(number**3 + 3.0 * number**2 + number))
    return SubmodularityMargin(
        largest_kernel=float(np.exp(-gamma * shortest)),
        allowed_kernel=float(np.exp(log_allowed)),
        shortest_distance=float(np.sqrt(shortest)),
        required_distance=float(np.sqrt(-log_allowed / gamma)),
    )


def _shortest_squared_distance(rows: Rows) -> float:
    moved = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    squared_norms = np.einsum("ij,ij->i", moved, moved)
    shortest = np.inf
    for part in blocks(len(moved), width=len(moved)):
        distances = squared_norms[part, None] + squared_norms - 2.0 * (moved[part] @ moved.T)
        distances[np.arange(distances.shape[0]), np.arange(part.start, part.stop)] = np.inf
        shortest = min(shortest, float(distances.min()))
    return max(0.0, shortest)


def linear_form_bounds(size: int) -> tuple[float, float]:
    """Alpha and beta of the theorem behind Theorem 1, by its definition with the paper's a(S) and b(S).

    They are ``1/(s + 1)²`` and ``1/((s + 1)(s² + 3s + 1))``; the paper prints ``1/(s³ + 3s² + s)`` for beta.
    """

    def a(s: int) -> float:
        return -1.0 / s

    def b(s: int) -> float:
        return 1.0 / s + 1.0

    alpha = (a(size + 1) - a(size)) / b(size)
    return alpha, (2.0 * a(size + 1) - a(size + 2) - a(size)) / (b(size) + b(size + 2))


def enumerated(pool: Rows, target: Rows, *, gamma: float) -> dict[str, bool]:
    """Whether J is non-negative, monotone and submodular over all subsets of a small pool; J of no rows is 0.

    ``..._from_one`` leaves the empty set out.
    """
    kernel, attraction = _kernels(pool, target, gamma)
    everyone = range(len(pool))
    subsets = [frozenset(some) for size in range(len(pool) + 1) for some in itertools.combinations(everyone, size)]
    values = {some: _value(kernel, attraction, np.array(sorted(some))) if some else 0.0 for some in subsets}
    found = {"non_negative": min(values.values()) >= -_ROUNDING}
    for name, least in (("", 0), ("_from_one", 1)):
        grown = [(some, row) for some in subsets if len(some) >= least for row in everyone if row not in some]
        gains = {(some, row): values[some | {row}] - values[some] for some, row in grown}
        found[f"monotone{name}"] = min(gains.values()) >= -_ROUNDING
        found[f"submodular{name}"] = all(
            gain >= gains[some | {other}, row] - _ROUNDING
            for (some, row), gain in gains.items()
            for other in everyone
            if other != row and other not in some
        )
    return found


def theorem_condition(rows: Rows, *, gamma: float) -> Numbers:
    """How far rows are from the condition of the paper's Theorem 1, and where it would hold.

    ``needed_gamma`` is the least gamma at which it holds, and ``needed_scale`` the factor on distances that would do
    the same at this gamma.

    Raises:
        InvalidArgument: two rows are equal; then it holds nowhere.
    """
    margin = submodularity_margin(rows, gamma=gamma)
    shortest = margin.shortest_distance
    if shortest == 0.0:
        raise InvalidArgument("rows", f"array of shape {rows.shape}", "has two equal rows: the condition never holds")
    scale = margin.required_distance / shortest
    return {
        "rows": len(rows),
        "gamma": gamma,
        "largest_kernel": margin.largest_kernel,
        "allowed_kernel": margin.allowed_kernel,
        "excess": margin.excess,
        "shortest_distance": shortest,
        "required_distance": margin.required_distance,
        "needed_scale": scale,
        "needed_gamma": gamma * scale**2,
        "holds": float(margin.holds),
    }


def feature_error(rows: Rows, *, gamma: float, dimension: int, kind: Literal["paper", "paired"], seed: int) -> Numbers:
    """Error of ``h(x) . h(y)`` against the kernel over all pairs of rows, and the paper's bound on the largest."""
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, kind)(rows).astype(np.float64)
    error = np.abs(hashed @ hashed.T - rbf_kernel(rows, rows, gamma=gamma).astype(np.float64))
    pairs = error[np.triu_indices(len(rows), k=1)]
    return {
        "largest": float(pairs.max()),
        "root_mean_square": math.sqrt(float((pairs**2).mean())),
        "bound": feature_bound(rows=len(rows), dimension=dimension),
        "rows": len(rows),
    }


def feature_bound(*, rows: int, dimension: int) -> float:
    """The paper's bound on the largest error of ``h_1`` over all pairs: ``d >= 16 log(2N) / error²``, solved for it."""
    return math.sqrt(16.0 * math.log(2.0 * rows) / dimension)


def characteristic_error(rows: Rows, *, gamma: float, dimension: int, seed: int) -> Numbers:
    """The characteristic function of three rows' angles ``w.x + b`` beside the paper's theorem, corrected.

    Over all whole ``k`` between -2 and 2: where they do not add up to 0 it vanishes (``unbalanced``); where they do, it
    is the product of ``k(x_i, x_j)^(-k_i k_j)`` over pairs i < j (``balanced``). ``printed`` is the deviation from the
    same product with the paper's ``exp(-2 gamma ||x_i - x_j||²)`` for the kernel. At ``s = 1/2``, which is not whole,
    the paper has 0, and an angle that is uniform between 0 and 2 pi has ``2/pi`` (``half``).
    """
    half = dimension // 2
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, "phased")(rows[:3]).astype(np.float64)
    waves = math.sqrt(half) * (hashed[:, :half] + 1j * hashed[:, half:])
    exponents = -np.log(np.asarray(rbf_kernel(rows[:3], rows[:3], gamma=gamma), dtype=np.float64))
    angles = np.angle(waves[0]) % (2.0 * math.pi)  # of one row
    found = {"unbalanced": 0.0, "balanced": 0.0, "printed": 0.0, "half": float(abs(np.exp(0.5j * angles).mean()))}
    for powers in itertools.product(range(-2, 3), repeat=3):
        k = np.array(powers)
        value = np.prod(waves ** k[:, None], axis=0).mean()
        if k.sum():
            found["unbalanced"] = max(found["unbalanced"], abs(value))
            continue
        exponent = 0.5 * float(k @ exponents @ k)
        found["balanced"] = max(found["balanced"], abs(value - math.exp(exponent)))
        found["printed"] = max(found["printed"], abs(value - math.exp(2.0 * exponent)))
    return {name: float(error) for name, error in found.items()}


def hashed_svm(
    rows: Rows, labels: NDArray[np.int64], *, train: int, gamma: float, dimension: int, seed: int
) -> Numbers:
    """Accuracy of a linear SVM trained on some rows, on their hashes ``h_1``, and of one with the kernel itself."""
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, "paper")(rows)
    found = {}
    for name, given, model in (
        ("rows", rows, LinearSVC(random_state=0)),
        ("hashes", hashed, LinearSVC(random_state=0, C=10.0)),
        ("kernel", rows, SVC(gamma=gamma, C=10.0)),
    ):
        found[name] = float(model.fit(given[:train], labels[:train]).score(given[train:], labels[train:]))
    return {**found, "test_rows": len(rows) - train}


def mean_release_error(
    rows: Rows, *, gamma: float, dimension: int, iterations: int, epsilon: float, seed: int
) -> Numbers:
    """Error of the paper's ``h_2`` on the mean of rows, with simulated noise.

    ``largest`` is over coordinates, as in the paper's theorem; ``along_rows`` is the root mean square of ``error .
    h(x)`` over the rows themselves: what it does to scores. ``nothing`` and ``nothing_along_rows`` are the same for a
    release of zeros, which says nothing.
    """
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, "paper")(rows)
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    plan = mwem_mean.MwemPlan(len(rows), dimension, epsilon, iterations, quantity)
    truth = hashed.mean(axis=0, dtype=np.float64)
    error = mwem_mean.run(plan, hashed, SimulatedNoise(seed)).value.mean - truth
    return {
        "largest": float(np.abs(error).max()),
        "along_rows": _along(hashed, error),
        "nothing": float(np.abs(truth).max()),
        "nothing_along_rows": _along(hashed, truth),
        "bound": mean_release_bound(size=len(rows), dimension=dimension, iterations=iterations, epsilon=epsilon),
        "range": math.sqrt(2.0 / dimension),
    }


def budgeted_release(
    rows: Rows, *, gamma: float, dimension: int, iterations: int | None, epsilon: float, delta: float, seed: int
) -> Numbers:
    """Error in a row's score of a mean released within a budget: ``h_2``, or Gaussian noise on paired features.

    ``nothing`` is that of a release of zeros. The relation is replace-one; without iterations the noise is Gaussian.
    """
    kind: Literal["paper", "paired"] = "paired" if iterations is None else "paper"
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, kind)(rows)
    truth, noise = hashed.mean(axis=0, dtype=np.float64), SimulatedNoise(seed)
    if iterations is None:
        unit = gaussian_mean.unit_rows(ROW, Relation.REPLACE_ONE)
        normal = gaussian_mean.plan(unit, size=len(rows), dimension=dimension, epsilon=epsilon, delta=delta)
        released = gaussian_mean.run(normal, hashed, noise).value
    else:
        quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
        each = mwem_epsilon(quantity, iterations=iterations, epsilon=epsilon, delta=delta)
        steps = mwem_mean.MwemPlan(len(rows), dimension, each, iterations, quantity)
        released = mwem_mean.run(steps, hashed, noise).value.mean
    return {"along_rows": _along(hashed, released - truth), "nothing": _along(hashed, truth)}


def mwem_bound(*, size: int, dimension: int, iterations: int, epsilon: float, c: float = 3.0) -> float:
    """The paper's theorem on multiplicative weights: the largest error of a sum of rows on the grid, eta = 1/d.

    It holds with probability at least ``1 - 2T/d^c``.
    """
    points = 2 * dimension + 1
    drift = 2.0 * size * math.sqrt(dimension * math.log(points) / iterations)
    return drift + (3.0 * c + 2.0) * math.log(dimension) / epsilon


def small_changes(
    rows: Rows, *, gamma: float, dimension: int, start: int, iterations: int, epsilon: float, seed: int
) -> Numbers:
    """Error of ``h_2`` along a summary that grows row by row, each release starting from the last one.

    The first ``start`` rows are released with the paper's settings of its first epoch. Errors are in scores, as
    ``along_rows`` above: of the first release and, when all rows have joined, of the last; of the first one against
    the grown summary (``stale``); and of one release from nothing with the same epsilon and T = d^1.5 (``anew``).
    """
    hashed = FourierFeatures(rows.shape[1], dimension, gamma, seed, "paper")(rows)
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    noise, long = SimulatedNoise(seed), math.floor(dimension**1.5)

    def release(count: int, epsilon: float, iterations: int, state: mwem_mean.State | None) -> mwem_mean.MwemMean:
        plan = mwem_mean.MwemPlan(count, dimension, epsilon, iterations, quantity)
        return mwem_mean.run(plan, hashed[:count], noise, start=state).value

    def error(released: mwem_mean.MwemMean, count: int) -> float:
        return _along(hashed, released.mean - hashed[:count].mean(axis=0, dtype=np.float64))

    first = last = release(start, _FIRST_EPSILON, long, None)
    for count in range(start + 1, len(rows) + 1):
        last = release(count, epsilon, iterations, last.state)
    anew = release(len(rows), epsilon, long, None)
    return {
        "first": error(first, start),
        "last": error(last, len(rows)),
        "stale": error(first, len(rows)),
        "anew": error(anew, len(rows)),
    }


def mean_release_bound(*, size: int, dimension: int, iterations: int, epsilon: float) -> float:
    """The paper's bound on the expected largest error of a coordinate, with eta = 1/d and c = 3 as there.

    Printed for T = d²; for another T its two ingredients give ``2 sqrt(2 log(2/eta)/T) + 11 sqrt(2/d) log(d)/(q eps) +
    4T/d³ + 2d exp(-q/4) + eta``, which is the printed one at T = d².
    """
    d, eta = float(dimension), 1.0 / dimension
    return (
        2.0 * math.sqrt(2.0 * math.log(2.0 / eta) / iterations)
        + 11.0 * math.sqrt(2.0 / d) * math.log(d) / (size * epsilon)
        + 4.0 * iterations / d**3
        + 2.0 * d * math.exp(-size / 4.0)
        + eta
    )


def small_optimum(pool: Rows, target: Rows, *, size: int, gamma: float) -> Numbers:
    """Greedy's J beside the best of all subsets of a pool small enough to try them all."""
    kernel, attraction = _kernels(pool, target, gamma)
    subsets = np.array(list(itertools.combinations(range(len(pool)), size)))
    within = kernel[subsets[:, :, None], subsets[:, None, :]].mean(axis=(1, 2))
    best = float((2.0 * attraction[subsets].mean(axis=1) - within).max())
    greedy = exact_greedy(pool, target, size, gamma=gamma).indices
    return {"greedy": _value(kernel, attraction, greedy), "best": best}


def _kernels(pool: Rows, target: Rows, gamma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The pool's kernel matrix and each row's mean kernel with the target, in double precision."""
    rows, wanted = pool.astype(np.float64), target.astype(np.float64)
    kernel = np.asarray(rbf_kernel(rows, rows, gamma=gamma), dtype=np.float64)
    return kernel, np.asarray(rbf_kernel(rows, wanted, gamma=gamma), dtype=np.float64).mean(axis=1)


def _value(kernel: NDArray[np.float64], attraction: NDArray[np.float64], chosen: NDArray[np.int64]) -> float:
    """The paper's J (eq. 2) of some rows of the pool."""
    return 2.0 * float(attraction[chosen].mean()) - float(kernel[np.ix_(chosen, chosen)].mean())


def _along(hashed: NDArray[np.float32], direction: NDArray[np.float64]) -> float:
    return math.sqrt(float(((hashed @ direction) ** 2).mean()))
