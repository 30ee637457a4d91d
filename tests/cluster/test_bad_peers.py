"""What a cluster makes of addresses where something else listens, and of clients that vanish."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_environment, make_spec
from real_time import eventually
from tideflow.wire import errors


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def http_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[assignment]
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def grpc_server() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("kind", ["http_server", "grpc_server"])
def test_a_task_whose_address_is_another_server_s_is_named(
    kind: str, request: pytest.FixtureRequest
) -> None:
    stranger = request.getfixturevalue(kind)
    (own,) = make_spec({"worker": 1})["worker"]
    server = tf.train.Server({"ps": [stranger], "worker": [own]}, "worker", 0)
    config = tf.ConfigProto(operation_timeout_in_ms=20_000)
    try:
        with tf.Session(server.target.replace("127.0.0.1", "localhost"), config=config) as session:
            with pytest.raises(errors.InvalidArgumentError) as caught:
                session.run(tf.constant(1.0))
        assert "/job:ps/replica:0/task:0" in caught.value.message
        assert stranger in caught.value.message
        with tf.Session(
            server.target, config=tf.ConfigProto(device_filters=["/job:worker"])
        ) as session:
            assert session.run(tf.constant(1.0)) == 1.0
    finally:
        server.stop()


_CLIENT = """
import sys
import tideflow.v1 as tf
with tf.device("/job:ps"):
    queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="queue")
    started = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="started")
    with tf.control_dependencies([started.enqueue(1.0)]):
        get = queue.dequeue()
tf.Session(sys.argv[1]).run(get)
"""


@pytest.mark.processes
def test_a_client_that_vanishes_in_mid_step_takes_nothing_with_it(
    start_process: Callable[..., ServerProcess],
) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    with futures.ThreadPoolExecutor() as threads:
        _, worker = threads.map(lambda job: start_process(spec, job), ["ps", "worker"])
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="queue")
        started = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="started")
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, worker.target], env=make_environment()
    )
    try:
        with tf.Session(worker.target) as session:
            session.run(started.dequeue())
            client.kill()
            client.wait()
            # While the dead client's step still waits, it takes what comes.
            put, get = queue.enqueue(3.0), queue.dequeue()
            options = tf.RunOptions(timeout_in_ms=100)

            def taken() -> Any:
                session.run(put)
                with contextlib.suppress(errors.DeadlineExceededError):
                    return session.run(get, options=options)

            assert eventually(taken) == 3.0
            assert session.run(queue.size()) == 0
    finally:
        client.kill()
        client.wait()
