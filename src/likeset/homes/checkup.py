"""The checks of a home (`likeset check`) and of one data set (`likeset owner data check`)."""

import os
import shutil
import socket
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

from likeset.errors import BadTable, LikesetError
from likeset.homes.data import SmallGroup, SmallGroups, rare_among
from likeset.homes.home import Home
from likeset.homes.mail import Mail
from likeset.homes.owner import Owner
from likeset.homes.policy import Policy
from likeset.homes.review import verify
from likeset.homes.runs import MUST_BE_PINNED
from likeset.ledger.ledger import Problem
from likeset.split.host import environment_folder, program_digest, try_worker, worker_python
from likeset.tables.profile import ColumnWarning, Inspection, undeclared_id
from likeset.tables.scan import KeptRowsOfIds, check_most_rows
from likeset.tables.sources import Source, open_source
from likeset.trust.cards import Role

_LEAST_DISK = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    check: str  # what was checked
    ok: bool  # whether it passed
    detail: str  # the result and the remedy; never a value of a row
    column: ColumnWarning | None = None  # a column that may identify people, or hardly counts: not a failure
    to_do: bool = False  # nothing is wrong, but this part of the home is not set up yet


def _guarded(check: str, run: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(run())
    except LikesetError as error:
        return [Check(check, ok=False, detail=str(error))]


# A home.


def checkup(home: Home) -> list[Check]:
    roles = home.settings.roles
    checks = [*_guarded("home", lambda: _running(home)), _directory(home)]
    if "owner" in roles:
        checks += _guarded("policy", lambda: _of_owner(home))
    else:
        checks += _guarded("log", lambda: _log(list(home.database.verify().problems), []))
    checks += _guarded("runs", lambda: _troubles(home))
    checks += _guarded("card", lambda: _card(home))
    checks += _guarded("pinned cards", lambda: _pinned_cards(home))
    checks += _guarded("mailboxes", lambda: _mailboxes(home))
    if "witness" in roles or home.settings.listen:
        checks += [*_guarded("workers", _workers), *_guarded("tunnels", lambda: _tunnels(home))]
    places = {"home": home.folder, **({"copies": Path(tempfile.gettempdir())} if "owner" in roles else {})}
    return [*checks, *(_disk(place, what) for what, place in places.items()), *_guarded("clock", lambda: _clock(home))]


def _running(home: Home) -> Iterator[Check]:
    home.check_running()  # raises if it was restored from an old backup
    yield Check("home", ok=True, detail="is not known to be restored from an old backup")


def _directory(home: Home) -> Check:
    mode = stat.S_IMODE(home.folder.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        return Check("directory", ok=False, detail=f"other users have access to it (mode {mode:04o}); chmod 700 it")
    return Check("directory", ok=True, detail="private")


def steps_left(owner: Owner) -> list[Check]:
    checks = [*_policy(owner.policy), *_data_sets(owner), *_pinned_cards(owner.home)]
    return [check for check in checks if check.to_do]


def _of_owner(home: Home) -> Iterator[Check]:
    owner = Owner(Mail(home))
    yield from _policy(owner.policy)
    yield from _guarded("log", lambda: _log(*verify(owner)))
    yield from _data_sets(owner)
    for name in owner.registry.names():
        yield from _guarded(f"data set {name}", lambda name=name: iter(check_data(owner, name).checks))  # type: ignore[misc]


def _policy(policy: Policy) -> Iterator[Check]:
    gaps = [name for name in ("consumers", "purposes", "columns") if not getattr(policy, name)]
    gaps += [] if policy.total.rows and policy.per_run.rows else ["rows in one run and in all"]
    if gaps:
        detail = f"owner.yaml allows nothing yet: fill in {', '.join(gaps)}"
        yield Check("policy", ok=False, detail=detail, to_do=True)
    else:
        by_hand, by_rules = "a person decides about each run", "runs that it allows are approved automatically"
        yield Check("policy", ok=True, detail=f"can be used; {by_hand if policy.manual_approval else by_rules}")


def _data_sets(owner: Owner) -> Iterator[Check]:
    if not owner.registry.names():
        detail = "there are none; add one (likeset owner data add)"
        yield Check("data sets", ok=False, detail=detail, to_do=True)


def _log(problems: Sequence[Problem], remarks: Sequence[str]) -> Iterator[Check]:
    detail = "; ".join(map(str, problems)) or "; ".join(["is intact", *remarks])
    yield Check("log", ok=not problems, detail=detail)


def _troubles(home: Home) -> Iterator[Check]:
    mail = Mail(home)
    for trouble in mail.troubles.all():
        if run := mail.run(trouble.digest):
            since = f"{trouble.at[:16].replace('T', ' ')} UTC"
            yield Check(
                f"run {run.name}", ok=False, detail=f"waits since {since}, and is tried again: {trouble.reason}"
            )


def _card(home: Home) -> Iterator[Check]:
    card = home.card
    yield Check("card", ok=True, detail=f"{card.name}, {card.fingerprint}; nobody else can read its keys")


def _pinned_cards(home: Home) -> Iterator[Check]:
    """How many of each role. A witness without them is useless; others may not know anybody yet."""
    counts, roles = Counter(pin.role for pin in home.pins.pinned()), home.settings.roles
    needed = dict.fromkeys(role for own in roles for role in MUST_BE_PINNED[own] or ("owner", "curator"))
    needed.pop("witness", None)  # only split runs have one
    missing = " and ".join(f"no {role}" for role in needed if not counts[role] and role not in roles)
    listed = ", ".join(f"{counts[role]} as {role}" for role in get_args(Role) if counts[role])
    how = f"{missing} yet, so no run can begin: join by an invitation, or compare cards by telephone and pin them"
    detail = "; ".join(filter(None, [listed, how if missing else ""]))
    yield Check("pinned cards", ok=not missing or "witness" not in roles, detail=detail, to_do=bool(missing))


def _mailboxes(home: Home) -> Iterator[Check]:
    addresses = home.settings.mailboxes
    detail = ", ".join(addresses) or "none is named: write mailboxes: into home.yaml, or give --mailbox"
    yield Check("mailboxes", ok=bool(addresses) or "witness" not in home.settings.roles, detail=detail)


def _workers() -> Iterator[Check]:
    folder = environment_folder()
    versions = try_worker(worker_python(folder))
    detail = f"start, with spu {versions['spu']} and Python {versions['python']} ({folder})"
    yield Check("workers", ok=True, detail=detail)
    yield Check("program", ok=True, detail=f"{program_digest()}, which terms must name")


def _tunnels(home: Home) -> Iterator[Check]:
    settings, place = home.settings, home.settings.tunnels
    family = socket.AF_INET6 if ":" in place.listen.host else socket.AF_INET
    ok, detail = True, f"can listen at {settings.listen}; others reach it at {settings.reach_at or settings.listen}"
    with ExitStack() as stack:
        try:
            for port in place.listen.ports:
                stack.enter_context(socket.create_server((place.listen.host, port), family=family))
        except OSError as error:
            ok, detail = False, f"nothing can listen at {settings.listen}: {error.strerror or type(error).__name__}"
    yield Check("tunnels", ok=ok, detail=detail)


def _disk(place: Path, what: str) -> Check:
    free = shutil.disk_usage(place).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_DISK:
        return Check(f"disk ({what})", ok=False, detail=f"{detail}; make room: without it nothing can be answered")
    return Check(f"disk ({what})", ok=True, detail=detail)


def _clock(home: Home) -> Iterator[Check]:
    now, head = home.clock(), home.database.head()
    last = home.database.entries(first=head.number)[-1].document()["at"]
    shown = f"says {now:%Y-%m-%d %H:%M} UTC"
    if now < datetime.fromisoformat(last) - timedelta(minutes=1):
        yield Check("clock", ok=False, detail=f"{shown}, before the last entry of the log; set it")
    else:
        yield Check("clock", ok=True, detail=shown)


# A data set.


@dataclass(frozen=True, slots=True)
class DataCheck:
    data: str
    rows: int
    smallest_group: int  # groups of fewer rows are small, by ``owner.yaml``
    withheld: int  # rows in small groups, which are never offered
    small_groups: tuple[SmallGroup, ...]  # smallest first; a row may be in several
    checks: tuple[Check, ...]  # in words, without a value of a row

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def document(self) -> dict[str, Any]:
        checks = [{"ok": check.ok, "detail": check.detail} for check in self.checks]
        return {**asdict(self), "small_groups": list(map(asdict, self.small_groups)), "ok": self.ok, "checks": checks}


def check_data(owner: Owner, name: str) -> DataCheck:
    """Read every row of a data set and compare it with what is declared and allowed; nothing leaves."""
    data, policy = owner.registry.get(name), owner.policy
    with open_source(data.source) as source:
        inspection, labelled = Inspection(data.schema), data.schema.label_column is not None
        groups = SmallGroups(data.schema, smallest=policy.smallest_group, labelled=labelled)
        keeping = KeptRowsOfIds.of(source, data.schema, key=data.keep_key(owner.home.sampling_key()))
        for block in source.blocks(data.schema.needed_columns):
            inspection.add(block.table, table=source.name, locate=block.locate)
            (groups if keeping is None else keeping).add(block)
        kept = None if keeping is None else keeping.row_numbers()
        found = [(False, words) for words in _complaints(inspection, source)]
        person = undeclared_id(source, data.schema)
        withheld = len(rare_among(groups, source, kept))
    if found:
        found.append((False, "if these rows are right, ask the consumer: all parties need the same schema"))
    else:
        found.append((True, f"all {inspection.rows:,} rows are as the schema declares"))
    if kept is not None:
        found.append((True, f"{len(kept):,} rows take part, drawn in secret: {data.schema.keep} of each id at most"))
    if inspection.too_long:
        most = f"{data.schema.declaration.text_bytes:,} bytes (text_bytes of the schema)"
        words = f"{inspection.too_long:,} rows have a text of more than {most}: never offered"
        found.append((inspection.too_long < inspection.rows, words))
    words = f"{withheld:,} rows are in groups of fewer than {policy.smallest_group} and are never offered"
    if policy.smallest_group == 1:
        words = "every row may be offered: smallest_group in owner.yaml is 1"
    found.append((withheld < (inspection.rows if kept is None else len(kept)), words))
    if forbidden := [column for column in data.schema.record_columns if column not in policy.columns]:
        found.append((False, f"owner.yaml does not let these columns leave: {', '.join(map(repr, forbidden))}"))
    if data.schema.from_data:
        listed = ", ".join(map(repr, data.schema.from_data))
        found.append((False, f"these parts of the schema came from data and reveal something about it: {listed}"))
    if person:
        words = (
            f"warning: values of column {person!r} repeat, but the schema declares no id: budgets and groups count "
            f"rows, not persons; ask the consumer for a schema with id: {{column: {person}, keep: 1}}"
        )
        found.append((True, words))
    what, warnings = f"data set {name}", (*inspection.identifying_columns(), *inspection.dead_columns())
    checks = [Check(what, ok=ok, detail=detail) for ok, detail in found]
    checks += [Check(what, ok=True, detail=warning.warning, column=warning) for warning in warnings]
    return DataCheck(name, inspection.rows, policy.smallest_group, withheld, groups.groups(), tuple(checks))


def _complaints(inspection: Inspection, source: Source) -> Iterator[str]:
    for column in inspection.columns:
        for trouble, complaint in column.complaints.items():
            places = ", ".join(column.first[trouble])
            yield f"column {column.name!r}: {column.counts[trouble]:,} {trouble}, first at {places}: {complaint}"
    ids = inspection.id_summary()
    if ids is None:
        return
    if ids.missing:
        yield f"{ids.missing:,} rows do not say whose they are"
    try:
        check_most_rows(max(ids.most_rows, ids.missing), source, inspection.schema)
    except BadTable as error:
        yield str(error)
