"""What ``likeset match`` says about its options, and that it overwrites nothing."""

from pathlib import Path

import pytest

import job_world
from job_world import World


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--size", "ten"], ["'--size'", "integer"]),
        (["--size", "1.5"], ["'--size'", "integer"]),
        (["--epsilon", "much"], ["'--epsilon'", "number"]),
        (["--workers", "0"], ["'--workers'"]),
        (["--sizes", "3"], ["--sizes", "--size"]),
    ],
)
def test_options_that_cannot_be_read_end_in_a_word_about_usage(
    arguments: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = job_world.call("match", World.make(tmp_path).options(), *arguments)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "likeset match --help" in printed.err
    assert "Traceback" not in printed.err
    for word in words:
        assert word in printed.err
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a finished job nor one that was interrupted is overwritten; the message says what to do."""
    world = World.make(tmp_path)
    world.out.mkdir()
    (world.out / "mine").write_text("precious", encoding="utf-8")
    assert job_world.call("match", world.options()) == 2
    assert "is there already; nothing is overwritten: name another directory" in capsys.readouterr().err
    assert (world.out / "mine").read_text(encoding="utf-8") == "precious"
    world.out.rename(world.partial)
    assert job_world.call("match", world.options()) == 2
    assert "go on with --resume, or remove it" in capsys.readouterr().err
    assert job_world.call("match", world.options(resume=True)) == 2
    assert "nothing had begun" in capsys.readouterr().err
    assert (world.partial / "mine").read_text(encoding="utf-8") == "precious"
