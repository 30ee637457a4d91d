"""What tests leave behind is told by name."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from leaks import Watch
from tideflow.runtime.loop import get_loop, run_sync


def test_what_is_closed_again_is_no_leak() -> None:
    watch = Watch()
    with socket.socket():
        pass
    watch.note("a test")
    watch.require_nothing_left()


def test_a_socket_a_thread_and_a_task_are_named() -> None:
    watch = Watch(wait_s=0.0)
    may_end = threading.Event()
    thread = threading.Thread(target=may_end.wait, name="stray")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread.start()
        watch.note("test_one")
        with pytest.raises(AssertionError) as raised:
            watch.require_nothing_left()
    may_end.set()
    thread.join()
    assert str(listening.type)  # it was closed here alone
    text = str(raised.value)
    assert "thread 'stray', since test_one" in text
    assert "socket" in text
    assert "127.0.0.1" in text
    Watch(wait_s=0.0).require_nothing_left()


def test_tasks_of_ours_count() -> None:
    watch = Watch()

    async def start() -> asyncio.Task[None]:
        return get_loop().create_task(asyncio.sleep(3600))

    task = run_sync(start())
    watch.require_nothing_left()  # asyncio's own code is not ours
    get_loop().call_soon_threadsafe(task.cancel)
