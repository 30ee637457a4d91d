"""How much memory a parameter server needs at most for what it holds.

A worker trains variables on a ps with gradients as large as they are.  The ps should need less
than 1.5 times its variables, and one step's tensors in flight: the values on their way to the
worker, and the gradients on their way back.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import MIB
from benchmarks.processes import Cluster, Process

_FACTOR = 1.5


def peak_bytes(pid: int, which: str) -> int:
    """Return a size that the kernel keeps of a process: VmHWM, the most so far, or VmRSS, now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == which:
            return int(rest.split()[0]) * 1024
    raise ValueError(f"the kernel tells no {which} of process {pid}")


def train(target: str, variables: int, size_mib: int, steps: int) -> None:
    """Take steps that read all variables and subtract a gradient of the same size from each."""
    import tideflow.v1 as tf  # noqa: PLC0415  (the parent that only reads sizes does without)

    with tf.Graph().as_default():
        updates = []
        for i in range(variables):
            with tf.device("/job:ps/task:0"):
                start = tf.zeros([size_mib * MIB // 4])
                v = tf.get_variable(f"v{i}", initializer=start, use_resource=True)
            with tf.device("/job:worker/task:0"):
                gradient = v * 0.5
            with tf.device("/job:ps/task:0"):
                updates.append(tf.assign_sub(v, gradient).op)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(updates)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--variables", type=int, default=8, help="how many (8)")
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="of each (64)")
    parser.add_argument("--steps", type=int, default=10, help="steps to take (10)")
    parser.add_argument("--client", metavar="TARGET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        train(options.client, options.variables, options.size, options.steps)
        print("done", flush=True)
        return 0
    console = Console()
    held = options.variables * options.size * MIB
    with contextlib.closing(Cluster("tideflow", (("ps", 1), ("worker", 1)))) as cluster:
        ps = cluster.servers["ps", 0].pid
        before = peak_bytes(ps, "VmRSS")
        sizes = [f"--{name}={getattr(options, name)}" for name in ("variables", "size", "steps")]
        with (
            console.status("training"),
            contextlib.closing(
                Process("--client", cluster.target(0), *sizes, module="benchmarks.memory")
            ) as client,
        ):
            client.answer("done")
        peak = peak_bytes(ps, "VmHWM") - before
        after = peak_bytes(ps, "VmRSS") - before
    most = int(_FACTOR * held) + 2 * held
    table = Table("the ps, beyond what it needed before", "MiB", "times its variables")
    for name, size in (
        ("its variables", held), ("after the last step", after), ("most", peak), ("allowed", most)
    ):  # fmt: skip
        table.add_row(name, f"{size / MIB:.0f}", f"{size / held:.2f}")
    console.print(table)
    return 0 if peak <= most else 1


if __name__ == "__main__":
    sys.exit(main())
