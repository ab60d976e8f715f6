"""How long does an owner's node take over terms that nobody can mean?

Every number in terms at every extreme, in every shape of protocol, and texts, lists and nesting that are as odd: the
documents of ``tests/homes/odd_terms.py``. Each is read, judged and refused (or not) by a node whose policy forbids
little, and timed beside an ordinary invitation in the same run.

    python benchmarks/foreign_terms.py [--out benchmarks/results/foreign-terms.md]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "homes"))

from node_world import Clock, make_node
from odd_terms import SHAPES, OddTerms, odd_numbers, odd_texts, ordinary, written

from likeset.errors import LikesetError
from likeset.homes import owner_node
from likeset.homes.owner_node import OwnerNode
from likeset.protocol.prices import target_plan
from likeset.protocol.terms import read_foreign

ORDINARY_REPEATS = 9


@dataclass(frozen=True, slots=True)
class Slowest:
    """The document of a group that took longest."""

    group: str
    documents: int
    let_in: int
    name: str
    seconds: float


def seconds_of(work: Callable[[], object]) -> tuple[float, bool]:
    """How long it took, and whether it was let in."""
    started = time.perf_counter()
    try:
        work()
    except LikesetError:
        return time.perf_counter() - started, False
    return time.perf_counter() - started, True


def read_and_judge(node: OwnerNode, text: str) -> None:
    """Read and judged; whatever is refused raises."""
    agreed = read_foreign(text)
    owner_node.accounts_for(node.ledger, agreed, node.policy)
    node.judge(agreed)


def slowest(node: OwnerNode, group: str, odd_ones: Iterable[OddTerms]) -> Slowest:
    """Read each document; judge those that are let in; write each refusal down."""
    documents = let_in = 0
    worst = ("", 0.0)
    for odd in odd_ones:
        documents += 1
        seconds, passed = seconds_of(lambda: read_foreign(odd.text))  # noqa: B023 (called at once)
        if passed:
            let_in += 1
            seconds, _ = seconds_of(lambda: read_and_judge(node, odd.text))  # noqa: B023
        seconds += seconds_of(lambda: node.refused(odd.name))[0]  # noqa: B023
        worst = max(worst, (odd.name, seconds), key=lambda pair: pair[1])
    return Slowest(group, documents, let_in, *worst)


def ordinary_seconds(node: OwnerNode) -> float:
    """The median time over ordinary invitations, each of another size, so that nothing is known of it before."""
    times = []
    for number in range(ORDINARY_REPEATS):
        text = written({**ordinary(), "run": f"plain-{number}"}, ("target_size",), str(30 + number))
        target_plan.cache_clear()
        times.append(seconds_of(lambda: read_and_judge(node, text))[0])  # noqa: B023
    return statistics.median(times)


def page(usual: float, groups: list[Slowest]) -> str:
    """The table."""
    lines = [
        "# Terms that nobody can mean: how long a node takes over them",
        "",
        f"`benchmarks/foreign_terms.py`. An ordinary invitation is read and judged in {usual * 1e3:.0f} ms (median of "
        f"{ORDINARY_REPEATS}); beside it, in the same run, the slowest document of each shape of protocol.",
        "",
        "| documents | how many | let in | the slowest | ms | times an ordinary one |",
        "|---|---|---|---|---|---|",
    ]
    for group in groups:
        figures = f"{group.seconds * 1e3:.0f} | {group.seconds / usual:.1f}"
        lines.append(f"| {group.group} | {group.documents:,} | {group.let_in:,} | {group.name} | {figures} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "foreign-terms.md")
    out = parser.parse_args().out
    limits = {"epsilon": 5, "delta": 1e-5, "rows": 10**9}
    unproven = ["summary-release", "paper-auction"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = make_node(Path(temporary), total=limits, per_run=dict(limits), accept_unproven=unproven)
        with OwnerNode(folder, clock=Clock()) as node:
            for shape in SHAPES:  # what libraries load at first is no document's fault
                seconds_of(lambda: read_and_judge(node, written(ordinary(shape), ("target_size",), "29")))  # noqa: B023
            usual = ordinary_seconds(node)
            groups = [slowest(node, f"numbers, {shape}", odd_numbers(shape)) for shape in SHAPES]
            groups.append(slowest(node, "texts, lists, nesting", odd_texts()))
    out.write_text(page(usual, groups), encoding="utf-8")
    print(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
