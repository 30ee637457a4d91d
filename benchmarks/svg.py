"""Plots of times on logarithmic axes, as SVG that follows the reader's light or dark theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 170, 40, 60
# Two colours, then the same ones for dashed lines; in a light theme and in a dark one.
_COLOURS = ("#c2410c", "#0369a1")
_DARK_COLOURS = ("#fb923c", "#38bdf8")
_DASHES = ("", ' stroke-dasharray="6 4"')
_DARK = "".join(
    [
        "@media (prefers-color-scheme: dark) {",
        " .back { fill: #0d1117 } .text { fill: #cbd5e1 } .grid { stroke: #334155 }",
        *(
            f" .line{i} {{ stroke: {colour} }} .dot{i} {{ fill: {colour} }}"
            for i, colour in enumerate(_DARK_COLOURS)
        ),
        " }",
    ]
)


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


class _Scale:
    """From a value to a place on an axis, by the value's logarithm."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = math.log(low)
        self._factor = (end - start) / (math.log(high) - self._low if high > low else 1.0)
        self._start = start

    def __call__(self, value: float) -> float:
        return self._start + (math.log(value) - self._low) * self._factor


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="text" {place} {extra}>{escape(text)}</text>'


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [float(f"1e{power}") for power in range(first, max(last, first + 1) + 1)]


def plot(
    title: str, label: str, series: Sequence[Series], ticks: Callable[[float], str] = plain
) -> str:
    """Return an SVG of seconds over sizes, a line for each series.

    Args:
      label: what the sizes are.
      ticks: how a size is written.
    """
    sizes = sorted({size for one in series for size, _ in one.points})
    times = [seconds for one in series for _, seconds in one.points]
    decades = _decades(min(times), max(times))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    to_x = _Scale(sizes[0], sizes[-1], _LEFT, right)
    to_y = _Scale(decades[0], decades[-1], bottom, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#334155">',
        f"<style>{_DARK}</style>",
        f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text((_LEFT + right) / 2, 24, title, extra='font-size="15" font-weight="bold"'),
        _text((_LEFT + right) / 2, _HEIGHT - 14, label),
    ]
    for value in decades:
        y = to_y(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}" stroke="#e2e8f0"/>')
        parts.append(_text(_LEFT - 8, y + 4, _seconds(value), "end"))
    # Where sizes are many, only some have room for their text.
    for size in sizes[:: math.ceil(len(sizes) / 7)]:
        x = to_x(size)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}" stroke="#e2e8f0"/>')
        parts.append(_text(x, bottom + 18, ticks(size)))
    for row, one in enumerate(series):
        places = [(to_x(size), to_y(seconds)) for size, seconds in one.points]
        parts += _line(row, places)
        y = _TOP + 14 + 22 * row
        parts.append(_sample(row, right + 12, y - 4))
        parts.append(_text(right + 42, y, one.name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def _style(row: int) -> tuple[int, str, str]:
    """Return colour number, colour and dash: two lines are drawn through, the next two dashed."""
    which = row % len(_COLOURS)
    return which, _COLOURS[which], _DASHES[row // len(_COLOURS) % len(_DASHES)]


def _line(row: int, places: Sequence[tuple[float, float]]) -> list[str]:
    which, colour, dash = _style(row)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = f'<polyline class="line{which}" points="{points}" fill="none" stroke="{colour}"'
    dot = f'<circle class="dot{which}" r="3" fill="{colour}"'
    return [
        f'{line} stroke-width="2"{dash}/>',
        *(f'{dot} cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in places),
    ]


def _sample(row: int, x: float, y: float) -> str:
    which, colour, dash = _style(row)
    return f'<path class="line{which}" d="M{x} {y}h24" stroke="{colour}" stroke-width="2"{dash}/>'
