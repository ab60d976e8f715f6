"""Kills parties of runs by mailbox, lets them go on, and looks at everything: a program, prints JSON.

A program of its own because it forks: everything slow is loaded before the first fork, so that a life costs little.
"""

import gc
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kill_looks as looks
from forked_work import apart
from kill_looks import Said
from kill_world import CONSUMER, KINDS, folder_of, homes, make_network, warm_up
from mail_kill_parties import PARTIES, WIRE, Ended, EveryPlace, Life, Mortal, NthStep, repeat_noise, role_of

from likeset.homes.mail import Invitation
from likeset.protocol.party import CURATOR
from likeset.transports.stores import open_store
from likeset.trust.cards import CARD_FILE, CardSecret, read_card
from likeset.trust.letters import PairKeys

_MOST_ROUNDS = 600
_MOST_KILLS_IN_A_RUN = 6
_MOST_LIVES_AT_RANDOM = 60  # then a run is over, and nobody writes any more
_SHARE_UNDISTURBED = 0.5  # so that runs get on, and kills come at later moments, too
DONE, UNFINISHED = "done", "unfinished"


@dataclass
class Story:
    """One run, with all lives of its parties.

    Attributes:
        place: the folder of its network.
        invitation: its signed terms.
        mailbox: the address.
    """

    place: Path
    invitation: Invitation
    mailbox: str
    killed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTIES, 0.0))
    word: str = ""

    def __post_init__(self) -> None:
        (self.place / WIRE).mkdir()
        apart(self._travel)

    def _travel(self) -> None:
        _, consumer = homes(self.place)
        consumer.known(self.invitation.terms.run).keep_travel(open_store(self.mailbox).address)

    def life(self, name: str, mortal: Mortal) -> Life:
        """Somebody begins to live."""
        return Life(self.place, name, self.mailbox, mortal).start()

    def after(self, ended: Ended) -> None:
        """Take in how a life ended."""
        if ended.how == "killed":
            self.killed.append(ended.name)
        self.steps[ended.name] += ended.steps
        self.seconds[ended.name] += ended.seconds
        if ended.name == CONSUMER and ended.word:
            self.word = ended.word
        for look in ended.looks:
            wrong = {"strangers": look.strangers, "refused": look.refused, "put back": look.put_back}
            self.complaints += [f"{ended.name}: {count} {what}: {look.notes}" for what, count in wrong.items() if count]

    def go_on(self, orders: Iterable[Sequence[str]], mortal: Any) -> None:
        """Rounds of lives, until everybody lived through one in which nothing happened.

        Args:
            orders: who lives when, in each round.
            mortal: for a name, at which step it ends.
        """
        for order in orders:
            lives = []
            for name in order:
                lives.append(self.life(name, mortal(name)).ended())
                self.after(lives[-1])
            if all(ended.idle for ended in lives):
                return
        self.complaints.append("something still happens, and no end is in sight")

    def undisturbed(self) -> None:
        """Rounds without kills, until nothing happens any more."""
        self.go_on([PARTIES] * _MOST_ROUNDS, lambda _: Mortal())

    @property
    def summary(self) -> bytes:
        """What the consumer has."""
        path = folder_of(self.place, CONSUMER) / "runs" / self.invitation.terms.run / "summary.bin"
        return path.read_bytes() if path.exists() else b""

    def posts(self) -> list[Said]:
        """All letters that were ever left in the mailbox."""
        folders = [folder_of(self.place, name) for name in PARTIES]
        cards = [read_card(folder / CARD_FILE) for folder in folders]
        pairs = [
            PairKeys.between(CardSecret.load(folder), card)
            for folder, own in zip(folders, cards, strict=True)
            for card in cards
            if card != own
        ]
        found = []
        for pair in pairs:
            for path in sorted((self.place / WIRE).glob(f"{pair.incoming_folder}-*")):
                post = pair.unwrap(path.read_bytes())
                if post.kind == "letter":
                    found.append(Said("", "letter", post.document))
        return found

    def looked(self, usual: Path) -> list[str]:
        """What is wrong now that all is over; ``usual`` is the folder of the same run, undisturbed."""
        return [*self.complaints, *apart(lambda: self._looked(usual)), *self._compared(usual)]

    def _compared(self, usual: Path) -> list[str]:
        if self.word == DONE:
            return [] if self.summary == (usual / "summary.bin").read_bytes() else ["the summary is another one"]
        charging = {CONSUMER, CURATOR} & set(self.killed)
        if self.word == UNFINISHED and charging and not self.summary:
            return []
        return [f"it ended with {self.word!r}, killed were {Counter(self.killed)}"]

    def _looked(self, usual: Path) -> list[str]:
        run, done = self.invitation.terms, self.word == DONE
        messages = looks.passed(self.place, self.posts())
        complaints = looks.repeated(messages) + looks.traces(self.place) + looks.ledgers(self.place, run)
        spent, least = looks.accounts(self.place, run), json.loads((usual / "usual.json").read_text())
        complaints += looks.charged(spent, least, messages, run) + looks.overcounted(spent, least, run)
        complaints += looks.undercounted(spent, least) if done else []
        complaints += looks.at_owners(self.place, run, messages, done=done)
        if done:
            rows = {name: sorted(left) for name, left in looks.rows_that_left(messages).items()}
            same = json.loads((usual / "rows.json").read_text()) == rows
            complaints += [] if same else ["other rows left than in a run that nobody disturbed"]
        return complaints


