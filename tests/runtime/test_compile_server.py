"""Another process compiles for all programs of the user on a host."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.runtime.compile_client import (
    compile_elsewhere,
    may_serve,
    server_name,
)
from tideflow.runtime.jit_cache import ExecutableFolder
from tideflow.runtime.jit_compile import forget_compiled
from tideflow.runtime.jit_thread import wait_until_compiled

_PROGRAM = """
import sys
import numpy as np
import tideflow.v1 as tf
from tideflow.runtime.jit_thread import wait_until_compiled

x = tf.placeholder(tf.float32, [100])
v = tf.get_variable("v", initializer=tf.zeros([100]), use_resource=True)
hot = x
for _ in range(100):
    hot = tf.sin(hot) * 1.5 + 0.25
turns = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [0, hot])[1]
step = v.assign_add(turns)
with tf.Session() as session:
    session.run(v.initializer)
    while not any(one.compiled_regions for one in session.backend.runners.values()):
        session.run(step, {x: np.ones(100)})
    wait_until_compiled()
    for _ in range(30):
        session.run(step, {x: np.ones(100)})
        wait_until_compiled()
    session.run(v.initializer)
    print(float(session.run(step, {x: np.ones(100)})[0]), "jax" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path):
    """The folder of a server; one that serves it ends with the test."""
    made = tmp_path / "compiled"
    made.mkdir(mode=0o700)
    yield ExecutableFolder(made)
    for file in made.glob("*.lock"):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def serving(folder, name, idle_s):
    return subprocess.Popen(
        [sys.executable, "-m", "tideflow.runtime.compile_server", folder.path, name, idle_s]
    )


def run_program(folder):
    more = {"TIDEFLOW_JIT": "auto", "TIDEFLOW_JIT_CACHE": str(folder.path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env={**os.environ, **more},
        timeout=120, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.processes
def test_programs_share_a_server_and_import_no_jax(folder):
    fifo = folder.path / f"{server_name()}.fifo"
    os.mkfifo(fifo)
    with serving(folder, server_name(), "600") as server:
        os.close(os.open(fifo, os.O_WRONLY))  # that waits until somebody reads
        value, has_jax = run_program(folder)
        assert has_jax == "False"
        kept = sorted(folder.path.glob("*.tfx"))
        assert kept
        assert run_program(folder) == [value, "False"]
        assert sorted(folder.path.glob("*.tfx")) == kept
        assert server.poll() is None
        server.kill()


@pytest.mark.processes
def test_a_server_is_started_where_there_is_none_and_leaves_what_it_cannot_read(folder):
    assert not compile_elsewhere(folder, "0" * 64, b"of another program", lambda: False)
    assert not folder.has_request("0" * 64)
    assert may_serve(folder)  # else none could be started


@pytest.mark.processes
def test_a_server_that_nobody_asks_ends(folder):
    assert serving(folder, "one", "0.05").wait(120) == 0
    assert list(folder.path.iterdir()) == []


def test_where_no_server_can_be_started_nobody_waits_for_one(folder, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert not compile_elsewhere(folder, "1" * 64, b"", lambda: False)
    assert not folder.has_request("1" * 64)


def test_what_no_server_makes_is_compiled_on_the_compilers_thread(
    folder, tmp_path, monkeypatch, set_settings, caplog
):
    broken = tmp_path / "python"
    broken.symlink_to("/bin/false")
    monkeypatch.setattr(sys, "executable", str(broken))
    set_settings(jit="auto", jit_cache=str(folder.path))
    forget_compiled()
    with caplog.at_level(logging.DEBUG, "tideflow.runtime"), tf.Graph().as_default():
        x = hot = tf.placeholder(tf.float32, [100])
        for _ in range(100):
            hot = tf.cos(hot) * 1.5 + 0.25
        has_deadline = tf.RunOptions(timeout_in_ms=60_000)  # a step that has none may wait
        with tf.Session() as session:
            while not any(one.compiled_regions for one in session.backend.runners.values()):
                session.run(hot, {x: np.ones(100)}, has_deadline)
            for _ in range(5):
                wait_until_compiled()
                session.run(hot, {x: np.ones(100)}, has_deadline)
    (compiled,) = [one for one in caplog.records if "compiled a region" in one.getMessage()]
    assert "none could be started" in caplog.text
    assert compiled.threadName == "tideflow-compiler"


@pytest.fixture
def reader(folder):
    """The end that a server would read of its FIFO."""
    fifo = folder.path / f"{server_name()}.fifo"
    os.mkfifo(fifo)
    with os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)) as held:
        yield held


def test_a_program_that_ends_does_not_wait_for_the_server(folder, reader):
    with pytest.raises(tf.errors.CancelledError):
        compile_elsewhere(folder, "2" * 64, b"for the next program", lambda: True)
    assert reader.readline() == "2" * 64 + "\n"
    assert folder.find_request("2" * 64) == b"for the next program"


def test_a_server_that_ends_before_it_answers_keeps_nobody_waiting(folder, reader, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert not compile_elsewhere(folder, "3" * 64, b"", reader.close)
    assert not folder.has_request("3" * 64)
