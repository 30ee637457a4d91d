"""The lint that holds clock, threads and network to one module each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def seams():
    spec = importlib.util.spec_from_file_location("seams_lint", _ROOT / "tools" / "seams.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def _found(seams, folder, text, path="cluster/some.py"):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return [one.used for one in seams.find(folder)]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("import time\ntime.monotonic()\n", "time.monotonic"),
        ("from time import sleep as nap\nnap(1)\n", "time.sleep"),
        ("import time\ndef f(clock=time.perf_counter): ...\n", "time.perf_counter"),
        ("loop.time()\n", "a loop's time()"),
        ("loop.call_at(1.0, f)\n", "a loop's call_at()"),
        ("import asyncio\nasyncio.timeout_at(1.0)\n", "asyncio.timeout_at"),
        ("self._loop.time()\n", "a loop's time()"),
        ("asyncio.get_running_loop().time()\n", "a loop's time()"),
        ("import threading\nclass A(threading.Thread): ...\n", "threading.Thread"),
        ("import threading as t\nt.Timer(1, f).start()\n", "threading.Timer"),
        (
            "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1)\n",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("import asyncio\nasync def f(): await asyncio.to_thread(g)\n", "asyncio.to_thread"),
        ("import socket\nsocket.socket()\n", "socket.socket"),
        (
            "async def f(loop): await loop.create_server(g, 'h', 1)\n",
            "a loop's create_server()",
        ),
    ],
)
def test_what_is_forbidden_is_found(seams, tmp_path, text, used):
    assert _found(seams, tmp_path, text) == [used]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("import time\ntime.monotonic()\n", "platform/clock.py"),
        ("import threading\ndef f(t: threading.Thread) -> threading.Thread: ...\n", "some.py"),
        ("import threading\nisinstance(t, threading.Thread)\n", "some.py"),
        ("import threading\nthreading.Lock()\n", "some.py"),
        ("import socket\nsocket.gethostname()\n", "some.py"),
        ("event.time()\n", "some.py"),
    ],
)
def test_what_is_not_forbidden_is_left_alone(seams, tmp_path, text, path):
    assert _found(seams, tmp_path, text, path) == []
