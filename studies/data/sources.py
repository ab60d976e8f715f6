"""The data sets by name: what a worker needs to make the market of a cell."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from likeset.errors import InvalidArgument
from likeset.simulation.market import LabelledMarket
from studies.data.adult import adult_digest, adult_market
from studies.data.allstate import allstate_digest, allstate_market
from studies.data.heart import heart_digest, heart_market
from studies.data.image_markets import image_market
from studies.data.images import bundled, mnist

__all__ = ["SOURCES", "Source", "cached_market"]


@dataclass(frozen=True, slots=True)
class Source:
    """A data set.

    Attributes:
        digest: of the content at a place; reading it checks that it can be used.
        market: the market of (place, variant, seed, most rows of an owner).
        needs: what ``--data`` must name; empty if nothing is needed.
    """

    digest: Callable[[str | None], str]
    market: Callable[[str | None, str, int, int | None], LabelledMarket]
    needs: str = ""

    def check(self, study: str, place: str | None) -> None:
        """A place is given where one is needed, and only there."""
        if self.needs and place is None:
            raise InvalidArgument("--data", "not given", f"must name {self.needs} for the study {study}")
        if not self.needs and place is not None:
            raise InvalidArgument("--data", place, f"is not needed: the data of the study {study} come with it")


def _bundled_market(_place: str | None, variant: str, seed: int, rows: int | None) -> LabelledMarket:
    return image_market(bundled(), variant, seed=seed, validation=0.6, rows_per_owner=rows)


def _mnist_market(place: str | None, variant: str, seed: int, rows: int | None) -> LabelledMarket:
    return image_market(mnist(str(place)), variant, seed=seed, rows_per_owner=rows)


SOURCES: dict[str, Source] = {
    "digits": Source(lambda _place: bundled().digest, _bundled_market),
    "mnist": Source(
        lambda place: mnist(str(place)).digest,
        _mnist_market,
        needs="mnist.npz, a folder with the four idx files, or openml",
    ),
    "heart": Source(heart_digest, heart_market, needs="heart_disease_4hospitals.csv"),
    "adult": Source(adult_digest, adult_market, needs="adult.csv or adult.csv.gz"),
    "allstate": Source(allstate_digest, allstate_market, needs="Kaggle's train.csv"),
}


@lru_cache(maxsize=1)
def cached_market(data: str, place: str | None, variant: str, seed: int, rows_per_owner: int | None) -> LabelledMarket:
    """The market, kept until another is wanted: neighbouring cells share theirs."""
    return SOURCES[data].market(place, variant, seed, rows_per_owner)
