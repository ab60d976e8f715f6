"""The parts of the paper that studies have: its markets, methods, bounds and auctions, against their definitions."""

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from study_files import write_adult, write_allstate, write_heart, write_mnist

from chance import pinned_coins, public_coins
from likeset.geometry.features import FourierFeatures
from likeset.privacy import auction, mwem_mean
from likeset.privacy.events import ROW, Norm, Relation, RowSum
from likeset.privacy.gaussian_mean import GaussianPlan
from likeset.privacy.noise import SimulatedNoise
from likeset.protocol.interactive import InteractiveCurator
from likeset.protocol.terms import Terms
from likeset.simulation import DIGIT_GROUPS, LabelledMarket, Task, greedy, run_protocol, uniform_sampling
from studies import parsimony
from studies import theory_measures as measures
from studies.comparisons import ADULT_STATES, ALLSTATE
from studies.contract import Options
from studies.data.images import image_market, mnist_images
from studies.data.states import adult_states_market, allstate_market, read_allstate
from studies.judging import NeuralNetwork, judgement
from studies.methods import METHODS
from studies.reconstruction import columns_of_distances, row_of_hash
from studies.registry import STUDIES, find_study


def _small_task(*, size: int = 8, public: int = 12, gamma: float = 0.5) -> Task:
    """Three owners in the plane; the second has rows like the target's."""
    coins = pinned_coins("three owners in the plane")
    places = {"left": -2.0, "right": 1.0, "far": 4.0}
    owners = {name: coins.normal(place, 0.7, size=(40, 2)).astype(np.float32) for name, place in places.items()}
    market = LabelledMarket(
        owners=owners,
        labels={name: np.arange(40) % 2 for name in owners},
        target=coins.normal(1.0, 0.7, size=(30, 2)).astype(np.float32),
        test=coins.normal(1.0, 0.7, size=(20, 2)).astype(np.float32),
        test_labels=np.arange(20) % 2,
        public=coins.normal(-4.0, 0.7, size=(public, 2)).astype(np.float32),
    )
    return Task(market, size, gamma, offers=20, epsilon=1.0, seed=3)


def test_the_mnist_market_is_split_as_in_the_paper(tmp_path: Path) -> None:
    """100 test images of each digit: at 70/30 all 100 threes and 42 fours, a quarter of each is the target."""
    images = mnist_images(write_mnist(tmp_path))
    market = image_market(images, "groups", seed=1)
    assert [sorted(np.unique(labels).tolist()) for labels in market.labels.values()] == [
        sorted(group) for group in DIGIT_GROUPS
    ]
    assert len(market.pool) == len(images.train)
    assert np.bincount(market.test_labels).tolist() == [0, 0, 0, 75, 32]
    digit_of = {row.tobytes(): digit for row, digit in zip(images.test, images.test_digits.tolist(), strict=True)}
    assert np.bincount([digit_of[row.tobytes()] for row in market.target]).tolist() == [0, 0, 0, 25, 10]
    assert market.public is not None
    seeds = [digit_of[row.tobytes()] for row in market.public]
    assert len(seeds) == 150
    assert not {3, 4} & set(seeds)
    apart = np.concatenate([market.target, market.test, market.public])
    assert len(np.unique(apart, axis=0)) == len(apart) == 35 + 107 + 150
    assert not (image_market(images, "groups", seed=2).target == market.target).all()


def test_the_insurance_market_has_the_layout_of_the_paper(tmp_path: Path) -> None:
    """1,000 customers: 400 of Florida, 200 of Connecticut (140 sold, 15 the target, 45 held out), 200 of Ohio."""
    path = write_allstate(tmp_path)
    table, rows = read_allstate(path)
    assert len(rows) == 800, "one record a customer, of three states"
    assert set(table.columns["A"].tolist()) == {"0", "1", "2"}, "the last record"
    market = allstate_market(path, "states", 4, None)
    assert [len(part) for part in market.owners.values()] == [240, 100, 100, 100]
    assert (len(market.target), len(market.test)) == (15, 45)
    assert market.public is not None
    assert len(market.public) == 150

    def drawn(name: str) -> set[bytes]:
        return {row.tobytes() for row in rows[table.where("state", name)]}

    connecticut = {row.tobytes() for row in np.concatenate([market.target, market.test])}
    assert connecticut <= drawn("CT")
    assert {row.tobytes() for row in market.public} <= drawn("OH")
    assert {row.tobytes() for name in ("owner-1", "owner-2", "owner-3") for row in market.owners[name]} <= drawn("FL")
    adult = adult_states_market(write_adult(tmp_path), "workers", 4, None)
    assert [len(part) for part in adult.owners.values()] == [240, 100, 100, 100]


