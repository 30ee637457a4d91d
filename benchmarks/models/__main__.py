"""Train models that people train on tideflow and on TensorFlow, in turns, and print what it took.

For each model and shape of program: a hot step, the first 100 steps (their time and the processors'
time, from a cold start and with what was compiled before in a cache on disk), the 50th and 99th
percentile of the first 300, and the most memory.  A ratio is tideflow's where TensorFlow's is 1.

Each run is a process of its own; TensorFlow's, a cold one and one from a cache follow each other,
round by round over all rows.  All rows take about 50 minutes for three rounds, and 15 more with
--losses.  No run is started after --minutes; one that goes on then takes up to three minutes more.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.models import tables
from benchmarks.models.results import COMPARED, Results
from benchmarks.models.rows import ROWS, Row, chosen
from benchmarks.models.runs import (
    CACHED,
    COLD,
    FOR_LOSSES,
    JAX,
    TENSORFLOW,
    Effort,
    Engine,
    Run,
    train,
)
from benchmarks.processes import BenchmarkError, Process
from benchmarks.report import PAGE, machine, show, write_part
from benchmarks.scaling import IMAGES

_PLOT = "perf-first-steps.svg"
_TURNS = ((TENSORFLOW, COLD, CACHED), (COLD, CACHED, TENSORFLOW))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=3, metavar="N", help="runs on each engine (3)")
    add("--minutes", type=float, default=75.0, metavar="N", help="no run starts after these (75)")
    add("--row", action="append", default=[], metavar="TEXT",
        help="only rows whose name holds this, for example cnn or 'lstm session'")  # fmt: skip
    add("--list", action="store_true", help="name the rows, and end")
    add("--steps", type=int, default=300, metavar="N", help="steps from the start (300)")
    add("--warm", type=float, default=10.0, metavar="S",
        help="seconds from the first step on until steps count as hot (10)")  # fmt: skip
    add("--hot", type=float, default=3.0, metavar="S", help="seconds of hot steps (3)")
    add("--losses", action="store_true",
        help="compare losses, too, and those of TensorFlow without oneDNN")  # fmt: skip
    add("--jax", action="store_true", help="compare sessions with bare jax, too")
    add("--neighbours", type=int, default=0, metavar="N",
        help="so many processes keep a core busy meanwhile (0)")  # fmt: skip
    add("--plot", type=Path, metavar="FILE", help="draw the first steps of three models, as SVG")
    add("--results", type=Path, metavar="FILE", help="a file to go on from, and to keep all in")
    add("--write", action="store_true", help=f"write tables and plot into {PAGE.name}")
    return parser.parse_args(arguments)


class Measurement:
    """Runs rows on all engines in turns, and says how far it is."""

    def __init__(
        self, rows: Sequence[Row], options: argparse.Namespace, results: Results, console: Console
    ) -> None:
        self._rows = rows
        self._options = options
        self._results = results
        self._console = console
        self._began = time.monotonic()
        self._effort = Effort(options.steps, options.warm, options.hot)
        # One from a cache follows a cold one, and has nothing to wait for.
        self._short = Effort(options.steps, 0.0, 0.0)
        self._for_losses = Effort(min(options.steps, COMPARED), 0.0, 0.0)
        self._done = 0
        runs = 3 * options.rounds + (len(FOR_LOSSES) if options.losses else 0)
        self._all = len(rows) * runs
        if options.jax:
            self._all += options.rounds * sum(row.has_bare for row in rows)

    def run(self) -> None:
        """Measure until all is there or the time is over; errors are told."""
        for number in range(self._options.rounds):
            for row in self._rows:
                if self._minutes() >= self._options.minutes:
                    self._console.print(f"{self._options.minutes:g} minutes are over")
                    return
                try:
                    self._round(row, number)
                except BenchmarkError as error:
                    self._console.print(f"{row.title} failed: {error}", markup=False)

    def _round(self, row: Row, number: int) -> None:
        """Measure a row once on each engine; who begins changes with each round."""
        turns = list(_TURNS[number % 2])
        if self._options.jax and row.has_bare:
            turns.append(JAX)
        if self._options.losses:
            turns.extend(FOR_LOSSES)
        with tempfile.TemporaryDirectory() as cache:
            for engine in turns:
                wanted = 1 if engine in FOR_LOSSES else number + 1
                # What an earlier call left to do for a cache needs the cold run again.
                has = min(len(self._results.runs(row, one)) for one in _with_cold(engine))
                if has < wanted:
                    self._one(row, engine, cache)

    def _one(self, row: Row, engine: Engine, cache: str) -> None:
        effort = self._effort if engine in (TENSORFLOW, COLD, JAX) else self._short
        if engine in FOR_LOSSES:
            effort = self._for_losses
        folder = cache if engine.runtime == "tideflow" else None
        self._done += 1
        minutes, seconds = divmod(int(60 * self._minutes()), 60)
        place = f"{self._done} of {self._all}, {minutes}:{seconds:02d}"
        with self._console.status(f"{place}: {row.title}, {engine.title}"):
            run = train(engine, row, effort, folder)
        self._results.add(row, engine, run)
        self._console.print(
            f"{place}: {row.title}, {engine.title}: {_in_short(run)}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip

    def _minutes(self) -> float:
        return (time.monotonic() - self._began) / 60


def _with_cold(engine: Engine) -> tuple[Engine, ...]:
    return (COLD, CACHED) if engine in (COLD, CACHED) else (engine,)


def _in_short(run: Run) -> str:
    count = min(100, len(run.steps))
    return f"hot {show(run.hot_s)}, the first {count} {show(run.first_s(count))}"


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keep so many cores busy, as far as there are so many."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            one = Process(module="benchmarks.models.neighbour")
            stack.enter_context(contextlib.closing(one))
            one.answer("busy")
        yield


def _part(neighbours: int) -> str:
    """Return the name of the page's part that is written."""
    return f"models-neighbours-{neighbours}" if neighbours else "models"


