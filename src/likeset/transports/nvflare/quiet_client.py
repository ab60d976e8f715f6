"""NVFlare's client library talks to the terminal whenever it connects; a command that prints JSON cannot have that."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from likeset.transports.nvflare.engine import NvflareEngine


@contextmanager
def quiet_output() -> Iterator[None]:
    """Nothing that NVFlare prints is seen meanwhile; what it raises is."""
    from nvflare.tool.cli_output import set_output_format

    set_output_format("json")  # its words then go to standard error, and standard output stays ours
    with redirect_stderr(io.StringIO()):
        yield


class QuietEngine(NvflareEngine):
    """As NVFlare's engine, without a word."""

    @contextmanager
    def _session(self) -> Iterator[Any]:
        with quiet_output(), super()._session() as session:
            yield session
