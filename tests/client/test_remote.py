"""Sessions through a master, over real sockets and by direct calls."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from client.conftest import over_socket
from cluster.servers import LocalCluster, free_ports, make_spec
from real_time import eventually
from tideflow.cluster import local_servers
from tideflow.cluster.master import Master
from tideflow.ops.control_flow.functional import defun
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_server
from tideflow.wire import errors
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def on(task: str) -> Any:
    return tf.device(f"/job:{task}")


def until_running(target: str, count: int) -> None:
    """Wait until so many sessions of the target's master run something."""
    server = local_servers.find(target.replace("localhost", "127.0.0.1"))
    assert server is not None
    assert isinstance(server.master, Master)
    master = server.master
    eventually(lambda: sum(one.session.is_busy for one in master.sessions.values()) == count)


# ---- steps


def test_operations_without_effects_are_run_for_nothing_and_end(target: str) -> None:
    with on("worker/task:1"):
        x = tf.placeholder_with_default([1.0, 2.0], [2])
        total = x + x
    with tf.Session(target, config=tf.ConfigProto(operation_timeout_in_ms=20_000)) as session:
        assert session.run(total.op) is None
        assert session.run([total.op, x.op]) == [None, None]
        assert session.run(total.op, {x: [3.0, 4.0]}) is None
        assert session.make_callable(total.op)() is None
        assert session.run([total, x.op])[0].tolist() == [2.0, 4.0]
        setup = session.partial_run_setup([total.op, total], [x])
        assert session.partial_run(setup, total.op, {x: [3.0, 4.0]}) is None
        assert session.partial_run(setup, total).tolist() == [6.0, 8.0]


def test_what_is_fetched_belongs_to_the_caller(target: str) -> None:
    with on("worker/task:0"):
        v = tf.get_variable("v", initializer=np.zeros(3, np.float32), use_resource=True)
        x = tf.placeholder(tf.float32, [3])
        assign = v.assign(x)
    with tf.Session(target) as session:
        session.run(v.initializer)
        found = session.run(v)
        found[:] = 9
        assert session.run(v).tolist() == [0, 0, 0]
        given = np.ones(3, np.float32)
        session.run(assign.op, {x: given})
        given[:] = 7
        assert session.run(v).tolist() == [1, 1, 1]


@pytest.mark.parametrize("jit", ["never", "always"])
def test_a_message_over_the_limit_is_refused_with_its_size(
    make_cluster: Callable[..., LocalCluster],
    set_settings: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    jit: str,
) -> None:
    set_settings(jit=jit)
    target = over_socket(make_cluster({"ps": 1, "worker": 1}).target("worker"))
    x = tf.placeholder(tf.float32, [None])
    with on("ps"):
        total, doubled = tf.reduce_sum(x), tf.concat([x, x], 0)
    small, large = np.ones(4000, np.float32), np.ones(8000, np.float32)
    with tf.Session(target) as session:
        assert session.run(doubled, {x: small}).shape == (8000,)
        monkeypatch.setattr("tideflow.transport.encoding.MOST_MESSAGE_BYTES", 20_000)
        for fetch, value in [(total, large), (doubled, small)]:
            with pytest.raises(errors.ResourceExhaustedError, match=r"3[0-9]{4} bytes"):
                session.run(fetch, {x: value})
        assert session.run(total, {x: small}) == 4000.0


def test_what_is_fetched_may_be_changed(make_cluster: Callable[..., LocalCluster]) -> None:
    target = over_socket(make_cluster({"worker": 1}).target("worker"))
    x = tf.placeholder(tf.float32, [None])
    values = [x + 1.0, x > 0.0, tf.as_string(x), tf.zeros([0])]
    with tf.Session(target) as session:
        for count in (1, 5_000):
            for found in session.run(values, {x: np.zeros(count, np.float32)}):
                assert found.flags.writeable
        # Of the sizes of messages that are read as they come, and through shared memory.
        for count in (30_000, 100_000, 2_000_000):
            fed = {x: np.zeros(count, np.float32)}
            found = session.run(values[0], fed)
            found[0] = 3.0
            again = [session.run(values[0], fed) for _ in range(3)]
            assert found[:2].tolist() == [3.0, 1.0]
            assert [one[:2].tolist() for one in again] == [[1.0, 1.0]] * 3
        partial = session.partial_run_setup([values[0]], [x])
        found = session.partial_run(partial, values[0], {x: [1.0]})
        found[0] = 3.0
        assert found.tolist() == [3.0]
        # It was changed for who fetched it alone.
        assert session.run(values[0], {x: [1.0]}).tolist() == [2.0]


