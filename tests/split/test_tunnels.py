"""Links: bytes pass between parties that know each other's certificates, and between no others."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from likeset.errors import LetterRefused, NoAnswer
from likeset.split.host import Attempt, WorkerProcess
from likeset.split.links import MOST_UNKNOWN, RunCertificate, TlsStream, TunnelMeeting, TunnelPeer

CERTIFICATES = [RunCertificate.generate() for _ in range(3)]
FOREIGN = RunCertificate.generate()
MINUTE = 60.0


class IdleWorker:
    """Stands for a worker: says when it was killed."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()


def wait_until(true: Callable[[], bool]) -> None:
    """Whoever is refused can know before the other side has noted it."""
    last = time.monotonic() + MINUTE
    while not true():
        assert time.monotonic() < last
        time.sleep(0.01)


def idle() -> WorkerProcess:
    return cast("WorkerProcess", IdleWorker())


def killed(worker: WorkerProcess) -> threading.Event:
    return cast("IdleWorker", worker).killed


def peers_of(rank: int, meetings: list[TunnelMeeting]) -> dict[int, TunnelPeer]:
    return {
        other: TunnelPeer("127.0.0.1", meeting.port, CERTIFICATES[other].certificate)
        for other, meeting in enumerate(meetings)
        if other != rank
    }


def started() -> list[TunnelMeeting]:
    made = [TunnelMeeting(rank, own=CERTIFICATES[rank]) for rank in range(3)]
    for rank, meeting in enumerate(made):
        meeting.start(peers_of(rank, made))
    return made


@pytest.fixture
def meetings() -> Iterator[list[TunnelMeeting]]:
    made = started()
    yield made
    for meeting in made:
        meeting.stop()


def joined(meetings: list[TunnelMeeting], workers: list[WorkerProcess]) -> list[Attempt]:
    with ThreadPoolExecutor(len(meetings)) as threads:
        calls = [
            threads.submit(meeting.join, MINUTE, worker) for meeting, worker in zip(meetings, workers, strict=True)
        ]
        return [call.result() for call in calls]


