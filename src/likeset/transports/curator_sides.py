"""The curator's side of a run, in this process or behind the socket of its home."""

from collections.abc import Callable, Sequence

from likeset.errors import ProtocolError
from likeset.homes.mail import CuratorRun, Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.first_answer import load_libraries
from likeset.transports.home_socket.client import CuratorClient, HomeLine
from likeset.transports.home_socket.machine_users import uid_of
from likeset.transports.letter_parcels import CuratorLetters
from likeset.transports.sites import SiteSettings, SocketSettings, file_of_invitation


def line_to(settings: SocketSettings, files: Sequence[tuple[str, bytes]]) -> HomeLine:
    """To the home of a site, for a job with these files of signed terms."""
    return HomeLine(settings.socket, uid_of(settings.home_user), files)


def curator_side(
    settings: SiteSettings | SocketSettings,
    invitation: Invitation,
    line: Callable[[SocketSettings], HomeLine] | None = None,
) -> CuratorLetters:
    """The curator's side of a run, where the site's settings say.

    Args:
        settings: of the curator's site.
        invitation: the signed terms.
        line: to the curator's home, for the job that the run came with; one of its own if None.

    Raises:
        LikesetError: the site does not curate it.
    """
    if isinstance(settings, SiteSettings):
        load_libraries()
        return curator_made(settings, invitation)
    files = [(file_of_invitation(invitation.terms.digest), invitation.to_bytes())]
    return CuratorClient.check(line_to(settings, files) if line is None else line(settings), invitation.terms)


def curator_made(settings: SiteSettings, invitation: Invitation) -> CuratorRun:
    """The curator's side of a run.

    Raises:
        LikesetError: the site does not curate it.
    """
    made = settings.factory(invitation, CURATOR, settings.folder)
    if not isinstance(made, CuratorRun) or made.terms.digest != invitation.terms.digest:
        raise ProtocolError("the curator's site made no curator for these terms")
    return made