def test_a_step_over_two_tasks_computes_with_feeds_variables_and_targets(target: str) -> None:
    with on("ps"):
        v = tf.Variable(tf.constant([1.0, 2.0]))
    x = tf.placeholder(tf.float32, [2])
    with on("worker/task:1"):
        y = x * 2.0 + v
        add = v.assign_add(x)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(y, {x: [1.0, 1.0]}), [3.0, 4.0])
        assert session.run(add.op, {x: [1.0, 2.0]}) is None
        found = session.run({"v": v, "twice": [y, y]}, {x: [0.0, 0.0]})
        np.testing.assert_array_equal(found["v"], [2.0, 4.0])
        np.testing.assert_array_equal(found["twice"][1], [2.0, 4.0])


def test_any_tensor_can_be_fed_and_its_producer_does_not_run(target: str) -> None:
    with on("ps"):
        unfed = tf.placeholder(tf.float32, [])
        y = unfed + 1.0
    with on("worker/task:1"):
        z = y * 2.0
    with tf.Session(target) as session:
        assert session.run(z, {y: 5.0}) == 10.0
        assert session.run([z, y], {y: 5.0}) == [10.0, 5.0]


def test_values_of_many_types_pass_between_tasks(target: str) -> None:
    values: list[Any] = [
        np.array([True, False]), np.int8(-3), np.uint16([[7]]), np.float64(0.5), np.int64(1 << 40),
        np.array([b"a", b"\xff"], object), np.complex64(1 + 2j), np.zeros([0, 3], np.float32),
        np.float16([1.5]),
    ]  # fmt: skip
    fed = [tf.placeholder(tf.as_dtype(np.asarray(v).dtype), np.shape(v)) for v in values]
    with on("ps"):
        there = [tf.identity(x) for x in fed]
    with tf.Session(target) as session:
        found = session.run(there, dict(zip(fed, values)))
    for value, result in zip(values, found):
        assert result.dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(result, value)


def test_a_graph_that_grows_is_extended(target: str) -> None:
    with tf.Session(target) as session:
        a = tf.constant(1.0)
        assert session.run(a) == 1.0
        with on("ps"):
            b = a + 1.0
        assert session.run(b) == 2.0
        c = b * 3.0
        assert session.run([a, c]) == [1.0, 6.0]


def test_a_loop_over_two_tasks(target: str) -> None:
    with on("ps"):
        limit = tf.placeholder(tf.int32, [])

    def body(i: Any, total: Any) -> Any:
        with on("ps"):
            total = total + i
        return i + 1, total

    _, total = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(0)])
    with tf.Session(target) as session:
        assert session.run(total, {limit: 5}) == 10
        assert session.run(total, {limit: 0}) == 0
        assert session.run(total, {limit: 30}) == 435


def test_a_condition_whose_branches_are_on_different_tasks(target: str) -> None:
    p = tf.placeholder(tf.bool, [])
    x = tf.constant(3.0)

    def on_ps() -> Any:
        with on("ps"):
            return x * 2.0

    def on_worker() -> Any:
        with on("worker/task:1"):
            return x - 1.0

    y = tf.cond(p, on_ps, on_worker)
    with tf.Session(target) as session:
        assert session.run(y, {p: True}) == 6.0
        assert session.run(y, {p: False}) == 2.0


def test_functions_go_with_the_parts_that_call_them(target: str) -> None:
    square = defun(lambda a: a * a, [tf.float32], name="square")
    x = tf.placeholder(tf.float32, [])
    with on("ps"):
        y = square(x)
    with tf.Session(target) as session:
        assert session.run(y, {x: 3.0}) == 9.0
        add_one = defun(lambda a: square(a) + 1.0, [tf.float32], name="add_one")
        with on("worker/task:1"):
            z = add_one(y)
        assert session.run(z, {x: 2.0}) == 17.0


def test_steps_run_at_once_from_many_threads(target: str) -> None:
    with on("ps"):
        v = tf.Variable(0, dtype=tf.int32)
        add = v.assign_add(1)
    found: list[Any] = []
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())

        def work() -> None:
            for _ in range(10):
                found.append(session.run(add))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(v) == 40
    assert len(found) == 40


