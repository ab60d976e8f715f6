"""A search that cannot find is worthless: this one finds at any alignment and across pieces."""

from memory_search import Search

from chance import public_coins


def test_every_pattern_is_found_at_every_alignment_and_across_the_ends_of_pieces() -> None:
    coins = public_coins("search")
    patterns = {coins.bytes(8 + place % 20): str(place) for place in range(200)}
    patterns |= {bytes(6) + coins.bytes(2) + bytes(6) + coins.bytes(2): "words", b"in plain letters": "text"}
    search = Search(patterns)
    for shift, cut in ((0, 999), (1, 1000), (2, 1003), (3, 1), (4, 50), (5, 51)):
        data = coins.bytes(shift) + b"".join(coins.bytes(11) + pattern for pattern in patterns)
        pieces = [data[place : place + cut] for place in range(0, len(data), cut)]
        assert search.within(pieces) == set(patterns.values())
