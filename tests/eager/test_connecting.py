"""Connecting to a cluster that fails half-way leaves nothing behind."""

from __future__ import annotations

import pytest

import tideflow as tf
from cluster.servers import make_spec
from leaks import Watch
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.server import Server
from tideflow.cluster.worker import Worker
from tideflow.eager.context import Context, replace_context
from tideflow.platform.settings import process_settings
from tideflow.runtime.device import DeviceManager, make_devices
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_server
from tideflow.wire import errors
from tideflow.wire import messages as pb


def test_a_task_that_makes_no_contexts_leaves_none_on_the_others() -> None:
    spec = make_spec({"worker": 2})
    server = Server(spec, "worker", 0)
    task = "/job:worker/replica:0/task:1"
    # It has devices, but nothing for eager clients.
    devices = make_devices("worker", 1, pb.ConfigProto(), process_settings())
    worker = Worker(task, DeviceManager(devices), ClusterSpec(spec))
    plain = make_server("grpc", [worker], spec["worker"][1])
    run_sync(plain.start())
    try:
        replace_context(Context())
        watch = Watch()
        with pytest.raises(errors.UnimplementedError):
            tf.config.experimental_connect_to_cluster(spec)
        watch.require_nothing_left()
    finally:
        replace_context(None)
        run_sync(plain.stop())
        run_sync(worker.close())
        server.stop()
