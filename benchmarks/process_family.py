"""What a process and all that it started have in memory and have spent, as the kernel counts it."""

import os
import resource
from pathlib import Path


def _processes() -> dict[int, tuple[int, int, float]]:
    """Of every process its parent, bytes in memory and CPU seconds, as they are now."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found[int(stat.parent.name)] = int(fields[1]), int(fields[21]) * resource.getpagesize(), spent
    return found


def family_of(root: int, among: dict[int, tuple[int, int, float]] | None = None) -> set[int]:
    """A process and all that it started."""
    parents = {number: told[0] for number, told in (among or _processes()).items()}
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def cost_of_family(root: int) -> tuple[int, float]:
    """Bytes in memory and CPU seconds of a process and all that it started, as they are now."""
    told = _processes()
    family = [told[number] for number in family_of(root, told) if number in told]
    return sum(each[1] for each in family), sum(each[2] for each in family)
