"""The digest by which terms name the program: its code, its configuration, the engine and everything it is run with.

Each party computes it from its own files. Parties with different digests do not compute together.
"""

import hashlib
import json
from pathlib import Path

from likeset.split.engine.runtime import ENGINE_VERSION, RUNTIME_FIELDS

__all__ = ["ENGINE_FOLDER", "LOCK_FILE", "program_digest"]

ENGINE_FOLDER = Path(__file__).parent / "engine"
LOCK_FILE = Path(__file__).parent / "requirements-split.lock"


def program_digest(*, folder: Path = ENGINE_FOLDER, lock: Path = LOCK_FILE) -> str:
    """SHA-256 in hexadecimal letters.

    Args:
        folder: where the program's files are.
        lock: names every package of the worker's environment with its hashes.
    """
    whole = hashlib.sha256()
    configuration = json.dumps(RUNTIME_FIELDS, sort_keys=True, separators=(",", ":"))
    named = [("configuration", configuration.encode("ascii")), ("engine", ENGINE_VERSION.encode("ascii"))]
    named += [("lock", lock.read_bytes())]
    named += [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.py"))]
    for part in (b"likeset split program 1", *(piece for name, data in named for piece in (name.encode(), data))):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()
