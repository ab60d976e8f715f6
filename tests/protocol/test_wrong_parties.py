"""A party that does not belong to its terms is not made."""

import pytest
from protocol_world import KERNEL, CountingNoise, rows, terms

from likeset.errors import IllegalMessage, InvalidArgument
from likeset.protocol.sealed import Consumer
from likeset.protocol.split_run import make_owner
from likeset.tables.scan import MemoryScan


@pytest.mark.parametrize("shape", [(29, KERNEL.columns), (30, KERNEL.columns + 1)])
def test_a_target_of_another_shape_than_agreed_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument, match="as in the terms"):
        Consumer(terms(), target=rows(1, shape[0], columns=shape[1]), noise=CountingNoise())


def test_whoever_is_not_invited_is_no_owner() -> None:
    with pytest.raises(IllegalMessage, match="not among the owners"):
        make_owner(terms(), "stranger", scan=MemoryScan(rows(2)), key=1, declared=None)
