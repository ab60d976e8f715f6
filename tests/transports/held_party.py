"""A party's command line that stands still where a test wants to look at it, and tees what it sends and hears.

``python held_party.py FOLDER NAME WORDS...`` does what ``likeset WORDS...`` does. Nothing that a party does is changed:
copies of what it writes into the mailbox, of what passes its tunnels in the clear and, at owners and the consumer, of
what is shared go into the folder. The consumer, and the owners before their shares leave, wait at each moment until
the test lets them go on; curator and witness wait for them, as they would for a slow party.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from likeset.homes import compute
from likeset.homes.compute import ComputeJob
from likeset.protocol import split as split_run
from likeset.split.links import TlsStream
from likeset.transports.stores import DirectoryStore
from likeset.trust import shares as shared_offers

_EVERY = 0.05


def reached(folder: Path, moment: str) -> Path:
    """The file by which a party says that it stands still at a moment."""
    return folder / f"{moment}.reached"


def go_on(folder: Path, moment: str) -> None:
    (folder / f"{moment}.go").touch()


def _hold(folder: Path, moment: str) -> None:
    reached(folder, moment).touch()
    while not (folder / f"{moment}.go").exists():
        time.sleep(_EVERY)


def _put(owner: Any, **works: Callable[..., Any]) -> None:
    for name, work in works.items():
        setattr(owner, name, work)


def _tee(folder: Path, name: str) -> None:
    """All that is written into the mailbox, and all that passes this party's tunnels, before or after TLS."""
    write, told, heard = DirectoryStore.write, TlsStream.write, TlsStream.read

    def written(store: DirectoryStore, place: str, file: str, data: bytes) -> None:
        (folder / "mail" / f"{place}-{file}").write_bytes(data)
        write(store, place, file, data)

    def note(way: str, data: bytes) -> None:
        with (folder / "tunnels" / f"{name}-{way}-{os.getpid()}").open("ab") as file:
            file.write(data)

    def say(stream: TlsStream, data: bytes) -> None:
        note("out", data)
        told(stream, data)

    async def hear(stream: TlsStream) -> bytes:
        data = await heard(stream)
        note("in", data)
        return data

    _put(DirectoryStore, write=written)
    _put(TlsStream, write=say, read=hear)


def _copy_words(folder: Path, name: str, module: Any) -> None:
    """What is shared, and the shares."""
    split, fixed = module.split_words, module.fixed_point

    def rounded(rows: Any) -> Any:
        np.save(folder / f"rows-{name}.npy", np.asarray(rows, dtype=np.float32))
        return fixed(rows)

    def copied(words: Any) -> Any:
        shares = split(words)
        np.save(folder / f"words-{name}.npy", np.array([words, *shares]))
        _hold(folder, f"shared by {name}")
        return shares

    _put(module, split_words=copied, fixed_point=rounded)


def _copy_records(folder: Path, name: str) -> None:
    seal, records = shared_offers.seal_record, list[str]()

    def sealed(record: bytes, **more: Any) -> Any:
        records.append(record.hex())
        words = {"key": more["key"].hex(), "records": records}
        (folder / f"records-{name}.json").write_text(json.dumps(words), encoding="ascii")
        return seal(record, **more)

    _put(shared_offers, seal_record=sealed)


def _hold_consumer(folder: Path) -> None:
    """At the first and the last word of each stage, when picks are opened, and when rows are bought."""
    begin, run, buy = compute.WorkerComputation.__init__, compute.WorkerComputation.run, compute.ComputeHandler._open
    stages: set[str] = set()

    def begun(computation: Any, job: ComputeJob) -> None:
        def progress(stage: str, done: int, of: int) -> None:
            job.progress(stage, done, of)
            if stage not in stages or done == of:
                _hold(folder, f"{stage} {'began' if stage not in stages else 'ended'}")
            stages.add(stage)

        begin(computation, dataclasses.replace(job, progress=progress))

    def after(work: Callable[..., Any], moment: str) -> Callable[..., Any]:
        def held(*given: Any) -> Any:
            result = work(*given)
            _hold(folder, moment)
            return result

        return held

    _put(compute.WorkerComputation, __init__=begun, run=after(run, "opened"))
    _put(compute.ComputeHandler, _open=after(buy, "bought"))


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    _tee(folder, name)
    if sys.argv[1] == "run":
        _copy_words(folder, name, split_run)
        _hold_consumer(folder)
    elif name not in ("curator", "witness"):
        _copy_records(folder, name)
        _copy_words(folder, name, shared_offers)
    from likeset.app.cli import main as likeset

    likeset()


if __name__ == "__main__":
    main()
