"""The consumer's report: everything that it may see, which is more than any owner may."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from likeset.app.report.evaluation_section import evaluation_section
from likeset.app.report.looks_section import labels_section, looks_section
from likeset.app.report.markup import (
    TableColumn,
    badge,
    banner,
    bar,
    definitions,
    document,
    glossary,
    html_text,
    note,
    section,
    small,
    table,
)
from likeset.app.report.match_section import match_section
from likeset.app.report.plain_words import (
    DASH,
    amount,
    bytes_in_words,
    labels_in_words,
    number,
    or_bound,
    percent,
    plain,
    quantity,
    setting,
    short_address,
    title_of,
    trimmed_number,
)
from likeset.app.report.story import (
    check_format,
    closeness,
    is_simulated,
    own_squared_mmd,
    owners_learn_nothing,
    promises,
    protection,
)
from likeset.run.result_words import SHARE_IN_WORDS

__all__ = ["guarantee_table", "render", "schema_table", "simulation_banner"]

_MOST_OWNERS = 40
_MOST_COLUMNS = 60
_UNNAMED = "run"  # what a run is called that nobody gave a name


def render(result: Mapping[str, Any], pictures: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> str:
    """The report of a run as one HTML page.

    Args:
        result: the content of ``result.json``.
        pictures: the content of ``pictures.json``; whatever is missing in it is left out.
        evaluation: the content of ``evaluation.json``, if somebody evaluated.
    """
    check_format(result)
    who, match, value, comparison = closeness(result)
    body = [
        simulation_banner(result),
        _header(result, "report of the consumer"),
        f"<h1>{html_text(who)} {html_text(match)} <em>MMD² {html_text(value)}</em>{html_text(comparison)}</h1>",
        f"<p>{html_text(protection(result))}</p>",
        definitions(_cards(result), kind="cards"),
        _warnings(result),
        _question(result),
        match_section(result),
        evaluation_section(evaluation),
        looks_section(pictures, columns=len((result.get("schema") or {}).get("columns") or ())),
        labels_section(pictures.get("labels")),
        _contributions(result),
        _guarantees(result),
        _premises(result),
        _terms(result),
        schema_table(result),
        glossary(),
    ]
    footer = (
        "This page is the consumer's: it shows shares and counts that no owner may hear. For an owner, run "
        f"<code>likeset report DIR --for-owner NAME</code>. Written by likeset {html_text(result.get('version', ''))}."
    )
    return document(title=f"likeset: {result.get('run', '')}", kind="consumer", body=body, footer=footer)


def simulation_banner(result: Mapping[str, Any]) -> str:
    """On top of everything where the noise was not secret; nothing otherwise."""
    if is_simulated(result):
        seed = result.get("seed")
        known = "" if seed is None else f" (seed {seed})"
        return banner(
            "Simulated, not private.",
            f"The noise of this run can be computed again{known}. It is for trying out and for studies only.",
        )
    if result.get("private") is False:
        return banner("Not private.", "This run gives no guarantee to at least one party: see the guarantees below.")
    return ""


def _header(result: Mapping[str, Any], kind: str) -> str:
    run = plain(result.get("run") or "")
    named = "" if run in ("", _UNNAMED) else f"<span>run {html_text(run)}</span>"
    when = str(result.get("created") or "").replace("T", " ")[:16]
    return (
        f"<header><b>likeset</b><span>{html_text(kind)}</span>{named}"
        f'<span class="when">{html_text(when)}</span></header>'
    )


def _cards(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The numbers that people ask for first."""
    likeness = result.get("likeness")
    interval = f"{number(likeness['low'])} to {number(likeness['high'])}; 0 would be alike" if likeness else "in-sample"
    kind = "MMD² to rows like your target" if likeness else "MMD² to your target"
    yield kind, f"{html_text(number(own_squared_mmd(result)))}<small>{html_text(interval)}</small>"
    lines = (result.get("comparison") or {}).get("lines") or ()
    judged = lines[0].get("scores") if lines else None
    if judged:
        more = f"balanced {percent(judged['balanced_accuracy'])}, AUC {judged['auc']:.3f}; on held-out target rows"
        yield "accuracy of a model", f"{html_text(percent(judged['accuracy']))}<small>{html_text(more)}</small>"
    owners = result.get("owners") or ()
    names = {owner.get("name") for owner in owners}
    for guarantee in result.get("guarantees") or ():
        if guarantee.get("observer") == "owners" and guarantee.get("protects") not in names:
            bounded = guarantee.get("epsilon") is not None and not is_simulated(result)
            shown = f"ε = {trimmed_number(guarantee['epsilon'])}" if bounded else "no bound"
            below = (
                f"δ = {number(guarantee.get('delta'))}, {guarantee.get('relation', '')}" if bounded else "not private"
            )
            yield "owners about your target", f"{html_text(shown)}<small>{html_text(below)}</small>"
            break
    if result.get("rows_seen") is not None:
        held = sum(owner.get("rows") or 0 for owner in owners)
        of_all = f"of {quantity(held, 'row')} that owners hold" if held else ""
        yield "rows the curator saw", f"{html_text(number(result['rows_seen']))}<small>{html_text(of_all)}</small>"
    total = (result.get("seconds") or {}).get("total")
    if total is not None:
        yield "time", f"{html_text(number(total))}&nbsp;s<small>from files to result</small>"


