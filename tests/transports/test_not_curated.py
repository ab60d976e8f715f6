"""A curator that lacks what the terms name says so to whoever submitted the run, and asks nobody."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from letter_world import make_identity, terms_between
from node_world import SCHEMA, SCHEMA_OF_ALL
from protocol_world import CONSUMER, terms

from likeset.homes.mail import Identity, Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.nvflare.job import write_settings
from likeset.transports.nvflare.run_report import News
from likeset.transports.outcomes import Ending

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nvflare") is None, reason="needs likeset[nvflare]")


class _Site:
    """A site that nobody may call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, called: str) -> Any:
        raise AssertionError(f"{self.name} was called: {called}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_digest": "ab" * 32}, "the curator does not know the schema abababababab that the terms name"),
        (
            {"protocol": "interactive", "seed_rows": 3, "seed_digest": "cd" * 32},
            "the curator does not have the public seed rows cdcdcdcdcdcd that the terms name",
        ),
    ],
)
def test_the_run_ends_before_anybody_is_asked_and_says_why(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    from likeset.homes.curator_home import make_curator_home
    from likeset.transports.nvflare.parts import _curate_run

    (tmp_path / "schema.yaml").write_text(SCHEMA)
    make_curator_home(tmp_path / "curator").add_schema(tmp_path / "schema.yaml")
    homes = {name: make_identity(tmp_path / name, name) for name in (CONSUMER, "a", "b", "c")}
    homes[CURATOR] = Identity.of(tmp_path / "curator")
    homes[CURATOR].pins.pin(homes[CONSUMER].secret.card, "consumer", fingerprint=None)
    write_settings(tmp_path, factory="likeset.homes.curator_home:curator", folder=tmp_path / "curator")
    context = SimpleNamespace(
        clients=[_Site("a"), _Site("hospital")],
        workspace=SimpleNamespace(get_site_config_dir=lambda: str(tmp_path)),
        is_aborted=lambda: False,
    )
    agreed = terms_between(terms(**{"schema_digest": SCHEMA_OF_ALL.digest, **changes}), homes)
    report, end = _curate_run(Invitation.sign(agreed, homes[CONSUMER]), context, News())
    assert (report.outcome, report.detail) == (Ending.NOT_CURATED, words)
    assert (report.calls, report.messages, report.unanswered) == (0, 0, {})
    end()