@pytest.mark.slow
def test_every_method_runs_on_a_file_of_the_insurers_layout(tmp_path: Path) -> None:
    path = write_allstate(tmp_path)
    cells = [cell for cell in ALLSTATE.cells(Options(data=path, seeds=1, sizes=(10,))) if cell["gamma"]]
    results = {cell["method"]: ALLSTATE.run(cell) for cell in cells}
    assert {"greedy", "private", "uniform", "sealed"} <= set(results)
    assert all(found["rows"] == 10 for found in results.values())
    assert results["exact"]["squared_mmd"] < results["uniform"]["squared_mmd"]
    assert set(results["private"]["owner_bids"]) == {f"owner-{number}" for number in range(4)}
    assert ADULT_STATES.methods == ALLSTATE.methods


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name not in ("disease-groups", "texts")])
def test_a_cell_of_each_study_can_be_run(name: str, tmp_path: Path) -> None:
    """The two that are left out read packages of others: test_market_studies.py."""
    write_heart(tmp_path)
    (tmp_path / "adult.csv.gz").symlink_to(_compressed(write_adult(tmp_path)))
    data = {
        "allstate": write_allstate(tmp_path),
        "adult-states": str(tmp_path / "adult.csv"),
        "reconstruction": str(tmp_path),
        "joint-tables": str(tmp_path),
    } | dict.fromkeys(("mnist", "joint", "width"), write_mnist(tmp_path))
    study = find_study(name)
    cells = study.cells(Options(data=data.get(name), seeds=1))
    results = study.run(cells[0])
    assert results
    assert all(cell.key != cells[0].key for cell in cells[1:])


def _compressed(path: str) -> Path:
    packed = Path(path).with_suffix(".packed")
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    return packed


def test_the_network_learns_what_no_linear_model_can_and_repeats_itself() -> None:
    rows = pinned_coins("corners").uniform(-1.0, 1.0, size=(400, 2)).astype(np.float32)
    labels = 5 + (rows[:, 0] * rows[:, 1] > 0.0).astype(np.int64)
    networks = [NeuralNetwork(seed=seed).fit(rows, labels) for seed in (1, 1, 2)]
    assert (networks[0].predict(rows) == labels).mean() > 0.9
    assert (networks[0].predict(rows) == networks[1].predict(rows)).all()
    assert not np.array_equal(networks[0]._parts[0], networks[2]._parts[0])
    # A weight of 0 takes a row out: the other class is never seen, and all rows are taken for it.
    only = NeuralNetwork(seed=1).fit(rows, labels, weights=(labels == 5).astype(np.float64))
    assert (only.predict(rows) == 5).all()


def test_uniform_sampling_takes_as_many_rows_of_each_owner() -> None:
    task = _small_task(size=9)
    picks = uniform_sampling(task)
    assert np.bincount(picks.indices // 40).tolist() == [3, 3, 3]
    assert len(set(picks.indices.tolist())) == picks.rows_seen == 9
    assert picks.target.epsilon == picks.owners.epsilon == 0.0


def test_greedy_from_seed_rows_counts_them_in_every_mean() -> None:
    task = _small_task(size=5)
    assert task.market.public is not None
    features = FourierFeatures(2, 140, task.gamma, seed=0, kind="paper")
    pool, summary = features(task.market.pool).astype(np.float64), list(features(task.market.public).astype(np.float64))
    chosen: list[int] = []
    for _ in range(5):
        q = len(summary)
        scores = pool @ (features.mean(task.market.target) - q / (q + 1) * np.mean(summary, axis=0))
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
        summary.append(pool[chosen[-1]])
    assert METHODS["greedy-seeded"].run(task).indices.tolist() == chosen


def test_the_published_protocol_is_priced_observed_and_the_same_on_hashes() -> None:
    """Its bids estimate kernel means; a curator who gets hashes alone selects the same rows."""
    task = _small_task()
    picks, hashed = METHODS["private"].run(task), METHODS["private-hashed"].run(task)
    assert picks.indices.tolist() == hashed.indices.tolist()
    assert len(picks.indices) == task.size
    assert picks.target.epsilon == pytest.approx(5.56, abs=0.01)
    assert picks.owners.epsilon is None, "the auction has no proven price"
    assert set(picks.extra["owner_bids"]) == set(task.market.owners)
    assert 0.0 < picks.extra["error_bid"] <= picks.extra["largest_error_bid"]
    worst = max(picks.extra["error_target"], picks.extra["error_summary"])
    assert picks.extra["delta_bound"] == pytest.approx(7.0 * worst * math.log(8))
    assert 0.0 <= hashed.extra["svm_hashes"] <= 1.0
    shares = judgement(task, greedy(task))["owner_shapley"]
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-3)
    assert max(shares, key=lambda name: shares[name]) == "right"