@dataclass
class Killer:
    """Runs of one kind, one after another.

    Args:
        place: a folder for all of it.
        kind: of the runs.
        mailboxes: an address under which each run has a folder of its own.
        folder: where that is on this machine.
    """

    place: Path
    kind: str
    mailboxes: str
    folder: Path
    runs: int = 0
    report: dict[str, Any] = field(default_factory=lambda: {"killed": Counter(), "ends": Counter(), "bad": []})

    def __post_init__(self) -> None:
        first = self.place / "first"
        made = apart(lambda: [one.to_bytes() for one in make_network(first, {self.kind: KINDS[self.kind]})])
        self.invitation = Invitation.read(made[0])
        warm_up(self.invitation.terms)
        repeat_noise()
        gc.freeze()  # what is loaded is not copied because somebody counts it
        self.usual = self.story()
        self.usual.undisturbed()
        assert self.usual.word == DONE, (self.usual.word, self.usual.complaints)
        assert not self.usual.complaints
        apart(self._note_usual)
        assert self.usual.looked(self.usual.place) == []

    def _note_usual(self) -> None:
        place, terms = self.usual.place, self.invitation.terms
        (place / "usual.json").write_text(json.dumps(looks.accounts(place, terms)))
        rows = looks.rows_that_left(looks.passed(place, self.usual.posts()))
        (place / "rows.json").write_text(json.dumps({name: sorted(left) for name, left in rows.items()}))
        (place / "summary.bin").write_bytes(self.usual.summary)

    def story(self) -> Story:
        """Another run from its beginning."""
        name, self.runs = f"{self.place.name}-{self.runs}", self.runs + 1
        shutil.copytree(self.place / "first", self.place / name)
        (self.folder / name).mkdir(mode=0o700)
        return Story(self.place / name, self.invitation, f"{self.mailboxes}/{name}")

    def keep(self, story: Story, how: object) -> None:
        """Look at a run that is over."""
        complaints = story.looked(self.usual.place)
        self.report["killed"].update(map(role_of, story.killed))
        self.report["ends"][story.word] += 1
        if complaints:
            self.report["bad"].append({"run": str(story.place), "complaints": complaints, "kills": how})
        else:
            shutil.rmtree(story.place)

    def at_every_place(self, within: str, *, statements: bool) -> None:
        """Runs in which each role is killed once wherever it writes, until there is no such place any more."""
        while True:
            story = self.story()

            def mortal(name: str) -> Mortal:
                return EveryPlace(self.place / f"places-{role_of(name)}", within, statements=statements)

            story.go_on([PARTIES] * _MOST_ROUNDS, mortal)
            self.keep(story, sorted(Counter(story.killed).items()))
            if story.word == DONE or self.report["bad"]:
                return

    def at_random(self, kills: int, seed: int) -> None:
        """As many kills as asked for, over as many runs as that takes."""
        coins = random.Random(seed)  # noqa: S311 - no secret
        while (left := kills - sum(self.report["killed"].values())) > 0:
            story = self.story()
            how = _kill_at_random(story, coins, min(left, coins.randint(1, _MOST_KILLS_IN_A_RUN)), like=self.usual)
            story.undisturbed()
            self.keep(story, how)


def _kill_at_random(story: Story, coins: random.Random, kills: int, *, like: Story) -> list[str]:
    """Lives in any order, alone or two at once, some of which are killed; how, in words."""
    how: list[str] = []
    for _ in range(_MOST_LIVES_AT_RANDOM):
        if len(story.killed) >= kills:
            break
        names = coins.sample(PARTIES, coins.choice((1, 1, 2)))
        number = coins.randint(1, max(2, like.steps[names[0]] // 3))
        seconds = coins.uniform(0.0, like.seconds[names[0]] / 3) if coins.random() < 0.25 else None
        if coins.random() < _SHARE_UNDISTURBED:
            number, seconds = 0, None
        how.append(f"{'+'.join(names)} step {number}" if seconds is None else f"{'+'.join(names)} {seconds:.3f} s")
        lives = [story.life(names[0], NthStep(number) if seconds is None else Mortal())]
        lives += [story.life(name, Mortal()) for name in names[1:]]
        for life in lives:
            story.after(life.ended(seconds if life is lives[0] else None))
    return how


def main(place: Path, kind: str, mailboxes: str, folder: Path, how: str) -> None:
    """``how`` is ``places`` or ``statements``, with perhaps ``:`` and a module, or ``kills:seed``."""
    killer = Killer(place, kind, mailboxes, folder)
    first, _, second = how.partition(":")
    if first in ("places", "statements"):
        killer.at_every_place(second, statements=first == "statements")
        killer.report["places"] = {
            path.name: len(path.read_text().splitlines()) for path in sorted(place.glob("places-*"))
        }
    else:
        killer.at_random(int(first), int(second))
    sys.stdout.write(json.dumps({"how": how, "runs": killer.runs, **killer.report}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
