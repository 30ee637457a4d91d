"""Collectives over the tasks of a cluster, each with several devices, pushed and asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.graph.building import apply_op
from tideflow.wire import errors

# Enough for several pieces of the direct exchange, and for two rings.
LARGE = 2_500_001


@pytest.fixture(params=["pushed", "asked for"])
def make_members(
    request: pytest.FixtureRequest,
    make_cluster: Callable[..., LocalCluster],
    set_settings: Callable[..., None],
) -> Callable[..., LocalCluster]:
    """Starts workers that push buffers to each other, or ask for them as TensorFlow's do."""
    set_settings(peer=request.param == "pushed")

    def make(tasks: int, devices: int = 1, leader: str = "/job:worker/task:0") -> LocalCluster:
        config = tf.ConfigProto(device_count={"CPU": devices})
        config.experimental.collective_group_leader = leader
        return make_cluster({"worker": tasks}, config)

    return make


def keys(size: int, instance_key: int, group_key: int = 1) -> list[Any]:
    return [np.int32(size), np.int32(group_key), np.int32(instance_key)]


def reduce_v2(value: Any, size: int, instance_key: int, **attrs: Any) -> Any:
    given = {"merge_op": "Add", "final_op": "Id", **attrs}
    return apply_op("CollectiveReduceV2", value, *keys(size, instance_key), [], **given)


def on_members(tasks: int, devices: int, make: Callable[[int], Any]) -> list[Any]:
    """Return what `make(rank)` gives on each device, in one graph."""
    made = []
    for rank in range(tasks * devices):
        task, index = divmod(rank, devices)
        with tf.device(f"/job:worker/task:{task}/device:CPU:{index}"):
            made.append(make(rank))
    return made


def run_on(cluster: LocalCluster, tasks: int, devices: int, make: Callable[[int], Any]) -> Any:
    with tf.Graph().as_default():
        outputs = on_members(tasks, devices, make)
        with tf.Session(cluster.target("worker")) as session:
            session.run(outputs)
            return session.run(outputs)