class _WithoutNoise(InteractiveCurator):
    """Releases the exact mean of its summary."""

    def _drawn_summary(self, plan: GaussianPlan | mwem_mean.MwemPlan) -> bytes:
        stored = np.zeros((3, plan.dimension))
        stored[0] = np.sum([row.addend for row in self._chosen], axis=0, dtype=np.float64) / plan.size
        return stored.tobytes()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_rounds_of_the_study_are_those_of_the_curator(seed: int) -> None:
    """Everyone asked, releases as good as exact: the same rows in the same order."""
    market = parsimony.crowd(owners=4, rows=15, target=4000, columns=3, coins=np.random.default_rng(seed))
    owners = {f"o{number}": rows for number, rows in enumerate(market.owners)}
    labels = {name: np.zeros(15, dtype=np.int64) for name in owners}
    labelled = LabelledMarket(owners, labels, market.target, market.target, np.zeros(4000, dtype=np.int64))
    made: list[_WithoutNoise] = []

    def curator(terms: Terms, noise: SimulatedNoise, shared: int) -> _WithoutNoise:  # noqa: ARG001
        made.append(_WithoutNoise(terms, noise=noise))
        return made[0]

    bought = run_protocol(
        Task(labelled, 12, 0.2, offers=15, epsilon=1.0, seed=7),
        curator_of=curator,
        protocol="interactive",
        epsilon=1e4,
        owner_epsilon=1e4,
        summary_release="gaussian",
        labels="ignore",
    )
    kernel = made[0].terms.kernel
    plan = auction.plan_everyone(4)
    found = parsimony.run_rounds(
        market,
        size=12,
        gamma=kernel.gamma,
        dimension=kernel.dimension,
        feature_seed=kernel.seed,
        ask=lambda bids: auction.run(plan, bids, SimulatedNoise(0)).value,
    )
    assert found.indices.tolist() == bought.indices.tolist()
    assert found.rows_seen == bought.rows_seen == 48


def test_simple_auctions_ask_one_owner() -> None:
    bids = auction.Bids((0.1, None, 0.7, 0.7), (1, 0, 1, 1))
    assert parsimony.winner_only(bids).tolist() == [False, False, True, False]
    each = parsimony.exponential_epsilon(epsilon=1.0, delta=1e-5, rounds=50)
    rho = 50 * each**2 / 8
    assert rho + 2 * math.sqrt(rho * math.log(1e5)) == pytest.approx(1.0)
    ask = parsimony.exponential_mechanism(8.0, np.random.default_rng(0))
    asked = np.array([ask(bids) for _ in range(20_000)])
    assert (asked.sum(axis=1) == 1).all()
    odds = np.array([math.exp(2.0 * 0.1), 0.0, math.exp(2.0 * 0.7), math.exp(2.0 * 0.7)])
    np.testing.assert_allclose(asked.mean(axis=0), odds / odds.sum(), atol=0.02)
    nobody = auction.Bids((None, None), (0, 0))
    assert not parsimony.winner_only(nobody).any()
    assert not ask(nobody).any()


@pytest.mark.parametrize("owners", [8, 125, 1000])
def test_the_bound_of_parsimony_is_its_two_parts(owners: int) -> None:
    """K/tau and 1/eps_auc, at whole cube roots, where tau is not rounded."""
    each = auction.auction_epsilon(owners=owners, epsilon=1.0, delta=1e-5)
    bound = parsimony.parsimony_bound(owners=owners, epsilon=1.0, delta=1e-5)
    assert bound == pytest.approx(owners / auction.auction_patience(owners) + 1.0 / each)


