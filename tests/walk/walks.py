"""The walks that are counted: small runs of ``likeset match``, and answers of an owner's node.

What is counted is named here, once: whoever renames one of these classes or functions writes its new name here.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
sys.path.insert(0, str(Path(__file__).parents[1] / "homes"))

from counted_files import counted
from counted_writes import Writes, counted_writes
from footsteps import Footsteps, constructions, done_before
from golden_command import say
from node_world import Clock, make_node, script, terms
from owner_letters import Outside, seated

from likeset.geometry import tilt
from likeset.homes.owner.node import OwnerNode
from likeset.homes.standings import ABSTAINS
from likeset.protocol import messages
from likeset.protocol.terms import Terms
from likeset.run.plan import Plan
from likeset.transports.sites import SiteParties, SiteSettings

__all__ = ["TERMS", "Walk", "column_bytes", "terms", "walks_of_answers", "walks_of_matches"]

PLAN: type = Plan
"""What a run will do and cost, made before any owner's row is read."""
TERMS: type = Terms
DRAWING: CodeType = tilt.large_perturbations.__code__
"""Tosses the coins that decide which rows an owner offers: where a walk down ends."""
ENCODE, DECODE = messages.encode.__code__, messages.decode.__code__

PROTOCOLS = ("sealed", "interactive")
_SCHEMA = """\
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [20, 100]}
  dose: {kind: numeric, bounds: [0, 1000]}
  site: {kind: category, values: [arm, chest, leg]}
label: {column: ill, kind: category, values: [0, 1]}
"""
_ROWS, _NOTE_LETTERS, _GROUP_ROWS, _PICKS = 60, 100_000, 5, 3
"""A text has six stretches of a megabyte, a Parquet file twelve row groups: more than there are rows to choose, so that
fetching them by number reads no file as a whole."""
_TYPED = [f"--size={_PICKS}", "--epsilon=8", "--offer-factor=6", "--noise=simulated", "--seed=1", "--workers=2"]


@dataclass(frozen=True)
class Walk:
    """What was counted on one way through the package.

    Attributes:
        name: in words.
        counts: by name.
        functions: that were passed, as module and name.
        chain: the modules from the first call to the drawing of rows; empty if none is drawn.
        threads: in how many threads functions of the package were passed.
    """

    name: str
    counts: Mapping[str, int]
    functions: frozenset[tuple[str, str]]
    chain: tuple[str, ...] = ()
    threads: int = 1

    @property
    def modules(self) -> frozenset[str]:
        """Of which a function was passed."""
        return frozenset(module for module, _ in self.functions)


# likeset match


def _table(seed: int) -> pa.Table:
    """Rows whose notes, which no schema declares, make the file much longer than what readers look at first."""
    coins = np.random.default_rng(seed)  # pinned: the figures are of one small world
    return pa.table(
        {
            "age": np.round(coins.uniform(20, 100, _ROWS), 2),
            "dose": np.round(coins.uniform(0, 990, _ROWS)) + np.arange(_ROWS) / 1000,
            "site": coins.choice(["arm", "chest", "leg"], _ROWS),
            "ill": coins.integers(0, 2, _ROWS),
            "note": ["n" * _NOTE_LETTERS] * _ROWS,
        }
    )


