"""Why a site said no: in a file of its own, for its own people."""

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path

from likeset.files import make_private_folder
from likeset.homes.mail import utc_now

REASONS_FILE = "abstentions.jsonl"
_MOST_REASONS = 1 << 23  # bytes in the file of reasons and in the one before it: a flood must not fill the disk


def note_reason(folder: Path, reason: str, *, now: datetime | None = None) -> None:
    """Into a file of the site's own; a full disk must not sound different to the other side."""
    line = json.dumps({"time": (now or utc_now()).isoformat(), "reason": reason})
    with contextlib.suppress(OSError):
        make_private_folder(folder)
        path = folder / REASONS_FILE
        if path.exists() and path.stat().st_size > _MOST_REASONS:
            path.replace(path.with_name(path.name + ".1"))  # what is newest is there, whatever came before
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(line + "\n")
