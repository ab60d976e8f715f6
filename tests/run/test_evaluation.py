"""Models trained on a summary, judged on labelled test rows, with intervals."""

import tracemalloc
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score

import likeset
from likeset.errors import InvalidArgument
from likeset.run.evaluate import Evaluation, Predicted, TrainingRows, evaluate_sets, measured, measures_of, resampled


def labelled(count: int, *, seed: int, noise: float = 0.3) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    coins = np.random.default_rng(seed)
    rows = coins.normal(size=(count, 3))
    return rows, np.where(rows[:, 0] + noise * coins.normal(size=count) > 0.0, "ill", "well")


def score(found: Evaluation, training_set: str, model: str, measure: str) -> float:
    value = next(
        line.scores[measure].value for line in found.models if (line.training_set, line.model) == (training_set, model)
    )
    assert value is not None
    return value


@pytest.mark.parametrize("kinds", [2, 3])
def test_measures_of_resampled_rows_are_those_of_scikit_learn_for_the_repeated_rows(kinds: int) -> None:
    coins = np.random.default_rng(1)
    classes = np.array(["a", "b", "c"])[:kinds]
    labels = coins.choice(classes, 40)
    chances = np.round(coins.dirichlet(np.ones(kinds), 40), 1) + 1e-3  # with ties
    chances /= chances.sum(axis=1, keepdims=True)
    predicted = Predicted(classes[chances.argmax(axis=1)], chances, classes)
    blocks = list(resampled(40, 100, seed=0))
    counts = np.concatenate(blocks)
    assert counts.shape == (101, 40)
    assert (counts[0] == 1.0).all()
    assert (counts.sum(axis=1) == 40.0).all()
    found = measured({"model": measures_of(predicted, labels, "classes")}, blocks)["model"]
    for resample in (0, 7, 100):
        rows = np.repeat(np.arange(40), counts[resample].astype(int))
        ranked = chances[rows] if kinds > 2 else chances[rows, 1]
        assert found["balanced_accuracy"][resample] == pytest.approx(
            balanced_accuracy_score(labels[rows], predicted.labels[rows])
        )
        assert found["accuracy"][resample] == pytest.approx(accuracy_score(labels[rows], predicted.labels[rows]))
        assert found["auc"][resample] == pytest.approx(roc_auc_score(labels[rows], ranked, multi_class="ovr"))
    numbers = coins.normal(size=40)
    guesses = Predicted(numbers + coins.normal(size=40), np.empty((40, 0)), np.empty(0))
    found = measured({"model": measures_of(guesses, numbers, "numbers")}, blocks)["model"]
    rows = np.repeat(np.arange(40), counts[7].astype(int))
    assert found["r2"][7] == pytest.approx(r2_score(numbers[rows], guesses.labels[rows]))


@pytest.mark.usefixtures("few_trees")
def test_memory_does_not_grow_with_the_resamples() -> None:
    """A table of 20,000 rows times 1,100 resamples would take 176 MB more than one of 100."""
    rows, labels = labelled(60, seed=41)
    test_rows, test_labels = labelled(20_000, seed=42)
    peaks = []
    for resamples in (100, 1200):
        tracemalloc.start()
        likeset.evaluate(rows, labels, test_rows=test_rows, test_labels=test_labels, resamples=resamples)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 2e6
    assert peaks[1] < 60e6


@pytest.mark.usefixtures("few_trees")
def test_a_good_summary_beats_a_bad_one_and_intervals_surround_the_scores() -> None:
    rows, labels = labelled(80, seed=1)
    test_rows, test_labels = labelled(300, seed=2)
    shuffled = np.random.default_rng(3).permutation(labels)
    found = likeset.evaluate(
        rows, labels, test_rows=test_rows, test_labels=test_labels, compare={"shuffled": (rows, shuffled)}
    )
    assert found.task == "classes"
    assert {line.model for line in found.models} == {"linear", "forest", "boosting"}
    for model in ("linear", "forest", "boosting"):
        assert score(found, "the summary", model, "auc") > score(found, "shuffled", model, "auc") + 0.2
    for line in found.models:
        for value in line.scores.values():
            assert value.low is not None
            assert value.high is not None
            assert value.value is not None
            assert value.low < value.value < value.high
    for line in found.models:
        assert bool(line.summary_gains) == (line.training_set == "shuffled")
        for measure, gain in line.summary_gains.items():
            assert gain.value == pytest.approx(
                score(found, "the summary", line.model, measure) - score(found, "shuffled", line.model, measure)
            )
            assert gain.low is not None
            assert gain.low > 0.0


