"""MasterService, asked by RPC: what each method answers, and with which code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from leaks import Watch
from tideflow.cluster.services import MasterService, WorkerService
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.ids import new_request_id
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor


class Client:
    """Calls one server's master and worker over a real connection."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.channel = make_channel(target)
        self.master = stub(MasterService, self.channel)
        self.worker = stub(WorkerService, self.channel)
        self.handle = ""

    def call(self, method: str, request: Any, timeout_s: float | None = None) -> Any:
        return run_sync(getattr(self.master, method)(request, timeout_s=timeout_s))

    def create(self, graph: tf.Graph, **config: Any) -> str:
        request = pb.CreateSessionRequest(
            graph_def=graph.as_graph_def(), config=pb.ConfigProto(**config), target=self.target
        )
        self.handle = self.call("CreateSession", request).session_handle
        return self.handle

    def extend(self, graph_pb: pb.GraphDef, version: int) -> int:
        request = pb.ExtendSessionRequest(
            session_handle=self.handle, graph_def=graph_pb, current_graph_version=version
        )
        return int(self.call("ExtendSession", request).new_graph_version)

    def step(self, **fields: Any) -> pb.RunStepRequest:
        feeds = fields.pop("feeds", {})
        request = pb.RunStepRequest(**{"session_handle": self.handle, **fields})
        for name, value in feeds.items():
            tensor_pb = value if isinstance(value, pb.TensorProto) else encode_tensor(value)
            request.feed.add(name=name).tensor.CopyFrom(tensor_pb)
        return request

    def run(self, *fetch: str, **fields: Any) -> dict[str, Any]:
        response = self.call("RunStep", self.step(fetch=fetch, **fields))
        return {named.name: decode_tensor(named.tensor) for named in response.tensor}

    def refused(self, code: int, *fetch: str, **fields: Any) -> str:
        """Run a step that must fail with a code; return the text."""
        with pytest.raises(errors.OpError) as caught:
            self.run(*fetch, **fields)
        assert caught.value.error_code == code, caught.value
        return str(caught.value)

    def close(self) -> None:
        run_sync(self.channel.close())


@pytest.fixture
def cluster(make_cluster: Callable[..., LocalCluster]) -> LocalCluster:
    return make_cluster({"ps": 1, "worker": 2})


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    made = Client(cluster.target("worker", 0))
    yield made
    made.close()


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def xyz(graph: tf.Graph) -> tf.Graph:
    """x -> y = x + 1 on ps -> z = y * 2 on worker 1."""
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device("/job:ps"):
        y = tf.add(x, 1.0, name="y")
    with tf.device("/job:worker/task:1"):
        tf.multiply(y, 2.0, name="z")
    return graph


def node(name: str, op: str, *inputs: str, **attrs: pb.AttrValue) -> pb.NodeDef:
    return pb.NodeDef(name=name, op=op, input=inputs, attr=attrs)


FLOAT = pb.AttrValue(type=pb.DataType.DT_FLOAT)


# ---- CreateSession and ExtendSession


def test_a_handle_is_16_hex_digits_and_an_empty_graph_is_fine(client: Client) -> None:
    handle = client.create(tf.Graph())
    assert len(handle) == 16
    int(handle, 16)


@pytest.mark.parametrize(
    ("nodes", "code", "words"),
    [
        ([node("a", "NoSuchOp")], errors.NOT_FOUND, ["NoSuchOp", "'a'"]),
        ([node("p", "Placeholder")], errors.NOT_FOUND, ["dtype", "'p'"]),
        ([node("n", "NoOp"), node("n", "NoOp")], errors.INVALID_ARGUMENT, ["two nodes", "'n'"]),
        ([node("n", "NoOp", "^gone")], errors.INVALID_ARGUMENT, ["gone"]),
        ([node("bad name", "NoOp")], errors.INVALID_ARGUMENT, ["bad name"]),
        (
            [node("a", "Neg", "b", T=FLOAT), node("b", "Neg", "a", T=FLOAT)],
            errors.INVALID_ARGUMENT,
            ["cycle", "a", "b"],
        ),
    ],
)
def test_a_graph_that_is_wrong_is_refused(
    client: Client, nodes: list[pb.NodeDef], code: int, words: list[str]
) -> None:
    with pytest.raises(errors.OpError) as caught:
        client.call("CreateSession", pb.CreateSessionRequest(graph_def=pb.GraphDef(node=nodes)))
    assert caught.value.error_code == code
    for word in words:
        assert word in str(caught.value)


