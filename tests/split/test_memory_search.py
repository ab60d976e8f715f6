"""A search that cannot find is worthless: this one finds at any alignment, across pieces, and in a process's memory."""

import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from memory_search import Search, memory_of

from chance import public_coins

HERE = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc to read memory")


def test_every_pattern_is_found_at_every_alignment_and_across_the_ends_of_pieces() -> None:
    coins = public_coins("search")
    patterns = {coins.bytes(8 + place % 20): str(place) for place in range(200)}
    patterns |= {bytes(6) + coins.bytes(2) + bytes(6) + coins.bytes(2): "words", b"in plain letters": "text"}
    search = Search(patterns)
    for shift, cut in ((0, 999), (1, 1000), (2, 1003), (3, 1), (4, 50), (5, 51)):
        data = coins.bytes(shift) + b"".join(coins.bytes(11) + pattern for pattern in patterns)
        pieces = [data[place : place + cut] for place in range(0, len(data), cut)]
        assert search.within(pieces) == set(patterns.values())


def test_nothing_is_found_where_nothing_is() -> None:
    coins = public_coins("no search")
    search = Search({coins.bytes(12): str(place) for place in range(500)})
    assert search.within([coins.bytes(1 << 20), bytes(1 << 20), b"\xff" * 1000]) == set()


def test_what_is_too_short_is_no_pattern() -> None:
    with pytest.raises(ValueError, match="by chance"):
        Search({b"1234567": "short"})


@HERE
def test_what_a_process_holds_is_found_in_its_memory_and_nothing_else() -> None:
    held, other = secrets.token_bytes(40), secrets.token_bytes(40)
    program = (
        "import sys; data = bytes.fromhex(sys.stdin.readline()); kept = [data] * 3; print('read', flush=True); "
        "sys.stdin.readline()"
    )
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(held.hex().encode() + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        found = Search({held: "held", other: "other"}).within(memory_of(process.pid))
        process.stdin.close()
    assert found == {"held"}


def test_files_are_searched_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"nothing")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a name of 16 let").write_bytes(b"12 + planted value")
    found = Search({b"planted value": "value", b"name of 16": "name"}).in_files(tmp_path)
    assert {name: [path.name for path in paths] for name, paths in found.items()} == {
        "value": ["a name of 16 let"],
        "name": ["a name of 16 let"],
    }
