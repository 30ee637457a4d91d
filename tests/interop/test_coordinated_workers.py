"""TensorFlow's MultiWorkerMirroredStrategy, coordinated by a tideflow server."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tideflow.v1 as tf
from cluster.servers import free_ports

PROGRAM = Path(__file__).with_name("mirrored_worker.py")

pytestmark = [
    pytest.mark.processes,
    pytest.mark.tensorflow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("rings"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
    ),
]


def test_mirrored_workers_find_each_other_and_reduce() -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    config = tf.ConfigProto()
    asked = config.experimental.coordination_config
    asked.service_type = "standalone"
    # The strategy's workers turn to the first ps, if the cluster has one.
    asked.service_leader = "/job:ps/replica:0/task:0"
    asked.coordinated_job_list.add(name="worker", num_tasks=2)
    server = tf.train.Server(cluster, "ps", 0, config=config)
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    workers = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(cluster), str(task)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **quiet},
        )
        for task in range(2)
    ]
    try:
        answers = [json.loads(worker.communicate(timeout=200)[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        server.stop()
    # The variable begins as that of worker 0 everywhere.
    assert answers == [[[[3.0, 6.0]] * 3, [10.0, 20.0]]] * 2
