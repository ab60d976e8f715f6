"""What a job may bring to a site: signed terms, and the two configurations that every job of likeset has.

Whoever submitted it, and whatever the server says of him. A file more, or a word that is different, and all of it is
refused before anything is written to the disk.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from likeset.transports.nvflare.job import CLIENT_CONFIG, SERVER_CONFIG
from likeset.transports.sites import MOST_RUNS
from likeset.trust.letters import MOST_TERMS_BYTES

_CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "config/config_fed_client.json": CLIENT_CONFIG,
    "config/config_fed_server.json": SERVER_CONFIG,
}
_INVITATION = re.compile(r"config/invitation-[0-9a-f]{64}\.bin")
_SIGNATURES = re.compile(r"(config/)?\.__nvfl_(sig\.json|submitter\.crt)")  # NVFlare's, of who submitted the job
_FOLDERS = ("config/",)
_MOST_BYTES = 1 << 16  # of a configuration or a signature
_MOST_FILES = MOST_RUNS + len(_CONFIGS) + 4
_JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FOREIGN = "a job that brings something else than terms"
_OTHER_CONFIG = "a job whose configuration is not likeset's"


def is_job_id(value: object) -> bool:
    """Whether NVFlare gave a job this name; anything else could name a folder outside, or be read as options."""
    return isinstance(value, str) and _JOB_ID.fullmatch(value) is not None


def why_zip_refused(data: object) -> str | None:
    """Why an app that came with a job is refused, in fixed words; None if it is one of likeset's."""
    if not isinstance(data, bytes):
        return _FOREIGN
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_FILES + len(_FOLDERS):
                return _FOREIGN
            files = [entry for entry in entries if entry.filename not in _FOLDERS]
            names = [entry.filename for entry in files]
            if len(set(names)) < len(names) or any(entry.file_size > _most_bytes(entry.filename) for entry in files):
                return _FOREIGN
            if any(_is_link(entry) for entry in entries):
                return _FOREIGN
            return _why_refused(names, {name: archive.read(name) for name in names if name in _CONFIGS})
    except Exception:  # decompressors have errors of their own kinds
        return _FOREIGN


def why_folder_refused(folder: Path) -> str | None:
    names: list[str] = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or len(names) > _MOST_FILES:
            return _FOREIGN
        if path.is_dir():
            if f"{name}/" not in _FOLDERS:
                return _FOREIGN
            continue
        if not path.is_file() or path.stat().st_size > _most_bytes(name):
            return _FOREIGN
        names.append(name)
    return _why_refused(names, {name: (folder / name).read_bytes() for name in names if name in _CONFIGS})


def _why_refused(names: Iterable[str], configs: Mapping[str, bytes]) -> str | None:
    others = [name for name in names if name not in _CONFIGS]
    if any(_INVITATION.fullmatch(name) is None and _SIGNATURES.fullmatch(name) is None for name in others):
        return _FOREIGN
    if set(configs) != set(_CONFIGS):
        return _OTHER_CONFIG
    for name, data in configs.items():
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return _OTHER_CONFIG
        if document != _CONFIGS[name]:
            return _OTHER_CONFIG
    return None


def _most_bytes(name: str) -> int:
    return MOST_TERMS_BYTES + 1 if _INVITATION.fullmatch(name) else _MOST_BYTES


def _is_link(entry: zipfile.ZipInfo) -> bool:
    kind = (entry.external_attr >> 16) & 0o170000
    return kind not in (0, 0o040000, 0o100000)
