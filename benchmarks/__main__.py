"""Run the same programs on tideflow and on TensorFlow, in turns, and print medians and ratios.

A ratio is the time on tideflow where TensorFlow's is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.figures import FIGURES, Figure
from benchmarks.processes import SOURCES, BenchmarkError, Clients, Clusters
from benchmarks.report import (
    PAGE,
    Result,
    as_markdown,
    as_table,
    write_part,
)
from benchmarks.rounds import Measured, Pair, Samples, one_round
from benchmarks.runtimes import RUNTIMES

BASE = Pair("tensorflow", "tensorflow")
BEFORE = Pair("before", "before")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes for each figure (3)")
    parser.add_argument(
        "--figure", action="append", default=[], metavar="NAME",
        help="only this figure (may be given again); a part of a name stands for all that have it",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="name the figures, and end")
    parser.add_argument("--client", choices=RUNTIMES, default="tideflow", help="our client")
    parser.add_argument("--servers", choices=RUNTIMES, default="tideflow", help="our servers")
    parser.add_argument(
        "--before", type=Path, metavar="CHECKOUT",
        help="compare with tideflow as it is in another checkout (made by `git worktree add`), "
        "in place of TensorFlow; then targets say nothing",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, help="write all that was measured to a file")
    parser.add_argument(
        "--write", action="store_true", help=f"write the table into {PAGE.parent.name}/{PAGE.name}"
    )
    return parser.parse_args(arguments)


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the figures of those names: of the very name, else of each that holds it."""
    if not names:
        return list(FIGURES)
    keys = {figure.key for figure in FIGURES}
    wanted = [
        figure
        for figure in FIGURES
        if any(name == figure.key or (name not in keys and name in figure.key) for name in names)
    ]
    if not wanted:
        raise SystemExit(f"no figure is named {' or '.join(names)}: see --list")
    return wanted


def by_load(figures: Sequence[Figure]) -> list[tuple[Figure, ...]]:
    """Return the figures in groups that one run measures, those of the same servers in a row."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(repr((figure.load, figure.client)), []).append(figure)
    jobs: dict[object, list[tuple[Figure, ...]]] = {}
    for group in groups.values():
        jobs.setdefault((group[0].load.jobs, group[0].load.fresh), []).append(tuple(group))
    return [group for same in jobs.values() for group in same]


class Comparison:
    """Figures of one load, on the base pair and ours in turns."""

    def __init__(
        self, group: Sequence[Figure], pairs: tuple[Pair, Pair], rounds: int, console: Console
    ) -> None:
        self._group = group
        self._load = group[0].load
        self._pairs = pairs
        self._rounds = rounds
        self._console = console
        self._title = ", ".join(figure.key for figure in group)
        self._measured = (Measured(), Measured())

    def run(self, clusters: Clusters) -> list[Result]:
        """Measure; what fails is told, and is in the results."""
        with contextlib.ExitStack() as stack:
            waiting = self._start(stack)
            for number, clients in enumerate(waiting):
                for index, pair in enumerate(self._pairs):
                    text = f"{self._title}: round {number + 1} of {self._rounds}, {pair.servers}"
                    with self._console.status(text), self._telling(index) as measured:
                        if not measured.error:
                            found = self._round(index, clusters, clients[index])
                            measured.rounds.append(found)
        return [Result(figure, *self._measured) for figure in self._group]

    def _round(self, index: int, clusters: Clusters, clients: Clients) -> Samples:
        """Measure a round; one that fails is run once more, which the results tell."""
        try:
            return one_round(self._pairs[index], self._load, clusters, clients)
        except BenchmarkError as error:
            self._measured[index].repeated.append(self._named(index, error))
            return one_round(self._pairs[index], self._load, clusters)

    def _named(self, index: int, error: BenchmarkError) -> str:
        pair = self._pairs[index]
        return f"{pair.client} on {pair.servers}: {error}"

    def _start(self, stack: contextlib.ExitStack) -> list[list[Clients]]:
        """Start the clients of all rounds at once: to load TensorFlow takes longer than most."""
        with self._console.status(f"{self._title}: starting the clients"):
            waiting = [
                [
                    stack.enter_context(contextlib.closing(Clients(pair.client, self._load)))
                    for pair in self._pairs
                ]
                for _ in range(self._rounds)
            ]
            for clients in waiting:
                for index, one in enumerate(clients):
                    with self._telling(index) as measured:
                        if not measured.error:
                            one.loaded()
        return waiting

    @contextlib.contextmanager
    def _telling(self, index: int) -> Iterator[Measured]:
        """Keep and print the error of a pair."""
        measured = self._measured[index]
        try:
            yield measured
        except BenchmarkError as error:
            measured.error = self._named(index, error)
            self._console.print(f"{self._title} failed: {measured.error}", markup=False)


def tell(result: Result, console: Console) -> None:
    """Print a result in a line."""
    title, base, ours, ratio, *_ = result.cells()
    console.print(f"{title}: {ours} against {base}, {ratio}", highlight=False, soft_wrap=True)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks that the command line asks for; return the exit status."""
    options = parse(arguments)
    console = Console()
    if options.list:
        for figure in FIGURES:
            console.print(f"{figure.key:20} {figure.title}", highlight=False)
        return 0
    figures = chosen(options.figure)
    ours = Pair(options.client, options.servers)
    base = BASE
    if options.before:
        base = BEFORE
        SOURCES["before"] = options.before.resolve() / "src"
        if not (SOURCES["before"] / "tideflow").is_dir():
            raise SystemExit(f"{options.before} is no checkout of tideflow: it has no src/tideflow")
    results: dict[str, Result] = {}
    interrupted = False
    with contextlib.closing(Clusters()) as clusters:
        try:
            for group in by_load(figures):
                pairs = (base.of(group[0]), ours.of(group[0]))
                for one in Comparison(group, pairs, options.rounds, console).run(clusters):
                    results[one.figure.key] = one
                    tell(one, console)
        except KeyboardInterrupt:
            interrupted = True
            console.print("stopped; these are the figures until then")
    ordered = [results[figure.key] for figure in figures if figure.key in results]
    console.print(as_table(ordered, base, ours))
    if options.json:
        found = {one.figure.key: one.as_json() for one in ordered}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.write and not interrupted:
        # The page does not hold the paths of the machine.
        told = ["CHECKOUT" if one == str(options.before) else one for one in arguments]
        command = " ".join(["python -m benchmarks", *told])
        part = "before" if options.before else "bench"
        write_part(PAGE, part, as_markdown(ordered, base, ours, command))
    if interrupted:
        return 130
    return 1 if any(one.error for one in ordered) else 0


def _end_like_interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end_like_interrupt)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main(sys.argv[1:]))
