"""A tideflow server or client that records when its spans begin and end.

    python -m benchmarks.profiled serve tideflow CLUSTER_JSON JOB TASK
    python -m benchmarks.profiled measure LOAD_JSON

Like benchmarks.runtimes, but both are told "record" or "functions" and later "stop", and answer
that with JSON: the spans, as [name, begin, end] in nanoseconds of the machine's monotonic clock,
or the functions of the event loop, as [name, calls, seconds].  Spans are the public methods that a
step goes through, wrapped; a span takes about 0.3 us itself.
"""

from __future__ import annotations

import cProfile
import functools
import inspect
import json
import os
import pstats
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tideflow.v1 as tf
from benchmarks.programs import PROGRAMS
from benchmarks.runtimes import end_with_parent, warm
from tideflow.client.session import Session
from tideflow.cluster.master import Master
from tideflow.cluster.worker import Worker
from tideflow.runtime.executor import Executor
from tideflow.runtime.loop import run_sync
from tideflow.transport.channel import Channel
from tideflow.transport.h2.blocking import BlockingCalls
from tideflow.transport.inprocess import LocalChannel

Span = tuple[str, int, int]


class Recorder:
    """Keeps spans while it is told to."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.active = False

    def wrap(self, owner: type, method: str, name: Callable[..., str]) -> None:
        """Record the calls of a method; `name` is given the call's arguments."""
        inner = getattr(owner, method)
        clock = time.perf_counter_ns

        @functools.wraps(inner)
        async def wait(*args: Any, **options: Any) -> Any:
            started = clock()
            try:
                return await inner(*args, **options)
            finally:
                if self.active:
                    self.spans.append((name(*args), started, clock()))

        @functools.wraps(inner)
        def call(*args: Any, **options: Any) -> Any:
            started = clock()
            try:
                return inner(*args, **options)
            finally:
                if self.active:
                    self.spans.append((name(*args), started, clock()))

        setattr(owner, method, wait if inspect.iscoroutinefunction(inner) else call)


def _channels(base: type) -> Iterator[type]:
    for one in base.__subclasses__():
        if one is not LocalChannel and "unary" in vars(one):
            yield one
        yield from _channels(one)


def _fixed(name: str) -> Callable[..., str]:
    return lambda *args: name


def record_spans() -> Recorder:
    """Wrap what a step goes through in this process."""
    recorder = Recorder()
    recorder.wrap(Session, "run", _fixed("Session.run"))
    for channel in set(_channels(Channel)):
        recorder.wrap(channel, "unary", lambda self, method, *rest: f"call of {method.name}")
    # Threads of users call without the channel; steps that need no task go past RunStep.
    recorder.wrap(BlockingCalls, "unary", lambda self, method, *rest: f"call of {method.name}")
    recorder.wrap(Master, "RunStep", _fixed("Master.RunStep"))
    recorder.wrap(Master, "RunStep_at_once", _fixed("Master.RunStep_at_once"))
    recorder.wrap(Master, "run_step", _fixed("Master.run_step"))
    for method in ("RunGraph", "run_graph", "RecvTensor"):
        recorder.wrap(Worker, method, _fixed(f"Worker.{method}"))
    recorder.wrap(Worker, "run_at_once", _fixed("Worker.run_at_once"))
    recorder.wrap(Executor, "run", _fixed("Executor.run"))
    recorder.wrap(Executor, "run_at_once", _fixed("Executor.run_at_once"))
    recorder.wrap(Executor, "run_async", _fixed("Executor.run_async"))
    return recorder


class _Functions:
    """cProfile of the event loop's thread."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    async def start(self) -> None:
        self._profile.enable()

    async def stop(self) -> None:
        self._profile.disable()

    def found(self) -> list[tuple[str, int, float]]:
        stats: Any = pstats.Stats(self._profile)
        return [
            (f"{'/'.join(Path(file).parts[-2:])}:{name}", calls, own)
            for (file, _, name), (_, calls, own, _, _) in stats.stats.items()
        ]


class Told:
    """Starts and stops recording as the lines of the standard input say."""

    def __init__(self) -> None:
        self._recorder = record_spans()
        self._functions: _Functions | None = None

    def obey(self, line: str) -> None:
        """Do what a line says."""
        match line.strip():
            case "record":
                self._recorder.spans.clear()
                self._recorder.active = True
            case "functions":
                self._functions = _Functions()
                run_sync(self._functions.start())
            case "stop":
                self._recorder.active = False
                found: dict[str, Any] = {"spans": self._recorder.spans, "functions": []}
                if self._functions is not None:
                    run_sync(self._functions.stop())
                    found["functions"] = self._functions.found()
                    self._functions = None
                print(json.dumps(found), flush=True)
                return
        print("obeyed", flush=True)


def _serve(cluster: str, job: str, task: str) -> None:
    told = Told()
    server = tf.train.Server(
        tf.train.ClusterSpec(json.loads(cluster)), job_name=job, task_index=int(task)
    )
    threading.Thread(target=server.join, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        told.obey(line)


def _measure(
    program: str,
    arguments: dict[str, Any],
    steps: int,
    target: str,
    cluster: dict[str, list[str]] | None = None,
) -> None:
    """Run steps when told; with a cluster this process is its worker, too."""
    told = Told()
    if cluster is not None:
        spec = tf.train.ClusterSpec(cluster)
        worker = tf.train.Server(spec, job_name="worker", task_index=0)
        target = worker.target
    step = PROGRAMS[program](tf, target, **arguments)
    warm(step, steps)
    print("warm", flush=True)
    for line in sys.stdin:
        if line.strip() == "run":
            for _ in range(steps):
                step()
            print("ran", flush=True)
        else:
            told.obey(line)


if __name__ == "__main__":
    end_with_parent()
    if sys.argv[1] == "serve":
        _serve(*sys.argv[3:])
    else:
        _measure(**json.loads(sys.argv[2]))
    os._exit(0)
