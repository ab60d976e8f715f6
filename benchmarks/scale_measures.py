"""What ``benchmarks/scale.py`` measures, each in a process of its own: seconds, CPU seconds, peak memory.

python benchmarks/scale_measures.py pass DIRECTORY --workers 2
"""

import argparse
import contextlib
import hashlib
import json
import os
import resource
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scale_data
import scale_markets
from likeset.geometry.features import FourierFeatures, Projection
from likeset.geometry.offers import Drawing
from likeset.ledger.budget import Limit
from likeset.ledger.ledger import Ledger
from likeset.privacy.events import Relation, View
from likeset.protocol.sealed import RowScore, SealedOwner, foreseen_sample
from likeset.protocol.terms import Budget, Kernel, Terms
from likeset.protocol.wire import Message, Offer, TargetRelease, decode
from likeset.tables.ray_scan import import_ray, ray_pass
from likeset.tables.records import DeclaredRecords, EnvelopeRecords
from likeset.tables.scan import MemoryScan, OfferedScan, SourceScan
from likeset.tables.schema import Schema
from likeset.tables.sources import open_source
from likeset.transports.local import ChargedParty
from likeset.trust.cards import CardSecret, SealingSecret
from likeset.trust.letters import write_letter
from likeset.trust.shares import OfferContext, OfferShape, share_offer


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


_GAMMA = 0.3
_MEMORY_LIMIT = 12 << 30
_HASHED_AT_ONCE = 1 << 18
_TARGET = 2000
_OWNERS_KEY = 7

Given = argparse.Namespace


def _schema(given: Given) -> Schema:
    return Schema.from_text(scale_data.schema_text(given.kind, share=given.share))


def _features(given: Given, schema: Schema) -> FourierFeatures:
    return FourierFeatures(schema.width, given.dimension, _GAMMA, 1)


def _files(given: Given) -> list[Path]:
    return sorted(given.place.glob("*.parquet"))


def _rows(given: Given) -> int:
    return sum(pq.ParquetFile(file).metadata.num_rows for file in _files(given))


def read(given: Given) -> Callable[[], object]:
    """Decode the columns and do nothing with them: Arrow's own threads, file by file, some rows at a time."""
    columns = list(_schema(given).record_columns)

    def work() -> None:
        for file in _files(given):
            opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            for _ in opened.iter_batches(batch_size=65536, columns=columns, use_threads=given.workers > 1):
                pass

    return work


def hash_rows(given: Given) -> Callable[[], object]:
    """Features of as many mapped rows as there are, which lie in memory; one thread for each worker."""
    schema = _schema(given)
    features, rows = _features(given, schema), _rows(given)
    block = np.random.default_rng(0).random((_HASHED_AT_ONCE, schema.width), dtype=np.float32)

    def share(first: int) -> None:
        for _ in features.blocks(block[: min(_HASHED_AT_ONCE, rows - first)]):
            pass

    def work() -> None:
        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(share, range(0, rows, _HASHED_AT_ONCE)))

    return work


def _drawings(given: Given, schema: Schema) -> tuple[Drawing, Drawing]:
    direction = np.random.default_rng(2).normal(0.0, 3.0, given.dimension)
    score = RowScore(Projection(_features(given, schema), direction), None)
    return Drawing(4 * given.offered, 1, score), Drawing(2 * given.offered, 2)


def one_pass(given: Given) -> Callable[[], object]:
    """The scoring pass: read, map, check, score, keep the best of two draws; the answer is a digest of the draws."""
    schema = _schema(given)
    passing = partial(ray_pass, _cluster(given.workers)) if given.scan == "ray" else None
    scan = SourceScan(open_source(given.place), schema, passing=passing, workers=given.workers)
    if given.scan == "ray":
        scan.draw(Drawing(1, 1))  # the cluster is there before the clock starts

    def work() -> str:
        killed: list[int] = []
        if given.kill:
            threading.Timer(given.kill, _kill_a_worker, (killed,)).start()
        drawn = scan.draw(*_drawings(given, schema))
        if given.kill and not killed:
            raise SystemExit("no worker was there to be killed")
        return hashlib.sha256(b"".join(each.row_numbers.tobytes() for each in drawn)).hexdigest()[:16]

    return work


