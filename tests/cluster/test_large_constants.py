"""Protobuf sees no large constant of a graph on its way from task to task: it lets no other thread
run, and so stops the loop, while it copies, writes or parses one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.cluster.master import Master
from tideflow.cluster.worker import Worker
from tideflow.wire.parted import graph_contents, take_apart

_COUNT = 1 << 20
_MOST_BYTES = 64 << 10
_METHODS = (
    (Master, "CreateSession"),
    (Master, "ExtendSession"),
    (Worker, "RegisterGraph"),
)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Gives what requests with large constants come, and how large their messages are."""
    found: list[tuple[str, int]] = []

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(self: Any, request: Any) -> Any:
            message, _ = take_apart(request)
            if graph_contents(request):
                found.append((name, message.ByteSize()))
            else:
                assert message.ByteSize() < _MOST_BYTES, name
            return await method(self, request)

        return call

    for service, name in _METHODS:
        monkeypatch.setattr(service, name, noting(name, getattr(service, name)))
    yield found
    assert all(size < _MOST_BYTES for _, size in found), found


def test_constants_of_a_session(
    make_cluster: Callable[..., LocalCluster], seen: list[tuple[str, int]]
) -> None:
    cluster = make_cluster({"worker": 2})
    value = np.arange(_COUNT, dtype=np.float64)
    with tf.Graph().as_default(), tf.Session(cluster.target("worker", 0)) as session:
        with tf.device("/job:worker/task:1"):
            at = tf.placeholder(tf.int32, [])
            first = tf.gather(tf.constant(value), at)
        assert session.run(first, {at: 7}) == 7.0
        second = tf.gather(tf.constant(value + 1), at)
        assert session.run(second, {at: 7}) == 8.0
    assert {name for name, _ in seen} == {"CreateSession", "ExtendSession", "RegisterGraph"}


def test_constants_of_functions_of_a_session(
    make_cluster: Callable[..., LocalCluster], seen: list[tuple[str, int]]
) -> None:
    cluster = make_cluster({"worker": 2})
    with tf.Graph().as_default(), tf.Session(cluster.target("worker", 0)) as session:
        table = tf.constant(np.arange(_COUNT, dtype=np.int32))
        with tf.device("/job:worker/task:1"):
            rows = tf.data.Dataset.range(3).map(lambda i: tf.gather(table, i + 7))
            iterator = tf.data.make_initializable_iterator(rows)
            row = iterator.get_next()
        session.run(iterator.initializer)
        assert [session.run(row) for _ in range(3)] == [7, 8, 9]
    assert {name for name, _ in seen} >= {"CreateSession", "RegisterGraph"}
