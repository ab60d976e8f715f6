"""All faults of the simulator.

``AT_EFFECTS`` befall a process at one of its effects; ``IN_LISTINGS`` are lies of a mailbox; ``AROUND`` are events.
"""

import errno
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import home_world as hw
import machine
from machine import Killed
from plan import Act, Event, File

from likeset.errors import MailboxTrouble, PostTrouble
from likeset.homes import backup
from likeset.transports.stores import StoredFile
from likeset.trust.letters import PostKind, file_name

if TYPE_CHECKING:
    from market import Market

AT_EFFECTS = {
    # name: (the effects that it can befall, what happens)
    "kill": ("", "the process dies before the effect"),
    "power": ("", "the machine loses its power: changes that no disk confirmed are torn or gone"),
    "full": ("sql (?!BEGIN)|file (?!remove)", "the disk is full"),
    "trouble": ("store", "the mailbox cannot be used"),
    "post trouble": ("store", "one file or folder of the mailbox cannot be used"),
    "blind": ("store list own", "a folder that the home itself writes cannot be listed"),
    "weak": ("store write", "the mailbox breaks after the first files"),
    "overlap": ("store|sql BEGIN", "another process of this home acts in between"),
    "between": ("store|sql BEGIN", "another home acts in between"),
}
IN_LISTINGS = {
    "hidden": "files are missing",
    "truncated": "only the first files are shown",
    "reordered": "files are shown in another order",
    "doubled": "each file is shown twice",
    "torn": "files end too early",
    "dated": "the times of files are wrong",
}
EFFECTS = (  # classes of effects that a plan aims at, by their first words
    *("sql BEGIN", "sql COMMIT", "sql INSERT log", "sql INSERT letters", "sql INSERT runs", "sql INSERT messages"),
    *("sql UPDATE letters", "sql UPDATE runs", "file open", "file rename home", "file rename keys", "file remove"),
    *("store list", "store list own", "store read", "store write", "store remove", "store list clock"),
)


def befalls(fault: str, effect: str) -> bool:
    return fault in AT_EFFECTS and re.match(AT_EFFECTS[fault][0], effect) is not None


