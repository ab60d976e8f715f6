"""How the curator's part of NVFlare calls sites: who counts as one that takes part, and that receipts go to all."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from called_sites import Clock, Site, curated, needs_nvflare, sites_of
from engine_scenarios import SITES, charges, give_orders, settle_sites
from letter_wire import SERVER
from protocol_world import CONSUMER, terms

from likeset.errors import HomeRestored
from likeset.homes.mail import CuratorRun, Identity, Invitation
from likeset.transports.outcomes import Ending

pytestmark = needs_nvflare


@pytest.fixture
def invited(tmp_path: Path) -> Invitation:
    """To a run among sites that were settled."""
    return settle_sites(tmp_path, [terms(run="called", quorum=2)])["called"]


def test_an_owner_who_accepts_when_the_run_has_begun_is_absent_from_it(tmp_path: Path, invited: Invitation) -> None:
    """The consumer fixed who takes part; the report says so when the run is resumed, too."""
    give_orders(tmp_path, "c", undecided=["called"])
    for decided in (False, True):
        report, _ = curated(invited, tmp_path, sites_of(invited, tmp_path, Clock()))
        assert report.outcome is Ending.DONE
        assert report.unanswered == {"c": "abstains"}
        assert not decided or isinstance(sites_of(invited, tmp_path, Clock())[2].standing(invited.terms.digest), bytes)
        give_orders(tmp_path, "c")
    assert charges(tmp_path, "c", "called") == 0


@pytest.mark.parametrize(
    "said",
    [
        lambda sites, digest: sites[0].standing(digest),
        lambda sites, digest: sites[1].standing(digest)[:-1],
        lambda _sites, _digest: b"accepted",
        lambda _sites, _digest: "ready",
        lambda _sites, _digest: ["acceptance"],
        lambda sites, digest: sites[1].standing(digest) + bytes(1 << 14),
    ],
    ids=["another's", "cut", "other bytes", "a word", "a list", "too long"],
)
def test_who_says_something_else_than_its_own_acceptance_abstains(
    tmp_path: Path, invited: Invitation, said: Callable[[list[Site], str], object]
) -> None:
    sites = sites_of(invited, tmp_path, Clock())
    honest = sites_of(invited, tmp_path, Clock())
    sites[1].standing = lambda digest: said(honest, digest)  # type: ignore[method-assign]
    report, _ = curated(invited, tmp_path, sites)
    assert report.outcome is Ending.DONE
    assert report.unanswered == {"b": "abstains"}
    assert charges(tmp_path, "b", "called") == 0


def test_without_a_quorum_nothing_is_asked_drawn_or_kept(tmp_path: Path, invited: Invitation) -> None:
    give_orders(tmp_path, "b", deny=["called"])
    give_orders(tmp_path, "c", deny=["called"])
    report, end = curated(invited, tmp_path, sites_of(invited, tmp_path, Clock()))
    end()
    assert report.outcome is Ending.QUORUM_MISSED
    assert report.calls == 4
    assert sum(charges(tmp_path, site, "called") for site in SITES) == 0
    assert Identity.of(tmp_path / SERVER).book.run_keys(bytes.fromhex(invited.terms.digest)) is None


def test_a_curator_that_was_put_back_from_an_old_copy_ends_the_run_and_sends_no_receipt(
    tmp_path: Path, invited: Invitation
) -> None:
    shutil.copytree(tmp_path / SERVER, tmp_path / "old")
    curated(invited, tmp_path, sites_of(invited, tmp_path, Clock()))
    shutil.rmtree(tmp_path / SERVER)
    (tmp_path / "old").rename(tmp_path / SERVER)
    report, end = curated(invited, tmp_path, sites_of(invited, tmp_path, Clock()))
    end()
    assert (report.outcome, report.detail) == (Ending.FAILED, HomeRestored.__name__)
    assert not list(tmp_path.rglob("*.receipt"))


def test_a_consumer_that_does_not_answer_is_said_to(tmp_path: Path, invited: Invitation) -> None:
    give_orders(tmp_path, CONSUMER, deny=["called"])
    report, _ = curated(invited, tmp_path, sites_of(invited, tmp_path, Clock()))
    assert report.outcome is Ending.NO_CONSUMER


def test_who_does_not_answer_does_not_keep_the_others_from_their_receipts(tmp_path: Path, invited: Invitation) -> None:
    """All three must be under way at once for the barrier to open."""
    sites, barrier = sites_of(invited, tmp_path, Clock()), threading.Barrier(3, timeout=600.0)
    _, end = curated(invited, tmp_path, sites)
    for site in sites[:3]:

        def hear(data: bytes, site: Site = site) -> object:
            barrier.wait()
            if site.name == "b":
                raise RuntimeError("the job is over")
            return Site.hear(site, data)

        site.hear = hear  # type: ignore[method-assign]
    end()
    assert [site.name for site in sites if site.heard and site.heard[-1][0] == "receipt"] == ["a", "c"]


def test_a_curator_that_cannot_sign_sends_nothing_and_the_run_ended_as_it_did(
    tmp_path: Path, invited: Invitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: CuratorRun) -> tuple[bytes, ...]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CuratorRun, "end", broken)
    sites = sites_of(invited, tmp_path, Clock())
    report, end = curated(invited, tmp_path, sites)
    end()
    assert report.outcome is Ending.DONE
    assert not list(tmp_path.rglob("*.receipt"))
