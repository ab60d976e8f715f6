"""Kills curator, owners and consumer at random moments, resumes, and looks at everything: a program, prints JSON.

A program of its own because it forks: everything slow is loaded before the first fork, so that a life costs little.
"""

import json
import random
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kill_looks as looks
from forked_work import apart
from kill_looks import Said
from kill_parties import Blow, Ended, Hub, random_blow
from kill_world import CONSUMER, KINDS, OWNERS, folder_of, make_network, warm_up

from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.protocol.terms import Terms

_MOST_KILLS_IN_A_RUN = 9
_SHARE_LOOKED_AT_TWICE = 0.5
_MOST_JOBS = 16
UNFINISHED = "UnfinishedRequest"


@dataclass
class Story:
    """One run, with all its jobs.

    Attributes:
        place: the folder of its network.
        invitation: its signed terms.
        coins: decide about kills.
        usual: two jobs that nobody disturbed, of another run of the same kind: its first, and one that resumed it.
    """

    place: Path
    invitation: Invitation
    coins: random.Random
    usual: tuple[Ended, Ended]
    said: list[Said] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    blows: list[str] = field(default_factory=list)

    @property
    def run(self) -> Terms:
        """Its terms."""
        return self.invitation.terms

    def live(self, kills: int, *first: Blow) -> dict[str, Any]:
        """Jobs with kills, then without, until the run has ended; then everything is looked at."""
        hub = Hub(self.place, self.invitation)
        late: list[Ended] = []
        stuck = ""
        while len(self.killed) < kills and len(self.outcomes) < _MOST_JOBS and not stuck:
            like = self.coins.choice(self.usual) if self.outcomes else self.usual[0]
            blows = [random_blow(self.coins, like) for _ in range(self.coins.choice((1, 1, 2)))]
            scripted = bool(first) and not self.outcomes
            if scripted:
                blows = list(first)
            self.blows.append(", ".join(map(str, blows)))
            abort, linger = self.coins.random() < 0.3, self.coins.random() < 0.5
            late.append(hub.job(*blows, abort=abort and not scripted, linger=linger))
            stuck = self._after(late[-1])
        hub.settle()
        for one in late:
            self.said += one.said
        last = self._ended(hub)
        stuck = stuck or (last[1] if UNFINISHED in last[1] else "")  # the last kill may have done it
        again = self._ended(hub) if stuck or self.coins.random() < _SHARE_LOOKED_AT_TWICE else last
        messages = looks.passed(self.place, self.said)
        complaints = apart(lambda: self._looked(messages, done=not stuck))
        if not stuck and (last != again or not last[0]):
            complaints.append(f"what was drawn came out differently: {last[1]}, {again[1]}")
        if stuck and (last[1] != stuck or again[1] != stuck):
            complaints.append(f"it ended with {stuck}, and then with {last[1]} and {again[1]}")
        return {"complaints": complaints, "stuck": stuck}

    def _after(self, ended: Ended) -> str:
        """Takes in how a job ended; the statement, where the run cannot go on."""
        self.killed += ended.killed
        outcome = "the curator was killed"
        if ended.report is not None:
            outcome = ": ".join(filter(None, (ended.report["outcome"], ended.report["detail"])))
        if outcome == "the consumer gave no answer" and CONSUMER not in ended.killed:
            reasons = looks.refusals(folder_of(self.place, CONSUMER))
            outcome += f": {reasons[-1].partition(':')[0] if reasons else 'nobody knows why'}"
        self.outcomes.append(outcome)
        return outcome if UNFINISHED in outcome else ""

    def _ended(self, hub: Hub) -> tuple[bytes, str]:
        """The summary of a job that nobody disturbs, and how that one ended."""
        ended = hub.job()
        self.said += ended.said
        self._after(ended)
        path = folder_of(self.place, CONSUMER) / "runs" / self.run.run / "summary.bin"
        unanswered = (ended.report or {}).get("unanswered")
        outcome = self.outcomes[-1] + (f", without {unanswered}" if unanswered else "")
        return path.read_bytes() if path.exists() else b"", outcome

    def _looked(self, messages: list[Any], *, done: bool) -> list[str]:
        complaints = looks.repeated(messages) + looks.traces(self.place) + looks.ledgers(self.place, self.run)
        spent = looks.accounts(self.place, self.run)
        usual = json.loads((self.place / "usual.json").read_text())
        complaints += looks.charged(spent, usual, messages, self.run) + looks.overcounted(spent, usual, self.run)
        complaints += looks.at_owners(self.place, self.run, messages, done=done)
        reasons = looks.refusals(folder_of(self.place, CONSUMER))
        return complaints + [f"the consumer: {one}" for one in reasons if not one.startswith(UNFINISHED)]


def undisturbed(place: Path, invitation: Invitation) -> tuple[Ended, Ended]:
    """A run without kills, and the same once more; beside it what it charged."""
    hub = Hub(place, invitation)
    first, again = hub.job(), hub.job()
    for ended in (first, again):
        assert ended.report is not None
        assert (ended.report["outcome"], ended.report["unanswered"]) == ("done", {}), ended.report
        assert not ended.killed
    found = apart(lambda: looks.accounts(place, invitation.terms))
    (place / "usual.json").write_text(json.dumps(found))
    return first, again


def main(place: Path, kind: str, kills: int, seed: int) -> None:
    """As many kills as asked for, spread over as many runs as that takes."""
    coins = random.Random(seed)  # noqa: S311 - no secret
    (signed,) = apart(lambda: [one.to_bytes() for one in make_network(place / "first", {kind: KINDS[kind]})])
    invitation = Invitation.read(signed)
    run = invitation.terms
    warm_up(run)
    shutil.copytree(place / "first", place / "usual")
    usual = undisturbed(place / "usual", invitation)
    shutil.copy(place / "usual" / "usual.json", place / "first")
    found: dict[str, Any] = {
        "seed": seed,
        "killed": Counter(),
        "outcomes": Counter(),
        "stuck": [],
        "runs": 0,
        "bad": [],
    }
    scripted = [Blow(one, "charge", number=1) for one in (CONSUMER, CURATOR) if usual[0].steps[one]["charge"]]
    # When it is told of the second round, or of the first where there is only one: it misses a step that others do.
    scripted.append(Blow(OWNERS[1], "message", number=7 if run.protocol == "interactive" else 1))
    while (left := kills - sum(found["killed"].values())) > 0:
        folder = place / f"run-{found['runs']}"
        shutil.copytree(place / "first", folder)
        story = Story(folder, invitation, coins, usual)
        ended = story.live(min(left, coins.randint(1, _MOST_KILLS_IN_A_RUN)), *scripted[found["runs"] :][:1])
        found["killed"].update(story.killed)
        found["outcomes"].update(story.outcomes)
        found["stuck"] += [ended["stuck"]] if ended["stuck"] else []
        found["runs"] += 1
        if ended["complaints"]:
            found["bad"].append({"run": folder.name, "blows": story.blows, "outcomes": story.outcomes, **ended})
        else:
            shutil.rmtree(folder)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
