"""Ragged tensors as variants, in graphs that TensorFlow runs too."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.one_graph import Run, check_both_run
from ops.outcomes import as_array
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
F = np.float32
TO, FROM = "RaggedTensorToVariant", "RaggedTensorFromVariant"
SPLITS = [I64([0, 2, 2, 3]), I64([0, 1, 3, 4])]
VALUES = [
    *(np.arange(4).astype(kind) for kind in (F, np.float64, np.float16, np.int8, np.uint16, I64)),
    np.arange(4) % 2 == 0,
    np.arange(8, dtype=np.complex64).reshape(4, 2),
    as_array(["a", "", "é", "d"]),
]


def held(splits, values, batched):
    return apply_op(TO, [ours.constant(one) for one in splits], values, batched_input=batched)


def taken(variants, rank, values, given=-1, splits="int64"):
    attrs = {"Tvalues": values, "Tsplits": splits}
    found = apply_op(FROM, variants, input_ragged_rank=given, output_ragged_rank=rank, **attrs)
    return Run([*found[0], found[1]])


@pytest.mark.parametrize("values", VALUES, ids=lambda v: f"{v.dtype}-{v.ndim}")
@pytest.mark.parametrize("kind", [I64, np.int32])
def test_what_goes_in_comes_out(values, kind):
    def build():
        runs = []
        for splits in (SPLITS, SPLITS[:1], []):
            splits = [one.astype(kind) for one in splits]
            rows = values[:3] if len(splits) == 1 else values
            for batched in (False, True):
                made = held(splits, ours.constant(rows), batched)
                rank = len(splits)
                attrs = {"splits": np.dtype(kind).name}
                runs.append(taken(made, rank, values.dtype, **attrs))
                if batched and splits:
                    runs.append(taken(made[1], rank - 1, values.dtype, rank - 1, **attrs))
        return runs

    check_both_run(build, [TO, FROM])


def test_variants_of_any_shape_are_put_together():
    def build():
        rows = held(SPLITS[:1], ours.constant(F([1, 2, 3])), True)
        matrix = ours.stack([rows, rows])
        scalar = held([], ours.placeholder_with_default(F([1, 3]), None), True)[1]
        deep = held([], ours.constant(F([[3]])), False)
        other = held([], ours.constant([1]), False)
        return [
            taken(matrix, 2, F),
            taken(matrix[:, :0], 2, F),
            taken(rows[:0], 1, F),
            taken(rows[:0], 3, F),
            taken(ours.stack([scalar, scalar]), 0, F),
            taken(ours.stack([scalar, scalar]), 1, F),
            taken(ours.stack([rows[0], deep]), 1, F),
            taken(ours.stack([rows[0], other]), 1, F),
            taken(rows, 2, F),
            taken(scalar, 0, I64),
        ]

    found = check_both_run(build, [TO, FROM])
    assert found[5:] == ["InvalidArgumentError"] * 5


@pytest.mark.parametrize(
    ("splits", "values"),
    [
        ([I64([0, 5])], F([1, 2])),
        ([I64([1, 2])], F([1, 2])),
        ([I64([0, 2, 1, 2])], F([1, 2])),
        ([I64([])], F([1, 2])),
        ([I64([0, 3]), I64([0, 1, 2])], F([1, 2])),
    ],
)
def test_splits_that_do_not_fit_are_refused(splits, values):
    def build():
        return [Run([held(splits, ours.constant(values), False)])]

    assert check_both_run(build, [TO]) == ["InvalidArgumentError"]


def test_gradients_go_through_variants():
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            values = tf.constant(F([1, 2, 3]))
            grads = []
            for batched in (True, False):
                given = {"rt_nested_splits": [tf.constant(SPLITS[0])], "rt_dense_values": values}
                attrs = {"output_ragged_rank": 1, "Tvalues": tf.float32, "input_ragged_rank": -1}
                if tf is ours:
                    variants = apply_op(TO, *given.values(), batched_input=batched)
                    back = apply_op(FROM, variants, **attrs)[1]
                else:
                    raw = tensorflow.raw_ops
                    variants = raw.RaggedTensorToVariant(**given, batched_input=batched)
                    back = raw.RaggedTensorFromVariant(
                        encoded_ragged=variants, Tsplits=tf.int64, **attrs
                    )[1]
                grads += tf.gradients(back * back * back, [values])
            found.append(session.run(grads))
    np.testing.assert_allclose(*found)


# What TensorFlow writes for RaggedTensorSpec and SparseTensorSpec: a TypeSpecProto as field 1.
RAGGED, SPARSE = b"\n\x02\x08\x03", b"\n\x02\x08\x01"
INTO, OUT_OF = "CompositeTensorVariantFromComponents", "CompositeTensorVariantToComponents"


def composite(components, metadata=RAGGED):
    return apply_op(INTO, [ours.constant(one) for one in components], metadata=metadata)


@pytest.mark.parametrize("values", VALUES, ids=lambda v: f"{v.dtype}-{v.ndim}")
def test_components_that_go_in_come_out(values):
    def build():
        runs = []
        for metadata in (RAGGED, SPARSE, b""):
            made = composite([values, SPLITS[0]], metadata)
            types = [values.dtype if values.dtype != object else "string", "int64"]
            runs.append(Run(apply_op(OUT_OF, made, metadata=metadata, Tcomponents=types)))
        return runs

    check_both_run(build, [INTO, OUT_OF])


@pytest.mark.parametrize(
    ("metadata", "types"),
    [
        (SPARSE, ["int64", "int32"]),
        (b"", ["int64", "int32"]),
        (RAGGED, ["int64"]),
        (RAGGED, ["int64", "float32"]),
        (b"no message", ["int64", "int32"]),
    ],
)
def test_components_of_another_kind_are_refused(metadata, types):
    def build():
        made = composite([SPLITS[0], np.int32([1])])
        return [Run(apply_op(OUT_OF, made, metadata=metadata, Tcomponents=types))]

    check_both_run(build, [INTO, OUT_OF])
