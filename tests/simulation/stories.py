"""Sequences of events that chance rarely finds, or that failed once, in the words of a trace (``plan.events_of``).

A seed means something else after any change of plans; a story stays what it is.
"""

from dataclasses import dataclass, field

from plan import RunShape, Shape


@dataclass(frozen=True)
class Story:
    events: str
    shape: Shape = field(default_factory=Shape)
    known: str = ""  # the key of ``invariants.KNOWN`` that it shows: then an invariant must be violated


APPROVED = """
ask new-clinic r0
turn new-clinic,a,b,curator r0
approve a,b r0
turn a,b r0
"""
TWICE = "turn new-clinic,a,b,curator,new-clinic,a,b r0"

STORIES = {
    "one good day": Story(APPROVED + TWICE),
    "a split run": Story(APPROVED.replace("curator", "curator,witness") + TWICE, Shape((RunShape(protocol="split"),))),
    "a consumer put back between begin and answer cannot see what it wrote": Story(
        APPROVED
        + """
        copy new-clinic r0
        turn new-clinic r0
        restore new-clinic r0
        turn new-clinic r0 !blind
        turn new-clinic r0
        """
    ),
    "an owner put back between begin and answer cannot see what it wrote": Story(
        APPROVED
        + """
        turn new-clinic r0
        copy a r0
        turn a r0
        restore a r0
        turn a r0 !blind
        turn a r0
        """
    ),
    "a home put back without its keys": Story(
        APPROVED
        + """
        backup new-clinic r0
        turn new-clinic r0
        restore new-clinic r0
        turn new-clinic r0 !blind
        turn new-clinic r0
        """
    ),
    "two processes of one home ask for the time of the mailbox": Story(
        """
        ask new-clinic r0
        turn new-clinic r0
        skew a r0 +480 h
        turn a r0 !overlap @store list clock
        """
    ),
    "an older word of participation comes after the acceptance": Story(
        """
        ask new-clinic r0
        turn new-clinic,a,b,curator,new-clinic r0
        deny a r0
        turn a r0
        approve a r0
        turn a,new-clinic r0
        show again a r0
        turn new-clinic r0
        approve b r0
        turn b r0
        """,
        Shape((RunShape(quorum=2),)),
    ),
    "a process dies while it writes the key of a run": Story(
        """
        ask new-clinic r0
        turn new-clinic r0
        turn curator r0 !kill @file rename keys
        """
    ),
    "an owner's data are away for a moment": Story(
        APPROVED + "turn new-clinic r0\ndata away a r0\nturn a r0\ndata away a r0"
    ),
    "an owner's rules have a mistake for a moment": Story(
        APPROVED + "turn new-clinic r0\nbad policy a r0\nturn a r0\nbad policy a r0"
    ),
    "a curator dies between an auction's draw and its record, and a late letter is heard first": Story(
        APPROVED.replace("a,b", "a,b,c")
        + """
        turn new-clinic,a,curator r0
        pass new-clinic r0 +80 h
        turn curator r0 !kill @sql BEGIN #5
        turn b,curator r0
        """,
        Shape((RunShape(owners=("a", "b", "c"), protocol="auction"),)),
    ),
    "a mailbox breaks after two files of each sync": Story(
        """
        ask new-clinic r0
        ask new-clinic r1
        """
        + 9 * "turn new-clinic r0 !weak #3\n",
        Shape((RunShape(), RunShape())),
    ),
    "an owner withdraws after its answer could not be posted": Story(
        APPROVED + "turn new-clinic r0\nturn a r0 !trouble @store write\nwithdraw a r0\nturn a r0"
    ),
    "a consumer cancels after its first letters could not be posted": Story(
        APPROVED + "turn new-clinic r0 !trouble @store write\ncancel new-clinic r0\nturn new-clinic r0"
    ),
    "the terms end after an answer could not be posted": Story(
        APPROVED + "turn new-clinic r0\nturn a r0 !trouble @store write\npass a r0 +2000 h\nturn a r0",
        Shape(days=True),
    ),
}

# For each: a fault at the first effect of the last turn, at the second, and so on, as far as the turn has effects.
SWEEPS = {
    "a consumer begins": APPROVED + "turn new-clinic r0",
    "an owner answers": APPROVED + "turn new-clinic r0\nturn a r0",
    "a curator selects": APPROVED + "turn new-clinic,a,b r0\nturn curator r0",
    "an owner accepts": "ask new-clinic r0\nturn new-clinic,a,b,curator r0\napprove a,b r0\nturn a r0",
}
SWEPT = ("kill", "power", "full", "overlap")
