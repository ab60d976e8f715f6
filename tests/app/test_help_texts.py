"""``--help`` on a narrow terminal: defaults are told, flags ask for no value, paragraphs break where they must."""

import re
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from likeset.app import cli


def help_of(*command: str) -> str:
    shown = CliRunner().invoke(cli.app, [*command, "--help"], env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})
    assert shown.exit_code == 0
    return shown.stdout


def words_of(text: str) -> str:
    """Without breaks between lines."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    "words",
    [
        "[default: 1e-05]",
        "[default: median]",
        "[default: no]",
        "[default: all cores]",
        "[default: in the output directory]",
    ],
)
def test_defaults_are_told(words: str) -> None:
    assert words in words_of(help_of("match"))


def test_a_flag_asks_for_no_value() -> None:
    for command in (["match"], ["run", "cancel"], []):
        assert "<bool>" not in help_of(*command)


def test_a_paragraph_breaks_only_where_it_must() -> None:
    """No line of prose but the last of its paragraph could have taken the next word, too."""
    prose = help_of("match").partition("Arguments")[0]
    for paragraph in re.split(r"\n\s*\n", prose):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        for line, after in pairwise(lines):
            assert len(line) + 1 + len(after.split()[0]) > 76, line


def test_a_meaning_has_nearly_the_whole_line() -> None:
    """On 80 columns, an indent of six: a line ends only where the next word does not fit any more."""
    meanings = [line for line in help_of("match").partition("Options")[2].splitlines() if line.startswith(" " * 6)]
    assert max(len(line) for line in meanings) > 76
    longest = [line for line in meanings if not line.rstrip().endswith((".", "]"))]
    assert min(len(line) for line in longest) > 60


def test_an_argument_stands_in_one_pair_of_brackets() -> None:
    assert "[JOB.yaml]" in help_of("match")
    assert "[[" not in help_of("match")


def test_an_argument_that_must_be_given_stands_without_brackets() -> None:
    assert "likeset card pin [OPTIONS] FILE\n" in help_of("card", "pin")
    assert "likeset schema draft [OPTIONS] FILE...\n" in help_of("schema", "draft")
