"""Pages of what a node is: its rules, its data sets, the cards that it knows, and a look at everything."""

from typing import Any, cast, get_args

from starlette.responses import Response

from likeset.app.console import drawings
from likeset.app.console.rules_form import policy_from
from likeset.app.console.visits import Visit, download, see_other
from likeset.errors import BadDocument, InvalidArgument
from likeset.homes import owner_node, review
from likeset.homes.mail import Invitation
from likeset.homes.owner_node import OwnerNode, accounts_for
from likeset.homes.pinning import check_not_own, pins_to_change
from likeset.homes.policy import policy_text
from likeset.homes.review import DataLook, budget_lines, checkup, look_at_data
from likeset.trust.cards import Card, Role, card_in

__all__ = ["add_data", "cards", "check", "compare_card", "data", "look", "look_at_rows", "own_card", "pin_card"]
__all__ += ["put_rules", "remove_data", "revoke_card", "rules", "try_rules"]

_MOST_TEXT = 200_000


def rules(visit: Visit) -> Response:
    """The policy as a form, with its YAML beside it."""
    written = owner_node.written_policy(visit.desk.node)
    return _rules_page(visit, policy=written.policy, text=written.text, mark=written.mark)


def put_rules(visit: Visit) -> Response:
    """Check what was filled in, show what would change, and put it in force when somebody is sure."""
    node: OwnerNode = visit.desk.node
    written, by = owner_node.written_policy(node), visit.by
    seen = visit.form.text("seen")
    as_form = visit.form.text("how") == "form"
    text = "" if as_form else visit.form.text("text", most=_MOST_TEXT) + "\n"
    try:
        if as_form:
            text = policy_text(policy_from(visit.form, written.policy))
        draft = owner_node.draft_of(node, text)
    except BadDocument as error:
        shown = text or written.text
        filled = visit.form.fields if as_form else {}
        words: dict[str, Any] = {"policy": written.policy, "text": shown, "mark": seen, "filled": filled}
        return _rules_page(visit, wrong=str(error), status=400, **words)
    if visit.form.text("sure") != "yes":
        return _rendered(visit, "rules_look.html", draft=draft, seen=seen, by=by)
    owner_node.put(node, text, by=by, seen=seen)
    return see_other(visit, "/rules", f"The rules are in force, as {by} wrote them.")


def try_rules(visit: Visit) -> Response:
    """Whether the rules would allow what an invitation asks for, and what it would cost; nothing is written."""
    node: OwnerNode = visit.desk.node
    content = visit.form.files.get("invitation")
    if content is None:
        raise InvalidArgument("invitation", "nothing", "no file was chosen")
    terms = Invitation.read(content).terms
    verdict = node.judge(terms)
    accounts = accounts_for(node.ledger, terms, node.policy) if node.name in terms.owners else None
    words: dict[str, Any] = {
        "terms": terms,
        "verdict": verdict,
        "bars": [] if accounts is None else drawings.budget_bars(accounts, node.policy.total),
        "lines": [] if accounts is None else budget_lines(node.policy, accounts),
    }
    return _rendered(visit, "rules_try.html", **words)


def data(visit: Visit) -> Response:
    """All data sets."""
    return _data_page(visit)


def add_data(visit: Visit) -> Response:
    """Register a data set; schema and mapping are uploaded, rows stay where they are."""
    node: OwnerNode = visit.desk.node
    files, by = visit.form.files, visit.by
    name, source = visit.form.text("name", most=128), visit.form.text("source", most=4000)
    if "schema" not in files or not name or not source:
        raise InvalidArgument("data set", name or "without a name", "needs a name, a source and the file of a schema")
    with visit.desk.kept_files(schema=files["schema"], mapping=files.get("mapping")) as paths:
        review.register(node, name, source, schema=paths["schema"], mapping=paths.get("mapping"), by=by)
    return see_other(visit, "/data", f"Data set {name} was added, by {by}.")


def look_at_rows(visit: Visit) -> Response:
    """Read every row of a data set: what is not as declared, and its small groups."""
    return _data_page(visit, looked=look_at_data(visit.desk.node, visit.form.text("name", most=128)))


def remove_data(visit: Visit) -> Response:
    """Forget a data set, after a second look."""
    node: OwnerNode = visit.desk.node
    name, by = visit.form.text("name", most=128), visit.by
    node.registry.get(name)
    if visit.form.text("sure") != "yes":
        return _rendered(visit, "data_look.html", name=name, by=by)
    review.remove(node, name, by=by)
    return see_other(visit, "/data", f"Data set {name} was removed, by {by}; its rows stay where they are.")


