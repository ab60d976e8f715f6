"""Commands as people type them, and what comes of them."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from likeset.app import cli
from likeset.errors import LikesetError


def run(*words: object, code: int = 0, home: Path | None = None, answers: str | None = None) -> Result:
    """Run a command; ``answers`` is what a person types, ``home`` the home that the environment names."""
    environment = {"COLUMNS": "200", "LIKESET_HOME": None if home is None else str(home)}
    result = CliRunner().invoke(cli.app, list(map(str, words)), env=environment, input=answers)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def document(*words: object, code: int = 0, home: Path | None = None) -> Any:
    return json.loads(run(*words, "--json", code=code, home=home).stdout)


def mistake(*words: object, home: Path | None = None) -> str:
    """The one line that ``main`` would print for a user's mistake."""
    error = run(*words, code=1, home=home).exception
    assert isinstance(error, LikesetError)
    return str(error)
