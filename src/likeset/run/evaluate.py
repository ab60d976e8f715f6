"""The value of a training set: models trained on it, judged on labelled test rows of the target's kind."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import arguments, documents
from likeset.arguments import Rows
from likeset.errors import BadDocument, InvalidArgument
from likeset.geometry.offers import uniform
from likeset.run.here import SUMMARY, notebook_progress, read_json, read_result
from likeset.run.job import JOB, Job, TableRows
from likeset.run.words import MEASURES, enumeration
from likeset.tables.cells import MissingWords
from likeset.tables.frames import MANY_CLASSES, check_frame, column_names, label_array, numbers, whole_as_classes
from likeset.tables.scales import NumberSample, samples_apart
from likeset.tables.scan import without_dictionaries, written_ids
from likeset.tables.schema import Schema
from likeset.tables.sources import checked_columns, open_source
from likeset.transports.local import Progress

MODELS = ("linear", "forest", "boosting")

_TREES = 200
_STEPS = 1000
_WORTH_THREADS = 10_000  # rows; with fewer, threads of boosting wait for one another longer than they work
_LARGEST_LEAF = 20  # rows; with few rows smaller leaves, or boosting could not split at all

Labels = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    rows: Rows
    labels: Labels
    weights: NDArray[np.float64] | None = None

    def part(self, kept: NDArray[np.bool_]) -> "TrainingRows":
        return TrainingRows(self.rows[kept], self.labels[kept], None if self.weights is None else self.weights[kept])


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for test rows: labels, and for classes their probabilities; ``classes`` names the columns."""

    labels: Labels
    chances: NDArray[np.float64]
    classes: Labels

    def chance(self, name: Any) -> NDArray[np.float64]:
        columns = np.flatnonzero(self.classes.astype(np.str_) == str(name))
        return self.chances[:, columns[0]] if len(columns) else np.zeros(len(self.labels))


