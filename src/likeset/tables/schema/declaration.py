"""What stands in a ``schema.yaml``: columns, label, id, and what is true of all columns."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from likeset.documents import Document
from likeset.tables.schema.columns import Bounds, Column, Values, Weight
from likeset.tables.schema.labels import MOST_LETTERS

__all__ = ["MISSING_WORDS", "MOST_TEXT_BYTES", "Declaration", "IdDeclaration", "LabelDeclaration"]

MOST_TEXT_BYTES = 1 << 20
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")


class LabelDeclaration(Document):
    """The column that a model is to predict; not used for matching unless ``match`` says so."""

    column: str
    kind: Literal["category", "number", "text"] = "category"
    values: Values | None = None
    bounds: Bounds | None = None
    match: bool = False
    weight: Weight = 1.0
    from_data: bool = False

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.values is not None and self.kind != "category":
            raise ValueError("values belong to kind: category")
        if self.bounds is not None and self.kind != "number":
            raise ValueError("bounds belong to kind: number")
        if self.match and self.values is None and self.bounds is None:
            raise ValueError("match: true needs the values of a category, or the bounds of a number")
        if any(isinstance(value, str) and len(value) > MOST_LETTERS for value in self.values or ()):
            raise ValueError(f"a value of the label has more than {MOST_LETTERS} letters; shorten it")
        return self


class IdDeclaration(Document):
    """The column that says whose row it is: privacy then protects all rows of an id. It never leaves an owner.

    ``rows_per_id`` is how many rows of one id there may be: more are an error. ``keep`` is how many of them take part,
    drawn in secret: then there may be as many as there are, unless ``rows_per_id`` says otherwise as well.
    """

    column: str
    rows_per_id: Annotated[int, Field(ge=1)] | None = None
    keep: Annotated[int, Field(ge=1)] | None = None
    from_data: bool = False

    @property
    def most_rows(self) -> int | None:
        """Of one id that a table may have; None for any number."""
        return 1 if self.rows_per_id is None and self.keep is None else self.rows_per_id

    @property
    def rows_per_unit(self) -> int:
        """Of one id that take part, at most."""
        return min(rows for rows in (self.most_rows, self.keep) if rows is not None)


class Declaration(Document):
    """What stands in ``schema.yaml``.

    ``text_bytes`` is how long a cell may be whose words nobody declared: free text, and categories with ``unknown``
    words. Rows with longer cells are no rows of a run.
    """

    likeset: Literal["schema"]
    version: Literal[1]
    columns: Annotated[dict[str, Column], Field(min_length=1)]
    label: LabelDeclaration | None = None
    id: IdDeclaration | None = None
    missing_words: tuple[str, ...] = MISSING_WORDS
    text_bytes: Annotated[int, Field(ge=1, le=MOST_TEXT_BYTES)] = 4096

    @model_validator(mode="after")
    def _possible(self) -> Self:
        named = (*self.columns, *(declared.column for declared in (self.label, self.id) if declared is not None))
        if not all(name.strip() for name in named):
            raise ValueError("a column without a name cannot be a feature, label or id; give it a name in the file")
        if self.label is not None and self.label.column in self.columns:
            raise ValueError(f"label: {self.label.column!r} is among the columns too; use match: true in the label")
        taken = {*self.columns, *([self.label.column] if self.label else [])}
        if self.id is not None and self.id.column in taken:
            raise ValueError(f"id: {self.id.column!r} is used as a column or label too; an id never leaves an owner")
        return self
