"""Results as a table for a terminal, as JSON, and as a part of a page of the documentation."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.figures import Figure
from benchmarks.processes import ROOT
from benchmarks.rounds import Measured, Pair

PAGE = ROOT / "docs" / "performance.md"
# Of an error, in characters.
_MOST_SHOWN = 160


@dataclass(frozen=True)
class Result:
    """One figure, measured on two pairs."""

    figure: Figure
    base: Measured
    ours: Measured

    @property
    def ratio(self) -> float:
        """The time on our pair, where that on the base pair is 1; nan where one is missing."""
        part = self.figure.part
        return self.ours.median(part) / self.base.median(part)

    @property
    def error(self) -> str:
        """Why it has no ratio."""
        return self.ours.error or self.base.error

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if math.isnan(self.ratio):
            return "failed"
        return "yes" if self.ratio <= self.figure.target else "no"

    def cells(self) -> list[str]:
        """Return the line of the table."""
        part = self.figure.part
        return [
            self.figure.title,
            show(self.base.median(part)),
            show(self.ours.median(part)),
            "-" if math.isnan(self.ratio) else f"{self.ratio:.2f}",
            f"{self.figure.target:g}",
            self.verdict,
        ]

    def as_json(self) -> dict[str, Any]:
        """Return medians and 99th percentiles in seconds, and each round's median."""
        return {
            "title": self.figure.title,
            "part": self.figure.part,
            "base": _as_json(self.base, self.figure.part),
            "ours": _as_json(self.ours, self.figure.part),
            "ratio": _number(self.ratio),
            "target": self.figure.target,
            "met": self.verdict,
            "error": self.error,
        }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _as_json(measured: Measured, part: str) -> dict[str, Any]:
    alone = [Measured([one]).median(part) for one in measured.rounds]
    return {
        "median_s": _number(measured.median(part)),
        "p99_s": _number(measured.percentile(part, 99)),
        "samples": sum(len(one.get(part, ())) for one in measured.rounds),
        "round_medians_s": [_number(seconds) for seconds in alone],
    }


def show(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if math.isnan(seconds):
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def columns(base: Pair, ours: Pair) -> list[str]:
    """Return the heads of the table."""

    def name(pair: Pair) -> str:
        names = {"tensorflow": "TensorFlow", "tideflow": "tideflow", "before": "tideflow before"}
        if pair.client == pair.servers:
            return names[pair.client]
        return f"{names[pair.client]} client, {names[pair.servers]} servers"

    heads = ["figure", name(base), name(ours), "ratio"]
    # Targets are ratios to TensorFlow.
    return heads if base.servers == "before" else [*heads, "target", "met"]


def as_table(results: Sequence[Result], base: Pair, ours: Pair) -> Table:
    """Return the table for a terminal."""
    table = Table(title=f"medians; ratio = tideflow / {columns(base, ours)[1]}")
    heads = columns(base, ours)
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index else "left")
    for one in results:
        table.add_row(*one.cells()[: len(heads)])
    return table


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are numbers."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def machine() -> str:
    """Return what the numbers depend on: processor, memory, system, versions."""
    processor = platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = "".join(line for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    kib = int(memory.split()[1]) if memory else 0
    settings = [f"{name}={value}" for name, value in os.environ.items() if "TIDEFLOW_" in name]
    names = ("tideflow", "tensorflow-cpu", "jax", "numpy", "protobuf", "uvloop")
    return "\n".join(
        [
            f"- machine: {processor}, {os.cpu_count()} cores, {kib / (1 << 20):.0f} GiB",
            f"- system: {platform.system()} {platform.release()},"
            f" Python {platform.python_version()}",
            f"- packages: {', '.join(f'{name} {_version(name)}' for name in names)}",
            f"- settings: {', '.join(sorted(settings)) or 'none'}",
            f"- load average when done: {os.getloadavg()[0]:.1f}",
            f"- date: {time.strftime('%Y-%m-%d')}",
        ]
    )


def _lines(path: str) -> list[str]:
    found = Path(path)
    return found.read_text().splitlines() if found.exists() else []


def _version(name: str) -> str:
    for candidate in (name, name.removesuffix("-cpu")):
        try:
            return importlib.metadata.version(candidate)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "from its sources"


def as_markdown(results: Sequence[Result], base: Pair, ours: Pair, command: str) -> str:
    """Return machine, command and table."""
    heads = columns(base, ours)
    table = markdown_table(heads, [one.cells()[: len(heads)] for one in results])
    failed = [_reason(one, one.error) for one in results if one.error]
    repeated = [
        _reason(one, reason)
        for one in results
        for reason in (*one.base.repeated, *one.ours.repeated)
    ]
    parts = [machine() + f"\n- command: `{command}`", table]
    if failed:
        parts.append("Figures that failed:\n\n" + "\n".join(failed))
    if repeated:
        parts.append("Rounds that failed and were run once more:\n\n" + "\n".join(repeated))
    return "\n\n".join(parts)


def _reason(result: Result, error: str) -> str:
    who, _, what = error.partition(": ")
    last = what.splitlines()[-1]
    shown = last if len(last) <= _MOST_SHOWN else last[:_MOST_SHOWN] + "..."
    return f"- {result.figure.title}, {who}: `{shown}`"


def write_part(page: Path, name: str, text: str) -> None:
    """Replace what is between the page's markers of that name; all else is written by hand.

    Raises:
      ValueError: the page has no such markers.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    old = page.read_text()
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(old):
        raise ValueError(f"{page} has no part between {begin} and {end}: add the two markers")
    page.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", old))
