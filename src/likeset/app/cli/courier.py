"""``likeset courier``: let NVFlare carry letters."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from likeset.display import emit
from likeset.errors import InvalidArgument, missing_extra

courier = typer.Typer(name="courier", no_args_is_help=True, rich_markup_mode="markdown")
KitPath = Annotated[Path, typer.Argument(metavar="KIT", help="A start-up kit of NVFlare.", show_default=False)]
HomePath = Annotated[Path, typer.Option(help="The home of the party at this site.", show_default=False)]


def _nvflare() -> ModuleType:
    try:
        from likeset.transports import nvflare
    except ModuleNotFoundError:
        raise InvalidArgument("KIT", "a start-up kit", missing_extra("nvflare")) from None
    return nvflare


@courier.command()
def settle(
    kit: KitPath,
    *,
    folder: Annotated[
        Path | None, typer.Option(help="A site's courier folder, for letters in and out; made if it is not there.")
    ] = None,
    home: Annotated[Path | None, typer.Option(help="The home of the party at this site.")] = None,
) -> None:
    """Configure a site of NVFlare, or its server, to carry letters and do nothing else.

    A site needs --folder and --home. NVFlare's user owns the kit, another user the home: call this as root. The party
    then uses the mailbox `courier:///FOLDER`.

    Example: `likeset courier settle kits/st-mary --folder /var/lib/courier/st-mary --home st-mary`
    """
    nvflare = _nvflare()
    address = None
    if nvflare.is_server_kit(kit):
        if folder is not None:
            raise InvalidArgument("--folder", folder, "is for sites, and this is the kit of the server")
        with _as_owner_of(kit):
            nvflare.settle(kit)
    else:
        if folder is None or home is None:
            raise InvalidArgument("--folder", folder or "none", "a site needs --folder and --home")
        place = folder.absolute()
        nvflare.make_folder(place, home_uid=home.stat().st_uid, nvflare_uid=kit.stat().st_uid)
        with _as_owner_of(kit):
            nvflare.settle(kit, place)
        address = place.as_uri().replace("file:", "courier:", 1)
    hint = () if address is None else ("likeset", "courier", "check", str(kit), "--home", str(home))
    notes = ["start it with startup/start.sh"]
    emit({"kit": str(kit), "mailbox": address}, notes=notes, next_step=hint)


@contextmanager
def _as_owner_of(kit: Path) -> Iterator[None]:
    # As root: others get into NVFlare's user, who can put links into the kit that lead anywhere.
    owner, group, groups = kit.stat(), os.getegid(), os.getgroups()
    is_root = os.geteuid() == 0 != owner.st_uid
    try:
        if is_root:
            os.setgroups([])
            os.setegid(owner.st_gid)
            os.seteuid(owner.st_uid)
        yield
    except PermissionError as error:
        reason = "the user who owns it cannot read or write all of it; give the whole kit to that user"
        raise InvalidArgument("KIT", kit, reason) from error
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(group)
            os.setgroups(groups)


@courier.command()
def check(kit: KitPath, *, home: HomePath) -> None:
    """Verify that NVFlare's user cannot read the home, and who writes the courier's folder. Exit code 1 if not.

    It checks owners and modes of directories, but not those of files of rows that are registered by their paths.

    Example: `likeset courier check kits/st-mary --home st-mary`
    """
    nvflare = _nvflare()
    folder, nvflare_uid, home_uid = nvflare.folder_in(kit), kit.stat().st_uid, home.stat().st_uid
    out, incoming = folder / "out", folder / "in"
    rights = nvflare.rights_of
    checks = [
        ("users", nvflare_uid not in (home_uid, 0), "NVFlare runs as a user of its own, which is not root"),
        ("home", not rights(nvflare_uid, home) & (stat.S_IROTH | stat.S_IXOTH), "NVFlare's user cannot enter the home"),
        ("out: owner", out.stat().st_uid == home_uid, "out/ belongs to the home's user"),
        ("out: modes", not rights(nvflare_uid, out) & stat.S_IWOTH, "NVFlare's user cannot write there"),
        ("out: reader", rights(nvflare_uid, out) & 0o5 == 0o5, "NVFlare's user can read there"),
        ("in: owner", incoming.stat().st_uid == nvflare_uid, "in/ belongs to NVFlare's user"),
        ("in: reader", rights(home_uid, incoming) & 0o5 == 0o5, "the home's user can read there"),
    ]
    document = [{"check": name, "ok": bool(ok), "detail": detail} for name, ok, detail in checks]
    emit(document, ok=all(one["ok"] for one in document))
