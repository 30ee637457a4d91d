"""How steps grow with the number of workers, the nodes of the graph and the bytes of a tensor.

Both runtimes in turns; a plot of each into docs/images, and on request a table into the
performance page.

    python -m benchmarks.scaling --write

does it all, in about 15 minutes.  With --results what was measured is kept in a file, and a later
call that names it goes on from there:

    python -m benchmarks.scaling --results FILE --sweep bytes --size 1073741824
    python -m benchmarks.scaling --results FILE --sweep none --write
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.figures import MIB, Load
from benchmarks.processes import ROOT, BenchmarkError, Clusters
from benchmarks.report import PAGE, machine, markdown_table, show, write_part
from benchmarks.rounds import Pair, Samples, one_round
from benchmarks.runtimes import RUNTIMES
from benchmarks.svg import Series, in_bytes, plain, plot

IMAGES = ROOT / "docs" / "images"
_PAIR = (("ps", 1), ("worker", 1))
# A tensor is at once in the initializer, the variable, messages on both sides and the result.
_COPIES = 8


@dataclass(frozen=True)
class Sweep:
    """One thing that grows.

    Attributes:
      load: size -> what is run.
      parts: what is plotted of it: "step", "first".
      memory: size -> bytes that must be free, or it is left out.
    """

    key: str
    title: str
    label: str
    sizes: Sequence[int]
    load: Callable[[int], Load]
    parts: tuple[str, ...] = ("step",)
    written: Callable[[float], str] = plain
    memory: Callable[[int], int] = lambda size: 0


def _tensor(size: int) -> Load:
    steps = 200 if size <= MIB else max(5, 1600 * MIB // size)
    # Large variables are not to be left in servers that the next size shares.
    return Load("to_worker", {"count": size // 4}, _PAIR, min(200, steps), fresh=size >= 64 * MIB)


SWEEPS = (
    Sweep(
        "workers",
        "Fan-in of 4 floats of each worker",
        "workers",
        (1, 2, 4, 8, 12, 16),
        lambda size: Load("fan_in", {"workers": size}, (("worker", size), ("ps", 1)), 200),
        # A process of TensorFlow takes about 0.4 GiB.
        memory=lambda size: (size + 2) * 400 * MIB,
    ),
    Sweep(
        "nodes",
        "A graph over two tasks, its chains equal",
        "nodes",
        (1000, 3000, 10_000, 30_000, 100_000),
        lambda size: Load("wide", {"nodes": size}, _PAIR, 20, fresh=True),
        parts=("step", "first"),
    ),
    Sweep(
        "distinct",
        "A graph over two tasks, its chains distinct",
        "nodes (a tenth as many tensors between the tasks)",
        (1000, 3000, 10_000, 30_000, 100_000),
        lambda size: Load("wide", {"nodes": size, "distinct": True}, _PAIR, 20, fresh=True),
        parts=("step", "first"),
    ),
    Sweep(
        "bytes",
        "A tensor from ps to worker",
        "size of the tensor",
        (4, 1 << 10, 32 << 10, MIB, 8 * MIB, 64 * MIB, 256 * MIB, 1 << 30),
        _tensor,
        written=in_bytes,
        memory=lambda size: _COPIES * size,
    ),
)

Measured = dict[tuple[str, int], Samples]
# By sweep.
Results = dict[str, Measured]


def free_bytes() -> int:
    """Return the memory that new processes can have."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])


def load_results(path: Path | None) -> Results:
    """Return what earlier calls have measured."""
    found: Results = {sweep.key: {} for sweep in SWEEPS}
    if path is not None and path.exists():
        for key, runtime, size, samples in json.loads(path.read_text()):
            found[key][runtime, size] = samples
    return found


def save_results(path: Path | None, results: Results) -> None:
    """Keep what was measured for later calls."""
    if path is None:
        return
    rows = [
        [key, runtime, size, samples]
        for key, measured in results.items()
        for (runtime, size), samples in measured.items()
    ]
    path.write_text(json.dumps(rows))