def strike(market: "Market", act: "Act", effect: str) -> None:
    match act.fault:
        case "kill" | "power":
            act.dead = True
            raise Killed
        case "full" if effect.startswith("sql"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error
        case "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        case "post trouble" | "blind":
            raise PostTrouble("memory", "simulated")
        case "trouble" | "weak":
            raise MailboxTrouble("memory", "simulated")
        case "overlap" if not machine.in_transaction():
            act.fault = ""
            market.nested(act, act.who)
        case "between" if not machine.in_transaction():
            act.fault = ""
            market.nested(act, act.coins.choice([name for name in market.shape.names if name != act.who]))


def listed(files: list[StoredFile], lie: str, coins: random.Random) -> list[StoredFile]:
    """A listing as a lying mailbox shows it."""
    match lie:
        case "hidden":
            return [file for file in files if coins.random() < 0.5]
        case "truncated":
            return files[: coins.randrange(3)]
        case "reordered":
            return coins.sample(files, len(files))
        case "doubled":
            return files + files
        case "dated":
            hours = coins.choice((-900, -5, 5, 900))
            return [StoredFile(file.name, file.size, file.modified + timedelta(hours=hours)) for file in files]
    return files


# Around the processes.


@dataclass(frozen=True)
class Around:
    words: str
    happens: Callable[["Market", "Event", random.Random], str | None]


def _remove(market: "Market", event: "Event", coins: random.Random) -> str:  # noqa: ARG001
    files = [
        (box, folder, name)
        for box in market.boxes
        for folder, there in box.folders.items()
        for name, file in sorted(there.items(), key=lambda each: each[1].written)
        if folder in market.ways and file.writer not in market.book.restored
    ]
    if files and coins.random() < 0.5:
        box, folder, name = coins.choice(files)
        market.removed.append((box, folder, name, box.folders[folder].pop(name)))
        return "a file of {} to {} is gone".format(*market.ways[folder])
    if market.removed:
        box, folder, name, file = coins.choice(market.removed)
        box.folders[folder][name] = file
        return "a file of {} to {} is there again".format(*market.ways[folder])
    return ""


def _show_again(market: "Market", event: "Event", coins: random.Random) -> str:  # noqa: ARG001
    """The carrier brings back all that a home took back, or that the carrier removed, of its writer."""
    files = [each for each in market.removed if market.ways[each[1]][0] == event.who]
    for box, folder, name, file in files:
        box.folders[folder][name] = file
    return f"{len(files)} files"


def _corrupt(market: "Market", event: "Event", coins: random.Random) -> str:  # noqa: ARG001
    box, folder = coins.choice(market.boxes), coins.choice(sorted(market.ways))
    there = sorted(box.folders[folder].items(), key=lambda file: file[1].written)
    if there and coins.random() < 0.6:
        name, file = coins.choice(there)
        changed = bytearray(file.data)
        changed[coins.randrange(len(changed))] ^= 1 + coins.randrange(255)
        market.corrupted.append((box, folder, name, file))
        box.folders[folder][name] = replace(file, data=bytes(changed))
        return "a file of {} to {} has other bytes".format(*market.ways[folder])
    data = coins.randbytes(16 + 1024 * coins.randrange(3))  # the length of a post, or nearly
    if coins.random() < 0.5 and market.removed:
        data = coins.choice(market.removed)[3].data  # of another folder, mostly
    name = file_name(data)
    if name in box.folders[folder]:
        return ""
    market.corrupted.append((box, folder, name, None))
    box.folders[folder][name] = File(data, market.now, 0, "the carrier")
    return "a file that nobody wrote is in the folder of {} to {}".format(*market.ways[folder])


def _lie(market: "Market", event: "Event", coins: random.Random) -> str:
    """A party takes an older post of its own, to anybody, and posts something like it."""
    posts = [post for post in market.watch.history if post.writer == event.who]
    if not posts:
        return ""
    old = coins.choice(posts)
    post, kinds = old.post, get_args(PostKind)
    document = bytearray(post.document)
    match coins.choice(("kind", "byte", "cut", "other terms", "words")):
        case "kind":
            post = replace(post, kind=coins.choice(kinds))
        case "byte" if document:
            document[coins.randrange(len(document))] ^= 1 + coins.randrange(255)
            post = replace(post, document=bytes(document))
        case "cut":
            post = replace(post, document=bytes(document[: coins.randrange(len(document) + 1)]))
        case "other terms":
            post = replace(post, terms=coins.choice([bytes.fromhex(terms.digest) for terms in market.terms.values()]))
        case "words":
            word = coins.choice((b"abstains", b"waiting", b"", b'{"detail":"","ended":"done"}', b"[" * 500))
            post = replace(post, kind=coins.choice(kinds), document=word)
    reader = coins.choice([way for way in market.ways.values() if way[0] == event.who])
    data = reader[2].wrap(post)
    folder = reader[2].folder
    old.box.folders[folder][file_name(data)] = File(data, market.now, 0, event.who)
    market.book.liars.add(event.who)
    return f"{post.kind} to {reader[1]}"


def _skew(market: "Market", event: "Event", coins: random.Random) -> str:
    hours = event.hours or coins.choice((0, 0.7, -0.7, 5, -5, 24 * 20, -24 * 20))
    market.skews[event.who] = timedelta(hours=hours)
    return f"{hours:+} h"


def _pass(market: "Market", event: "Event", coins: random.Random) -> str:
    hours = event.hours or (coins.choice((1, 6, 80, 200)) if market.shape.days else 0.5)
    market.now += timedelta(hours=hours)
    return f"+{hours} h"


def _copy(market: "Market", event: "Event", coins: random.Random) -> None:  # noqa: ARG001
    who = market.process_of(event.who)
    with market.unobserved():
        target = _place_of_copy(market, who)
        market.drop(who)
        shutil.copytree(market.place / who, target)


def _backup(market: "Market", event: "Event", coins: random.Random) -> None:  # noqa: ARG001
    who = market.process_of(event.who)
    with market.unobserved():
        backup.write_backup(market.home(who), _place_of_copy(market, who).with_suffix(".backup"))


def _place_of_copy(market: "Market", who: str) -> Path:
    """Where the copy of a home is put in place of its last one; a backup has the suffix .backup."""
    target = market.place / "copies" / who
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    target.with_suffix(".backup").unlink(missing_ok=True)
    return target


def _restore(market: "Market", event: "Event", coins: random.Random) -> str:  # noqa: ARG001
    who = market.process_of(event.who)
    copy, folder = market.place / "copies" / who, market.place / who
    if not copy.exists() and not copy.with_suffix(".backup").exists():
        return ""
    with market.unobserved():
        market.drop(who)
        for box, place, name, file in market.removed:  # what it wrote is there, or it can never know
            if file.writer == who:
                box.folders[place].setdefault(name, file)
        shutil.rmtree(folder)
        if copy.exists():
            shutil.copytree(copy, folder)
        else:
            backup.restore_backup(copy.with_suffix(".backup"), folder)
        market.watch.forget(folder)
    for name in [name for name in market.shape.names if market.process_of(name) == who]:
        market.book.restore(name)
    return "from a snapshot" if copy.exists() else "from a backup"


def _data_away(market: "Market", event: "Event", coins: random.Random) -> str:
    return _with_source(market, event, coins, "data away", lambda file: file.unlink())


def _data_changed(market: "Market", event: "Event", coins: random.Random) -> str:
    return _with_source(market, event, coins, "data changed", lambda file: file.write_text(hw.rows_text(17)))


def _with_source(
    market: "Market", event: "Event", coins: random.Random, what: str, change: Callable[[Path], object]
) -> str:
    who = event.who if event.who in market.shape.owners else coins.choice(market.shape.owners)
    file, whole = market.place / f"{who}.csv", market.place / "sources" / f"{who}.csv"
    with market.unobserved():
        market.drop(who)  # a process may keep it open
        if file.exists() and file.read_bytes() == whole.read_bytes():
            change(file)
            market.book.harm(who, what)
            return f"of {who}"
        shutil.copy(whole, file)
    return f"over at {who}"


def _bad_policy(market: "Market", event: "Event", coins: random.Random) -> str:
    who = event.who if event.who in market.shape.owners else coins.choice(market.shape.owners)
    file = market.folder(who) / "owner.yaml"
    with market.unobserved():
        if "runs_per_moth" in file.read_text():
            market.write_rules(who)
            return f"over at {who}"
        file.write_text("likeset: owner\nruns_per_moth: 9\n")
    market.book.harm(who, "bad policy")
    return f"at {who}"


def _revoke(market: "Market", event: "Event", coins: random.Random) -> str:
    home = market.home(event.who)
    pinned = [name for name in market.shape.names if home.pins.get(name) is not None]
    other = coins.choice(pinned) if pinned else ""
    if not other:
        return ""
    for number, run in enumerate(market.shape.runs):
        if {event.who, other} <= set(market.parties(run)):
            market.book.spoil(number, f"{event.who} revoked {other}")
    home.pins.revoke(other, "stolen", by="Ada")
    market.book.revoke(market, event.who, other)
    return f"the card of {other}"


def _renew(market: "Market", event: "Event", coins: random.Random) -> None:  # noqa: ARG001
    """Runs of the old card end; all others pin the new one, after a telephone call."""
    who = event.who
    for number, run in enumerate(market.shape.runs):
        if who in market.parties(run):
            market.book.spoil(number, f"{who} has a new card")
    with market.unobserved():
        market.renew(who)


AROUND = {
    "remove": Around("the carrier removes a file, or brings a removed one back", _remove),
    "show again": Around("the carrier brings back all files of one home that are gone", _show_again),
    "corrupt": Around("the carrier changes a file, or adds one", _corrupt),
    "lie": Around("a party posts what its home never would: changed, cut, or as another kind", _lie),
    "skew": Around("the clock of one home jumps, ahead or back", _skew),
    "pass": Around("hours or days pass", _pass),
    "copy": Around("a home is copied with the keys of its runs", _copy),
    "backup": Around("a home is backed up, without these keys", _backup),
    "restore": Around("a home is put back from its copy or backup", _restore),
    "data away": Around("a data source is away, or there again", _data_away),
    "data changed": Around("a data source has other rows, or its own again", _data_changed),
    "bad policy": Around("owner.yaml has a mistake, or is repaired", _bad_policy),
    "revoke": Around("a steward revokes a pinned card", _revoke),
    "renew": Around("a home gets a new card, and the others pin it", _renew),
}
