"""Which messages of NVFlare pass: at a site those of the curator's server, at the server none between sites.

NVFlare calls the ends of its connections cells. ``server`` and ``st-mary`` are those of organisations, which here are
families; ``server.JOB`` and ``st-mary.JOB`` are those of their jobs. Every message names the cell that it comes from,
and NVFlare believes it. What is known is the cell at the other end of the connection, by its certificate.
"""

from dataclasses import dataclass

SERVER = "server"
_ADMIN_PREFIX = "_admin_"  # of the cells of people who submit jobs
_ADMINISTRATION = "admin"
_CELLS = "cellnet.channel"
_BYE = "bye"
_JOB_COMMANDS = "client_command"
_NETWORK_TOOLS = "_net_manager"
_STREAM = "sm__STREAM"
_STREAM_DATA = "sm__DATA"
_STREAM_ANSWERS = ("sm__ACK", "sm__ERROR")
_LIKESET_CALLS = "collab"
_ANSWERS = "return_only"
_RUNNER = "aux_communication"
_RUNNER_TOPICS = ("__end_run__", "__abort_task__")


@dataclass(frozen=True)
class Passage:
    """A message that comes to a cell, without what it says.

    Attributes:
        cell: the one that it comes to.
        neighbour: the cell at the other end of the connection.
        certificate: the common name of the neighbour's certificate; None between processes of one machine.
        expected: the common name that the neighbour's certificate should have; None where nothing is known of it.
        origin: the cell that wrote it, as the message says.
        destination: the cell that it is for, as the message says.
        offers_connection: whether it asks to be connected with by another way than the server.
    """

    cell: str
    neighbour: str
    certificate: str | None
    expected: str | None
    origin: str
    destination: str
    offers_connection: bool = False


@dataclass(frozen=True)
class CellRequest:
    """What a message asks for.

    Attributes:
        channel: NVFlare's word for the part of the cell that answers.
        topic: and for what it is asked.
        streamed_channel: the same of what is streamed in pieces, where the channel is NVFlare's for streams.
        streamed_topic: and its topic.
    """

    channel: str
    topic: str
    streamed_channel: str = ""
    streamed_topic: str = ""


def why_dropped(passage: Passage) -> str | None:
    """Why a message does not pass, in fixed words; None if it does."""
    if passage.offers_connection:
        return "a message that asks for a connection past the server"
    known = passage.certificate is not None and passage.expected is not None
    if known and passage.certificate != passage.expected and not passage.neighbour.startswith(_ADMIN_PREFIX):
        return "a message over a connection with another certificate than its cell's"
    if _family(passage.cell) == SERVER:
        return _why_not_at_server(passage)
    return _why_not_at_site(passage)


def why_not_asked(request: CellRequest, passage: Passage) -> str | None:
    """Why a request that passes is not answered by the cell that it is for, in fixed words; None if it is."""
    inside = _family(passage.origin) == _family(passage.cell)
    if _family(passage.cell) == SERVER:
        tool = request.channel == _NETWORK_TOOLS or (request.channel == _CELLS and request.topic != _BYE)
        return "a request to tools of the network" if tool and not inside else None
    if request.channel == _STREAM and request.topic == _STREAM_DATA:
        channel, topic = request.streamed_channel, request.streamed_topic
        needed = channel in (_LIKESET_CALLS, _ANSWERS) or (channel == _RUNNER and topic in _RUNNER_TOPICS)
    else:
        channel, topic = request.channel, request.topic
        needed = channel == _ADMINISTRATION or (channel == _CELLS and topic == _BYE)
        needed |= channel == _STREAM and topic in _STREAM_ANSWERS
    if needed or (channel == _JOB_COMMANDS and inside):
        return None
    return "a request that no run of likeset needs"


def _why_not_at_server(passage: Passage) -> str | None:
    sender = _family(passage.neighbour)
    if passage.cell != SERVER:  # of a job: its parent has looked at everything
        return None if passage.neighbour == SERVER else "a message past the server's own process"
    if sender == SERVER:
        return None if _family(passage.origin) == SERVER else "a message of another origin than its connection's"
    if passage.certificate is None:
        return "a message over a connection without a certificate"
    if _family(passage.origin) != sender:
        return "a message of another origin than its connection's"
    own = (SERVER,) if sender.startswith(_ADMIN_PREFIX) else (SERVER, sender)
    return None if _family(passage.destination) in own else "a message from one site to another"


def _why_not_at_site(passage: Passage) -> str | None:
    home = _family(passage.cell)
    if _family(passage.neighbour) == SERVER:
        if _family(passage.origin) != SERVER:
            return "a message of another site"
        return None if _family(passage.destination) == home else "a message for another site"
    if _is_below(passage.cell, passage.neighbour):
        origins = _family(passage.origin) in (home, SERVER)
    elif _is_below(passage.neighbour, passage.cell):
        origins = passage.origin == passage.neighbour or _is_below(passage.origin, passage.neighbour)
    else:
        return "a message over a connection with another site"
    if not origins:
        return "a message of another origin than its connection's"
    return None if _family(passage.destination) in (home, SERVER) else "a message for another site"


def _family(cell: str) -> str:
    return cell.partition(".")[0]


def _is_below(cell: str, other: str) -> bool:
    return cell.startswith(f"{other}.")