def run(
    sweep: Sweep,
    sizes: Sequence[int],
    runtimes: Sequence[str],
    clusters: Clusters,
    console: Console,
) -> Iterator[tuple[tuple[str, int], Samples]]:
    """Measure a sweep, by runtime and size; what does not fit or fails is told and left out."""
    for size in sizes:
        if sweep.memory(size) > free_bytes():
            console.print(f"{sweep.key} {sweep.written(size)}: left out, too little memory is free")
            continue
        for runtime in runtimes:
            with console.status(f"{sweep.key} {sweep.written(size)}, {runtime}"):
                try:
                    samples = one_round(Pair(runtime, runtime), sweep.load(size), clusters)
                except BenchmarkError as error:
                    console.print(f"{sweep.key} {size}, {runtime}: {error}", markup=False)
                    continue
            times = ", ".join(f"{part} {show(middle(samples[part]))}" for part in sweep.parts)
            console.print(f"{sweep.key} {sweep.written(size)}, {runtime}: {times}", highlight=False)
            yield (runtime, size), samples


def middle(times: Sequence[float]) -> float:
    """Return the median, nan for none at all."""
    return sorted(times)[len(times) // 2] if times else math.nan


def _series(sweep: Sweep, found: Measured) -> list[Series]:
    names = {"step": "step", "first": "first run"}
    lines = []
    for part in sweep.parts:
        for runtime in RUNTIMES:
            points = sorted((n, middle(s[part])) for (r, n), s in found.items() if r == runtime)
            name = runtime if len(sweep.parts) == 1 else f"{runtime}, {names[part]}"
            if points:
                lines.append(Series(name, points))
    return lines


def as_markdown(sweep: Sweep, found: Measured) -> str:
    """Return the plot and the numbers of a sweep."""
    lines = _series(sweep, found)
    sizes = sorted({size for _, size in found})
    by_line = [dict(line.points) for line in lines]
    rows = [
        [sweep.written(size), *(show(points.get(size, math.nan)) for points in by_line)]
        for size in sizes
    ]
    table = markdown_table([sweep.label, *(line.name for line in lines)], rows)
    return f"![{sweep.title}](images/perf-{sweep.key}.svg)\n\n{table}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    keys = ["none", *(sweep.key for sweep in SWEEPS)]
    parser.add_argument("--sweep", action="append", choices=keys, help="only this (or these)")
    parser.add_argument("--size", action="append", type=int, help="only this (or these)")
    parser.add_argument("--runtime", action="append", choices=RUNTIMES, help="only this one")
    parser.add_argument("--largest", type=float, default=math.inf, help="leave out greater sizes")
    parser.add_argument("--results", type=Path, help="a file to go on from, and to keep all in")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the sweeps that the command line asks for."""
    options = _options(arguments)
    console = Console()
    results = load_results(options.results)
    try:
        for sweep in SWEEPS:
            if options.sweep and sweep.key not in options.sweep:
                continue
            sizes = [n for n in options.size or sweep.sizes if n <= options.largest]
            with contextlib.closing(Clusters()) as clusters:
                for place, samples in run(
                    sweep, sizes, options.runtime or RUNTIMES, clusters, console
                ):
                    results[sweep.key][place] = samples
                    save_results(options.results, results)
    except KeyboardInterrupt:
        console.print("stopped; the plots and the page are as they were")
        return 130
    command = f"python -m benchmarks.scaling {' '.join(arguments)}"
    if options.results is not None:
        command = "python -m benchmarks.scaling --results FILE`, in several calls; one round each"
    else:
        command += "`"
    parts = [f"{machine()}\n- command: `{command}"]
    IMAGES.mkdir(exist_ok=True)
    for sweep in SWEEPS:
        lines = _series(sweep, results[sweep.key])
        if lines:
            image = plot(sweep.title, sweep.label, lines, sweep.written)
            (IMAGES / f"perf-{sweep.key}.svg").write_text(image)
            parts.append(as_markdown(sweep, results[sweep.key]))
    if options.write:
        write_part(PAGE, "scaling", "\n\n".join(parts))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main(sys.argv[1:]))
