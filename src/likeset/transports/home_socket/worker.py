"""The process in which a home answers one connection of NVFlare's: ``python -m ...worker HOME DESCRIPTOR``.

One for each connection, as NVFlare has a process for each job: what a run needs is gone with it, and one that goes down
takes no other with it. It ends when NVFlare hangs up, or, between two requests, when the process that listens is gone:
that one holds the other end of this one's standard input.
"""

import os
import select
import socket
import sys
from pathlib import Path

from likeset.errors import BadMessage, LikesetError, NoAnswer
from likeset.homes.home import ABSTAINS
from likeset.transports.first_answer import load_libraries
from likeset.transports.home_socket.frames import SLACK, SocketLine
from likeset.transports.home_socket.home_settings import HomeSettings
from likeset.transports.home_socket.job_answers import JobAnswers, answers_to_job
from likeset.transports.home_socket.verbs import AnswerKind, Verb
from likeset.transports.sites import MOST_RUNS, SiteParties
from likeset.trust.letters import MOST_TERMS_BYTES

_SECONDS_FOR_JOB = 30.0
_SECONDS_IDLE = 3600.0
_MOST_JOB_BYTES = MOST_RUNS * MOST_TERMS_BYTES + SLACK


def answer_line(home: HomeSettings, line: SocketLine, *, parent: int | None = None) -> None:
    """Answer what comes over a connection until the other side hangs up, or says something that is no request.

    Args:
        home: whose answers.
        line: to NVFlare's process.
        parent: a descriptor that can be read when this process is to end.
    """
    answers: JobAnswers | None = None
    try:
        while (parts := _request(line, home, parent, first=answers is None)) is not None:
            verb = _verb(parts[0])
            if answers is None:
                if verb is not Verb.JOB:
                    raise BadMessage("a connection that does not begin with a job")
                answers = answers_to_job(home, parts[1:])
                line.send(AnswerKind.WORD.encode(), b"ready")
                load_libraries()  # NVFlare's own start takes longer
            else:
                line.send(*answers.answer(verb, parts[1:]))
    except BadMessage as error:
        _refuse(home, line, f"the NVFlare process: {error}")
    except NoAnswer as error:
        _note(home, f"the NVFlare process: {error}")
    finally:
        line.close()


def _request(line: SocketLine, home: HomeSettings, parent: int | None, *, first: bool) -> tuple[bytes, ...] | None:
    if first:
        return line.receive(most_bytes=_MOST_JOB_BYTES, seconds=_SECONDS_FOR_JOB)
    watched = [line.connection.fileno(), *([] if parent is None else [parent])]
    ready, _, _ = select.select(watched, [], [], _SECONDS_IDLE)
    if parent in ready or not ready:
        return None
    return line.receive(most_bytes=home.most_bytes + SLACK, seconds=_SECONDS_IDLE)


def _verb(word: bytes) -> Verb:
    try:
        return Verb(word.decode("ascii"))
    except ValueError:
        raise BadMessage("a verb that there is not") from None


def _note(home: HomeSettings, reason: str) -> None:
    SiteParties(home.party, {}, home.site_settings()).refuse(reason)


def _refuse(home: HomeSettings, line: SocketLine, reason: str) -> None:
    _note(home, reason)
    try:
        line.send(AnswerKind.WORD.encode(), ABSTAINS.encode())
    except NoAnswer:
        return


def main(folder: str, descriptor: str) -> int:
    """The exit code. An error is told by its kind alone: its text may quote rows."""
    with socket.socket(fileno=int(descriptor)) as connection:
        try:
            answer_line(HomeSettings.read(Path(folder)), SocketLine(connection), parent=sys.stdin.fileno())
        except LikesetError as error:
            sys.stderr.write(f"likeset site serve: {error}\n")
            return 1
        except Exception as error:
            sys.stderr.write(f"likeset site serve: {type(error).__name__}\n")
            return 1
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(*sys.argv[1:]))