def _warnings(result: Mapping[str, Any]) -> str:
    entries = "".join(f"<li>{html_text(warning.get('text', ''))}</li>" for warning in result.get("warnings") or ())
    return (
        f'<section class="warnings" id="warnings"><h2>Please note</h2><ul>{entries}</ul></section>' if entries else ""
    )


def _question(result: Mapping[str, Any]) -> str:
    target = result.get("target") or {}
    owners = result.get("owners") or ()
    facts = [
        (
            "find rows that look like",
            f"{_address(target.get('name', 'the target'))}, {html_text(quantity(target.get('rows'), 'row'))}",
        ),
        ("how many", html_text(quantity(result.get("size"), "row"))),
        ("among", html_text(_held_by(owners))),
        ("protocol", html_text(result.get("protocol", DASH))),
        ("noise", "simulated, not private" if is_simulated(result) else "secret"),
        ("gamma of the kernel", f"{html_text(number(result.get('gamma'), 3))} <small>(larger looks closer)</small>"),
        *(("labels", html_text(words)) for words in labels_in_words(result.get("labels"))),
        (
            "access ratio",
            f"{html_text(number(result.get('access_ratio')))} <small>(rows seen + target) / (size + target)</small>",
        ),
    ]
    return section("What was asked", definitions(facts), anchor="question")


def _held_by(owners: Sequence[Mapping[str, Any]]) -> str:
    """How many rows owners hold; a consumer of a run between organisations is not told."""
    held, who = sum(owner.get("rows") or 0 for owner in owners), quantity(len(owners), "owner")
    return f"{quantity(held, 'row')} of {who}" if held else f"the rows of {who}"


def _contributions(result: Mapping[str, Any]) -> str:
    owners = sorted(result.get("owners") or (), key=lambda owner: -float(owner.get("share") or 0.0))
    paid = any(owner.get("payment") or owner.get("payment_at_most") for owner in owners)
    counted = ["selected", "offered", *(["payment"] if paid else [])]
    columns = [TableColumn("owner"), TableColumn("share")]
    columns += [TableColumn(title, numeric=True) for title in counted]
    rows = []
    for owner in owners[:_MOST_OWNERS]:
        share = owner.get("share")
        cells = [
            html_text(owner.get("name", "")),
            f"{bar(share or 0.0)}{html_text(percent(share))}",
            html_text(number(owner.get("selected"))),
            html_text(or_bound(owner.get("disclosed"), owner.get("disclosed_at_most"), number)),
        ]
        cells += [html_text(or_bound(owner.get("payment"), owner.get("payment_at_most"), amount))] if paid else []
        rows.append(cells)
    return section(
        "Who contributed what",
        table(columns, rows, caption="Contributions of the owners"),
        _owners_left_out(len(owners)),
        note("Shares are for your eyes: telling an owner its share would say something about the others' rows."),
        lead=SHARE_IN_WORDS + (" The payment is by rows disclosed." if paid else ""),
        anchor="contributions",
    )


def guarantee_table(rows: Sequence[Any], *, caption: str) -> str:
    """Promises as a table."""
    return table(
        [TableColumn(title) for title in ("who looks", "at", "what can be learned", "bound", "basis")],
        [
            (
                html_text(promise.observer),
                html_text(promise.protected),
                html_text(promise.words),
                _on_one_line(promise.cost) + small(promise.relation),
                badge(promise.basis),
            )
            for promise in rows
        ],
        caption=caption,
    )


