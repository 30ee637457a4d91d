"""Datasets shuffled as a whole, and flat maps by index, beside TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    INVALID,
    Made,
    check_elements,
    check_refused,
    function,
    int64,
    numbers,
    rows,
)
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SHUFFLED = ["GlobalShuffleDataset"]
NUMBERS = {"types": [tf.int64], "shapes": [(2,)]}


def shuffled(dataset, seeds=(3, 4), again=False):
    dummy = apply_op("DummySeedGenerator")
    return dataset.to(
        "GlobalShuffleDataset", *map(int64, seeds), dummy, reshuffle_each_iteration=again
    )


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("count", "seeds"), [(10, (3, 4)), (1, (3, 4)), (13, (-1, 2**40)), (2, (0, 7))]
)
def test_the_order_is_that_of_tensorflow(count, seeds, again):
    found = check_elements(lambda: shuffled(numbers(count), seeds, again), SHUFFLED)
    assert sorted(found) == list(range(count))


def mapped(dataset):
    return dataset.to(
        "MapDataset", [], f=function(lambda x: x * 2, tf.int64), preserve_cardinality=True
    )


IN_ANY_ORDER = {
    "map": lambda: mapped(numbers(5)),
    "rows": lambda: rows(np.arange(5)),
    "repeat": lambda: numbers(3).to("RepeatDataset", int64(2)),
    "concatenate": lambda: numbers(3).to("ConcatenateDataset", numbers(7, 9).variant),
    "take": lambda: numbers(9).to("TakeDataset", int64(4)),
    "skip": lambda: numbers(9).to("SkipDataset", int64(4)),
    "shard": lambda: numbers(9).to("ShardDataset", int64(2), int64(1)),
    "prefetch": lambda: numbers(5).to("PrefetchDataset", int64(2)),
    "batch": lambda: numbers(9).to_other("BatchDatasetV2", int64(2), tf.constant(True), **NUMBERS),
}


@pytest.mark.parametrize("name", IN_ANY_ORDER)
def test_what_is_shuffled_as_a_whole(name):
    check_elements(lambda: shuffled(IN_ANY_ORDER[name]()), SHUFFLED)


IN_ITS_ORDER = {
    "filter": lambda: numbers(5).to(
        "FilterDataset", [], predicate=function(lambda x: x > 2, tf.int64)
    ),
    "without end": lambda: numbers(3).to("RepeatDataset", int64(-1)),
    "window": lambda: numbers(9).to_other(
        "BatchDatasetV2", int64(2), tf.constant(False), types=[tf.int64], shapes=[(None,)]
    ),
    "unbatch": lambda: rows(np.arange(6).reshape(3, 2)).to_other(
        "UnbatchDataset", types=[tf.int64], shapes=[()]
    ),
}


@pytest.mark.parametrize("name", IN_ITS_ORDER)
def test_what_gives_its_elements_in_its_order(name):
    check_refused(lambda: shuffled(IN_ITS_ORDER[name]()), SHUFFLED, "FailedPreconditionError")


def test_nothing_to_shuffle():
    check_refused(lambda: shuffled(numbers(0)), SHUFFLED)


# ---- flat maps by index

FLAT = ["IndexFlatMapDataset"]
LENGTHS = [2, 4, 2, 1]


def counted(x):
    return tf.fill([tf.gather(tf.constant(LENGTHS, tf.int64), x)], x * 10)


def placed(index):
    ends = np.cumsum(LENGTHS)
    before = tf.cast(tf.constant(ends) <= index, tf.int64)
    element = tf.reduce_sum(before)
    return element, index - tf.reduce_sum(before * tf.constant(LENGTHS, tf.int64))


def flat(places=placed, parts=counted, count=9, shape=()):
    return numbers(4).to_other(
        "IndexFlatMapDataset", [], [], int64(count), map_func=function(parts, tf.int64),
        index_map_func=function(places, tf.int64), types=[tf.int64], shapes=[shape],
    )  # fmt: skip


def test_a_flat_map_by_index():
    found = check_elements(flat, FLAT)
    assert found == [x * 10 for x, length in enumerate(LENGTHS) for _ in range(length)]


def test_a_flat_map_by_index_shuffled_as_a_whole():
    assert len(check_elements(lambda: shuffled(flat()), FLAT)) == 9


def test_a_flat_map_of_scalars_and_of_int32_places():
    def places(index):
        return tf.cast(index, tf.int32), tf.constant(0)

    assert check_elements(lambda: flat(places, lambda x: x + 1), FLAT) == [1, 2, 3, 4]


def test_a_flat_map_of_matrices():
    def parts(x):
        return tf.fill([4, 2], x)

    check_elements(lambda: flat(lambda i: (i // 2, i % 2), parts, 8, (2,)), FLAT)


def test_places_that_go_back():
    found = check_elements(lambda: flat(lambda i: (3 - i, int64(0))), FLAT, 9)
    assert found[:5] == [0, 0, 0, 0, 10]


@pytest.mark.parametrize(
    "places",
    [
        lambda i: i,
        lambda i: tf.stack([i, i]),
        lambda i: (i, i, i),
        lambda i: (i, int64(7)),
        lambda i: (i, int64(-1)),
    ],
)
def test_places_that_are_none(places):
    check_refused(lambda: flat(places), FLAT, INVALID, 1)


@pytest.mark.parametrize("count", [-1, -2, 3])
def test_how_many_elements_a_flat_map_says_it_has(count):
    check_both_run(lambda: [Run([apply_op("DatasetCardinality", flat(count=count).variant)])], FLAT)


# ---- parts by weights

WEIGHTED = ["WeightedFlatMapDataset"]


def weighted(weights, *limits):
    datasets = [numbers(start, end).variant for start, end in limits or [(0, 10), (100, 105)]]
    given = [tf.placeholder_with_default(tf.constant(x, tf.float64), None) for x in weights]
    made = Made(None)
    made.variant = apply_op("WeightedFlatMapDataset", datasets, given, **made.structure)
    return made


@pytest.mark.parametrize("weights", [(0.5, 0.5), (3, 1), (0.9, 0.1), (2, 1)])
def test_parts_by_weights(weights):
    check_elements(lambda: weighted(weights), WEIGHTED, 16)


def test_three_parts():
    limits = [(0, 7), (100, 109), (200, 204)]
    assert len(check_elements(lambda: weighted((1, 2, 1), *limits), WEIGHTED)) == 8


@pytest.mark.parametrize(
    ("weights", "limits"),
    [
        ((0.3, 0.7), [(0, 10), (100, 110)]),
        ((1, 0.7), [(0, 24), (100, 124)]),
        ((0.2, 0.3), [(0, 100), (200, 207)]),
        ((0.4, 0.9, 2 / 3, 0.1), [(0, 7), (100, 120), (200, 213), (300, 313)]),
        ((1, 10, 11), [(0, 700), (1000, 1100), (2000, 2300)]),
        ((10, 1, 11), [(0, 100), (1000, 1100), (2000, 2300)]),
    ],
)
def test_what_decides_how_many_there_are(weights, limits):
    if weights == (1, 10, 11):
        check_refused(lambda: weighted(weights, *limits), WEIGHTED)
    else:
        check_elements(lambda: weighted(weights, *limits), WEIGHTED, 250)


@pytest.mark.parametrize("weights", [(1, 0), (0, 0), (1, -1), (1, 1, 1), (0.25, 0.75), (1e-3, 5)])
def test_weights_that_are_refused(weights):
    check_refused(lambda: weighted(weights), WEIGHTED)


@pytest.mark.parametrize("count", [-1, -2])
def test_parts_of_what_has_no_known_end(count):
    def build():
        endless = numbers(3).to("RepeatDataset", int64(-1))
        if count == -2:
            endless = numbers(3).to(
                "FilterDataset", [], predicate=function(lambda x: x > 1, tf.int64)
            )
        made = Made(None)
        weights = [tf.constant(1.0, tf.float64)] * 2
        variants = [numbers(3).variant, endless.variant]
        made.variant = apply_op("WeightedFlatMapDataset", variants, weights, **made.structure)
        return made

    check_refused(build, WEIGHTED)
