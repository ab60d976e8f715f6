"""The front door: everything in one process, in the style of scikit-learn."""

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
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.ledger.ledger import Ledger
from likeset.protocol.notices import Notice
from likeset.protocol.run_settings import Interactive, RunSettings, settings
from likeset.run.job import Inputs, RunSecrets, job_warnings
from likeset.run.notebooks import notebook_progress, story
from likeset.run.notices import LikesetWarning, TooLongRows, warn_of
from likeset.run.plan import RunDraws, draws_of_run, make_plan, new_draws
from likeset.run.result import Pick, Result, summary_table
from likeset.run.runs import check_workers_here, run_here
from likeset.tables.frames import DeclaredFrame, DeclaredTables, MarketTables, column_names, gather, in_kind_of
from likeset.tables.scan import MemoryScan
from likeset.tables.schema import Schema
from likeset.transports.local import Progress

__all__ = ["LikesetWarning", "Pick", "Summarizer"]


class Summarizer(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Collect rows from owners that together look like a target, with all parties in this process.

    Data frames with columns of all kinds go with a schema, which says what a unit of each column is. Without one,
    columns are numbers on one scale: a unit of distance means the same in each. Bring scales from public knowledge; a
    scaler fitted on the data would leak. Rows that lie hundreds of units apart are refused.

    The paper's protocol has settings of its own: ``protocol`` also takes an ``Interactive``.

    In a notebook a bar shows the progress, and a fitted summarizer tells its story in one screen.

    Args:
        SETTINGS: of ``likeset.protocol.run_settings``, described there and in ``help(Summarizer)``.
        schema: declares the columns of data frames: a ``Schema``, or the path of its file.
        rows_per_unit: the unit of privacy: at most so many rows belong to one person; a schema says it by its id.
        ledger: file of the budgets, kept across runs; a temporary one if not given.
        run: name of the run in that ledger.
        progress: called as answers come in; a bar of its own in a notebook if not given.

    Attributes:
        summary_: the selected rows, as the kind of table that the owners gave, without its index and metadata. With a
            schema they are the rows of ``summary.parquet``: the declared columns in declared types, and label, owner
            and weight of each row.
        indices_: for each of them (owner, row number).
        labels_: their labels, or None.
        weights_: their weights, summing to 1.
        likeness_: squared MMD of the (weighted) summary to the target's population, by cross-fitting, as a
            ``Likeness`` with an interval; None where it is not known: with ``folds=0``, fewer than 20 rows of a target,
            ``interactive``, a split curator.
        in_sample_squared_mmd_: squared MMD of the (weighted) summary to the very rows of the target that it was
            selected by. Do not compare it with ``likeness_``: it is too good, as the selection saw these rows, and it
            includes their sampling spread.
        guarantees_: for each view what it costs, with its basis.
        shares_: each owner's part of all Shapley values; telling it to an owner would be a release of its own.
        attribution_: the same in full: rows, Shapley value, payment.
        rows_seen_: how many rows the curator saw; where it is split, how many it computed on and nobody saw.
        access_ratio_: (rows seen + m) / (size + m).
        history_: one ``Pick`` per selected row, in order.
        terms_: the terms of the run.
        warnings_: what the user should know: a fallback, owners who were absent or not believed, rows that ran short.
            Each has a ``kind``, the owner whom it ``concerns`` if it is about one, and its words as ``text``; each is
            also told as a ``LikesetWarning``.
        story_: all of it in one screen, as HTML: what a notebook shows.
        gamma_: of the selection's kernel.
        label_weight_: how much labels counted in the selection, from 0 (not at all) to 0.99.
        label_skill_: how well rows told labels near the target, from 0 to 1; 0 where that was not tried.

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
        protocol: Literal["sealed", "interactive"] | Interactive = "sealed",
        gamma: float | Literal["median"] = "median",
        gamma_scale: float = 1.0,
        release_gamma: float | None = None,
        dimension: int | Literal["auto"] = "auto",
        offer_factor: float = 10.0,
        allow_fewer: bool = False,
        offers: Literal["auto", "tilted", "uniform"] = "auto",
        thinning: bool = True,
        curator: Literal["auto", "trusted", "split"] = "auto",
        weights: bool = False,
        labels: Literal["match", "ignore"] = "match",
        folds: int = 5,
        relation: Literal["replace-one", "add-or-remove"] = "replace-one",
        declared_size: int | None = None,
        rows_per_unit: int = 1,
        price_per_row: float = 0.0,
        quorum: int = 1,
        noise: Literal["secret", "simulated"] = "secret",
        random_state: int | None = None,
        auction: Literal["auto", "everyone", "threshold", "paper"] = "auto",
        auction_epsilon: float | None = None,
        owner_epsilon: float | None = None,
        schema: Schema | str | Path | None = None,
        ledger: str | Path | None = None,
        run: str = "run",
        progress: Progress | None = None,
    ) -> None:
        given = dict(locals())  # each argument becomes an attribute of its name, as scikit-learn expects
        del given["self"]
        self.__dict__.update(given)

    def fit(
        self,
        target: Any,
        owners: Mapping[str, Any],
        labels: Mapping[str, ArrayLike] | None = None,
        *,
        public_rows: ArrayLike | None = None,
    ) -> Self:
        """Run the protocol among a consumer, its curator and the owners.

        Args:
            target: rows to match; an array or a data frame of numbers, or with a schema a data frame of pandas,
                polars or pyarrow with the declared columns.
            owners: rows of each owner, of the same kind and with the same columns; with a schema also the label's.
            labels: labels of each owner's rows, where no schema declares them; they are handed on. Unless
                the setting ``labels`` is ``ignore``, they help their owner and the curator to find rows of the right
                classes.
            public_rows: rows that anybody may see, on the same scale: they give the width of the release's kernel.
        """
        wishes = self._wishes()
        draws = self._draws(wishes)
        tables = self._tables(target, owners, labels, public_rows, draws.secrets)
        if self.progress is not None and not callable(self.progress):
            raise InvalidArgument("progress", type(self.progress).__name__, "must be a function")
        plan = make_plan(wishes, self._inputs(tables))
        _ = plan.guarantees  # what is wrong with the wishes shows before a ledger is made
        plan.check_enough_rows(map(len, tables.owners.values()))
        check_workers_here(plan)
        shown = {safe: name for name, safe in tables.safe_names.items()}
        with self._opened_ledger() as ledger, notebook_progress(self.progress) as progress:
            settled = plan.settle(ledger, draws, content=None if self.ledger is None else tables.digest())
            outcome = run_here(plan, settled, _scans(tables), ledger=ledger, shown_names=shown, progress=progress)
        rows = np.stack([tables.owners[shown[owner]][row] for owner, row in outcome.picks])
        self._tell(Result(outcome, rows, tables.target), tables)
        warn_of(self.warnings_, stacklevel=2)
        return self

    def _draws(self, wishes: RunSettings) -> RunDraws:
        """New ones, or those that a run in the ledger began with: which rows of an id take part follows from them."""
        if isinstance(self.ledger, str | Path):
            return draws_of_run(wishes, Path(self.ledger), run=self.run)
        return new_draws(wishes)

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

    def _wishes(self) -> RunSettings:
        if self.random_state is not None:
            arguments.count("random_state", self.random_state, least=0)
        own = [setting for setting in settings() if setting.argument in self.get_params(deep=False)]
        given = {setting.name: getattr(self, setting.argument) for setting in own}
        if isinstance(self.protocol, Interactive):
            of_protocol = self.protocol.settings()
            for setting in own:
                if setting.name in of_protocol and given[setting.name] not in (setting.default, self.protocol):
                    raise InvalidArgument(
                        setting.name, given[setting.name], "goes into Interactive(...) with its others"
                    )
            given |= of_protocol
        return RunSettings(**given)

    @property
    def _seed_rows(self) -> ArrayLike | None:
        return self.protocol.seed_rows if isinstance(self.protocol, Interactive) else None

    def _inputs(self, tables: MarketTables) -> Inputs:
        known = {
            "target": tables.target,
            "owners": tuple(tables.safe_names[name] for name in tables.owners),
            "public_rows": tables.public_rows,
            "run": self.run,
        }
        if isinstance(tables, DeclaredTables):
            seed = self._seed_rows
            if seed is not None:
                seed = DeclaredFrame.read("seed_rows", seed, tables.schema, labelled=False, keep_key=None).rows
            return Inputs.declared_by(tables.schema, seed_rows=seed, **known)
        return Inputs(
            seed_rows=self._seed_rows,
            largest_squared_norm=tables.largest_squared_norm,
            largest_squared_distance=tables.largest_squared_distance,
            rows_per_unit=self.rows_per_unit,
            column_names=column_names(next(iter(tables.tables.values()))) or (),
            **known,
        )

    def _tell(self, result: Result, tables: MarketTables) -> None:
        """Everything about the result, in terms of the rows that the caller gave."""
        shown = {safe: name for name, safe in tables.safe_names.items()}
        outcome, summary = result.outcome, result.outcome.summary
        self.terms_ = outcome.terms
        self.gamma_ = outcome.gamma
        self.label_weight_ = summary.label_weight
        self.label_skill_ = summary.label_skill
        self.guarantees_ = outcome.guarantees
        self.indices_ = [(shown[owner], tables.row_number(shown[owner], row)) for owner, row in outcome.picks]
        self.weights_ = summary.weights
        if isinstance(tables, DeclaredTables):
            delivered = summary_table(outcome, tables.schema, [owner for owner, _ in self.indices_])
            self.summary_ = in_kind_of(next(iter(tables.tables.values())), delivered)
        else:
            self.summary_ = gather(tables.tables, self.indices_)
        self.labels_ = summary.labels if tables.labels is not None else None
        self.likeness_ = result.likeness
        self.in_sample_squared_mmd_ = result.in_sample_squared_mmd
        self.rows_seen_ = summary.rows_seen
        self.access_ratio_ = result.access_ratio
        self.history_ = tuple(
            replace(pick, owner=owner, row=row)
            for pick, (owner, row) in zip(result.history, self.indices_, strict=True)
        )
        self.attribution_ = result.attribution
        self.shares_ = {shown[line.owner]: line.share for line in self.attribution_.owners}
        self.warnings_ = (*_table_warnings(self._wishes(), tables), *outcome.warnings)
        self.story_ = story(
            result,
            labels=self.labels_,
            warnings=self.warnings_,
            shown_names=shown,
            simulated=self.noise == "simulated",
        )

    def _repr_html_inner(self) -> str:
        """What a notebook shows: the story of a fitted summarizer, scikit-learn's drawing of one that is not."""
        fitted: str | None = getattr(self, "story_", None)
        return str(super()._repr_html_inner()) if fitted is None else fitted

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self.story_} if hasattr(self, "story_") and "text/html" in bundle else bundle

    @contextmanager
    def _opened_ledger(self) -> Iterator[Ledger]:
        if self.ledger is not None and not isinstance(self.ledger, str | Path):
            raise InvalidArgument("ledger", type(self.ledger).__name__, "must be the path of a file")
        if self.ledger is not None:
            with Ledger(self.ledger) as kept:
                yield kept
            return
        with tempfile.TemporaryDirectory() as directory, Ledger(Path(directory) / "ledger.sqlite") as passing:
            yield passing


