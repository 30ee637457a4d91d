"""`tideflow status` of servers in this process, and of peers that are none."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest
from click.testing import Result

import tideflow.v1 as tf
from cluster.servers import LocalCluster, free_ports
from cluster.test_task_watch import Step
from real_time import eventually

Invoke = Callable[..., Result]


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster({"ps": 1, "worker": 1})
    yield made
    made.stop()


def test_tasks_devices_sessions_and_variables_are_shown(
    invoke: Invoke, cluster: LocalCluster
) -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            tf.get_variable("weights", [256, 2], initializer=tf.zeros_initializer())
        with tf.Session(cluster.target("worker")) as session:
            session.run(tf.global_variables_initializer())
            result = invoke("status", cluster.target("ps"))
    assert result.exit_code == 0
    for said in ("/job:ps/task:0", "/job:worker/task:0", cluster.target("worker")[7:]):
        assert said in result.output
    assert re.search(r"/job:worker/task:0/device:CPU:0 +CPU +[0-9a-f]{16}", result.output)
    assert re.search(r"/job:worker/task:0 +master", result.output)
    assert re.search(r"weights +variable +float32 +\[256,2\] +2\.0 KiB", result.output)


def test_steps_that_ended_badly_and_run_for_long_tell_their_story(
    invoke: Invoke, cluster: LocalCluster
) -> None:
    with tf.Graph().as_default(), tf.Session(cluster.target("worker")) as session:
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder(tf.float32, [])
            checked = tf.check_numerics(x, "bad")
            queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="waited for")
            put, taken = queue.enqueue(1.0), queue.dequeue()
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(checked, {x: float("nan")})
        result = invoke("status", cluster.target("worker"))
        assert re.search(
            r"ps/task:0 +-?\d+ +failed \d+ s ago +\S+ s ago started; "
            r"\S+ s ago failed \(InvalidArgumentError\)",
            result.output,
        )
        assert "running for" not in result.output
        step = Step(session, taken)
        running = r"ps/task:0 +-?\d+ +running for \d+ s +\S+ s ago started"
        eventually(
            lambda: (
                re.search(
                    running, invoke("status", cluster.target("ps"), "--long-step", "0").output
                )
                is not None
            )
        )
        session.run(put)
        assert step.end() is None


def test_a_missing_task_is_shown_as_such(invoke: Invoke, cluster: LocalCluster) -> None:
    cluster.server("worker").stop()
    result = invoke("status", cluster.target("ps"))
    assert result.exit_code == 0
    assert re.search(r"/job:worker/task:0 .* not reachable", result.output)


def test_a_server_that_is_not_there_is_an_error(invoke: Invoke) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    result = invoke("status", address)
    assert result.exit_code == 1
    assert address in result.output
    assert "Is a server running there?" in result.output


@pytest.fixture
def grpc_server() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_another_grpc_server_is_recognised(invoke: Invoke, grpc_server: str) -> None:
    result = invoke("status", grpc_server)
    assert result.exit_code == 1
    assert "neither a tideflow nor a TensorFlow server" in result.output


@pytest.fixture(params=[b"HTTP/1.0 400 Bad Request\r\n\r\n", b""], ids=["http", "silent"])
def stranger(request: pytest.FixtureRequest) -> Iterator[str]:
    """A peer that speaks something else, or nothing at all."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.sendall(request.param)
            if not request.param:
                ended.wait()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=answer, args=(connection,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def test_a_peer_that_speaks_no_grpc_is_an_error_in_time(invoke: Invoke, stranger: str) -> None:
    result = invoke("status", stranger, "--timeout", "0.5")
    assert result.exit_code == 1
    assert stranger in result.output
    assert "Traceback" not in result.output
