"""The pages as HTML: one file each, without scripts, that loads nothing."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from likeset.app.lazy import lazy_imports
from likeset.app.report.view import owner_view, report_view

with lazy_imports():
    from likeset.run import shown

if TYPE_CHECKING:
    from likeset.tables.profile import SchemaDraft


def render(result: Mapping[str, Any], pictures: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> str:
    """The consumer's report, from ``result.json``, ``pictures.json`` and, if there is one, ``evaluation.json``."""
    return _page("report.html", report_view(result, pictures, evaluation))


def render_for_owner(result: Mapping[str, Any], owner: str) -> str:
    return _page("owner.html", owner_view(result, owner))


def draft_page(draft: "SchemaDraft", files: Sequence[str]) -> str:
    """The profile of a table's columns, for the holder of the rows only."""
    rows = max((column.rows for column in draft.profile), default=0)
    return _page("draft.html", {"draft": draft, "files": ", ".join(files), "rows": rows})


def _page(template: str, view: Mapping[str, Any]) -> str:
    return shown.environment("likeset.app.report").get_template(template).render(view)
