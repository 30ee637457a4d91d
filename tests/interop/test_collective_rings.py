"""Collectives between workers of both kinds: the same chunks, keys, groups and steps."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ring_member import make_input
from rings import Ring, summary

pytestmark = [
    pytest.mark.processes,
    pytest.mark.tensorflow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("rings"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
    ),
]

ADD = {"merge_op": "Add", "final_op": "Id"}
RINGS = {
    "led by TensorFlow": (["tensorflow", "tideflow"], 1),
    "led by tideflow": (["tideflow", "tensorflow"], 1),
    "two devices each": (["tideflow", "tensorflow"], 2),
}


@pytest.fixture(scope="module", params=RINGS)
def ring(request: pytest.FixtureRequest) -> Iterator[Ring]:
    with Ring(*RINGS[request.param]) as made:
        yield made


def inputs(ring: Ring, count: int, dtype: str) -> list[Any]:
    return [make_input(rank, count, dtype) for rank in range(ring.size)]


@pytest.mark.parametrize(
    ("key", "count"), [(101, 1), (102, 15), (103, 100), (104, 256), (105, 3_000_001)]
)
def test_a_sum_of_any_size(ring: Ring, key: int, count: int) -> None:
    expected = summary(np.sum(inputs(ring, count, "float32"), axis=0, dtype="float32"))
    assert ring.run("CollectiveReduceV2", count, instance_key=key, **ADD) == [expected] * ring.size


def test_rings_that_share_the_work(ring: Ring) -> None:
    count = 5_000_001
    expected = summary(np.sum(inputs(ring, count, "float32"), axis=0, dtype="float32"))
    found = ring.run("CollectiveReduceV2", count, instance_key=110, max_subdivs_per_device=2, **ADD)
    assert found == [expected] * ring.size


@pytest.mark.parametrize(
    ("key", "dtype"), [(120, "half"), (121, "float64"), (122, "int32"), (123, "int64")]
)
def test_the_greatest_of_each_type(ring: Ring, key: int, dtype: str) -> None:
    named = {"half": "float16"}.get(dtype, dtype)
    expected = summary(np.max(inputs(ring, 300, named), axis=0))
    found = ring.run(
        "CollectiveReduceV2", 300, named, instance_key=key, merge_op="Max", final_op="Id"
    )
    assert found == [expected] * ring.size


@pytest.mark.parametrize(("key", "count"), [(130, 7), (131, 3_000_000)])
def test_a_gather_keeps_the_order_of_ranks(ring: Ring, key: int, count: int) -> None:
    expected = summary(np.concatenate(inputs(ring, count, "int32")))
    found = ring.run("CollectiveGatherV2", count, "int32", instance_key=key)
    assert found == [expected] * ring.size


@pytest.mark.parametrize("source", [0, 1])
def test_a_broadcast_from_either_side(ring: Ring, source: int) -> None:
    rank = source * ring.devices
    expected = summary(make_input(rank, 70, "float64"))
    found = ring.run("broadcast", 70, "float64", instance_key=140 + source, source=rank)
    assert found == [expected] * ring.size


def test_rows_are_exchanged(ring: Ring) -> None:
    rows = np.stack(inputs(ring, ring.size, "float32"))
    found = ring.run("CollectiveAllToAllV2", ring.size, instance_key=150)
    assert found == [summary(rows[:, rank]) for rank in range(ring.size)]


def test_steps_follow_each_other(ring: Ring) -> None:
    expected = summary(np.sum(inputs(ring, 40, "float32"), axis=0, dtype="float32"))
    for _ in range(5):
        found = ring.run("CollectiveReduceV2", 40, instance_key=160, **ADD)
        assert found == [expected] * ring.size
