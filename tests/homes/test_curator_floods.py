"""A flood of terms at the curator: nothing of runs that owners did not agree to is kept, computed or looked for."""

import gc
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from card_world import give_card, secret_of, signed_terms
from node_world import SCHEMA, terms

from likeset.errors import NotCurated
from likeset.homes.curator_home import CuratorHome, curator, make_curator_home
from likeset.homes.mail import CuratorRun, Invitation
from likeset.ledger.budget import Charge
from likeset.ledger.ledger import Request
from likeset.privacy.events import NoRelease
from likeset.privacy.guarantee import View
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Budget, Kernel, Terms
from likeset.transports.nvflare.job import write_settings
from likeset.transports.nvflare.run_report import News
from likeset.trust.cards import SealingSecret
from likeset.trust.letters import accept

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")

MANY = tuple(f"o{place}" for place in range(1024))
AUCTION: dict[str, Any] = {
    "auction": "threshold",
    "auction_epsilon": 1.0,
    "auction_offset": 5,
    "owner_budget": Budget(2.0, 1e-5),
}
KINDS: dict[str, dict[str, Any]] = {
    "sealed": {},
    "auction": AUCTION,
    "interactive": {"protocol": "interactive", "summary_release": "gaussian", "owner_budget": Budget(2.0, 1e-5)},
}


@pytest.fixture
def home(tmp_path: Path) -> CuratorHome:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    made = make_curator_home(tmp_path / "curator")
    made.add_schema(tmp_path / "schema.yaml")
    give_card(made.folder, CURATOR)
    made.pins().pin(secret_of("new-clinic").card, "consumer", fingerprint=None)
    return made


def _seat(home: CuratorHome, run: Terms) -> CuratorRun:
    """The curator's side of a run, whose terms came signed."""
    return curator(Invitation.read(signed_terms(run)), CURATOR, home.folder)


def on_disk(home: CuratorHome) -> dict[str, int]:
    """Every file and folder, with its bytes."""
    gc.collect()  # while the book of letters is open, there are two files more
    return {
        str(path.relative_to(home.folder)): path.stat().st_size if path.is_file() else 0
        for path in home.folder.rglob("*")
    }


class _Site:
    """A site that says whether it takes part, and may not be asked for more."""

    def __init__(self, name: str, standing: str | bytes) -> None:
        self.name = name
        self._standing = standing

    def __call__(self, timeout: float) -> "_Site":
        assert timeout > 0
        return self

    def standing(self, digest: str) -> str | bytes:
        assert len(digest) == 64
        return self._standing

    def __getattr__(self, called: str) -> Any:
        raise AssertionError(f"{self.name} was called: {called}")


def _accepted(run: Terms, owner: str) -> bytes:
    """What an owner signs to take part."""
    signed = accept(
        secret_of(owner),
        run_id=bytes.fromhex(run.run_id),
        terms=bytes.fromhex(run.digest),
        role="owner",
        party=owner,
        run_key=SealingSecret.generate().public,
    )
    return signed.to_bytes()


def submitted(home: CuratorHome, run: Terms, standing: Callable[[str], str | bytes]) -> Any:
    """A job at the curator's server; returns its report when all has ended."""
    from likeset.transports.nvflare.parts import _curate_run

    place = home.folder.parent
    write_settings(place, factory="likeset.homes.curator_home:curator", folder=home.folder)
    context = SimpleNamespace(
        clients=[_Site(name, standing(name)) for name in (*run.owners, run.consumer)],
        workspace=SimpleNamespace(get_site_config_dir=lambda: str(place)),
        is_aborted=lambda: False,
    )
    report, end = _curate_run(Invitation.read(signed_terms(run)), context, News())
    end()
    return report


@pytest.mark.parametrize("kind", KINDS)
def test_a_curator_of_terms_that_nobody_agreed_to_leaves_nothing_on_the_disk(home: CuratorHome, kind: str) -> None:
    """With 1,024 owners a ledger has two accounts of each: three such runs took megabytes."""
    before = on_disk(home)
    for place in range(3):
        seat = _seat(home, terms(run=f"r{place}", owners=MANY, **KINDS[kind]))
        assert seat.receipts() == {}
        seat.letters.identity.book.close()
    assert on_disk(home) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", ["abstains", pytest.param("waiting", marks=pytest.mark.slow)])
def test_a_job_without_a_quorum_ends_before_anybody_is_asked_and_leaves_nothing(
    home: CuratorHome, kind: str, said: str
) -> None:
    before = on_disk(home)
    for place in range(3):
        run = terms(run=f"r{place}", expires="2099-01-01", owners=("a", "b", "c"), quorum=2, **KINDS[kind])
        ready = {"a": _accepted(run, "a"), "new-clinic": "ready"}
        report = submitted(home, run, lambda name, ready=ready: ready.get(name, said))  # type: ignore[misc]
        assert report.outcome == "quorum missed"
        assert report.unanswered == {"b": "abstains", "c": "abstains"}
        assert (report.calls, report.messages) == (4, 0)
    assert on_disk(home) == before


def test_a_stranger_reads_in_its_report_that_nobody_there_knows_its_card(home: CuratorHome) -> None:
    home.pins().revoke("new-clinic", "keys stolen")
    before = on_disk(home)
    report = submitted(home, terms(expires="2099-01-01"), lambda _: "abstains")
    words = "the curator has not pinned the card of this consumer; give it to the curator's people"
    assert (report.outcome, report.detail, report.calls) == ("not curated", words, 0)
    assert on_disk(home) == before


def test_terms_that_have_ended_are_called_so_and_nobody_is_asked(home: CuratorHome) -> None:
    report = submitted(home, terms(expires="2020-01-01"), lambda _: "abstains")
    assert (report.outcome, report.calls) == ("terms expired", 0)


def test_a_feature_map_is_not_built_for_terms_that_nobody_agreed_to(
    home: CuratorHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("likeset.geometry.features.FourierFeatures._draw")
    wide = Kernel(columns=1 << 10, dimension=1 << 16, gamma=0.4, seed=7)
    _seat(home, terms(kernel=wide, **KINDS["interactive"]))


def test_the_ledger_is_there_for_the_first_charge_and_found_again(home: CuratorHome) -> None:
    run = terms(**AUCTION)
    first = home.charges(run)
    assert list(home.ledgers.iterdir()) == []
    asked, charge = Request(run.run, 1, "curator/auction", content=b"x"), Charge(((View.owners("a"), NoRelease()),))
    assert first.answer(charge, lambda: (b"drawn", None), request=asked) == b"drawn"
    assert (home.ledgers / f"{run.digest}.sqlite").is_file()
    again = home.charges(run).answer(charge, lambda: (b"anew", None), request=asked)
    assert again == b"drawn"


def test_no_file_is_looked_for_by_anything_but_a_digest(home: CuratorHome) -> None:
    """Another answer for a file that is there than for one that is not would tell which there are."""
    (home.folder.parent / "secret.yaml").write_text("password: x\n")
    said = set()
    for name in ("../../secret", "../../not-there", str(home.folder.parent / "secret"), "", "ab" * 32 + "\n"):
        with pytest.raises(NotCurated) as refused:
            home.schema(name)
        said.add(str(refused.value))
    assert len(said) == 1
