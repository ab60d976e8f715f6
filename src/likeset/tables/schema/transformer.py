"""The map of a schema as a scikit-learn transformer: for pipelines, and never fitted."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from likeset.errors import InvalidArgument

if TYPE_CHECKING:
    from likeset.tables.schema.schema import Schema

__all__ = ["DeclaredColumns"]


class DeclaredColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Declared columns of a frame as numbers; takes pandas, polars and Arrow tables.

    Args:
        schema: declares the columns.
    """

    def __init__(self, schema: "Schema") -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's names
        """Do nothing: what is declared is not learned."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """One line of features for each row."""
        table = self._table(X)
        return self.schema.map(table, table="X", locate=lambda offset: f"row {offset}", labels=False).rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002 - not needed
        """What each feature is."""
        return np.array(self.schema.feature_names, dtype=object)

    def _table(self, frame: Any) -> Any:
        if isinstance(frame, pa.Table | pa.RecordBatch):
            return frame
        module = type(frame).__module__.split(".")[0]
        if module == "pandas":
            wanted = [name for name in self.schema.columns if name in frame.columns]
            return pa.Table.from_pandas(frame[wanted], preserve_index=False)
        if module == "polars":
            return frame.to_arrow()
        raise InvalidArgument("X", type(frame).__name__, "must be a pandas or polars data frame, or an Arrow table")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        return tags
