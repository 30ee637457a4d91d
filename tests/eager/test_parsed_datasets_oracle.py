"""tf.data.experimental.parse_example_dataset beside TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def example(**features):
    made = tideflow.train.Example()
    for key, values in features.items():
        feature = made.features.feature[key]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return made.SerializeToString()


def plainly(tf, element):
    found = {}
    for key, value in element.items():
        if hasattr(value, "dense_shape"):
            parts = (value.indices, value.values, value.dense_shape)
            found[key] = [part.numpy().tolist() for part in parts]
        elif hasattr(value, "to_list"):
            found[key] = value.to_list()
        else:
            found[key] = value.numpy().tolist()
    return found


def by_name(tf):
    features = {
        "a": tf.io.FixedLenFeature([2], tf.int64),
        "s": tf.io.VarLenFeature(tf.string),
        "ragged": tf.io.RaggedFeature(tf.float32, "r"),
        "sparse": tf.io.SparseFeature("i", "v", tf.float32, 9),
    }
    records = [
        example(a=[1, 2], i=[3, 1], v=[1.5, 2.5], r=[1.0]),
        example(a=[3, 4], s=[b"x", b"y"]),
        example(a=[5, 6], i=[8], v=[0.5], r=[2.0, 3.0]),
    ]
    data = tf.data.Dataset.from_tensor_slices(np.array(records, object)).batch(2)
    parsed = data.apply(tf.data.experimental.parse_example_dataset(features, 2))
    return [plainly(tf, element) for element in parsed], parsed.element_spec


def test_the_function_of_the_api():
    (ours, spec), (theirs, other) = by_name(tideflow), by_name(tensorflow)
    assert ours == theirs
    assert len(ours) == 2
    for key in ("a", "s", "ragged"):
        assert repr(spec[key]) == repr(other[key])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda tf: tf.data.experimental.parse_example_dataset(None), ValueError),
        (
            lambda tf: tf.data.Dataset.range(3).apply(
                tf.data.experimental.parse_example_dataset({"a": tf.io.VarLenFeature(tf.int64)})
            ),
            TypeError,
        ),
    ],
)
def test_calls_that_are_refused(make, error):
    for each in (tideflow, tensorflow):
        with pytest.raises(error):
            make(each)
