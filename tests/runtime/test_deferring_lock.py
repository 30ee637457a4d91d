"""A lock that finalisers may use wherever they run."""

from __future__ import annotations

import functools
import itertools

from interleaving import run_interrupted, run_preempted
from tideflow.runtime import deferring_lock, resources
from tideflow.runtime.deferring_lock import DeferringLock
from tideflow.runtime.resources import ResourceManager


def test_work_runs_at_once_where_the_lock_is_free() -> None:
    lock, done = DeferringLock(), []
    lock.run_when_free(lambda: done.append(1))
    assert done == [1]


def test_work_waits_until_its_own_thread_is_out_of_the_lock() -> None:
    lock, done = DeferringLock(), []
    with lock:
        with lock:
            lock.run_when_free(lambda: done.append(1))
        assert done == []
    assert done == [1]


def hold(lock: DeferringLock) -> None:
    with lock:
        pass


def test_no_order_of_two_threads_forgets_the_work() -> None:
    for at in itertools.count(1):
        lock, done = DeferringLock(), list[int]()
        defer = functools.partial(lock.run_when_free, functools.partial(done.append, 1))
        was_reached = run_preempted(deferring_lock, at, functools.partial(hold, lock), defer)
        if not was_reached:
            break
        assert done == [1], f"at line {at}"
    assert at > 4


class Thing:
    type_name = "Thing"


def test_handles_may_be_collected_while_the_things_of_a_device_are_listed() -> None:
    for at in itertools.count(1):
        manager = ResourceManager("/device:CPU:0")
        handles = [manager.anonymous_handle(Thing) for _ in range(3)]
        for handle in handles:
            manager.create(handle.container, handle.name, Thing())
        del handle
        was_reached = run_interrupted(
            resources, at, lambda m=manager: (m.snapshot(), m.cleanup(["other"])), handles.clear
        )
        if not was_reached:
            break
        assert manager.snapshot() == [], f"at line {at}"
    assert at > 4