def _scans(tables: MarketTables) -> dict[str, MemoryScan]:
    """How owners reach their rows, by the names that may stand in records."""
    labels, records = tables.labels, tables.records if isinstance(tables, DeclaredTables) else {}
    return {
        tables.safe_names[name]: MemoryScan(rows, None if labels is None else labels[name], records.get(name))
        for name, rows in tables.owners.items()
    }


def _table_warnings(wishes: RunSettings, tables: MarketTables) -> list[Notice]:
    """What the user should know of frames with a schema, as of files."""
    if not isinstance(tables, DeclaredTables):
        return []
    most = tables.schema.declaration.text_bytes
    shorter = [TooLongRows(name, rows, most) for name, rows in tables.too_long.items()]
    warnings = job_warnings(
        wishes, tables.schema, tables.target_table, tables.target, undeclared_id=tables.undeclared_id
    )
    return [*warnings, *shorter]


def _described() -> str:
    """The settings for a docstring, one after the other."""
    own = inspect.signature(Summarizer).parameters
    lines = [f"{setting.argument}: {setting.meaning}." for setting in settings() if setting.argument in own]
    wrapped = (textwrap.wrap(line, 112, subsequent_indent="    ", break_on_hyphens=False) for line in lines)
    return "\n".join(line for lines in wrapped for line in lines)


if Summarizer.__doc__:  # Python can be told to leave docstrings out
    # Python 3.13 and later remove the indentation of the class.
    Summarizer.__doc__ = re.sub(
        r"(?m)^( +)SETTINGS: .*$", lambda found: textwrap.indent(_described(), found[1]), Summarizer.__doc__
    )
