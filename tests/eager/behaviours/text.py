"""How things print, and what the errors that programs read say."""

# ruff: noqa: E501 - programs are written as users write them

from __future__ import annotations

import re
from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


def without_numbers(text: str) -> str:
    """Return text without addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


@program
def tensors(tf: Any) -> Any:
    found = []
    for t in (
        tf.constant(1),
        tf.constant(1.5),
        tf.constant([1.0, 2.0]),
        tf.constant([[1, 2], [3, 4]]),
        tf.constant("a"),
        tf.constant(["a", "b"]),
        tf.constant(True),
        tf.constant([]),
        tf.zeros([0, 2]),
        tf.constant(1 + 2j),
        tf.constant(1.5, tf.bfloat16),
        tf.constant([1.5], tf.bfloat16),
        tf.constant(1.5, tf.float16),
        tf.range(2000),
        tf.constant(1e-10),
        tf.constant([1e10, 1.0]),
        tf.constant([[["a"]]]),
        tf.constant(float("nan")),
        tf.constant([float("inf")]),
        tf.constant(3, tf.uint8),
        tf.constant([True, False]),
    ):
        found += [str(t), repr(t)]
    return found


@program
def sparse_and_ragged(tf: Any) -> Any:
    s = tf.sparse.from_dense([[0, 5], [6, 0]])
    r = tf.ragged.constant([[1, 2], [3]])
    e = tf.ragged.constant([[], []], dtype=tf.float32)
    i = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]), tf.constant([3, 2]))
    return [
        str(s),
        repr(s),
        str(r),
        repr(r),
        str(e),
        repr(e),
        str(s.shape),
        str(r.shape),
        without_numbers(str(i)),
        repr(s.dense_shape),
        s.get_shape().as_list(),
        repr(r[0]),
        str(r.row_splits),
    ]


@program
def datasets(tf: Any) -> Any:
    data = tf.data.Dataset
    made = [
        data.range(3),
        data.range(3).batch(2),
        data.range(3).map(lambda x: {"a": x, "b": (x, x)}),
        data.from_tensor_slices([1, 2]),
        data.from_tensors([1.0]),
        data.range(3).shuffle(2),
        data.range(3).repeat(),
        data.range(3).prefetch(1),
        data.zip((data.range(3), data.range(3))),
        data.range(3).filter(lambda x: x > 1),
        data.range(3).batch(2, drop_remainder=True),
        data.range(3).take(1),
        data.range(3).skip(1),
        data.range(3).cache(),
        data.range(3).flat_map(lambda x: data.range(x)),
        data.range(3).interleave(lambda x: data.range(x)),
        data.range(3).concatenate(data.range(1)),
        data.range(3).enumerate(),
        data.range(3).window(2),
        data.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int32)),
        data.range(3).with_options(tf.data.Options()),
        data.range(4).shard(2, 0),
        data.from_tensor_slices({"a": [1], "b": [2.0]}),
        data.from_tensor_slices(tf.ragged.constant([[1], []])),
    ]
    return [[str(d), repr(d), repr(d.element_spec)] for d in made] + [
        without_numbers(str(iter(data.range(3)))).partition(" ")[0]
    ]


@program
def others(tf: Any) -> Any:
    return [
        without_numbers(repr(tf.TensorArray(tf.float32, 1))).partition(" object")[0],
        without_numbers(repr(tf.random.Generator.from_seed(1))).partition(" object")[0],
        without_numbers(repr(tf.GradientTape())).partition(" object")[0],
        repr(tf.VariableSynchronization.ON_READ),
        str(tf.VariableAggregation.SUM),
        repr(tf.UnconnectedGradients.ZERO),
        repr(tf.distribute.ReduceOp.SUM),
        repr(tf.config.list_physical_devices("CPU")),
        repr(tf.config.list_logical_devices("CPU")),
        str(tf.Module()).partition(" object")[0].rpartition(".")[2],
        repr(tf.newaxis),
        repr(tf.errors.NotFoundError(None, None, "text")),
        str(tf.errors.NotFoundError(None, None, "text")),
        repr(tf.data.AUTOTUNE),
        tf.errors.OutOfRangeError(None, None, "x").error_code,
        repr(tf.constant(1).dtype),
        repr(tf.device("CPU:0")).partition(" object")[0].rpartition(".")[2],
    ]


@program
def errors_of_shapes(tf: Any) -> Any:
    return [
        error(
            lambda: tf.reshape(tf.range(6), [4]),
            "but the requested shape has",
            "Input to reshape is a tensor with 6 values, but the requested shape has 4",
        ),
        error(
            lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])),
            "Matrix size-incompatible",
            "In[0]: [2,3], In[1]: [2,3]",
        ),
        error(
            lambda: tf.constant([1, 2]) + tf.constant([1, 2, 3]),
            "Incompatible shapes",
            "Incompatible shapes: [2] vs. [3]",
        ),
        error(
            lambda: tf.concat([tf.ones([1, 2]), tf.ones([2, 3])], 0),
            "Dimension",
            "ConcatOp : Dimension",
            "in both shapes must be equal",
            "Dimension 1 in both shapes must be equal: shape[0] = [1,2] vs. shape[1] = [2,3]",
        ),
        error(lambda: tf.stack([tf.ones([1]), tf.ones([2])]), "Shapes of all inputs must match"),
        error(lambda: tf.gather([1, 2], [5]), "indices[0] = 5 is not in [0, 2)"),
        error(lambda: tf.gather_nd([1, 2], [[5]]), "does not index into"),
        error(
            lambda: tf.constant([1, 2])[5],
            "out of bounds",
            "slice index 5 of dimension 0 out of bounds",
        ),
        error(lambda: tf.slice([1, 2], [1], [3]), "Expected size[0] in [0, 1], but got 3"),
        error(lambda: tf.split(tf.range(5), 2), "must evenly divide"),
        error(
            lambda: tf.squeeze(tf.ones([2])[None], axis=1),
            "Can not squeeze dim[1], expected a dimension of 1, got 2",
        ),
        error(lambda: tf.expand_dims(1, 5)),
        error(lambda: tf.broadcast_to(tf.range(3), [2]), "incompatible", "Incompatible shapes"),
        error(lambda: tf.one_hot([1], -1)),
        error(lambda: tf.transpose(tf.ones([2, 2]), [0]), "transpose expects a vector of size 2"),
        error(lambda: tf.linalg.inv(tf.zeros([2, 2])), "Input is not invertible"),
        error(
            lambda: tf.strings.to_number("a"),
            "StringToNumberOp could not correctly convert string: a",
        ),
        error(lambda: tf.io.decode_raw("abc", tf.int32)),
        error(lambda: tf.nn.conv2d(tf.ones([1, 2, 2, 1]), tf.ones([1, 1, 2, 1]), 1, "VALID")),
        error(
            lambda: tf.nn.softmax_cross_entropy_with_logits([[1.0, 0.0]], [[1.0, 2.0, 3.0]]),
            "must be broadcastable",
        ),
        error(
            lambda: tf.nn.sparse_softmax_cross_entropy_with_logits([5], [[1.0, 2.0]]),
            "Received a label value of 5 which is outside the valid range of [0, 2)",
        ),
        error(
            lambda: tf.debugging.check_numerics(tf.constant([np.nan]), "here"),
            "here : Tensor had NaN values",
        ),
        error(lambda: tf.ensure_shape(tf.ones([2]), [3]), "is not compatible with expected shape"),
        error(lambda: tf.io.read_file("/no/such/file"), "No such file or directory"),
        error(lambda: tf.cast(tf.constant("a"), tf.int32), "Cast string to int32 is not supported"),
        error(lambda: tf.math.segment_sum([1, 2], [1, 0])),
        error(lambda: tf.zeros([-1])),
        error(lambda: tf.fill([-1], 1)),
        error(lambda: tf.random.uniform([2], 3, 1, tf.int32), "Need minval < maxval, got 3 >= 1"),
        error(lambda: tf.random.uniform([], maxval=None, dtype=tf.int32)),
        error(lambda: tf.tensor_scatter_nd_update([1, 2], [[5]], [1])),
        error(lambda: tf.boolean_mask([1, 2], [True])),
        error(
            lambda: tf.constant(1) + tf.constant(1.0),
            "cannot compute AddV2 as input #1(zero-based) was expected to be a int32 tensor but is a float tensor",
        ),
    ]


@program
def asserts(tf: Any) -> Any:
    return [
        error(
            lambda: tf.debugging.assert_equal([1, 2, 3], [1, 5, 3]),
            "Condition x == y did not hold",
            "Indices of first 1 different values",
            "Corresponding x values",
            "[[1]]",
            "[2]",
            "[5]",
            "First 3 elements of x:\n[1 2 3]",
        ),
        error(
            lambda: tf.debugging.assert_equal(1, 2, message="mine"),
            "mine",
            "Condition x == y did not hold",
        ),
        error(
            lambda: tf.debugging.assert_less(2, 1),
            "Condition x < y did not hold",
            "First 1 elements of x:",
            "First 1 elements of y:",
        ),
        error(
            lambda: tf.debugging.assert_positive(-1), "Condition x > 0 did not hold element-wise"
        ),
        error(lambda: tf.debugging.assert_near(1.0, 2.0), "x and y not equal to tolerance"),
        error(lambda: tf.debugging.assert_none_equal([1], [1]), "Condition x != y did not hold"),
        error(
            lambda: tf.debugging.Assert(False, ["text", 3]),
            "Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true",
            "Summarized data: b'text'\n3",
        ),
        error(lambda: tf.debugging.assert_rank(tf.ones([2]), 2), "must have rank 2"),
        error(lambda: tf.debugging.assert_shapes([(tf.ones([2]), ("A", "B"))])),
        error(lambda: tf.debugging.assert_type(1, tf.float32), "must be of type"),
        error(lambda: tf.debugging.assert_scalar([1]), "Expected scalar shape"),
        error(lambda: tf.debugging.assert_integer(1.0), "Expected"),
        error(
            lambda: tf.debugging.assert_all_finite([np.inf], "msg"), "msg : Tensor had Inf values"
        ),
        error(
            lambda: tf.function(lambda x: tf.debugging.assert_equal(x, 2, message="m"))(
                tf.constant(1)
            ),
            "assertion failed",
            "[m]",
            "Condition x == y did not hold",
        ),
    ]


@program
def errors_of_datasets(tf: Any) -> Any:
    data = tf.data.Dataset
    return [
        error(lambda: next(iter(data.range(0)))),
        error(lambda: iter(data.range(0)).get_next(), "End of sequence"),
        error(lambda: list(data.range(2).filter(lambda x: x))),
        error(lambda: list(data.range(2).filter(lambda x: (x > 1, x)))),
        error(
            lambda: list(
                data.from_tensor_slices([[1, 2], [3, 4]]).map(lambda x: tf.reshape(x, [3]))
            )
        ),
        error(
            lambda: list(
                data.from_generator(
                    lambda: iter([[1, 2]]), output_signature=tf.TensorSpec([3], tf.int32)
                )
            )
        ),
        error(
            lambda: list(
                data.from_generator(
                    lambda: iter(["a"]), output_signature=tf.TensorSpec([], tf.int32)
                )
            )
        ),
        error(lambda: list(data.range(3).map(lambda x: x // 0))),
        error(lambda: list(data.range(3).batch(0))),
        error(lambda: data.from_tensor_slices(1)),
        error(lambda: data.from_tensor_slices(([1], [1, 2]))),
        error(lambda: data.zip(data.range(1), 3)),
        error(lambda: len(data.range(3).filter(lambda x: True))),
        error(lambda: len(data.range(3).repeat())),
        error(lambda: len(data.range(3))),
        error(lambda: bool(data.range(0))),
        error(lambda: data.range(3)[0]),
        error(lambda: list(data.from_tensor_slices([[1], [2, 3]]))),
        error(lambda: list(data.range(3).map(lambda x: [x, x]).batch(2))),
        error(lambda: list(data.range(3).map(lambda x: None))),
        error(
            lambda: list(data.range(2).map(lambda x: tf.range(x)).batch(2)),
            "Cannot batch tensors with different shapes",
        ),
    ]


@program
def scalars_whose_type_is_short(tf: Any) -> Any:
    numbers = [
        tf.constant(0.1, kind)
        for kind in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
    ]
    return [
        [repr(one) for one in numbers],
        [str(one) for one in numbers],
        repr(tf.Variable(0.1, name="v")),
        repr(tf.constant(1e22)),
        f"{tf.constant(0.1)}",
    ]
