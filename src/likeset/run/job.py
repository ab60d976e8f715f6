"""What a job asks for: the arguments of ``likeset match``, or the same in a ``job.yaml``."""

import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from likeset import arguments, documents
from likeset.documents import Document
from likeset.errors import BadDocument, InvalidArgument
from likeset.protocol.wishes import Wishes
from likeset.run.order import Order

__all__ = ["Job"]

_FORM = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")  # sql:, sqlite:, postgres: and what else is no path
_SQLITE = "sqlite:"


class Job(Document):
    """A whole job.

    Attributes:
        schema_file: the schema that declares the columns (``schema`` in a file).
        target: the consumer's rows: a file or one of the forms of docs/sources.md.
        owners: each owner's rows, likewise.
        public_rows: rows that anybody may see, on the same schema: they give the width of the release's kernel.
        seed_rows: public rows that start the summary of ``interactive``.
        consumer: the consumer's name.
        purpose: what the summary is for.
        ledger: file of the budgets, kept across runs; in the output directory if not given.
        out: the output directory.
        run: name of the run in the ledger; made up if not given.

    The other fields say how to match; they are described in ``likeset.Summarizer``.
    """

    likeset: Literal["job"] = "job"
    version: Literal[1] = 1
    schema_file: str = Field(alias="schema")
    target: str = Field(repr=False)  # an address may hold a password
    owners: dict[str, str] = Field(min_length=1, repr=False)
    size: int
    epsilon: float = 1.0
    delta: float = 1e-5
    protocol: Literal["sealed", "interactive"] = "sealed"
    gamma: float | Literal["median"] = "median"
    gamma_scale: float = 1.0
    release_gamma: float | None = None
    dimension: int | Literal["auto"] = "auto"
    offer_factor: float = 10.0
    offers: Literal["auto", "tilted", "uniform"] = "auto"
    label_strata: bool = True
    thinning: bool = True
    auction: Literal["auto", "everyone", "threshold", "paper"] = "auto"
    auction_epsilon: float = 1.0
    summary_release: Literal["none", "gaussian", "mwem"] = "none"
    schedule: str = ""
    owner_epsilon: float = 0.0
    hash_dimension: int | None = None
    weights: bool = False
    relation: Literal["replace-one", "add-or-remove"] = "replace-one"
    declared_size: int | None = None
    accept_unproven: tuple[str, ...] = ()
    price_per_row: float = 0.0
    quorum: int = 1
    noise: Literal["secret", "simulated"] = "secret"
    seed: int | None = None
    public_rows: str | None = Field(None, repr=False)
    seed_rows: str | None = Field(None, repr=False)
    consumer: str = "consumer"
    purpose: str = "a matched training set"
    ledger: str | None = None
    out: str = "matched"
    run: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The job in a file; paths in it count from the file's own directory."""
        return documents.read(path, cls).beside(Path(path).parent)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """A job from arguments; an error names the argument."""
        try:
            return documents.read_text(documents.to_yaml(given), cls, name="arguments")
        except BadDocument as error:
            raise BadDocument("arguments", error.reason, field=error.field) from error

    def beside(self, folder: Path) -> Self:
        """The same job with paths that count from another directory."""

        def moved(place: str | None) -> str | None:
            if place is None or Path(place).is_absolute():
                return place
            if place.lower().startswith(_SQLITE):
                return _SQLITE + str(folder / place[len(_SQLITE) :])
            return place if _FORM.match(place) and not (folder / place).exists() else str(folder / place)

        return self.model_copy(
            update={
                "schema_file": moved(self.schema_file),
                "target": moved(self.target),
                "owners": {name: str(moved(place)) for name, place in self.owners.items()},
                "public_rows": moved(self.public_rows),
                "seed_rows": moved(self.seed_rows),
                "ledger": moved(self.ledger),
                "out": moved(self.out),
            }
        )

    def order(self, *, rows_per_unit: int, seed_rows: Any = None) -> Order:
        """The same as an order to the market."""
        if self.epsilon == 0.0 and self.offers != "uniform":
            raise InvalidArgument(
                "epsilon", 0, "allows no release of the target; raise it, or ask for uniform offers, which need none"
            )
        if self.seed is not None:
            arguments.count("seed", self.seed, least=0)
        given = self.model_dump()
        wishes = {name: given[name] for name in Wishes.__dataclass_fields__ if name in given}
        wishes["run"] = self.run or "run"
        names = ("gamma", "gamma_scale", "release_gamma", "hash_dimension", "weights", "declared_size", "noise")
        return Order(
            wishes=Wishes(**wishes, rows_per_unit=rows_per_unit),
            seed_rows=seed_rows,
            random_state=self.seed,
            **{name: given[name] for name in names},
        )

    def document(self) -> dict[str, Any]:
        """As it stands in a ``job.yaml``."""
        return self.model_dump(by_alias=True, mode="json")
