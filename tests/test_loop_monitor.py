"""The monitor that holds every test to an event loop that is free."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from loop_monitor import LoopMonitor, monitored_loop, watching_path

_TESTS = Path(__file__).parent


def burn() -> None:
    """Use the thread for a tenth of a second."""
    ends = time.thread_time() + 0.1
    while time.thread_time() < ends:
        pass


def wait_for_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.2)


def found(
    base: type[Any], work: Callable[[asyncio.AbstractEventLoop], Any], **bounds: float
) -> list[str]:
    """Return what a monitor finds in a loop that runs work to its end."""
    monitor = LoopMonitor(**bounds)
    loop = monitored_loop(monitor, base)()
    try:
        work(loop)
    finally:
        loop.close()
    return monitor.found


async def in_a_step() -> None:
    await asyncio.sleep(0)
    burn()


async def in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(burn)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def in_a_timer() -> None:
    asyncio.get_running_loop().call_later(0.001, burn)
    await asyncio.sleep(0.1)


async def from_a_thread() -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon_threadsafe(lambda: (burn(), done.set_result(None)))
    await done


async def in_many_short_ones() -> None:
    for _ in range(100):
        ends = time.thread_time() + 0.002
        while time.thread_time() < ends:
            pass
        await asyncio.sleep(0)


async def in_a_thread() -> None:
    await asyncio.get_running_loop().run_in_executor(None, burn)


@pytest.mark.parametrize("base", [uvloop.Loop, asyncio.SelectorEventLoop])
@pytest.mark.parametrize("work", [in_a_step, in_a_callback, in_a_timer, from_a_thread])
def test_a_callback_that_keeps_the_loop_is_found(base: type[Any], work: Any) -> None:
    [text] = found(base, lambda loop: loop.run_until_complete(work()))
    assert "of the loop's thread" in text


@pytest.mark.parametrize("base", [uvloop.Loop, asyncio.SelectorEventLoop])
@pytest.mark.parametrize("work", [in_many_short_ones, in_a_thread])
def test_a_loop_that_is_free_is_left_alone(base: type[Any], work: Any) -> None:
    assert not found(base, lambda loop: loop.run_until_complete(work()))


def test_a_callback_that_waits_is_found_by_the_clock() -> None:
    async def work() -> None:
        wait_for_lock()

    [text] = found(uvloop.Loop, lambda loop: loop.run_until_complete(work()), most_wait_s=0.1)
    assert "work" in text


_PROGRAM = """
import asyncio, time
from tideflow.runtime.loop import run_sync

async def keep():
    ends = time.thread_time() + 0.1
    while time.thread_time() < ends:
        pass

run_sync(keep())
run_sync(asyncio.sleep(0))
"""


def test_a_process_watches_itself_where_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "found"
    environment = {**os.environ, "LOOP_MONITOR": str(path), "PYTHONPATH": watching_path()}
    subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, check=True, timeout=60)
    assert "keep" in path.read_text()
