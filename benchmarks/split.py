"""What selecting on secret shares costs, and how good it is beside the same greedy in the clear.

    python benchmarks/split.py --environment .venv-split --offers 2000 --target 360 --size 200 --columns 50 784

All compute parties run on this machine, each with a worker process of its own. Told are wall time, processor time of
all workers together (what counts where others use the machine as well), the largest memory of each worker, and
MMD² relative to exact greedy in the clear. Rows are drawn from mixtures with a fixed seed; ``--images FILE`` takes
MNIST's images from an ``npz`` file for 784 columns; ``--tunnels`` joins the parties by tunnels, whose processor time is
that of this process; ``--delay 20`` besides lets everything between two parties take 20 ms on its way, whose relays are
in this process too. One line of JSON for each case.
"""

import argparse
import json
import queue
import resource
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likeset.geometry.greedy import exact_greedy
from likeset.geometry.kernels import squared_mmd
from likeset.protocol.split import ComputeInputs, OpenedSlots
from likeset.split.engine.agreement import PARTIES
from likeset.split.host import LocalMeeting, Meeting, OpeningFile, SplitParty, program_digest, worker_python
from likeset.split.links import RunCertificate, TunnelMeeting, TunnelPeer

_AT_ONCE = 1 << 16


class DelayedLink:
    """Listens on a port of its own on this machine until it is closed.

    Args:
        port: on this machine, where everything goes.
        seconds: that everything takes on its way, in each direction.
    """

    def __init__(self, port: int, seconds: float) -> None:
        self._to, self._seconds = port, seconds
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more connections; those that are there stay."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for one, other in ((near, far), (far, near)):
                waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=self._read, args=(one, waiting), daemon=True).start()
                threading.Thread(target=_write, args=(other, waiting), daemon=True).start()

    def _read(self, end: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"-"
        while data:
            try:
                data = end.recv(_AT_ONCE)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self._seconds, data))


