"""Files that never answer keep no server from its other work, and none from ending."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import tideflow.v1 as tf
from cli.commands import Command
from cli.test_serve import one_task, ready

pytestmark = pytest.mark.processes

Start = Callable[..., Command]

# A client whose step has started to wait for many pipes; it says so, and stays.
_CLIENT = """
import sys, threading
import tideflow.v1 as tf

kind, target, path = sys.argv[1:]
waiting = []
if kind == "read":
    waiting = [tf.read_file(path) for _ in range(64)]
elif kind == "dataset":
    datasets = [tf.data.TextLineDataset([path]) for _ in range(64)]
    iterators = [tf.data.make_initializable_iterator(one) for one in datasets]
    waiting = [iterator.get_next() for iterator in iterators]
elif kind == "reader":
    queue = tf.train.string_input_producer([path] * 64)
    waiting = [tf.WholeFileReader().read(queue) for _ in range(64)]
started = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="started").enqueue(1.0)
if kind == "print":
    with tf.control_dependencies([started]):
        waiting = tf.print("said", output_stream="file://" + path)
session = tf.Session(target)
if kind == "dataset":
    session.run([iterator.initializer for iterator in iterators])
if kind == "reader":
    tf.train.start_queue_runners(session)
session.run([waiting, started])
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    made = tmp_path / "pipe"
    os.mkfifo(made)
    return made


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("kind", ["read", "print", "dataset", "reader"])
def test_pipes_that_nobody_serves(start: Start, pipe: Path, kind: str, leaves: bool) -> None:
    server = start("serve", "--cluster", json.dumps(one_task()), "--job", "ps", "--task", "0")
    target = ready(server)
    client = start(kind, target, str(pipe), program=("-c", _CLIENT))
    with tf.Graph().as_default():
        started = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="started").dequeue()
        with tf.Session(target) as session:
            session.run(started)
    if leaves:
        client.process.kill()
        client.process.wait()
    with tf.Graph().as_default(), tf.Session(target) as session:
        assert session.run(tf.add(1.0, 2.0)) == 3.0
    server.send(signal.SIGTERM)
    code, _, _ = server.end(timeout_s=8)
    assert code == 0


def test_a_program_ends_though_a_file_of_its_hangs(start: Start, pipe: Path) -> None:
    program = """
import sys, threading
import tideflow.v1 as tf


def say_started():
    print("started", flush=True)
    return 1.0

contents = tf.read_file(sys.argv[1])
started = tf.py_func(say_started, [], tf.float64)
session = tf.Session()
threading.Thread(target=session.run, args=[[contents, started]], daemon=True).start()
threading.Event().wait()
"""
    command = start(str(pipe), program=("-c", program))
    command.read_until("started")
    command.send(signal.SIGINT)
    code, _, _ = command.end(timeout_s=10)
    assert code == -signal.SIGINT
