"""Datasets of the features of records, beside TensorFlow in one graph."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import INVALID, Made, check_elements, check_refused, function, int64, rows
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

OPS = ["ParseExampleDataset", "ParseExampleDatasetV2", "ExperimentalParseExampleDataset"]


def example(**features):
    made = tf.train.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return made.SerializeToString()


RECORDS = [
    [example(a=[1, 2], s=[b"x"], r=[1.5]), example(a=[3, 4], s=[b"y", b"z"], r=[2.5, 3.5])],
    [example(a=[5, 6], d=[7.0]), example(s=[b"w"], a=[8, 9])],
]


def strings(values):
    made = np.array(values, object)
    return rows(made)


def parsed(op, records=None, calls=1, **changes):
    attrs = {
        "sparse_keys": ["s"],
        "sparse_types": [tf.string],
        "dense_keys": ["a", "d"],
        "dense_shapes": [tf.TensorShape([2]), tf.TensorShape([])],
    }
    types, shapes = [tf.int64, tf.float32], [(None, 2), (None,)]
    if not op.startswith("Experimental"):
        attrs |= {
            "ragged_keys": ["r"],
            "ragged_value_types": [tf.float32],
            "ragged_split_types": [tf.int32],
        }
        types, shapes = [*types, tf.variant], [*shapes, ()]
    defaults = [tf.constant([], tf.int64), tf.constant(0.5, tf.float32)]
    defaults = changes.pop("defaults", defaults)
    given = strings(RECORDS) if records is None else records
    made = Made(None, [*types, tf.variant], [*shapes, (3,)])
    made.variant = apply_op(
        op, given.variant, int64(calls), defaults, **attrs | changes, **made.structure
    )
    return made


def unpacked(made):
    """Return a dataset of plain values of the components."""

    def body(*parts):
        sparse = apply_op("DeserializeSparse", parts[-1], dtype=tf.string)
        found = [*parts[:2], sparse[0], sparse[1], sparse[2]]
        if len(parts) == 4:
            ragged = apply_op(
                "RaggedTensorFromVariant", parts[2], input_ragged_rank=1, output_ragged_rank=1,
                Tvalues=tf.float32, Tsplits=tf.int32,
            )  # fmt: skip
            found += [ragged[0][0], ragged[1]]
        return tuple(found)

    f = function(body, *zip(made.types, made.shapes))
    types = [tf.int64, tf.float32, tf.int64, tf.string, tf.int64]
    if len(made.types) == 4:
        types += [tf.int32, tf.float32]
    return made.to_other("MapDataset", [], f=f, types=types, shapes=[None] * len(types))


@pytest.mark.parametrize("calls", [1, 3, -1])
@pytest.mark.parametrize("op", OPS)
def test_features_of_batches_of_records(op, calls):
    found = check_elements(lambda: unpacked(parsed(op, calls=calls)), [op])
    assert len(found) == 2
    assert found[0][0] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls": 0},
        {"calls": [1]},
        {"dense_keys": ["a"]},
        {"defaults": [tf.int64]},
    ],
    ids=str,
)
def test_features_that_do_not_fit(wrong):
    def build():
        given = dict(wrong)
        if "defaults" in given:
            given["defaults"] = [tf.constant([1, 2, 3], tf.int64), tf.constant(0.5, tf.float32)]
        return parsed("ParseExampleDatasetV2", **given)

    check_refused(build, ["ParseExampleDatasetV2"])


@pytest.mark.parametrize(
    "records",
    [[[b"nonsense"]], [[example(a=[1])]], [[example(a=[1.5, 2.5])]], [[example(s=[b"x"])]]],
)
def test_records_that_do_not_fit(records):
    check_refused(
        lambda: parsed("ParseExampleDatasetV2", strings(records)), ["ParseExampleDatasetV2"],
        INVALID, 1,
    )  # fmt: skip
