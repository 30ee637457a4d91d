"""`tideflow demo`: a cluster of processes on this machine trains a classifier, and shows how."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections import deque
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from tideflow.cli.demo_chaos import Saboteur
from tideflow.cli.demo_report import read_report
from tideflow.cli.demo_view import LOST, DemoView
from tideflow.cli.launcher import Launcher, Outcome, TaskId, describe_exit, local_cluster, tasks_of
from tideflow.cli.problems import Problem, told_to_user
from tideflow.cli.restarts import RestartPolicy
from tideflow.cluster import ClusterSpec

GOOD_ACCURACY = 0.95

_PROGRAM = "tideflow.cli.demo_program"
# It runs in processes of its own.
_KEPT_LINES = 15

_STEPS, _CHAOS_STEPS = 2000, 4000
_CHAOS_RESTARTS = 5
# How a monitored session begins to tell that a task was lost.
_LOST_MARK = "the session was lost"


@click.command(short_help="Watch a cluster train, on this machine.")
@click.option(
    "--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Workers."
)
@click.option(
    "--ps", type=click.IntRange(1, 16), default=1, show_default=True, help="Parameter servers."
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Training steps of all workers together.  [default: 2000; with --chaos, 4000]",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of the weights and the batches."
)
@click.option("--chaos", is_flag=True, help="Kill tasks on the way, and show how it goes on.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also save the last picture as SVG.",
)
def demo(
    workers: int, ps: int, steps: int | None, seed: int, chaos: bool, svg: Path | None
) -> None:
    """Train a classifier of handwritten digits on a cluster of processes on this machine.

    Each worker builds its own graph, whose variables live on the parameter servers, and applies
    its gradients without waiting for the others. The data come with tideflow; nothing is
    downloaded. The same program as a script: examples/digits_replica.py.

    With --chaos a parameter server, a worker and the chief are killed, one after the other. Each is
    started again, and the training goes on from the last checkpoint.

    \b
    Examples:
      tideflow demo
      tideflow demo --workers 3 --ps 2 --steps 5000
      tideflow demo --chaos

    \b
    Exit codes:
      0    trained to a test accuracy of 0.95 or better
      1    a task failed, or the accuracy is lower (try more --steps)
      130  stopped by Ctrl-C
    """
    with told_to_user("Ask for fewer tasks."):
        cluster = local_cluster(ps, workers)
    steps = steps or (_CHAOS_STEPS if chaos else _STEPS)
    view = DemoView(tasks_of(cluster), steps)
    console = Console(highlight=False)
    console.print(
        f"starting {ps} parameter server{'s' * (ps > 1)} and {workers} "
        f"worker{'s' * (workers > 1)}, each a process of its own"
    )
    listener = _Listener(view, console)
    program = [sys.executable, "-m", _PROGRAM, f"--steps={steps}", f"--seed={seed}"]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tideflow-demo-")))
        if chaos:
            listener.saboteur = Saboteur(view, steps, listener.tell)
            program.append(f"--checkpoints={directory / 'checkpoints'}")
        if console.is_terminal:
            stack.enter_context(Live(view, console=console, refresh_per_second=8))
        outcome = asyncio.run(_train(cluster, program, listener))
        view.end()
    if not console.is_terminal and view.accuracy is not None:
        console.print(f"test accuracy {view.accuracy:.4f} after {view.elapsed_s:.1f} s")
    if svg is not None:
        svg.write_text(view.svg("tideflow demo --chaos" if chaos else "tideflow demo"), "utf-8")
    _conclude(outcome, view, listener)


async def _train(cluster: ClusterSpec, program: list[str], listener: _Listener) -> Outcome:
    # Tasks share the machine's cores; threads of their own for each product would fight for them.
    environment = {"OMP_NUM_THREADS": "1"}
    saboteur = listener.saboteur
    if saboteur is None:
        return await Launcher(cluster, program, listener.hear, environment).run()
    policy = RestartPolicy(_CHAOS_RESTARTS)
    launcher = Launcher(cluster, program, listener.hear, environment, policy, saboteur.note_death)
    sabotage = asyncio.create_task(saboteur.work(launcher))
    try:
        return await launcher.run()
    finally:
        sabotage.cancel()
        await asyncio.gather(sabotage, return_exceptions=True)


class _Listener:
    """Hears what the tasks print: reports go to the view, the rest is kept in case of trouble."""

    def __init__(self, view: DemoView, console: Console) -> None:
        self._view = view
        self._console = console
        self.said: dict[TaskId, deque[str]] = {}
        self.saboteur: Saboteur | None = None

    def hear(self, task: TaskId, line: str, is_error: bool) -> None:
        facts = read_report(line)
        if facts is None:
            self.said.setdefault(task, deque(maxlen=_KEPT_LINES)).append(line)
            if line.startswith(_LOST_MARK):
                self._view.set_state(task, LOST)
            return
        self._view.update(task, facts)
        if self.saboteur is not None:
            self.saboteur.hear(task, facts)
        if not self._console.is_terminal and (state := self._view.line()):
            self._console.print(state, soft_wrap=True)

    def tell(self, line: str) -> None:
        """Print a line where there is no terminal to show it."""
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)


def _conclude(outcome: Outcome, view: DemoView, listener: _Listener) -> None:
    if outcome.stopped_by is not None:
        click.echo(f"stopped by {outcome.stopped_by.name}", err=True)
        sys.exit(outcome.code)
    if outcome.failed is not None:
        last = "\n".join(f"  {line}" for line in listener.said.get(outcome.failed, ()))
        raise Problem(
            f"{outcome.failed} {describe_exit(outcome.code)}"
            + (f"; its last lines:\n{last}" if last else " without a word"),
            "This is a defect of tideflow or of the machine; please report it.",
        )
    if view.accuracy is None or view.accuracy < GOOD_ACCURACY:
        found = "not known" if view.accuracy is None else f"{view.accuracy:.4f}"
        raise Problem(
            f"the test accuracy is {found}; {GOOD_ACCURACY} was expected",
            "Give the training more steps, such as --steps 4000.",
        )
