"""The same programs with accumulators under tideflow and under TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
theirs = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow


def outcome(tf, fetch, session, feeds=None):
    """Return the value as lists, or the name of the error's class."""
    try:
        found = session.run(fetch, feeds)
    except tf.errors.OpError as error:
        return type(error).__name__
    if isinstance(found, (list, tuple)):
        return [np.asarray(f).tolist() for f in found]
    return None if found is None else np.asarray(found).tolist()


def shared_references(tf, run):
    attrs = {"dtype": "float32", "shape": [2], "shared_name": "r"}
    yield run(tf.shape(raw(tf, "ConditionalAccumulator", {}, attrs)))
    for change in ({"shape": [3]}, {"dtype": "float64"}, {"reduction_type": "SUM"}, {}):
        a = raw(tf, "ConditionalAccumulator", {}, {**attrs, **change})
        yield run(raw(tf, "AccumulatorNumAccumulated", {"handle": a}, {}))
    a = raw(tf, "SparseConditionalAccumulator", {}, attrs)
    yield run(raw(tf, "AccumulatorNumAccumulated", {"handle": a}, {}))


def raw(tf, name, inputs, attrs):
    if tf is ours:
        return apply_op(name, *inputs.values(), **attrs)
    return getattr(tensorflow.raw_ops, name)(**inputs, **attrs)


def dense(tf, run):
    a = tf.ConditionalAccumulator("float32", [2])
    yield run(a.num_accumulated())
    for i in range(3):
        yield run(a.apply_grad([1.0 * i, 2.0]))
    yield run(a.num_accumulated())
    yield run(a.take_grad(2))
    yield run(a.num_accumulated())
    yield run(a.apply_grad([5.0, 5.0], local_step=0))
    yield run(a.num_accumulated())
    yield run(a.apply_grad([5.0, 5.0], local_step=1))
    yield run(a.take_grad(1))
    yield run(a.set_global_step(7))
    yield run(a.apply_grad([5.0, 5.0], local_step=6))
    yield run(a.apply_grad([3.0, 5.0], local_step=7))
    yield run(a.take_grad(1))


def sums(tf, run):
    for dtype in ("float16", "float32", "float64"):
        a = tf.ConditionalAccumulator(dtype, [2], reduction_type="SUM")
        for i in range(3):
            yield run(a.apply_grad([1.0 * i, 2.0]))
        yield run(a.take_grad(3))


def other_types(tf, run):
    for dtype in ("int32", "bfloat16", "complex64", "int64", "uint8"):
        a = tf.ConditionalAccumulator(dtype, [2])
        yield run(a.num_accumulated())
        b = tf.SparseConditionalAccumulator(dtype, [2])
        yield run(b.num_accumulated())


def dense_errors(tf, run):
    grad = tf.placeholder("float32")
    count = tf.placeholder("int32")
    step = tf.placeholder("int64")
    a = tf.ConditionalAccumulator("float32", [None, 2])
    yield run(a.apply_grad(grad), {grad: [[1.0, 2.0, 3.0]]})
    yield run(a.apply_grad(grad), {grad: [1.0, 2.0]})
    yield run(a.apply_grad(grad), {grad: [[1.0, 2.0]]})
    yield run(a.take_grad(count), {count: 0})
    yield run(a.take_grad(count), {count: -1})
    yield run(a.set_global_step(step), {step: [1]})
    yield run(a.num_accumulated())


def sharing(tf, run):
    a = tf.ConditionalAccumulator("float32", [2], shared_name="a")
    b = tf.ConditionalAccumulator("float32", [2], shared_name="a")
    yield run(a.apply_grad([1.0, 2.0]))
    yield run(b.num_accumulated())
    yield run(tf.ConditionalAccumulator("float32", [3], shared_name="a").num_accumulated())
    yield run(tf.ConditionalAccumulator("float64", [2], shared_name="a").num_accumulated())
    yield run(
        tf.ConditionalAccumulator(
            "float32", [2], shared_name="a", reduction_type="SUM"
        ).num_accumulated()
    )