def _write_market(folder: Path) -> dict[Path, list[list[tuple[int, int]]]]:
    """Write the files of a job; returns for each owner's file where the bytes of its columns lie."""
    (folder / "schema.yaml").write_text(_SCHEMA, encoding="utf-8")
    text, packed = folder / "north.csv", folder / "south.parquet"
    pyarrow.csv.write_csv(_table(2).drop_columns("note").slice(0, 30), folder / "target.csv")
    pyarrow.csv.write_csv(_table(3), text)
    pq.write_table(_table(4), packed, row_group_size=_GROUP_ROWS, compression="none", use_dictionary=["site"])
    size = text.stat().st_size
    return {text: [[(size // 3, size)]], packed: column_bytes(packed)}  # the header is looked for in the first third


def column_bytes(packed: Path) -> list[list[tuple[int, int]]]:
    """Where the bytes of each column of a Parquet file lie: one piece in each row group."""
    footer = pq.read_metadata(packed)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [[_bytes_of(group.column(place)) for group in groups] for place in range(footer.num_columns)]


def _bytes_of(chunk: Any) -> tuple[int, int]:
    first = chunk.data_page_offset
    if chunk.has_dictionary_page:
        first = min(first, chunk.dictionary_page_offset)
    return first, first + chunk.total_compressed_size


def walks_of_matches(folder: Path) -> list[Walk]:
    """``likeset match`` with an owner who has a CSV file and one who has a Parquet file, under each protocol."""
    folder.mkdir(parents=True)
    columns = _write_market(folder)
    words = ["match", f"--schema={folder / 'schema.yaml'}", f"--target={folder / 'target.csv'}", *_TYPED]
    words += [f"--owner={path.stem}={path}" for path in columns]

    def match(protocol: str, out: str) -> None:
        code, _, complaint = say(*words, f"--protocol={protocol}", f"--out={folder / out}")
        if code:
            raise RuntimeError(f"likeset match ended with {code}: {complaint}")

    walks = []
    for protocol in PROTOCOLS:
        done_before(partial(match, protocol, f"{protocol}-before"))
        steps = Footsteps(ends={DRAWING: "drawing"})
        with counted(columns) as files, constructions(PLAN) as plans, constructions(TERMS) as made, steps:
            match(protocol, protocol)
        counts = {"plans": len(plans), "terms": len(made)}
        counts |= {f"passes over {path.suffix[1:]}": file.passes for path, file in files.items()}
        counts |= {f"openings of {path.suffix[1:]}": file.openings for path, file in files.items()}
        walks.append(_walk(f"match, {protocol}", counts, steps))
    return walks


# An owner's answer


@dataclass
class _Wire:
    """Counts messages as they become bytes and come out of bytes."""

    encoded: Counter[bytes] = field(default_factory=Counter)
    decoded: Counter[bytes] = field(default_factory=Counter)

    def listeners(self) -> dict[CodeType, Callable[[FrameType, str, Any], None]]:
        """For ``Footsteps``."""

        def encoding(_: FrameType, event: str, value: Any) -> None:
            if event == "return" and isinstance(value, bytes):
                self.encoded[value] += 1

        def decoding(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                self.decoded[bytes(frame.f_locals[frame.f_code.co_varnames[0]])] += 1

        return {ENCODE: encoding, DECODE: decoding}


def walks_of_answers(folder: Path) -> list[Walk]:
    """What an owner's node does from the bytes of a letter to the bytes of the letter that answers it.

    The node is open, the run is approved, and the owner has signed that it takes part: what is counted begins with the
    letter.
    """
    named = {"sealed": ["answer, offer"], "interactive": ["", "answer, bid", "answer, delivery"]}
    for protocol, names in named.items():
        done_before(partial(_answers, folder / f"{protocol}-before", protocol, names))
    return [walk for protocol, names in named.items() for walk in _answers(folder / protocol, protocol, names)]


def _answers(folder: Path, protocol: str, names: list[str]) -> list[Walk]:
    """The walks of the first answers of a run; one without a name is given and not counted."""
    folder.mkdir(parents=True)
    run = terms(protocol=protocol, size=3)
    outside = Outside(folder / "outside", run)
    with ExitStack() as stack:
        writes = stack.enter_context(counted_writes(folder))
        node = stack.enter_context(OwnerNode(make_node(folder), clock=Clock()))
        side = seated(node, outside)
        settings = SiteSettings(lambda *_: side, node.home.folder)
        site = SiteParties(node.name, {run.digest: outside.invitation}, settings, clock=node.now)
        accepted = site.standing(run.digest)
        if not isinstance(accepted, bytes):
            raise RuntimeError("the owner of this small world is not ready")
        opening, *questions = script(run, rounds=1)
        letters = [outside.release(accepted, opening), *map(outside.ask, questions)]
        walks = [_answer(site, outside, data, writes, name) for name, data in zip(names, letters, strict=False)]
        return [walk for walk in walks if walk.name]


def _answer(site: SiteParties, outside: Outside, data: bytes, writes: Writes, name: str) -> Walk:
    wire = _Wire()
    steps = Footsteps(listeners=wire.listeners(), ends={DRAWING: "drawing"})
    writes.reset()
    with steps:
        replies = site.hear(data)
    if replies == ABSTAINS:
        raise RuntimeError(f"{name or 'an answer'}: the owner of this small world abstains")
    rows = [_rows_in(outside.read(reply)) for reply in replies if isinstance(reply, bytes)]
    counts = {
        "encodings": wire.encoded.total(),
        "encodings of one message": max(wire.encoded.values(), default=0),
        "decodings": wire.decoded.total(),
        "decodings of one message": max(wire.decoded.values(), default=0),
        "records of rows": max((writes.copies(records) for records in rows if records), default=0),
        "write transactions": writes.transactions,
        "plain files written": writes.files,
    }
    return _walk(name, counts, steps)


def _rows_in(reply: messages.Message) -> bytes:
    body = reply.body
    return body.records.tobytes() if isinstance(body, messages.Offer | messages.Delivery) else b""


def _walk(name: str, counts: dict[str, int], steps: Footsteps) -> Walk:
    sizes = {"modules": len(steps.modules), "functions": len(steps.functions)}
    return Walk(name, {**counts, **sizes}, frozenset(steps.functions), steps.chains.get("drawing", ()), steps.threads)
