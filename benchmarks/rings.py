"""How fast processes add up what each has: our ring, TensorFlow's, and torch.distributed's gloo.

    python -m benchmarks.rings [--write]

The members of a ring are processes of this machine; each calls its runtime in a loop, and the rings
take turns.  They are not held still meanwhile: members of TensorFlow's that miss heartbeats are
lost.  gloo needs PyTorch, which nothing else here does: `pip install torch` (a build for CPUs will
do).  Without it the other two are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console

from benchmarks.processes import Process, free_ports
from benchmarks.report import PAGE, markdown_table, show, write_part

RUNTIMES = ("tensorflow", "gloo", "tideflow")
# Bytes, and how often in a round.
SIZES = {4 << 10: 300, 4 << 20: 40, 64 << 20: 6}
_WORKERS = (2, 4)

# Adds up as many floats of all members, and waits for the sum.
Reduce = Callable[[], object]


def of_strategy(runtime: str, addresses: list[str], rank: int) -> Callable[[int], Reduce]:
    """Join a ring of MultiWorkerMirroredStrategy; return what makes the step of a size."""
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = importlib.import_module(runtime)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def make(count: int) -> Reduce:
        given = tf.ones([count])

        def add_up(x: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", x)

        step = tf.function(lambda: strategy.run(add_up, (given,)))
        return lambda: step().numpy()

    return make


def of_gloo(addresses: list[str], rank: int) -> Callable[[int], Reduce]:
    """Join a ring of gloo; return what makes the step of a size."""
    torch = importlib.import_module("torch")
    distributed = importlib.import_module("torch.distributed")
    distributed.init_process_group(
        "gloo", init_method=f"tcp://{addresses[0]}", rank=rank, world_size=len(addresses)
    )

    def make(count: int) -> Reduce:
        given = torch.ones(count)

        def step() -> object:
            # In place; the others keep what they are given.
            total = given.clone()
            distributed.all_reduce(total)
            return total.numpy()

        return step

    return make


def be_member(runtime: str, addresses: list[str], rank: int) -> None:
    """Join a ring, and answer each "go" with the median seconds of each size as JSON."""
    join = of_gloo if runtime == "gloo" else functools.partial(of_strategy, runtime)
    make = join(addresses, rank)
    steps = {size: make(size // 4) for size in SIZES}
    for step in steps.values():
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        found = {}
        for size, count in SIZES.items():
            times = []
            for _ in range(count):
                started_s = time.perf_counter()
                steps[size]()
                times.append(time.perf_counter() - started_s)
            found[size] = statistics.median(times)
        print(json.dumps(found), flush=True)


def measure(runtimes: list[str], workers: int, rounds: int) -> dict[str, dict[int, float]]:
    """Return the median seconds of each size by runtime."""
    told: dict[str, dict[int, list[float]]] = {
        runtime: {size: [] for size in SIZES} for runtime in runtimes
    }
    with contextlib.ExitStack() as stack:
        rings: dict[str, list[Process]] = {}
        for runtime in runtimes:
            rings[runtime] = _start(runtime, workers, stack)
            for member in rings[runtime]:
                member.answer("ready")
        for number in range(rounds + 1):
            for runtime, members in rings.items():
                for member in members:
                    member.tell("go")
                answers = [json.loads(member.answer("{")) for member in members]
                if number:  # the first warms up
                    for size in SIZES:
                        slowest = max(answer[str(size)] for answer in answers)
                        told[runtime][size].append(slowest)
    return {
        runtime: {size: statistics.median(times) for size, times in found.items()}
        for runtime, found in told.items()
    }


def _start(runtime: str, workers: int, stack: contextlib.ExitStack) -> list[Process]:
    addresses = json.dumps([f"127.0.0.1:{port}" for port in free_ports(workers)])
    members = []
    for rank in range(workers):
        arguments = ("--member", runtime, addresses, str(rank))
        member = Process(*arguments, module="benchmarks.rings")
        members.append(stack.enter_context(contextlib.closing(member)))
    return members


def as_markdown(found: dict[int, dict[str, dict[int, float]]], rounds: int) -> str:
    """Return the table of a page; the figures are by workers, runtime and size."""
    heads = ["all-reduce", "TensorFlow", "gloo", "tideflow", "to TensorFlow", "to gloo"]
    rows = []
    for workers, by_runtime in found.items():
        for size in SIZES:
            taken = {runtime: by_size[size] for runtime, by_size in by_runtime.items()}
            amount = f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"
            ours = taken["tideflow"]
            rows.append(
                [
                    f"{amount}, {workers} processes",
                    *(show(taken[one]) if one in taken else "-" for one in RUNTIMES),
                    *(f"{ours / taken[one]:.2f}" if one in taken else "-" for one in RUNTIMES[:2]),
                ]
            )
    command = f"`python -m benchmarks.rings`: medians of {rounds} rounds in turns."
    return f"{command}\n\n{markdown_table(heads, rows)}"


def main() -> int:
    """Run the benchmark, or be a member of a ring as a child."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rings", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often (5)")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--member", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        runtime, addresses, rank = options.member
        be_member(runtime, json.loads(addresses), int(rank))
        return 0
    console = Console()
    runtimes = list(RUNTIMES)
    if importlib.util.find_spec("torch") is None:
        console.print("gloo is left out: pip install torch")
        runtimes.remove("gloo")
    found = {}
    for workers in _WORKERS:
        with console.status(f"adding up over {workers} processes"):
            found[workers] = measure(runtimes, workers, options.rounds)
    text = as_markdown(found, options.rounds)
    console.print(text, markup=False)
    if options.write:
        write_part(PAGE, "rings", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
