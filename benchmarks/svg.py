"""Plots of times on logarithmic axes, as SVG that is read on a light page and on a dark one."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure

# Two colours, then the same ones for dashed lines.
_COLOURS = ("#ea580c", "#0284c7")
_DASHES = ("-", "--")
_PANEL_COLOURS = ("#ea580c", "#0284c7", "#16a34a")
_TEXT, _GRID = "#7c8798", "#94a3b855"
_STYLE: dict[str, Any] = {
    # Text stays text, in the reader's font; the same numbers give the same file.
    "svg.fonttype": "none",
    "svg.hashsalt": "tideflow",
    "font.family": "sans-serif",
    "text.color": _TEXT,
    "axes.facecolor": "none",
    "axes.labelcolor": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "xtick.minor.bottom": False,
    "ytick.minor.left": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.grid": True,
    "grid.color": _GRID,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.spines.bottom": False,
}
# How many sizes have room for their text.
_MOST_TICKS = 7


@dataclass(frozen=True)
class Series:
    """A line: its name and its points, (size, seconds), sizes and seconds above 0."""

    name: str
    points: Sequence[tuple[float, float]]


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size * 0.999:
            return f"{value / size:g} {unit}"
    return f"{value / 1e-6:g} us"


def plain(value: float) -> str:
    """Return a count as it is written on an axis."""
    for suffix, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def in_bytes(value: float) -> str:
    """Return a number of bytes as it is written on an axis."""
    for suffix, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:g} {suffix}"
    return f"{value:g} B"


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [float(f"1e{power}") for power in range(first, max(last, first + 1) + 1)]


def draw(
    title: str, label: str, series: Sequence[Series], ticks: Callable[[float], str] = plain
) -> Figure:
    """Return a figure of seconds over sizes, a line for each series.

    Args:
      label: what the sizes are.
      ticks: how a size is written.
    """
    sizes = sorted({size for one in series for size, _ in one.points})
    times = [seconds for one in series for _, seconds in one.points]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, fontweight="bold")
        axes.set_xlabel(label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for row, one in enumerate(series):
            colour = _COLOURS[row % len(_COLOURS)]
            dash = _DASHES[row // len(_COLOURS) % len(_DASHES)]
            axes.plot(*zip(*one.points), dash, color=colour, marker="o", ms=4, label=one.name)
        shown = sizes[:: math.ceil(len(sizes) / _MOST_TICKS)]
        axes.set_xticks(shown, [ticks(size) for size in shown], minor=False)
        axes.set_xticks([], minor=True)
        decades = _decades(min(times), max(times))
        axes.set_ylim(decades[0], decades[-1])
        axes.set_yticks(decades, [_seconds(value) for value in decades])
        axes.set_yticks([], minor=True)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def draw_panels(label: str, panels: Mapping[str, Sequence[Series]]) -> Figure:
    """Return a figure of seconds over numbers, a panel for each title, one below the other.

    Args:
      label: what the numbers are.
      panels: series of the same names in each.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 2.6 * len(panels) + 0.6), layout="constrained")
        every = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, (title, series) in zip(every, panels.items(), strict=True):
            axes.set_title(title, fontweight="bold", loc="left")
            axes.set_yscale("log")
            for one, colour in zip(series, _PANEL_COLOURS):
                axes.plot(*zip(*one.points), "-", color=colour, lw=1.1, label=one.name)
            times = [seconds for one in series for _, seconds in one.points]
            low, high = min(times) / 1.25, max(times) * 1.25
            decades = _decades(low, high)
            marks = [n * decade for decade in decades for n in (1, 3) if low <= n * decade <= high]
            axes.set_ylim(low, high)
            axes.set_yticks(marks, [_seconds(value) for value in marks])
            axes.set_yticks([], minor=True)
        every[-1].set_xlabel(label)
        lines = every[0].get_legend_handles_labels()
        figure.legend(*lines, loc="outside upper center", ncols=len(lines[0]), frameon=False)
    return figure


def plot(
    title: str, label: str, series: Sequence[Series], ticks: Callable[[float], str] = plain
) -> str:
    """Return the figure of `draw` as SVG, with nothing behind it."""
    return _as_svg(draw(title, label, series, ticks))


def plot_panels(label: str, panels: Mapping[str, Sequence[Series]]) -> str:
    """Return the figure of `draw_panels` as SVG, with nothing behind it."""
    return _as_svg(draw_panels(label, panels))


def _as_svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()
