"""Threads have names, leave signals to the main thread, and are made anew after a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tideflow.platform import threads


def test_a_thread_has_a_name_and_does_not_hold_the_interpreter():
    found: list[tuple[str, bool]] = []

    def note(extra: str) -> None:
        found.append((threading.current_thread().name + extra, threading.current_thread().daemon))

    threads.start(note, "!", name="tideflow-test").join()
    threads.start(note, "", name="tideflow-needed", daemon=False).join()
    assert found == [("tideflow-test!", True), ("tideflow-needed", False)]


def test_a_thread_starts_from_a_signal_handler():
    ran = threading.Event()
    threads.start_in_signal_handler(ran.set)
    assert ran.wait(60)


def blocked() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def in_a_thread(work: Callable[[], None]) -> None:
    threads.start(work, name="tideflow-test").join()


def in_a_pool(work: Callable[[], None]) -> None:
    with threads.pool("tideflow-test", 1) as pool:
        pool.submit(work).result()


def in_a_thread_of_a_thread(work: Callable[[], None]) -> None:
    in_a_thread(lambda: in_a_pool(lambda: in_a_thread(work)))


@pytest.mark.parametrize("run", [in_a_thread, in_a_pool, in_a_thread_of_a_thread])
def test_a_thread_leaves_signals_to_the_main_thread(run: Callable[..., None]) -> None:
    before = blocked()
    found: list[set[int]] = []

    def work() -> None:
        found.append(blocked())
        with threads.with_signals():
            found.append(blocked())
        found.append(blocked())

    run(work)
    ours, users, again = found
    assert ours >= before | {signal.SIGINT, signal.SIGTERM}
    assert users == before
    assert again == ours
    with threads.with_signals():
        assert blocked() == before


_STEP = """
import subprocess, sys, threading
import tideflow.v1 as tf

def blocked(status):
    return int(next(line.split()[1] for line in status.splitlines() if line[:6] == "SigBlk"), 16)

def of_a_program():
    show = "print(open('/proc/self/status').read())"
    return blocked(subprocess.check_output([sys.executable, "-c", show], text=True))

program = tf.py_func(of_a_program, [], tf.int64)
with tf.Session() as session:
    session.run(tf.read_file(sys.executable))
    print("program", session.run(program))
for thread in threading.enumerate():
    with open(f"/proc/self/task/{thread.native_id}/status") as status:
        print(thread.name.split("_")[0], blocked(status.read()))
"""


@pytest.mark.processes
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_no_thread_of_a_program_takes_its_signals():
    ran = subprocess.run(
        [sys.executable, "-c", _STEP], capture_output=True, text=True, timeout=60, check=True
    )
    found = dict(line.split() for line in ran.stdout.splitlines())
    taken = 1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1)
    assert {name for name, mask in found.items() if not int(mask) & taken} == {
        "MainThread",
        "program",
    }
    assert "tideflow-loop" in found


_FORKS = """
import os, threading, warnings
from tideflow.platform import threads

warnings.simplefilter("ignore", DeprecationWarning)  # forks of processes with threads
pool = threads.ProcessPool("tideflow-test-pool", 2)
assert pool.submit(lambda: threading.current_thread().name).result() == "tideflow-test-pool_0"
child = os.fork()
if child == 0:
    # The parent's thread is not here: its executor would wait for ever.
    os._exit(pool.submit(lambda: 7).result(60))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_pool_is_one_for_the_process_and_another_in_a_fork():
    subprocess.run(
        [sys.executable, "-c", _FORKS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=100,
        check=True,
    )
