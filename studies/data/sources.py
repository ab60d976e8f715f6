"""The data sets by name: what a worker needs to make the market of a cell."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from likeset.errors import InvalidArgument
from likeset.simulation import LabelledMarket
from studies.data.columns import adult_digest, adult_market, heart_digest, heart_market
from studies.data.images import bundled_images, image_market, mnist_images


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


SOURCES: dict[str, MarketSource] = {
    "digits": MarketSource(lambda _place: bundled_images().digest, _bundled_market),
    "mnist": MarketSource(
        lambda location: mnist_images(str(location)).digest,
        _mnist_market,
        needs="mnist.npz, a folder with the four idx files, or openml",
    ),
    "heart": MarketSource(heart_digest, heart_market, needs="heart_disease_4hospitals.csv"),
    "adult": MarketSource(adult_digest, adult_market, needs="adult.csv or adult.csv.gz"),
}


@lru_cache(maxsize=1)
def cached_market(
    data: str, location: str | None, variant: str, seed: int, rows_per_owner: int | None
) -> LabelledMarket:
    """The market, kept until another is wanted: neighbouring cells share theirs."""
    return SOURCES[data].market(location, variant, seed, rows_per_owner)
