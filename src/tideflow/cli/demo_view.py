"""What `tideflow demo` shows: a table that grows on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tideflow.cli.launcher import TaskId
from tideflow.platform import clock

_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 24
_LINE_EVERY_S = 1.0
_SVG_WIDTH = 88

# What a task is at that was killed, and one that waits for such a task.
KILLED, LOST = "killed", "session lost"
_STYLES = {
    "starting": "dim",
    "waiting": "yellow",
    "done": "green",
    KILLED: "bold red",
    LOST: "yellow",
}


@dataclass
class TaskRow:
    """What one task has told so far."""

    state: str = "starting"
    step: int | None = None
    loss: float | None = None
    rate: float | None = None
    losses: list[float] = field(default_factory=list)


class DemoView:
    """The state of a training run, and its pictures.

    Args:
      tasks: of the cluster.
      last_step: where the training ends.
    Attributes:
      accuracy: of the test, once it is known.
    """

    def __init__(self, tasks: list[TaskId], last_step: int) -> None:
        self._rows = {task: TaskRow() for task in tasks}
        self._last_step = last_step
        self._started_s = clock.monotonic_s()
        self._ended_s: float | None = None
        self._line_due_s = 0.0
        self.accuracy: float | None = None
        self._events: list[Text] = []
        self._step = 0

    def add_event(self, text: str, style: str = "") -> None:
        """Show a line below, with the time."""
        when = f" {self.elapsed_s:5.1f} s  step {self.step:>5,}  "
        self._events.append(Text.assemble((when, "dim"), (text, style)))

    def set_state(self, task: TaskId, state: str) -> None:
        """Show what a task is at."""
        self._rows[task].state = state

    def update(self, task: TaskId, facts: dict[str, Any]) -> None:
        """Take in what a task reports: ready; a session; step, loss and rate; or accuracy."""
        row = self._rows[task]
        if "ready" in facts:
            row.state = "serving variables" if task.job == "ps" else "waiting"
        if "session" in facts:
            row.state = "training"
        if "step" in facts:
            # The latest is the one that counts: a restored checkpoint takes steps back.
            self._step = row.step = facts["step"]
            row.loss, row.rate = facts["loss"], facts["rate"]
            row.losses.append(facts["loss"])
            row.state = "training" if facts["step"] < self._last_step else "done"
        if "accuracy" in facts:
            self.accuracy = facts["accuracy"]

    def end(self) -> None:
        """Stop the clock."""
        self._ended_s = clock.monotonic_s()

    @property
    def step(self) -> int:
        """The step that the workers have reached together."""
        return min(self._step, self._last_step)

    @property
    def elapsed_s(self) -> float:
        """How long the run has taken."""
        return (self._ended_s or clock.monotonic_s()) - self._started_s

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._table(), self._progress(), *self._events]
        if self.accuracy is not None:
            parts.append(Text.assemble(" test accuracy ", (f"{self.accuracy:.4f}", "bold green")))
        return Group(*parts)

    def _table(self) -> Table:
        table = Table(header_style="dim", box=box.SIMPLE_HEAD)
        table.add_column("task", style="bold")
        table.add_column("state", min_width=17)
        for name, width in (("step", 6), ("loss", 7), ("examples/s", 10)):
            table.add_column(name, justify="right", min_width=width)
        table.add_column("loss so far", min_width=_HISTORY)
        for task, row in self._rows.items():
            table.add_row(
                str(task),
                Text(row.state, _style(row.state)),
                "" if row.step is None else f"{row.step:,}",
                "" if row.loss is None else f"{row.loss:.4f}",
                "" if row.rate is None else f"{row.rate:,.0f}",
                Text(sparkline(row.losses), "cyan"),
            )
        return table

    def _progress(self) -> Table:
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self._last_step, completed=self.step, width=40)
        counted = f"{self.step:,} of {self._last_step:,} steps, {self.elapsed_s:.1f} s"
        line.add_row("", bar, counted)
        return line

    def line(self) -> str | None:
        """Return the state in one line, about once a second; None in between."""
        now_s = clock.monotonic_s()
        if now_s < self._line_due_s or not self.step:
            return None
        self._line_due_s = now_s + _LINE_EVERY_S
        parts = [f"step {self.step:>5}"]
        parts += [
            f"{task}: loss {row.loss:.4f}, {row.rate:,.0f} examples/s"
            for task, row in self._rows.items()
            if row.loss is not None and row.rate is not None
        ]
        return " | ".join(parts)

    def svg(self, title: str) -> str:
        """Return the picture of a terminal that shows the run."""
        console = Console(record=True, file=io.StringIO(), width=_SVG_WIDTH, highlight=False)
        console.print(self)
        # Without web fonts: opening a picture should not call the network.
        return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.DOTALL)


def _style(state: str) -> str:
    return _STYLES.get(state, "")


def sparkline(values: Sequence[float], width: int = _HISTORY) -> str:
    """Return positive values as a line of bars of at most `width`, by their logarithms.

    Neighbours share a bar where there are too many: it shows their mean.
    """
    count = min(len(values), width)
    edges = [i * len(values) // count for i in range(count + 1)] if count else []
    means = [math.log(max(fmean(values[a:b]), 1e-9)) for a, b in pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    scale = (len(_BARS) - 1) / ((high - low) or 1.0)
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
