"""The data sets by name: what a worker needs to make the market of a cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from likeset.errors import InvalidArgument
from likeset.simulation import LabelledMarket
from studies.data.columns import adult_market, heart_market, read_adult, read_heart
from studies.data.images import bundled_images, image_market, mnist_images
from studies.data.states import adult_states_market, allstate_market, read_allstate


@dataclass(frozen=True, slots=True)
class MarketSource:
    """A data set.

    Attributes:
        digest: of the content at a place; reading it checks that it can be used.
        market: the market of (place, variant, seed, most rows of an owner).
        needs: what ``--data`` must name; empty if nothing is needed.
    """

    digest: Callable[[str | None], str]
    market: Callable[[str | None, str, int, int | None], LabelledMarket]
    needs: str = ""

    def check(self, study: str, location: str | None) -> None:
        """A place is given where one is needed, and only there."""
        if self.needs and location is None:
            raise InvalidArgument("--data", "not given", f"must name {self.needs} for the study {study}")
        if not self.needs and location is not None:
            raise InvalidArgument("--data", location, f"is not needed: the data of the study {study} come with it")


def _bundled_market(_place: str | None, variant: str, seed: int, rows: int | None) -> LabelledMarket:
    return image_market(bundled_images(), variant, seed=seed, validation=0.6, rows_per_owner=rows)


def _mnist_market(location: str | None, variant: str, seed: int, rows: int | None) -> LabelledMarket:
    return image_market(mnist_images(str(location)), variant, seed=seed, rows_per_owner=rows)


_ADULT = "adult.csv or adult.csv.gz"


def _adult_digest(location: str | None) -> str:
    return read_adult(location)[0].digest


SOURCES: dict[str, MarketSource] = {
    "digits": MarketSource(lambda _place: bundled_images().digest, _bundled_market),
    "mnist": MarketSource(
        lambda location: mnist_images(str(location)).digest,
        _mnist_market,
        needs="mnist.npz, a folder with the four idx files, or openml",
    ),
    "heart": MarketSource(
        lambda place: read_heart(place)[0].digest, heart_market, needs="heart_disease_4hospitals.csv"
    ),
    "adult": MarketSource(_adult_digest, adult_market, needs=_ADULT),
    "adult-states": MarketSource(_adult_digest, adult_states_market, needs=_ADULT),
    "allstate": MarketSource(
        lambda place: read_allstate(place)[0].digest, allstate_market, needs="train.csv of Kaggle's challenge"
    ),
}


def table_folder(location: str | None, files: Sequence[str]) -> str:
    """The folder that ``--data`` names."""
    if location is None or not Path(location).is_dir():
        raise InvalidArgument("--data", location or "not given", f"must name a folder with {' and '.join(files)}")
    return location


@lru_cache(maxsize=1)
def cached_market(
    data: str, location: str | None, variant: str, seed: int, rows_per_owner: int | None
) -> LabelledMarket:
    """The market, kept until another is wanted: neighbouring cells share theirs."""
    return SOURCES[data].market(location, variant, seed, rows_per_owner)
