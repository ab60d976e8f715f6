"""Put one-line faults into a copy of the source, one at a time, and see whether the tests that name them fail.

``make faults`` runs all; ``make faults FAULTS="offer-rows-not-charged quorum-off-by-one"`` some of them, and
``FAULTS=--sound`` only the named tests on the source as it is: all must pass, or nothing is shown by their failing.

``faults.yaml`` has a list under ``faults``. Each has an ``id``; the guarantee or privacy rule that it breaks, under
``holds`` (``test_fault_lines.py`` lists them); what is ``wrong``, in words; the ``file``, from ``src/likeset`` on; the
line ``before`` and ``after``, without its indentation, of which the first stands in the file exactly once; and under
``caught_by`` the tests, from ``tests`` on, of which one must fail. Whoever moves such a line moves the fault with it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("faults.yaml")
_PASSED, _FAILED = 0, 1  # exit codes of pytest; others say that nothing was tested
_PATIENCE = 900.0


@dataclass(frozen=True)
class Fault:
    """One line that is wrong."""

    id: str
    holds: str
    wrong: str
    file: str
    before: str
    after: str
    caught_by: tuple[str, ...]

    def put_into(self, source: Path) -> None:
        """Write the wrong line into a copy of the source."""
        path = source / "likeset" / self.file
        lines = path.read_text(encoding="utf-8").split("\n")
        places = [number for number, line in enumerate(lines) if line.strip() == self.before]
        if len(places) != 1:
            raise SystemExit(f"{self.id}: its line stands {len(places)} times in {self.file}; it must stand there once")
        line = lines[places[0]]
        lines[places[0]] = line[: len(line) - len(line.lstrip())] + self.after
        path.write_text("\n".join(lines), encoding="utf-8")


def load_faults() -> list[Fault]:
    """All faults of the file; ids are different from one another."""
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    faults = [Fault(**{**one, "caught_by": tuple(one["caught_by"])}) for one in document["faults"]]
    if len({fault.id for fault in faults}) != len(faults):
        raise SystemExit(f"{FILE.name}: two faults have one id")
    return faults


def tested(source: Path, tests: tuple[str, ...], *, first_only: bool) -> tuple[int, str]:
    """The exit code of pytest with this source in front, and the last of what it said."""
    more = ["-x"] if first_only else []
    done = subprocess.run(  # noqa: S603 - our own interpreter and arguments
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more, *(f"tests/{one}" for one in tests)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith("FAILED")]
    return done.returncode, (failed or lines or [done.stderr])[-1]


def caught(fault: Fault) -> tuple[str, str]:
    """Whether a fault is caught, in a word, and by which test."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        _check_in_front(source)
        fault.put_into(source)
        code, said = tested(source, fault.caught_by, first_only=True)
    word = {_PASSED: "missed", _FAILED: "caught"}.get(code, "not tested")
    return word, said.removeprefix("FAILED tests/").partition(" - ")[0]


def _check_in_front(source: Path) -> None:
    """Raise unless a program with this path imports the copy: else nothing would ever be caught."""
    found = subprocess.run(
        [sys.executable, "-c", "import likeset; print(likeset.__file__)"],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    if not Path(found.stdout.strip()).is_relative_to(source):
        raise SystemExit("the copy of the source is not what tests would import")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", help="faults to try; all if none is named")
    parser.add_argument("--sound", action="store_true", help="run the named tests without any fault")
    given = parser.parse_args()
    faults = load_faults()
    if unknown := set(given.ids) - {fault.id for fault in faults}:
        raise SystemExit(f"no such fault: {', '.join(sorted(unknown))}")
    wanted = [fault for fault in faults if not given.ids or fault.id in given.ids]
    if given.sound:
        tests = tuple(sorted({test for fault in wanted for test in fault.caught_by}))
        code, said = tested(ROOT / "src", tests, first_only=False)
        Console().print(said, markup=False)
        raise SystemExit(code)
    table, missed = Table("fault", "outcome", "by", "seconds", title="One-line faults"), 0
    for fault in wanted:
        start = time.perf_counter()
        word, by = caught(fault)
        missed += word != "caught"
        table.add_row(fault.id, word, by, f"{time.perf_counter() - start:.0f}")
        Console(stderr=True).print(f"{word}: {fault.id}", markup=False, highlight=False)
    Console().print(table)
    Console().print(f"{len(wanted) - missed} of {len(wanted)} caught")
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
