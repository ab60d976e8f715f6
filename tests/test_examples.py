"""The notebooks in ``examples/`` are scripts with cells, and run from the repository's folder."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from documented_pages import ROOT

SCRIPTS = sorted(ROOT.glob("examples/*.py"))
SHOWN = {
    "heart_hospitals": r"60 patients, MMD² to new ones of the target's kind 0\.\d+",
    "image_embeddings": r"\d+% of 60 images are 3s, 4s and 9s",
    "pandas_pipeline": r"logistic regression on 150 matched: balanced accuracy 0\.\d+ at the new branch",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_opens_as_a_notebook(script: Path) -> None:
    """A header that jupytext knows, then cells; words stand in cells of comments alone."""
    header, *cells = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "format_name: percent" in header
    assert not re.search(r"^[^#\n]", header, flags=re.MULTILINE), "code before the first cell"
    kinds, texts = cells[::2], cells[1::2]
    assert kinds[0] == " [markdown]"
    assert set(kinds) == {"", " [markdown]"}
    for kind, text in zip(kinds, texts, strict=True):
        assert (kind == "") == bool(re.search(r"^[^#\n]", text, flags=re.MULTILINE)), text


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs(script: Path) -> None:
    if script.stem == "pandas_pipeline" and find_spec("pandas") is None:
        pytest.skip("pandas is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "LIKESET_HEART"}
    environment |= {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(script)], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert result.returncode == 0, result.stderr
    assert re.search(SHOWN[script.stem], result.stdout), result.stdout