async def echo_through(attempts: list[Attempt], sender: int, reader: int, sent: bytes) -> bytes:
    """An engine at the reader that sends back whatever it gets, and one at the sender that connects to it."""

    async def answer(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        while data := await incoming.read(1 << 16):
            outgoing.write(data)
            await outgoing.drain()
        outgoing.close()
        await outgoing.wait_closed()
        ended.set()

    ended = asyncio.Event()
    own = attempts[reader].addresses[reader].removeprefix("unix:")
    server = await asyncio.start_unix_server(answer, path=own)
    incoming, outgoing = await asyncio.open_unix_connection(attempts[sender].addresses[reader].removeprefix("unix:"))
    outgoing.write(sent)
    got = await incoming.readexactly(len(sent))
    outgoing.close()
    await outgoing.wait_closed()
    await ended.wait()
    server.close()
    return got


def test_bytes_pass_between_all_pairs_of_engines(meetings: list[TunnelMeeting]) -> None:
    attempts = joined(meetings, [idle(), idle(), idle()])
    assert len({attempt.name for attempt in attempts}) == 1
    sent = bytes(range(256)) * 8192  # two megabytes: many records, more than any buffer
    for sender, reader in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        assert asyncio.run(echo_through(attempts, sender, reader, sent)) == sent


def test_a_link_that_is_full_both_ways_goes_on() -> None:
    """Both ends write more than buffers hold before either reads."""
    sent = bytes(range(256)) * 8192

    async def heard(stream: TlsStream) -> bytes:
        data = b""
        while len(data) < len(sent):
            data += await stream.read()
        return data

    async def both() -> list[bytes]:
        plain = [await asyncio.open_unix_connection(sock=end) for end in socket.socketpair()]
        streams = [
            TlsStream(CERTIFICATES[rank], CERTIFICATES[1 - rank].certificate, plain[rank], calls=rank == 0)
            for rank in (0, 1)
        ]
        await asyncio.gather(*(stream.shake_hands() for stream in streams))
        for stream in streams:
            stream.write(sent)
        result = await asyncio.gather(*map(heard, streams))
        for stream in streams:
            stream.close()
        return result

    assert asyncio.run(asyncio.wait_for(both(), MINUTE)) == [sent, sent]


def test_sockets_lie_where_nobody_else_can_reach_them(meetings: list[TunnelMeeting]) -> None:
    for attempt in joined(meetings, [idle(), idle(), idle()]):
        folders = {Path(address.removeprefix("unix:")).parent for address in attempt.addresses}
        assert [folder.stat().st_mode & 0o077 for folder in folders] == [0]


@pytest.mark.parametrize("how", ["failed", "refused"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_when_one_partys_worker_ends_all_others_are_stopped_know_how_and_meet_again(
    meetings: list[TunnelMeeting], failing: int, how: str
) -> None:
    workers = [idle(), idle(), idle()]
    attempts = joined(meetings, workers)
    assert meetings[failing].leave(how) == how
    for rank in {0, 1, 2} - {failing}:
        assert killed(workers[rank]).wait(MINUTE)
        assert meetings[rank].leave("failed") == how
    again = joined(meetings, [idle(), idle(), idle()])
    assert {attempt.name for attempt in again} != {attempt.name for attempt in attempts}


@pytest.mark.parametrize("last", ["done", "failed"])
def test_who_is_done_stays_until_the_others_are_or_one_stops(meetings: list[TunnelMeeting], last: str) -> None:
    joined(meetings, [idle(), idle(), idle()])
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(meetings[rank].leave, "done") for rank in (0, 1)]
        time.sleep(0.1)
        assert not any(call.done() for call in calls)
        calls.append(threads.submit(meetings[2].leave, last))
        assert [call.result() for call in calls] == [last] * 3


def test_when_a_partys_process_is_gone_the_others_are_stopped() -> None:
    for gone in (2, 0):
        made = started()
        workers = [idle(), idle(), idle()]
        joined(made, workers)
        made[gone].stop()
        for rank, worker in enumerate(workers):
            assert killed(worker).wait(MINUTE), rank
        for rank, meeting in enumerate(made):
            if rank != gone:
                meeting.stop()


def test_whoever_waits_for_a_party_that_does_not_come_is_told_so(meetings: list[TunnelMeeting]) -> None:
    with pytest.raises(NoAnswer, match="did not come"):
        meetings[1].join(0.05, idle())


@contextlib.asynccontextmanager
async def link_to(meeting: TunnelMeeting, own: RunCertificate, expected: int) -> AsyncIterator[TlsStream]:
    """Somebody with this certificate calls a party, and takes it for the one of this rank."""
    plain = await asyncio.open_connection("127.0.0.1", meeting.port)
    stream = TlsStream(own, CERTIFICATES[expected].certificate, plain, calls=True)
    try:
        yield stream
    finally:
        stream.close()


@pytest.mark.parametrize("own", [FOREIGN, *CERTIFICATES[:2]], ids=["foreign", "its own", "the next party's"])
def test_only_the_party_before_is_let_in(own: RunCertificate) -> None:
    """The curator is called by the witness, whatever anybody else shows."""

    async def call(meeting: TunnelMeeting) -> bytes:
        async with link_to(meeting, own, 0) as stream:
            with contextlib.suppress(LetterRefused):
                await stream.shake_hands()
            return await stream.read()

    meeting = TunnelMeeting(0, own=CERTIFICATES[0])
    meeting.start({rank: TunnelPeer("127.0.0.1", 1, CERTIFICATES[rank].certificate) for rank in (1, 2)})
    assert asyncio.run(asyncio.wait_for(call(meeting), MINUTE)) == b""
    wait_until(lambda: any("not the compute party" in refusal for refusal in meeting.refusals))
    assert not meeting._links
    meeting.stop()


def test_a_party_does_not_speak_to_a_foreign_server(meetings: list[TunnelMeeting]) -> None:
    """The peer's address leads to somebody with another certificate: another compute party of the same run."""

    async def call() -> None:
        async with link_to(meetings[2], CERTIFICATES[1], 0) as stream:
            await stream.shake_hands()

    with pytest.raises(LetterRefused):
        asyncio.run(call())


def test_keys_are_exchanged_so_that_a_quantum_computer_does_not_read_them_later(meetings: list[TunnelMeeting]) -> None:
    async def group() -> str | None:
        async with link_to(meetings[0], CERTIFICATES[2], 0) as stream:
            await stream.shake_hands()
            return stream._connection.get_group_name()

    assert asyncio.run(group()) == "X25519MLKEM768"


def spoken(meeting: TunnelMeeting, data: bytes) -> bytes:
    """What the curator says to a witness that speaks so, until it ends the link; nothing else within a second."""

    async def speak() -> bytes:
        async with link_to(meeting, CERTIFICATES[2], 0) as stream:
            await stream.shake_hands()
            stream.write(data)
            heard = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    while piece := await stream.read():
                        heard += piece
            return heard

    return asyncio.run(asyncio.wait_for(speak(), MINUTE))


def framed(number: int, data: bytes) -> bytes:
    return number.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        b"\xff" * 5000,
        b"GET / HTTP/1.1\r\n\r\n",
        framed(0, b"x" * 5000),
        framed(0, b"\xff\xfe open x"),
        framed(0, b"go " + b"0" * 32),
        framed(7, b"to a connection that nobody opened"),
        framed(0, b"done x") + framed(0, b"failed x") + framed(0, b"refused "),
    ],
    ids=["garbage", "another protocol", "many words", "no words", "no leader", "no connection", "no attempt"],
)
def test_what_a_party_must_not_say_changes_nothing(meetings: list[TunnelMeeting], said: bytes) -> None:
    attempts = joined(meetings, [idle(), idle(), idle()])
    assert spoken(meetings[0], said) == b""
    for meeting in meetings:
        meeting.leave("failed")  # another link of the witness ended the attempt
    assert len({attempt.name for attempt in joined(meetings, [idle(), idle(), idle()])} - {attempts[0].name}) == 1


