"""Watches the event loop in tests: no callback may keep it from everything else.

What counts is the CPU time of the loop's own thread in one callback, without that of the garbage
collector: a busy machine makes nothing slower.  A callback that waits uses no CPU time; it is found
by the clock, with a bound that no preemption reaches.  While a callback is at it, its stack is
looked at from outside, so that the culprit can be named.

A process that tests start watches its own loop where LOOP_MONITOR names a file for what it finds,
and the folder `monitored` is on its PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What a callback may use of the loop's thread, and how long it may wait.
MOST_CPU_S = 0.05
MOST_WAIT_S = 5.0
_LOOK_S = 0.01
_TESTS = Path(__file__).parent
_PROJECT = _TESTS.parent


class LoopMonitor:
    """Finds callbacks that keep the loop.

    Args:
      most_cpu_s, most_wait_s: what a callback may use, and how long it may take.

    Attributes:
      found: what was found, as text for people.
    """

    def __init__(self, most_cpu_s: float = MOST_CPU_S, most_wait_s: float = MOST_WAIT_S) -> None:
        self._most_cpu_s = most_cpu_s
        self._most_wait_s = most_wait_s
        self.found: list[str] = []
        self._thread_id = 0
        self._since: float | None = None
        self._stacks: list[list[traceback.FrameSummary]] = []
        self._looks = 0
        self._is_watched = False
        self._collected_s = 0.0
        self._collecting_since = 0.0

    def run(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call a callback on the loop's thread, and look how long it takes."""
        if self._since is not None:  # within another one
            return callback(*args)
        self._thread_id = threading.get_ident()
        self._stacks = []
        self._looks = 0
        self._collected_s = 0.0
        self._since = began = time.monotonic()
        used = time.thread_time()
        try:
            return callback(*args)
        finally:
            used = time.thread_time() - used - self._collected_s
            took = time.monotonic() - began
            self._since = None
            if used > self._most_cpu_s or (took > self._most_wait_s and self._ran(took)):
                self._note(callback, used, took)

    def _ran(self, took: float) -> bool:
        """Whether the process ran meanwhile: tests stop and starve some, which is no wait."""
        return not self._is_watched or self._looks * _LOOK_S > took / 10

    def _note(self, callback: Callable[..., Any], used: float, took: float) -> None:
        stacks = [stack for stack in self._stacks if stack]
        if _is_test(callback) or (stacks and all(_is_of_test(stack) for stack in stacks)):
            return
        if not stacks and not _is_ours(callback):
            return
        name = getattr(callback, "__self__", callback)
        lines = [f"a callback used {used:.3f} s of the loop's thread, in {took:.3f} s: {name!r}"]
        for stack in stacks[:: max(1, len(stacks) // 3)][:3]:
            lines += ["  seen at:", *traceback.StackSummary.from_list(stack[-12:]).format()]
        self.found.append("\n".join(lines))

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Take note of what the garbage collector uses (one of gc.callbacks)."""
        if self._since is None or threading.get_ident() != self._thread_id:
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collected_s += time.thread_time() - self._collecting_since

    def look(self) -> None:
        """Look what the callback that runs now is at; for a thread of its own, again and again."""
        since = self._since
        if since is None or time.monotonic() - since < _LOOK_S:
            return
        self._looks += 1
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - a public function
        if frame is not None and self._since == since:
            self._stacks.append(_project_frames(frame))

    def watch(self) -> None:
        """Begin to look, for as long as the process lives."""
        self._is_watched = True
        gc.callbacks.append(self.on_collection)
        threading.Thread(target=self._look_always, name="loop-monitor", daemon=True).start()

    def _look_always(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            self.look()


def _project_frames(frame: Any) -> list[traceback.FrameSummary]:
    """Return the frames of a stack, outermost first, that are the project's."""
    return [
        summary
        for summary in traceback.extract_stack(frame)
        if Path(summary.filename).is_relative_to(_PROJECT)
        and ".venv" not in Path(summary.filename).parts
        and not summary.filename.endswith("loop_monitor.py")
    ]


def _is_of_test(stack: list[traceback.FrameSummary]) -> bool:
    """Whether what is done is done by a test's code."""
    return Path(stack[-1].filename).is_relative_to(_TESTS)


def _is_test(callback: Callable[..., Any]) -> bool:
    """Whether a callback is a step of the task in which a coroutine test runs."""
    task = getattr(callback, "__self__", None)
    return isinstance(task, asyncio.Task) and "_leaving_no_task" in repr(task.get_coro())


def _is_ours(callback: Callable[..., Any]) -> bool:
    """Whether a callback, or the task of which it is a step, runs the project's code."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coro = task.get_coro()
        code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
    else:
        code = getattr(callback, "__code__", None)
    return code is None or Path(code.co_filename).is_relative_to(_PROJECT)


def monitored_loop(monitor: LoopMonitor, base: type[Any]) -> type[Any]:
    """Return a class of event loops whose callbacks are watched."""

    class MonitoredLoop(base):  # type: ignore[misc]
        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon(monitor.run, callback, *args, context=context)

        def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_soon_threadsafe(monitor.run, callback, *args, context=context)

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_later(delay, monitor.run, callback, *args, context=context)

        def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_at(when, monitor.run, callback, *args, context=context)

    return MonitoredLoop


def install(monitor: LoopMonitor) -> None:
    """Have the process's loop watched; call it before the loop is started."""
    from tideflow.runtime import loop  # noqa: PLC0415 - not before tests want it
    from tideflow.transport.h2.link import Link  # noqa: PLC0415

    try:
        from uvloop import Loop as base  # noqa: N813, PLC0415
    except ImportError:
        base = asyncio.SelectorEventLoop  # type: ignore[assignment, misc]
    loop.new_event_loop = monitored_loop(monitor, base)
    # The loop calls these itself, without a handle.
    for name in ("buffer_updated", "connection_made", "connection_lost", "resume_writing"):
        setattr(Link, name, _watched(monitor, getattr(Link, name)))
    monitor.watch()


def _watched(monitor: LoopMonitor, method: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any) -> Any:
        return monitor.run(method, self, *args)

    return run


class _Told(list[str]):
    """Texts that go to a file as well."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def append(self, text: str) -> None:
        super().append(text)
        with open(self._path, "a") as file:
            file.write(text + "\n")


def watching_path(*folders: str | Path) -> str:
    """Return the PYTHONPATH of a process that finds tideflow and these folders, and watches its
    own loop."""
    return os.pathsep.join(map(str, (*folders, _TESTS / "monitored", _TESTS, _PROJECT / "src")))


def install_in_process() -> None:
    """Watch the loop of a process that a test has started, where the test asks for it."""
    path = os.environ.get("LOOP_MONITOR")
    if path:
        monitor = LoopMonitor()
        monitor.found = _Told(path)
        install(monitor)
