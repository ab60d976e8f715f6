"""The steward's console: one owner's node, open while the console runs, and what its pages have in common."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.responses import Response

from likeset.app.console.desk import page_of
from likeset.app.console.links import UPLOAD
from likeset.app.console.paging import ON_A_PAGE
from likeset.app.console.sessions import Sessions
from likeset.app.console.visits import Visit
from likeset.errors import HomeRestored, InvalidArgument, LikesetError
from likeset.files import PRIVATE_FOLDER
from likeset.homes.owner_node import OwnerNode
from likeset.homes.review import budget_overview, inbox_records, inbox_run

__all__ = ["OwnerDesk"]

MENU = (
    ("/", "Inbox"),
    ("/budgets", "Budgets"),
    ("/data", "Data sets"),
    ("/left", "What left"),
    ("/log", "Log"),
    ("/rules", "Rules"),
    ("/cards", "Cards"),
    ("/check", "Check"),
)


class OwnerDesk:
    """An owner's node, for its pages.

    Args:
        folder: the node's directory.
    """

    def __init__(self, folder: Path) -> None:
        self.node = OwnerNode(folder)
        self.sessions = Sessions()

    def version(self) -> str:
        """The number of the log's last entry: whatever happens here is in it."""
        return str(self.node.ledger.head().number)

    def render(self, visit: Visit, template: str, *, status: int = 200, **words: Any) -> Response:
        """A page of this console."""
        shown = {"stopped": self._stopped(), "version": self.version(), **words}
        return page_of(visit, template, menu=MENU, house=self.node.name, status=status, **shown)

    @contextmanager
    def kept_files(self, ending: str = ".yaml", /, **files: bytes | None) -> Iterator[dict[str, Path]]:
        """Uploaded files, for as long as the block lasts, under names of our own in a private folder of the home.

        An error that names one of them names it without the folder.
        """
        place = self.node.home.folder / "console"
        place.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=UPLOAD, dir=place))
        try:
            paths = {}
            for name, content in files.items():
                if content is not None:
                    paths[name] = folder / f"{name}{ending}"
                    paths[name].write_bytes(content)
            yield paths
        except LikesetError as error:
            raise InvalidArgument("file", "that you chose", str(error).replace(f"{folder}/", "")) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def warm(self) -> None:
        """Judge what the first page shows, and add up what was spent: later pages remember it, and what it loads."""
        with contextlib.suppress(LikesetError):
            budget_overview(self.node)
            for record in inbox_records(self.node, every=False)[:ON_A_PAGE]:
                inbox_run(self.node, record)

    def close(self) -> None:
        """Let go of the node."""
        self.node.close()

    def _stopped(self) -> str:
        """Why this node does nothing any more; empty if it does."""
        try:
            self.node.check_running()
        except HomeRestored as error:
            return str(error)
        return ""
