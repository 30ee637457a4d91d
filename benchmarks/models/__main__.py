"""Train models that people train on tideflow and on TensorFlow, in turns, and print what it took.

For each model and shape of program: a hot step, the first 100 steps (their time and the processors'
time, from a cold start and with what was compiled before in a cache on disk), the 99th percentile
of the first steps, the most memory beyond what the imported package needs, and how far the losses
differ.  A ratio is tideflow's where TensorFlow's is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.processes import BenchmarkError, Cluster, Process
from benchmarks.report import PAGE, machine, markdown_table, show, write_part

_MODULE = "benchmarks.models.client"
_JOBS = (("ps", 1), ("worker", 1))
_MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """One line: a model in a shape of program, and the ratios that are aimed at."""

    model: str
    shape: str
    hot: float
    cold: float = 1.2
    cached: float = 0.8

    @property
    def title(self) -> str:
        """Its name on the command line and in the table."""
        return f"{self.model} {self.shape}"


ROWS = (
    Row("cnn", "session", 1.0), Row("cnn", "function", 1.0), Row("cnn", "ps", 0.7),
    Row("transformer", "session", 0.95), Row("transformer", "function", 0.95),
    Row("lstm", "session", 0.4, 1.2, 0.5), Row("lstm", "function", 0.4, 1.2, 0.5),
    Row("recommender", "session", 0.8, 1.2, 0.7), Row("recommender", "function", 0.5, 1.2, 0.7),
    Row("recommender", "ps", 0.6, 1.2, 0.7),
    Row("lenet", "session", 1.0), Row("lenet", "function", 1.0),
    Row("resnet20", "session", 1.0), Row("resnet20", "function", 1.0),
    Row("small-mlp", "ps", 0.4, 0.8), Row("big-mlp", "ps", 0.5, 0.8),
    Row("small-mlp", "eager", 0.3, 0.3, 0.3),
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one process told."""

    steps: list[float]
    losses: list[float]
    hot: list[float]
    cpu_100: float
    memory: int

    @property
    def first_100_s(self) -> float:
        """The time of the first 100 steps."""
        return sum(self.steps[:100])

    @property
    def hot_s(self) -> float:
        """The median of a hot step."""
        return statistics.median(self.hot)

    @property
    def p99_s(self) -> float:
        """The 99th percentile of the first steps, but for the very first."""
        found = sorted(self.steps[1:])
        return found[min(len(found) - 1, int(len(found) * 0.99))]


def train(runtime: str, row: Row, steps: int, cache: str | None) -> Run:
    """Train in processes of their own; cache is the folder for compiled code, None for none.

    Raises: BenchmarkError where a process ends before its answer.
    """
    told = json.dumps({"shape": row.shape, "model": row.model, "steps": steps})
    more = {"TIDEFLOW_JIT_CACHE": cache} if cache else {}
    with contextlib.ExitStack() as stack:
        target, pids = "", []
        if row.shape == "ps":
            cluster = stack.enter_context(contextlib.closing(Cluster(runtime, _JOBS, more=more)))
            target = cluster.target(0)
            pids = [server.pid for server in cluster.servers.values()]
        client = Process("train", runtime, told, module=_MODULE, more=more)
        stack.enter_context(contextlib.closing(client))
        client.answer("loaded")
        client.tell(" ".join([target, *map(str, pids)]))
        return Run(**json.loads(client.answer("{")))


