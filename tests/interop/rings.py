"""Members of collectives in processes of their own, of either kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from cluster.servers import free_ports, make_environment

_PROGRAM = Path(__file__).with_name("ring_member.py")
# TensorFlow then loads no Keras, a third of its start.
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_USE_LEGACY_KERAS": "1",
}


class MemberProcess:
    """One task, ready once `wait_ready` has returned."""

    def __init__(self, kind: str, cluster: dict[str, list[str]], task: int, devices: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), kind, json.dumps(cluster), str(task), str(devices)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if kind == "tensorflow" else None,
            text=True,
            env={**make_environment(), **_QUIET, "PATH": os.environ["PATH"]},
        )

    def wait_ready(self) -> None:
        assert self.answer() == "ready"

    def ask(self, collectives: Sequence[Any]) -> None:
        """Begin to run collectives; the answer comes later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(collectives) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer to the oldest question."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        return line if line in ("", "ready") else json.loads(line)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Ring:
    """Members of several kinds, of job worker: `with Ring(["tideflow", "tensorflow"]) as ring`."""

    def __init__(self, kinds: Sequence[str], devices: int = 1) -> None:
        self.devices = devices
        self.size = len(kinds) * devices
        self.cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(len(kinds))]}
        self.members = [self.start(kind, task) for task, kind in enumerate(kinds)]

    def start(self, kind: str, task: int) -> MemberProcess:
        return MemberProcess(kind, self.cluster, task, self.devices)

    def __enter__(self) -> Ring:
        for member in self.members:
            member.wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.close()

    def run(self, op: str, count: int, dtype: str = "float32", **facts: Any) -> list[Any]:
        """Run one collective at all members; return the answers of all devices by rank."""
        for member in self.members:
            member.ask([[op, count, dtype, facts]])
        answers = [member.answer() for member in self.members]
        assert all(isinstance(answer[0], list) for answer in answers), answers
        return [one for answer in answers for one in answer]


def summary(value: Any) -> list[Any]:
    """Return a value as a member answers."""
    array = np.asarray(value)
    return [
        list(array.shape),
        float(array.sum(dtype="float64")),
        array.reshape(-1)[:4].tolist(),
    ]
