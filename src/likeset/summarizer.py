"""``Summarizer``: a whole run in one process, in the style of scikit-learn."""

import inspect
import re
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no types

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.ledger.ledger import Ledger
from likeset.protocol import notices
from likeset.protocol.notices import warn_of
from likeset.protocol.sealed import Scan
from likeset.protocol.terms import Interactive, RunSettings, Setting, settings
from likeset.run.here import check_workers_here, notebook_progress, run_here
from likeset.run.job import Inputs, OwnersTables, RunSecrets, TableRows, open_owners
from likeset.run.plan import draws_of_run, make_plan, new_draws
from likeset.run.result import Result, story
from likeset.tables.frames import (
    MANY_CLASSES,
    MarketArrays,
    check_frame,
    checked_owners,
    gather,
    in_kind_of,
    library_of,
    safe_names,
)
from likeset.tables.scales import columns_apart
from likeset.tables.scan import MemoryScan, OfferedScan
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from likeset.text import near_miss
from likeset.transports.local import Progress


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
        distance_: squared MMD of the summary, all rows with equal weight, to the target's population, by cross-fitting,
            as a ``Distance`` with an interval; None with ``folds=0``, fewer than 20 target rows, ``interactive`` or a
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
        public_rows: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol among a consumer, its curator and the owners: ``fit(target, owners, labels)``.

        Args:
            target: rows to match; an array or a data frame of numbers, or with a schema a data frame of pandas,
                polars or pyarrow with the declared columns.
            owners: rows by owner's name, of the same kind and with the same columns; with a schema also the label's.
            labels: labels by owner's name, if no schema declares them; the result contains them. Unless the setting
                ``labels`` is ``ignore``, they help owners and curator to find rows of the right classes.
            public_rows: public rows on the same scale, which determine the width of the release's kernel.
        """
        with threadpool_limits(limits=1, user_api="blas"):  # products are small: more threads mostly wait
            self._run(target, owners, labels, public_rows)
        return self

    def _run(self, target: Any, owners: Any, labels: Any, public_rows: Any) -> None:
        settings = self._settings()
        if self.ledger is not None and not isinstance(self.ledger, str | Path):
            raise InvalidArgument("ledger", type(self.ledger).__name__, "must be the path of a file")
        # A run in the ledger goes on with its own draws: they decide which rows of an id take part.
        draws = new_draws(settings) if self.ledger is None else draws_of_run(settings, Path(self.ledger), run=self.run)
        tables = checked_owners(owners)
        safe = safe_names(tables)
        shown = {safe[name]: name for name in tables}
        arrays: MarketArrays | None = None
        market: AbstractContextManager[OwnersTables]
        if self.schema is None:
            arrays = MarketArrays.checked(target, tables, labels, public_rows)
            inputs = self._inputs_of_arrays(arrays, safe)
            market = nullcontext(_owners_of_arrays(settings, arrays, safe, in_ledger=self.ledger is not None))
        else:
            inputs = self._inputs_of_frames(target, tables, labels, public_rows, draws.secrets)
            sources = {safe[name]: open_source(table, name=f"owners[{name!r}]") for name, table in tables.items()}
            market = open_owners(sources, inputs, settings, secrets=draws.secrets, shown_names=shown)
        if self.progress is not None and not callable(self.progress):
            raise InvalidArgument("progress", type(self.progress).__name__, "must be a function")
        plan = make_plan(settings, inputs)
        _ = plan.guarantees  # reject bad settings before a ledger is made
        check_workers_here(plan)
        with market as own:
            plan.check_enough_rows(own.row_counts.values())
            warn_of(own.warnings, stacklevel=3)  # before anything is spent: a caller may have made them errors
            content = None if self.ledger is None else own.content
            with (
                tempfile.TemporaryDirectory() as folder,
                Ledger(self.ledger or Path(folder) / "ledger") as ledger,
                notebook_progress(self.progress) as progress,
            ):
                terms, draws = plan.settle(ledger, draws, content=content)
                result = run_here(plan, terms, draws, own.scans, ledger=ledger, shown_names=shown, progress=progress)
        result = replace(result, file_warnings=own.warnings)
        if arrays is not None:  # as they were given: a message may have them in single precision
            result = replace(result, rows=np.stack([arrays.owners[shown[owner]][row] for owner, row in result.picks]))
        picks = [(shown[owner], _number_in_table(own.scans[owner], row)) for owner, row in result.picks]
        self._set_results(result, tables, picks, shown)
        warn_of(result.warnings, stacklevel=3)

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

    def _inputs_of_arrays(self, arrays: MarketArrays, safe: Mapping[str, str]) -> Inputs:
        return Inputs(
            target=TableRows("target", arrays.target),
            owners=tuple(safe.values()),
            public_rows=arrays.public_rows,
            seed_rows=self._seed_rows,
            run=self.run,
            rows_per_unit=self.rows_per_unit,
            largest_squared_norm=arrays.largest_squared_norm,
            largest_squared_distance=arrays.largest_squared_distance,
            column_names=arrays.columns or (),
        )

    def _inputs_of_frames(
        self, target: Any, owners: Mapping[str, Any], labels: Any, public_rows: Any, secrets: RunSecrets
    ) -> Inputs:
        if labels is not None:
            reason = "stand in the frames, in the column that the schema declares as its label; leave them out"
            raise InvalidArgument("labels", "given", reason)
        if self.rows_per_unit != 1:
            reason = "is for the schema to say: rows_per_id of its id"
            raise InvalidArgument("rows_per_unit", self.rows_per_unit, reason)
        check_frame("target", target)
        library = library_of(target)
        for name, table in owners.items():
            if library_of(table) != library:
                reason = f"must be of the same kind as the target, a frame of {library}"
                raise InvalidArgument(f"owners[{name!r}]", f"a frame of {library_of(table)}", reason)
        schema = self._schema()
        public, seed = (
            None if table is None else _public_rows(argument, table, schema)
            for argument, table in (("public_rows", public_rows), ("seed_rows", self._seed_rows))
        )
        return Inputs.declared_by(
            schema,
            TableRows.read(target, schema, name="target", keep_key=secrets.target_keep_key),
            owners=tuple(safe_names(owners).values()),
            public_rows=None if public is None else public.rows,
            seed_rows=None if seed is None else seed.rows,
            run=self.run,
            fingerprints={table.name: table.fingerprint for table in (public, seed) if table is not None},
        )

    def _set_results(
        self,
        result: Result,
        tables: Mapping[str, Any],
        picks: list[tuple[str, int]],
        shown: Mapping[str, str],
    ) -> None:
        summary = result.summary
        self.terms_ = result.terms
        self.gamma_ = result.gamma
        self.label_weight_ = summary.label_weight / 100
        self.label_skill_ = summary.label_skill / 100
        self.guarantees_ = result.plan.guarantees
        self.indices_ = picks
        self.weights_ = result.weights
        if self.schema is None:
            self.summary_ = gather(tables, picks)
        else:
            self.summary_ = in_kind_of(next(iter(tables.values())), result.table([owner for owner, _ in picks]))
        self.labels_ = summary.labels if len(summary.labels) else None
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
        self.warnings_ = result.all_warnings
        self.story_ = story(result, labels=self.labels_, warnings=self.warnings_, shown_names=shown)

    def _repr_html_inner(self) -> str:
        fitted: str | None = getattr(self, "story_", None)
        return str(super()._repr_html_inner()) if fitted is None else fitted

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self.story_} if hasattr(self, "story_") and "text/html" in bundle else bundle


def _public_rows(argument: str, table: Any, schema: Schema) -> TableRows:
    check_frame(argument, table)
    return TableRows.read(table, schema, name=argument)


def _owners_of_arrays(
    settings: RunSettings, arrays: MarketArrays, safe: Mapping[str, str], *, in_ledger: bool
) -> OwnersTables:
    labels = arrays.labels or {}
    warnings = []
    if odd := columns_apart(arrays.target, arrays.owners):
        names = arrays.columns or range(arrays.target.shape[1])
        warnings.append(notices.different_scales({str(names[place]): whose for place, whose in odd.items()}))
    if settings.labels == "match":
        whole = [np.unique(values) for values in labels.values() if values.dtype.kind in "iu"]
        classes = len(np.unique(np.concatenate(whole))) if whole else 0
        warnings += [notices.labels_are_classes(classes)] if classes > MANY_CLASSES else []
    if settings.seed is not None and settings.noise == "secret":
        warnings.append(notices.NOT_REPEATABLE)
    return OwnersTables(
        scans={safe[name]: MemoryScan(rows, labels.get(name)) for name, rows in arrays.owners.items()},
        content=arrays.digest() if in_ledger else b"",
        names={},
        row_counts={safe[name]: len(rows) for name, rows in arrays.owners.items()},
        warnings=tuple(warnings),
    )


def _number_in_table(scan: Scan, row: int) -> int:
    """The number of an offered row in its owner's table, where rows that take no part count as well."""
    return int(scan.numbers_in_source(np.array([row]))[0]) if isinstance(scan, OfferedScan) else row


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
    "rows_per_unit": "the unit of privacy: the largest number of rows of one person; a schema declares it with its id",
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
