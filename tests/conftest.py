"""What all tests share."""

import os

# Before the first import of numpy: workers on all cores have no use for threads, which would wait for one another, and
# the bits of a product would depend on how many cores there are.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import functools
import gc
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from packaging.markers import Marker
from syrupy.assertion import SnapshotAssertion

import screens as screens_
from chance import REPEATED_BY, SEED, examples
from likeset import display as screen
from likeset import documents
from likeset.privacy.noise import SecretNoise, SimulatedNoise
from likeset.trust import cards

# Tests that are started in the background ignore Ctrl-C, and so would every process that they start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules and tests stay until the end: nobody need look through them for garbage again and again.
gc.set_threshold(20_000, 20, 20)

# Ledgers wait for the disk after each transaction, thousands of times. Tests look at what was asked of it, and kill
# processes, never the machine: files in memory serve them as well. Not if there is little room, as in some containers,
# or if programs there may not be started.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30  # noqa: S108 - tests make folders of their own in it
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free >= _ROOM
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# Programs that tests start get their coins where the tests get theirs, and find the studies, which are not installed.
_PLACES = [str(Path(__file__).parent), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PLACES))

# The worlds of the lower floors' tests serve those of the upper ones.
_WORLDS = ("trust", "protocol", "split", "homes", "run", "transports/mailbox")
sys.path[:0] = [str(Path(__file__).parent / floor) for floor in _WORLDS]

_LONGEST = ("test_deploying.py", "test_documentation.py", "test_console_browser.py")

# No example of an earlier run, and nothing that a busy machine could miss.
settings.register_profile(
    "likeset", database=None, deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("likeset")

# A program builds its commands once and reads few files and cards; tests in one process would build the same commands,
# parse the same YAML and verify the same signatures thousands of times. All follow from what they are given alone, and
# nobody changes them.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)  # type: ignore[attr-defined]
cards.holds = functools.lru_cache(maxsize=1024)(cards.holds)
_compose, _composed = documents._compose, dict[str, Any]()


def _composed_once(text: str, name: str) -> Any:
    if text not in _composed:
        _composed[text] = _compose(text, name)
    return _composed[text]


documents._compose = _composed_once

# Real noise sometimes gives an unlikely result: an auction asks nobody, a release is far off. Tests are repeatable only
# if noise is, so it is drawn from the same distributions with a seed, except in the folders that test noise itself.
_SEEDED = ("discrete_laplace", "discrete_gaussian", "exponential_choice", "bernoulli", "rounding")
_OPENDP = {name: getattr(SecretNoise, name) for name in _SEEDED}
_TESTS_OF_NOISE = {"privacy", "audit"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the secret noise of this test by its name."""
    seeded = SimulatedNoise(zlib.crc32(f"{SEED} {item.nodeid}".encode()))
    for name in _SEEDED:
        secret = item.path.parent.name in _TESTS_OF_NOISE
        setattr(SecretNoise, name, _OPENDP[name] if secret else staticmethod(getattr(seeded, name)))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis starts from the seed of all other coins; ``derandomize`` would know no seed.

    What users are told of a run is no fault of it, and ``pytest.warns`` sees it.
    """
    config.addinivalue_line("filterwarnings", "ignore::likeset.protocol.notices.LikesetWarning")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes begins first: at the end one worker would wait for it."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # DuckDB reports what is not collected at exit as leaked


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say at the end how to get the same coins again."""
    yield
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"{REPEATED_BY} repeats it")


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their drawings, which take longer than small runs; for tests that look at something else."""
    for what in ("images", "marginal", "picks", "projection"):
        monkeypatch.setattr(f"likeset.app.report.figures.draw_{what}", lambda *_, **__: {"src": "", "alt": ""})


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small forests, for tests that look at what is trained and told, and not at how good it is."""
    monkeypatch.setattr("likeset.run.evaluate._TREES", 10)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory in which commands start; its path has the same length everywhere."""
    base = min(map(os.path.realpath, (tempfile.gettempdir(), "/tmp")), key=lambda path: len(path) > 31)  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="s" * (screens_.LENGTH - len(base) - 9), dir=base) as made:
        monkeypatch.chdir(made)
        yield Path(made)
        monkeypatch.undo()


@pytest.fixture
def screens(snapshot: SnapshotAssertion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> screens_.Screens:
    """Snapshots of screens; secret noise is seeded by a number, whatever the seed of the tests is."""
    coins = SimulatedNoise(1)
    monkeypatch.setenv("LOGNAME", "ada")
    for name in _SEEDED:
        monkeypatch.setattr(SecretNoise, name, staticmethod(getattr(coins, name)))
    return screens_.Screens(snapshot, folder)


@pytest.fixture(autouse=True)
def width_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A console that was made while COLUMNS was set keeps that width, and test workers set it."""
    for console in (screen.stdout, screen.stderr):
        monkeypatch.setattr(console, "_width", None)


@dataclass(frozen=True)
class BaseInstall:
    """An environment with the built wheel and its base dependencies: no extra, nothing of the tests.

    Attributes:
        folder: of the environment.
    """

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def variables(self) -> dict[str, str]:
        """The environment variables of this process, except those that lead to this process's packages."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LIKESET"))}
        path = os.pathsep.join([str(self.folder / "bin"), own.get("PATH", "")])
        return own | {"PATH": path, "COLUMNS": "1000", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}

    def run(self, program: str, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(  # noqa: S603 - arguments that we wrote
            command, cwd=folder, env=self.variables(), capture_output=True, encoding="utf-8", check=False
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=Path(__file__).parents[1], check=True)  # noqa: S603 - arguments that we wrote
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def base_install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> BaseInstall:
    """The wheel in a new environment, with links to this environment's copies of what requirements.lock names."""
    made = BaseInstall(tmp_path_factory.mktemp("base") / "environment")
    venv.create(made.folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True)  # noqa: S603 - arguments that we wrote
    (packages,) = made.folder.glob("lib/python*/site-packages")
    for line in (Path(__file__).parents[1] / "requirements.lock").read_text(encoding="utf-8").splitlines():
        locked = re.match(r"([\w.-]+)==\S+(?: ; (.+?))? \\$", line)
        if locked is None or (locked[2] is not None and not Marker(locked[2]).evaluate()):
            continue
        distribution = metadata.distribution(locked[1])
        for top in sorted({file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}):
            link = packages / top
            if not link.exists() and not top.endswith(".pth"):
                link.symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return made
