"""Every fault has its line, and the tests that are to catch it are there; ``make faults`` puts the faults in."""

from collections import Counter

import pytest
from run_faults import ROOT, Fault, load_faults

GUARANTEES = {
    "charge-before-noise": "a charge is durable before noise is drawn",
    "resend-never-redraw": "replies are resent, never redrawn; an interrupted charge stays spent",
    "durable-before-posted": "nothing is posted before it is durable",
    "approval-holds": "the steward's approval holds when a reply is made and when it is posted",
    "limits-and-relations": "limits and relations of accounts",
    "cost-from-terms": "cost does not depend on data",
    "legal-messages": "which message is legal when",
    "pinned-cards": "only pinned cards are heard; only the consumer sends a release",
    "generic-answers": "peers get a generic answer, the log gets the reason, no row value appears in a log",
    "keys-deleted": "keys are deleted when the terms end",
    "rows-apart-from-keys": "a trusted curator never stores rows next to their key",
    "one-opening": "an opening in a split run is recorded and stored before it is sent, and never recomputed",
}
RULES = [f"rule-{number}" for number in range(1, 13)]


@pytest.mark.parametrize("fault", load_faults(), ids=lambda fault: fault.id)
def test_a_fault_moves_with_its_line_and_with_its_tests(fault: Fault) -> None:
    lines = (ROOT / "src" / "likeset" / fault.file).read_text(encoding="utf-8").split("\n")
    assert [line.strip() for line in lines].count(fault.before) == 1
    for test in fault.caught_by:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name.rpartition('::')[2].partition('[')[0]}" in text


def test_every_guarantee_and_rule_has_at_least_three_faults() -> None:
    faults = Counter(fault.holds for fault in load_faults())
    assert {promise for promise in (*GUARANTEES, *RULES) if faults[promise] < 3} == set()
