"""Results as tables and as a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from benchmarks.models.results import COMPARED, Results
from benchmarks.models.rows import Row
from benchmarks.models.runs import (
    CACHED,
    COLD,
    JAX,
    PLAIN,
    SMALL_PLAIN,
    SMALL_RATE,
    SMALL_TENSORFLOW,
    SMALL_TIDEFLOW,
    TENSORFLOW,
    Run,
)
from benchmarks.report import markdown_table, show
from benchmarks.svg import Series, plot_panels

_MIB = 1 << 20
# Of losses, in units of the first one.
_TOLERANCE = 1e-4
_PANELS = 3
# How long a step may take where one of bare jax takes 1.
_MOST_OVER_JAX = 1.05


@dataclass(frozen=True)
class Section:
    """A table with its title."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def as_markdown(self) -> str:
        """Return title and table in Markdown."""
        return f"**{self.title}**\n\n{markdown_table(self.heads, self.rows)}"

    def as_table(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for index, head in enumerate(self.heads):
            table.add_column(head, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def _ratio(ours: float, base: float) -> str:
    return "-" if math.isnan(ours / base) else f"{ours / base:.2f}"


def _against(ours: float, base: float, target: float | None) -> list[str]:
    """Return ratio, target and whether it is met."""
    if math.isnan(ours / base):
        return ["-", "-" if target is None else f"{target:g}", "-"]
    if target is None:
        return [_ratio(ours, base), "-", "-"]
    # What is shown decides: 1.004 is 1.00.
    met = round(ours / base, 2) <= target
    return [_ratio(ours, base), f"{target:g}", "yes" if met else "no"]


def hot(results: Results, rows: Sequence[Row]) -> Section:
    """Tell what a hot step takes."""
    lines = []
    for row in rows:
        base, ours = (results.median(row, e, lambda run: run.hot_s) for e in (TENSORFLOW, COLD))
        lines.append([row.title, show(base), show(ours), *_against(ours, base, row.hot)])
    heads = ("", "TensorFlow", "tideflow", "ratio", "target", "met")
    return Section("A hot step", heads, lines)


def beside_jax(results: Results, rows: Sequence[Row]) -> Section:
    """Tell what a hot step takes beside one of bare jax, and whether both do the same work."""
    lines = []
    for row in (one for one in rows if one.has_bare):
        base, ours = (results.median(row, e, lambda run: run.hot_s) for e in (JAX, COLD))
        apart = f"{results.first_difference(row, COLD, JAX):.0e}"
        lines.append(
            [row.title, show(base), show(ours), *_against(ours, base, _MOST_OVER_JAX), apart]
        )
    heads = ("", "bare jax", "tideflow", "ratio", "target", "met", "first losses apart")
    return Section("A hot step beside bare jax", heads, lines)


def first(results: Results, rows: Sequence[Row], count: int) -> Section:
    """Tell what the first steps take."""

    def taken(run: Run) -> float:
        return run.first_s(count)

    lines = []
    for row in rows:
        base, cold, cached = (results.median(row, e, taken) for e in (TENSORFLOW, COLD, CACHED))
        lines.append(
            [
                row.title, show(base),
                show(cold), *_against(cold, base, row.cold),
                show(cached), *_against(cached, base, row.cached),
            ]
        )  # fmt: skip
    heads = (
        "", "TensorFlow", "tideflow, cold", "ratio", "target", "met",
        "from a cache", "ratio", "target", "met",
    )  # fmt: skip
    return Section(f"The first {count} steps", heads, lines)


def first_cpu(results: Results, rows: Sequence[Row], count: int) -> Section:
    """Tell what the first steps take of all processors."""

    def taken(run: Run) -> float:
        return run.first_cpu_s(count)

    title = f"The first {count} steps, processor time of client and servers"
    return _cold_and_cached(title, results, rows, taken)


def percentile(results: Results, rows: Sequence[Row], percent: int, count: int) -> Section:
    """Tell a percentile of the steps from the start."""
    title = f"Of the first {count} steps, the {percent}th percentile"
    return _cold_and_cached(title, results, rows, lambda run: run.percentile_s(percent))


def _cold_and_cached(
    title: str, results: Results, rows: Sequence[Row], taken: Callable[[Run], float]
) -> Section:
    lines = []
    for row in rows:
        base, cold, cached = (results.median(row, e, taken) for e in (TENSORFLOW, COLD, CACHED))
        ratios = [_ratio(cold, base), show(cached), _ratio(cached, base)]
        lines.append([row.title, show(base), show(cold), *ratios])
    heads = ("", "TensorFlow", "tideflow, cold", "ratio", "from a cache", "ratio")
    return Section(title, heads, lines)


def memory(results: Results, rows: Sequence[Row]) -> Section:
    """Tell how much memory was taken at most."""
    lines = []
    for row in rows:
        most = [results.median(row, e, lambda run: run.memory) for e in (TENSORFLOW, COLD)]
        more = [
            results.median(row, e, lambda run: run.memory - run.held) for e in (TENSORFLOW, COLD)
        ]
        lines.append(
            [
                row.title, *map(_in_mib, most), *_against(most[1], most[0], 1.0),
                *map(_in_mib, more), _ratio(more[1], more[0]),
            ]
        )  # fmt: skip
    heads = (
        "MiB", "TensorFlow", "tideflow", "ratio", "target", "met",
        "TensorFlow, beyond its import", "tideflow, beyond its import", "ratio",
    )  # fmt: skip
    return Section("The most memory", heads, lines)


def _in_mib(size: float) -> str:
    return "-" if math.isnan(size) else f"{size / _MIB:.0f}"


def losses(results: Results, rows: Sequence[Row], steps: int) -> Section:
    """Tell how far losses go apart, and how far TensorFlow's own do, at two learning rates."""
    lines = []
    for row in rows:
        found = [
            float(np.max([results.difference(row, one, TENSORFLOW) for one in (COLD, CACHED)])),
            results.difference(row, PLAIN, TENSORFLOW),
            results.difference(row, SMALL_TIDEFLOW, SMALL_TENSORFLOW),
            results.difference(row, SMALL_PLAIN, SMALL_TENSORFLOW),
        ]
        shown = ["-" if math.isnan(one) else f"{one:.0e}" for one in found]
        lines.append([row.title, *shown, _verdict(found[0], found[2])])
    small = f"{SMALL_RATE:g} of the rate"
    heads = (
        "", "tideflow and TensorFlow", "TensorFlow with and without oneDNN",
        f"tideflow and TensorFlow, {small}", f"TensorFlow with and without oneDNN, {small}",
        f"within {_TOLERANCE:.0e}",
    )  # fmt: skip
    title = f"Losses of {min(COMPARED, steps)} steps, the greatest difference"
    return Section(title, heads, lines)


def _verdict(own_rate: float, small_rate: float) -> str:
    """Return at which rates losses agree."""
    if math.isnan(own_rate) or math.isnan(small_rate):
        return "-"
    if small_rate > _TOLERANCE or math.isinf(own_rate):
        return "no"
    return "yes" if own_rate <= _TOLERANCE else f"at {SMALL_RATE:g} of the rate"


def sections(results: Results, rows: Sequence[Row], steps: int) -> list[Section]:
    """Return all tables but that of losses."""
    count = min(100, steps)
    return [
        hot(results, rows),
        first(results, rows, count),
        first_cpu(results, rows, count),
        percentile(results, rows, 50, steps),
        percentile(results, rows, 99, steps),
        memory(results, rows),
    ]


def plot_steps(results: Results, rows: Sequence[Row]) -> str:
    """Return a plot of each step of the first runs of three models, as SVG; "" without any.

    The models are the first three of the rows, each in its first shape that was measured.
    """
    models: dict[str, Row] = {}
    for row in rows:
        if results.is_measured(row):
            models.setdefault(row.model, row)
    panels = {
        row.title: [
            Series(engine.title, list(enumerate(results.runs(row, engine)[0].steps, 1)))
            for engine in (TENSORFLOW, COLD, CACHED)
        ]
        for row in list(models.values())[:_PANELS]
    }
    return plot_panels("number of the step", panels) if panels else ""
