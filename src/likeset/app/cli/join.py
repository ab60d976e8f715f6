"""``likeset invite`` and ``likeset join``: two organisations pin each other's cards with one file and one call."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from rich.text import Text

from likeset import documents
from likeset.app.cli.home import (
    HERE,
    HomePath,
    ListenOption,
    ReachOption,
    ask,
    at_home,
    at_terminal,
    login,
    stopping_by_signals,
)
from likeset.app.lazy import lazy_imports
from likeset.display import complain, emit, in_json, literal, show_notes, show_table, stdout
from likeset.errors import InvalidArgument, MailboxTrouble
from likeset.files import keep_private_bytes
from likeset.text import harmless

with lazy_imports():
    from likeset.homes import compute, joining, policy
    from likeset.homes import curator as curators
    from likeset.homes import home as homes
    from likeset.homes import mail as letters
    from likeset.homes import owner as owners
    from likeset.run import between
    from likeset.tables import schema as schemas
    from likeset.transports import stores
    from likeset.trust import cards
    from likeset.trust import letters as post

_SECONDS = 2.0
WordsOption = Annotated[
    str | None, typer.Option("--words", help="The words of the call, typed by a person.", show_default=False)
]


def invite(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Who is invited; without it, a list of invitations and replies.", show_default=False
        ),
    ] = None,
    *,
    role: Annotated[Literal["owner", "curator", "witness"], typer.Option("--as", help="The role.")] = "owner",
    schema: Annotated[Path | None, typer.Option(help="The columns.  \\[default: the only schema of this home]")] = None,
    rules: Annotated[Path | None, typer.Option(help="An owner.yaml to propose; the owner sees each line.")] = None,
    days: Annotated[float, typer.Option(min=0.01, max=90, help="How long the invitation is valid.")] = 14,
    mailbox: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The mailbox.  \\[default: the only one in home.yaml]")
    ] = None,
    curator: Annotated[str | None, typer.Option(help="The curator to introduce, if several are pinned.")] = None,
    witness: Annotated[str | None, typer.Option(help="The witness to introduce, likewise.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Sign a new one; an open one becomes invalid.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the reply.")] = False,
    words: WordsOption = None,
    reply: Annotated[Path | None, typer.Option(help="A reply that came as a file instead of by mailbox.")] = None,
    home: HomePath = HERE,
) -> None:
    """Invite an organisation: write NAME.invite, wait for the reply, compare words on a call, pin its card.

    Send the file by any way. At a terminal this command waits; Ctrl-C ends the waiting, and calling it again continues.
    Elsewhere it ends at once; `likeset invite` lists replies with their words, and `NAME --words "..."` finishes.

    Example: `likeset invite st-mary --rules rules.yaml --home clinic`
    """
    with homes.Home(home) as own:
        own.check_role("consumer")
        if name is None:
            _list(own)
            return
        if words is not None or reply is not None:
            _confirm(own, joining.invitation_of(own, name), words, reply)
            return
        still_open = (one for one in joining.invitations(own) if own.clock() <= one.expires and not new)
        invitation = next((one for one in still_open if one.proposal.name == name), None)
        notes = (
            []
            if invitation is None
            else [f"the invitation of {invitation.proposal.issued} counts; --new signs another"]
        )
        if invitation is None:
            settings: dict[str, Any] = {"role": role, "days": days, "curator": curator, "witness": witness}
            invitation = joining.invite(
                own,
                name,
                mailbox=between.mailbox_for(own, mailbox),
                schema=_schema_text(own, schema),
                rules=_rules(own, rules, schema) if role == "owner" else None,
                **settings,
            )
        path = Path(f"{name}.invite")
        if path.exists() and not joining.Invitation.is_in(path.read_bytes()):
            raise InvalidArgument("NAME", path, "already exists and is not an invitation; nothing is overwritten")
        keep_private_bytes(path, invitation.to_bytes())
        document = {"name": name, "file": str(path), "invitation": invitation.digest.hex()}
        document |= {"mailbox": invitation.proposal.mailbox, "expires": invitation.proposal.expires}
        waits = not no_wait and at_terminal()
        how = at_home(home, "likeset", "invite", name, "--words", "WORDS")
        notes.append(f"send {path} to {name}; there: likeset join {path}")
        emit(document, notes=notes, next_step=() if waits else how)
        if waits:
            _wait(own, invitation)


def _schema_text(own: "homes.Home", path: Path | None) -> str:
    if path is not None:
        schemas.Schema.load(path)
        return path.read_text(encoding="utf-8-sig")
    folder = own.own_curator or own.folder
    known = sorted((folder / "schemas").glob("*.yaml"))
    if len(known) != 1:
        raise InvalidArgument("--schema", "none", f"this home knows {len(known)} schemas; name the file of one")
    return known[0].read_text(encoding="utf-8-sig")


def _rules(own: "homes.Home", path: Path | None, schema: Path | None) -> "policy.Policy":
    if path is not None:
        proposed = policy.Policy.load(path)
        joining.check_rules(proposed, own.name)
        return proposed
    declared = schemas.Schema.from_text(_schema_text(own, schema))
    columns = tuple(declared.record_columns)
    return policy.Policy(likeset="owner", version=1, consumers=(own.name,), columns=columns)


def _replies(own: "homes.Home", invitation: "joining.Invitation") -> "list[joining.Reply]":
    store = stores.open_store(invitation.proposal.mailbox)
    try:
        return joining.replies(own, invitation, store)
    finally:
        store.close()


def _wait(own: "homes.Home", invitation: "joining.Invitation") -> None:
    name, found, trouble = invitation.proposal.name, list["joining.Reply"](), ""
    store = stores.open_store(invitation.proposal.mailbox)
    with stopping_by_signals() as stop, stdout.status(f"waiting for the reply of {literal(name)}; Ctrl-C ends it"):
        while not found and not stop.is_set():
            try:
                found, trouble = joining.replies(own, invitation, store), ""
            except MailboxTrouble as error:
                if trouble != str(error):
                    trouble = str(error)
                    complain(f"{trouble}; trying again")
            if not found:
                stop.wait(_SECONDS)
    store.close()
    if not found:
        stdout.print(f"not answered yet; the invitation counts until {invitation.proposal.expires}", soft_wrap=True)
        return
    _finish(own, invitation, found)


def _finish(own: "homes.Home", invitation: "joining.Invitation", found: "Sequence[joining.Reply]") -> None:
    """Let a person compare the words."""
    _show_words(invitation, found)
    pin = ask(
        "type the words when they agree; Enter alone pins nothing",
        lambda typed: joining.confirm(own, invitation, found, typed, by=login()),
    )
    if pin is None:
        stdout.print("nothing was pinned")
        raise typer.Exit(1)
    _emit_pinned(_pinned(invitation, [pin]))


def _show_words(invitation: "joining.Invitation", found: "Sequence[joining.Reply]") -> None:
    name = literal(invitation.proposal.name)
    stdout.print(
        f"{name} calls you. Unless you know the voice, call back by a number that you knew before. Read these words "
        "out:",
        soft_wrap=True,
    )
    for reply in found:
        stdout.print(f"  [bold]{' '.join(invitation.words(reply.card))}[/]", soft_wrap=True)
    if len(found) > 1:
        complain(
            f"{len(found)} different replies came, and one at most is of {name}: let them say which words they see"
        )


def _confirm(own: "homes.Home", invitation: "joining.Invitation", words: str | None, file: Path | None) -> None:
    if file is None:
        found = _replies(own, invitation)
    else:
        data = documents.bytes_in(file, most=joining.MOST_BYTES)
        found = [joining.Reply.opened(invitation, own.secret, data)]
    if words is None and at_terminal():
        _finish(own, invitation, found)
        return
    if words is None:
        spoken = [" ".join(invitation.words(reply.card)) for reply in found]
        emit({"name": invitation.proposal.name, "state": "replied", "words": spoken}, ok=False)
        return
    pin = joining.confirm(own, invitation, found, words, by=login())
    _emit_pinned(_pinned(invitation, [pin]))


def _pinned(invitation: "joining.Invitation", pins: "Sequence[Any]") -> dict[str, Any]:
    rows = [
        {
            "name": pin.card.name,
            "role": pin.role,
            "fingerprint": pin.card.fingerprint,
            "introduced_by": pin.introduced_by,
        }
        for pin in pins
    ]
    return {"state": "joined", "invitation": invitation.digest.hex(), "pinned": rows}


def _list(own: "homes.Home") -> None:
    rows, now = [], own.clock()
    done = joining.invitations(own, joined=True)
    for invitation in [*done, *joining.invitations(own)]:
        proposal = invitation.proposal
        state, words = "joined" if invitation in done else "waiting", list[str]()
        if state == "waiting" and now > invitation.expires:
            state = "expired"
        elif state == "waiting":
            try:
                words = [" ".join(invitation.words(reply.card)) for reply in _replies(own, invitation)]
                state = "replied" if words else state
            except MailboxTrouble as error:
                state = f"unknown: {error}"
        about = {"name": proposal.name, "role": proposal.role, "expires": proposal.expires}
        rows.append({**about, "state": state, "words": words})
    emit({"home": str(own.folder), "invitations": rows})


def join(
    file: Annotated[Path, typer.Argument(metavar="NAME.invite", help="The invitation.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[HOME]", help="The home, new or not.  \\[default: NAME]", show_default=False),
    ] = None,
    *,
    mailbox: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The mailbox as this organisation reaches it; this approves its use."),
    ] = None,
    words: WordsOption = None,
    listen: ListenOption = "",
    reach_at: ReachOption = "",
) -> None:
    """Join a market by invitation: make a home, reply, and pin the inviter's cards after a call.

    Shows the inviter, the columns and the rules. Nothing is pinned before you type the words that the inviter reads
    out. A repeated call continues. Exit code 1 while words are missing.

    Example: `likeset join st-mary.invite`
    """
    invitation = joining.Invitation.from_bytes(documents.bytes_in(file, most=joining.MOST_BYTES), name=str(file))
    invitation.check_time(homes.utc_now())
    place = folder or Path(invitation.proposal.name)
    asks = at_terminal()
    if not in_json():
        _show_invitation(invitation)
    settings = place / homes.SETTINGS_FILE
    if asks and mailbox is None and not (settings.exists() and documents.read(settings, homes.Settings).mailboxes):
        mailbox = _approved(invitation.proposal.mailbox)
    if mailbox is not None:
        (mailbox,) = homes.checked_addresses([mailbox])
    with joining.opened_home(invitation, place, listen=listen, reach_at=reach_at, by=login()) as home:
        document: dict[str, Any] = {"home": str(place), **_asked(invitation)}
        if joining.is_joined(home, invitation):
            emit({**document, "state": "joined"})
            return
        if mailbox is not None and not home.settings.mailboxes:
            home.set_mailboxes([mailbox])
        usable = home.settings.mailboxes[:1] if mailbox is None else (mailbox,)
        document["reply"] = _deliver(home, invitation, next(iter(usable), None))
        if words is None and asks:
            show_notes([f"reply: {document['reply']}"])
            words = _typed_words(invitation, home)
        if words is None:
            again = ["likeset", "join", str(file), *([] if folder is None else [str(folder)]), "--words", "WORDS"]
            call = f"call {invitation.card.name} by a number that you knew before; it reads the words out"
            notes = [f"reply: {document['reply']}", call]
            state = {**document, "state": "waiting for words"}
            emit(state, view=lambda: None, notes=notes, next_step=again, ok=False)
            return
        pins = joining.join(home, invitation, words, by=login())
        notes = [_second_call(home, pin) for pin in pins if pin.introduced_by]
        notes += _settle(home, invitation, mailbox)
    _emit_pinned({**document, **_pinned(invitation, pins)}, notes=notes, then=_next(invitation, place))


def _emit_pinned(document: dict[str, Any], *, notes: Sequence[str] = (), then: Sequence[str] = ()) -> None:
    def view() -> None:
        names = ", ".join(f"{one['name']} as {one['role']}" for one in document["pinned"])
        stdout.print(f"[bold green]joined[/]  pinned {literal(names)}", soft_wrap=True)

    emit(document, view=view, notes=notes, next_step=then)


def _next(invitation: "joining.Invitation", place: Path) -> tuple[str, ...]:
    if invitation.proposal.role != "owner":
        return ("likeset", "up", str(place))
    add = ("likeset", "owner", "data", "add", "NAME", "FILE", "--schema", str(place / joining.SCHEMA_FILE))
    return (*add, "--home", str(place))


def _asked(invitation: "joining.Invitation") -> dict[str, Any]:
    proposal = invitation.proposal
    return {
        "name": proposal.name,
        "role": proposal.role,
        "inviter": invitation.card.name,
        "cards": {role: card.fingerprint for role, card in invitation.cards.items()},
        "introduced": {role: card.name for role, card in invitation.introduced.items()},
        "mailbox": proposal.mailbox,
        "expires": proposal.expires,
        "rules": invitation.rules_changed(),
        "promises": list(compute.PROMISES) if proposal.role == "witness" else [],
    }


def _show_invitation(invitation: "joining.Invitation") -> None:
    asked = _asked(invitation)
    facts = [
        ("who asks", f"{asked['inviter']}, if the words agree"),
        ("you would be", f"{asked['name']}, as {asked['role']}"),
        *(
            (f"the {role}", card.name + (": call it, too" if role in invitation.introduced else ""))
            for role, card in invitation.cards.items()
            if role != "consumer"
        ),
        ("mailbox", literal(asked["mailbox"])),
        ("until", f"{invitation.expires:%Y-%m-%d %H:%M} UTC"),
    ]
    if invitation.proposal.columns:
        declared = schemas.Schema.from_text(invitation.proposal.columns)
        facts.append(("columns", literal(", ".join(declared.record_columns), most=400)))
    facts += [("it promises", promise) for promise in asked["promises"]]
    show_table("An invitation", ("what", ""), facts)
    if asked["rules"]:
        # Whole: what an owner agrees to must not stand behind an end that is cut off.
        rows = [[rule["rule"], rule["before"], Text(harmless(rule["after"]))] for rule in asked["rules"]]
        caption = "You approve each run by hand, and can change every rule later (owner.yaml)."
        show_table("Rules that it proposes", ("rule", "by default", "proposed"), rows, caption=caption)


def _second_call(home: "homes.Home", pin: "cards.Pin") -> str:
    card = pin.card.name
    command = ("likeset", "card", "pin", str(home.folder / f"{card}.card"), "--as", pin.role)
    return (
        f"{pin.introduced_by} introduces {card} as {pin.role}, and only {card} can confirm its card: call it, too, "
        "then: " + shlex.join(at_home(home.folder, *command))
    )


def _approved(address: str) -> str | None:
    """The mailbox that a person approved by typing its host or folder, or another address; None for no contact."""
    parts = urlsplit(address)
    expected = parts.hostname or parts.path
    stdout.print(f"The reply goes to the mailbox {literal(address)}; nothing there was contacted yet.", soft_wrap=True)
    question = f"type {literal(expected)} to approve, or your own address of it; Enter alone writes a file instead"

    def approved(typed: str) -> str:
        if typed.rstrip("/") != expected.rstrip("/") and "://" not in typed:
            reason = f"is neither {expected} nor an address such as sftp://user@host/folder"
            raise InvalidArgument("mailbox", typed, reason)
        return typed if "://" in typed else address

    return ask(question, approved)


def _deliver(home: "homes.Home", invitation: "joining.Invitation", address: str | None) -> str:
    data = joining.Reply.sealed(invitation, home.secret)
    if address is not None:
        try:
            store = stores.open_store(address, ambient=False)
            try:
                store.write(invitation.proposal.reply_to, post.file_name(data), data)
            finally:
                store.close()
        except (MailboxTrouble, InvalidArgument) as error:
            complain(f"{error}; the reply is written to a file")
        else:
            return "sent by mailbox"
    path = home.folder / f"{home.name}.reply"  # others may own the folder of the invitation
    keep_private_bytes(path, data)
    return f"send {path} to {invitation.card.name}"


def _typed_words(invitation: "joining.Invitation", home: "homes.Home") -> str | None:
    name, expected = invitation.card.name, invitation.words(home.card)
    how = (
        f"Call {literal(name)} by a number that you knew before, and type the {len(expected)} words that it reads out."
    )
    stdout.print(how, soft_wrap=True)

    def checked(typed: str) -> str:
        joining.check_words(typed, expected)
        return typed

    return ask("words; Enter alone ends, and the same command continues", checked)


def _settle(home: "homes.Home", invitation: "joining.Invitation", mailbox: str | None) -> list[str]:
    """Give a home what the invitation brings; what was there already stays."""
    proposal, notes = invitation.proposal, list[str]()
    if (address := mailbox or proposal.mailbox) not in home.settings.mailboxes:
        notes.append(f"mailboxes: in {home.folder / homes.SETTINGS_FILE} must reach the mailbox {address}")
    for card in invitation.introduced.values():
        documents.write_text(home.folder / f"{card.name}.card", card.to_text())
    path = home.folder / joining.SCHEMA_FILE
    if proposal.columns:
        if path.exists() and path.read_text(encoding="utf-8") != proposal.columns:
            path = home.folder / f"schema-{invitation.card.name}.yaml"
            notes.append(f"{joining.SCHEMA_FILE} stays as it is; the schema of {invitation.card.name} is {path}")
        documents.write_text(path, proposal.columns)
    if proposal.role == "curator" and proposal.columns:
        curators.Curator(letters.Mail(home)).add_schema(path)
    if proposal.rules is not None:
        if policy.Policy.load(home.policy_file) == policy.NO_RULES:
            documents.write_text(home.policy_file, policy.policy_text(proposal.rules))
            owners.Owner(letters.Mail(home)).put_policy_in_force(by=login())
        elif invitation.card.name not in policy.Policy.load(home.policy_file).consumers:
            notes.append(f"{home.policy_file} stays as it is; let it allow {invitation.card.name} if you want")
    return notes
