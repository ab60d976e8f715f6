"""``likeset split``: an environment that is missing, half made or of a wrong Python ends in one clear line."""

from pathlib import Path

import pytest
from typed import document, mistake

from likeset.errors import InvalidArgument
from likeset.split.host import locked_versions, make_environment, program_digest, worker_python
from screens import Screens

BESIDE = Path(__file__).parents[2] / ".venv-split"


def half_made(folder: Path, *, packages: int) -> Path:
    """An environment as an interrupted installer leaves it: some records, and an interpreter that cannot run."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("", encoding="ascii")
    (folder / "bin" / "python").write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    (folder / "bin" / "python").chmod(0o700)
    for name, version in list(locked_versions().items())[:packages]:
        record = folder / "lib" / "python3.11" / "site-packages" / f"{name.replace('-', '_')}-{version}.dist-info"
        record.mkdir(parents=True)
        (record / "RECORD").write_text("", encoding="ascii")
    return folder


def test_a_half_made_environment_is_told_and_one_whose_worker_does_not_start(tmp_path: Path, screens: Screens) -> None:
    with pytest.raises(InvalidArgument):
        worker_python(half_made(tmp_path / "half", packages=5))
    whole = half_made(tmp_path / "whole", packages=len(locked_versions()))
    assert worker_python(whole) == whole / "bin" / "python"
    half_made(Path("whole"), packages=len(locked_versions()))
    screens.mistakes("mistakes", "split setup --at whole")


def test_setup_makes_a_half_made_one_anew_and_nothing_else(tmp_path: Path) -> None:
    """By an interpreter of a wrong version nothing is removed; what is no environment is never touched."""
    half, other = half_made(tmp_path / "half", packages=5), tmp_path / "other"
    other.mkdir()
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 3.12\n", encoding="ascii")
    old.chmod(0o700)
    mistake("split", "setup", "--at", half, "--python", old)
    assert (half / "pyvenv.cfg").exists()
    mistake("split", "setup", "--at", other, "--python", old)
    new = tmp_path / "new"
    new.write_text('#!/bin/sh\n[ "$2" = -c ] && echo 3.11 || exit 1\n', encoding="ascii")
    new.chmod(0o700)
    with pytest.raises(InvalidArgument):
        make_environment(half, python=str(new))  # gets as far as making it
    assert not half.exists()


@pytest.mark.skipif(not BESIDE.is_dir(), reason=f"there is no environment for workers at {BESIDE}: `make split`")
def test_an_environment_that_is_whole_stays_and_its_worker_starts() -> None:
    ready = document("split", "setup", "--at", BESIDE)
    assert ready["made"] is False
    assert ready["versions"]["spu"] == locked_versions()["spu"]
    assert ready["program"] == program_digest()
