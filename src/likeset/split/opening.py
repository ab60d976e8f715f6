"""What a compute party keeps of an opening, in a directory that nobody else can read.

The file of the party's own share is the record that picks were opened. It is on disk before the share leaves, and
is never replaced: whoever asks again gets the same bytes. Without its content, nothing more can be opened.
"""

from pathlib import Path

from likeset.errors import PartyFailed
from likeset.files import keep_private_bytes, make_private_folder

__all__ = ["Opening"]

_SHARE, _PICKS = "opening.share", "opened.frame"


class Opening:
    """Of one run.

    Args:
        folder: the party's own for the run; made when something is kept.

    Attributes:
        record: the file of the party's share; empty when the share is gone.
    """

    def __init__(self, folder: Path) -> None:
        self.record, self._picks = folder / _SHARE, folder / _PICKS

    @property
    def began(self) -> bool:
        """Whether this party has sent its share of the picks, or was about to."""
        return self.record.exists()

    def share(self) -> bytes:
        """This party's share of the picks; empty if nothing was opened.

        Raises:
            PartyFailed: picks were opened, and the share is gone.
        """
        if not self.began:
            return b""
        share = self.record.read_bytes()
        if not share:
            raise PartyFailed("picks were opened already, and this party no longer has its share of them")
        return share

    def keep_share(self, share: bytes) -> None:
        """On disk when this returns, for good.

        Raises:
            PartyFailed: another one is kept.
        """
        if self.began:
            raise PartyFailed("picks were opened already, and nothing else may be opened")
        make_private_folder(self.record.parent)
        keep_private_bytes(self.record, share)

    def picks(self) -> bytes | None:
        """What was opened to this party; the consumer's only."""
        return self._picks.read_bytes() if self._picks.exists() else None

    def keep_picks(self, frame: bytes) -> None:
        """On disk when this returns."""
        if self.picks() is None:
            keep_private_bytes(self._picks, frame)

    def forget_share(self) -> None:
        """The record stays."""
        if self.began:
            keep_private_bytes(self.record, b"")
