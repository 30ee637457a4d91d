"""What tests leave behind is told by name."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable

import pytest

from leaks import Watch
from tideflow.runtime.loop import get_loop, run_sync
from tideflow.transport.h2.shared_memory import pool


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


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: list(os.pipe()), "pipe:"),
        (lambda: [os.eventfd(0)], "eventfd"),
        (lambda: [os.memfd_create("stray")], "/memfd:stray"),
    ],
)
def test_descriptors_without_a_path_count(
    make: Callable[[], list[int]], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where an earlier test of this process has loaded grpcio, eventfds are taken for its own.
    for name in ("grpc._cython.cygrpc", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    watch = Watch(wait_s=0.0)
    opened = make()
    watch.note("test_two")
    with pytest.raises(AssertionError, match=f"{kind}.*since test_two"):
        watch.require_nothing_left()
    for number in opened:
        os.close(number)
    watch.require_nothing_left()


def test_shared_memory_that_waits_for_the_next_message_is_no_leak() -> None:
    watch = Watch(wait_s=0.0)
    segments = pool(1 << 30)
    lent = segments.lend(1 << 20)
    assert lent is not None
    watch.note("test_three")
    with pytest.raises(AssertionError, match=r"/memfd:tideflow .*since test_three"):
        watch.require_nothing_left()
    segments.take_back(lent, lent.number)
    del lent
    watch.require_nothing_left()


def test_tasks_of_ours_count() -> None:
    watch = Watch()

    async def start() -> asyncio.Task[None]:
        return get_loop().create_task(asyncio.sleep(3600))

    task = run_sync(start())
    watch.require_nothing_left()  # asyncio's own code is not ours
    get_loop().call_soon_threadsafe(task.cancel)