def test_a_connection_of_an_attempt_that_is_over_leads_nowhere(meetings: list[TunnelMeeting]) -> None:
    joined(meetings, [idle(), idle(), idle()])
    assert spoken(meetings[0], framed(0, b"open 3 " + b"0" * 32)) == framed(3, b"")


def ends(stranger: socket.socket) -> bool:
    """Whether the other side hangs up on it soon; a stranger who is let be has 20 seconds to say who it is."""
    stranger.settimeout(5.0)
    try:
        return stranger.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_strangers_who_hold_connections_open_or_knock_for_ever_take_neither_files_nor_memory(
    meetings: list[TunnelMeeting],
) -> None:
    """Whoever came first and has not said who it is makes room; parties of the run get in all the same."""
    with contextlib.ExitStack() as opened:
        address = ("127.0.0.1", meetings[0].port)
        strangers = [opened.enter_context(socket.create_connection(address)) for _ in range(MOST_UNKNOWN + 40)]
        assert all(ends(stranger) for stranger in strangers[:40])
        workers = [idle() for _ in meetings]
        assert len({attempt.name for attempt in joined(meetings, workers)}) == 1
    for _ in range(MOST_UNKNOWN):
        socket.create_connection(address).close()
    with socket.create_connection(address) as last:
        last.sendall(b"this is no handshake" * 10)
        assert ends(last)
    wait_until(lambda: not meetings[0]._unknown)  # all are dealt with, in the order in which they came
    assert 0 < len(meetings[0].refusals) <= MOST_UNKNOWN