def _cluster(workers: int) -> Any:
    """One that ends with this program, with a token, so that no other user of this machine can enter it."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    ray = import_ray()
    ray.init("local", num_cpus=workers, include_dashboard=False, object_store_memory=256 << 20, log_to_driver=False)
    return ray


def _kill_a_worker(killed: list[int]) -> None:
    """One of Ray's workers that passes over rows just now; its number is added."""
    for number in family_of(os.getpid()):
        with contextlib.suppress(OSError):
            if b"_pass_over_unit" in Path(f"/proc/{number}/cmdline").read_bytes():
                os.kill(number, signal.SIGKILL)
                killed.append(number)
                return


def sample(given: Given) -> Callable[[], object]:
    """The first pass: read and check everything, keep a sample for the fit."""
    scan = SourceScan(open_source(given.place), _schema(given), workers=given.workers)
    return lambda: scan.first_pass(sample=foreseen_sample("benchmark", _OWNERS_KEY))


def owner(given: Given) -> Callable[[], object]:
    """All that an owner does in ``sealed``: both passes, fit, thinning, ledger, message; then shares and letters."""
    schema = _schema(given)
    terms = _terms(schema, given)
    folder = Path(tempfile.mkdtemp())
    ledger = _ledger(folder, terms)
    scan = SourceScan(open_source(given.place), schema, workers=given.workers)
    # Rows that differ from the owner's in columns, not in classes: so that the weights need the features.
    apart = (pa.compute.field("number_0") > 1.0) & (pa.compute.field("number_5") > 1.0)
    few = scale_data.table_of(given.kind, 1 << 40, 64 * _TARGET).filter(apart).slice(0, _TARGET)
    target = schema.map(few, table="target", locate=str).rows
    release = terms.kernel.features().mean(target) + np.random.default_rng(3).normal(0.0, 0.002, given.dimension)
    message = Message(terms.run, terms.digest, terms.consumer, terms.owners[0], 1, TargetRelease(release=release))

    declared = DeclaredRecords(schema)

    def work() -> None:
        seen = scan.first_pass(sample=foreseen_sample(terms.run, _OWNERS_KEY))
        rows = OfferedScan(scan, sample=seen.sample)
        party = ChargedParty(SealedOwner(terms, terms.owners[0], scan=rows, key=_OWNERS_KEY, declared=declared), ledger)
        (reply,) = party.take(message)
        _share_and_seal(terms, declared, decode(reply.data).body)

    return work


def _share_and_seal(terms: Terms, declared: DeclaredRecords, offer: Offer) -> None:
    """The offer as an owner of a split curator sends it: a share for each of three parties, in a letter to each."""
    table = declared.unpack(offer.records.tobytes(), rows=len(offer.rows))
    records = EnvelopeRecords(declared.schema, labelled=False).encode(table, np.empty(0), offer.handles)
    mine, *others = (CardSecret.generate(name) for name in ("big", "curator", "consumer", "witness"))
    parties = tuple(other.card.fingerprint for other in others)
    shared = share_offer(
        mine,
        context=OfferContext(bytes.fromhex(terms.digest), mine.card.fingerprint, parties),
        shape=OfferShape(terms.kernel.columns, len(records), max(map(len, records))),
        rows=offer.rows,
        records=records,
    )
    for other, part in zip(others, shared.values(), strict=True):
        write_letter(
            mine,
            recipient=other.card,
            recipient_key=SealingSecret.generate().public,
            run_id=bytes(16),
            terms=bytes.fromhex(terms.digest),
            round=1,
            number=1,
            message=part.to_bytes(),
        )


def in_memory(given: Given) -> Callable[[], object]:
    """All rows mapped and held, then the same draws: what fits into memory only."""
    schema = _schema(given)

    def work() -> None:
        blocks = list(SourceScan(open_source(given.place), schema).blocks())
        rows = np.concatenate([block.rows for _, block in blocks])
        labels = np.concatenate([block.labels for _, block in blocks])
        MemoryScan(rows, labels, pa.concat_tables([block.table for _, block in blocks])).draw(*_drawings(given, schema))

    return work