def test_a_graph_that_needs_a_newer_reader_is_refused(client: Client) -> None:
    graph_pb = pb.GraphDef(versions=pb.VersionDef(producer=9999, min_consumer=9999))
    with pytest.raises(errors.InvalidArgumentError, match="9999"):
        client.call("CreateSession", pb.CreateSessionRequest(graph_def=graph_pb))


def test_thread_pools_of_a_session_are_refused(client: Client) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="use_per_session_threads"):
        client.create(tf.Graph(), use_per_session_threads=True)


def test_extending_counts_versions_and_wants_the_current_one(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    assert client.extend(pb.GraphDef(), 0) == 1
    with pytest.raises(errors.AbortedError, match="version 1"):
        client.extend(pb.GraphDef(), 0)
    more = pb.GraphDef(node=[node("w", "Neg", "z", T=FLOAT)])
    assert client.extend(more, 1) == 2
    assert client.run("w:0", feeds={"x:0": np.float32(1)}) == {"w:0": -4.0}


def test_an_extension_that_fails_changes_nothing(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    far = node("far", "Neg", "z", T=FLOAT)
    far.device = "/job:nowhere"
    with pytest.raises(errors.InvalidArgumentError, match="far"):
        client.extend(pb.GraphDef(node=[node("w", "NoOp"), far]), 0)
    with pytest.raises(errors.InvalidArgumentError, match="'x'"):
        client.extend(pb.GraphDef(node=[node("x", "NoOp")]), 0)
    assert client.extend(pb.GraphDef(node=[node("w", "NoOp")]), 0) == 1
    client.run(target=["w"])


def test_filters_leave_workers_out(cluster: LocalCluster, client: Client) -> None:
    cluster.server("worker", 1).stop()  # it must not be asked
    client.create(tf.Graph(), device_filters=["/job:ps"])
    response = client.call("ListDevices", pb.ListDevicesRequest(session_handle=client.handle))
    names = [device.name.partition("/replica")[0] for device in response.local_device]
    assert names == ["/job:worker", "/job:ps"]


def test_a_missing_worker_is_waited_for_and_named(
    cluster: LocalCluster,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tideflow.cluster.master.device_discovery.REPORT_EVERY_S", 0.05)
    cluster.server("ps", 0).stop()
    request = pb.CreateSessionRequest(graph_def=pb.GraphDef())
    with pytest.raises(errors.DeadlineExceededError):
        client.call("CreateSession", request, timeout_s=0.5)
    assert "/job:ps/replica:0/task:0" in caplog.text
    assert cluster.spec.task_address("ps", 0) in caplog.text


# ---- RunStep


def test_steps_feed_fetch_and_run(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    one = {"x:0": np.float32(1)}
    assert client.run("z:0", "y:0", feeds=one) == {"z:0": 4.0, "y:0": 2.0}
    assert client.run("z:0", "z:0", feeds=one) == {"z:0": 4.0}
    assert client.run(target=["z", "y:0"], feeds=one) == {}
    assert client.run("z:0", feeds={**one, "y:0": np.float32(10)}) == {"z:0": 20.0}


def test_a_step_that_makes_no_sense_is_refused(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    one = {"x:0": np.float32(1)}
    assert "gone" in client.refused(errors.NOT_FOUND, "gone:0", feeds=one)
    assert "gone" in client.refused(errors.NOT_FOUND, "z:0", feeds={**one, "gone:0": 1.0})
    assert "gone" in client.refused(errors.NOT_FOUND, target=["gone"], feeds=one)
    client.refused(errors.INVALID_ARGUMENT, "z:1", feeds=one)
    client.refused(errors.INVALID_ARGUMENT, feeds=one)
    client.refused(errors.INVALID_ARGUMENT, "x:0", feeds=one)
    assert "x" in client.refused(errors.INVALID_ARGUMENT, "z:0")
    assert "int32" in client.refused(errors.INTERNAL, "z:0", feeds={"x:0": np.int32(1)})
    bad = pb.TensorProto(dtype=pb.DataType.DT_FLOAT, tensor_content=b"abc")
    client.refused(errors.INVALID_ARGUMENT, "z:0", feeds={"x:0": bad})
    twice = client.step(fetch=["z:0"], feeds=one)
    twice.feed.add().CopyFrom(twice.feed[0])
    with pytest.raises(errors.InvalidArgumentError, match="more than once"):
        client.call("RunStep", twice)
    assert client.run("z:0", feeds=one) == {"z:0": 4.0}


def test_errors_go_into_the_body_when_asked(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    request = client.step(fetch=["gone:0"], store_errors_in_response_body=True)
    response = client.call("RunStep", request)
    assert response.status_code == errors.NOT_FOUND
    assert "gone" in response.status_error_message
    request.session_handle = "nobody"
    assert client.call("RunStep", request).status_code == errors.ABORTED


def test_a_request_id_is_taken_once(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    request = client.step(fetch=["z:0"], feeds={"x:0": np.float32(1)}, request_id=new_request_id())
    client.call("RunStep", request)
    with pytest.raises(errors.AbortedError, match="seen before"):
        client.call("RunStep", request)
    request.request_id = 0
    client.call("RunStep", request)
    client.call("RunStep", request)


def test_a_refused_registration_is_not_remembered(client: Client, graph: tf.Graph) -> None:
    tf.placeholder(tf.float32, [], name="x")
    client.create(graph)
    client.refused(errors.NOT_FOUND, "later:0")
    client.extend(pb.GraphDef(node=[node("later", "Neg", "x", T=FLOAT)]), 0)
    assert client.run("later:0", feeds={"x:0": np.float32(1)}) == {"later:0": -1.0}


def test_a_session_that_is_not_there(client: Client) -> None:
    requests = [
        ("RunStep", pb.RunStepRequest), ("ExtendSession", pb.ExtendSessionRequest),
        ("CloseSession", pb.CloseSessionRequest), ("PartialRunSetup", pb.PartialRunSetupRequest),
        ("MakeCallable", pb.MakeCallableRequest), ("RunCallable", pb.RunCallableRequest),
        ("ReleaseCallable", pb.ReleaseCallableRequest),
    ]  # fmt: skip
    for method, message in requests:
        with pytest.raises(errors.AbortedError, match="nobody"):
            client.call(method, message(session_handle="nobody"))
    with pytest.raises(errors.InvalidArgumentError, match="nobody"):
        client.call("ListDevices", pb.ListDevicesRequest(session_handle="nobody"))


def test_a_second_close_finds_no_session(client: Client) -> None:
    client.create(tf.Graph())
    close = pb.CloseSessionRequest(session_handle=client.handle)
    client.call("CloseSession", close)
    with pytest.raises(errors.AbortedError):
        client.call("CloseSession", close)


def test_two_errors_of_one_step_are_told_as_one(client: Client, graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    for name, device in (("a", "/job:ps"), ("b", "/job:worker/task:1")):
        with tf.device(device):
            tf.add(x, [1.0, 2.0], name=name)
    client.create(graph)
    text = client.refused(
        errors.INVALID_ARGUMENT, "a:0", "b:0", feeds={"x:0": np.ones(3, np.float32)}
    )
    assert "From /job:" in text


def worker_of(cluster: LocalCluster, job: str, task: int) -> Any:
    return cluster.server(job, task).worker


async def until_idle(*workers: Any) -> None:
    while any(worker.steps.running_count for worker in workers):
        await asyncio.sleep(0.001)


def test_a_failing_part_ends_the_others(
    cluster: LocalCluster, client: Client, graph: tf.Graph
) -> None:
    x = tf.placeholder(tf.float32, [None], name="x")
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]], name="q")
        queue.dequeue(name="never")
        queue.enqueue(5.0, name="put")
        queue.size(name="size")
        sent = tf.negative(x)  # so that the part of the ps has started when the other fails
    with tf.device("/job:worker/task:1"):
        tf.add(sent, [1.0, 2.0], name="bad")
    client.create(graph)
    client.refused(
        errors.INVALID_ARGUMENT, "bad:0", target=["never"], feeds={"x:0": np.ones(3, np.float32)}
    )
    ps = worker_of(cluster, "ps", 0)
    run_sync(until_idle(ps), 10)
    assert ps.steps.running_count == 0
    client.run(target=["put"])
    assert client.run("size:0") == {"size:0": 1}  # nobody waits for it any more


def test_a_cancelled_call_cancels_the_step_on_all_workers(
    cluster: LocalCluster, client: Client, graph: tf.Graph
) -> None:
    with tf.device("/job:ps"):
        got = tf.FIFOQueue(1, [tf.float32], [[]], name="q").dequeue()
    with tf.device("/job:worker/task:1"):
        tf.negative(got, name="never")
    client.create(graph)
    workers = [worker_of(cluster, "ps", 0), worker_of(cluster, "worker", 1)]

    async def run_and_cancel() -> None:
        call = asyncio.ensure_future(client.master.RunStep(client.step(target=["never"])))
        while not all(worker.steps.running_count for worker in workers):
            await asyncio.sleep(0.001)
        call.cancel()
        await until_idle(*workers)

    run_sync(run_and_cancel(), 10)
    assert not any(worker.steps.running_count for worker in workers)


# ---- partial runs


def test_partial_runs(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    setup = pb.PartialRunSetupRequest(
        session_handle=client.handle, feed=["x:0"], fetch=["y:0", "z:0"]
    )
    handle = client.call("PartialRunSetup", setup).partial_run_handle
    assert int(handle) == 0
    part: dict[str, Any] = {"partial_run_handle": handle}
    client.refused(errors.INVALID_ARGUMENT, "y:0", **part)
    assert client.run("y:0", feeds={"x:0": np.float32(1)}, **part) == {"y:0": 2.0}
    client.refused(errors.INVALID_ARGUMENT, "y:0", **part)
    last = client.call("RunStep", client.step(fetch=["z:0"], **part))
    assert last.HasField("metadata")
    client.refused(errors.INVALID_ARGUMENT, "z:0", **part)
    setup.fetch.append("gone:0")
    with pytest.raises(errors.NotFoundError):
        client.call("PartialRunSetup", setup)
    with pytest.raises(errors.InvalidArgumentError):
        client.call("PartialRunSetup", pb.PartialRunSetupRequest(session_handle=client.handle))


def test_an_open_partial_run_does_not_hinder_closing(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    setup = pb.PartialRunSetupRequest(
        session_handle=client.handle, feed=["x:0"], fetch=["y:0", "z:0"]
    )
    handle = client.call("PartialRunSetup", setup).partial_run_handle
    client.run("y:0", feeds={"x:0": np.float32(1)}, partial_run_handle=handle)
    closed = pb.CloseSessionRequest(session_handle=client.handle)
    client.call("CloseSession", closed, 5.0)
    with pytest.raises(errors.AbortedError):
        client.call("CloseSession", closed, 5.0)


# ---- callables


def run_callable(client: Client, handle: int, *feeds: Any) -> list[Any]:
    request = pb.RunCallableRequest(
        session_handle=client.handle, handle=handle, feed=map(encode_tensor, feeds)
    )
    return [decode_tensor(t) for t in client.call("RunCallable", request).fetch]


def make_callable(client: Client, **options: Any) -> int:
    request = pb.MakeCallableRequest(
        session_handle=client.handle, options=pb.CallableOptions(**options)
    )
    return int(client.call("MakeCallable", request).handle)


def test_callables_feed_by_position(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    handle = make_callable(client, feed=["x:0"], fetch=["z:0", "y:0", "z:0"])
    assert handle == 0
    assert run_callable(client, handle, np.float32(1)) == [4.0, 2.0, 4.0]
    assert run_callable(client, handle, np.float32(2), np.float32(9)) == [6.0, 3.0, 6.0]
    with pytest.raises(errors.InvalidArgumentError, match="x:0"):
        run_callable(client, handle)
    assert make_callable(client, feed=["x:0"], target=["z"]) == 1
    release = pb.ReleaseCallableRequest(session_handle=client.handle, handle=handle)
    client.call("ReleaseCallable", release)
    client.call("ReleaseCallable", release)
    with pytest.raises(errors.InvalidArgumentError):
        run_callable(client, handle, np.float32(1))


def test_a_callable_may_connect_tensors(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    connection = pb.TensorConnection(from_tensor="x:0", to_tensor="y:0")
    handle = make_callable(client, feed=["x:0"], fetch=["z:0"], tensor_connection=[connection])
    assert run_callable(client, handle, np.float32(5)) == [10.0]


def test_callables_that_cannot_be(client: Client, xyz: tf.Graph) -> None:
    client.create(xyz)
    with pytest.raises(errors.InvalidArgumentError):
        make_callable(client, feed=["x:0", "x:0"], fetch=["z:0"])
    with pytest.raises(errors.UnimplementedError):
        make_callable(client, feed=["x:0"], fetch=["z:0"], feed_devices={"x:0": "/gpu:0"})
    with pytest.raises(errors.NotFoundError):
        make_callable(client, fetch=["gone:0"])


# ---- the cluster


def test_devices_without_a_session(client: Client) -> None:
    response = client.call("ListDevices", pb.ListDevicesRequest())
    assert [d.name for d in response.local_device] == ["/job:worker/replica:0/task:0/device:CPU:0"]
    assert len(response.remote_device) == 2


def propagated(cluster: LocalCluster) -> pb.ClusterDef:
    """The cluster's ps and worker 0 under other names."""
    ps, worker = cluster.spec.task_address("ps", 0), cluster.spec.task_address("worker", 0)
    return tf.train.ClusterSpec({"store": [ps], "trainer": {3: worker}}).as_cluster_def()


def test_a_session_may_bring_names_of_its_own(
    cluster: LocalCluster, client: Client, graph: tf.Graph
) -> None:
    with tf.device("/job:store"):
        v = tf.Variable(2.0, name="v")
        tf.negative(v, name="minus")
    client.create(graph, cluster_def=propagated(cluster))
    response = client.call("ListDevices", pb.ListDevicesRequest(session_handle=client.handle))
    assert [d.name for d in response.local_device] == ["/job:trainer/replica:0/task:3/device:CPU:0"]
    assert [d.name for d in response.remote_device] == ["/job:store/replica:0/task:0/device:CPU:0"]
    client.run(target=[v.initializer.name])
    assert client.run("minus:0") == {"minus:0": -2.0}
    client.call("CloseSession", pb.CloseSessionRequest(session_handle=client.handle))
    client.create(graph, cluster_def=propagated(cluster))
    client.refused(errors.FAILED_PRECONDITION, "minus:0")


def test_a_cluster_must_hold_the_master_once_and_under_a_new_name(
    cluster: LocalCluster, client: Client
) -> None:
    own = cluster.spec.task_address("worker", 0)
    for jobs, word in (
        ({"other": ["localhost:1"]}, own),
        ({"worker": [own]}, "started with"),
    ):
        cluster_def = tf.train.ClusterSpec(jobs).as_cluster_def()
        with pytest.raises(errors.InvalidArgumentError, match=word):
            client.create(tf.Graph(), cluster_def=cluster_def)


def test_a_graph_that_is_refused_leaves_no_connection_of_its_clusters(
    cluster: LocalCluster, client: Client
) -> None:
    client.call("ListDevices", pb.ListDevicesRequest())  # so that the servers know each other
    watch = Watch()
    bad_pb = pb.GraphDef(node=[pb.NodeDef(name="x", op="NoSuchOp")])
    request = pb.CreateSessionRequest(
        graph_def=bad_pb,
        config=pb.ConfigProto(cluster_def=propagated(cluster)),
        target=client.target,
    )
    with pytest.raises(errors.OpError, match="NoSuchOp"):
        client.call("CreateSession", request)
    watch.require_nothing_left()


# ---- clients that die


def test_sessions_of_clients_that_have_left_are_bounded(
    monkeypatch: pytest.MonkeyPatch, make_cluster: Callable[..., LocalCluster]
) -> None:
    monkeypatch.setattr("tideflow.cluster.master.service.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("tideflow.cluster.master.service.MOST_WITHOUT_CLIENT", 2)
    monkeypatch.setattr("tideflow.cluster.master.service.RECONNECT_S", 0.0)
    cluster = make_cluster({"worker": 1})
    target = cluster.target("worker")
    staying, leaving = Client(target), Client(target)
    staying.create(tf.Graph())
    handles = [leaving.create(tf.Graph()) for _ in range(4)]
    leaving.close()
    for handle in handles[:2]:
        refused = errors.OK
        while refused != errors.ABORTED:
            staying.handle, kept = handle, staying.handle
            refused = asked(staying)
            staying.handle = kept
    assert asked(staying) == errors.OK
    for staying.handle in handles[2:]:
        assert asked(staying) == errors.OK
    staying.close()


def asked(client: Client) -> int:
    """Ask for a session's devices; return the code of the answer."""
    try:
        client.call("ListDevices", pb.ListDevicesRequest(session_handle=client.handle))
    except errors.OpError as error:
        return errors.ABORTED if "no session" in str(error) else int(error.error_code)
    return errors.OK