@pytest.mark.parametrize(("tasks", "devices"), [(2, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("count", [0, 1, 15, 100, 256, LARGE])
def test_reduces_tensors_of_any_size(
    make_members: Callable[..., LocalCluster], tasks: int, devices: int, count: int
) -> None:
    size = tasks * devices
    inputs = [np.arange(count, dtype=np.float32) % 97 * (rank + 1) for rank in range(size)]
    found = run_on(
        make_members(tasks, devices),
        tasks,
        devices,
        lambda rank: reduce_v2(tf.constant(inputs[rank]), size, 7, final_op="Div"),
    )
    expected = np.sum(inputs, axis=0) / size
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        assert result.dtype == np.float32


@pytest.mark.parametrize(("tasks", "devices"), [(2, 1), (3, 2)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int32", "int64"])
def test_reduces_every_type_to_the_same_bits_everywhere(
    make_members: Callable[..., LocalCluster], tasks: int, devices: int, dtype: str
) -> None:
    size = tasks * devices
    inputs = [
        np.random.default_rng(rank).integers(-9, 9, 200).astype(tf.as_dtype(dtype).as_numpy_dtype)
        for rank in range(size)
    ]
    found = run_on(
        make_members(tasks, devices),
        tasks,
        devices,
        lambda rank: reduce_v2(tf.constant(inputs[rank]), size, 7, merge_op="Max"),
    )
    for result in found:
        assert result.tobytes() == np.max(inputs, axis=0).tobytes()


@pytest.mark.parametrize(("tasks", "devices"), [(2, 1), (5, 1), (2, 3)])
def test_gathers_broadcasts_and_exchanges_rows(
    make_members: Callable[..., LocalCluster], tasks: int, devices: int
) -> None:
    size = tasks * devices
    source = size - 1

    def make(rank: int) -> list[Any]:
        row = tf.constant(np.arange(2 * size, dtype=np.int32) + 100 * rank)
        square = tf.reshape(row, [size, 2])
        if rank == source:
            sent = apply_op("CollectiveBcastSendV2", row, *keys(size, 9))
        else:
            shape = np.array([2 * size], np.int32)
            sent = apply_op("CollectiveBcastRecvV2", *keys(size, 9), shape, T=tf.int32)
        return [
            apply_op("CollectiveGatherV2", row, *keys(size, 8), []),
            sent,
            apply_op("CollectiveAllToAllV2", square, *keys(size, 10), []),
            apply_op(
                "CollectiveReduceScatterV2",
                square,
                *keys(size, 11),
                [],
                merge_op="Add",
                final_op="Id",
            ),
        ]

    inputs = np.stack([np.arange(2 * size, dtype=np.int32) + 100 * rank for rank in range(size)])
    squares = inputs.reshape(size, size, 2)
    found = run_on(make_members(tasks, devices), tasks, devices, make)
    for rank, (gathered, sent, swapped, scattered) in enumerate(found):
        assert gathered.tolist() == inputs.reshape(-1).tolist()
        assert sent.tolist() == inputs[source].tolist()
        assert swapped.tolist() == squares[:, rank].tolist()
        assert scattered.tolist() == squares.sum(axis=0)[rank : rank + 1].tolist()


def test_the_older_ops_have_their_keys_as_attrs(make_members: Callable[..., LocalCluster]) -> None:
    def make(rank: int) -> list[Any]:
        value = tf.constant(np.array([rank + 1.0], np.float32))
        facts: dict[str, Any] = {"group_size": 2, "group_key": 3}
        if rank:
            sent = apply_op("CollectiveBcastRecv", T=tf.float32, instance_key=3, shape=[1], **facts)
        else:
            sent = apply_op("CollectiveBcastSend", value, instance_key=3, shape=[1], **facts)
        return [
            apply_op(
                "CollectiveReduce",
                value,
                instance_key=1,
                merge_op="Mul",
                final_op="Id",
                subdiv_offsets=[0],
                **facts,
            ),
            apply_op("CollectiveGather", value, instance_key=2, shape=[2], **facts),
            sent,
        ]

    for reduced, gathered, sent in run_on(make_members(2), 2, 1, make):
        assert reduced.tolist() == [2.0]
        assert gathered.tolist() == [1.0, 2.0]
        assert sent.tolist() == [1.0]


def test_communicators_rank_their_members_as_asked(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    def make(rank: int) -> Any:
        place = apply_op(
            "CollectiveInitializeCommunicator", np.int32(5), np.int32(1 - rank), np.int32(2)
        )
        members = np.array([[0, 1]], np.int32)
        value = tf.constant(np.array([10 * rank, 10 * rank + 1], np.float32))
        reduced = apply_op("CollectiveReduceV3", value, place, members, reduction="Add")
        with tf.control_dependencies([reduced]):
            return [reduced, apply_op("CollectiveAllToAllV3", value, place, members)]

    (_, first), (reduced, second) = run_on(make_cluster({"worker": 2}), 2, 1, make)
    assert reduced.tolist() == [10.0, 12.0]
    # Task 1 has rank 0.
    assert second.tolist() == [10.0, 0.0]
    assert first.tolist() == [11.0, 1.0]


# ---- sessions of their own


class Member:
    """A worker's program: its own graph, session and master, as in between-graph replication."""

    def __init__(self, cluster: LocalCluster, task: int, graph_key: int = 1) -> None:
        self.options = tf.RunOptions()
        self.options.experimental.collective_graph_key = graph_key
        self.graph = tf.Graph()
        self.device = f"/job:worker/task:{task}"
        self.session = tf.Session(cluster.target("worker", task), self.graph)

    def build(self, make: Callable[[], Any]) -> Any:
        with self.graph.as_default(), tf.device(self.device):
            return make()

    def run(self, fetches: Any, feeds: Any = None) -> Any:
        return self.session.run(fetches, feeds, self.options)


@pytest.fixture
def run_together() -> Iterator[Callable[..., list[Any]]]:
    """Runs calls at the same time; returns their results, or errors in the place of them."""
    pool = ThreadPoolExecutor(8)

    def attempt(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except errors.OpError as error:
            return error

    yield lambda calls: list(pool.map(attempt, calls))
    pool.shutdown()


def test_members_with_masters_of_their_own_meet_in_each_step(
    make_members: Callable[..., LocalCluster], run_together: Callable[..., list[Any]]
) -> None:
    cluster = make_members(3)
    members = [Member(cluster, task) for task in range(3)]
    sums = [
        member.build(lambda task=task: reduce_v2(tf.fill([3], float(task)), 3, 7))
        for task, member in enumerate(members)
    ]
    for _ in range(4):
        found = run_together([lambda m=m, s=s: m.run(s) for m, s in zip(members, sums)])
        assert [result.tolist() for result in found] == [[3.0, 3.0, 3.0]] * 3


def test_members_whose_shapes_differ_are_named_and_can_go_on(
    make_members: Callable[..., LocalCluster], run_together: Callable[..., list[Any]]
) -> None:
    cluster = make_members(2)
    members = [Member(cluster, task) for task in range(2)]

    def make() -> tuple[Any, Any]:
        given = tf.placeholder(tf.float32, [None])
        return given, reduce_v2(given, 2, 7)

    made = [member.build(make) for member in members]

    def reduce(sizes: list[int]) -> list[Any]:
        return run_together(
            [
                lambda m=m, o=o, g=g, n=n: m.run(o, {g: np.ones(n)})
                for m, (g, o), n in zip(members, made, sizes)
            ]
        )

    wrong = reduce([2, 3])
    assert all(isinstance(error, errors.InvalidArgumentError) for error in wrong)
    text = wrong[0].message
    assert "[2]" in text
    assert "[3]" in text
    assert "/job:worker/replica:0/task:1" in text
    assert "/job:worker/replica:0/task:0" in text
    if "Shape mismatch" not in text:  # what a leader compares stays as it was
        assert [result.tolist() for result in reduce([2, 2])] == [[2.0, 2.0]] * 2


class Client:
    """A client that brings the cluster with it, and so has collectives of its own on its tasks."""

    def __init__(self, cluster: LocalCluster) -> None:
        spec = tf.train.ClusterSpec({"trainer": cluster.spec.as_dict()["worker"]})
        config = tf.ConfigProto(cluster_def=spec.as_cluster_def())
        with tf.Graph().as_default() as graph, tf.device("/job:trainer/task:0"):
            self.given = tf.placeholder(tf.float32, [None])
            self.wrong = tf.placeholder_with_default(np.zeros(0, np.float32), [None])
            self.sums = [reduce_v2(self.given, 2, 7)]
            with tf.device("/job:trainer/task:1"):
                self.sums += [reduce_v2(tf.concat([self.given, self.wrong], 0), 2, 7)]
        self.session = tf.Session(cluster.target("worker"), graph, config)

    def add(self) -> list[list[float]]:
        return [sum.tolist() for sum in self.session.run(self.sums, {self.given: [1.0, 2.0]})]

    def fail(self) -> None:
        with pytest.raises(errors.OpError):
            self.session.run(self.sums, {self.given: [1.0, 2.0], self.wrong: [3.0]})

    def begin(self, timeout_ms: int = 0) -> None:
        """Take part with one member only, which waits for the other."""
        options = tf.RunOptions(timeout_in_ms=timeout_ms)
        self.session.run(self.sums[0], {self.given: [1.0, 2.0]}, options)


@pytest.mark.parametrize("end", ["fails", "gives up", "leaves in the middle of a call"])
def test_a_client_goes_on_in_a_group_that_ended_for_another(
    make_members: Callable[..., LocalCluster], run_together: Callable[..., list[Any]], end: str
) -> None:
    cluster = make_members(2, leader="")
    first, second = Client(cluster), Client(cluster)
    for client in (first, second, first, second):
        assert client.add() == [[2.0, 4.0]] * 2
    if end == "fails":
        first.fail()
    elif end == "gives up":
        with pytest.raises(errors.DeadlineExceededError):
            first.begin(timeout_ms=100)
    else:
        run_together([first.begin, first.session.close])
    with contextlib.suppress(errors.OpError):  # all that were in the group hear of its end once
        second.add()
    for _ in range(2):
        assert second.add() == [[2.0, 4.0]] * 2


def test_a_timeout_ends_the_wait_for_an_absent_member(
    make_members: Callable[..., LocalCluster],
) -> None:
    member = Member(make_members(2), 1)
    total = member.build(lambda: reduce_v2(tf.ones([3]), 2, 7, timeout_seconds=0.2))
    with pytest.raises(errors.DeadlineExceededError, match="waiting for other workers"):
        member.run(total)
