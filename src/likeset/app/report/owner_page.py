"""An owner's report: its own transcript and the public terms, and nothing that depends on anybody else's rows.

It is made from named fields, one by one, never by leaving some out: a field that a later version adds stays out until
somebody has thought about it. Left out on purpose are the time at which the run ended, how long it took and its
warnings: they depend on others' rows too.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from likeset.app.report.markup import definitions, document, glossary, html_text, note, section
from likeset.app.report.page import guarantee_table, schema_table, simulation_banner
from likeset.app.report.plain_words import (
    DASH,
    TIMES,
    amount,
    bytes_in_words,
    number,
    or_bound,
    plain,
    quantity,
    setting,
    title_of,
)
from likeset.app.report.story import check_format, is_simulated, owner_names, promises
from likeset.errors import InvalidArgument

__all__ = ["render_for_owner"]

_PUBLIC_TERMS = frozenset(
    {
        "run",
        "consumer",
        "purpose",
        "expires",
        "quorum",
        "schema_digest",
        "columns",
        "kernel",
        "protocol",
        "size",
        "target_size",
        "offer_factor",
        "offers",
        "labels",
        "thinning",
        "target_budget",
        "owner_budget",
        "epsilon",
        "delta",
        "relation",
        "rows_per_unit",
        "rows_per_owner",
        "auction",
        "auction_epsilon",
        "auction_offset",
        "auction_patience",
        "summary_release",
        "seed_rows",
        "schedule",
        "promised_epsilon",
        "price_per_row",
        "accept_unproven",
        "version",
    }
)
"""The terms that an owner is shown; of the list of owners, only how many they are."""

_ROLES = ("owners", "curator", "consumer")


def render_for_owner(result: Mapping[str, Any], owner: str) -> str:
    """What one owner may see of a run, as one HTML page.

    Args:
        result: the content of ``result.json``.
        owner: the owner's name.
    """
    check_format(result)
    names = owner_names(result)
    if owner not in names:
        raise InvalidArgument("owner", plain(owner)[:128], "took no part in this run; result.json has the names")
    own = next(entry for entry in result["owners"] if entry.get("name") == owner)
    others = [name for name in names if name != owner]
    held = own.get("rows")
    of_all = f" of its {quantity(held, 'row')}" if isinstance(held, int) else ""
    summary = (result.get("terms") or {}).get("summary") or {}
    body = [
        simulation_banner(_public_face(result)),
        f"<header><b>likeset</b><span>report of an owner</span><span>run {_unless_named(result.get('run'), others)}"
        "</span></header>",
        f"<h1>{html_text(owner)} sent <em>{html_text(_left(own))}</em>{html_text(of_all)} to the curator.</h1>",
        "<p>This page has everything that was sent and heard, and nothing about any other owner.</p>",
        definitions(_cards(own, summary), kind="cards"),
        _transcript(result, own, summary),
        _guarantees(result, owner),
        _terms(result, others),
        _schema(result),
        glossary(),
    ]
    footer = f"Made for {html_text(owner)} by likeset {html_text(result.get('version', ''))}."
    return document(title=f"likeset: {owner}", kind="owner", body=body, footer=footer)


def _public_face(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the banner needs; the seed stays out: with it, the noise could be taken off the release."""
    return {"noise": result.get("noise"), "private": result.get("private") is not False and not is_simulated(result)}


