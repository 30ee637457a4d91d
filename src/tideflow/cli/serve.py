"""`tideflow serve`: one task of a cluster in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import click

from tideflow.cli.ending import ended_in_time
from tideflow.cli.problems import UsageProblem, told_to_user
from tideflow.cli.settings import set_option, settings_from, tls_options, with_tls
from tideflow.cluster import ClusterSpec, Server, TaskConfig
from tideflow.cluster.memory_limit import end_of_memory
from tideflow.platform import waits
from tideflow.platform.settings import NO_FILES, Settings, using
from tideflow.transport import is_loopback
from tideflow.transport.credentials import reload_all
from tideflow.wire import messages as pb

_EXAMPLE = '{"ps": ["localhost:2222"], "worker": ["localhost:2223", "localhost:2224"]}'
_PLACE = f"""Say which cluster and which place in it:
  tideflow serve --cluster '{_EXAMPLE}' --job ps --task 0
or set TF_CONFIG."""
_CLUSTER = f"Give --cluster JSON like {_EXAMPLE}\nor a file with such text."


@click.command(short_help="Be one task of a cluster.", params=[set_option(), *tls_options()])
@click.option("--cluster", metavar="JSON|FILE", help=f"The cluster: JSON like {_EXAMPLE}.")
@click.option("--job", help="The job of this task, such as ps or worker.")
@click.option("--task", type=int, help="The index of this task in its job.")
@click.option(
    "--listen-all",
    is_flag=True,
    help="Listen on every interface, which takes --tls, or --insecure.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Answer whoever reaches the port, from any host: anybody can then run code here.",
)
@click.option(
    "--insecure-peer",
    "insecure_peers",
    multiple=True,
    metavar="CIDR",
    help="Speak to the hosts of a network without TLS or proof, as to TensorFlow's servers.",
)
@click.option(
    "--allow-local-users",
    is_flag=True,
    help="Answer other users of this host, too, not just the own one and root.",
)
@click.option(
    "--file-root",
    "file_roots",
    multiple=True,
    metavar="DIR",
    help="Let graphs reach files beneath a folder, and no others; may be given again.",
)
@click.option(
    "--cpus",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many CPU devices to offer.",
)
@click.option(
    "--session-gc",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=0.0,
    show_default=True,
    help="Close sessions that no client used for so long, as those of clients that died; 0 never.",
)
def serve(
    cluster: str | None,
    job: str | None,
    task: int | None,
    listen_all: bool,
    insecure: bool,
    insecure_peers: tuple[str, ...],
    allow_local_users: bool,
    file_roots: tuple[str, ...],
    cpus: int,
    session_gc: float,
    words: tuple[str, ...],
    **identity: str | None,
) -> None:
    """Run one task of a cluster until it is stopped by Ctrl-C or SIGTERM.

    The server holds variables, runs parts of graphs, and is a master through which sessions reach
    the whole cluster. It prints one line when it is ready. Cluster, job and task are read from
    TF_CONFIG where options do not give them.

    It answers its own user and root, on this host. At an address that other hosts reach it does not
    start without certificates (--tls), or --insecure. Certificates are read again when their files
    change, and at SIGHUP.

    Graphs reach all files that the own user can, unless --file-root says which; at an address that
    other hosts reach, none without it.

    \b
    Examples:
      tideflow serve --cluster '{"ps": ["localhost:2222"]}' --job ps --task 0
      tideflow serve --cluster cluster.json --job worker --task 1 --cpus 2 --set jit=never
      tideflow serve --cluster cluster.json --job worker --task 1 --tls certs

    \b
    Exit codes:
      0  stopped by Ctrl-C or SIGTERM
      1  the server could not start, such as when its port is taken
      2  the cluster, the task's place in it or a setting is wrong
    """
    settings = with_tls(settings_from(words), **identity)
    if insecure_peers:
        with told_to_user("Write networks as 10.0.0.0/24.", UsageProblem):
            settings = settings.replace(insecure_peers=",".join(insecure_peers))
    if file_roots:
        with told_to_user("Give folders that are there.", UsageProblem):
            folders = os.pathsep.join(map(os.path.abspath, file_roots))
            settings = settings.replace(file_roots=folders)
    with (
        using(settings),
        stopped_by_signals() as stop,
        _certificates_by_signal(settings),
        contextlib.ExitStack() as watched,
    ):
        spec, job, task = _place(cluster, job, task)
        with told_to_user("Correct --job or --task, or add the task to the cluster.", UsageProblem):
            address = spec.task_address(job, task)
        if not settings.file_roots and (listen_all or not is_loopback(address)):
            watched.enter_context(using(settings.replace(file_roots=NO_FILES)))
        config = pb.ConfigProto(device_count={"CPU": cpus})
        watched.enter_context(ended_in_time())
        end_of_memory(settings.memory)
        with told_to_user("Look at the address that the cluster gives this task."):
            server = Server(
                spec,
                job,
                task,
                config=config,
                listen_all=listen_all,
                session_gc_s=session_gc,
                insecure=insecure or None,
                allow_local_users=allow_local_users or None,
            )
        try:
            click.echo(f"/job:{job}/task:{task} is ready at {server.target} ({_devices(cpus)})")
            waits.until(stop.wait)
        finally:
            server.stop()


def _place(cluster: str | None, job: str | None, task: int | None) -> tuple[ClusterSpec, str, int]:
    """Return the cluster and the task from the options and, for what they lack, TF_CONFIG."""
    with told_to_user("Correct TF_CONFIG, or give --cluster, --job and --task.", UsageProblem):
        config = None if cluster and job and task is not None else TaskConfig.from_environment()
    with told_to_user(_CLUSTER, UsageProblem):
        spec = ClusterSpec.from_json(cluster) if cluster else None
    if spec is None and config is not None:
        spec = config.cluster
    if spec is None:
        raise UsageProblem("there is no --cluster, and TF_CONFIG is not set", _PLACE)
    if config is not None:
        job, task = _or_else(job, task, config)
    if job is None or task is None:
        missing = "--job" if job is None else "--task"
        raise UsageProblem(f"{missing} is missing, and TF_CONFIG is not set", _PLACE)
    return spec, job, task


def _or_else(job: str | None, task: int | None, config: TaskConfig) -> tuple[str, int | None]:
    # TF_CONFIG's index is that of a task of its own job.
    if job is None or job == config.job:
        return config.job, config.task if task is None else task
    return job, task


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C and SIGTERM set; a second one ends the process at once.

    What handled the signals before does so again afterwards.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _certificates_by_signal(settings: Settings) -> Iterator[None]:
    """Read certificates again at SIGHUP, which else ends the process."""
    if not settings.tls:
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda number, frame: reload_all())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _devices(cpus: int) -> str:
    return "device CPU:0" if cpus == 1 else f"devices CPU:0 to CPU:{cpus - 1}"
