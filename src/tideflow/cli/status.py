"""`tideflow status`: a look into a running cluster."""

from __future__ import annotations

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tideflow.cli.probe import LONG_STEP_S, ClusterReport, TaskReport, probe_cluster
from tideflow.cli.problems import Problem, UsageProblem
from tideflow.cli.settings import settings_from, tls_options, with_tls
from tideflow.platform import clock
from tideflow.platform.settings import using
from tideflow.runtime.loop import run_sync
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LONGEST_LIST = 40
# Of output that no terminal limits: wide enough that names stay in one piece.
_PLAIN_WIDTH = 160


@click.command(short_help="Look into a running cluster.", params=tls_options())
@click.argument("target", metavar="TARGET")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    help="Show it again every SECONDS, until Ctrl-C.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for each task.",
)
@click.option(
    "--long-step",
    "long_step_s",
    type=click.FloatRange(min=0.0),
    default=LONG_STEP_S,
    show_default=True,
    metavar="SECONDS",
    help="Tell what happened to steps that have been running for so long.",
)
def status(
    target: str, watch: float | None, timeout_s: float, long_step_s: float, **identity: str | None
) -> None:
    """Show the tasks, devices, sessions and variables of a cluster, and its troubled steps.

    TARGET is the address of any of its tasks, grpc://host:port or host:port. A TensorFlow server
    tells less of itself: its devices, and those of its cluster. Of steps that run for long, and of
    the latest that ended badly, each task tells what happened to its part.

    \b
    Examples:
      tideflow status grpc://localhost:2222
      tideflow status localhost:2222 --watch 2
      tideflow status localhost:2222 --long-step 0
      tideflow status host1:2222 --tls certs

    \b
    Exit codes:
      0  the server answered (its cluster may have tasks that did not)
      1  the server could not be reached, or is neither a tideflow nor a TensorFlow server
      2  TARGET is not an address
    """
    _check_target(target)
    with using(with_tls(settings_from(()), **identity)):
        _show(target, watch, timeout_s, long_step_s)


def _show(target: str, watch: float | None, timeout_s: float, long_step_s: float) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    if watch is None:
        console.print(render(_probe(target, timeout_s, long_step_s)))
        return
    with Live(
        render(_probe(target, timeout_s, long_step_s)), console=console, auto_refresh=False
    ) as live:
        try:
            while True:
                clock.sleep(watch)
                live.update(render(_probe(target, timeout_s, long_step_s)), refresh=True)
        except KeyboardInterrupt:
            return


def _check_target(target: str) -> None:
    scheme, separator, address = target.rpartition("://")
    host, _, port = address.rpartition(":")
    if (separator and scheme != "grpc") or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageProblem(
            f"{target!r} is not the address of a server",
            "Write grpc://host:port, such as grpc://localhost:2222.",
        )


def _probe(target: str, timeout_s: float, long_step_s: float) -> ClusterReport:
    try:
        return run_sync(probe_cluster(target, timeout_s, long_step_s))
    except errors.OpError as error:
        raise Problem(
            f"{target}: {error.message.splitlines()[0]}",
            "Is a server running there? `tideflow serve` prints its target when it is ready.",
        ) from error


def render(report: ClusterReport) -> RenderableType:
    """Return a report as tables."""
    parts: list[RenderableType] = [_tasks_table(report), *_warnings(report)]
    devices = [(task.name, d) for task in report.tasks for d in task.devices]
    parts.append(_devices_table(devices, report.others))
    known = [task for task in report.tasks if task.status is not None]
    if known:
        parts += [_sessions_table(known), _resources_table(known), *_steps_tables(known)]
    else:
        parts.append(
            Text("A TensorFlow server: it does not tell of sessions and variables.", "dim")
        )
    return Group(*parts)


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE_HEAD,
    )
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _tasks_table(report: ClusterReport) -> Table:
    right = ("pid", "up", "steps now")
    table = _table("Tasks", "task", "address", "state", "pid", "up", "steps now", right=right)
    for task in report.tasks:
        table.add_row(task.name, task.address, *_state(task))
    return table


