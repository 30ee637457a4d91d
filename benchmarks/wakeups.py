"""How often the threads of processes wait, and so have to be woken, while steps go on.

Linux counts for each thread how often it gave its processor up by itself, since it waited, and how
often it was taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import markdown_table

# A thread that waits in fewer steps has other work.
_FEWEST = 0.1


class Switches(NamedTuple):
    """What a thread did so far: how often it waited, and was taken from its processor."""

    waited: int
    displaced: int


def switches_of(pid: int) -> dict[int, Switches]:
    """Return what each thread of a process did so far, by its id."""
    found = {}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it has ended
            continue
        counts = (lines["voluntary_ctxt_switches"], lines["nonvoluntary_ctxt_switches"])
        found[int(status.parent.name)] = Switches(*map(int, counts))
    return found


Counted = Mapping[int, Switches]


def between(before: Counted, after: Counted) -> list[Switches]:
    """Return what each thread did between two looks."""
    none = Switches(0, 0)
    return [
        Switches(*(late - early for late, early in zip(now, before.get(thread, none))))
        for thread, now in after.items()
    ]


def as_markdown(found: Mapping[str, list[Switches]], steps: int) -> str:
    """Return a table of processes: their threads, those that wait in steps, and how often."""
    rows = []
    for process, threads in found.items():
        busy = sum(one.waited >= _FEWEST * steps for one in threads)
        waited, displaced = (sum(of) / steps for of in zip(*threads))
        counts = (str(len(threads)), str(busy), f"{waited:.1f}", f"{displaced:.2f}")
        rows.append([process, *counts])
    heads = ["process", "threads", "that wait in steps", "waits a step", "displaced a step"]
    return markdown_table(heads, rows)
