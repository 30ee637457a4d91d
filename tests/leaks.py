"""What tests have opened in this process and not closed: sockets, files, pipes, memory with a
descriptor, what waits for events, threads, tasks, caches.

What is made once for the whole process, and stays on purpose, is named here.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tideflow.blocking.pools import DATA, FILE_PARTS, FILES, FUNCTIONS, GRAPHS, KERNELS, MESSAGES
from tideflow.platform import clock
from tideflow.runtime.loop import get_loop, loop_has_started, run_sync
from tideflow.transport.h2.shared_memory import PROBE_NAME, trim_pools

# Threads of the process: the loop, pools that all share, those that wait for what a strategy has
# replicas do next, and those of libraries.
_POOLS = "|".join(
    pool.name for pool in (KERNELS, GRAPHS, DATA, MESSAGES, FILES, FILE_PARTS, FUNCTIONS)
)
_SHARED_THREADS = re.compile(
    r"MainThread|Dummy-\d+|execnet.*|pytest.*|uvloop_\d+|asyncio_\d+"
    rf"|tideflow-(loop|compiler|replica|(memory|{_POOLS})(_\d+)?)"
    r"|Thread-\d+ \(_poll_wrapper\)"
)
# The thread and the pair of sockets that all of grpcio's asyncio channels and servers share; grpcio
# lets go of them when it suits it.
_GRPCIO_POLLER = "(_poll_wrapper)"
_UNNAMED_PAIR = " to "
# What processes find each other's shared memory by, as long as they live.
_FOR_LIFE = f"/memfd:{PROBE_NAME} "
# Descriptors without a path: pipes, shared memory, and what waits for events.
_PATHLESS = ("pipe:", "/memfd:", "anon_inode:")
_WAIT_S = 10.0

Found = dict[str, str]


def look() -> Found:
    """Return what is open now: what it is, for messages, by a key that no other thing has."""
    return {**_threads(), **_descriptors(), **_tasks()}


def _threads() -> Found:
    return {
        f"thread {thread.ident} {thread.name}": f"thread {thread.name!r}"
        for thread in threading.enumerate()
        if not _SHARED_THREADS.fullmatch(thread.name)
    }


def _descriptors() -> Found:
    found = {}
    polls = "tensorflow" in sys.modules or any(
        thread.name.endswith(_GRPCIO_POLLER) for thread in threading.enumerate()
    )
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith("socket:"):
                ends = _ends_of(int(name))
                if not (polls and ends == _UNNAMED_PAIR) and not _is_tensorflows(ends):
                    found[f"{name} {target}"] = f"socket {name}: {ends}"
            elif target.startswith(_PATHLESS):
                if not target.startswith(_FOR_LIFE) and not _is_grpcios(target):
                    found[f"{name} {target}"] = f"descriptor {name}: {target}"
            elif target.startswith("/") and _is_of_a_test(target):
                found[f"{name} {target}"] = f"file {target}"
    return found


def _is_grpcios(target: str) -> bool:
    """Whether a descriptor may be one by which threads of grpcio wait for events.

    It makes them, and lets go of them, whether or not there are channels of Python's; TensorFlow
    holds a grpcio of its own.
    """
    is_loaded = "grpc._cython.cygrpc" in sys.modules or "tensorflow" in sys.modules
    return is_loaded and target.startswith("anon_inode:[event")


def _is_tensorflows(ends: str) -> bool:
    """Whether a socket is of a real TensorFlow's server in this process, which cannot be stopped
    and listens at every address."""
    return "tensorflow" in sys.modules and ends.startswith("('::',")


def _is_of_a_test(path: str) -> bool:
    """Whether a file is one that a test may have opened, rather than a library or a device."""
    return path.startswith(("/tmp/pytest-", "/dev/shm/")) or path.endswith(".lock")


def _ends_of(number: int) -> str:
    copy = socket.socket(fileno=os.dup(number))
    with copy:
        try:
            return f"{copy.getsockname()} to {copy.getpeername()}"
        except OSError:
            return f"{copy.getsockname()}, without a peer"


def _tasks() -> Found:
    if not loop_has_started():
        return {}
    return run_sync(_own_tasks())


async def _own_tasks() -> Found:
    current = asyncio.current_task()
    return {
        f"task {id(task)} {task.get_name()}": f"task {task.get_coro()!r}"
        for task in asyncio.all_tasks(get_loop())
        if task is not current and is_ours(task)
    }


def is_ours(task: asyncio.Task[Any]) -> bool:
    """Whether a task runs our code; grpcio's servers end theirs when it suits them."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "tideflow" in Path(code.co_filename).parts


class Watch:
    """Tells which test has left what behind.

    Things that end by themselves have until the end of a module; so have those that the fixtures of
    a whole module hold.

    Args:
      wait_s: how long the end of those that end by themselves is waited for.
    """

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        get_loop()  # which holds what it waits by as long as the process lives
        self._before = look()
        self._made_by: dict[str, str] = {}

    def note(self, test: str) -> None:
        """Take note of what is there after a test and was not before."""
        for key in look():
            if key not in self._before:
                self._made_by.setdefault(key, test)

    def require_nothing_left(self) -> None:
        """Wait for what ends by itself; fail for the rest, by name.

        Raises: AssertionError that says what is left, and after which test it was first there.
        """
        _empty_caches()
        gc.collect()
        until_s = clock.monotonic_s() + self._wait_s
        while (left := self._left()) and clock.monotonic_s() < until_s:
            clock.sleep(0.02)
        assert not left, "left behind:\n" + "\n".join(
            f"  {what}, since {self._made_by.get(key, 'the fixtures')}"
            for key, what in left.items()
        )

    def _left(self) -> Found:
        found = {key: what for key, what in look().items() if key not in self._before}
        if not any(" pipe:" in key for key in found):
            return found
        talked = _pipes_to_running_processes()
        return {key: what for key, what in found.items() if key.partition(" ")[0] not in talked}


def _pipes_to_running_processes() -> set[str]:
    """Return the descriptors by which fixtures of a whole run talk to processes of theirs."""
    running = [
        one for one in gc.get_objects() if type(one) is subprocess.Popen and one.poll() is None
    ]
    ends = [end for one in running for end in (one.stdin, one.stdout, one.stderr)]
    return {str(end.fileno()) for end in ends if end is not None and not end.closed}


def _empty_caches() -> None:
    """Close what the process keeps for the next use, or until a program says that it needs it no
    more."""
    trim_pools(0.0)
    summaries = sys.modules.get("tideflow.train.summaries")
    if summaries is not None:
        summaries.FileWriterCache.clear()


def watching() -> Iterator[Callable[[str], None]]:
    """Give a function that is told of the end of each test; check at the end."""
    watch = Watch()
    yield watch.note
    watch.require_nothing_left()