def test_alpha_and_beta_and_what_the_paper_prints() -> None:
    for s in range(1, 30):
        alpha, beta = measures.linear_form_bounds(s)
        assert alpha == pytest.approx(1.0 / (s + 1) ** 2)
        assert beta == pytest.approx(1.0 / ((s + 1) * (s**2 + 3 * s + 1)))
        assert beta < 1.0 / (s**3 + 3 * s**2 + s), "printed: so the theorem's condition asks for too little"
    assert measures.linear_form_bounds(1)[1] == pytest.approx(0.1)


def test_under_the_condition_j_is_negative_and_submodular_without_the_empty_set_only() -> None:
    """Five points: J of one row is about -1, of none 0; from one row on it rises with ever smaller steps."""
    coins = public_coins(30)
    pool, target = (coins.normal(size=(5, 3)).astype(np.float32) for _ in range(2))
    gamma = float(measures.theorem_condition(np.concatenate([pool, target]), gamma=1.0)["needed_gamma"])
    found = measures.enumerated(pool, target, gamma=gamma)
    assert found == {
        "non_negative": False,
        "monotone": False,
        "submodular": False,
        "monotone_from_one": True,
        "submodular_from_one": True,
    }
    assert not measures.enumerated(pool, target, gamma=0.01)["submodular_from_one"], "a wide kernel does not meet it"


def test_the_bound_on_features_holds_and_is_the_papers() -> None:
    """D >= 16 log(2N)/error²: N = 200, d = 140 gives 0.827."""
    assert measures.feature_bound(rows=200, dimension=140) == pytest.approx(math.sqrt(16 * math.log(400) / 140))
    rows = public_coins(31).normal(size=(60, 3)).astype(np.float32)
    found = measures.feature_error(rows, gamma=0.3, dimension=140, kind="paper", seed=1)
    hashed = FourierFeatures(3, 140, 0.3, 1, "paper")(rows).astype(np.float64)
    largest = max(
        abs(float(hashed[i] @ hashed[j]) - math.exp(-0.3 * float(((rows[i] - rows[j]) ** 2).sum())))
        for i, j in itertools.combinations(range(60), 2)
    )
    assert found["largest"] == pytest.approx(largest, abs=1e-5)
    assert found["root_mean_square"] < largest < found["bound"]


def test_the_bound_on_the_mean_release_is_the_printed_one_at_d_squared_steps() -> None:
    """2 sqrt(2 log(2/eta)/d²) + 11 sqrt(2) log d/(q eps sqrt(d)) + 4/d + 2d exp(-q/4) + eta, eta = 1/d."""
    d, q, eps = 16, 40, 0.5
    printed = 2 * math.sqrt(2 * math.log(2 * d) / d**2) + 11 * math.sqrt(2) * math.log(d) / (q * eps * math.sqrt(d))
    printed += 4 / d + 2 * d * math.exp(-q / 4) + 1 / d
    assert measures.mean_release_bound(size=q, dimension=d, iterations=d**2, epsilon=eps) == pytest.approx(printed)
    coins = np.random.default_rng(32)
    rows = coins.normal(size=(q, 3)).astype(np.float32)
    found = measures.mean_release_error(rows, gamma=0.3, dimension=d, iterations=d**2, epsilon=eps, seed=1)
    assert found["largest"] < found["bound"] == pytest.approx(printed)


