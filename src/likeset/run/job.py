"""What a job asks for: the arguments of ``likeset match``, or the same in a ``job.yaml``."""

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, create_model

from likeset import arguments, documents
from likeset.documents import Document
from likeset.errors import BadDocument, InvalidArgument
from likeset.protocol.run_settings import PRESETS, RunSettings, settings

__all__ = ["Job"]

_FORM = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")  # sql:, sqlite:, postgres: and what else is no path
_SQLITE = "sqlite:"


class _Files(Document):
    """What stands first in a job."""

    likeset: Literal["job"] = "job"
    version: Literal[1] = 1
    schema_file: str = Field(alias="schema")
    target: str = Field(repr=False)  # an address may hold a password
    owners: dict[str, str] = Field(min_length=1, repr=False)


if TYPE_CHECKING:

    class _Settings(_Files, RunSettings):  # type: ignore[misc]  # a document is frozen by its configuration
        """A type checker reads the fields of ``RunSettings`` here; the model below has the very same."""

else:
    _Settings = create_model(
        "_Settings",
        __base__=_Files,
        **{setting.name: (setting.type, ... if setting.is_required else setting.default) for setting in settings()},
    )


class Job(_Settings):  # type: ignore[misc]  # likewise
    """A whole job.

    Attributes:
        schema_file: the schema that declares the columns (``schema`` in a file).
        target: the consumer's rows: a file or one of the forms of docs/sources.md.
        owners: each owner's rows, likewise.
        preset: settings by one name: ``paper``, as published; what is said beside it counts instead.
        public_rows: rows that anybody may see, on the same schema: they give the width of the release's kernel.
        seed_rows: public rows that start the summary of ``interactive``.
        consumer: the consumer's name.
        curator_card: between organisations, the name on the curator's card, which is pinned; None for the only one.
        witness: between organisations, the name on the pinned card of the witness of a split run; None for none.
        purpose: what the summary is for.
        ledger: file of the budgets, kept across runs; in the output directory if not given.
        out: the output directory.
        run: name of the run in the ledger; made up if not given.

    The other fields say how to match; they are declared in ``likeset.protocol.run_settings``.
    """

    preset: Literal["paper"] | None = None
    public_rows: str | None = Field(None, repr=False)
    seed_rows: str | None = Field(None, repr=False)
    consumer: str = "consumer"
    curator_card: str | None = None
    witness: str | None = None
    purpose: str = "a matched training set"
    ledger: str | None = None
    out: str = "matched"
    run: str | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The job in a file; paths in it count from the file's own directory."""
        return documents.read(path, cls)._with_preset().beside(Path(path).parent)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """A job from arguments; an error names the argument."""
        try:
            return documents.read_text(documents.to_yaml(given), cls, name="arguments")._with_preset()
        except BadDocument as error:
            raise BadDocument("arguments", error.reason, field=error.field) from error

    def _with_preset(self) -> Self:
        known = PRESETS[self.preset] if self.preset else {}
        unsaid = {name: value for name, value in known.items() if name not in self.model_fields_set}
        return self.model_copy(update=unsaid)

    def beside(self, folder: Path) -> Self:
        """The same job with paths that count from another directory."""

        def moved(path: str | None) -> str | None:
            if path is None or Path(path).is_absolute():
                return path
            if path.lower().startswith(_SQLITE):
                return _SQLITE + str(folder / path[len(_SQLITE) :])
            return path if _FORM.match(path) and not (folder / path).exists() else str(folder / path)

        return self.model_copy(
            update={
                "schema_file": moved(self.schema_file),
                "target": moved(self.target),
                "owners": {name: str(moved(path)) for name, path in self.owners.items()},
                "public_rows": moved(self.public_rows),
                "seed_rows": moved(self.seed_rows),
                "ledger": moved(self.ledger),
                "out": moved(self.out),
            }
        )

    def wishes(self) -> RunSettings:
        """What it asks for, beside files and names."""
        if self.epsilon == 0.0 and self.offers != "uniform":
            raise InvalidArgument(
                "epsilon",
                0,
                "allows no release of the target; raise it, or use --offers uniform (offers: uniform), without one",
            )
        if self.seed is not None:
            arguments.count("seed", self.seed, least=0)
        return RunSettings(**{field.name: getattr(self, field.name) for field in fields(RunSettings)})

    def document(self) -> dict[str, Any]:
        """As it stands in a ``job.yaml``."""
        return self.model_dump(by_alias=True, mode="json")
