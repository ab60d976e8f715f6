"""The wheel contains the whole package and works with its base dependencies alone; a missing extra is named."""

import email
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from conftest import BaseInstall
from documented_pages import ROOT
from job_world import World, arguments

NOT_FOR_USERS = {"build", "dev", "docs"}
NEEDS_EXTRA = {
    "nvflare": ["courier", "settle", "kit"],
    "postgres": ["schema", "draft", "postgres://localhost/hospital?table=visits"],
    "ray": [],  # a match of the files of a World
    "s3": ["sync", "--home", "curator", "--mailbox", "s3://bucket/folder"],
    "sftp": ["sync", "--home", "curator", "--mailbox", "sftp://user@localhost/folder"],
}
# Prints every command whose --help fails.
ASK_ALL = """
from typer.testing import CliRunner
from likeset.app import cli

def ask(command, path):
    asked = CliRunner().invoke(cli.app, [*path, "--help"])
    if asked.exit_code != 0 or "Usage" not in asked.stdout:
        print(*path, repr(asked.exception))
    return 1 + sum(ask(inner, [*path, name]) for name, inner in getattr(command, "commands", {}).items())

assert ask(cli.whole_program(), []) > 50
"""


def test_the_wheel_holds_every_file_of_the_package_and_its_command(wheel: Path) -> None:
    files = [path for path in (ROOT / "src/likeset").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "likeset = likeset.app.start:main" in archive.read(entry_points).decode()
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        requires = email.message_from_bytes(archive.read(described)).get_all("Requires-Dist") or []
    assert {name for name in names if ".dist-info/" not in name} == {
        path.relative_to(ROOT / "src").as_posix() for path in files
    }
    # The courier uses NVFlare's own messages: users get the version that the tests use.
    assert f"nvflare=={metadata.version('nvflare')}; extra == 'nvflare'" in requires


@pytest.mark.slow
def test_the_lock_has_every_base_dependency_and_every_command_explains_itself(
    base_install: BaseInstall, tmp_path: Path
) -> None:
    checked = subprocess.run(  # noqa: S603 - arguments that we wrote
        [sys.executable, "-m", "pip", "--python", base_install.python, "check"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    where = base_install.run("python", "-c", "import likeset; print(likeset.__file__)", folder=tmp_path)
    assert where.stdout.startswith(str(base_install.folder))
    asked = base_install.run("python", "-c", ASK_ALL, folder=tmp_path)
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_missing_extra_is_named_in_one_line(base_install: BaseInstall, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["optional-dependencies"]) - NOT_FOR_USERS == set(NEEDS_EXTRA)
    world = World.make(tmp_path)
    commands = NEEDS_EXTRA | {"ray": arguments("match", world.options(scan="ray"))}
    (tmp_path / "kit" / "startup").mkdir(parents=True)
    for name, role in (("clinic", "consumer"), ("curator", "curator")):
        made = base_install.run("likeset", "init", name, "--name", name, "--role", role, folder=tmp_path)
        assert made.returncode == 0, made.stderr
    for extra, command in commands.items():
        refused = base_install.run("likeset", *command, folder=tmp_path)
        assert refused.returncode == 2, refused.stderr
        (line,) = refused.stderr.splitlines()
        assert line.startswith("error: ")
        assert f"extra {extra}" in line
