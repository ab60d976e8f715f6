"""``Summarizer``: a whole run in one process, in the style of scikit-learn."""

import inspect
import re
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.ledger.ledger import Ledger
from likeset.protocol import notices
from likeset.protocol.notices import Notice, warn_of
from likeset.protocol.terms import Interactive, RunSettings, Setting, settings
from likeset.run.job import Inputs, RunSecrets, Target
from likeset.run.plan import RunDraws, draws_of_run, make_plan, new_draws
from likeset.run.result import Result, story
from likeset.run.runs import check_workers_here, notebook_progress, run_here
from likeset.tables.frames import (
    DeclaredFrame,
    DeclaredTables,
    MarketTables,
    column_names,
    gather,
    in_kind_of,
    library_of,
)
from likeset.tables.scan import MemoryScan
from likeset.tables.schema import Schema
from likeset.text import near_miss
from likeset.transports.local import Progress

_SPREAD = 3.0  # a factor between the scales of two tables of one kind that needs an explanation
_MANY_CLASSES = 100  # more whole numbers than that are more often measurements


class Summarizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Collect rows from owners that together look like a target, with all parties in this process.

    Data frames with columns of all kinds need a schema, which defines the unit of each column. Without a schema,
    columns are numbers on one scale: a unit of distance means the same in each. Use public scales; a
    scaler fitted on the data leaks. Scale the target and all owners alike: in ``make_pipeline(StandardScaler(),
    Summarizer(...))`` the scaler sees the target only. Rows that are hundreds of units apart are refused.

    Other settings are also keyword arguments, listed last below. The paper's protocol has its own settings:
    ``protocol=Interactive(...)``.

    A notebook shows a progress bar, and a fitted summarizer as one page.

    Args:
        SETTINGS: replaced below.

    Attributes:
        summary_: the selected rows, as the same kind of table as the owners' rows, without index and metadata. With a
            schema they are the rows of ``summary.parquet``: the declared columns in declared types, and label, owner
            and weight of each row.
        indices_: (owner, row number) of each selected row.
        labels_: their labels, or None.
        weights_: their weights, whose sum is 1.
        distance_: squared MMD of the (weighted) summary to the target's population, by cross-fitting, as a
            ``Distance`` with an interval; None with ``folds=0``, fewer than 20 target rows, ``interactive`` or a
            split curator.
        in_sample_squared_mmd_: squared MMD of the (weighted) summary to the target's own rows. Do not compare it with
            ``distance_``: it is too small, because the selection saw these rows, and includes their sampling spread.
        guarantees_: the price of each view, with its basis.
        shares_: each owner's part of all Shapley values. Do not tell it to an owner: that would be another release.
        attribution_: rows, Shapley value and payment of each owner.
        rows_seen_: number of rows that the curator saw; a split curator computed on this number and saw none.
        access_ratio_: (rows seen + m) / (size + m).
        history_: one ``Pick`` per selected row, in order.
        terms_: the terms of the run.
        warnings_: a fallback, absent or rejected owners, too few rows. Each has a ``kind``, the owner whom it
            ``concerns``, if any, and a ``text``; each is also a ``LikesetWarning``.
        story_: all results in one screen of HTML, as a notebook shows them.
        gamma_: gamma of the selection's kernel.
        label_weight_: weight of labels in the selection, from 0 (ignored) to 0.99.
        label_skill_: how well rows predicted labels near the target, from 0 to 1; 0 if not tried.

    Example:
        >>> import pandas
        >>> from likeset import Schema, Summarizer
        >>> schema = Schema.from_text('''
        ... likeset: schema
        ... version: 1
        ... columns:
        ...   age: {kind: numeric, bounds: [0, 100]}
        ...   sex: {kind: category, values: [f, m]}
        ... label: {column: ill, kind: category, values: [0, 1]}
        ... ''')
        >>> mine = pandas.DataFrame({"age": [70, 75, 80, 85], "sex": ["f", "m", "f", "m"]})
        >>> north = pandas.DataFrame({"age": range(20, 90), "sex": ["f", "m"] * 35, "ill": [0, 0, 1, 1, 1] * 14})
        >>> matched = Summarizer(8, schema=schema, offers="uniform").fit(mine, {"north": north})
        >>> matched.summary_.columns.tolist()
        ['age', 'sex', 'ill', 'owner', 'weight']
        >>> bool(matched.summary_.age.mean() > north.age.mean())
        True
    """

    def __init__(
        self,
        size: int,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        schema: Schema | str | Path | None = None,
        labels: Literal["match", "ignore"] = "match",
        weights: bool = False,
        offers: Literal["auto", "tilted", "uniform"] = "auto",
        offer_factor: float = 10.0,
        gamma: float | Literal["median"] = "median",
        curator: Literal["auto", "trusted", "split"] = "auto",
        ledger: str | Path | None = None,
        random_state: int | None = None,
        protocol: Literal["sealed", "interactive"] | Interactive = "sealed",
        rows_per_unit: int = 1,
        run: str = "run",
        progress: Progress | None = None,
        **others: Any,
    ) -> None:
        given = dict(locals())  # each argument becomes an attribute of the same name, as scikit-learn expects
        del given["self"], given["others"]
        for name in others:
            if name not in _OTHERS:
                raise TypeError(
                    f"Summarizer() got an unexpected keyword argument {name!r}{near_miss(name, [*given, *_OTHERS])}"
                )
        self.__dict__.update(given | {name: setting.default for name, setting in _OTHERS.items()} | others)

    def fit(
        self,
        target: Any,
        owners: Any,
        labels: Any = None,
        *,
        groups: ArrayLike | None = None,
        public_rows: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol among a consumer, its curator and the owners: ``fit(target, owners, labels)``.

        Rows of all owners may also be one table: ``fit(target, X, y, groups=owner_of_each_row)``.

        Args:
            target: rows to match; an array or a data frame of numbers, or with a schema a data frame of pandas,
                polars or pyarrow with the declared columns.
            owners: rows by owner's name, of the same kind and with the same columns; with a schema also the label's.
                With ``groups``, one table with the rows of all owners.
            labels: labels by owner's name, if no schema declares them; the result contains them. Unless the setting
                ``labels`` is ``ignore``, they help owners and curator to find rows of the right classes. With
                ``groups``, one label for each row.
            groups: the owner of each row. Row numbers in the result then refer to the one table.
            public_rows: public rows on the same scale, which determine the width of the release's kernel.
        """
        with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
            parts = {}
            if groups is not None:
                parts = _rows_of_groups(owners, labels, groups)
                owners = {name: _taken(owners, rows) for name, rows in parts.items()}
                if labels is not None:
                    labels = {name: np.asarray(labels)[rows] for name, rows in parts.items()}
            self._run(target, owners, labels, public_rows, parts)
        return self

    def _run(
        self, target: Any, owners: Any, labels: Any, public_rows: Any, parts: Mapping[str, NDArray[np.intp]]
    ) -> None:
        settings = self._settings()
        draws = self._draws(settings)
        tables = self._tables(target, owners, labels, public_rows, draws.secrets)
        if self.progress is not None and not callable(self.progress):
            raise InvalidArgument("progress", type(self.progress).__name__, "must be a function")
        plan = make_plan(settings, self._inputs(tables))
        _ = plan.guarantees  # reject bad settings before a ledger is made
        plan.check_enough_rows(map(len, tables.owners.values()))
        check_workers_here(plan)
        warnings = _warnings(settings, plan.inputs, tables)
        warn_of(warnings, stacklevel=3)  # before anything is spent: a caller may have made them errors
        shown = {safe: name for name, safe in tables.safe_names.items()}
        with self._opened_ledger() as ledger, notebook_progress(self.progress) as progress:
            terms, draws = plan.settle(ledger, draws, content=None if self.ledger is None else tables.digest())
            result = run_here(plan, terms, draws, _scans(tables), ledger=ledger, shown_names=shown, progress=progress)
        rows = np.stack([tables.owners[shown[owner]][row] for owner, row in result.picks])
        self._set_results(replace(result, rows=rows), tables, parts, warnings)
        warn_of(result.warnings, stacklevel=3)

    def _draws(self, settings: RunSettings) -> RunDraws:
        # A run in the ledger goes on with its own draws: they decide which rows of an id take part.
        if isinstance(self.ledger, str | Path):
            return draws_of_run(settings, Path(self.ledger), run=self.run)
        return new_draws(settings)

    def _tables(self, target: Any, owners: Any, labels: Any, public_rows: Any, secrets: RunSecrets) -> MarketTables:
        if self.schema is None:
            return MarketTables.checked(target, owners, labels, public_rows)
        if labels is not None:
            reason = "stand in the frames, in the column that the schema declares as its label; leave them out"
            raise InvalidArgument("labels", "given", reason)
        if self.rows_per_unit != 1:
            raise InvalidArgument(
                "rows_per_unit", self.rows_per_unit, "is for the schema to say: rows_per_id of its id"
            )
        return DeclaredTables.read(
            self._schema(),
            target,
            owners,
            target_key=secrets.target_keep_key,
            owner_key=secrets.owner_keep_key,
            public_rows=public_rows,
        )

    def _schema(self) -> Schema:
        if not isinstance(self.schema, Schema | str | Path):
            raise InvalidArgument("schema", type(self.schema).__name__, "must be a Schema, or the path of its file")
        return self.schema if isinstance(self.schema, Schema) else Schema.load(self.schema)

    def _settings(self) -> RunSettings:
        if self.random_state is not None:
            arguments.count("random_state", self.random_state, least=0)
        own = [setting for setting in settings() if not setting.is_of_interactive]
        given = {setting.name: getattr(self, setting.argument) for setting in own}
        if isinstance(self.protocol, Interactive):
            of_protocol = self.protocol.settings()
            for setting in own:
                if setting.name in of_protocol and given[setting.name] not in (setting.default, self.protocol):
                    reason = "goes into Interactive(...) with its others"
                    raise InvalidArgument(setting.name, given[setting.name], reason)
            given |= of_protocol
        return RunSettings(**given)

    @property
    def _seed_rows(self) -> ArrayLike | None:
        return self.protocol.seed_rows if isinstance(self.protocol, Interactive) else None

    def _inputs(self, tables: MarketTables) -> Inputs:
        known = {
            "owners": tuple(tables.safe_names[name] for name in tables.owners),
            "public_rows": tables.public_rows,
            "run": self.run,
        }
        if isinstance(tables, DeclaredTables):
            seed = self._seed_rows
            if seed is not None:
                seed = DeclaredFrame.read("seed_rows", seed, tables.schema, labelled=False, keep_key=None).rows
            target = Target(
                "target",
                tables.target,
                tables.target_frame.table,
                given=tables.target_frame.given,
                undeclared_id=tables.target_frame.undeclared_id,
            )
            return Inputs.declared_by(tables.schema, target=target, seed_rows=seed, **known)
        return Inputs(
            target=Target("target", tables.target),
            seed_rows=self._seed_rows,
            largest_squared_norm=tables.largest_squared_norm,
            largest_squared_distance=tables.largest_squared_distance,
            rows_per_unit=self.rows_per_unit,
            column_names=column_names(next(iter(tables.tables.values()))) or (),
            **known,
        )

    def _set_results(
        self, result: Result, tables: MarketTables, parts: Mapping[str, NDArray[np.intp]], warnings: list[Notice]
    ) -> None:
        shown = {safe: name for name, safe in tables.safe_names.items()}
        summary = result.summary
        self.terms_ = result.terms
        self.gamma_ = result.gamma
        self.label_weight_ = summary.label_weight
        self.label_skill_ = summary.label_skill
        self.guarantees_ = result.plan.guarantees
        picks = [(shown[owner], tables.row_number(shown[owner], row)) for owner, row in result.picks]
        self.indices_ = [(owner, int(parts[owner][row]) if parts else row) for owner, row in picks]
        self.weights_ = summary.weights
        if isinstance(tables, DeclaredTables):
            delivered = result.table([owner for owner, _ in picks])
            self.summary_ = in_kind_of(next(iter(tables.tables.values())), delivered)
        else:
            self.summary_ = gather(tables.tables, picks)
        self.labels_ = summary.labels if tables.labels is not None else None
        self.distance_ = result.distance
        self.in_sample_squared_mmd_ = result.in_sample_squared_mmd
        self.rows_seen_ = summary.rows_seen
        self.access_ratio_ = result.access_ratio
        self.history_ = tuple(
            replace(pick, owner=owner, row=row)
            for pick, (owner, row) in zip(result.history, self.indices_, strict=True)
        )
        self.attribution_ = result.attribution
        self.shares_ = {shown[line.owner]: line.share for line in self.attribution_.owners}
        self.warnings_ = (*warnings, *result.warnings)
        self.story_ = story(
            result,
            labels=self.labels_,
            warnings=self.warnings_,
            shown_names=shown,
        )

    def _repr_html_inner(self) -> str:
        fitted: str | None = getattr(self, "story_", None)
        return str(super()._repr_html_inner()) if fitted is None else fitted

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self.story_} if hasattr(self, "story_") and "text/html" in bundle else bundle

    @contextmanager
    def _opened_ledger(self) -> Iterator[Ledger]:
        if self.ledger is not None and not isinstance(self.ledger, str | Path):
            raise InvalidArgument("ledger", type(self.ledger).__name__, "must be the path of a file")
        with tempfile.TemporaryDirectory() as directory, Ledger(self.ledger or Path(directory) / "ledger") as ledger:
            yield ledger


