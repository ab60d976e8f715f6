"""dpmm's MST: a synthetic copy of a table of categories, with differential privacy for each of its rows.

    python run_dpmm.py tables.npz copies.npz EPSILON DELTA

Both files hold one array of category numbers for each table. ``NAME.sizes`` in the first holds the number of categories
of each column, which is public. The noise is dpmm's own and secret, so another call draws another copy.
"""

import sys

import numpy as np
import pandas as pd
from dpmm.models import mst

ITERATIONS = 200


class ShortInference(mst.FactoredInference):
    """Fits the noisy counts in fewer steps than dpmm's 2,500 and 5,000; fitting happens after the noise."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **{**options, "iters": ITERATIONS})


def copy(codes: np.ndarray, sizes: np.ndarray, *, epsilon: float, delta: float) -> np.ndarray:
    """As many synthetic rows."""
    names = [f"c{number}" for number in range(len(sizes))]
    model = mst.MSTGM(epsilon=epsilon, delta=delta, n_iters=ITERATIONS, n_jobs=1)
    model.set_random_state(np.random.RandomState())
    model.set_domain(dict(zip(names, sizes.tolist(), strict=True)))
    model.fit(pd.DataFrame(codes, columns=names))
    return model.generate(len(codes))[names].to_numpy(dtype=np.int64)


def main() -> None:
    """Copy every table of the first file."""
    source, destination, epsilon, delta = sys.argv[1:]
    mst.FactoredInference = ShortInference
    tables = np.load(source)
    copies = {
        name: copy(tables[name], tables[f"{name}.sizes"], epsilon=float(epsilon), delta=float(delta))
        for name in tables.files
        if not name.endswith(".sizes")
    }
    np.savez(destination, **copies)


if __name__ == "__main__":
    main()
