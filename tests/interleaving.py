"""Every order that one interruption gives, for code that threads share and the collector enters."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def run_interrupted(
    module: ModuleType, at: int, work: Callable[[], Any], inside: Callable[[], Any]
) -> bool:
    """Run `work`, and `inside` just before the line of a module that it comes to as number `at`.

    `inside` runs in the same thread, as finalisers do when objects are collected there.
    Returns: whether `work` got to that line.
    """
    count = 0

    def on_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count == at:
                inside()
        return on_line

    def on_call(frame: FrameType, event: str, arg: Any) -> Any:
        return on_line if frame.f_code.co_filename == module.__file__ else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count >= at


def run_preempted(
    module: ModuleType, at: int, first: Callable[[], Any], second: Callable[[], Any]
) -> bool:
    """Run `first` in a thread, and `second` in another one just before line number `at`, as in
    `run_interrupted`; a lock that `first` holds there keeps `second` waiting.

    Returns: whether `first` got to that line; if not, `second` did not run.
    """
    other = threading.Thread(target=second)
    was_reached = False

    def preempt() -> None:
        other.start()
        other.join(_LOCKED_S)

    def run_first() -> None:
        nonlocal was_reached
        was_reached = run_interrupted(module, at, first, preempt)

    thread = threading.Thread(target=run_first)
    thread.start()
    thread.join()
    if was_reached:
        other.join()
    return was_reached


# How long a thread that does not come back at once counts as one that waits for a lock.
_LOCKED_S = 0.2
