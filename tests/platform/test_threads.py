"""Threads have names, end with the interpreter, and are made anew after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

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
