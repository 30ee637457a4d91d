"""TensorFlow's own client, through a proxy, on a cluster that answers only certificates."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import ROOT, Command, environment
from cluster.servers import free_ports

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]

PROGRAM = """
import sys
import tensorflow.compat.v1 as tf
with tf.Graph().as_default():
    with tf.device("/job:ps/task:0"):
        weights = tf.Variable([[1.0], [2.0]])
    with tf.device("/job:worker/task:0"):
        loss = tf.reduce_sum(tf.matmul([[3.0, 4.0]], weights) ** 2)
        step = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
    with tf.Session(sys.argv[1]) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        print(session.run(weights).ravel().round(4).tolist(), len(session.list_devices()))
"""


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    made: list[Command] = []
    yield made
    for one in reversed(made):
        one.send(signal.SIGTERM)
        one.end(timeout_s=20)


def test_sessions_of_tensorflow_train_through_it(commands: list[Command], tmp_path: Path) -> None:
    cluster = {job: [f"127.0.0.1:{port}"] for job, port in zip(("ps", "worker"), free_ports(2))}
    written = json.dumps(cluster)
    made = Command("certs", str(tmp_path), "--cluster", written)
    assert made.end(timeout_s=60)[0] == 0
    tls = ("--tls", str(tmp_path), "--set", "shared_memory=off")
    for job in cluster:
        commands.append(Command("serve", "--cluster", written, "--job", job, "--task", "0", *tls))
    for one in commands:
        one.read_until("is ready at")
    commands.append(Command("proxy", cluster["worker"][0], *tls))
    [line] = commands[-1].read_until("is ready")
    target = re.search(r"grpc://\S+", line)
    assert target is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, target[0]],
        env=environment(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "[0.9340000152587891, 1.9119999408721924] 2", done.stderr
