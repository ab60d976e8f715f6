"""Compute parties compute the same thing, or nothing; once picks were opened, only what was opened is sent."""

import pytest

from likeset.split.engine.agreement import Disagreement, Statement, checksum_factors, commitment, joint_seed, keepers

NONCES = [bytes([rank]) * 32 for rank in (1, 2, 3)]


def statement(*, keeps: bool = False, program: str = "p", inputs: str = "i", nonce: bytes = NONCES[0]) -> Statement:
    return Statement(program, "s", inputs, commitment(nonce), keeps)


@pytest.mark.parametrize("ranks", [[], [0, 1], [0, 2], [1, 2], [0, 1, 2]], ids=str)
def test_two_of_three_shares_are_enough_to_open_again(ranks: list[int]) -> None:
    assert keepers([statement(keeps=rank in ranks) for rank in range(3)]) == ranks


@pytest.mark.parametrize("only", range(3))
def test_a_single_share_that_was_kept_ends_the_run(only: int) -> None:
    with pytest.raises(Disagreement, match="opened before"):
        keepers([statement(keeps=rank == only) for rank in range(3)])


@pytest.mark.parametrize("other", [statement(program="q"), statement(inputs="j")], ids=["program", "inputs"])
@pytest.mark.parametrize("keeps", [False, True])
def test_another_program_or_other_inputs_are_refused(other: Statement, keeps: bool) -> None:
    with pytest.raises(Disagreement, match="do not have the same"):
        keepers([statement(keeps=keeps), statement(keeps=keeps), other])


def test_a_statement_is_read_as_it_was_written_and_nothing_else_is() -> None:
    for said in (statement(), statement(keeps=True)):
        assert Statement.from_text(said.to_text()) == said
    for text in ("", "[]", "[1,2,3,4,5]", '["a","b","c","d",1]', '["a","b","c","d",true,true]', "{}", "1"):
        with pytest.raises(Disagreement):
            Statement.from_text(text)


def test_nobody_can_choose_the_seed_after_the_others() -> None:
    statements = [statement(nonce=nonce) for nonce in NONCES]
    seed = joint_seed(statements, [nonce.hex() for nonce in NONCES])
    assert len(seed) == 32
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(statements, [NONCES[0].hex(), NONCES[1].hex(), (b"\x09" * 32).hex()])
    with pytest.raises(Disagreement, match="bound itself"):
        joint_seed(statements, [NONCES[0].hex(), NONCES[1].hex(), "zz"])
    with pytest.raises(Disagreement, match="repeated"):
        joint_seed([statements[0], statements[0]], [NONCES[0].hex(), NONCES[0].hex()])


def test_factors_follow_from_the_seed_alone() -> None:
    assert checksum_factors(b"1" * 32, 3).tolist() == checksum_factors(b"1" * 32, 5).tolist()[:3]
    assert len(set(checksum_factors(b"1" * 32, 1000).tolist())) == 1000
