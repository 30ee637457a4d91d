"""What is too large for a message fails whoever wanted it, and holds up nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import tideflow.v1 as tf
from client.conftest import over_socket
from cluster.servers import LocalCluster
from real_time import eventually
from tideflow.cluster.status import StatusService
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

MOST_BYTES = 20_000
SMALL, LARGE = 10, 8_000
TOO_LARGE = rf"3\d{{4}} bytes; a message has at most {MOST_BYTES}"


def on(job: str) -> Any:
    return tf.device(f"/job:{job}")


@dataclass
class Cluster:
    """A parameter server and a worker that push to each other.

    Attributes:
      limit: lets messages have few bytes from now on.
    """

    target: str
    limit: Callable[[], None]


@pytest.fixture(params=["never", "always"])
def cluster(
    request: pytest.FixtureRequest,
    set_settings: Callable[..., None],
    make_cluster: Callable[..., LocalCluster],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    set_settings(jit=request.param, peer=True)
    servers = make_cluster({"ps": 1, "worker": 1})
    target = over_socket(servers.target("worker"))
    with tf.Graph().as_default():
        until_pushing(servers, target)
        yield Cluster(
            target,
            lambda: monkeypatch.setattr(
                "tideflow.transport.encoding.MOST_MESSAGE_BYTES", MOST_BYTES
            ),
        )


def until_pushing(servers: LocalCluster, target: str) -> None:
    """Run steps until values are pushed both ways."""

    async def asked() -> int:
        count = 0
        for job in ("ps", "worker"):
            channel = make_channel(servers.spec.task_address(job, 0))
            try:
                status = stub(StatusService, channel)
                response = await status.GetServerStatus(pb.ServerStatusRequest())
            finally:
                await channel.close()
            rows = [row for row in response.method if row.path.endswith("/RecvTensor")]
            count += sum(row.calls for row in rows)
        return count

    with tf.Graph().as_default(), tf.Session(target) as session:
        x = tf.placeholder(tf.float32, [])
        y = there_and_back(x)

        def pushed() -> bool:
            before = run_sync(asked())
            assert session.run(y, {x: 1.0}) == 3.0
            return run_sync(asked()) == before

        eventually(pushed)


def there_and_back(x: tf.Tensor) -> tf.Tensor:
    with on("worker"):
        x = tf.identity(x)
    with on("ps"):
        x = x + 1.0
    with on("worker"):
        return x + 1.0


@pytest.mark.parametrize(("source", "destination"), [("worker", "ps"), ("ps", "worker")])
def test_a_value_that_is_too_large_fails_its_own_step(
    cluster: Cluster, source: str, destination: str
) -> None:
    count = tf.placeholder(tf.int32, [])
    with on(source):
        value = tf.fill([count], 2.0)
    with on(destination):
        total = tf.reduce_sum(value)
    with tf.Session(cluster.target) as session:
        assert session.run(total, {count: SMALL}) == 2 * SMALL
        cluster.limit()
        stop = threading.Event()
        others: list[float] = []

        def go_on() -> None:
            while not stop.is_set() or not others:
                others.append(session.run(total, {count: SMALL}))

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            for _ in range(5):
                with pytest.raises(errors.ResourceExhaustedError, match=TOO_LARGE):
                    session.run(total, {count: LARGE})
        finally:
            stop.set()
            thread.join()
        assert set(others) == {2 * SMALL}


@pytest.mark.parametrize(("source", "destination"), [("worker", "ps"), ("ps", "worker")])
def test_values_that_are_too_large_together_arrive(
    cluster: Cluster, source: str, destination: str
) -> None:
    count = tf.placeholder(tf.int32, [])
    with on(source):
        values = [tf.fill([count], float(i)) for i in range(7)]
    with on(destination):
        totals = [tf.reduce_sum(value) for value in values]
    with tf.Session(cluster.target) as session:
        assert session.run(totals, {count: 1}) == list(range(7))
        cluster.limit()
        for _ in range(3):
            found = session.run(totals, {count: LARGE // 3})
            assert found == [i * (LARGE // 3) for i in range(7)]


def test_strings_that_are_too_large_fail_their_step(cluster: Cluster) -> None:
    count = tf.placeholder(tf.int32, [])
    with on("ps"):
        text = tf.strings.reduce_join(tf.fill([count], "text"))
    with on("worker"):
        length = tf.strings.length(text)
    with tf.Session(cluster.target) as session:
        assert session.run(length, {count: SMALL}) == 4 * SMALL
        cluster.limit()
        with pytest.raises(errors.ResourceExhaustedError, match=TOO_LARGE):
            session.run(length, {count: LARGE})
        assert session.run(length, {count: SMALL}) == 4 * SMALL


def test_an_error_that_is_too_large_is_told_in_part(cluster: Cluster) -> None:
    count = tf.placeholder(tf.int32, [])
    with on("ps"):
        text = tf.strings.reduce_join(tf.fill([count], "text"))
        check = tf.Assert(tf.less(count, 0), [text])
    with tf.Session(cluster.target) as session:
        with pytest.raises(errors.InvalidArgumentError, match="text"):
            session.run(check, {count: SMALL})
        cluster.limit()
        with pytest.raises(errors.ResourceExhaustedError, match=TOO_LARGE):
            session.run(check, {count: LARGE})