def _guarantees(result: Mapping[str, Any]) -> str:
    rows = promises(result, result.get("guarantees") or ())
    return section(
        "Who could learn what",
        guarantee_table(rows, caption="Guarantees by observer"),
        note(str(counted)) if (counted := (result.get("budget") or {}).get("in_words")) else "",
        lead="A line for each observer and the rows that it might learn about. The basis says on whose word.",
        anchor="guarantees",
    )


def _premises(result: Mapping[str, Any]) -> str:
    owners = list(result.get("owners") or ())
    columns = [TableColumn("owner"), TableColumn("rows that left, of those held")]
    columns += [TableColumn(title, numeric=True) for title in ("sent", "heard", "messages")]
    rows = []
    for owner in owners[:_MOST_OWNERS]:
        held, left = owner.get("rows") or 0, owner.get("disclosed") or 0
        shown = or_bound(owner.get("disclosed"), owner.get("disclosed_at_most"), number)
        cells = [
            html_text(owner.get("name", ""))
            + (f"<small>{_address(owner['table'])}</small>" if owner.get("table") else ""),
            bar(left / held if held else 0.0, colour="pool")
            + _on_one_line(f"{number(left)} of {number(held)}" if held else shown)
            + small(owner.get("problem")),
            html_text(bytes_in_words(owner.get("sent_bytes"))),
            html_text(bytes_in_words(owner.get("heard_bytes"))),
            html_text(number(owner.get("messages"))),
        ]
        rows.append(cells)
    return section(
        "What left each owner's premises",
        table(columns, rows, caption="What each owner sent and heard"),
        _owners_left_out(len(owners)),
        lead="Rows went to the curator only. "
        + (
            "No owner saw another owner's rows, counts or results in this run."
            if owners_learn_nothing(result)
            else "What owners heard says something about others' rows: how much stands above."
        ),
        anchor="premises",
    )


def _address(where: object) -> str:
    """Where rows lie, in short; the whole of it shows when somebody points at it."""
    return f'<span title="{html_text(where)}">{html_text(short_address(where))}</span>'


def _on_one_line(words: str) -> str:
    """Words on one line."""
    return f'<span class="cost">{html_text(words)}</span>'


def _owners_left_out(owners: int) -> str:
    more = owners - _MOST_OWNERS
    return note(f"{quantity(more, 'more owner')}: see result.json.") if more > 0 else ""


def _terms(result: Mapping[str, Any]) -> str:
    terms = result.get("terms") or {}
    facts = [(title_of(str(key)), html_text(setting(value))) for key, value in (terms.get("summary") or {}).items()]
    digest = terms.get("digest")
    closing = f'<p class="note">Digest of the terms: <code>{html_text(digest)}</code></p>' if digest else ""
    return section(
        "Terms",
        definitions(facts),
        closing,
        lead="What all parties agreed on before any row was read. Equal terms have an equal digest.",
        anchor="terms",
    )


def schema_table(result: Mapping[str, Any]) -> str:
    """The columns that were compared; what came from data is marked, for it may say something about them."""
    schema = result.get("schema") or {}
    columns = list(schema.get("columns") or ())
    digest = schema.get("digest") or result.get("schema_digest")
    marked = any(column.get("from_data") for column in columns)
    doubt = '<span class="badge claimed">from data: replace by public knowledge</span>'
    head = [TableColumn("column"), TableColumn("kind"), TableColumn("unit")] + (
        [TableColumn("bounds and values")] if marked else []
    )
    rows = []
    for column in columns[:_MOST_COLUMNS]:
        cells = [
            html_text(column.get("name", "")),
            html_text(column.get("kind", "")),
            html_text(column.get("unit") or DASH),
        ]
        rows.append([*cells, doubt if column.get("from_data") else "declared"] if marked else cells)
    more = len(columns) - _MOST_COLUMNS
    return section(
        "Columns",
        table(head, rows, caption="Columns of the schema"),
        note(f"{quantity(more, 'more column')}: see the schema.") if more > 0 else "",
        f'<p class="note">Digest of the schema: <code>{html_text(digest)}</code></p>' if digest else "",
        anchor="columns",
    )
