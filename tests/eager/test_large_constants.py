"""Large constants of functions go to other tasks beside the messages of the functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import LocalCluster
from tideflow.cluster.eager.service import EagerWorker
from tideflow.eager.context import Context, context, replace_context
from tideflow.wire import messages as pb
from tideflow.wire.parted import MaybeParted, graph_contents, take_apart

_COUNT = 1 << 20
_MOST_BYTES = 64 << 10


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gives the sizes of the messages whose functions have large constants."""
    found: list[int] = []
    enqueue = EagerWorker.Enqueue

    async def noting(
        self: EagerWorker, request: MaybeParted[pb.EnqueueRequest]
    ) -> pb.EnqueueResponse:
        if graph_contents(request):
            found.append(take_apart(request)[0].ByteSize())
        return await enqueue(self, request)

    monkeypatch.setattr(EagerWorker, "Enqueue", noting)
    return found


@pytest.fixture
def workers(registered: list[int]) -> Iterator[None]:
    cluster = LocalCluster({"worker": 2})
    replace_context(Context())
    tf.config.experimental_connect_to_cluster(cluster.spec)
    yield
    context().disconnect()
    replace_context(Context())
    cluster.stop()


@pytest.mark.parametrize("inner", [0, 1])
def test_a_function_with_a_large_constant(workers: None, registered: list[int], inner: int) -> None:
    value = np.arange(_COUNT, dtype=np.float64)

    @tf.function
    def row(i: Any) -> Any:
        with tf.device(f"/job:worker/task:{inner}"):
            return tf.gather(tf.constant(value), i) + 1.0

    with tf.device("/job:worker/task:0"):
        assert float(row(tf.constant(41))) == 42.0
    assert registered
    assert max(registered) < _MOST_BYTES