def check(visit: Visit) -> Response:
    """What can be looked at before the first run."""
    return _rendered(visit, "check.html", findings=None)


def look(visit: Visit) -> Response:
    """Look at everything: rules, files, cards, every row of every data set, disk and clock."""
    return _rendered(visit, "check.html", findings=checkup(visit.desk.node))


def cards(visit: Visit) -> Response:
    """The cards that were ever pinned here, and the node's own."""
    home = visit.desk.node.home
    return _rendered(visit, "cards.html", own=home.card(), pins=home.pins().all(), roles=get_args(Role))


def own_card(visit: Visit) -> Response:
    """This node's card, to give to others; there is no secret in it."""
    card = visit.desk.node.home.card()
    return download(card.to_text().encode(), f"{card.name}.card", kind="text/plain; charset=utf-8")


def compare_card(visit: Visit) -> Response:
    """Show an uploaded card, so that a person compares its fingerprint by telephone before it is pinned."""
    node: OwnerNode = visit.desk.node
    content = visit.form.files.get("card")
    if content is None:
        raise InvalidArgument("card", "nothing", "no file was chosen")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument("card", "the file", "is no card") from error
    card, role = card_in("the file that you chose", text), _role(visit)
    check_not_own(node.home, card)
    pinned = node.home.pins().get(card.name)
    follows = pinned if pinned is not None and pinned.card != card else None
    if follows is None:
        node.home.pins().check_pin(card, role)
    words = {"card": card, "role": role if follows is None else follows.role, "follows": follows, "by": visit.by}
    return _rendered(visit, "card_look.html", **words)


def pin_card(visit: Visit) -> Response:
    """Pin a card whose fingerprint was read out; where one of its name is pinned, in its place."""
    node: OwnerNode = visit.desk.node
    card: Card = card_in("the card", visit.form.text("card", most=_MOST_TEXT))
    role, by, heard = _role(visit), visit.by, visit.form.text("fingerprint", most=100)
    check_not_own(node.home, card)
    if not heard:
        raise InvalidArgument("fingerprint", "nothing", "type what the party read out by telephone")
    with pins_to_change(node.home, by=by, node=node) as pins:
        if visit.form.text("follows") == "yes":
            pins.replace(card, fingerprint=heard)
        else:
            pins.pin(card, role, fingerprint=heard)
    return see_other(visit, "/cards", f"The card of {card.name} is pinned, by {by}.")


def revoke_card(visit: Visit) -> Response:
    """Mark a card as one that never counts again, after a second look."""
    node: OwnerNode = visit.desk.node
    fingerprint, by = visit.form.text("fingerprint", most=100), visit.by
    reason = visit.form.text("reason", most=500)
    pin = node.home.pins().by_fingerprint(fingerprint)
    if pin is None:
        raise InvalidArgument("card", fingerprint, "was never pinned here")
    if not reason:
        raise InvalidArgument("reason", "nothing", "say why, for those who look later")
    if visit.form.text("sure") != "yes":
        return _rendered(visit, "revoke_look.html", pin=pin, reason=reason, by=by)
    with pins_to_change(node.home, by=by, node=node) as pins:
        pins.revoke(fingerprint, reason)
    return see_other(visit, "/cards", f"The card of {pin.card.name} never counts again, by {by}.")


def _role(visit: Visit) -> Role:
    role = visit.form.text("role")
    if role not in get_args(Role):
        raise InvalidArgument("role", "another one", f"must be one of {', '.join(get_args(Role))}")
    return cast("Role", role)


def _rules_page(visit: Visit, *, wrong: str = "", status: int = 200, **words: Any) -> Response:
    return _rendered(visit, "rules.html", wrong=wrong, status=status, **{"filled": {}, **words})


def _data_page(visit: Visit, *, looked: DataLook | None = None) -> Response:
    node: OwnerNode = visit.desk.node
    listed, policy = review.listed_data(node), node.policy
    words: dict[str, Any] = {"allowed": policy.columns, "smallest": policy.smallest_group, "looked": looked}
    return _rendered(visit, "data.html", listed=listed, **words)


def _rendered(visit: Visit, template: str, **words: Any) -> Response:
    answer: Response = visit.desk.render(visit, template, **words)
    return answer
