"""Text for display: without passwords, and without characters that control a screen; and near misses.

Whatever a stranger wrote, or a user typed as the address of a table, passes through here before it is printed, logged
or put into an error.
"""

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable
from urllib.parse import unquote

_HIDDEN = "***"
_MOST_MARKS = 5
_WHAT = re.compile(r"[?&](?:query|table)=")
# Up to the last @, since a password may hold one; the second form has a port that is none.
_USER = re.compile(r"(?s)(?<=://)([^/@\s:]*)[:@].*@")
_NO_PORT = re.compile(r"(?<=://)([^/@\s:\[?]*):(?!\d*(?:[/?,\s]|$)|\*)[^/?\s]*")
_WITHOUT_SCHEME = re.compile(r"(?s)^(?!sql:|sqlite:)([^/@\s:'\"]+):(?!//).*@")
_INSIDE_A_QUERY = re.compile(r"(?<=://)([^/@\s:'\"]*):[^\s'\"]*@")
_SECRETS = r"(?:password|passwd|pwd|secret|token|scram_\w*key)"
_SETTING = re.compile(rf"(?i)(\b\w*{_SECRETS}\s*=\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^&\s'\"]*)")
_ADDRESS_SETTING = re.compile(r"(?<=[?&])([^=&\s]+)=([^&]*)")
_SECRET_NAME = re.compile(rf"(?i){_SECRETS}")


def percent_at_most(probability: float) -> str:
    """A probability rounded up to tenths of a percent."""
    return f"{math.ceil(1000.0 * probability - 1e-9) / 10.0:g}%"


def without_secrets(text: str) -> str:
    """The text without passwords: in addresses, in their settings, and in words such as ``password=...``.

    More is hidden than necessary if an address cannot be distinguished from a password.
    """
    what = _WHAT.search(text)
    address, rest = (text[: what.start()], text[what.start() :]) if what else (text, "")
    if text.startswith("sql:"):
        address, rest = "", text
    address = _WITHOUT_SCHEME.sub(rf"\1:{_HIDDEN}@", address)
    address = _NO_PORT.sub(rf"\1:{_HIDDEN}", _USER.sub(rf"\1:{_HIDDEN}@", address))
    # A name of a setting may be written in percent signs as well.
    address = _ADDRESS_SETTING.sub(_setting, address)
    return _SETTING.sub(rf"\1{_HIDDEN}", address + _INSIDE_A_QUERY.sub(rf"\1:{_HIDDEN}@", rest))


def _setting(found: re.Match[str]) -> str:
    return f"{found[1]}={_HIDDEN}" if _SECRET_NAME.search(unquote(found[1])) else found[0]


def harmless(text: str, *, most: int | None = None) -> str:
    r"""A stranger's text as one line: characters that control a terminal are escaped, such as ``\x1b``.

    So are characters that change the reading order, and accents that would cover the lines above.

    Args:
        text: any text.
        most: the maximum number of shown characters.

    Example:
        >>> harmless("a name\x1b[31m")
        'a name\\x1b[31m'
    """
    cut = most is not None and len(text) > most
    kept = text[:most] if cut else text
    return (kept if kept.isascii() and kept.isprintable() else _written_out(kept)) + (" ..." if cut else "")


def _written_out(text: str) -> str:
    letters, marks = list[str](), 0
    for letter in text:
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind.startswith("M") else 0
        if letter.isprintable() and marks <= _MOST_MARKS:
            letters.append(letter)
        else:  # a blank of another width is a blank
            letters.append(" " if kind == "Zs" else letter.encode("unicode_escape").decode("ascii"))
    return "".join(letters)


def near_miss(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """``; did you mean bounds?`` if a known word is near, else an empty text."""
    names = list(known)
    folded = {name.casefold(): name for name in names}
    if word.casefold() in folded:
        return f"; did you mean {folded[word.casefold()]}?"
    near = difflib.get_close_matches(word, names, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def is_query(address: str) -> bool:
    """Whether a source is a query or an address with a scheme, not a file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", address) is not None


def short_query(address: str, *, most: int = 32) -> str:
    """The beginning of a long query or address; the unchanged name of a file."""
    return f"{address[:most].rstrip()}…" if is_query(address) and len(address) > most else address
