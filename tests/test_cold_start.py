"""What has to be loaded before anything happens: modules are counted, not seconds."""

import subprocess
import sys

import numpy as np  # noqa: F401 - its threads are looked at

SLOW = ("numpy", "scipy", "pyarrow", "sklearn", "matplotlib", "cryptography", "paramiko", "duckdb", "dp_accounting")
"""Libraries that take from a tenth of a second to more than one."""


def _loaded(script: str, *, without: str = "") -> list[str]:
    """The modules that a script loads in an interpreter of its own, less those that another one loads there."""
    ends = "\nimport sys; print(*sys.modules)"
    told = [
        subprocess.run([sys.executable, "-c", lines + ends], capture_output=True, text=True, check=True).stdout.split()  # noqa: S603 (our own)
        for lines in (script, without)
    ]
    return sorted(set(told[0]) - set(told[1]))


def test_importing_likeset_loads_nothing_slow() -> None:
    """The rest comes with the name that needs it."""
    modules = _loaded("import likeset")
    assert [name for name in modules if name.startswith("likeset")] == ["likeset"]
    assert not set(SLOW) & set(modules)
    assert len(_loaded("import likeset", without="import typing, re, urllib.parse, unicodedata")) <= 10


def test_the_command_line_starts_without_libraries_that_only_some_commands_need() -> None:
    """A command that looks once, from cron, must not wait for them; nor Ctrl-C end in the midst of their import."""
    assert not set(SLOW) & set(_loaded("import likeset.app.cli"))


def test_a_match_and_its_report_load_no_library_that_few_of_them_use() -> None:
    """SciPy, scikit-learn, DuckDB and the convolutions of dp_accounting would take two seconds together."""
    modules = _loaded("import likeset.app.demo, likeset.app.report, likeset.app.file_matching")
    assert not {"scipy", "sklearn", "duckdb", "dp_accounting", "pandas"} & set(modules)


def test_the_summarizer_loads_nothing_of_runs_between_organisations() -> None:
    modules = _loaded("from likeset import Summarizer")
    assert "likeset.run.here" in modules
    assert not [name for name in modules if name.startswith(("likeset.homes", "likeset.trust.letters", "OpenSSL"))]
