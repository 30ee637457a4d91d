"""Ragged tensors: how they are made, indexed, computed with and converted."""

# ruff: noqa: RUF005 - programs are written as users write them

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

_FOLDER = "python/ops/ragged"
of_tensor = functools.partial(behaviour, f"{_FOLDER}/ragged_tensor_test.py")


def _of(name: str, sentence: str) -> Any:
    return behaviour(f"{_FOLDER}/ragged_{name}_test.py", sentence)


def _rows(tf: Any) -> Any:
    return tf.ragged.constant([[3, 1, 4], [], [1, 5], [9]])


@of_tensor("Each partition makes the same rows, and can be read back.")
def partitions(tf: Any) -> Any:
    v = [3, 1, 4, 1, 5, 9]
    R = tf.RaggedTensor
    made = [
        R.from_row_splits(v, [0, 3, 3, 5, 6]),
        R.from_row_lengths(v, [3, 0, 2, 1]),
        R.from_row_starts(v, [0, 3, 3, 5]),
        R.from_row_limits(v, [3, 3, 5, 6]),
        R.from_value_rowids(v, [0, 0, 0, 2, 2, 3]),
        R.from_uniform_row_length(v, 2),
        R.from_value_rowids(v, [0, 0, 0, 2, 2, 3], nrows=6),
        R.from_nested_row_splits(v, [[0, 2], [0, 4, 6]]),
    ]
    r = made[0]
    return [
        [x.to_list() for x in made],
        value(r.row_lengths()),
        value(r.row_starts()),
        value(r.row_limits()),
        value(r.value_rowids()),
        value(r.nrows()),
        value(r.values),
        str(made[5].shape),
        str(made[7].shape),
        made[7].ragged_rank,
        value(made[7].flat_values),
        value(made[7].nested_row_lengths()),
        value(r.bounding_shape()),
        str(r.shape),
        str(r.dtype),
        value(made[5].uniform_row_length),
    ]


@of_tensor("Partitions that do not fit the values are refused where they are checked.")
def refused_partitions(tf: Any) -> Any:
    R = tf.RaggedTensor
    return [
        error(lambda: R.from_row_splits([1, 2], [0, 3])),
        error(lambda: R.from_row_splits([1, 2], [1, 2])),
        error(lambda: R.from_row_splits([1, 2], [0, 2, 1, 2])),
        error(lambda: R.from_row_splits([1], [])),
        error(lambda: R.from_row_lengths([1, 2], [1, 2])),
        error(lambda: R.from_row_lengths([1], [-1, 2])),
        error(lambda: R.from_value_rowids([1, 2], [1, 0])),
        error(lambda: R.from_value_rowids([1], [0], nrows=0)),
        error(lambda: R.from_row_splits([1], [0.0, 1.0])),
        error(lambda: R.from_row_splits(1, [0, 1])),
        error(lambda: R.from_uniform_row_length([1, 2, 3], 2)),
        error(lambda: R([1], [0, 1])),
        error(lambda: R.from_row_splits([1, 2], [0, 3], validate=False).shape.as_list()),
    ]


@of_tensor("Rows, parts of rows and new axes are indexed as in nested lists.")
def indexing(tf: Any) -> Any:
    r = _rows(tf)
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
    return [
        value(r[0]),
        value(r[1]),
        value(r[2, 1]),
        value(r[1:]),
        value(r[:, :1]),
        value(r[:, -1:]),
        value(r[::2]),
        value(r[-1]),
        value(deep[0, 0, 1]),
        value(deep[:, :, :1]),
        value(deep[0]),
        value(r[tf.newaxis]),
        value(r[..., :2]),
        value(deep[2, 0]),
        value(r[:, ::2]),
        error(lambda: r[7]),
        error(lambda: r[0, 5]),
        error(lambda: r[:, 0]),
        error(lambda: r["a"]),
    ]


@of_tensor("Ragged tensors print as lists, are walked along rows, and equal elementwise.")
def python_protocols(tf: Any) -> Any:
    r = _rows(tf)
    return [
        str(r),
        repr(r),
        value(list(r)),
        error(lambda: len(r)),
        value(r == r),
        value(r != 1),
        error(lambda: bool(r)),
        error(lambda: hash(r)),
        r.numpy().shape,
        [x.tolist() for x in r.numpy()],
        tf.is_tensor(r),
        repr(tf.ragged.constant([["a"], []])),
    ]