@dataclass
class Result:
    """The runs of a row: TensorFlow's, ours from a cold start, ours from a cache."""

    row: Row
    base: list[Run]
    cold: list[Run]
    cached: list[Run]
    error: str = ""

    def cells(self) -> list[str]:
        """Return the line of the table."""
        if self.error:
            return [self.row.title, "failed", *["-"] * (len(HEADS) - 2)]
        base_hot, our_hot = (_median(runs, "hot_s") for runs in (self.base, self.cold))
        base_100 = _median(self.base, "first_100_s")
        cold, cached = (
            _median(runs, "first_100_s") / base_100 for runs in (self.cold, self.cached)
        )
        cpu = _median(self.cold, "cpu_100") / _median(self.base, "cpu_100")
        return [
            self.row.title,
            show(base_hot),
            f"{our_hot / base_hot:.2f} ({self.row.hot:g})",
            show(base_100),
            f"{cold:.2f} ({self.row.cold:g})",
            f"{cached:.2f} ({self.row.cached:g})",
            f"{cpu:.2f}",
            f"{show(_median(self.base, 'p99_s'))}, {show(_median(self.cold, 'p99_s'))}",
            f"{_median(self.base, 'memory') / _MIB:.0f}, {_median(self.cold, 'memory') / _MIB:.0f}",
            f"{self.difference():.0e}",
        ]

    def difference(self) -> float:
        """Return the most that losses differ by, relative to TensorFlow's."""
        pairs = zip(self.base[0].losses, self.cold[0].losses)
        return max((abs(a - b) / max(abs(a), 1e-9) for a, b in pairs), default=math.nan)


HEADS = (
    "model", "hot, TensorFlow", "ratio (target)", "first 100, TensorFlow", "cold (target)",
    "from a cache (target)", "CPU, cold", "p99: TensorFlow, tideflow", "memory, MiB: both",
    "losses differ by",
)  # fmt: skip


def _median(runs: Sequence[Run], name: str) -> float:
    return statistics.median(getattr(run, name) for run in runs)


def measure(row: Row, rounds: int, steps: int, console: Console) -> Result:
    """Run a row so many times on each engine, in turns; an error is in the result."""
    result = Result(row, [], [], [])
    try:
        for number in range(rounds):
            with (
                console.status(f"{row.title}: round {number + 1} of {rounds}"),
                tempfile.TemporaryDirectory() as cache,
            ):
                result.base.append(train("tensorflow", row, steps, None))
                result.cold.append(train("tideflow", row, steps, cache))
                result.cached.append(train("tideflow", row, steps, cache))
    except BenchmarkError as error:
        result.error = str(error)
        console.print(f"{row.title} failed: {error}", markup=False)
    return result


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes for each engine (3)")
    parser.add_argument("--steps", type=int, default=300, help="steps from the start (300)")
    parser.add_argument(
        "--row", action="append", default=[], metavar="TEXT",
        help="only rows whose name holds this, for example cnn or 'lstm session'",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="name the rows, and end")
    parser.add_argument("--json", type=Path, help="write all that was measured to a file")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure what the command line asks for; return the exit status."""
    options = parse(arguments)
    console = Console()
    rows = [
        row for row in ROWS if not options.row or any(text in row.title for text in options.row)
    ]
    if options.list or not rows:
        for row in ROWS:
            console.print(row.title, highlight=False)
        return 0 if options.list else 2
    results: list[Result] = []
    try:
        for row in rows:
            results.append(measure(row, options.rounds, options.steps, console))
            _tell(results[-1], console)
    except KeyboardInterrupt:
        console.print("stopped; these are the rows until then")
    if options.json:
        options.json.write_text(json.dumps([_as_json(one) for one in results], indent=1) + "\n")
    if options.write and len(results) == len(rows):
        command = " ".join(["python -m benchmarks.models", *arguments])
        text = f"{machine()}\n- command: `{command}`\n\n"
        write_part(PAGE, "models", text + markdown_table(HEADS, [one.cells() for one in results]))
    return 1 if any(one.error for one in results) else 0


def _tell(result: Result, console: Console) -> None:
    """Print a row as lines, each with what it says."""
    title, *values = result.cells()
    console.print(title, style="bold")
    for head, value in zip(HEADS[1:], values):
        console.print(f"  {head}: {value}", highlight=False, soft_wrap=True)


def _as_json(result: Result) -> dict[str, Any]:
    return {
        "row": result.row.title,
        "error": result.error,
        **{
            name: [vars(run) for run in getattr(result, name)]
            for name in ("base", "cold", "cached")
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