def _write(end: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    """An end without bytes is the end of the stream."""
    while True:
        due, data = waiting.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                end.shutdown(socket.SHUT_WR)
                return
            end.sendall(data)
        except OSError:
            return


ONE = 1 << 16
IMAGE_COLUMNS = 784
IMAGE_GAMMA = 0.03
PARTY_NAMES = ("curator", "consumer", "witness")

Words = NDArray[np.int64]


def mixture(columns: int, offers: int, target: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Rows in [0, 1] around eight centres, a target around two of them, and a width for the kernel."""
    coins = np.random.default_rng(20)
    centres = coins.uniform(0.2, 0.8, (8, columns))
    rows = centres[coins.integers(8, size=offers)] + 0.1 * coins.standard_normal((offers, columns))
    wanted = centres[coins.integers(2, size=target)] + 0.1 * coins.standard_normal((target, columns))
    return np.clip(rows, 0, 1), np.clip(wanted, 0, 1), 12.0 / columns


def images(path: Path, offers: int, target: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """MNIST: half of the offers are threes and fours, and so is the target."""
    coins = np.random.default_rng(20)
    with np.load(path) as data:
        rows, labels = data["x_train"].reshape(-1, IMAGE_COLUMNS) / 255, data["y_train"]
        wanted = data["x_test"][np.isin(data["y_test"], (3, 4))].reshape(-1, IMAGE_COLUMNS) / 255
    alike = np.isin(labels, (3, 4))
    chosen = [
        coins.choice(np.flatnonzero(mask), count, replace=False)
        for mask, count in ((alike, offers // 2), (~alike, offers - offers // 2))
    ]
    return rows[np.concatenate(chosen)], wanted[:target], IMAGE_GAMMA


def split_words(words: Words) -> list[Words]:
    """Additive shares from the system's generator."""
    drawn = [np.frombuffer(secrets.token_bytes(words.nbytes), dtype=np.int64) for _ in range(PARTIES - 1)]
    shares = [share.reshape(words.shape) for share in drawn]
    return [*shares, words - sum(shares, np.zeros_like(words))]


def local() -> tuple[list[Meeting], Callable[[], None]]:
    """Engines that reach each other's sockets directly."""
    meeting = LocalMeeting()
    return [meeting] * PARTIES, meeting.close


def tunnelled(delay: float) -> tuple[list[Meeting], Callable[[], None]]:
    """Engines joined by tunnels over TCP on this machine, everything in them so many seconds on its way."""
    own = [RunCertificate.generate() for _ in range(PARTIES)]
    meetings = [TunnelMeeting(rank, own=certificate) for rank, certificate in enumerate(own)]
    links = [DelayedLink(meeting.port, delay) for meeting in meetings] if delay else []
    ports = [link.port for link in links] or [meeting.port for meeting in meetings]
    known = {rank: TunnelPeer("127.0.0.1", ports[rank], own[rank].certificate) for rank in range(PARTIES)}
    for rank, meeting in enumerate(meetings):
        meeting.start({other: peer for other, peer in known.items() if other != rank})

    def close() -> None:
        for end in links:
            end.close()
        for meeting in meetings:
            meeting.stop()

    return list(meetings), close


class MeasuredRun:
    """One computation with all parties in threads, and what it took."""

    def __init__(self, inputs: list[ComputeInputs], *, environment: Path, tunnels: bool, delay: float) -> None:
        self._inputs, self._python, self._tunnels, self._delay = inputs, worker_python(environment), tunnels, delay
        self.peaks = [0] * PARTIES
        self.prepared = 0.0
        self.opened: OpenedSlots | None = None

    def run(self) -> None:
        """All parties until the end."""
        folder = tempfile.TemporaryDirectory()
        meetings, close = tunnelled(self._delay) if self._tunnels else local()
        self._begun = time.perf_counter()
        threads = [
            threading.Thread(target=self._party, args=(rank, meetings[rank], Path(folder.name) / str(rank)))
            for rank in range(PARTIES)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.wall = time.perf_counter() - self._begun
        close()
        folder.cleanup()

    def _party(self, rank: int, meeting: Meeting, folder: Path) -> None:
        party = SplitParty(self._inputs[rank], opening=OpeningFile(folder), python=self._python, meeting=meeting)

        def progress(stage: str, done: int, of: int) -> None:
            if party.worker is not None:
                self.peaks[rank] = max(self.peaks[rank], peak_megabytes(party.worker.pid))
            if stage == "preparing" and done == of:
                self.prepared = time.perf_counter() - self._begun

        opened = party.run(progress=progress)
        self.opened = opened or self.opened


def peak_megabytes(process: int) -> int:
    """The largest memory that a process had so far."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def measure(arguments: argparse.Namespace, columns: int) -> dict[str, object]:
    """One case."""
    shown = arguments.images is not None and columns == IMAGE_COLUMNS
    drawn = images(arguments.images, arguments.offers, arguments.target) if shown else None
    rows, target, gamma = drawn or mixture(columns, arguments.offers, arguments.target)
    words, wanted = np.rint(rows * ONE).astype(np.int64), np.rint(target * ONE).astype(np.int64)
    secret = np.frombuffer(secrets.token_bytes(32 * len(rows)), dtype=np.int64).reshape(-1, 4)
    offers = np.concatenate([words, np.ones((len(rows), 1), dtype=np.int64), secret], axis=1)
    inputs = [
        ComputeInputs(
            rank,
            offers=len(rows),
            target_rows=len(target),
            size=arguments.size,
            gamma=gamma,
            lows=(0,) * columns,
            highs=(ONE,) * columns,
            program=program_digest(),
            digest="benchmark",
            offer_words=own,
            target_words=share,
        )
        for rank, (own, share) in enumerate(zip(split_words(offers), split_words(wanted), strict=True))
    ]
    before, own_before = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    joined = {"tunnels": arguments.tunnels or arguments.delay > 0, "delay": arguments.delay / 1000}
    run = MeasuredRun(inputs, environment=arguments.environment, **joined)
    run.run()
    after, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time() - own_before
    if run.opened is None:
        raise SystemExit("nothing was opened")
    picks, clear = run.opened.numbers, exact_greedy(rows, target, arguments.size, gamma=gamma).indices
    return {
        "rows": "mnist" if shown else "mixture",
        "tunnels": joined["tunnels"],
        "delay_ms": arguments.delay,
        "offers": len(rows),
        "columns": columns,
        "target": len(target),
        "size": arguments.size,
        "wall_s": round(run.wall, 1),
        "until_first_pick_s": round(run.prepared, 1),
        "processor_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "own_processor_s": round(own, 1),
        "peak_mb": dict(zip(PARTY_NAMES, run.peaks, strict=False)),
        "same_picks": len(set(picks.tolist()) & set(clear.tolist())),
        "mmd2_ratio": round(
            squared_mmd(rows[picks], target, gamma=gamma) / squared_mmd(rows[clear], target, gamma=gamma), 4
        ),
    }


def main() -> None:
    """Measure every case that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(".venv-split"))
    parser.add_argument("--offers", type=int, default=500)
    parser.add_argument("--target", type=int, default=100)
    parser.add_argument("--size", type=int, default=20)
    parser.add_argument("--columns", type=int, nargs="+", default=[50])
    parser.add_argument("--images", type=Path)
    parser.add_argument("--tunnels", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    for columns in arguments.columns:
        print(json.dumps(measure(arguments, columns)), flush=True)


if __name__ == "__main__":
    main()