def _state(task: TaskReport) -> tuple[RenderableType, ...]:
    if task.problem:
        return Text(task.problem, "red"), "", "", ""
    if task.status is None:
        return Text("TensorFlow", "green"), "", "", ""
    said = task.status
    return (
        Text("up", "green"),
        str(said.pid),
        format_duration(said.uptime_s),
        str(said.running_steps),
    )


def _warnings(report: ClusterReport) -> list[RenderableType]:
    return [
        Text(f"warning: {task.name} {text}", "yellow")
        for task in report.tasks
        if task.status is not None
        for text in task.status.warning
    ]


def _devices_table(
    devices: list[tuple[str, pb.DeviceAttributes]], others: list[pb.DeviceAttributes]
) -> Table:
    table = _table("Devices", "device", "type", "incarnation", "memory", right=("memory",))
    for _, device_pb in [*devices, *(("", other) for other in others)]:
        table.add_row(
            device_pb.name.replace("/replica:0", ""),
            device_pb.device_type,
            f"{device_pb.incarnation:016x}",
            format_bytes(device_pb.memory_limit) if device_pb.memory_limit > 0 else "",
        )
    return table


def _sessions_table(tasks: list[TaskReport]) -> RenderableType:
    right = ("nodes", "graphs", "steps")
    table = _table("Sessions", "task", "role", "session", "nodes", "graphs", "steps", right=right)
    for task in tasks:
        assert task.status is not None
        for role, sessions in (
            ("master", task.status.master_session),
            ("worker", task.status.worker_session),
        ):
            for session_pb in sessions:
                table.add_row(
                    task.name,
                    role,
                    session_pb.handle or "(without one)",
                    str(session_pb.node_count),
                    str(session_pb.graph_count),
                    str(session_pb.step_count),
                )
    return table if table.row_count else Text("No sessions.", "dim")


def _steps_tables(tasks: list[TaskReport]) -> list[RenderableType]:
    """Return what is told of steps, as one table; none if there is nothing to tell."""
    title = "Steps that run for long, or ended badly"
    table = _table(title, "task", "step", "state", "what happened", right=("step",))
    for task in tasks:
        assert task.status is not None
        for step in task.status.step:
            lasted = format_duration(step.seconds)
            state = f"running for {lasted}" if step.is_running else f"failed {lasted} ago"
            table.add_row(task.name, str(step.step_id), state, step.story)
    return [table] if table.row_count else []


def _resources_table(tasks: list[TaskReport]) -> RenderableType:
    rows = [
        (task.name, row)
        for task in tasks
        if task.status is not None
        for row in task.status.resource
    ]
    if not rows:
        return Text("No variables.", "dim")
    total = format_bytes(sum(row.size_bytes for _, row in rows))
    title = f"Variables and other state: {len(rows)}, {total}"
    table = _table(title, "task", "name", "kind", "dtype", "shape", "size", right=("size",))
    rows.sort(key=lambda pair: -pair[1].size_bytes)
    for task, row in rows[:_LONGEST_LIST]:
        size = format_bytes(row.size_bytes)
        table.add_row(task, _name_of(task, row), _kind_of(row), row.dtype, row.shape, size)
    if len(rows) > _LONGEST_LIST:
        table.caption = f"the {_LONGEST_LIST} largest of {len(rows)}"
    return table


def _name_of(task: str, row: pb.ResourceStatus) -> str:
    # The container without a name of its own is called like the job.
    if not row.container or task.startswith(f"/job:{row.container}/"):
        return row.name
    return f"{row.name} (container {row.container})"


def _kind_of(row: pb.ResourceStatus) -> str:
    return "variable" if row.kind == "tensorflow::Var" else row.kind.removeprefix("tensorflow::")


def format_bytes(count: int) -> str:
    """Return a size for people: `996 B`, `1.5 MiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_duration(seconds: float) -> str:
    """Return a duration for people: `42 s`, `3 min`, `5 h 12 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
