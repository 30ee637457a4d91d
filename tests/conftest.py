"""Coroutine tests run on the process's event loop.

What tests leave behind fails them, and so do callbacks that keep the loop from all else.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import error_tests
import real_time
import scheduling
from leaks import is_ours, watching
from loop_monitor import LoopMonitor, install
from tideflow.graph import behavior
from tideflow.platform.settings import process_settings, using
from tideflow.runtime.loop import run_sync

_monitor = LoopMonitor()
install(_monitor)
# What processes find that tests start (see loop_monitor).
_found_elsewhere = Path(tempfile.mkdtemp(prefix="tideflow-loops-")) / "found"
os.environ["LOOP_MONITOR"] = str(_found_elsewhere)
# What an earlier run compiled would hide what this one does.
os.environ.setdefault("TIDEFLOW_JIT_CACHE", "off")
atexit.register(shutil.rmtree, _found_elsewhere.parent, ignore_errors=True)

# How long tasks may take to end that nobody waits for, such as a clean-up in the background.
_ENDING_S = 10


# What a shell starts in the background ignores Ctrl-C, and so would the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    error_tests.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(scheduling)
    config.pluginmanager.register(error_tests)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that `make interop` would not run alone, as their mark promises."""
    for item in items:
        if {"real_time", "tensorflow"} <= {mark.name for mark in item.iter_markers()}:
            raise pytest.UsageError(f"{item.nodeid} is real_time: it must do without TensorFlow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected, which stays until the end, from the garbage collector.

    It would pass over a million objects again and again, and at the end of each module.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with real_time.of_test(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    run_sync(_leaving_no_task(pyfuncitem.obj(**arguments)), timeout_s=100)
    return True


async def _leaving_no_task(test: Coroutine[Any, Any, None]) -> None:
    before = asyncio.all_tasks()
    await test
    left = {task for task in asyncio.all_tasks() - before if is_ours(task)}
    if left:
        _, left = await asyncio.wait(left, timeout=_ENDING_S)
    assert not left, f"the test left tasks behind: {left}"


@pytest.fixture(scope="module", autouse=True)
def leaves_nothing() -> Iterator[Callable[[str], None]]:
    """Fail a module whose tests leave sockets, files, threads or tasks behind, and say which."""
    yield from watching()


@pytest.fixture(autouse=True)
def noted(request: pytest.FixtureRequest, leaves_nothing: Callable[[str], None]) -> Iterator[None]:
    """Note what is there after a test and was not before."""
    yield
    leaves_nothing(request.node.name)


@pytest.fixture(autouse=True)
def _behavior_kept() -> Iterator[None]:
    """Let what a test chooses between TensorFlow 1 and 2 end with it."""
    with behavior.kept():
        yield


@pytest.fixture
def set_settings() -> Iterator[Callable[..., None]]:
    """Give this process other settings, `set_settings(peer=False)`, until the test's end."""
    with ExitStack() as stack:

        def change(**changes: Any) -> None:
            stack.enter_context(using(process_settings().replace(**changes)))

        yield change


@pytest.fixture(autouse=True)
def _free_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a callback of the loop took too long (see loop_monitor)."""
    _monitor.found.clear()
    _found_elsewhere.write_text("")
    yield
    if request.node.get_closest_marker("keeps_loop") is not None:
        return
    found, _monitor.found[:] = list(_monitor.found), []
    if elsewhere := _found_elsewhere.read_text():
        found.append("in a process that the test started:\n" + elsewhere)
    if found and (path := os.environ.get("LOOP_MONITOR_REPORT")):
        with open(path, "a") as file:
            file.write(os.environ.get("PYTEST_CURRENT_TEST", "") + "\n" + "\n".join(found) + "\n")
        return
    assert not found, "\n".join(found)
