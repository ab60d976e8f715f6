"""The picture of a comparison: MMD² against CPU seconds."""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt

from peers.jobs import ToolResult

_COLOURS = {
    "likeset block": "#0b6e4f",
    "likeset exact": "#08415c",
    "likeset stochastic": "#6bbf59",
    "likeset weighted": "#d1495b",
    "likeset block+weights": "#f4a259",
    "one_pass pool x target": "#cccccc",
    "coreax herding": "#111111",
    "protodash picks+weights": "#8e44ad",
    "goodpoints refine": "#7f7f7f",
    "apricot graph cut": "#b07d62",
    "submodlib graph cut": "#e377c2",
}
_MARKERS = "osD^vP"


def draw_plot(results: list[ToolResult], file: Path) -> None:
    """One panel per pool, one colour per method, one marker per summary size."""
    points = [r for r in results if r.status == "ok" and r.cpu is not None and r.label in _COLOURS]
    panels = sorted({(r.data, r.rows) for r in points if r.rows >= 20_000})
    if not panels:
        return
    sizes = sorted({r.size for r in points})
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(3.6 * len(panels) + 2.4, 4.2),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for axis, (name, rows) in zip(axes[0], panels, strict=True):
        for label, colour in _COLOURS.items():
            mine = sorted((r for r in points if (r.data, r.rows, r.label) == (name, rows, label)), key=lambda r: r.size)
            if mine:
                axis.plot([r.cpu for r in mine], [_height(r) for r in mine], color=colour, linewidth=0.8, alpha=0.5)
            for result in mine:
                marker = _MARKERS[sizes.index(result.size) % len(_MARKERS)]
                axis.scatter(result.cpu, _height(result), color=colour, marker=marker, s=36, zorder=3)
        axis.set(xscale="log", yscale="log", title=f"{name}, N = {rows:,}", xlabel="CPU seconds")
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0][0].set_ylabel("squared MMD to the target\n(weighted, if the method gives weights)")
    present = {r.label for r in points}
    handles = [
        plt.Line2D([], [], color=colour, marker="o", linestyle="", label=label)
        for label, colour in _COLOURS.items()
        if label in present
    ]
    handles += [
        plt.Line2D([], [], color="black", marker=_MARKERS[index % len(_MARKERS)], linestyle="", label=f"p = {size:,}")
        for index, size in enumerate(sizes)
    ]
    figure.legend(handles=handles, loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def _height(result: ToolResult) -> float:
    height = result.mmd2 if result.weighted_mmd2 is None else result.weighted_mmd2
    return max(height, 1e-12)