@pytest.mark.usefixtures("few_trees")
def test_persons_are_resampled_and_not_their_rows() -> None:
    """A test in which everybody stands five times says as much as one in which everybody stands once, not more."""
    rows, labels = labelled(60, seed=21)
    test_rows, test_labels = labelled(80, seed=22, noise=1.0)
    once = likeset.evaluate(rows, labels, test_rows=test_rows, test_labels=test_labels)
    many: dict[str, Any] = {"test_rows": np.repeat(test_rows, 5, axis=0), "test_labels": np.repeat(test_labels, 5)}
    of_persons = likeset.evaluate(rows, labels, test_ids=np.repeat(np.arange(100, 180), 5), **many)
    of_rows = likeset.evaluate(rows, labels, **many)
    assert (once.test_ids, of_persons.test_ids, of_persons.test_rows) == (None, 80, 400)
    for line, same, other in zip(once.models, of_persons.models, of_rows.models, strict=True):
        for measure, expected in line.scores.items():
            found, narrow = same.scores[measure], other.scores[measure]
            assert asdict(found) == pytest.approx(asdict(expected))
            assert found.high is not None and found.low is not None  # noqa: PT018 - for the type checker
            assert narrow.high is not None and narrow.low is not None  # noqa: PT018
            assert narrow.high - narrow.low < 0.7 * (found.high - found.low)


@pytest.mark.usefixtures("few_trees")
def test_one_summary_is_compared_with_one_draw_and_not_with_a_mean() -> None:
    """Of two draws one is useless: the interval for one draw reaches both, whatever their mean is."""
    test = TrainingRows(*labelled(300, seed=32))
    good, (rows, labels) = TrainingRows(*labelled(80, seed=31)), labelled(80, seed=33)
    useless = TrainingRows(rows, np.random.default_rng(3).permutation(labels))
    found = evaluate_sets({"the summary": [good], "drawn": [good, useless]}, test)
    alone = evaluate_sets({"the summary": [useless]}, test)
    for model in ("linear", "forest", "boosting"):
        best, worst = score(found, "the summary", model, "auc"), score(alone, "the summary", model, "auc")
        drawn = next(line for line in found.models if (line.training_set, line.model) == ("drawn", model))
        interval, gain = drawn.scores["auc"], drawn.summary_gains["auc"]
        assert interval.value == pytest.approx((best + worst) / 2)
        assert interval.low is not None and interval.low < worst  # noqa: PT018 - for the type checker
        assert interval.high is not None and interval.high > best  # noqa: PT018
        assert gain.low == pytest.approx(0.0, abs=1e-12), "half of the draws are the summary itself"
        assert gain.high is not None and gain.high > best - worst  # noqa: PT018


@pytest.mark.usefixtures("few_trees")
def test_number_labels_are_judged_by_r2_and_weights_count() -> None:
    coins = np.random.default_rng(8)
    rows, test_rows = coins.normal(size=(60, 2)), coins.normal(size=(100, 2))
    labels = np.where(np.arange(60) < 30, 2.0 * rows[:, 0], -2.0 * rows[:, 0])
    weights = np.where(np.arange(60) < 30, 1.0, 0.0) / 30
    weighted = likeset.evaluate(rows, labels, test_rows=test_rows, test_labels=2.0 * test_rows[:, 0], weights=weights)
    plain = likeset.evaluate(rows, labels, test_rows=test_rows, test_labels=2.0 * test_rows[:, 0])
    assert weighted.task == "numbers"
    assert score(weighted, "the summary", "linear", "r2") > 0.95
    assert score(plain, "the summary", "linear", "r2") < 0.5


@pytest.mark.usefixtures("few_trees")
def test_whole_floats_are_classes_unless_they_are_many() -> None:
    rows, names = labelled(120, seed=51)
    labels = (names == "ill").astype(float)
    halves: dict[str, Any] = {"test_rows": rows[::2], "test_labels": labels[::2]}
    for given in (labels[1::2], labels[1::2].astype(int)):
        assert likeset.evaluate(rows[1::2], given, **halves).task == "classes"
    for changed in (labels + 0.5, 1.0 * np.arange(120)):
        found = likeset.evaluate(rows[1::2], changed[1::2], test_rows=rows[::2], test_labels=changed[::2])
        assert found.task == "numbers"


