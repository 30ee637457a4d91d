"""Tasks of the loop that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# A task that only its own waiting refers to would be dropped as garbage, unfinished.
_running: set[asyncio.Task[Any]] = set()


def spawn(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task on the running loop and keep it until it ends (call on the loop).

    Whoever starts it sees to it that it ends.
    """
    task = asyncio.get_running_loop().create_task(coro)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task
