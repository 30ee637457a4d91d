"""The compiler's thread works through its jobs, and lets the program end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from tideflow.runtime.jit_thread import JobThread, wait_until_compiled

_LEAVES_A_JOB = """
import threading
from tideflow.runtime import jit_thread

started = threading.Event()

def job():
    started.set()
    threading.main_thread().join()
    print("at hand", jit_thread.is_leaving())

jit_thread.submit(job)
jit_thread.submit(lambda: print("dropped"))
started.wait()
"""


def test_jobs_run_in_order_on_one_thread():
    jobs = JobThread()
    ran = []
    for i in range(5):
        jobs.submit(lambda i=i: ran.append((i, threading.current_thread().name)))
    jobs.wait()
    assert ran == [(i, "tideflow-compiler") for i in range(5)]


def test_the_thread_is_no_daemon_though_a_daemon_asks_for_it():
    jobs = JobThread()
    daemons = []
    asker = threading.Thread(
        target=jobs.submit,
        args=[lambda: daemons.append(threading.current_thread().daemon)],
        daemon=True,
    )
    asker.start()
    asker.join()
    jobs.wait()
    assert daemons == [False]


def test_a_job_may_ask_for_another():
    jobs = JobThread()
    ran = []
    jobs.submit(lambda: jobs.submit(lambda: ran.append("second")))
    jobs.wait()
    assert ran == ["second"]


def test_what_a_job_raises_is_logged_and_the_next_one_runs(caplog):
    jobs = JobThread()
    ran = []
    with caplog.at_level(logging.DEBUG):
        jobs.submit(lambda: 1 // 0)
        jobs.submit(lambda: ran.append("next"))
        jobs.wait()
    assert ran == ["next"]
    assert "ZeroDivisionError" in caplog.text


def test_a_program_that_ends_waits_for_no_job_but_the_one_at_hand():
    ended = subprocess.run(
        [sys.executable, "-c", _LEAVES_A_JOB],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "at hand True\n"


@pytest.fixture
def usual_interval():
    """The interval in which threads change places, when no earlier job is at hand."""
    wait_until_compiled()
    usual = sys.getswitchinterval()
    yield usual
    sys.setswitchinterval(usual)


def test_threads_change_places_more_often_while_a_job_runs(usual_interval):
    jobs = JobThread()
    seen = []
    jobs.submit(lambda: seen.append(sys.getswitchinterval()))
    jobs.submit(lambda: 1 / 0)
    jobs.wait()
    assert seen[0] < usual_interval
    assert sys.getswitchinterval() == usual_interval


def test_an_interval_that_somebody_chose_meanwhile_stays(usual_interval):
    jobs = JobThread()
    jobs.submit(lambda: sys.setswitchinterval(2 * usual_interval))
    jobs.wait()
    assert sys.getswitchinterval() == 2 * usual_interval


_FORKS_IN_A_JOB = """
import os, sys, threading
from tideflow.runtime import jit_thread

usual, before = sys.getswitchinterval(), jit_thread.generation()
started, may_end = threading.Event(), threading.Event()
jit_thread.submit(lambda: (started.set(), may_end.wait()))
started.wait()
child = os.fork()
if not child:
    os._exit(0 if sys.getswitchinterval() == usual and jit_thread.generation() != before else 1)
ended = os.waitpid(child, 0)[1]
may_end.set()
jit_thread.wait_until_compiled()
sys.exit(ended or jit_thread.generation() != before)
"""


def test_a_forks_child_knows_that_it_has_no_jobs():
    subprocess.run([sys.executable, "-c", _FORKS_IN_A_JOB], check=True, timeout=60)
