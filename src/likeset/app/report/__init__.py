"""The report of a run: one HTML file that needs no network and no scripts, and prints well."""

from likeset.app.report.view import Cell, Table, comparison_table, contributions, models_view, render, render_for_owner

__all__ = ["Cell", "Table", "comparison_table", "contributions", "models_view", "render", "render_for_owner"]
