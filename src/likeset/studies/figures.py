"""Figures, as files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from likeset.arguments import Rows

__all__ = ["draw_images"]


def draw_images(path: Path, strips: Sequence[tuple[str, Rows]], *, title: str, note: str) -> None:
    """Strips of small square images, one strip of rows under the other, each with its caption on the left."""
    side = int(np.sqrt(strips[0][1].shape[1]))
    longest = max(len(rows) for _, rows in strips)
    figure = Figure(figsize=(2.0 + 0.42 * longest, 0.9 + 0.52 * len(strips)))
    figure.suptitle(title, x=0.02, ha="left", fontsize=12, fontweight="bold")
    grid = figure.add_gridspec(
        len(strips),
        longest,
        left=2.0 / figure.get_figwidth(),
        right=0.99,
        top=0.86,
        bottom=0.1,
        wspace=0.08,
        hspace=0.15,
    )
    for line, (caption, rows) in enumerate(strips):
        for place, row in enumerate(rows):
            axes = figure.add_subplot(grid[line, place])
            axes.imshow(row.reshape(side, side), cmap="gray_r", vmin=0.0, vmax=1.0)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color("#cccccc")
            if place == 0:
                axes.set_ylabel(caption, rotation=0, ha="right", va="center", fontsize=10, labelpad=8)
    figure.text(0.02, 0.02, note, fontsize=8, color="#666666")
    figure.savefig(path, dpi=150)
