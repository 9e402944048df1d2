"""The picture of the budget table: each measured value as a part of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw(parts: Sequence[tuple[str, float]], path: Path) -> bool:
    """Write the plot as SVG, the same bytes for the same figures; False when matplotlib is not installed."""
    try:
        # The extra `bench`: the table is of use without it, and its hundreds of modules would be in what is measured.
        import matplotlib  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        return False
    # Ids from a fixed salt, letters as text and no date: a diff shows what has changed, and nothing else.
    style: Any = {"svg.hashsalt": "zett", "svg.fonttype": "none", "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(8, 0.6 + 0.42 * len(parts)), layout="tight")
        _fill(figure.subplots(), parts)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return True


def _fill(axes: Any, parts: Sequence[tuple[str, float]]) -> None:  # an Axes of matplotlib
    names, values = [name for name, _ in parts], [value for _, value in parts]
    colors = ["#c0392b" if value > 1 else "#3b6ea5" for value in values]
    bars = axes.barh(names, values, color=colors, height=0.6)
    axes.bar_label(bars, [f"{value:.0%}" for value in values], padding=4)
    axes.axvline(1, color="#444444", linewidth=1.2, linestyle="--")
    axes.set_xlim(0, max(1.2, *(value * 1.15 for value in values)))
    axes.set_xlabel("measured, as a part of the budget (the dashed line)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
