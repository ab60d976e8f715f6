"""Text that is shown: no password in it, and nothing that does something to a screen."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likeset.errors import BadDocument, BadTable, InvalidArgument
from likeset.text import harmless, near_miss, without_secrets

CANARY = "c4nary"
ADDRESSES = {
    "plain": f"postgres://ada:{CANARY}@db/x?table=t",
    "with an @": f"postgres://ada:a@{CANARY}@db/x?table=t",
    "with a slash and a colon": f"postgres://ada:a/b:{CANARY}?c@db/x?table=t",
    "with a blank": f"postgres://ada:a {CANARY}@db/x?table=t",
    "in percent signs": f"postgres://ada:%40%2F{CANARY}@db/x?table=t",
    "without a user": f"postgresql://:{CANARY}@db/x?query=SELECT 1",
    "a user with an @": f"postgres://ada@corp:{CANARY}@db/x?table=t",
    "without a host": f"postgres://ada:{CANARY}/x?table=t",
    "without a scheme": f"ada:{CANARY}@db/x",
    "no @ before the table": f"postgres://ada:{CANARY}?table=t",
    "in the settings": f"postgres://db/x?password={CANARY}&table=t",
    "first of the settings": f"postgres://db/x?user=a&sslpassword={CANARY}&sslmode=require&query=SELECT 1",
    "after the table": f"postgres://db/x?table=t&password={CANARY}",
    "a setting in percent signs": f"postgres://db/x?pass%77ord={CANARY}&table=t",
    "a setting in capitals": f"postgres://db/x?PASSWORD={CANARY}&table=t",
    "another scheme": f"mysql+py://ada:{CANARY}@db/x",
    "as words": f"host=db user=ada password={CANARY} dbname=x",
    "as words with blanks": f"host=db password = 'a b {CANARY}' dbname=x",
    "as words with an escape": rf"host=db password='a\'b {CANARY}' dbname=x",
    "inside a query": f"sql:FROM postgres_scan('host=db password={CANARY}', 't')",
    "an address inside a query": f"sql:FROM read_csv('https://ada:{CANARY}@db/x.csv') WHERE mail = 'a@b'",
    "an address in a query of a server": f"postgres://db/x?query=SELECT dblink('postgres://a:{CANARY}@h/d')",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_no_error_holds_a_password(address: str) -> None:
    assert CANARY in address
    assert CANARY not in without_secrets(address)
    quoted = address if "=" in address or "://" in address else ""  # among other words, the rest looks like any word
    errors = (
        InvalidArgument("source", address, "cannot be used"),
        BadTable(address, f"cannot be read: {quoted}"),
        BadDocument(address, f"cannot be read: {quoted}"),
    )
    for error in errors:
        assert CANARY not in str(error)
        assert CANARY not in repr(error)
        assert CANARY not in repr(vars(error))


@pytest.mark.parametrize(
    "text",
    [
        "patients.csv",
        "postgres://db:5432/x?table=t",
        "postgres://ada@db:5432/x?sslmode=require&table=t",
        "postgres://[::1]:5432/x?table=t",
        "postgres://one:5432,two:5433/x?table=t",
        "sqlite:a@b/x.db?query=SELECT mail FROM t WHERE mail = 'a@b'",
        "sql:SELECT * FROM 'a@b.csv' WHERE a LIKE '%:%@%'",
        "C:/rows/t.csv",
    ],
)
def test_what_holds_no_password_is_shown_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


@given(password=st.text(st.sampled_from(string.ascii_letters + string.digits + "@:/ %?#&="), min_size=6, max_size=20))
def test_any_password_before_a_host_is_hidden(password: str) -> None:
    shown = without_secrets(f"postgres://ada:{password}@db.internal/x")
    assert "?table=" in password or "?query=" in password or shown == "postgres://ada:***@db.internal/x"


HOSTILE = {
    "escape": "\x1b[31mred\x1b]8;;http://x\x07",
    "c1": "\x9b31m",
    "newline": "a\nb\rc\vd\x85e",
    "reading order": "\u202eabc\u202d\u2066x\u2069\u200f",
    "zero width": "a\u200bb\u200d\ufeff\u00ad",
    "line separators": "a\u2028b\u2029c",
    "surrogate": "a\ud800b",
    "private": "\ue000\U000e0041",
    "null": "a\0b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_steers_a_screen_is_written_out(text: str) -> None:
    shown = harmless(text)
    assert shown.isprintable()
    shown.encode()  # it can be written anywhere
    assert "\\" in shown


def test_words_of_all_languages_stay() -> None:
    for words in ("Müller", "患者", "пациент", "مريض", "a\\b", "[red]x[/]", "☃"):
        assert harmless(words) == words
    assert harmless("1\u00a0000") == "1 000"


def test_long_words_are_cut() -> None:
    assert harmless("x" * 30, most=10) == "x" * 10 + " ..."
    assert harmless("x" * 10, most=10) == "x" * 10


def test_piled_up_accents_are_written_out_and_those_of_languages_stay() -> None:
    for word in ("Nguyễn", "Nguye\u0302\u0303n", "\u05e9\u05b4\u05c1\u05bc\u05dc", "ประเภทนี้", "क्षत्रिय", "é"):
        assert harmless(word) == word
    pile = "a" + "\u0336\u0489\u20dd" * 50
    shown = harmless(pile)
    assert shown.startswith("a\u0336\u0489\u20dd\u0336\u0489\\u20dd\\u0336")
    assert max(map(ord, shown[6:])) < 128


def test_a_near_miss_is_near() -> None:
    assert near_miss("Age", ["age", "sex"]) == "; did you mean age?"
    assert near_miss("bonds", ["bounds", "kind"]) == "; did you mean bounds?"
    assert near_miss("x", ["age", "sex"]) == ""
