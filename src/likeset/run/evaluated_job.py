"""A finished job's summary as a training set, judged on a labelled file of the target's kind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from likeset import documents
from likeset.errors import BadDocument, BadTable, InvalidArgument
from likeset.geometry.offers import uniform
from likeset.run.evaluation import Evaluation, evaluate_sets, read_ids
from likeset.run.job import Job
from likeset.run.job_folder import JOB
from likeset.run.publish import SUMMARY, read_result
from likeset.run.trained_models import TrainingRows
from likeset.tables.scan.row_pass import without_dictionaries
from likeset.tables.schema import Schema
from likeset.tables.sources.source import open_source

__all__ = ["EVALUATION", "evaluate_job", "read_evaluation", "write_evaluation"]

EVALUATION = "evaluation.json"

_DRAWS = 5
_MOST_ROWS = 1_000_000


def evaluate_job(
    folder: Path,
    test: str,
    *,
    schema_file: str | None = None,
    owners: Mapping[str, str] | None = None,
    by_owner: bool = False,
) -> Evaluation:
    """Train models on the summary in a job's directory, and judge them on a test file.

    Args:
        folder: the output directory of a finished job.
        test: labelled rows of the target's kind, with the id column where the schema declares one.
        schema_file: the schema of the job: its encoding is that of the models' rows; as the job names it if None.
        owners: files of all owners, where the caller has them: all their rows, and as many drawn at random, are trained
            on as well.
        by_owner: whether to say what models lose without each owner's rows.

    Raises:
        LikesetError: with what is wrong and what to do.
    """
    result, _ = read_result(folder)
    schema_file = _schema_of(folder) if schema_file is None else schema_file
    schema = Schema.load(schema_file)
    if schema.label_column is None:
        raise InvalidArgument("schema", schema_file, "declares no label; there is nothing that a model could predict")
    if schema.digest != result.get("schema_digest"):
        raise InvalidArgument("schema", schema_file, "is not the schema of this job; give the one that it was run with")
    table = _summary_table(folder)
    mapped = schema.map(table, table=str(folder / SUMMARY), locate=lambda row: f"row {row + 1}")
    extra = table.column("likeset_weight" if "likeset_weight" in table.column_names else "weight")
    summary = TrainingRows(mapped.rows, mapped.labels, np.asarray(extra.to_numpy(), dtype=np.float64))
    sets = {"the summary": [summary]}
    if owners:
        sets |= _all_rows({name: _labelled(address, schema) for name, address in owners.items()}, len(mapped.rows))
    whose = table.column("likeset_owner" if "likeset_owner" in table.column_names else "owner")
    names = np.array(whose.to_pylist(), dtype=np.str_) if by_owner else None
    return evaluate_sets(sets, _labelled(test, schema), ids=read_ids(test, schema), owners=names)


def _schema_of(folder: Path) -> str:
    """The schema that a job names in its own directory."""
    path = folder / JOB
    named = Job.load(path).schema_file if path.exists() else None
    if named is None or not Path(named).exists():
        reason = "is not where the job had it" if named is not None else f"is named in no {JOB} there"
        raise InvalidArgument("--schema", "missing", f"the schema {reason}; give the one that the job was run with")
    return named


def write_evaluation(folder: Path, evaluation: Evaluation) -> dict[str, Any]:
    """Keep it beside the result; returns what was written."""
    document = evaluation.document()
    documents.write_text(folder / EVALUATION, json.dumps(document, indent=2, allow_nan=False) + "\n")
    return document


def read_evaluation(folder: Path) -> dict[str, Any] | None:
    """What was kept; None where nobody evaluated."""
    path = folder / EVALUATION
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadDocument(str(path), "cannot be read; run likeset evaluate again") from error
    if not isinstance(document, dict):
        raise BadDocument(str(path), "is no evaluation; run likeset evaluate again")
    return document


def _summary_table(folder: Path) -> pa.Table:
    try:
        return without_dictionaries(pq.read_table(folder / SUMMARY))
    except (OSError, pa.ArrowException) as error:
        raise BadDocument(str(folder / SUMMARY), "cannot be read; run the job again") from error


def _labelled(address: str, schema: Schema) -> TrainingRows:
    """All rows of a file, as the schema maps them, with their labels."""
    blocks = []
    with open_source(address) as source:
        for block in source.blocks(tuple(dict.fromkeys((*schema.columns, str(schema.label_column))))):
            if block.first_row + len(block) > _MOST_ROWS:
                raise BadTable(source.name, f"has more than {_MOST_ROWS:,} rows; a sample of them will do")
            blocks.append(schema.map(without_dictionaries(block.table), table=source.name, locate=block.locate))
        if not blocks:
            raise BadTable(source.name, "has no rows; give a file with labelled rows")
    return TrainingRows(
        np.concatenate([block.rows for block in blocks]), np.concatenate([block.labels for block in blocks])
    )


def _all_rows(owners: Mapping[str, TrainingRows], size: int) -> dict[str, list[TrainingRows]]:
    """As many rows as the summary has, the same number of each owner, drawn several times; and all of them."""
    rows = np.concatenate([own.rows for own in owners.values()])
    labels = np.concatenate([own.labels for own in owners.values()])
    sizes = [len(own.labels) for own in owners.values()]
    starts, coins = np.cumsum([0, *sizes[:-1]]), np.random.default_rng(0)
    draws = []
    for _ in range(_DRAWS):
        drawn = uniform(sizes, min(size, len(rows)), coins=coins)
        indices = np.concatenate([start + chosen for start, chosen in zip(starts, drawn, strict=True)])
        draws.append(TrainingRows(rows[indices], labels[indices]))
    return {f"uniform rows, {_DRAWS} draws": draws, "all rows": [TrainingRows(rows, labels)]}