def test_make_callable(target: str) -> None:
    x = tf.placeholder(tf.float32, [])
    with on("ps"):
        y = x + 1.0
    with tf.Session(target) as session:
        step = session.make_callable([y, x], [x])
        assert step(2.0) == [3.0, 2.0]


def test_a_partial_run_feeds_and_fetches_in_pieces(target: str) -> None:
    a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
    with on("ps"):
        first = a + b
    with on("worker/task:1"):
        second = first * c
    with tf.Session(target) as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        assert session.partial_run(handle, first, {a: 1.0, b: 2.0}) == 3.0
        assert session.run(a + 0.0, {a: 7.0}) == 7.0  # an ordinary step in between
        with pytest.raises(errors.InvalidArgumentError, match="still missing"):
            session.partial_run(handle, second)
        assert session.partial_run(handle, second, {c: 10.0}) == 30.0
        with pytest.raises(errors.InvalidArgumentError):
            session.partial_run(handle, second, {c: 10.0})


def test_run_metadata_names_devices_and_graphs_of_all_tasks(target: str) -> None:
    with on("ps"):
        x = tf.placeholder(tf.float32, [])
        a = x + 1.0
    b = a * 2.0
    options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = pb.RunMetadata()
    with tf.Session(target) as session:
        assert session.run(b, {x: 1.0}, options, metadata) == 4.0
    devices = {device.device for device in metadata.step_stats.dev_stats}
    assert {d for d in devices if "/job:ps" in d}
    assert {d for d in devices if "/job:worker" in d}
    assert len(metadata.partition_graphs) == 2
    names = {node.name for graph_pb in metadata.partition_graphs for node in graph_pb.node}
    assert {a.op.name, b.op.name} <= names


def test_a_master_records_times_for_a_full_trace_alone(target: str) -> None:
    y = tf.exp(tf.placeholder_with_default([0.0], [1]))
    metadata = pb.RunMetadata()
    with tf.Session(target) as session:
        for level in (pb.RunOptions.SOFTWARE_TRACE, pb.RunOptions.FULL_TRACE):
            session.run(y, {}, pb.RunOptions(trace_level=level), metadata)
            assert bool(metadata.step_stats.dev_stats) == (level == pb.RunOptions.FULL_TRACE)


def test_the_devices_of_all_tasks_are_listed_own_first(target: str) -> None:
    with tf.Session(target) as session:
        names = [device.name for device in session.list_devices()]
        assert session.run(tf.constant(1)) == 1
    assert names[0] == "/job:worker/replica:0/task:0/device:CPU:0"
    assert len(names) == 3


# ---- errors


def test_an_error_names_op_device_task_and_line(target: str) -> None:
    x = tf.placeholder(tf.float32, [None])
    with on("ps"):
        y = x + tf.constant([1.0, 2.0])
    with tf.Session(target) as session:
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run(y, {x: [1.0, 2.0, 3.0]})
        assert session.run(y, {x: [1.0, 1.0]}).tolist() == [2.0, 3.0]
    text = str(caught.value)
    assert caught.value.op is y.op
    assert "/job:ps/replica:0/task:0" in text
    assert y.op.name in text
    assert "test_remote.py" in text


def test_an_uninitialised_variable_is_named_with_its_initialiser(target: str) -> None:
    with on("ps"):
        v = tf.Variable(1.0, name="weights")
    with tf.Session(target) as session:
        with pytest.raises(errors.FailedPreconditionError, match="weights"):
            session.run(v)
        session.run(v.initializer)
        assert session.run(v) == 1.0


def test_a_device_that_is_not_there_is_refused_with_those_that_are(target: str) -> None:
    good = tf.constant(1.0)
    with tf.Session(target) as session:
        assert session.run(good) == 1.0
        with tf.device("/job:worker/task:7"):
            tf.constant(2.0, name="far")
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run(good)
    assert "far" in str(caught.value)
    assert "/job:worker/replica:0/task:1/device:CPU:0" in str(caught.value)