def train(model: str, training: TrainingRows, test: TrainingRows, *, seed: int) -> Predicted:
    kept = training if training.weights is None else training.part(training.weights > 0.0)
    scaler = StandardScaler().fit(kept.rows)
    rows, others = scaler.transform(kept.rows), scaler.transform(test.rows)
    shares = None if kept.weights is None else kept.weights * (len(kept.labels) / kept.weights.sum())
    numbers = kept.labels.dtype.kind == "f"
    one_class = not numbers and len(np.unique(kept.labels)) == 1
    untrained = DummyClassifier() if one_class else _untrained(model, len(rows), numbers=numbers, seed=seed)
    threads = None if len(rows) >= _WORTH_THREADS else 1
    with threadpool_limits(threads, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trained = untrained.fit(rows, kept.labels, sample_weight=shares)
        if numbers:
            return Predicted(trained.predict(others), np.empty((len(others), 0)), np.empty(0))
        return Predicted(trained.predict(others), trained.predict_proba(others), trained.classes_)


def _untrained(model: str, rows: int, *, numbers: bool, seed: int) -> Any:
    if model == "linear":
        return Ridge() if numbers else LogisticRegression(max_iter=_STEPS)
    if model == "forest":
        return (RandomForestRegressor if numbers else RandomForestClassifier)(_TREES, random_state=seed)
    boosting = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    return boosting(random_state=seed, min_samples_leaf=max(2, min(_LARGEST_LEAF, rows // 20)))


_FEW = 30  # test rows, or persons
_ENDS = (2.5, 97.5)
_MEASURES = {"classes": ("balanced_accuracy", "accuracy", "auc"), "numbers": ("r2",)}
_BLOCK = 1 << 18  # counts of test rows in one block

Draws = NDArray[np.float64]
"""A measure on the test rows as they are, and then on each resample of them."""
Measure = Callable[[NDArray[np.float64]], Draws]
"""A measure for each row of a block of counts."""


@dataclass(frozen=True, slots=True)
class Score:
    """A number with its 95% interval; None if it has no meaning, such as an AUC with one class."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """Scores by measure: balanced accuracy, accuracy and AUC (mean of each class against the rest), or R²."""

    training_set: str
    rows: int
    model: str
    scores: Mapping[str, Score]
    summary_gains: Mapping[str, Score]  # the score of the summary less this one; empty for the summary itself


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Models and their scores."""

    task: Literal["classes", "numbers"]
    test_rows: int
    test_ids: int | None  # how many persons these rows belong to; None if not known
    models: tuple[TrainedOn, ...]  # for each training set and model
    notes: tuple[str, ...]  # what the reader should know


def evaluate(
    rows: Any,
    labels: ArrayLike | None = None,
    *,
    test_rows: Any,
    test_labels: ArrayLike | None = None,
    test_ids: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    compare: Mapping[str, tuple[Any, ArrayLike | None]] | None = None,
    schema: Schema | None = None,
    resamples: int = 1000,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Train models on a summary, and judge them on test rows that no selection used.

    Args:
        rows: of the summary; an array or a data frame of numbers, or with a schema a data frame with its columns.
        labels: of these; texts, whole numbers and a few whole floating-point numbers are classes; other floating-point
            numbers are predicted as such. With a schema they may stand in the frame, in the column that it declares.
        test_rows: labelled rows of the target's kind, with the same columns.
        test_labels: of these, likewise.
        test_ids: whose test rows these are. Intervals then resample persons, not rows. With a schema that declares an
            id column, that column of ``test_rows`` is used instead.
        weights: the weight of each row of the summary; equal if not given.
        compare: other training sets by name, each with its labels: uniform offers, say, or all rows.
        schema: declares the columns of data frames.
        resamples: how often the test is resampled for the intervals.
        random_state: seed of the models and of the resamples.
        progress: called as models are trained; a bar in a notebook if not given.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> rows, kinds = load_iris(return_X_y=True)
        >>> judged = evaluate(rows[::2], kinds[::2], test_rows=rows[1::2], test_labels=kinds[1::2], resamples=100)
        >>> print(*(line.model for line in judged.models))
        linear forest boosting
        >>> judged.models[0].scores["balanced_accuracy"].value > 0.9
        True
    """
    columns = column_names(rows)

    def read(argument: str, table: Any, label_argument: str, given: Any, weights: ArrayLike | None) -> TrainingRows:
        if given is None and (schema is None or schema.label_column is None):
            raise InvalidArgument(
                label_argument, "missing", "give a label for each row, or declare the label in a schema"
            )
        if schema is None:
            return _training_rows(label_argument, numbers(argument, table, columns=columns), given, weights)
        check_frame(argument, table)
        frame = TableRows.read(table, schema, name=argument, labelled=given is None, by_id=False)
        return _training_rows(label_argument, frame.rows, frame.labels if given is None else given, weights)

    sets = {"the summary": [read("rows", rows, "labels", labels, weights)]}
    test = read("test_rows", test_rows, "test_labels", test_labels, None)
    for name, (others, other_labels) in (compare or {}).items():
        sets[name] = [read(name, others, f"compare[{name!r}]", other_labels, None)]
    if labels is not None:  # else the schema declares whether they are numbers
        every = [*(part for (part,) in sets.values()), test]
        classes = whole_as_classes(*(part.labels for part in every))
        *trained, test = (replace(part, labels=own) for part, own in zip(every, classes, strict=True))
        sets = {name: [part] for name, part in zip(sets, trained, strict=True)}
    ids = None if test_ids is None else np.asarray(test_ids).astype(np.str_)
    if ids is not None and ids.shape != test.labels.shape:
        reason = f"must be one id for each of {len(test.labels)} rows"
        raise InvalidArgument("test_ids", f"array of shape {ids.shape}", reason)
    if schema is not None and schema.id_column is not None:
        ids = read_ids(test_rows, schema, name="test_rows")
    with notebook_progress(progress) as show_progress:
        return evaluate_sets(sets, test, ids=ids, resamples=resamples, seed=random_state, progress=show_progress)


def read_ids(table: Any, schema: Schema, *, name: str | None = None) -> NDArray[np.str_] | None:
    """Whose row each row of a file or a data frame is; rows without an id count as one person's. None without ids."""
    column = schema.id_column
    if column is None:
        return None
    with open_source(table, name=name) as source:
        checked_columns([column], source.schema, table=source.name)
        chunks = [chunk for block in source.blocks((column,)) for chunk in block.table.column(column).chunks]
        ids, missing = pa.chunked_array(chunks), MissingWords.of(schema.declaration.missing_words)
        written = written_ids(ids, missing, table=source.name, column=column)
    return np.array(written.fill_null("").to_pylist(), dtype=np.str_)


def evaluate_sets(
    sets: Mapping[str, Sequence[TrainingRows]],
    test: TrainingRows,
    *,
    ids: NDArray[np.str_] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """The same for training sets that may have been drawn several times."""
    arguments.count("resamples", resamples, least=100)
    first, (summary, *_) = next(iter(sets.items()))
    task: Literal["classes", "numbers"] = "numbers" if summary.labels.dtype.kind == "f" else "classes"
    _check(sets, test, task)
    arguments.count("random_state", seed, least=0)
    count, trained = len(MODELS) * sum(map(len, sets.values())), 0
    lines, main, answers, main_measure = [], dict[str, dict[str, Draws]](), list[str](), _MEASURES[task][0]
    tell = progress or (lambda *_: None)
    tell("models trained", 0, count)
    for name, draws in sets.items():
        each: dict[str, list[dict[str, Draws]]] = {model: [] for model in MODELS}
        more = dict[str, Draws]()  # the main measure of the summary less that of these rows, by model
        for drawn in draws:
            with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
                measures = {}
                for model in MODELS:
                    measures[model] = measures_of(train(model, drawn, test, seed=seed), test.labels, task)
                    trained += 1
                    tell("models trained", trained, count)
                blocks = resampled(len(test.labels), resamples, seed=seed, ids=ids)
                for model, values in measured(measures, blocks).items():
                    each[model].append(values)
        for model in MODELS:
            means = {measure: np.stack([values[measure] for values in each[model]]) for measure in _MEASURES[task]}
            scores = {measure: _score(values) for measure, values in means.items()}
            own = main.setdefault(model, each[model][0])
            gains = {} if name == first else {measure: _score(own[measure] - means[measure]) for measure in means}
            lines.append(TrainedOn(name, len(draws[0].labels), model, scores, gains))
            more[model] = own[main_measure] - means[main_measure]
        answers += [] if name == first else [_answer(name, main_measure, _score(np.mean(list(more.values()), axis=0)))]
    persons = None if ids is None else len(np.unique(ids))
    notes = _notes(summary, test, task, persons)
    if task == "classes" and any(line.scores["accuracy"].low == 1.0 for line in lines):
        # Resampling a test without errors gives no errors; an exact one-sided bound does not depend on resampling.
        units, unit = (len(test.labels), "rows") if persons is None else (persons, "persons")
        notes.append(
            f"1.000 to 1.000 means no error in this test, not certainty: of {units:,} {unit} without an error it "
            f"follows only that at most {1.0 - 0.05 ** (1.0 / units):.1%} of new {unit} have one (95% confidence)."
        )
    return Evaluation(task, len(test.labels), persons, tuple(lines), (*answers, *notes))


def _answer(name: str, measure: str, more: Score) -> str:
    """Whether the summary makes better models than other rows, in a sentence."""
    question = f"Is the summary better than {name}?"
    if more.value is None or more.low is None or more.high is None:
        return f"{question} Unknown: the test has too few rows."
    verdict = "Yes" if more.low > 0.0 else "No, worse" if more.high < 0.0 else "Not clear"
    interval = f"{more.value:+.3f} (95% of resampled tests: {more.low:+.3f} to {more.high:+.3f})"
    return f"{question} {verdict}: {MEASURES[measure]} {interval}, mean of {len(MODELS)} models."


def _training_rows(argument: str, rows: Rows, labels: ArrayLike, weights: ArrayLike | None = None) -> TrainingRows:
    values = label_array(argument, labels, length=len(rows))
    shares = None if weights is None else arguments.shares("weights", weights, length=len(rows))
    return TrainingRows(rows, values, shares)


def _check(sets: Mapping[str, Sequence[TrainingRows]], test: TrainingRows, task: str) -> None:
    for name, drawn in (*((name, part) for name, parts in sets.items() for part in parts), ("test rows", test)):
        if not len(drawn.labels):
            raise InvalidArgument(name, "no rows", "at least one labelled row is needed")
        if (drawn.labels.dtype.kind == "f") != (task == "numbers"):
            raise InvalidArgument(name, drawn.labels.dtype, f"labels must be {task}, as those of the summary are")
    if len(test.labels) < 2:
        raise InvalidArgument(
            "test rows", len(test.labels), "at least two are needed, and some hundred for narrow intervals"
        )


def _notes(summary: TrainingRows, test: TrainingRows, task: str, persons: int | None) -> list[str]:
    notes = []
    if (persons or len(test.labels)) < _FEW:
        few = f"{len(test.labels)} test rows" if persons is None else f"Test rows of {persons} persons"
        notes.append(f"{few} are too few: even the intervals are unreliable.")
    again = _rows_in(test.rows, summary.rows)
    if again:
        notes.append(
            f"{again:,} of {len(test.labels):,} test rows are identical to rows that models were trained on. If they "
            "are the same persons or events, scores are too high: test on rows that no owner has."
        )
    if task == "numbers":
        return notes
    known, wanted = np.unique(summary.labels), np.unique(test.labels)
    if len(known) == 1:
        notes.append("The summary has rows of one class only: every model predicts that class.")
    if len(wanted) == 1:
        notes.append("The test has rows of one class only: an AUC has no meaning.")
    if summary.labels.dtype.kind in "iu" and len(known) > MANY_CLASSES:
        notes.append(
            f"The labels are {len(known):,} different whole numbers and count as classes. To predict them as numbers, "
            "give them as floating-point numbers, or declare kind: number for the label."
        )
    unknown = len(np.setdiff1d(wanted.astype(np.str_), known.astype(np.str_)))
    if unknown:
        notes.append(
            f"{unknown} of {len(wanted)} classes of the test are in no row of the summary: all of them count as wrong."
        )
    return notes


def _rows_in(rows: Rows, others: Rows) -> int:
    known = {row.tobytes() for row in others.astype(np.float64) + 0.0}  # -0.0 is 0.0
    return sum(row.tobytes() in known for row in rows.astype(np.float64) + 0.0)


def resampled(
    rows: int, resamples: int, *, seed: int, ids: NDArray[np.str_] | None = None
) -> Iterator[NDArray[np.float64]]:
    """Blocks of how often each test row (a column) counts: once at first, then in each resample (a row).

    All rows of a person count together. Drawing again for each training set keeps memory independent of ``resamples``.
    """
    yield np.ones((1, rows))
    persons = None if ids is None else np.unique(ids, return_inverse=True)[1]
    units = rows if persons is None else int(persons.max()) + 1
    coins, step = np.random.default_rng(seed), max(1, _BLOCK // rows)
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        drawn = coins.integers(units, size=(size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        yield (counts if persons is None else counts[:, persons]).astype(np.float64)


def measured(
    models: Mapping[str, Mapping[str, Measure]], blocks: Iterable[NDArray[np.float64]]
) -> dict[str, dict[str, Draws]]:
    """All measures of all models on the same resamples."""
    found: dict[str, dict[str, list[Draws]]] = {model: {name: [] for name in by} for model, by in models.items()}
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample may lack a class
        for counts in blocks:
            for model, measures in models.items():
                for name, measure in measures.items():
                    found[model][name].append(measure(counts))
    return {model: {name: np.concatenate(parts) for name, parts in by.items()} for model, by in found.items()}


def _score(values: Draws) -> Score:
    """Of one training set, or of several draws of it: a line each, with the test as it is in the first place."""
    lines = np.atleast_2d(values)
    if not np.isfinite(lines[:, 0]).all():
        return Score(None, None, None)
    low, high = np.nanpercentile(lines[:, 1:], _ENDS)
    return Score(float(lines[:, 0].mean()), float(low), float(high))


def measures_of(predicted: Predicted, labels: Labels, task: str) -> dict[str, Measure]:
    if task == "numbers":
        return {"r2": _r2(predicted.labels, labels.astype(np.float64))}
    right = predicted.labels.astype(np.str_) == labels.astype(np.str_)
    classes = [labels == name for name in np.unique(labels)]
    # The mean over classes of each against the rest; of two classes the same number twice, so of one of them.
    ranked = classes[1:] if len(classes) == 2 else classes
    aucs = [_auc(predicted.chance(labels[own.argmax()]), own) for own in ranked]
    return {
        "balanced_accuracy": lambda counts: _mean([counts @ (right & own) / (counts @ own) for own in classes]),
        "accuracy": lambda counts: counts @ right / counts.sum(axis=1),
        "auc": lambda counts: _mean([auc(counts) for auc in aucs]),
    }


def _mean(values: Sequence[Draws]) -> Draws:
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0))


def _r2(predicted: Labels, labels: NDArray[np.float64]) -> Measure:
    centred, errors = labels - labels.mean(), (predicted - labels) ** 2

    def measure(counts: NDArray[np.float64]) -> Draws:
        spread = counts @ centred**2 - (counts @ centred) ** 2 / counts.sum(axis=1)
        return np.where(spread > 0.0, 1.0 - counts @ errors / spread, np.nan)

    return measure


def _auc(chances: NDArray[np.float64], own: NDArray[np.bool_]) -> Measure:
    """The chance that a row of the class is ranked above another, ties counting half."""
    order = np.argsort(chances, kind="stable").astype(np.int32)
    inside, outside = order[own[order]], order[~own[order]]
    lower, upper = (
        np.searchsorted(chances[outside], chances[inside], side).astype(np.int32) for side in ("left", "right")
    )

    def measure(counts: NDArray[np.float64]) -> Draws:
        weights = counts[:, inside]
        below = np.pad(np.cumsum(counts[:, outside], axis=1), ((0, 0), (1, 0)))
        won = np.einsum("ij,ij->i", weights, below[:, lower] + below[:, upper])
        return np.asarray(won / (2.0 * weights.sum(axis=1) * below[:, -1]))

    return measure


EVALUATION = "evaluation.json"

_DRAWS = 5
_FEWEST_FIRST = 20  # rows


def evaluate_job(
    folder: Path,
    test: str,
    *,
    schema_file: str | None = None,
    owners: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    result, _ = read_result(folder)
    schema_file = _schema_of(folder) if schema_file is None else schema_file
    schema = Schema.load(schema_file)
    if schema.label_column is None:
        raise InvalidArgument("schema", schema_file, "declares no label; there is nothing that a model could predict")
    if schema.digest != result["schema"]["digest"]:
        raise InvalidArgument("schema", schema_file, "is not the schema of this job; give the one that it was run with")
    try:
        table = without_dictionaries(pq.read_table(folder / SUMMARY))
    except (OSError, pa.ArrowException) as error:
        raise BadDocument(str(folder / SUMMARY), "cannot be read; run the job again") from error
    mapped = schema.map(table, table=str(folder / SUMMARY), locate=lambda row: f"row {row + 1}")
    extra = table.column("likeset_weight" if "likeset_weight" in table.column_names else "weight")
    summary = TrainingRows(mapped.rows, mapped.labels, np.asarray(extra.to_numpy(), dtype=np.float64))
    sets = {"the summary": [summary]}
    for count in (len(mapped.rows) // 4, len(mapped.rows) // 2):  # picks come in order
        if count >= _FEWEST_FIRST:
            sets[f"its first {count:,} rows"] = [summary.part(np.arange(len(mapped.rows)) < count)]
    if owners:
        tables = (TableRows.read(address, schema, labelled=True, by_id=False) for address in owners.values())
        sets |= _all_rows(list(map(_training, tables)), len(mapped.rows))
    tested = TableRows.read(test, schema, labelled=True, by_id=False)
    found = evaluate_sets(sets, _training(tested), ids=read_ids(test, schema), progress=progress)
    return replace(found, notes=(*found.notes, *_unit_notes(schema, tested.table, table)))


def _unit_notes(schema: Schema, test: pa.Table, summary: pa.Table) -> list[str]:
    """A schema may clip values beyond its bounds, so that a wrong unit of the test is no error."""
    samples = NumberSample(schema), NumberSample(schema)
    for sample, table in zip(samples, (test, summary), strict=True):
        sample.add_table(table)
    odd = samples_apart(samples[0], {"summary": samples[1]})
    reason = "no values overlap with the summary's, or sizes and spread differ by a factor of three"
    return [f"Check the units of the test in {enumeration(list(odd))}: {reason}."] if odd else []


def _schema_of(folder: Path) -> str:
    path = folder / JOB
    named = Job.load(path).schema_file if path.exists() else None
    if named is None or not Path(named).exists():
        reason = "is not where the job had it" if named is not None else f"is named in no {JOB} there"
        raise InvalidArgument("--schema", "missing", f"the schema {reason}; give the one that the job was run with")
    return named


def write_evaluation(folder: Path, evaluation: Evaluation) -> dict[str, Any]:
    document = asdict(evaluation)
    documents.write_text(folder / EVALUATION, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return document


def read_evaluation(folder: Path) -> dict[str, Any] | None:
    path = folder / EVALUATION
    return read_json(path, "run likeset evaluate again") if path.exists() else None


def _training(table: TableRows) -> TrainingRows:
    return TrainingRows(table.rows, table.labels)


def _all_rows(owners: Sequence[TrainingRows], size: int) -> dict[str, list[TrainingRows]]:
    """As many rows as the summary has, the same number of each owner, drawn several times; and all of them."""
    rows = np.concatenate([own.rows for own in owners])
    labels = np.concatenate([own.labels for own in owners])
    sizes = [len(own.labels) for own in owners]
    starts, coins = np.cumsum([0, *sizes[:-1]]), np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        drawn = uniform(sizes, min(size, len(rows)), coins=coins)
        indices = np.concatenate([start + chosen for start, chosen in zip(starts, drawn, strict=True)])
        draws.append(TrainingRows(rows[indices], labels[indices]))
    return {f"uniform rows, {_DRAWS} draws": draws, "all rows": [TrainingRows(rows, labels)]}
