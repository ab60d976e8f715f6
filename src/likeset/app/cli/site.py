"""``likeset site``: make a site of NVFlare one that runs likeset and nothing else."""

import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from likeset.app.cli.party import show_fingerprint
from likeset.display import JsonFlag, literal, show_json, show_notes, show_table, stdout
from likeset.errors import InvalidArgument
from likeset.homes.consumer_home import ConsumerHome
from likeset.homes.curator_home import CuratorHome, make_curator_home
from likeset.homes.home import LEFT_TO_TRUST
from likeset.homes.owner_node import Home
from likeset.protocol.party import CURATOR
from likeset.transports.home_socket.exposure import exposures
from likeset.transports.home_socket.home_settings import HomeSettings, usual_socket
from likeset.transports.home_socket.listening import HomeListener
from likeset.transports.home_socket.machine_users import acting_for_owner_of, name_of, owner_of
from likeset.transports.nvflare.job import settle
from likeset.transports.sites import CALLS_AFTER_AUCTION

__all__ = ["site"]

site = typer.Typer(
    name="site",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_NO_CAGE = (
    "NVFlare runs as the home's own user, and whoever gets into NVFlare gets into the home: let them be two users, see "
    "docs/deploying.md"
)
_SHARED_STORAGE = "/tmp/nvflare"  # noqa: S108 (NVFlare's default)
_OWNERS_HEAR = 1 << 25  # bytes of a message, at most: releases, and yes or no
SocketPath = Annotated[
    Path | None,
    typer.Option(
        "--socket",
        help="Where the home's process listens.  \\[default: home.sock in the home, or below /run for two users]",
    ),
]
KitPath = Annotated[Path, typer.Argument(metavar="KIT", help="The site's start-up kit.", show_default=False)]


@site.command()
def owner(
    kit: KitPath,
    *,
    node: Annotated[Path, typer.Option(help="The owner's node.", show_default=False)],
    socket: SocketPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a site hand letters to an owner's node, which `likeset site serve` answers for.

    NVFlare's user is the one whose the kit is, the node's the one whose the node is. Let them be two, and call this as
    root; `likeset site check` says what NVFlare's user could read.

    Example: `likeset site owner kits/st-mary --node st-mary`
    """
    home = Home(node)
    home.check()
    party = home.card().name  # a site without keys could answer nothing
    settled = _Settled(kit, node, "likeset.homes.owner.site:owner", party, socket)
    _settle_site(settled, as_json=as_json, limits={"most_bytes": _OWNERS_HEAR})


@site.command()
def consumer(
    kit: KitPath,
    *,
    home: Annotated[Path, typer.Option(help="The consumer's directory, as `run init` made it.", show_default=False)],
    socket: SocketPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Let a site hand letters to a consumer's home, in the runs that it signed and in no others.

    Example: `likeset site consumer kits/new-clinic --home clinic`
    """
    ConsumerHome(home).check()
    ConsumerHome(home).check_able_to_write()
    party = ConsumerHome(home).connection.name
    _settle_site(_Settled(kit, home, "likeset.homes.consumer.site:consumer", party, socket), as_json=as_json)


@site.command()
def curator(
    kit: KitPath,
    *,
    home: Annotated[Path, typer.Option(help="The curator's directory; made if it is not there.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="The name on its card, when the directory is made.  \\[default: curator]")
    ] = None,
    schema: Annotated[list[Path] | None, typer.Option(help="A schema that runs may use; repeatable.")] = None,
    seed_rows: Annotated[
        list[Path] | None, typer.Option(help="Public rows that runs may start from, on those schemas; repeatable.")
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for owners' decisions.")] = 3600.0,
    per_call: Annotated[float, typer.Option(min=1, help="Seconds that an owner may take for one answer.")] = 60.0,
    after_auction: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds after an auction before which no run ends.  \\[default: 3 times --per-call]"),
    ] = None,
    socket: SocketPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Let the server curate. Give consumers and owners its card, to be pinned, and pin the cards of consumers.

    A run is curated only if the card of its consumer is pinned here: `likeset card pin FILE --as consumer`.
    All owners see when a run ends. With an auction that must not tell whether anybody was asked: let --after-auction be
    longer than owners take to send rows, the selection and the consumer's answer together.

    Example: `likeset site curator kits/localhost --home curator --schema schema.yaml`
    """
    _check_kit(kit)
    with acting_for_owner_of(home):
        made = _curator_home(home, name)
        made.card()  # without keys it could sign no receipt
        for path in schema or []:
            made.add_schema(path)
        for path in seed_rows or []:
            made.add_seed_rows(str(path))
    after = CALLS_AFTER_AUCTION * per_call if after_auction is None else after_auction
    limits = {"seconds_for_decisions": patience, "seconds_per_call": per_call, "seconds_after_auction": after}
    settled = _Settled(kit, home, "likeset.homes.curator_home:curator", CURATOR, socket)
    _settle_site(settled, as_json=as_json, limits=limits)
    _keep_jobs_in_kit(kit)
    if not as_json:
        show_fingerprint(made.card().fingerprint)
        show_notes([f"give consumers and owners {made.card_file}; they call: likeset card pin FILE --as curator"])


def _curator_home(folder: Path, name: str | None) -> CuratorHome:
    """The directory of a curator, made if it is not there; ``name`` is the one on its card."""
    home = CuratorHome(folder)
    if not home.is_made:
        return make_curator_home(folder, name=name or CURATOR)
    if name is not None and name != home.name_of_card():
        reason = "the directory is there, with a card of another name; likeset card make --new makes another one"
        raise InvalidArgument("--name", name, reason)
    return home


def _keep_jobs_in_kit(kit: Path) -> None:
    """NVFlare keeps jobs in a folder that all users of the machine share, unless it is told otherwise."""
    resources = kit / "local" / "resources.json"
    text = resources.read_text(encoding="utf-8")
    with acting_for_owner_of(kit):
        resources.write_text(text.replace(_SHARED_STORAGE, str((kit / "storage").resolve())), encoding="utf-8")


def _check_kit(kit: Path) -> None:
    if not (kit / "startup").is_dir() or not (kit / "local").is_dir():
        raise InvalidArgument("KIT", kit, "is no start-up kit: it must have the folders startup and local")


@dataclass(frozen=True)
class _Settled:
    """A kit, and the home that answers behind it."""

    kit: Path
    home: Path
    factory: str
    party: str
    socket: Path | None


def _settle_site(settled: _Settled, *, as_json: bool, limits: dict[str, float] | None = None) -> None:
    kit, home, said = settled.kit, settled.home, limits or {}
    _check_kit(kit)
    socket = (settled.socket or usual_socket(home, kit)).absolute()
    most_bytes = int(said.get("most_bytes", HomeSettings.most_bytes))
    made = HomeSettings(home, settled.factory, settled.party, socket, name_of(owner_of(kit)), most_bytes)
    with acting_for_owner_of(kit):
        settle(kit, socket=socket, home_user=name_of(owner_of(home)), **said)
    with acting_for_owner_of(home):
        made.write()
    if as_json:
        show_json({"kit": str(kit), "home": str(home.resolve()), "is_cage": made.is_cage, **made.document()})
        return
    stdout.print(f"[bold green]settled[/]  {literal(str(kit))} for {literal(str(home))}", soft_wrap=True)
    stdout.print(f"Start its home with: likeset site serve {literal(str(home))}", soft_wrap=True)
    stdout.print(f"and then NVFlare with: {literal(str(kit))}/startup/start.sh", soft_wrap=True)
    show_notes([*([] if made.is_cage else [_NO_CAGE]), LEFT_TO_TRUST])


@site.command()
def check(
    kit: KitPath,
    *,
    home: Annotated[Path, typer.Option(help="The home that answers behind it.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Say what NVFlare's user could read of the home, its data and other kits; exit code 1 if that is anything.

    Called as root it is tried as that user; else it is reckoned from the modes of files.

    Example: `likeset site check kits/st-mary --home st-mary`
    """
    _check_kit(kit)
    looked_at = exposures(kit, home)
    if as_json:
        show_json([exposure.document() for exposure in looked_at])
    else:
        rows = [[exposure.what, "ok" if exposure.ok else "NOT OK", exposure.words] for exposure in looked_at]
        show_table("What NVFlare's user can reach", ["what", "", "found"], rows)
    if not all(exposure.ok for exposure in looked_at):
        raise typer.Exit(1)


@site.command()
def serve(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="A node, or the home of a consumer or curator.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Answer for a home what NVFlare's process hands over, until it is stopped; NVFlare never comes into the home.

    Example: `likeset site serve st-mary`
    """
    settings, stop = HomeSettings.read(home), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    said = settings.document()
    if as_json:
        show_json({**said, "is_cage": settings.is_cage})
    else:
        words = f"{said['party']} listens at {said['socket']}, to user {said['nvflare_user']} alone"
        stdout.print(literal(words), soft_wrap=True)
        show_notes([] if settings.is_cage else [_NO_CAGE])
    HomeListener(settings).serve(stop)
