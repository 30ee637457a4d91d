"""Ops of datasets that name what they share: seeds of random order, and caches."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import Made, check_elements, check_refused, int64, numbers
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def random_numbers(op, *inputs, **attrs):
    made = Made(None)
    made.variant = apply_op(op, *inputs, **made.structure, **attrs)
    return made


def seeds(kind, reshuffle=True):
    """Return the handle of seeds."""
    if kind == "DummySeedGenerator":
        return apply_op(kind)
    handle, _ = apply_op(kind, int64(3), int64(4), tf.constant(reshuffle))
    return handle


# ---- random numbers


def test_random_numbers():
    op = "ExperimentalRandomDataset"
    found = check_elements(lambda: random_numbers(op, int64(5), int64(6)), [op], count=5)
    assert len(set(found)) == 5


@pytest.mark.parametrize("again", [False, True])
def test_random_numbers_by_seeds(again):
    ops = ["RandomDatasetV2", "DummySeedGenerator"]

    def build():
        handle = seeds("DummySeedGenerator")
        inputs = (int64(5), int64(6), handle)
        return random_numbers(ops[0], *inputs, rerandomize_each_iteration=again)

    assert len(set(check_elements(build, ops, count=5))) == 5


# ---- random order


@pytest.mark.parametrize("reshuffle", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_random_order_again_and_again(reshuffle, times):
    op = "ShuffleAndRepeatDatasetV2"

    def build():
        handle = seeds("DummySeedGenerator")
        inputs = (int64(3), int64(5), int64(6), int64(times), handle)
        return numbers(6).to(op, *inputs, reshuffle_each_iteration=reshuffle)

    assert sorted(check_elements(build, [op])) == sorted(list(range(6)) * times)


@pytest.mark.parametrize("reshuffle", [False, True])
def test_random_order_by_no_seeds_of_others(reshuffle):
    op = "ShuffleDatasetV3"

    def build():
        handle = seeds("DummySeedGenerator")
        inputs = (int64(4), int64(5), int64(6), handle)
        return numbers(9).to(op, *inputs, reshuffle_each_iteration=reshuffle)

    assert sorted(check_elements(build, [op])) == list(range(9))


def by_seeds(op, handle, size=4, times=1):
    """Return a dataset in an order that seeds decide."""
    own = {
        "ShuffleDatasetV2": (),
        "ShuffleDatasetV3": (int64(9), int64(9)),
        "ShuffleAndRepeatDatasetV2": (int64(9), int64(9), int64(times)),
    }[op]
    return numbers(7).to(op, int64(size), *own, handle)


SHUFFLES = ["ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDatasetV2"]


@pytest.mark.parametrize("op", SHUFFLES)
@pytest.mark.parametrize("reshuffle", [False, True])
def test_random_order_by_seeds_that_a_handle_names(op, reshuffle):
    """An iterator that begins in the step that makes the seeds, and goes on without them."""
    found = check_elements(
        lambda: by_seeds(op, seeds("AnonymousSeedGenerator", reshuffle)),
        [op, "AnonymousSeedGenerator"],
    )
    assert sorted(found) == list(range(7))


@pytest.mark.parametrize("op", SHUFFLES)
@pytest.mark.parametrize("size", [0, -1, -3])
def test_buffers_of_no_size(op, size):
    check_refused(lambda: by_seeds(op, seeds("AnonymousSeedGenerator"), size), [op])


@pytest.mark.parametrize("times", [0, -3])
def test_repeating_never(times):
    def build():
        handle = seeds("DummySeedGenerator")
        return by_seeds("ShuffleAndRepeatDatasetV2", handle, times=times)

    check_refused(build, ["ShuffleAndRepeatDatasetV2"])


def test_seeds_that_are_not_there():
    """Nobody knows the order then, unless it is that of a buffer of one element."""
    ops = ["ShuffleDatasetV2", "DummySeedGenerator"]
    found = check_elements(lambda: by_seeds(ops[0], seeds(ops[1]), size=1), ops)
    assert found == list(range(7))


# ---- caches


def cached(handle):
    """Return a cached dataset of random numbers, which are others each time they are made."""
    inputs = (int64(5), int64(6), apply_op("DummySeedGenerator"))
    source = random_numbers("RandomDatasetV2", *inputs, rerandomize_each_iteration=True)
    few = source.to("TakeDataset", int64(3)).to("CacheDatasetV2", tf.constant(""), handle)
    return few.to("RepeatDataset", int64(2))


def test_a_cache_of_its_own():
    ops = ["CacheDatasetV2", "DummyMemoryCache"]
    found = check_elements(lambda: cached(apply_op("DummyMemoryCache")), ops)
    assert found[:3] == found[3:]


def test_a_cache_that_a_handle_names():
    ops = ["CacheDatasetV2", "AnonymousMemoryCache"]
    found = check_elements(lambda: cached(apply_op("AnonymousMemoryCache")[0]), ops)
    assert found[:3] == found[3:]
