"""Homes that many tests begin with: made once in each process of tests, and copied."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_templates: dict[str, Path] = {}


def prepared(place: Path, name: str, make: Callable[[Path], object]) -> None:
    """Put into a folder what ``make`` puts there; owners' sources lie in the copy, too.

    Args:
        place: the folder; it may be there.
        name: of what is made; the same name stands for the same files.
        make: makes them in a folder.
    """
    if name not in _templates:
        private = Path(tempfile.mkdtemp(prefix="likeset-homes-")).resolve()
        atexit.register(shutil.rmtree, private, ignore_errors=True)
        template = private / "homes"  # whose modes are as usual, which copies have, too
        template.mkdir()
        make(template)
        _templates[name] = template
    template = _templates[name]
    shutil.copytree(template, place, dirs_exist_ok=True)
    for made in template.glob("node-*/data/*/source.yaml"):
        copied = place / made.relative_to(template)
        copied.write_text(copied.read_text(encoding="utf-8").replace(str(template), str(place)), encoding="utf-8")