def by_hand(given: Given) -> Callable[[], object]:
    """What a user would do instead: pandas, scikit-learn's transformers and RBFSampler, numpy's top n."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    schema = _schema(given)
    words = [name for name in schema.columns if name.startswith("word")]
    numbers = [name for name in schema.columns if name not in words]
    # The machine has other users: without a limit, it would be their work that runs out of memory.
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))

    def work() -> None:
        frame = pd.read_parquet(given.place, columns=list(schema.columns))
        columns = ColumnTransformer(
            [("numbers", MinMaxScaler(), numbers), ("words", OneHotEncoder(sparse_output=False), words)]
        )
        hashed = make_pipeline(columns, RBFSampler(gamma=_GAMMA, n_components=given.dimension, random_state=0))
        coins = np.random.default_rng(0)
        direction = coins.normal(0.0, 3.0, given.dimension)
        scores = hashed.fit_transform(frame) @ direction + coins.gumbel(size=len(frame))
        best = np.argpartition(-scores, 4 * given.offered)[: 4 * given.offered]
        frame.iloc[best[np.argsort(-scores[best])]].to_dict("list")

    return work


def _terms(schema: Schema, given: Given) -> Terms:
    return Terms(
        run="benchmark",
        consumer="consumer",
        purpose="benchmark",
        expires="",
        owners=("big", "other"),
        quorum=1,
        schema_digest=schema.digest,
        record_bytes=DeclaredRecords(schema).record_bytes,
        columns=tuple(schema.record_columns),
        kernel=Kernel(schema.width, given.dimension, _GAMMA, 1),
        protocol="sealed",
        size=given.offered,
        target_size=_TARGET,
        offer_factor=2.0,
        offers="tilted",
        labels="ignore",
        thinning=True,
        target_budget=Budget(4.0, 1e-5),
        owner_budget=Budget(0.0, 1e-5),
        relation=Relation.REPLACE_ONE,
        rows_per_unit=1,
        id_column="",
        auction="everyone",
        auction_epsilon=0.0,
        auction_offset=0,
        auction_patience=0,
        summary_release="none",
        seed_rows=0,
        seed_digest="",
        schedule="",
        promised_epsilon=0.0,
        price_per_row=0.0,
        currency="",
        accept_unproven=(),
    )


def _ledger(folder: Path, terms: Terms) -> Ledger:
    ledger = Ledger(folder / "ledger.sqlite")
    large = Limit(1e6, 0.1, terms.relation, accept_unproven=("simulated", "unbounded"))
    ledger.set_limits({View.owners(name): large for name in (terms.consumer, *terms.owners)})
    ledger.set_limits({View.curator(name): Limit.rows_only(terms.rows_per_owner) for name in terms.owners})
    return ledger


MEASURES = {
    "read": read,
    "hash": hash_rows,
    "sample": sample,
    "pass": one_pass,
    "owner": owner,
    "memory": in_memory,
    "by-hand": by_hand,
    **scale_markets.MEASURES,
}


def main() -> None:
    """Measure one thing and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=sorted(MEASURES))
    parser.add_argument("place", type=Path, nargs="?", default=Path())
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kind", choices=scale_data.KINDS, default="mixed")
    parser.add_argument("--scan", default="local")
    parser.add_argument("--kill", type=float, default=0.0, help="kill one of Ray's workers after so many seconds")
    for name, default in (("dimension", 140), ("offered", 1000), ("share", 100), ("swaps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("owners", 1000), ("candidates", 100_000), ("size", 5000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.workers])
    pa.set_cpu_count(given.workers)
    work = MEASURES[given.measure](given)
    over, family = threading.Event(), [0]

    def watch() -> None:
        while not over.wait(0.2):
            family[0] = max(family[0], cost_of_family(os.getpid())[0])

    watcher = threading.Thread(target=watch, daemon=True)
    if given.scan != "local":
        watcher.start()  # workers are other processes, whose peak only a look now and then can tell
    started, spent = time.perf_counter(), cost_of_family(os.getpid())[1]
    answer = None
    try:
        answer = work()
        failed = ""
    except MemoryError:
        failed = "out of memory"
    seconds, cpu = time.perf_counter() - started, cost_of_family(os.getpid())[1] - spent
    over.set()
    peak = max(family[0], 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    sys.stdout.write(
        json.dumps(
            {"seconds": seconds, "cpu": cpu, "peak_mb": peak / 1e6, "failed": failed, "load": os.getloadavg()[0]}
            | ({"draw": answer} if isinstance(answer, str) else {})
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
