"""The report of a run: one HTML file that needs no network and no scripts, and prints well."""

from likeset.app.report.owner_page import render_for_owner
from likeset.app.report.page import render

__all__ = ["render", "render_for_owner"]
