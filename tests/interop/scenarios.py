"""Clusters and clients of both kinds as processes, and how programs are run on them.

    python tests/interop/scenarios.py [part of a program's name]

runs all programs on all clusters with all clients and prints a table: what differs from the same
program on TensorFlow's servers with TensorFlow's client.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

HERE = Path(__file__).parent
TESTS = HERE.parent
SOURCE = HERE.parents[1] / "src"
TASKS = (("worker", 0), ("worker", 1), ("ps", 0))
# The first answer waits for the import of TensorFlow, slow where many share the machine.
REPLY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Kind:
    """A kind of cluster.

    Attributes:
      runtimes: which serves worker 0 (the master of most sessions), worker 1 and ps 0.
      environment: settings of tideflow's servers.
    """

    runtimes: tuple[str, str, str]
    environment: Mapping[str, str] = field(default_factory=dict)


# Neither compiled code nor peer extensions; and everything compiled at once.
_PLAIN = {"TIDEFLOW_JIT": "never", "TIDEFLOW_PEER": "off", "TIDEFLOW_SHARED_MEMORY": "off"}
_COMPILED = {"TIDEFLOW_JIT": "always", "TIDEFLOW_PEER": "on"}
_OURS = ("tideflow", "tideflow", "tideflow")
_THEIRS_LEADS = ("tensorflow", "tideflow", "tideflow")
CLUSTERS = {
    "tensorflow": Kind(("tensorflow", "tensorflow", "tensorflow")),
    "tideflow": Kind(_OURS),
    "tensorflow-leads": Kind(_THEIRS_LEADS),
    "tideflow-leads": Kind(("tideflow", "tensorflow", "tensorflow")),
}
# For TensorFlow's client alone: test_every_way.py has our own on all ways.
SETTINGS = {
    "tideflow, plain": Kind(_OURS, _PLAIN),
    "tideflow, compiled": Kind(_OURS, _COMPILED),
    "tensorflow-leads, plain": Kind(_THEIRS_LEADS, _PLAIN),
    "tensorflow-leads, compiled": Kind(_THEIRS_LEADS, _COMPILED),
}


# How long a process may take to write the stacks of its threads.
_LAST_WORDS_S = 10.0
# How much is told of what a process that has hung or ended wrote to its standard error.
_TOLD_CHARACTERS = 12_000


class Unexpected(Exception):
    """A program failed where it expects no error, or did not end."""


class NoAnswerError(Unexpected):
    """A process did not answer in time; the text has the stacks of its threads."""


class Process:
    """A helper process that answers lines with lines; started on first use.

    prefix is what the command is put behind, to run it elsewhere.
    """

    def __init__(
        self,
        script: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._command = [*prefix, sys.executable, str(HERE / script), *arguments]
        self._environment = environment or {}
        # The monitor of loops is tideflow's: a process of TensorFlow has nothing for it to watch.
        watched = () if "tensorflow" in arguments else (TESTS / "monitored", TESTS)
        self._path = os.pathsep.join(map(str, (HERE, *watched, SOURCE)))
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""

    def ask(self, question: Any, timeout_s: float = REPLY_TIMEOUT_S) -> bytes:
        """Return the answer, and end the process if there is none.

        Raises: Unexpected; NoAnswerError where the process did not answer in time.
        """
        process = self.start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            return self._read_line(process, time.monotonic() + timeout_s)
        except (OSError, Unexpected) as error:
            told = self.end()
            kind = NoAnswerError if isinstance(error, NoAnswerError) else Unexpected
            raise kind(f"{told}\n{self._command[1:]} on {question}: {error}") from None

    def start(self) -> subprocess.Popen[bytes]:
        """Return the process, which is started if it is not there."""
        if self._process is not None:
            return self._process
        environment = {
            **os.environ,
            "PYTHONPATH": self._path,
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_ENABLE_ONEDNN_OPTS": "0",
            # TensorFlow then loads no Keras, a third of its start.
            "TF_USE_LEGACY_KERAS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            **self._environment,
        }
        if not os.environ.get("INTEROP_VERBOSE"):
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (`close` closes it)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self._buffer = b""
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes], deadline_s: float) -> bytes:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise NoAnswerError("no answer in time")
                found = os.read(process.stdout.fileno(), 1 << 20)
                if not found:
                    raise Unexpected(f"the process ended, exit status {process.wait()}")
                self._buffer += found
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def wait(self) -> None:
        """Wait for the end of the process, which must have been started."""
        assert self._process is not None
        self._process.wait()

    @property
    def pid(self) -> int:
        """The id of the process, which must have been started."""
        assert self._process is not None
        return self._process.pid

    def end(self) -> str:
        """End the process; return the end of what it wrote to its standard error.

        One that calls `stacks.tell_when_ended` writes the stacks of its threads as its last words.
        """
        if self._process is None or self._errors is None:
            self.close()
            return ""
        self._process.send_signal(signal.SIGUSR1)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_S)
        length = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, length - _TOLD_CHARACTERS))
        told = self._errors.read().decode(errors="replace")
        self.close()
        return told

    def close(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


class RunningCluster:
    """A cluster of three tasks; TensorFlow's share a process, each of tideflow has its own."""

    def __init__(
        self,
        runtimes: tuple[str, ...],
        tensorflow_server: Process,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        spec = make_spec()
        self.spec = spec
        self.processes: dict[str, Process] = {}
        self.targets: dict[str, str] = {}
        for runtime, (job, task) in zip(runtimes, TASKS):
            if runtime != "tensorflow":
                process = Process("serve.py", runtime, environment=environment)
                self.processes[f"{job}:{task}"] = process
                # All import at the same time.
                process.start()
        for job, task in TASKS:
            name = f"{job}:{task}"
            process = self.processes.get(name, tensorflow_server)
            self.targets[name] = process.ask([spec, job, task]).decode()

    def restart(self, name: str) -> None:
        """Start a task of tideflow anew, at its old address."""
        job, _, task = name.partition(":")
        self.processes[name].close()
        self.processes[name].ask([self.spec, job, int(task)])

    def end(self) -> dict[str, str]:
        """End the tasks that have processes of their own; return their last words, by task."""
        return {task: process.end() for task, process in self.processes.items()}

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


class Bench:
    """All clusters and clients, each started when it is first needed."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        scratch = self._scratch.name
        environment = {"INTEROP_SCRATCH": scratch, "TMPDIR": scratch}
        self._settings = {"TIDEFLOW_JIT_CACHE": os.path.join(scratch, "executables")}
        self.tensorflow_server = Process("serve.py", "tensorflow")
        self._clients = {
            kind: Process("client.py", kind, environment=environment)
            for kind in ("tensorflow", "tideflow")
        }
        self._clusters: dict[str, RunningCluster] = {}
        self._expected: dict[str, Any] = {}

    def cluster(self, name: str) -> RunningCluster:
        if name not in self._clusters:
            kind = {**CLUSTERS, **SETTINGS}[name]
            settings = {**self._settings, **kind.environment}
            made = RunningCluster(kind.runtimes, self.tensorflow_server, settings)
            self._clusters[name] = made
        return self._clusters[name]

    def run(self, program: str, client: str, cluster: str) -> Any:
        """Return what a program returns.  Raises: Unexpected."""
        return self.run_on(program, client, self.cluster(cluster).targets)

    def run_on(self, program: str, client: str, targets: dict[str, str]) -> Any:
        """Return what a program returns on any cluster, or in sessions without one where there
        are no targets.  Raises: Unexpected."""
        return run_program(self._clients[client], program, targets)

    def expected(self, program: str) -> Any:
        """Return what a program returns on TensorFlow's servers with TensorFlow's client."""
        if program not in self._expected:
            try:
                found = self.run(program, "tensorflow", "tensorflow")
            except Unexpected:
                # On a busy machine TensorFlow's own tasks race: a dequeue that its master has
                # cancelled may still take an element, for which the program then waits.
                found = self.run(program, "tensorflow", "tensorflow")
            self._expected[program] = found
        return self._expected[program]

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        for process in (*self._clients.values(), self.tensorflow_server):
            process.close()
        self._scratch.cleanup()


def run_program(client: Process, program: str, targets: dict[str, str]) -> Any:
    """Return what a program returns in a client's process.  Raises: Unexpected."""
    done, found = pickle.loads(base64.b64decode(client.ask([program, targets])))
    if not done:
        raise Unexpected(found)
    return found


def make_spec() -> dict[str, list[str]]:
    """Return a cluster of TASKS on free ports."""
    held = [socket.socket() for _ in TASKS]
    spec: dict[str, list[str]] = {}
    try:
        for one, (job, _) in zip(held, TASKS):
            one.bind(("127.0.0.1", 0))
            spec.setdefault(job, []).append(f"127.0.0.1:{one.getsockname()[1]}")
    finally:
        for one in held:
            one.close()
    return spec


def differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """Tell where two results differ: floats by more than rounding, the rest at all."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if expected.keys() != found.keys():
            yield f"{where}: {expected} != {found}"
            return
        for key, value in expected.items():
            yield from differences(value, found[key], f"{where}[{key!r}]")
    elif isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            yield f"{where}: {expected} != {found}"
            return
        for i, (a, b) in enumerate(zip(expected, found)):
            yield from differences(a, b, f"{where}[{i}]")
    elif any(isinstance(value, dict | list | tuple) for value in (expected, found)):
        yield f"{where}: expected {expected!r}, found {found!r}"
    else:
        a, b = np.asarray(expected), np.asarray(found)
        same = a.dtype == b.dtype and a.shape == b.shape
        if same and a.dtype == object and a.ndim:  # of arrays, perhaps, which do not just compare
            yield from differences(a.tolist(), b.tolist(), where)
            return
        if same and a.dtype.kind in "fc":
            same = np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        elif same:
            same = np.array_equal(a, b)
        if not same:
            yield f"{where}: expected {expected!r}, found {found!r}"


def ways() -> Iterator[tuple[str, str]]:
    """Return the pairs of client and cluster that are compared with TensorFlow alone."""
    for cluster in (*CLUSTERS, *SETTINGS):
        if cluster != "tensorflow":
            yield "tensorflow", cluster
    for cluster in CLUSTERS:
        yield "tideflow", cluster


def main() -> None:
    sys.path.insert(0, str(HERE))
    from programs import PROGRAMS  # noqa: PLC0415  (the path to it is set just above)

    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    bench = Bench()
    bad = 0
    try:
        for name, one in PROGRAMS.items():
            if wanted not in name or not one.clients:
                continue
            try:
                expected = bench.expected(name)
            except Unexpected as error:
                bad += 1
                print(f"{name}: TensorFlow itself: {str(error)[-300:]}")
                continue
            for client, cluster in ways():
                if client not in one.clients:
                    continue
                start_s = time.monotonic()
                try:
                    found = list(differences(expected, bench.run(name, client, cluster)))
                except Unexpected as error:
                    found = [str(error)]
                bad += bool(found)
                mark = "ok " if not found else "BAD"
                spent_s = time.monotonic() - start_s
                print(f"{mark} {name:45} {client:10} on {cluster:26} {spent_s:6.2f} s", flush=True)
                for text in found[:6]:
                    lines = [line for line in text.splitlines() if line.strip()]
                    shown = [line for line in lines if "Error" in line] or lines
                    print("\n".join("    " + line[:300] for line in shown[:3]), flush=True)
    finally:
        bench.close()
    print(f"{bad} bad")


if __name__ == "__main__":
    main()