def _rows_of_groups(table: Any, labels: Any, groups: ArrayLike) -> dict[str, NDArray[np.intp]]:
    """The row numbers of each group, in order."""
    if isinstance(table, Mapping):
        raise InvalidArgument("groups", "given", "needs one table with the rows of all owners")
    names = np.asarray(groups)
    rows = table.num_rows if hasattr(table, "num_rows") else len(table)
    if names.shape != (rows,):
        raise InvalidArgument("groups", f"array of shape {names.shape}", f"must be one owner for each of {rows} rows")
    if any(name is None or name != name for name in names.tolist()):
        raise InvalidArgument("groups", "some are missing", "must name the owner of every row")
    if labels is not None and np.shape(labels) != (rows,):
        raise InvalidArgument(
            "labels", f"array of shape {np.shape(labels)}", f"must be one label for each of {rows} rows"
        )
    words = names.astype(np.str_)
    return {str(name): np.flatnonzero(words == name) for name in np.unique(words)}


def _taken(table: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table of any kind."""
    library = library_of(table)
    if library == "pandas":
        return table.iloc[rows]
    if library == "pyarrow":
        return table.take(rows)
    return table[rows] if library == "polars" else np.asarray(table)[rows]


def _scans(tables: MarketTables) -> dict[str, MemoryScan]:
    """Scans of owners' rows, by the names for records."""
    labels, records = tables.labels, tables.records if isinstance(tables, DeclaredTables) else {}
    return {
        tables.safe_names[name]: MemoryScan(rows, None if labels is None else labels[name], records.get(name))
        for name, rows in tables.owners.items()
    }


def _warnings(settings: RunSettings, inputs: Inputs, tables: MarketTables) -> list[Notice]:
    if not isinstance(tables, DeclaredTables):
        odd = _columns_on_another_scale(tables.target, list(tables.owners.values()))
        names = column_names(next(iter(tables.tables.values()))) or range(tables.target.shape[1])
        warnings: list[Notice] = [notices.different_scales(tuple(str(names[place]) for place in odd))] if odd else []
        if tables.labels and settings.labels == "match":
            whole = [np.unique(labels) for labels in tables.labels.values() if labels.dtype.kind in "iu"]
            classes = len(np.unique(np.concatenate(whole))) if whole else 0
            warnings += [notices.labels_are_classes(classes)] if classes > _MANY_CLASSES else []
        return warnings + ([notices.NOT_REPEATABLE] if settings.seed is not None and settings.noise == "secret" else [])
    most = tables.schema.declaration.text_bytes
    shorter = [notices.too_long_rows(name, rows, most) for name, rows in tables.too_long.items()]
    return [*inputs.warnings(settings), *shorter]


def _columns_on_another_scale(target: Rows, owners: list[Rows]) -> list[int]:
    """Columns in which the target has another scale than the owners, if they are most of the columns that vary.

    A target may be a narrow part of the owners' rows, but not much wider than all of them, nor entirely outside. If
    each column of the target has mean 0 and deviation 1, or minimum 0 and maximum 1, a scaler was fitted on it; then
    the owners' rows, passed through the same scaler, have about the same middle and spread.
    """
    wide = target.astype(np.float64)
    low, high = wide.min(axis=0), wide.max(axis=0)
    least = np.min([rows.min(axis=0) for rows in owners], axis=0).astype(np.float64)
    most = np.max([rows.max(axis=0) for rows in owners], axis=0).astype(np.float64)
    varies = (high > low) & (most > least)
    if not varies.any():
        return []
    mean, spread = wide.mean(axis=0), wide.std(axis=0)
    count = sum(map(len, owners))
    middle = sum(rows.sum(axis=0, dtype=np.float64) for rows in owners) / count
    around = np.sqrt(sum(((rows - middle) ** 2).sum(axis=0) for rows in owners) / count)
    off = (high < least) | (low > most) | (spread > _SPREAD * around)
    standard = np.allclose(mean[varies], 0.0, atol=1e-6) and np.allclose(spread[varies], 1.0, atol=1e-3)
    unit = np.allclose(low[varies], 0.0, atol=1e-9) and np.allclose(high[varies], 1.0, atol=1e-9)
    if standard or unit:
        off |= (np.abs(middle - mean) > _SPREAD * spread) | (around > _SPREAD * spread)
    found = np.flatnonzero(off & varies)
    return found.tolist() if 2 * len(found) > np.count_nonzero(varies) else []


# The runtime signature and the docstring are made from the declaration of settings.
_SHOWN = inspect.signature(Summarizer.__init__)
_OTHERS: dict[str, Setting] = {
    setting.argument: setting
    for setting in settings()
    if setting.argument not in _SHOWN.parameters and not setting.is_of_interactive
}
_MEANINGS = {setting.argument: setting.meaning for setting in settings()} | {
    "schema": "declares the columns of data frames: a ``Schema``, or the path of its file",
    "ledger": "file of the budgets, kept across runs; a temporary one if not given",
    "rows_per_unit": "the unit of privacy: at most so many rows belong to one person; a schema says it by its id",
    "run": "name of the run in the ledger",
    "progress": "called as answers come in; a bar in a notebook if not given",
}


def _signature() -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    others = [
        inspect.Parameter(name, keyword, default=setting.default, annotation=setting.type)
        for name, setting in _OTHERS.items()
    ]
    return _SHOWN.replace(parameters=[*list(_SHOWN.parameters.values())[:-1], *others])


def _described() -> str:
    lines = [f"{name}: {_MEANINGS[name]}." for name in list(_signature().parameters)[1:]]
    wrapped = (textwrap.wrap(line, 112, subsequent_indent="    ", break_on_hyphens=False) for line in lines)
    return "\n".join(line for lines in wrapped for line in lines)


Summarizer.__init__.__signature__ = _signature()  # type: ignore[attr-defined]  # scikit-learn reads it
if Summarizer.__doc__:  # python -OO removes docstrings
    # Python 3.13 and later remove the indentation of the class.
    Summarizer.__doc__ = re.sub(
        r"(?m)^( +)SETTINGS: .*$", lambda found: textwrap.indent(_described(), found[1]), Summarizer.__doc__
    )
