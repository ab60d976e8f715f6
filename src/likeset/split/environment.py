"""The worker's own environment: made from a lock file, apart from likeset's, with which it disagrees about numpy."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from likeset.errors import InvalidArgument
from likeset.split.digest import LOCK_FILE

__all__ = [
    "PYTHON_VARIABLE",
    "check_environment",
    "environment_folder",
    "locked_versions",
    "make_environment",
    "split_python",
    "usual_folder",
    "worker_python",
]

PYTHONS = ("3.10", "3.11")
PYTHON_VARIABLE: Final = "LIKESET_SPLIT_PYTHON"
"""Names the interpreter of a worker's environment that lies somewhere else."""

_PROJECT = Path(__file__).parents[3]
_NEEDED = " or ".join(PYTHONS)
_SETUP = "make it with `likeset split setup`"
_INSTALL_SECONDS = 1800


def split_python() -> Path:
    """The interpreter of the environment that workers are started from here.

    That of the variable ``LIKESET_SPLIT_PYTHON``; else of ``.venv-split`` beside the project's source; else of the
    place that `likeset split setup` makes.

    Raises:
        InvalidArgument: there is no environment, or it is half made.
    """
    return worker_python(environment_folder())


def environment_folder() -> Path:
    """Where that environment is, or would be."""
    named = os.environ.get(PYTHON_VARIABLE)
    if named:
        return Path(named).parent.parent
    beside = _PROJECT / ".venv-split"
    return beside if beside.is_dir() and (_PROJECT / "pyproject.toml").is_file() else usual_folder()


def usual_folder() -> Path:
    """The place that `likeset split setup` makes: of this user, and of this version of the lock file."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "likeset" / f"split-{hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]}"


def worker_python(folder: Path) -> Path:
    """The interpreter of a worker's environment.

    Raises:
        InvalidArgument: there is none, or it is half made.
    """
    path = folder / "bin" / "python"
    if not path.is_file():
        raise InvalidArgument("environment", folder, f"is no environment for workers; {_SETUP}")
    missing = _missing(folder)
    if missing:
        reason = f"is half made: {len(missing)} of its packages are missing or of another version; {_SETUP}"
        raise InvalidArgument("environment", folder, reason)
    return path


def _missing(folder: Path) -> list[str]:
    """Packages of the lock file that are not there, or not to their last file: an installer writes its record last."""
    records = {path.parent.name.lower() for path in folder.glob("lib/python3*/site-packages/*.dist-info/RECORD")}
    wanted = {name: f"{name.replace('-', '_')}-{version}.dist-info" for name, version in locked_versions().items()}
    return [name for name, record in wanted.items() if record.lower() not in records]


def make_environment(folder: Path, *, python: str = sys.executable) -> Path:
    """Make the environment from the lock file, checking every hash, and return its interpreter.

    Args:
        folder: where it goes; what is there must be an environment that was half made, and is made anew.
        python: an interpreter of version 3.10 or 3.11.

    Raises:
        InvalidArgument: the interpreter is of another version, something else is in the folder, or packages cannot be
            had.
    """
    if folder.exists() and not ((folder / "pyvenv.cfg").is_file() and _missing(folder)):
        raise InvalidArgument("environment", folder, "is there already; remove it first, or name another directory")
    version = _told([python, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"], "python", python)
    if version.strip() not in PYTHONS:
        raise InvalidArgument(
            "python", python, f"is of version {version.strip()}; workers need {_NEEDED}: name one with --python"
        )
    if folder.exists():
        shutil.rmtree(folder)
    _told([python, "-I", "-m", "venv", str(folder)], "environment", str(folder))
    path = folder / "bin" / "python"
    install = [str(path), "-I", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(LOCK_FILE)]
    _told(install, "environment", str(folder))
    return worker_python(folder)


def locked_versions() -> dict[str, str]:
    """Every package of the lock file and its version."""
    lines = LOCK_FILE.read_text(encoding="ascii").splitlines()
    return {match[1]: match[2] for line in lines if (match := re.match(r"([\w.-]+)==([\w.]+)", line))}


def check_environment(versions: dict[str, str]) -> None:
    """What a worker says about its environment is what the lock file says.

    Raises:
        InvalidArgument: it is not.
    """
    locked = locked_versions()
    for name, version in sorted(versions.items()):
        if name == "python":
            if version not in PYTHONS:
                reason = f"has Python {version}; workers need {_NEEDED}; remove it and {_SETUP}"
                raise InvalidArgument("environment", version, reason)
        elif locked.get(name) != version:
            reason = f"has another {name} than the lock file ({locked.get(name)}); remove it and {_SETUP}"
            raise InvalidArgument("environment", version, reason)


def _told(command: list[str], argument: str, value: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user named, with our own arguments
            command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidArgument(argument, value, f"cannot be used: {type(error).__name__}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidArgument(argument, value, f"cannot be used: {last}")
    return done.stdout
