"""The options that ``likeset match`` and ``likeset plan`` share."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likeset.errors import InvalidArgument

if TYPE_CHECKING:
    from likeset.run.job import Job

__all__ = ["job_from", "takes_a_job"]

JobFile = Annotated[
    Path | None, typer.Argument(metavar="[JOB.yaml]", help="A job file; options given beside it count instead.")
]
SchemaFile = Annotated[str | None, typer.Option("--schema", help="The schema that declares the columns.")]
TargetFile = Annotated[str | None, typer.Option("--target", help="Your rows: CSV, Parquet, or another source.")]
Owners = Annotated[
    list[str] | None, typer.Option("--owner", metavar="NAME=PATH", help="An owner's rows; once for each owner.")
]
Size = Annotated[int | None, typer.Option(help="How many rows you want.")]
Epsilon = Annotated[float | None, typer.Option(help="What owners may learn about a row of your target.  [default: 1]")]
Delta = Annotated[float | None, typer.Option(help="The chance that epsilon leaves out.  [default: 1e-5]")]
Protocol = Annotated[str | None, typer.Option(help="sealed or interactive.  [default: sealed]")]
OfferFactor = Annotated[
    float | None, typer.Option(help="Rows that the curator sees for each row wanted.  [default: 10]")
]
Offers = Annotated[str | None, typer.Option(help="auto, tilted or uniform.  [default: auto]")]
Auction = Annotated[str | None, typer.Option(help="auto, everyone, threshold or paper.  [default: auto]")]
Gamma = Annotated[str | None, typer.Option(help="Width of the kernel: a number, or median.  [default: median]")]
Weights = Annotated[
    bool | None, typer.Option("--weights/--no-weights", help="Weigh the rows to match better.", show_default=False)
]
HashDimension = Annotated[
    int | None,
    typer.Option(help="Show the curator hashes of this length instead of rows (sealed only).", show_default=False),
]
PublicRows = Annotated[
    str | None, typer.Option(help="Rows that anybody may see; they set the release's scale for free.")
]
Relation = Annotated[str | None, typer.Option(help="replace-one or add-or-remove.  [default: replace-one]")]
DeclaredSize = Annotated[
    int | None, typer.Option(help="Under add-or-remove: a public number for the target's rows.", show_default=False)
]
AcceptUnproven = Annotated[
    list[str] | None, typer.Option(metavar="PART", help="A part without a proof that you accept; repeatable.")
]
Quorum = Annotated[int | None, typer.Option(help="How many owners must take part.  [default: 1]")]
LedgerFile = Annotated[
    str | None, typer.Option("--ledger", help="Budgets that outlive this job.  [default: in the output directory]")
]
Run = Annotated[str | None, typer.Option(help="Name of the run in the ledger.", show_default=False)]
Noise = Annotated[str | None, typer.Option(help="secret, or simulated: repeatable and NOT private.  [default: secret]")]
Seed = Annotated[int | None, typer.Option(help="Of public coins and, with simulated noise, of everything.")]
Out = Annotated[str | None, typer.Option(help="Output directory; must not exist.  [default: matched]")]


_OPTIONS: dict[str, Any] = {
    "schema": SchemaFile,
    "target": TargetFile,
    "owner": Owners,
    "size": Size,
    "epsilon": Epsilon,
    "delta": Delta,
    "protocol": Protocol,
    "offers": Offers,
    "offer_factor": OfferFactor,
    "auction": Auction,
    "gamma": Gamma,
    "weights": Weights,
    "hash_dimension": HashDimension,
    "public_rows": PublicRows,
    "relation": Relation,
    "declared_size": DeclaredSize,
    "accept_unproven": AcceptUnproven,
    "quorum": Quorum,
    "ledger": LedgerFile,
    "run": Run,
    "noise": Noise,
    "seed": Seed,
    "out": Out,
}


def takes_a_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a job; it gets the job that they describe as its first argument."""
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        rest = {parameter.name: given.pop(parameter.name) for parameter in own}
        owners = given.pop("owner")
        command(job_from(given.pop("job"), owners=owners, **given), **rest)

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in _OPTIONS.items()]
    file = inspect.Parameter("job", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=JobFile)
    parameters = [file, *shared, *(parameter.replace(kind=keyword) for parameter in own)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options


def job_from(path: Path | None, **options: Any) -> "Job":
    """The job of a file, of options, or of a file with options in place of some of its fields."""
    from likeset.run.job import Job

    given = {name: value for name, value in options.items() if value is not None and value != []}
    if "owners" in given:
        given["owners"] = _owners(given["owners"])
    if isinstance(given.get("gamma"), str) and given["gamma"] != "median":
        given["gamma"] = _number("--gamma", given["gamma"])
    if "accept_unproven" in given:
        given["accept_unproven"] = list(given["accept_unproven"])
    if path is not None:
        document = {name: value for name, value in Job.load(path).document().items() if value is not None}
        return Job.of(**{**document, **given})
    for name, option in (("schema", "--schema"), ("target", "--target"), ("owners", "--owner"), ("size", "--size")):
        if name not in given:
            raise InvalidArgument(option, "missing", "give it, or a job file")
    return Job.of(**given)


def _owners(pairs: list[str]) -> dict[str, str]:
    owners: dict[str, str] = {}
    for pair in pairs:
        name, sign, place = pair.partition("=")
        if not sign or not name or not place:
            raise InvalidArgument("--owner", pair, "must be NAME=PATH, such as north=north.csv")
        if name in owners:
            raise InvalidArgument("--owner", name, "is given twice; each owner needs a name of its own")
        owners[name] = place
    return owners


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidArgument(option, text, "must be a number or median") from error