def _write(
    shown: Sequence[tables.Section],
    plot: str,
    missing: Sequence[Row],
    neighbours: int,
    command: str,
) -> None:
    parts = [f"{machine()}\n- command: `{command}`"]
    if missing:
        titles = ", ".join(row.title for row in missing)
        parts[0] += f"\n- failed, or not measured in time: {titles}"
    if plot and not neighbours:
        IMAGES.mkdir(exist_ok=True)
        (IMAGES / _PLOT).write_text(plot)
        parts.append(f"![The first steps of three models](images/{_PLOT})")
    parts.extend(one.as_markdown() for one in shown)
    write_part(PAGE, _part(neighbours), "\n\n".join(parts))


def _command(arguments: Sequence[str], *files: Path | None) -> str:
    """Return the command as the page names it: without paths of this machine."""
    command = " ".join(["python -m benchmarks.models", *arguments])
    for file in filter(None, files):
        command = command.replace(str(file), "FILE")
    return command


def main(arguments: Sequence[str]) -> int:
    """Measure what the command line asks for; return the exit status."""
    options = parse(arguments)
    # A file has no width; tables are to have room there.
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.list:
        for row in ROWS:
            console.print(row.title, highlight=False)
        return 0
    rows = chosen(options.row)
    if options.write and f"<!-- {_part(options.neighbours)}:begin -->" not in PAGE.read_text():
        raise SystemExit(f"{PAGE} has no part {_part(options.neighbours)}")
    results = Results(options.results)
    interrupted = False
    try:
        with _busy(options.neighbours):
            Measurement(rows, options, results, console).run()
    except KeyboardInterrupt:
        interrupted = True
        console.print("stopped; these are the rows until then")
    shown = tables.sections(results, rows, options.steps)
    if options.jax:
        shown.append(tables.beside_jax(results, rows))
    if options.losses:
        shown.append(tables.losses(results, rows, options.steps))
    for one in shown:
        console.print(one.as_table())
    missing = [row for row in rows if not results.is_measured(row)]
    plot = tables.plot_steps(results, rows)
    if options.plot and plot:
        options.plot.write_text(plot)
    if options.write and not interrupted:
        command = _command(arguments, options.results, options.plot)
        _write(shown, plot, missing, options.neighbours, command)
    if interrupted:
        return 130
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
