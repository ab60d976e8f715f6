"""The wheel has all that likeset needs, and works outside the repository with nothing but the locked dependencies."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker

from documented_pages import ROOT

pytest.importorskip("hatchling", reason="the wheel is built with hatchling, of the extra build")


def run(command: list[str | Path], *, folder: Path) -> str:
    """What a command printed; nothing of this process's own paths reaches it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LIKESET"))}
    environment |= {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(  # noqa: S603 - arguments that we wrote
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder], folder=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_its_command(wheel: Path) -> None:
    files = [path for path in (ROOT / "src/likeset").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "likeset = likeset.app.cli:main" in archive.read(entry_points).decode()
    assert {name for name in names if ".dist-info/" not in name} == {
        path.relative_to(ROOT / "src").as_posix() for path in files
    }


@pytest.mark.slow
def test_the_wheel_in_an_empty_environment_runs_the_demo_outside_the_repository(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are this environment's, but only those of requirements.lock: none of the tests' and extras'."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel], folder=tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    share_locked_packages(packages)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run([python, "-c", "import likeset; print(likeset.__file__)"], folder=elsewhere).startswith(str(packages))
    run([python, "-c", "import importlib.util as u; assert u.find_spec('pytest') is None"], folder=elsewhere)
    assert "The whole story, with pictures: demo/matched/report.html" in run(
        [environment / "bin/likeset", "demo"], folder=elsewhere
    )
    assert "<style>" in (elsewhere / "demo/matched/report.html").read_text(encoding="utf-8")


def share_locked_packages(packages: Path) -> None:
    """Put links to this environment's copies of the locked dependencies into another one."""
    for name in locked_names():
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
        for top in sorted(tops):
            link = packages / top
            if not link.exists() and not top.endswith(".pth"):
                link.symlink_to(Path(str(distribution.locate_file(top))).resolve())


def locked_names() -> Iterator[str]:
    """What requirements.lock has for this version of Python on this system."""
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        locked = re.match(r"([\w.-]+)==\S+(?: ; (.+?))? \\$", line)
        if locked and (locked[2] is None or Marker(locked[2]).evaluate()):
            yield locked[1]
