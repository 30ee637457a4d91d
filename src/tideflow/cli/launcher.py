"""Runs the tasks of a cluster as processes of this machine, and sees all of them end.

Rule 1: every task is a process group of its own, so that what a task started ends with it.
Rule 2: the run is over when all tasks that work (all but those that serve) have ended well, or one
        has failed, or the run is stopped; the others are then asked to end (SIGTERM), and made to
        (SIGKILL) after a few seconds.  Parameter servers are asked last, so that a chief can still
        save what they keep.  A task that died and may be started again has not failed.
Rule 3: no task outlives this process, even one that is killed: on Linux the kernel sees to that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tideflow.cli.restarts import RestartPolicy, Restarts
from tideflow.cluster import ClusterSpec
from tideflow.platform import clock
from tideflow.transport import free_ports

# How long tasks that work, and then those that serve, may take to end; all is over in five seconds.
STOP_GRACE_S = 3.0
_SERVING_GRACE_S = 1.0
# What a task's last lines may take to arrive after it ended.
_DRAIN_S = 0.5
# Jobs whose tasks serve until they are stopped: without a coordinator, and with one.
SERVING_JOBS = frozenset({"ps"})
COORDINATED_JOBS = frozenset({"ps", "worker"})
# Below the range from which systems choose ports for outgoing connections, so that none of those
# takes a port between its choice and its use.
_PORTS = range(10240, 32768)

_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")


@dataclass(frozen=True, order=True)
class TaskId:
    """A task of a cluster, `worker:1`."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job}:{self.index}"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code, and the task that failed or the signal that stopped it."""

    code: int
    failed: TaskId | None = None
    stopped_by: signal.Signals | None = None


# Called with a task, one line of its output without the end, and whether that came on stderr.
OnLine = Callable[[TaskId, str, bool], None]


@dataclass(frozen=True)
class Death:
    """A task has died and will be started again.

    Attributes:
      code: its exit code.
      number, most: which restart in a row it will be, and of how many at most.
      pause_s: until then.
    """

    task: TaskId
    code: int
    number: int
    most: int
    pause_s: float


def local_cluster(ps: int, workers: int, chief: bool = False) -> ClusterSpec:
    """Return a cluster on free ports of the loopback interface."""
    sizes = {"chief": int(chief), "ps": ps, "worker": workers}
    ports = iter(free_ports(random.sample(_PORTS, len(_PORTS)), sum(sizes.values())))
    return ClusterSpec(
        {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in sizes.items() if n}
    )


def tasks_of(cluster: ClusterSpec) -> list[TaskId]:
    """Return all tasks of a cluster, job by job."""
    return [TaskId(job, index) for job in cluster.jobs for index in cluster.task_indices(job)]


class Launcher:
    """Runs one command as every task of a cluster.

    Args:
      cluster: where each task finds the others; told to it in TF_CONFIG.
      command: the program and its arguments, the same for all tasks.
      on_line: told each line of output.
      environment: what to set besides.
      policy: whether tasks that die are started again; not by default.
      on_death: told of each that will be.
      serving_jobs: the jobs whose tasks serve until they are stopped.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        command: Sequence[str],
        on_line: OnLine,
        environment: Mapping[str, str] | None = None,
        policy: RestartPolicy | None = None,
        on_death: Callable[[Death], None] = lambda death: None,
        serving_jobs: frozenset[str] = SERVING_JOBS,
    ) -> None:
        self.cluster = cluster
        self.tasks = tasks_of(cluster)
        self._command = list(command)
        self._on_line = on_line
        self._environment = {**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"}
        self._policy = policy or RestartPolicy()
        self._on_death = on_death
        self._serving_jobs = serving_jobs
        self._processes: dict[TaskId, Process] = {}
        self._starting: set[asyncio.Task[Process]] = set()
        self._pumps: list[asyncio.Task[None]] = []
        self._transports: list[asyncio.ReadTransport] = []
        self._stopped_by: asyncio.Future[signal.Signals] | None = None

    async def run(self) -> Outcome:
        """Start all tasks, wait for the run's end, and leave no process behind."""
        self._stopped_by = asyncio.get_running_loop().create_future()
        lives: dict[asyncio.Task[int], TaskId] = {}
        with _signals(self._on_signal):
            try:
                for task in self.tasks:
                    process = await self._start(task)
                    lives[asyncio.create_task(self._keep_alive(task, process))] = task
                return await self._watch(lives, self._stopped_by)
            finally:
                for life in lives:
                    life.cancel()
                await asyncio.gather(*lives, *self._starting, return_exceptions=True)
                await self._end_all()

    def process(self, task: TaskId) -> Process:
        """Return a task's latest process."""
        return self._processes[task]

    async def _keep_alive(self, task: TaskId, process: Process) -> int:
        """Wait for a task's end, starting it again while the policy lets it; return its code."""
        restarts = Restarts(self._policy)
        while True:
            since_s = clock.monotonic_s()
            code = await process.wait()
            pause_s = None if code == 0 else restarts.next_pause_s(clock.monotonic_s() - since_s)
            if pause_s is None:
                return code
            # What it left behind may hold its port.
            _signal_group(process, signal.SIGKILL)
            number, most = restarts.in_a_row, self._policy.most
            self._on_death(Death(task, _exit_code(code), number, most, pause_s))
            await asyncio.sleep(pause_s)
            # To its end even when the run ends meanwhile: nobody else knows of the process.
            starting = asyncio.create_task(self._start(task))
            self._starting.add(starting)
            starting.add_done_callback(self._starting.discard)
            process = await asyncio.shield(starting)

    async def _start(self, task: TaskId) -> Process:
        task_json = {"type": task.job, "index": task.index}
        config = json.dumps({"cluster": self.cluster.as_dict(), "task": task_json})
        with contextlib.ExitStack() as ours:
            # Pipes of our own: asyncio's would have `wait` wait for all who hold them, such as a
            # process that the task left behind.
            out = await self._open_pump(task, False, ours)
            err = await self._open_pump(task, True, ours)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_BOOTSTRAP), str(os.getpid()), *self._command),
                stdin=DEVNULL,
                stdout=out,
                stderr=err,
                env={**self._environment, "TF_CONFIG": config},
                start_new_session=True,
            )
        self._processes[task] = process
        return process

    async def _open_pump(self, task: TaskId, is_error: bool, stack: contextlib.ExitStack) -> int:
        """Return a pipe's end to write to, which the stack closes; what comes out is passed on."""
        read_end, write_end = os.pipe()
        stack.callback(os.close, write_end)
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read_end, "rb", 0)
        )
        self._transports.append(transport)
        self._pumps.append(asyncio.create_task(self._pump(task, stream, is_error)))
        return write_end

    async def _watch(
        self, lives: dict[asyncio.Task[int], TaskId], stopped_by: asyncio.Future[signal.Signals]
    ) -> Outcome:
        working = {life for life, task in lives.items() if task.job not in self._serving_jobs}
        pending: set[asyncio.Future[int] | asyncio.Future[signal.Signals]] = {*lives, stopped_by}
        while working & pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if stopped_by in done:
                by = stopped_by.result()
                return Outcome(128 + by, stopped_by=by)
            for life, task in lives.items():
                if life in done and life.result() != 0:
                    return Outcome(_exit_code(life.result()), failed=task)
        return Outcome(0)

    def _on_signal(self, number: signal.Signals) -> None:
        assert self._stopped_by is not None
        if not self._stopped_by.done():
            self._stopped_by.set_result(number)
        else:  # the user has asked again
            self._signal_all(signal.SIGKILL)

    async def _end_all(self) -> None:
        for serves, grace_s in ((False, STOP_GRACE_S), (True, _SERVING_GRACE_S)):
            asked = [
                p for t, p in self._processes.items() if (t.job in self._serving_jobs) is serves
            ]
            for process in asked:
                _signal_group(process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await asyncio.gather(*(process.wait() for process in asked))
        # Also for groups whose first process has ended: it may have left others.
        self._signal_all(signal.SIGKILL)
        await asyncio.gather(*(process.wait() for process in self._processes.values()))
        if self._pumps:
            _, late = await asyncio.wait(self._pumps, timeout=_DRAIN_S)
            for pump in late:
                pump.cancel()
        for transport in self._transports:
            transport.close()

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            _signal_group(process, number)

    async def _pump(self, task: TaskId, stream: asyncio.StreamReader, is_error: bool) -> None:
        try:
            await self._pass_on(task, stream, is_error)
        except BrokenPipeError:  # who read our output has gone, as `head` does
            assert self._stopped_by is not None
            if not self._stopped_by.done():
                self._stopped_by.set_result(signal.SIGPIPE)

    async def _pass_on(self, task: TaskId, stream: asyncio.StreamReader, is_error: bool) -> None:
        rest = b""
        while chunk := await stream.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._on_line(task, _text(line), is_error)
        if rest:
            self._on_line(task, _text(rest), is_error)


def _signal_group(process: Process, number: signal.Signals) -> None:
    """Signal a task's process and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def _exit_code(returned: int) -> int:
    """Return the code as shells have it: 128 and the signal for a process that one ended."""
    return returned if returned >= 0 else 128 - returned


def describe_exit(code: int) -> str:
    """Return an exit code in words: `exited with 3`, `was killed by SIGKILL`."""
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(code - 128).name} (exit code {code})"
    return f"exited with code {code}"


@contextlib.contextmanager
def _signals(handle: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `handle` instead where a signal would end this process."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
