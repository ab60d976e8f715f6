"""Picks of a split run that gave no record, as the consumer keeps them: which slot, and r as it was opened."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from likeset.errors import BadDocument
from likeset.protocol.split.bought_summary import ShownPick

__all__ = ["failed_picks_in", "failed_picks_text"]


def failed_picks_text(picks: Mapping[str, Sequence[ShownPick]]) -> str:
    """As it stands in the file, by owner."""
    document = {owner: [_words(pick) for pick in shown] for owner, shown in picks.items()}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _words(pick: ShownPick) -> dict[str, Any]:
    return {"slot": pick.slot, "random": pick.random.hex(), "fault": pick.fault}


def failed_picks_in(path: Path) -> dict[str, dict[int, bytes]]:
    """By owner and slot, r as it was opened; nothing where no pick failed.

    Raises:
        BadDocument: the file is something else.
    """
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_bytes())
        return {
            str(owner): {int(pick["slot"]): bytes.fromhex(pick["random"]) for pick in picks}
            for owner, picks in document.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise BadDocument(str(path), "is not the list of failed picks that likeset wrote") from None