@pytest.mark.usefixtures("few_trees")
def test_test_rows_that_models_were_trained_on_are_counted() -> None:
    rows, labels = labelled(60, seed=11)
    found = likeset.evaluate(rows[:30], labels[:30], test_rows=rows[25:], test_labels=labels[25:])
    assert "5 of 35 test rows are identical" in " ".join(found.notes)
    apart = likeset.evaluate(rows[:30], labels[:30], test_rows=rows[30:], test_labels=labels[30:])
    assert "equal a row" not in " ".join(apart.notes)


@pytest.mark.usefixtures("few_trees")
def test_a_test_without_errors_is_not_called_certain() -> None:
    """Of 70 rows without an error: 1 - 0.05 ** (1 / 70) = 4.2%."""
    rows = np.linspace(0.0, 1.0, 140)[:, None]
    labels = (rows[:, 0] > 0.5).astype(int)
    flipped = np.where(np.arange(70) % 2, labels[1::2], 1 - labels[1::2])
    found = likeset.evaluate(
        rows[::2], labels[::2], test_rows=rows[1::2] * 0.0 + labels[1::2, None], test_labels=labels[1::2]
    )
    assert score(found, "the summary", "linear", "accuracy") == 1.0
    assert "4.2%" in " ".join(found.notes)
    wrong = likeset.evaluate(rows[::2], labels[::2], test_rows=rows[1::2], test_labels=flipped)
    assert "certainty" not in " ".join(wrong.notes)


@pytest.mark.usefixtures("few_trees")
def test_one_class_unknown_classes_and_tiny_tests_are_said() -> None:
    rows, _ = labelled(12, seed=9)
    found = likeset.evaluate(rows, ["a"] * 12, test_rows=rows, test_labels=["a"] * 6 + ["b"] * 6)
    notes = " ".join(found.notes)
    assert "12 test rows are too few" in notes
    assert "one class only: every model" in notes
    assert "1 of 2 classes of the test are in no row" in notes
    assert score(found, "the summary", "forest", "balanced_accuracy") == 0.5
    alone = likeset.evaluate(rows, ["a", "b"] * 6, test_rows=rows, test_labels=["a"] * 12)
    assert "an AUC has no meaning" in " ".join(alone.notes)
    assert all(line.scores["auc"].value is None for line in alone.models)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"test_labels": [1.5, 2.5, 3.5]}, "labels must be classes"),
        ({"test_labels": ["a"]}, "one label for each"),
        ({"test_rows": np.zeros((1, 2)), "test_labels": ["a"]}, "at least two are needed"),
        ({"test_ids": ["a", "b"]}, "one id for each of 3 rows"),
        ({"resamples": 3}, "resamples"),
        ({"labels": [1.0, 2.0, 3.0, np.nan], "test_labels": [1.0, 2.0, 3.0]}, "1 of 4 labels.*leave such rows out"),
        ({"labels": np.array(["a", None, "b", None], dtype=object)}, "2 of 4 labels.*leave such rows out"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    given: dict[str, Any] = {"labels": ["a", "b", "a", "b"], "test_rows": np.zeros((3, 2)), "test_labels": ["a"] * 3}
    with pytest.raises(InvalidArgument, match=words):
        likeset.evaluate(np.zeros((4, 2)), **given | changes)


@pytest.mark.usefixtures("few_trees")
def test_a_sentence_answers_whether_the_summary_is_better_than_other_rows() -> None:
    """Noise for labels is worse than true labels; of two like training sets nobody can say on 20 test rows."""
    rows, labels = labelled(60, seed=31)
    test_rows, test_labels = labelled(400, seed=32)
    noise = np.random.default_rng(33).permutation(labels)
    found = likeset.evaluate(
        rows, labels, test_rows=test_rows, test_labels=test_labels, compare={"noise": (rows, noise)}, resamples=100
    )
    (words,) = (note for note in found.notes if "better than noise" in note)
    gains = [line.summary_gains["balanced_accuracy"].value for line in found.models if line.training_set == "noise"]
    assert words.startswith("Is the summary better than noise? Yes: balanced accuracy +")
    assert f"{np.mean([gain for gain in gains if gain is not None]):+.3f} (95% of resampled tests: " in words
    worse = likeset.evaluate(
        rows, noise, test_rows=test_rows, test_labels=test_labels, compare={"truth": (rows, labels)}, resamples=100
    )
    assert "No, worse: " in " ".join(worse.notes)
    alike = likeset.evaluate(
        rows[:30],
        labels[:30],
        test_rows=test_rows[:20],
        test_labels=test_labels[:20],
        compare={"others": (rows[30:], labels[30:])},
        resamples=100,
    )
    assert "Not clear: " in " ".join(alike.notes)
