"""Every fault has its line, and the tests that are to catch it are there; ``make faults`` puts the faults in."""

import pytest
from run_faults import ROOT, Fault, load_faults


@pytest.mark.parametrize("fault", load_faults(), ids=lambda fault: fault.id)
def test_a_fault_moves_with_its_line_and_with_its_tests(fault: Fault) -> None:
    lines = (ROOT / "src" / "likeset" / fault.file).read_text(encoding="utf-8").split("\n")
    assert [line.strip() for line in lines].count(fault.before) == 1
    for test in fault.caught_by:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name.rpartition('::')[2].partition('[')[0]}" in text
