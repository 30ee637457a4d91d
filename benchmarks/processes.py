"""Start servers and clients of either runtime, and hold those still that are not measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.figures import Load

ROOT = Path(__file__).resolve().parent.parent
Jobs = tuple[tuple[str, int], ...]
_TIMEOUT_S = 240.0
# What is measured is this checkout, whatever is installed; "before" is another one.
SOURCES = {"tideflow": ROOT / "src"}


def environment(runtime: str) -> dict[str, str]:
    """Return the environment of a process in which a runtime is measured."""
    path = [str(SOURCES.get(runtime, ROOT / "src")), os.environ.get("PYTHONPATH", "")]
    # A first run is one for which nothing has been compiled before.
    cold = {"TIDEFLOW_JIT_CACHE": "off"}
    return {**cold, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


class BenchmarkError(Exception):
    """A process of a benchmark ended, or did not answer in time; its last words are quoted."""


class Process:
    """A child that answers in lines.  It is killed when it is closed, and ends when we do.

    more: variables of its environment beside ours.
    """

    def __init__(
        self,
        *arguments: str,
        module: str = "benchmarks.runtimes",
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._name = " ".join(arguments[:2])
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the child
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**environment(arguments[1] if arguments[1:] else ""), **more},
            # A group of its own: Ctrl-C is for us alone, and a child that is held still when we
            # die is woken and ended by the kernel.
            process_group=0,
        )

    def tell(self, line: str) -> None:
        """Send a line."""
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()

    def answer(self, starts_with: str = "") -> str:
        """Return the next line that starts so.

        Raises:
          BenchmarkError: the process ended, or took too long.
        """
        assert self._child.stdout is not None
        timer = threading.Timer(_TIMEOUT_S, self._child.kill)
        timer.start()
        try:
            while line := self._child.stdout.readline():
                if line.startswith(starts_with):
                    return line.strip()
        finally:
            timer.cancel()
        code = self._child.wait()
        self._errors.seek(0)
        words = self._errors.read()[-2000:].strip()
        raise BenchmarkError(f"{self._name} ended with code {code} before its answer\n{words}")

    def hold(self, still: bool) -> None:
        """Stop the process, or let it go on."""
        self._child.send_signal(signal.SIGSTOP if still else signal.SIGCONT)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nobody uses now."""
    with contextlib.ExitStack() as held:
        found = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(one.getsockname()[1])
        return found


class Cluster:
    """The servers of a runtime, one process for each task but for those of jobs that are absent."""

    def __init__(
        self,
        runtime: str,
        jobs: Jobs,
        module: str = "benchmarks.runtimes",
        more: Mapping[str, str] = MappingProxyType({}),
        absent: Collection[str] = (),
    ) -> None:
        ports = iter(free_ports(sum(count for _, count in jobs)))
        self.addresses = {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in jobs}
        self._last = jobs[-1][0]
        spec = json.dumps(self.addresses)
        self.servers: dict[tuple[str, int], Process] = {}
        try:
            for job, count in jobs:
                for task in range(0 if job in absent else count):
                    self.servers[job, task] = Process(
                        "serve", runtime, spec, job, str(task), module=module, more=more
                    )
            for server in self.servers.values():
                server.answer("ready")
        except BaseException:
            self.close()
            raise

    def target(self, task: int) -> str:
        """Return the session target of a task of the job that was named last."""
        return "grpc://" + self.addresses[self._last][task]

    @property
    def is_alive(self) -> bool:
        """Whether every server still runs."""
        return all(server.is_alive for server in self.servers.values())

    def hold(self, still: bool) -> None:
        """Stop all servers, or let them go on."""
        for server in self.servers.values():
            server.hold(still)

    def close(self) -> None:
        """Kill all servers."""
        for server in self.servers.values():
            server.close()


class Clusters:
    """Keeps one cluster of each runtime for the loads that may share it, still while unused."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Jobs, Cluster]] = {}

    @contextlib.contextmanager
    def of(self, runtime: str, load: Load) -> Iterator[Cluster]:
        """Lend the servers that a load needs."""
        if load.fresh:
            with contextlib.closing(Cluster(runtime, load.jobs)) as cluster:
                yield cluster
            return
        jobs, kept = self._kept.get(runtime, ((), None))
        if kept is None or jobs != load.jobs or not kept.is_alive:
            self._drop(runtime)
            kept = Cluster(runtime, load.jobs)
            self._kept[runtime] = load.jobs, kept
        kept.hold(False)
        try:
            yield kept
        except BaseException:
            # What a failed round left behind is no start for another.
            self._drop(runtime)
            raise
        kept.hold(True)

    def _drop(self, runtime: str) -> None:
        _, old = self._kept.pop(runtime, ((), None))
        if old is not None:
            old.close()

    def close(self) -> None:
        """Kill what is kept."""
        for runtime in list(self._kept):
            self._drop(runtime)


class Clients:
    """The client processes of one round; they load their runtime, then wait for `loaded`."""

    def __init__(self, runtime: str, load: Load) -> None:
        self.processes: list[Process] = []
        try:
            for client in range(load.clients):
                told: dict[str, Any] = {
                    "program": load.program,
                    "arguments": load.arguments_of(client),
                    "steps": load.steps,
                }
                self.processes.append(Process("measure", runtime, json.dumps(told)))
        except BaseException:
            self.close()
            raise
        self._loading = list(self.processes)

    def loaded(self) -> None:
        """Wait until each has loaded its runtime.

        Raises:
          BenchmarkError: one ended, or took too long.
        """
        while self._loading:
            self._loading[-1].answer("loaded")
            self._loading.pop()

    def close(self) -> None:
        """Kill all."""
        for process in self.processes:
            process.close()