def test_a_timeout_cancels_the_step_and_leaves_the_session_usable(target: str) -> None:
    with on("ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="q")
        put = queue.enqueue(1.0)
        size = queue.size()
        get = queue.dequeue()
    with tf.Session(target) as session:
        with pytest.raises(errors.DeadlineExceededError):
            session.run(get, options=pb.RunOptions(timeout_in_ms=100))
        session.run(put)
        assert session.run(size) == 1
        assert session.run(get) == 1.0


def test_closing_cancels_running_steps(target: str) -> None:
    with on("ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
        get = queue.dequeue()
    session = tf.Session(target)
    session.run(queue.size())
    failures: list[BaseException] = []

    def work() -> None:
        try:
            session.run(get)
        except errors.OpError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until_running(target, 1)
    session.close()
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(failures[0], errors.CancelledError)
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run(get)


def test_two_clients_share_variables_and_not_graphs(target: str) -> None:
    with on("ps"):
        v = tf.Variable(1.0, name="shared")
    with tf.Session(target) as first, tf.Session(target) as second:
        first.run(v.initializer)
        second.run(v.assign_add(4.0))
        assert first.run(v) == 5.0
    with tf.Graph().as_default(), tf.device("/job:ps"):
        other = tf.constant(2.0, name="shared/other")
        with tf.Session(target) as third:
            assert third.run(other) == 2.0


def test_isolated_sessions_have_their_own_state(target: str) -> None:
    with on("ps"):
        v = tf.Variable(1.0)
    config = pb.ConfigProto(isolate_session_state=True)
    with tf.Session(target) as shared, tf.Session(target, config=config) as alone:
        shared.run(v.initializer)
        with pytest.raises(errors.FailedPreconditionError):
            alone.run(v)
        alone.run(v.initializer)
        alone.run(v.assign_add(1.0))
        assert shared.run(v) == 1.0


def test_reset_closes_sessions_and_drops_state(target: str) -> None:
    with on("ps"):
        v = tf.Variable(1.0)
    session = tf.Session(target)
    session.run(v.initializer)
    tf.Session.reset(target, ["ps", "worker"])
    with pytest.raises(errors.AbortedError):
        session.run(v)
    session.close()
    with tf.Session(target) as another, pytest.raises(errors.FailedPreconditionError):
        another.run(v)


# ---- reaching a master


def test_a_target_that_nobody_serves_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    [port] = free_ports(1)
    config = pb.ConfigProto(operation_timeout_in_ms=3500)
    session = tf.Session(f"grpc://localhost:{port}", config=config)
    with pytest.raises(errors.DeadlineExceededError, match=str(port)):
        session.run(tf.constant(1.0))
    session.close()
    assert f"localhost:{port}" in capfd.readouterr().err


def test_a_session_begins_once_its_server_has_started(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    spec = make_spec({"worker": 1})
    session = tf.Session(over_socket(f"grpc://{spec['worker'][0]}"))
    one = tf.constant(1.0)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(session.run(one)))
    thread.start()
    server = tf.train.Server(spec, "worker", 0)
    thread.join(20)
    session.close()
    server.stop()
    assert found == [1.0]


def test_closing_ends_the_wait_for_a_server() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    session = tf.Session(f"grpc://127.0.0.1:{listener.getsockname()[1]}")
    one = tf.constant(1.0)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            session.run(one)
        except errors.OpError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    # It was turned away once, and waits until it tries again.
    connection, _ = listener.accept()
    connection.close()
    session.close()
    thread.join(30)
    listener.close()
    assert isinstance(failures[0], errors.CancelledError)


def test_a_peer_that_is_no_grpc_server_is_told_apart_from_an_absent_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        session = tf.Session(f"grpc://127.0.0.1:{port}")
        one = tf.constant(1.0)

        def greet() -> None:
            for _ in range(2):  # the connection is tried twice
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    connection.sendall(b"220 mail.example ESMTP\r\n")
                    held.append(connection)

        held: list[socket.socket] = []
        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        with pytest.raises(errors.UnimplementedError, match="does not speak gRPC"):
            session.run(one)
        session.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for connection in held:
            connection.close()


def test_a_grpc_server_that_is_no_master_is_named() -> None:
    server = make_server("grpc", [], "127.0.0.1:0")
    port = run_sync(server.start())
    session = tf.Session(f"grpc://127.0.0.1:{port}")
    with pytest.raises(errors.UnimplementedError, match="no master"):
        session.run(tf.constant(1.0))
    session.close()
    run_sync(server.stop())


def test_ctrl_c_cancels_the_step(target: str) -> None:
    with on("ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
        get = queue.dequeue()
    with tf.Session(target) as session:
        session.run(queue.size())

        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            until_running(target, 1)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(get)
        thread.join(5)
        until_running(target, 0)
        session.run(queue.enqueue(1.0))
        assert session.run(get) == 1.0


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(errors.NotFoundError, match="grpc://host:port"):
        tf.Session("carrier-pigeon://roof")
