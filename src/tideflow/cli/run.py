"""`tideflow run`: the tasks of one script as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from tideflow.cli.launcher import (
    COORDINATED_JOBS,
    SERVING_JOBS,
    Death,
    Launcher,
    Outcome,
    TaskId,
    describe_exit,
    local_cluster,
    tasks_of,
)
from tideflow.cli.problems import UsageProblem, told_to_user
from tideflow.cli.restarts import DEFAULT_MOST, RestartPolicy

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")


class _RunCommand(click.Command):
    """Lets `--restart` stand without a number, also before the script's name, and says where the
    script's own options go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        for i, arg in enumerate(args[:end]):
            if arg == "--restart" and not (i + 1 < end and args[i + 1].isdecimal()):
                args[i] = f"--restart={DEFAULT_MOST}"
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            given = error.option_name
            raise click.UsageError(
                f"tideflow run has no option {given}; options of the script come after --, as in: "
                f"tideflow run SCRIPT -- {given}",
                ctx,
            ) from None


@click.command(
    cls=_RunCommand,
    short_help="Start a script as a cluster on this machine.",
    context_settings={"allow_interspersed_args": True},
)
@click.argument("script", metavar="SCRIPT")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module's name, as with python -m.")
@click.option(
    "--as-tensorflow",
    is_flag=True,
    help="Let `import tensorflow` give tideflow, in all tasks.",
)
@click.option(
    "--ps", type=click.IntRange(0, 256), default=1, show_default=True, help="Parameter servers."
)
@click.option(
    "--workers", type=click.IntRange(0, 256), default=2, show_default=True, help="Workers."
)
@click.option("--chief", is_flag=True, help="Add a job `chief` with one task.")
@click.option(
    "--coordinator",
    is_flag=True,
    help="Add a job `chief`, whose end is the run's end: workers serve, as parameter servers do.",
)
@click.option(
    "--tls",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Give the tasks certificates (TIDEFLOW_TLS), such as for clusters that they connect to.",
)
@click.option(
    "--restart",
    type=click.IntRange(min=0),
    metavar="[N]",
    default=0,
    help="Start tasks again that die, each up to N times in a row "
    f"({DEFAULT_MOST} if N is left out).",
)
def run(
    script: str,
    args: tuple[str, ...],
    as_module: bool,
    as_tensorflow: bool,
    ps: int,
    workers: int,
    chief: bool,
    coordinator: bool,
    tls: str | None,
    restart: int,
) -> None:
    """Start every task of a script as a process of this machine.

    Each task runs SCRIPT with ARGS and with TF_CONFIG set to the cluster, on free ports of
    127.0.0.1, and to its own place in it. Its output appears line by line behind its name. The run
    ends when all workers (and the chief) have ended well; parameter servers are then stopped. With
    --coordinator it ends when the chief has; workers are then stopped, too. On the first failure,
    or on Ctrl-C, all tasks are stopped: SIGTERM, those that serve last, and SIGKILL to what is left
    after 4 seconds.

    With --restart, a task that dies is started again in the same place, after a pause that grows
    up to half a minute; one that then runs for a minute has recovered. A task that ends with 0 is
    done. A script that trains with MonitoredTrainingSession and a checkpoint directory goes on from
    its last checkpoint.

    With --as-tensorflow, a script that was written for TensorFlow runs unchanged.

    \b
    Examples:
      tideflow run examples/digits_replica.py --ps 1 --workers 2
      tideflow run train.py --workers 4 --chief -- --steps 1000
      tideflow run --ps 1 --workers 2 --restart train.py
      tideflow run --coordinator --ps 1 --workers 2 examples/digits_coordinator.py
      tideflow run --as-tensorflow --ps 1 --workers 2 train.py

    \b
    Exit codes:
      0    all workers ended well
      2    the command line is wrong
      130  stopped by Ctrl-C
      N    the code of the first task that failed (128 + S where signal S ended it)
    """
    chief = chief or coordinator
    if not workers and not chief:
        raise UsageProblem(
            "a cluster without workers and chief has nobody who works",
            "Give --workers 1 or more, or --chief.",
        )
    with told_to_user("Ask for fewer tasks."):
        cluster = local_cluster(ps, workers, chief)
    stand_in = ["-m", "tideflow.as_tensorflow"] if as_tensorflow else []
    command = [sys.executable, *stand_in, *_program(script, as_module), *args]
    launcher = Launcher(
        cluster,
        command,
        line_printer(tasks_of(cluster)),
        environment={"TIDEFLOW_TLS": tls} if tls else None,
        policy=RestartPolicy(restart),
        on_death=tell_death,
        serving_jobs=COORDINATED_JOBS if coordinator else SERVING_JOBS,
    )
    report(asyncio.run(launcher.run()))


def _program(script: str, as_module: bool) -> list[str]:
    if as_module:
        return ["-m", script]
    if not Path(script).is_file():
        raise UsageProblem(
            f"there is no script {script!r} in {os.getcwd()}",
            "Give the path of a Python file; for a module, add -m.",
        )
    return [script]


def line_printer(tasks: list[TaskId]) -> Callable[[TaskId, str, bool], None]:
    """Return what prints a line behind its task's name, in a colour for each task."""
    width = max(len(str(task)) for task in tasks)
    prefixes = {
        task: click.style(f"{task!s:<{width}} |", fg=_COLOURS[i % len(_COLOURS)])
        for i, task in enumerate(tasks)
    }
    colour = False if os.environ.get("NO_COLOR") else None

    def print_line(task: TaskId, line: str, is_error: bool) -> None:
        click.echo(f"{prefixes[task]} {line}", err=is_error, color=colour)

    return print_line


def tell_death(death: Death) -> None:
    """Say on stderr that a task died and will be started again."""
    click.echo(
        f"tideflow run: {death.task} {describe_exit(death.code)}; it is started again in "
        f"{death.pause_s:.1f} s (restart {death.number} of {death.most})",
        err=True,
    )


def report(outcome: Outcome) -> None:
    """Say why a run ended, if not well, and end with its code."""
    if outcome.failed is not None:
        click.echo(
            f"tideflow run: {outcome.failed} {describe_exit(outcome.code)}; all tasks were stopped",
            err=True,
        )
    elif outcome.stopped_by is not None:
        click.echo(f"tideflow run: stopped by {outcome.stopped_by.name}", err=True)
    sys.exit(outcome.code)
