"""Before the first run: is everything in order at this node? Verdicts that a person understands."""

import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from cryptography import x509

from likeset.homes.findings import Finding, guarded
from likeset.homes.owner import outbox
from likeset.homes.owner.data_look import look_at_data
from likeset.homes.owner.node import OwnerNode
from likeset.homes.owner.setting_up import policy_gaps
from likeset.trust.pins import Role

__all__ = ["checkup"]

_LEAST_DISK = 1 << 30
_SOON = timedelta(days=30)
_BUILT = datetime(2025, 1, 1, tzinfo=UTC)


def checkup(node: OwnerNode, *, certificates: tuple[Path, ...] = ()) -> list[Finding]:
    """Look at everything.

    Args:
        node: the node.
        certificates: files to look at besides those that ``owner.yaml`` names.
    """
    findings = [*guarded("home", lambda: _home(node)), *_policy(node), *_files(node)]
    findings += [*guarded("card", lambda: _card(node)), *guarded("pinned cards", lambda: _pinned_cards(node))]
    names = node.registry.names()
    if not names:
        findings.append(Finding("data sets", ok=False, words="there are none; add one with `likeset owner data add`"))
    for name in names:
        findings += guarded(f"data set {name}", lambda name=name: iter(look_at_data(node, name).findings))  # type: ignore[misc]
    findings += [
        _disk(place, what) for place, what in ((node.home.folder, "node"), (Path(tempfile.gettempdir()), "copies"))
    ]
    for path in (*map(Path, node.policy.certificates), *certificates):
        findings.append(_certificate(path))
    return [*findings, _clock(node)]


def _home(node: OwnerNode) -> Iterator[Finding]:
    node.check_running()  # raises where it was put back from an old copy
    yield Finding("home", ok=True, words="is not known to be an old copy")


def _policy(node: OwnerNode) -> Iterator[Finding]:
    policy = node.policy
    empty = policy_gaps(node)
    if empty:
        yield Finding("policy", ok=False, words=f"allows nothing yet: fill in {', '.join(empty)} in owner.yaml")
    elif policy.per_run.rows > policy.total.rows or policy.per_run.epsilon > policy.total.epsilon:
        yield Finding("policy", ok=False, words="one run may cost more than all together; lower per_run or raise total")
    else:
        gate = (
            "a person decides about each run" if policy.manual_approval else "runs within it are approved by themselves"
        )
        yield Finding("policy", ok=True, words=f"can be used; {gate}")


def _files(node: OwnerNode) -> Iterator[Finding]:
    mode = stat.S_IMODE(node.home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        yield Finding("directory", ok=False, words=f"other users may look into it (mode {mode:04o}); chmod 700 it")
    else:
        yield Finding("directory", ok=True, words="private")
    problems, notes = outbox.verify(node)
    words = "; ".join(map(str, problems)) or "; ".join(["they hold and agree", *notes])
    yield Finding("audit log and ledger", ok=not problems, words=words)


def _card(node: OwnerNode) -> Iterator[Finding]:
    card = node.home.card()
    yield Finding("card", ok=True, words=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(node: OwnerNode) -> Iterator[Finding]:
    """How many of each role; none is no fault: a new node knows nobody yet."""
    counts = Counter(pin.role for pin in node.home.pins().all() if pin.state == "pinned")
    roles = [f"{counts[role]} as {role}" for role in get_args(Role) if counts[role]]
    needed: tuple[Role, ...] = ("consumer", "curator")
    missing = " and ".join(f"no {role}" for role in needed if not counts[role])
    how = f"{missing} yet, so no run can begin: compare cards by telephone, and call `likeset card pin`"
    words = "; ".join([*filter(None, [", ".join(roles)]), *([how] if missing else [])])
    yield Finding("pinned cards", ok=True, words=words)


def _disk(place: Path, what: str) -> Finding:
    free = shutil.disk_usage(place).free
    words = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_DISK:
        return Finding(f"disk ({what})", ok=False, words=f"{words}; make room: without it nothing can be answered")
    return Finding(f"disk ({what})", ok=True, words=words)


def _certificate(path: Path) -> Finding:
    what = f"certificate {path.name}"
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError:
        return Finding(what, ok=False, words="there is no such file, or it cannot be read")
    except ValueError:
        return Finding(what, ok=False, words="is no certificate in PEM form")
    now, first, last = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        return Finding(what, ok=False, words=f"is not valid before {first:%Y-%m-%d}; is the clock right?")
    if now > last:
        return Finding(what, ok=False, words=f"ended on {last:%Y-%m-%d}; ask for a new one")
    soon = "; ask for a new one soon" if last - now < _SOON else ""
    return Finding(what, ok=True, words=f"valid until {last:%Y-%m-%d}{soon}")


def _clock(node: OwnerNode) -> Finding:
    now, last = node.now(), node.runs.last_at
    shown = f"{now:%Y-%m-%d %H:%M} UTC"
    if now < _BUILT:
        return Finding("clock", ok=False, words=f"says {shown}, which cannot be; set it")
    if last and now < datetime.fromisoformat(last) - timedelta(minutes=1):
        return Finding("clock", ok=False, words=f"says {shown}, before the last entry of the audit log; set it")
    return Finding("clock", ok=True, words=f"says {shown}")
