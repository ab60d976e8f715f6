"""``likeset demo --network``: seven processes, and nothing of a row where it does not belong."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likeset.app.demo.network import CONSUMER, RUN
from likeset.homes import review
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.wire import Offer, decode

pytestmark = pytest.mark.slow

DENYING, KILLED = "digits-9-2", "digits-7-8"
ROWS = 200  # of each owner: 10 for each of 100 wanted, from five owners


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The demo's directory, and what it says."""
    out = tmp_path_factory.mktemp("network") / "demo"
    program = [sys.executable, "-c", "from likeset.app.cli import main; main()"]
    done = subprocess.run(  # noqa: S603 (our own command)
        [*program, "demo", "--network", "--json", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out, json.loads(done.stdout)


def offers(out: Path, owner: str) -> Offer:
    """What left an owner, from its own outbox."""
    with OwnerNode(out / "owners" / owner) as node:
        bodies = [decode(one.data).body for one in review.messages_that_left(node, RUN) if one.rows]
    (offer,) = bodies
    assert isinstance(offer, Offer)
    return offer


def canaries(offer: Offer) -> Iterator[bytes]:
    """A stretch of each row as it may stand in a file: as numbers of the message, as points of the image, as text."""
    for row, handle in zip(offer.rows, offer.handles, strict=True):
        points = np.rint(row / np.float32(offer.rows.max()) * 16).astype(np.uint8)[8:40]  # the middle of the image
        yield row[8:40].astype("<f4").tobytes()
        yield points.tobytes()
        yield ", ".join(map(str, points)).encode()
        yield " ".join(map(str, points)).encode()
        yield str(int(handle)).encode()
        yield f"{int(handle):x}".encode()


def test_the_demo_ends_with_four_owners_and_everything_holds(shown: tuple[Path, dict[str, Any]]) -> None:
    _, result = shown
    assert result["rows_selected"] == 100
    assert result["rows_seen"] == 4 * ROWS
    assert result["private"]
    assert result["warnings"] == [
        {"kind": "did-not-take-part", "owner": DENYING, "text": f"{DENYING} did not take part (abstains)"}
    ]
    assert result["checks"] == {"transcripts agree": True, "audit logs hold": True, "rows were charged once": True}
    assert [(one["disclosed"], one["disclosed_at_most"]) for one in result["owners"]] == [(None, ROWS)] * 5


def test_the_owner_that_was_killed_took_part_and_the_denying_one_sent_nothing(
    shown: tuple[Path, dict[str, Any]],
) -> None:
    out, _ = shown
    assert len(offers(out, KILLED).rows) == ROWS
    with OwnerNode(out / "owners" / DENYING) as node:
        assert review.messages_that_left(node, RUN) == []


def test_no_row_is_in_any_file_of_another_side(shown: tuple[Path, dict[str, Any]]) -> None:
    """Offers pass through the curator's memory; the consumer keeps the rows that it bought, and only those."""
    out, _ = shown
    own = {name.name: name for name in (out / "owners").iterdir()}
    elsewhere = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and not path.is_symlink()}
    known = (out / "data", out / CONSUMER)
    searched = {path: data for path, data in elsewhere.items() if not any(path.is_relative_to(one) for one in known)}
    assert sum("log" in path.name for path in searched) >= 7
    for name, folder in own.items():
        if name == DENYING:
            continue
        wanted = list(canaries(offers(out, name)))
        mine = b"".join(data for path, data in searched.items() if path.is_relative_to(folder))
        assert any(one in mine for one in wanted[:6]), "a search that finds nothing at home means nothing elsewhere"
        for path, data in searched.items():
            if not path.is_relative_to(folder):
                assert not [one for one in wanted if one in data], path


def test_the_target_is_nowhere_but_at_the_consumer(shown: tuple[Path, dict[str, Any]]) -> None:
    out, _ = shown
    target = np.load(out / CONSUMER / "runs" / RUN / "target.npy")
    wanted = [row[8:40].astype("<f4").tobytes() for row in target]
    own = (out / "data", out / CONSUMER)
    others = [path for path in out.rglob("*") if not any(path.is_relative_to(place) for place in own)]
    assert len(others) > len(wanted)
    for path in others:
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not [one for one in wanted if one in data], path
