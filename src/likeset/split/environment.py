"""The worker's own environment: made from a lock file, apart from likeset's, with which it disagrees about numpy."""

import re
import subprocess
import sys
from pathlib import Path

from likeset.errors import InvalidArgument
from likeset.split.digest import LOCK_FILE

__all__ = ["check_environment", "locked_versions", "make_environment", "worker_python"]

PYTHONS = ("3.10", "3.11")
_SETUP = "make it with `likeset split setup`"
_INSTALL_SECONDS = 1800


def worker_python(folder: Path) -> Path:
    """The interpreter of a worker's environment.

    Raises:
        InvalidArgument: there is none.
    """
    path = folder / "bin" / "python"
    if not path.is_file():
        raise InvalidArgument("environment", folder, f"is no environment for workers; {_SETUP}")
    return path


def make_environment(folder: Path, *, python: str = sys.executable) -> Path:
    """Make the environment from the lock file, checking every hash, and return its interpreter.

    Args:
        folder: where it goes; must not be there.
        python: an interpreter of version 3.10 or 3.11.

    Raises:
        InvalidArgument: the interpreter is of another version, the folder is there, or packages cannot be had.
    """
    if folder.exists():
        raise InvalidArgument("environment", folder, "is there already; remove it first, or name another directory")
    version = _told([python, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"], "python", python)
    if version.strip() not in PYTHONS:
        raise InvalidArgument("python", python, f"is of version {version.strip()}; workers need {' or '.join(PYTHONS)}")
    _told([python, "-I", "-m", "venv", str(folder)], "environment", str(folder))
    path = worker_python(folder)
    install = [str(path), "-I", "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(LOCK_FILE)]
    _told(install, "environment", str(folder))
    return path


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
                reason = f"has Python {version}; workers need {' or '.join(PYTHONS)}; remove it and {_SETUP}"
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
