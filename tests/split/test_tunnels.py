"""Tunnels: bytes pass between parties that know each other's certificates, and between no others."""

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from likeset.errors import LetterRefused, NoAnswer
from likeset.split.engine.agreement import BadFrame
from likeset.split.host import Attempt, WorkerProcess
from likeset.split.links import (
    CONTROL,
    LINK,
    MOST_UNKNOWN,
    Greeting,
    RunCertificate,
    TunnelMeeting,
    TunnelPeer,
    call_peer,
    tls_client,
)

SESSION = b"s" * 32
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


@pytest.fixture
def meetings() -> Iterator[list[TunnelMeeting]]:
    made = [TunnelMeeting(rank, session=SESSION, own=CERTIFICATES[rank]) for rank in range(3)]
    for rank, meeting in enumerate(made):
        meeting.start(peers_of(rank, made))
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


def test_sockets_lie_where_nobody_else_can_reach_them(meetings: list[TunnelMeeting]) -> None:
    for attempt in joined(meetings, [idle(), idle(), idle()]):
        folders = {Path(address.removeprefix("unix:")).parent for address in attempt.addresses}
        assert [folder.stat().st_mode & 0o077 for folder in folders] == [0]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_when_one_partys_worker_fails_all_others_are_stopped_and_meet_again(
    meetings: list[TunnelMeeting], failing: int
) -> None:
    workers = [idle(), idle(), idle()]
    attempts = joined(meetings, workers)
    meetings[failing].leave(attempts[failing], how="failed")
    for worker in workers:
        assert killed(worker).wait(MINUTE)
    assert not any(meeting.was_refused(attempts[0]) for meeting in meetings)
    again = joined(meetings, [idle(), idle(), idle()])
    assert {attempt.name for attempt in again} != {attempt.name for attempt in attempts}


@pytest.mark.parametrize("refusing", [0, 1, 2])
def test_when_one_party_refuses_all_others_are_stopped_and_know_it(
    meetings: list[TunnelMeeting], refusing: int
) -> None:
    workers = [idle(), idle(), idle()]
    attempts = joined(meetings, workers)
    meetings[refusing].leave(attempts[refusing], how="refused")
    for worker in workers:
        assert killed(worker).wait(MINUTE)
    assert all(meeting.was_refused(attempts[0]) for meeting in meetings)


def test_when_a_partys_process_is_gone_the_others_are_stopped() -> None:
    for gone in (2, 0):
        made = [TunnelMeeting(rank, session=SESSION, own=CERTIFICATES[rank]) for rank in range(3)]
        for rank, meeting in enumerate(made):
            meeting.start(peers_of(rank, made))
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


def called(meetings: list[TunnelMeeting], own: RunCertificate, greeting: Greeting) -> bytes:
    """What comes back when somebody calls the party that a greeting means; nothing if it is shut out."""

    async def call() -> bytes:
        port = meetings[greeting.reader % 3].port
        stream = await call_peer(
            own, TunnelPeer("127.0.0.1", port, CERTIFICATES[greeting.reader % 3].certificate), greeting
        )
        with contextlib.closing(stream):
            return await stream.read()

    try:
        return asyncio.run(asyncio.wait_for(call(), MINUTE))
    except LetterRefused:
        return b""


@pytest.mark.parametrize(
    ("own", "greeting", "reason"),
    [
        (FOREIGN, Greeting(SESSION, 1, 0, CONTROL), "none of the run's"),
        (CERTIFICATES[2], Greeting(SESSION, 1, 0, CONTROL), "another rank"),
        (CERTIFICATES[1], Greeting(SESSION, 2, 0, LINK, b"x"), "another rank"),
        (CERTIFICATES[0], Greeting(SESSION, 0, 0, CONTROL), "none of the run's"),
        (CERTIFICATES[1], Greeting(SESSION, 7, 0, CONTROL), "another rank"),
        (CERTIFICATES[1], Greeting(b"t" * 32, 1, 0, CONTROL), "another session"),
        (CERTIFICATES[1], Greeting(SESSION, 1, 0, b"files"), "another session"),
        (CERTIFICATES[1], Greeting(SESSION, 1, 3, CONTROL), "another session, or another party"),
    ],
    ids=["foreign", "rank", "rank of a link", "own", "no rank", "session", "purpose", "reader"],
)
def test_whoever_is_not_meant_is_shut_out(
    meetings: list[TunnelMeeting], own: RunCertificate, greeting: Greeting, reason: str
) -> None:
    assert called(meetings, own, greeting) == b""
    wait_until(lambda: any(reason in refusal for refusal in meetings[0].refusals))


def test_a_link_of_an_attempt_that_is_over_leads_nowhere(meetings: list[TunnelMeeting]) -> None:
    joined(meetings, [idle(), idle(), idle()])
    assert called(meetings, CERTIFICATES[1], Greeting(SESSION, 1, 0, LINK, b"0" * 32)) == b""


def test_a_party_does_not_speak_to_a_foreign_server(meetings: list[TunnelMeeting]) -> None:
    """The peer's address leads to somebody with another certificate: another compute party of the same run."""
    peer = TunnelPeer("127.0.0.1", meetings[2].port, CERTIFICATES[0].certificate)
    with pytest.raises(LetterRefused):
        asyncio.run(call_peer(CERTIFICATES[1], peer, Greeting(SESSION, 1, 0, CONTROL)))


def test_keys_are_exchanged_so_that_a_quantum_computer_does_not_read_them_later(meetings: list[TunnelMeeting]) -> None:
    async def group() -> str | None:
        plain = await asyncio.open_connection("127.0.0.1", meetings[0].port)
        stream = tls_client(CERTIFICATES[1], [CERTIFICATES[0].certificate], *plain)
        await stream.shake_hands()
        name = stream._connection.get_group_name()
        stream.close()
        return name

    assert asyncio.run(group()) == "X25519MLKEM768"


def test_garbage_after_the_handshake_is_refused(meetings: list[TunnelMeeting]) -> None:
    async def shout(write: Callable[[], bytes]) -> None:
        plain = await asyncio.open_connection("127.0.0.1", meetings[0].port)
        stream = tls_client(CERTIFICATES[1], [CERTIFICATES[0].certificate], *plain)
        await stream.shake_hands()
        await stream.write(write())
        assert await stream.read() == b""
        stream.close()

    for garbage in (b"\xff" * 5000, b"\x00\x00\x00\x04abcd", b"GET / HTTP/1.1\r\n\r\n"):
        asyncio.run(asyncio.wait_for(shout(lambda garbage=garbage: garbage), MINUTE))  # type: ignore[misc]
    wait_until(lambda: sum("does not say" in refusal for refusal in meetings[0].refusals) == 3)


def test_a_control_frame_has_a_limit() -> None:
    async def hear() -> None:
        stream = tls_client(CERTIFICATES[1], [], asyncio.StreamReader(), cast("asyncio.StreamWriter", None))
        await stream.hear_after((5000).to_bytes(4, "big"))

    with pytest.raises(BadFrame, match="more than it may"):
        asyncio.run(hear())


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


def test_connections_that_come_while_a_party_stops_are_closed() -> None:
    """Some are taken and cancelled before their first step; one that is left open warns when it is collected."""
    for meeting in (TunnelMeeting(0, session=SESSION, own=CERTIFICATES[0]) for _ in range(20)):
        with contextlib.ExitStack() as opened:
            strangers = [opened.enter_context(socket.create_connection(("127.0.0.1", meeting.port))) for _ in range(10)]
            meeting.stop()
            assert all(ends(stranger) for stranger in strangers)
    gc.collect()