def test_the_theorem_on_multiplicative_weights_and_the_lemma_on_rounding_hold() -> None:
    """At d = 16, T = d², c = 3 an error above the bound has probability 2T/d³ = 0.125; none of 40 runs has one.

    A rounded number is off by less than eta: the sum of q of them by less than q eta, always, which the lemma's
    Chernoff bound, 2d exp(-q/4), calls unlikely.
    """
    d, q, eps = 16, 30, 0.5
    features = FourierFeatures(3, d, 0.3, 1, "paper")(np.random.default_rng(33).normal(size=(q, 3)).astype(np.float32))
    quantity = RowSum(norm=Norm.COORDINATE, radius=1.0, unit=ROW, relation=Relation.REPLACE_ONE)
    truth, bound = (
        features.sum(axis=0) * math.sqrt(d / 2),
        measures.mwem_bound(size=q, dimension=d, iterations=d**2, epsilon=eps),
    )
    errors, roundings = [], []
    for seed in range(40):
        noise = SimulatedNoise(seed)
        rounded = mwem_mean.grid_points(features, noise) / d
        roundings.append(np.abs(rounded.sum(axis=0) - truth).max())
        plan = mwem_mean.MwemPlan(q, d, eps, d**2, quantity)
        released = q * mwem_mean.run(plan, features, noise).value.mean * math.sqrt(d / 2)
        errors.append(np.abs(released - truth).max() - q / d)
    assert max(errors) < bound
    assert max(roundings) < q / d
    assert np.mean(roundings) > 0.0
    assert bound == pytest.approx(2 * q * math.sqrt(d * math.log(2 * d + 1) / d**2) + 11 * math.log(d) / eps)


def test_within_a_budget_gaussian_noise_errs_less_than_multiplicative_weights() -> None:
    rows = public_coins(35).normal(size=(400, 3)).astype(np.float32)

    def error(iterations: int | None, epsilon: float) -> float:
        given = {"gamma": 0.3, "dimension": 20, "delta": 1e-5, "seed": 1, "epsilon": epsilon}
        return measures.budgeted_release(rows, iterations=iterations, **given)["along_rows"]  # type: ignore[arg-type]

    assert error(None, 1.0) < error(89, 1.0)
    assert error(None, 10.0) < 0.5 * error(None, 1.0)
    assert error(89, 100.0) < error(89, 0.1)


def test_small_changes_are_followed_in_few_steps_unless_noise_drowns_them() -> None:
    rows = public_coins(34).normal(size=(90, 3)).astype(np.float32)
    rows[40:] += 1.0

    def found(epsilon: float, iterations: int) -> measures.Numbers:
        given = {"gamma": 0.3, "dimension": 20, "start": 40, "seed": 1}
        return measures.small_changes(rows, **given, epsilon=epsilon, iterations=iterations)  # type: ignore[arg-type]

    exact = found(1e6, 5)
    assert exact["last"] < 0.5 * exact["stale"]
    assert exact["last"] < found(1e6, 1)["last"]
    assert found(0.0002, 5)["last"] > 3.0 * exact["last"]


def test_the_characteristic_function_is_the_corrected_one() -> None:
    """And at s = 1/2, where the paper has 0, an angle has 2/pi."""
    rows = pinned_coins("three rows").normal(size=(3, 4)).astype(np.float32)
    found = measures.characteristic_error(rows, gamma=0.1, dimension=20_000, seed=3)
    assert max(found["unbalanced"], found["balanced"]) < 0.05
    assert found["printed"] > 0.1
    assert found["half"] == pytest.approx(2.0 / math.pi, abs=0.02)


def test_an_svm_on_hashes_is_about_as_good_as_one_on_rows() -> None:
    coins = pinned_coins("two classes")
    labels = np.arange(300) % 2
    rows = (coins.normal(size=(300, 4)) + 3.0 * labels[:, None]).astype(np.float32)
    found = measures.hashed_svm(rows, labels, train=100, gamma=0.1, dimension=140, seed=2)
    assert found["test_rows"] == 200
    assert min(found["hashes"], found["rows"], found["kernel"]) > 0.95
    guessed = measures.hashed_svm(rows, coins.permutation(labels), train=100, gamma=0.1, dimension=140, seed=2)
    assert guessed["hashes"] < 0.7


def test_rows_are_read_from_hashes_and_columns_from_distances() -> None:
    coins = pinned_coins("rows to be read")
    rows = np.stack([coins.random(400) ** 4, coins.random(400) > 0.7, coins.random(400)], axis=1).astype(np.float64)
    features = FourierFeatures(3, 60, 0.5, 1, "paper")
    hashed = features(rows[:1].astype(np.float32)).astype(np.float64)[0]
    np.testing.assert_allclose(row_of_hash(features, hashed, rows[1:20]), rows[0], atol=1e-3)
    distances = ((rows[:, None] - rows) ** 2).sum(axis=2)
    parts = columns_of_distances(distances, seed=0)
    alike = np.abs(np.corrcoef(parts.T, rows.T)[:3, 3:])
    assert (alike.max(axis=0) > 0.95).all()