@of_tensor("Operators broadcast with scalars, columns and rows of equal lengths.")
def operators(tf: Any) -> Any:
    r = _rows(tf)
    return [
        value(r + 1),
        value(2 * r),
        value(r * r),
        value(r + [[10], [20], [30], [40]]),
        value(-r),
        value(r // 2),
        value(r % 2),
        value(r > 2),
        value(abs(-r)),
        value(r / 2),
        value(r**2),
        error(lambda: r + tf.ragged.constant([[1], [], [1, 5], [9]])),
        error(lambda: r + 1.5),
        value((r > 1) & (r < 5)),
        value(~(r > 1)),
        value(1 - r),
    ]


@of_tensor("A cast, a name and a copy keep the rows.")
def kept_rows(tf: Any) -> Any:
    r = _rows(tf)
    return [
        str(tf.cast(r, tf.float32).dtype),
        value(r.with_values(r.values * 2)),
        value(tf.identity(r)),
        value(r.with_flat_values(tf.cast(r.flat_values, tf.float32))),
        str(r.with_row_splits_dtype(tf.int32).row_splits.dtype),
        str(r.shape),
        value(tf.ones_like(r)),
        value(tf.zeros_like(r)),
        value(r.merge_dims(0, 1)),
    ]


@_of("const_op", "Nested lists give ragged ranks and types; uneven depths are refused.")
def constants(tf: Any) -> Any:
    c = tf.ragged.constant
    return [
        str(c([[1], [2, 3]]).shape),
        str(c([]).shape),
        str(c([[]]).shape),
        c([[[1]], []]).ragged_rank,
        str(c([[1.0], []]).dtype),
        str(c([[], []]).dtype),
        str(c([["a"]]).dtype),
        str(c([1, 2])),
        c([[[1, 2]], [[3, 4]]], ragged_rank=1).shape.as_list(),
        str(c([[[1, 2]], [[3, 4]]], inner_shape=(2,)).shape),
        error(lambda: c([[1], 2])),
        error(lambda: c([[1], [[2]]])),
        error(lambda: c([[1], ["a"]])),
        error(lambda: c([[1]], ragged_rank=3)),
        str(c(5)),
        str(c([[1]], dtype=tf.int64).dtype),
        str(c([[1]], row_splits_dtype=tf.int32).row_splits.dtype),
        value(c([[True], []])),
        error(lambda: c([[[1, 2]], [[3]]], inner_shape=(2,))),
    ]


@_of("to_tensor_op", "Rows are filled up to the longest, or to a shape, with a default.")
def to_tensors(tf: Any) -> Any:
    r = _rows(tf)
    deep = tf.ragged.constant([[[1], [2, 3]], []])
    return [
        value(r.to_tensor()),
        value(r.to_tensor(default_value=-1)),
        value(r.to_tensor(shape=[None, 2])),
        value(r.to_tensor(shape=[5, 4])),
        value(deep.to_tensor()),
        value(deep.to_tensor(7, shape=[None, 1, 1])),
        error(lambda: r.to_tensor(default_value=0.5)),
        error(lambda: r.to_tensor(shape=[2])),
        str(r.to_tensor(shape=[None, 2]).shape),
        error(lambda: r.to_tensor(default_value=[1, 2])),
    ]


@_of("from_tensor_op", "A tensor's rows lose padding or have the lengths that are given.")
def from_tensors(tf: Any) -> Any:
    f = tf.RaggedTensor.from_tensor
    t = [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    return [
        value(f(t)),
        value(f(t, padding=0)),
        value(f(t, lengths=[2, 0, 1])),
        str(f(t).shape),
        value(f([[[1, 2], [3, 4]]], ragged_rank=2)),
        value(f(t, lengths=[9, 1, 1])),
        error(lambda: f([1])),
        error(lambda: f(t, lengths=[1], padding=0)),
        error(lambda: f(t, padding="a")),
        value(f([[[1, 0], [0, 0]], [[0, 0], [0, 0]]], padding=[0, 0])),
        error(lambda: f(t, ragged_rank=0)),
        value(f([[[1, 2], [3, 0]]], lengths=([2], [2, 1]))),
    ]


@_of("to_sparse_op", "Sparse tensors and ragged ones convert where entries are left-aligned.")
def sparse(tf: Any) -> Any:
    r = _rows(tf)
    back = tf.RaggedTensor.from_sparse
    return [
        value(r.to_sparse()),
        value(back(r.to_sparse())),
        value(back(tf.SparseTensor([[0, 0], [2, 0]], [1, 2], [4, 3]))),
        error(lambda: back(tf.SparseTensor([[0, 1]], [1], [1, 2]))),
        error(lambda: back([1])),
        value(tf.ragged.constant([[[1], []], [[2, 3]]]).to_sparse()),
        error(lambda: back(tf.SparseTensor([[0, 0, 0]], [1], [1, 2, 3]))),
    ]


@_of("reduce_op", "Reductions along rows, columns, several axes and all.")
def reductions(tf: Any) -> Any:
    r = tf.ragged.constant([[3.0, 1.0, 4.0], [], [1.0, 5.0]])
    deep = tf.ragged.constant([[[1, 2], [3]], [[4, 5, 6]]])
    forms = (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod)
    return [
        [[value(f(r, axis=a)) for a in (0, 1, None)] for f in forms],
        [value(tf.reduce_sum(deep, axis=a)) for a in (0, 1, 2, [0, 1], [1, 2], -1)],
        value(tf.reduce_any(r > 4, axis=1)),
        value(tf.reduce_all(r > 0, axis=1)),
        value(tf.reduce_sum(r, axis=1, keepdims=True)),
        error(lambda: tf.reduce_sum(r, axis=5)),
        value(tf.math.reduce_variance(r, axis=1)),
        value(tf.math.reduce_std(r, axis=1)),
    ]


@_of("concat_op", "Rows are joined one under the other, or each with each.")
def concatenations(tf: Any) -> Any:
    a, b = tf.ragged.constant([[1, 2], []]), tf.ragged.constant([[3], [4, 5]])
    return [
        value(tf.concat([a, b], 0)),
        value(tf.concat([a, b], 1)),
        value(tf.concat([a, [[7], [8]]], 1)),
        value(tf.stack([a, b])),
        value(tf.stack([a, b], axis=1)),
        value(tf.ragged.stack([[1], [2, 3]])),
        value(tf.concat([a], 0)),
        error(lambda: tf.concat([a, b], 3)),
        error(lambda: tf.concat([a, tf.ragged.constant([[1]])], 1)),
        value(tf.concat([a, b], -1)),
    ]


@_of("gather_op", "Rows and elements are gathered by index.")
def gathering(tf: Any) -> Any:
    r = _rows(tf)
    return [
        value(tf.gather(r, [3, 0, 0])),
        value(tf.gather(r, tf.ragged.constant([[0], [2, 3]]))),
        value(tf.gather([10, 20, 30], tf.ragged.constant([[2], [0, 1]]))),
        value(tf.gather(r, [[0], [1]], batch_dims=0)),
        error(lambda: tf.gather(r, [9])),
        value(tf.gather(r, tf.ragged.constant([[0], [], [1], [0]]), batch_dims=1)),
        value(tf.gather_nd(r, [[0, 2], [2, 0]])),
        value(tf.gather_nd(r, [[3]])),
        value(tf.gather(r, 2)),
        error(lambda: tf.gather(r, [0.5])),
    ]


@_of("boolean_mask_op", "A mask keeps elements of rows, or whole rows.")
def masks(tf: Any) -> Any:
    r = _rows(tf)
    m = tf.ragged.boolean_mask
    return [
        value(m(r, r > 2)),
        value(m(r, [True, False, True, False])),
        error(lambda: m(r, [True])),
        error(lambda: m(r, [[1]])),
        value(m([1, 2, 3], [True, False, True])),
    ]


@_of("range_op", "Ranges of several limits, starts and steps.")
def ranges(tf: Any) -> Any:
    f = tf.ragged.range
    return [
        value(f([3, 0, 2])),
        value(f([1, 2], [4, 2])),
        value(f([0, 9], [5, 0], [2, -3])),
        value(f(3)),
        value(f([0.0], [1.0], 0.25)),
        error(lambda: f([1], [2], 0)),
        error(lambda: f([1, 2], [1, 2, 3])),
        value(f(2, [3, 5])),
        str(f([2], row_splits_dtype=tf.int32).row_splits.dtype),
    ]


@_of("map_fn_op", "map_fn goes over rows, and gives ragged results where told.")
def maps(tf: Any) -> Any:
    r = _rows(tf)
    return [
        error(lambda: value(tf.map_fn(lambda x: tf.reduce_sum(x), r))),
        value(tf.map_fn(lambda x: x + 1, r)),
        error(
            lambda: value(
                tf.map_fn(
                    lambda n: tf.range(n),
                    tf.constant([2, 0, 1]),
                    fn_output_signature=tf.RaggedTensorSpec([None], tf.int32),
                )
            )
        ),
        value(
            tf.map_fn(lambda x: tf.cast(tf.size(x), tf.float32), r, fn_output_signature=tf.float32)
        ),
        value(tf.ragged.map_flat_values(tf.square, r)),
        value(tf.ragged.map_flat_values(tf.add, r, r)),
        error(lambda: tf.ragged.map_flat_values(tf.reduce_sum, r)),
    ]


@_of("tile_op", "Tiling, expanding, squeezing, reversing and sizes.")
def shapes(tf: Any) -> Any:
    r = _rows(tf)
    return [
        value(tf.tile(r, [1, 2])),
        value(tf.tile(r, [2, 1])),
        value(tf.expand_dims(r, 0)),
        value(tf.expand_dims(r, 1)),
        value(tf.expand_dims(r, -1)),
        value(tf.squeeze(tf.expand_dims(r, 0), [0])),
        value(tf.reverse(r, [0, 1])),
        value(tf.size(r)),
        value(tf.rank(r)),
        str(r.get_shape()),
        error(lambda: tf.squeeze(r)),
        error(lambda: value(tf.shape(r))),
        error(lambda: tf.reverse(r, [5])),
    ]


@_of("where_op", "where picks elements or gives places.")
def places(tf: Any) -> Any:
    r = _rows(tf)
    return [
        value(tf.where(r > 2)),
        value(tf.where(r > 2, r, -r)),
        value(tf.where(r > 2, r, 0)),
        error(lambda: tf.where(r > 2, r, tf.ragged.constant([[1]]))),
    ]


@_of("string_ops", "Text is split, joined and reduced by rows.")
def text(tf: Any) -> Any:
    words = tf.strings.split(["a b  c", "", "d"])
    return [
        value(words),
        value(tf.strings.split("x,y,,z", sep=",")),
        value(tf.strings.reduce_join(words, axis=-1, separator="-")),
        value(tf.strings.length(words)),
        value(tf.strings.upper(words)),
        value(tf.strings.join([words, words])),
        value(tf.strings.bytes_split(["ab", ""])),
        value(tf.strings.unicode_decode(["hé", ""], "UTF-8")),
        value(tf.strings.unicode_split("hé", "UTF-8")),
        value(tf.strings.unicode_encode([[104, 233]], "UTF-8")),
        value(tf.strings.ngrams(words, 2)),
        value(tf.strings.substr(words, 0, 1)),
        value(tf.strings.split([["a b", "c"]])),
        value(tf.strings.split(["a b c"], maxsplit=1)),
        value(tf.strings.unicode_encode(tf.ragged.constant([[104], [233, 104]]), "UTF-8")),
    ]


@_of("segment_op", "Segments of rows are reduced elementwise; rows and splits convert.")
def segments(tf: Any) -> Any:
    return [
        value(tf.ragged.segment_ids_to_row_splits([0, 0, 2])),
        value(tf.ragged.row_splits_to_segment_ids([0, 2, 2, 3])),
        value(tf.math.unsorted_segment_sum(_rows(tf), [1, 0, 1, 1], 2)),
        value(tf.math.unsorted_segment_mean(tf.ragged.constant([[1.0], [2.0, 4.0]]), [0, 0], 1)),
        error(lambda: tf.ragged.segment_ids_to_row_splits([1, 0])),
    ]


@_of("dispatch", "Elementwise functions take ragged tensors; others refuse them.")
def dispatch(tf: Any) -> Any:
    r = tf.ragged.constant([[0.5, 1.0], [], [2.0]])
    forms = (
        tf.exp,
        tf.math.log,
        tf.sqrt,
        tf.nn.relu,
        tf.sigmoid,
        tf.tanh,
        tf.round,
        tf.square,
        tf.math.is_nan,
        tf.math.rsqrt,
        tf.math.erf,
        tf.floor,
        tf.sin,
        tf.negative,
        tf.sign,
    )
    pairs = (
        tf.add,
        tf.maximum,
        tf.minimum,
        tf.math.pow,
        tf.math.divide_no_nan,
        tf.greater,
        tf.equal,
        tf.math.squared_difference,
        tf.math.floormod,
        tf.subtract,
    )
    return [
        [value(f(r)) for f in forms],
        [value(f(r, r)) for f in pairs],
        [value(f(r, 2.0)) for f in pairs],
        error(lambda: tf.matmul(r, r)),
        error(lambda: tf.reshape(r, [3])),
        value(tf.nn.dropout(r, 0.0)),
        value(tf.argmax(tf.constant([[1, 2]]), 1)),
        value(tf.sort(tf.constant([2, 1]))),
        value(tf.as_string(_rows(tf))),
    ]


@_of("cross_op", "Crosses of features are rows of joined text, or hashes of it.")
def crosses(tf: Any) -> Any:
    a, b = tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e", "f"]])
    return [
        value(tf.ragged.cross([a, b])),
        value(tf.ragged.cross_hashed([a, b], num_buckets=100)),
        value(tf.ragged.cross([a, [["x"], ["y"]]])),
    ]


@behaviour(
    f"{_FOLDER}/row_partition_test.py", "A spec of ragged tensors says shape, type and ranks."
)
def specs(tf: Any) -> Any:
    S = tf.RaggedTensorSpec
    r = _rows(tf)
    return [
        repr(S([None, None], tf.int32)),
        S([2, None], tf.int32) == S([2, None], tf.int32),
        S([2, None], tf.int32).ragged_rank,
        repr(tf.type_spec_from_value(r)),
        S([None, None], tf.int32).is_compatible_with(r),
        repr(S([None, None, 3], tf.float32, ragged_rank=1)),
        error(lambda: S([None], tf.int32, ragged_rank=1)),
        repr(S([None, None], tf.int32, row_splits_dtype=tf.int32)),
        S([None, None], tf.int32).is_compatible_with([1]),
    ]


@_of("eager", "Gradients go through ragged tensors to their values.")
def gradients(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        r = tf.RaggedTensor.from_row_lengths(x, [2, 0, 1])
        y = tf.reduce_sum(r * r, axis=1)
    return value(tape.gradient(y, x))


@_of("placeholder_op", "Functions take and give ragged tensors.")
def functions(tf: Any) -> Any:
    @tf.function
    def f(r: Any) -> Any:
        return r * 2, r.row_lengths(), tf.reduce_sum(r, 1)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def g(r: Any) -> Any:
        return r + 1

    return [
        value(f(_rows(tf))),
        error(lambda: value(g(_rows(tf)))),
        error(lambda: g(tf.constant([1]))),
    ]


@_of("rank_op", "Ragged batches of matrices multiply where inner shapes agree.")
def products(tf: Any) -> Any:
    r = tf.ragged.constant([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ragged_rank=1)
    return [value(tf.matmul(r, tf.ones([2, 2, 1]))), error(lambda: tf.matmul(r, tf.ones([3, 1])))]


@_of("tensor_bounding_shape_op", "numpy arrays and lists convert to and from ragged tensors.")
def numpy_arrays(tf: Any) -> Any:
    r = _rows(tf)
    even = tf.ragged.constant([[1, 2], [3, 4]])
    return [
        str(r.numpy().dtype),
        even.numpy().tolist(),
        r.to_list(),
        value(tf.ragged.constant([np.array([1, 2]), []])),
        value(r.bounding_shape(axis=1)),
        value(r.bounding_shape(out_type=tf.int32)),
        str(r.numpy().shape),
    ]
