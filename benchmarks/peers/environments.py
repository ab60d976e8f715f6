"""An environment for each tool, created on first use and kept; and the commit that is measured."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


def measured_commit() -> str:
    """The commit that is checked out here, in short."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - whichever git is in use
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return told.stdout.strip()


_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tool:
    """A tool of the comparison; the runner is ``run_<name>.py`` and the requirements are ``<name>.txt``."""

    name: str

    @property
    def runner(self) -> Path:
        """The script that its interpreter runs."""
        return _HERE / "runners" / f"run_{self.name}.py"


LIKESET = Tool("likeset")
ONE_PASS = Tool("one_pass")
"""No tool, but what none of them can do without: one product and one exponential for each pair of rows."""
PEERS = (Tool("coreax"), Tool("goodpoints"), Tool("apricot"), Tool("submodlib"), Tool("protodash"))


class NotInstalledError(Exception):
    """A tool's environment could not be made; the message is the installer's last word."""


def interpreter(tool: Tool, folder: Path) -> Path:
    """The Python of a tool's environment, made anew if it is missing or its requirements changed."""
    if tool in (LIKESET, ONE_PASS):
        return Path(sys.executable)
    requirements = sorted((_HERE / "requirements").glob(f"{tool.name}*.txt"))
    wanted = "\n".join(file.read_text() for file in requirements)
    environment = folder / tool.name
    python, stamp = environment / "bin" / "python", environment / ".requirements"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"installing {tool.name} ...", flush=True)
    _call(tool, [sys.executable, "-m", "venv", "--clear", str(environment)])
    for file in requirements:
        # A file *-no-deps lists what would pull in parts that are not needed or cannot be installed.
        extra = ["--no-deps"] if file.stem.endswith("-no-deps") else []
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *extra]
        _call(tool, [str(python), *install, "--requirement", str(file)])
    stamp.write_text(wanted)
    return python


def _call(tool: Tool, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalledError(f"{tool.name}: {last_word(done.stderr)}")


def last_word(stderr: str) -> str:
    """The line of an error output that says most, without addresses or paths of this machine."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)] or lines
    line = telling[-1] if telling else "no message"
    line = re.sub(r"\w+://\S+", "<address>", line)
    return re.sub(r"(?<!\w)/[\w./+-]+/([\w.+-]+)", r"\1", line)[:300]
