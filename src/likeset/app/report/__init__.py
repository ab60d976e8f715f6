"""The report of a run: one HTML file that needs no network and no scripts, and prints well."""

from likeset.app.report.render import draft_page, render, render_for_owner

__all__ = ["draft_page", "render", "render_for_owner"]
