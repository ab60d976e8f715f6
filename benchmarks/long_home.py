"""A node with many runs and a long log: one real run, and as many more like it as are wished.

Of ten runs seven were approved and went through all their rounds, one was denied, and two wait. The first is real: a
curator's messages are answered by the node. What that left in the log and among the stored messages is written again
for the others under their names, with charges, hashes and digests that hold: ``Ledger.verify`` finds nothing wrong.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, entry_words
from likeset.ledger.ledger import Entry, StoredMessage, canonical
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Budget, Terms
from likeset.protocol.wire import Message, SummaryRelease

_TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(_TESTS / floor) for floor in ("", "app", "homes", "trust", "protocol")]

from card_world import introduce, signed_terms  # noqa: E402 - the tests' worlds are not installed
from node_world import make_node, script, terms  # noqa: E402

_DONE, _DENIED = 7, 8
_ENTRIES_OF_A_ROUND, _ENTRIES_OF_A_RUN = 6, 9
_PLENTY: dict[str, Any] = {"epsilon": 9999.0, "delta": 1e-4, "rows": 10**7}


def long_home(place: Path, *, runs: int, entries: int) -> Path:
    """The directory of a node.

    Args:
        place: where to make it.
        runs: how many came.
        entries: of the log, about; a run has more rounds for more of them.
    """
    folder = make_node(place, per_run=dict(_PLENTY), total=dict(_PLENTY), runs_per_month=10**6)
    rounds = max(1, (entries * 10 // (_DONE * runs) - _ENTRIES_OF_A_RUN) // _ENTRIES_OF_A_ROUND)
    first = _terms(1, rounds)
    introduce(folder, first)
    with OwnerNode(folder) as node:
        before = node.ledger.head().number
        _happens(node, first)
        pattern = node.ledger.entries(first=before + 1)
        messages = node.ledger.messages(run=first.run)
        _again(node, [_terms(number, rounds) for number in range(2, runs + 1)], pattern, messages)
    return folder


def _terms(number: int, rounds: int) -> Terms:
    return terms(
        run=f"run-{number}",
        expires="2099-01-01",
        protocol="interactive",
        size=rounds,
        offer_factor=1.0,
        labels="ignore",
        thinning=False,
        summary_release="gaussian",
        owner_budget=Budget(1.0, 1e-7),
    )


def _happens(node: OwnerNode, run: Terms) -> None:
    """A run, from the invitation to the last round."""
    node.put_policy_in_force()
    node.add_invitation(Invitation.read(signed_terms(run)))
    node.note("reviewed", run.run, digest=run.digest, by="Ada")
    verdict = node.approve(run.run, run.digest, by="Ada")
    if not verdict.accepted:
        raise SystemExit("; ".join(verdict.reasons))
    for message in script(run):
        node.take(_with_summary(message, run))


def _with_summary(message: Message, run: Terms) -> Message:
    """From the second round on a curator tells of the summary so far."""
    if not isinstance(message.body, SummaryRelease) or message.round == 1:
        return message
    width = run.kernel.dimension
    told = SummaryRelease(coordinates=np.arange(width, dtype=np.int64), values=np.linspace(-0.1, 0.1, width))
    return Message(run.run, run.digest, CURATOR, "a", message.round, told)


def _again(node: OwnerNode, runs: list[Terms], pattern: tuple[Entry, ...], messages: tuple[StoredMessage, ...]) -> None:
    """The same, for other runs: what was stored first, then what the log says of it, as the node writes it."""
    after = str(node.ledger.head())
    for start in range(0, len(runs), 50):
        some = runs[start : start + 50]
        stored = {run.run: [_renamed(message, run.run, after) for message in messages] for run in some}
        done = [run for run in some if _place(run) < _DONE]
        node.ledger._messages().keep(message for run in done for message in stored[run.run])
        with node.ledger.deciding() as transaction:
            append = transaction.append
            for run in some:
                append("invited", run.run, entry_words(Invitation.read(signed_terms(run)), by_steward=True))
                if run in done:
                    digests = {message.key: message.digest for message in stored[run.run]}
                    _went_on(append, run, pattern, digests)
                elif _place(run) < _DENIED:
                    append("denied", run.run, {"digest": run.digest, "by": "Ada", "reason": "no contract yet"})


def _went_on(append: Any, run: Terms, pattern: tuple[Entry, ...], digests: dict[str, str]) -> None:
    numbers: dict[int, int] = {}
    for entry in pattern:
        document = {name: value for name, value in entry.document().items() if name != "at"}
        if entry.kind in ("policy", "limit", "invited"):
            continue
        key = _key(entry.key, run.run) if entry.kind in ("reserve", "commit") else run.run
        document |= {"digest": run.digest} if entry.kind in ("reviewed", "approved", "began") else {}
        document |= {"digest": digests[key]} if entry.kind == "commit" else {}
        document |= {name: numbers[document[name]] for name in ("reservation", "entry") if name in document}
        numbers[entry.number] = append(entry.kind, key, document).number


def _renamed(message: StoredMessage, run: str, after: str) -> StoredMessage:
    return replace(message, key=_key(message.key, run), after=after)


def _key(key: str, run: str) -> str:
    return canonical([run, *json.loads(key)[1:]])


def _place(run: Terms) -> int:
    return int(run.run.rpartition("-")[2]) % 10
