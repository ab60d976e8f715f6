"""Which page of the steward's console is where."""

from pathlib import Path

from starlette.types import ASGIApp

from likeset.app.console import owner_records, owner_runs, owner_settings
from likeset.app.console.desk import guarded_app
from likeset.app.console.guard import Doors
from likeset.app.console.links import Links
from likeset.app.console.owner_desk import OwnerDesk
from likeset.app.console.visits import doing, looking

__all__ = ["owner_app"]

_LOOKING = {
    "/": owner_runs.inbox,
    "/run": owner_runs.run,
    "/budgets": owner_records.budgets,
    "/left": owner_records.left,
    "/left/bytes": owner_records.literal_bytes,
    "/log": owner_records.log,
    "/data": owner_settings.data,
    "/rules": owner_settings.rules,
    "/cards": owner_settings.cards,
    "/cards/own": owner_settings.own_card,
    "/check": owner_settings.check,
}
_DOING = {
    "/add": owner_runs.add,
    "/mail": owner_runs.mail,
    "/trial": owner_runs.trial,
    "/decide": owner_runs.decide,
    "/left/row": owner_records.found_row,
    "/log": owner_records.verify,
    "/data/add": owner_settings.add_data,
    "/data/look": owner_settings.look_at_rows,
    "/data/remove": owner_settings.remove_data,
    "/rules": owner_settings.put_rules,
    "/rules/try": owner_settings.try_rules,
    "/cards/compare": owner_settings.compare_card,
    "/cards/pin": owner_settings.pin_card,
    "/cards/revoke": owner_settings.revoke_card,
    "/check": owner_settings.look,
}


def owner_app(desk: OwnerDesk, *, doors: Doors, person: str) -> ASGIApp:
    """All pages of a steward's console.

    Args:
        desk: the node.
        doors: from where the console is reached.
        person: who has the link, unless they say otherwise in a form.
    """
    routes = [
        *(looking(path, page, desk) for path, page in _LOOKING.items()),
        *(doing(path, page, desk) for path, page in _DOING.items()),
    ]
    links = Links(Path(desk.node.home.folder))
    return guarded_app(desk, routes, doors=doors, links=links, person=person)
