"""The command line as processes, for tests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from loop_monitor import watching_path
from tideflow.wire import errors

ROOT = Path(__file__).parents[2]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that finds this checkout, and watches its loop.

    There is no cluster in it, unless extra has one.
    """
    found = {**os.environ, "PYTHONPATH": watching_path(), "OMP_NUM_THREADS": "1", **(extra or {})}
    if extra is None or "TF_CONFIG" not in extra:
        found.pop("TF_CONFIG", None)
    return found


class Command:
    """A running `tideflow ...`, or another program of Python."""

    def __init__(
        self,
        *args: str,
        program: tuple[str, ...] = ("-m", "tideflow"),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(env),
            cwd=ROOT,
        )
        self.lines: list[str] = []

    def read_until(self, *wanted: str) -> list[str]:
        """Return the lines of stdout up to the one that completes what is wanted."""
        missing = set(wanted)
        assert self.process.stdout is not None
        while missing:
            line = self.process.stdout.readline()
            assert line, f"ended before it said {missing}: {self.lines}{self._errors()}"
            self.lines.append(line.rstrip("\n"))
            missing = {text for text in missing if text not in line}
        return self.lines

    def _errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout_s: float = 100) -> tuple[int, str, str]:
        """Wait for the end; return the exit code, and all of stdout and stderr."""
        rest, err = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, "\n".join([*self.lines, rest]), err

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def tf_config(cluster: Mapping[str, list[str]], job: str, index: int) -> dict[str, str]:
    """Return an environment that gives a task its place."""
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})}


def wait_until_dead(pids: Iterable[int]) -> None:
    """Wait for the end of processes that are not our children.

    Raises: DeadlineExceededError after ten seconds.
    """
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            _wait_for_pidfd(handle, pid)
        finally:
            os.close(handle)


def _wait_for_pidfd(handle: int, pid: int) -> None:
    if not select.select([handle], [], [], 10)[0]:
        raise errors.DeadlineExceededError(f"process {pid} is alive after 10 s")
