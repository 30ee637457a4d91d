"""A process with servers and clients of a tf.data service: `python helper.py KIND`.

Each line of its standard input asks for one thing, and it answers with a line of JSON:

  dispatcher [WORK_DIR [PORT]]  a dispatcher, which tolerates faults in a WORK_DIR; the answer is
                                its address
  worker ADDRESS [PORT]         a worker of a dispatcher
  client ADDRESS                what datasets.py gives there
  save ADDRESS PATH             has the workers write datasets.py's snapshots below a directory; the
                                answer says what was refused
  load PATH                     what is in those

KIND is tideflow or tensorflow.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.servers import make_environment
from data_service.datasets import found_by, loaded_by, saved_by

# TensorFlow then loads no Keras, a third of its start.
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_USE_LEGACY_KERAS": "1",
}


class Helper:
    """The process, as those see it who ask."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**make_environment(), **_QUIET},
        )

    def ask(self, *words: str) -> Any:
        """Ask for one thing; return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def helper(kind: str) -> Iterator[Helper]:
    """Start a process, and end it afterwards."""
    made = Helper(kind)
    try:
        yield made
    finally:
        made.kill()


def main() -> None:
    tf = importlib.import_module(sys.argv[1])
    service = tf.data.experimental.service
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kept = []
    for line in sys.stdin:
        what, *rest = line.split()
        answer: Any = None
        if what == "dispatcher":
            kept.append(service.DispatchServer(_dispatcher_config(service, rest)))
            answer = kept[-1].target.rpartition("://")[2]
        elif what == "worker":
            port = int(rest[1]) if len(rest) > 1 else 0
            config = service.WorkerConfig(rest[0], port=port, heartbeat_interval_ms=200)
            kept.append(service.WorkerServer(config))
        elif what == "save":
            answer = saved_by(tf, *rest)
        elif what == "load":
            answer = loaded_by(tf, *rest)
        else:
            answer = found_by(tf, f"grpc://{rest[0]}")
        print(json.dumps(answer), file=answers, flush=True)


def _dispatcher_config(service: Any, words: list[str]) -> Any:
    if not words:
        return None
    work_dir, port = [*words, "0"][:2]
    return service.DispatcherConfig(int(port), work_dir=work_dir, fault_tolerant_mode=True)


if __name__ == "__main__":
    main()