def references(tf, run):
    a = raw(tf, "ConditionalAccumulator", {}, {"dtype": "float32", "shape": [2]})
    yield run(tf.shape(a))
    apply = {"handle": a, "local_step": tf.constant(0, "int64"), "gradient": tf.constant([1.0, 2])}
    yield run(raw(tf, "AccumulatorApplyGradient", apply, {}))
    yield run(raw(tf, "AccumulatorApplyGradient", apply, {}))
    yield run(raw(tf, "AccumulatorNumAccumulated", {"handle": a}, {}))
    take = {"handle": a, "num_required": tf.constant(2)}
    yield run(raw(tf, "AccumulatorTakeGradient", take, {"dtype": "float32"}))
    step = {"handle": a, "new_global_step": tf.constant(4, "int64")}
    yield run(raw(tf, "AccumulatorSetGlobalStep", step, {}))
    yield run(raw(tf, "AccumulatorApplyGradient", apply, {}))
    yield run(raw(tf, "AccumulatorNumAccumulated", {"handle": a}, {}))


def sparse(tf, run):
    for kind in ("MEAN", "SUM"):
        a = tf.SparseConditionalAccumulator("float32", [6, 2], reduction_type=kind, name=kind)
        yield run(a.apply_grad([1, 3], [[1.0, 2.0], [3.0, 4.0]], [6, 2]))
        yield run(a.apply_grad([0, 3, 5], [[1.0, 1.0], [3.0, 6.0], [7.0, 7.0]], [6, 2]))
        yield run(a.apply_grad([3], [[3.0, 6.0]]))
        yield run(a.num_accumulated())
        yield run(a.take_grad(3))
        yield run(a.apply_grad([], np.zeros((0, 2), np.float32), local_step=1))
        yield run(a.take_grad(1))
        yield run(a.apply_grad([2, 2, 1], [[1.0, 1.0]] * 3, local_step=2))
        yield run(a.apply_grad([1, 2], [[1.0, 1.0]] * 2, local_step=2))
        yield run(a.take_grad(2))
        slices = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([4], "int64"))
        yield run(a.apply_indexed_slices_grad(slices, 3))
        found = a.take_indexed_slices_grad(1)
        yield run([found.indices, found.values, found.dense_shape])


def sparse_unknown(tf, run):
    a = tf.SparseConditionalAccumulator("float64", None)
    for values in ([[1.0, 2.0], [3.0, 4.0]], [[1.0], [3.0]], [1.0, 3.0]):
        yield run(a.apply_grad([1, 9], np.array(values)))
    yield run(a.take_grad(1))


def sparse_errors(tf, run):
    a = tf.SparseConditionalAccumulator("float32", [4, 2])
    values, indices = tf.placeholder("float32"), tf.placeholder("int64")
    shape = tf.placeholder("int64")
    for given, where, dims in [
        ([[1.0, 2.0]], [4], None),
        ([[1.0, 2.0, 3.0]], [1], None),
        ([1.0], [1], None),
        ([[1.0, 2.0]], [1], [4]),
        ([[1.0, 2.0]], [1], [4, 3]),
        ([[1.0, 2.0]], [1], [4, 2]),
        ([[1.0, 2.0]], [[1]], None),
        ([[1.0, 2.0]], [-1], None),
    ]:
        feeds = {values: given, indices: where}
        if dims is not None:
            feeds[shape] = dims
        yield run(a.apply_grad(indices, values, None if dims is None else shape), feeds)
    yield run(a.num_accumulated())


PROGRAMS = [
    dense,
    sums,
    other_types,
    dense_errors,
    sharing,
    references,
    shared_references,
    sparse,
    sparse_unknown,
    sparse_errors,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_end_alike(program):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:

            def run(fetch, feeds=None, tf=tf, session=session):
                return outcome(tf, fetch, session, feeds)

            found.append(list(program(tf, run)))
    assert found[0] == found[1]