def _cards(own: Mapping[str, Any], summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    cards = [
        ("rows that left", f"{html_text(_left(own))}<small>to the curator only</small>"),
        ("sent", f"{html_text(bytes_in_words(own.get('sent_bytes')))}<small>sealed for the curator</small>"),
        ("heard", f"{html_text(bytes_in_words(own.get('heard_bytes')))}<small>from the curator</small>"),
    ]
    price = summary.get("price_per_row")
    if isinstance(price, int | float) and price > 0:
        # Never what the run says: that might be a payment by value.
        payment = _left(own, lambda rows: amount(price * rows) if isinstance(rows, int) else DASH)
        cards.append(("payment", f"{html_text(payment)}<small>price {TIMES} rows that left</small>"))
    return cards


def _transcript(result: Mapping[str, Any], own: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    digest = (result.get("terms") or {}).get("digest")
    steps = [("heard", "The terms", f"Digest <code>{html_text(digest)}</code>" if digest else "Agreed on beforehand.")]
    heard = html_text(bytes_in_words(own.get("heard_bytes")))
    if result.get("protocol") == "interactive":
        steps.append(("heard", "The release of the target, and in each round whether a row was asked for", heard))
    elif summary.get("offers") == "uniform":
        steps.append(("heard", "The request for rows at random; nothing about the target was released", heard))
    else:
        steps.append(("heard", "One release: a noisy mean of the target's features", heard + _digest(own, "heard")))
    rows = _left(own, lambda rows: quantity(rows, "row"))
    sent = f"{html_text(rows)}, {html_text(bytes_in_words(own.get('sent_bytes')))}{_digest(own, 'sent')}"
    steps.append(("sent", "Its offer, to the curator only", sent))
    entries = "".join(
        f'<li><span class="way {way}">{way}</span><div><b>{html_text(what)}</b><p>{more}</p></div></li>'
        for way, what, more in steps
    )
    total = own.get("messages")
    return section(
        "Everything that was said",
        f'<ol class="steps">{entries}</ol>',
        note(f"{quantity(total, 'message')} in all." if total is not None else ""),
        lead="What became of the rows is not told: whether they were selected depends on other owners' rows.",
        anchor="transcript",
    )


def _left(own: Mapping[str, Any], form: Callable[[object], str] = number) -> str:
    """How many rows left the owner; where the consumer was not told, how many that were at most."""
    most = own.get("disclosed_at_most")
    return or_bound(own.get("disclosed") if most is not None else own.get("disclosed") or 0, most, form)


def _digest(own: Mapping[str, Any], way: str) -> str:
    digest = own.get(f"{way}_digest")
    return f", digest <code>{html_text(digest)}</code>" if digest else ""


def _guarantees(result: Mapping[str, Any], owner: str) -> str:
    names = owner_names(result)
    told = [
        guarantee
        for guarantee in result.get("guarantees") or ()
        if guarantee.get("observer") in _ROLES
        and not guarantee.get("coalition")
        and (
            guarantee.get("protects") == owner or (guarantee.get("protects") not in names and _is_of_owners(guarantee))
        )
    ]
    return section(
        "Who could learn what",
        guarantee_table(promises(result, told, own=owner), caption="Guarantees by observer"),
        note("The numbers are of this run. What other runs tell about the same rows adds to them."),
        anchor="guarantees",
    )


def _is_of_owners(guarantee: Mapping[str, Any]) -> bool:
    return guarantee.get("observer") == "owners"


def _terms(result: Mapping[str, Any], others: list[str]) -> str:
    terms = result.get("terms") or {}
    facts = []
    for key, value in (terms.get("summary") or {}).items():
        name = re.sub(r"[\s-]+", "_", str(key)).lower()
        if name == "owners":
            number_of = len(value) if isinstance(value, list | tuple) else value
            if isinstance(number_of, int):
                facts.append(("owners invited", html_text(number(number_of))))
        elif name in _PUBLIC_TERMS:
            shown = (
                html_text(setting(value)) if isinstance(value, int | float) else _unless_named(setting(value), others)
            )
            facts.append((title_of(str(key)), shown))
    return section(
        "Terms",
        definitions(facts),
        lead="What all parties agreed on before any row was read.",
        anchor="terms",
    )


def _schema(result: Mapping[str, Any]) -> str:
    """The columns are the same for all; whether a bound came from somebody's data is not this owner's business."""
    schema = result.get("schema") or {}
    columns = [{key: column.get(key) for key in ("name", "kind", "unit")} for column in schema.get("columns") or ()]
    digest = schema.get("digest") or result.get("schema_digest")
    return schema_table({"schema": {"digest": digest, "columns": columns}})


def _unless_named(value: object, others: list[str]) -> str:
    """The text, unless another owner is named in it."""
    words = str(value or DASH)
    named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words) for name in others if name)
    return DASH if named else html_text(words)
