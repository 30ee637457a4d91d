"""Row partitions, shapes of ragged tensors, and functions that take ragged tensors with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program
from shown_values import value


def _rows(tf: Any) -> Any:
    return tf.ragged.constant([[1, 2], [], [3]])


def _plain(size: Any) -> Any:
    """Return sizes as numbers of Python: TensorFlow gives some as those of NumPy."""
    if isinstance(size, (list, tuple)):
        return [_plain(each) for each in size]
    return size if size is None else int(size)


def _encodings(rows: Any) -> list[Any]:
    length = rows.uniform_row_length()
    return [
        *(rows.row_splits().numpy().tolist(), rows.row_lengths().numpy().tolist()),
        *(rows.row_starts().numpy().tolist(), rows.row_limits().numpy().tolist()),
        *(rows.value_rowids().numpy().tolist(), rows.offsets_in_rows().numpy().tolist()),
        *(int(rows.nrows()), int(rows.nvals()), None if length is None else int(length)),
        *map(_plain, (rows.static_nrows, rows.static_nvals, rows.static_uniform_row_length)),
        *(rows.is_uniform(), str(rows.dtype), str(rows)),
    ]


@program
def row_partitions(tf: Any) -> Any:
    R = tf.experimental.RowPartition
    made = [
        R.from_row_splits([0, 4, 4, 7, 8, 8]),
        R.from_row_lengths([4, 0, 3, 1, 0]),
        R.from_row_starts([0, 4, 4, 7, 8], nvals=8),
        R.from_row_limits([4, 4, 7, 8, 8]),
        R.from_value_rowids([0, 0, 0, 0, 2, 2, 2, 3], nrows=5),
        R.from_value_rowids([0, 0, 2]),
        R.from_value_rowids([]),
        R.from_uniform_row_length(2, nvals=6),
        R.from_uniform_row_length(2, nrows=3),
        R.from_uniform_row_length(0, nvals=0, nrows=3),
        R.from_uniform_row_length(tf.constant(2, tf.int32), nvals=4),
        R.from_row_splits(np.array([0, 1], np.int32)),
        R.from_row_splits([0, 1], dtype=tf.int32),
        R.from_row_lengths([1, 2], dtype_hint=tf.int32),
        R.from_row_lengths([2, 1]).with_dtype(tf.int32),
        R.from_row_lengths([2, 1], validate=False),
        R.from_row_lengths([]),
    ]
    return [_encodings(rows) for rows in made]


@program
def row_partitions_that_are_none(tf: Any) -> Any:
    R = tf.experimental.RowPartition
    calls = [
        lambda: R(tf.constant([0, 1])),
        lambda: R.from_row_splits([]),
        lambda: R.from_row_splits([1, 2]),
        lambda: R.from_row_splits([0, 2, 1]),
        lambda: R.from_row_splits([[0, 1]]),
        lambda: R.from_row_splits([0.0, 1.0]),
        lambda: R.from_row_splits([0, 1], validate=1),
        lambda: R.from_row_lengths([1, -1]),
        lambda: R.from_row_lengths(3),
        lambda: R.from_row_starts([1, 2], nvals=3),
        lambda: R.from_row_starts([0, 2], nvals=1),
        lambda: R.from_row_limits([-1, 2]),
        lambda: R.from_row_limits([2, 1]),
        lambda: R.from_value_rowids([0, 2, 1]),
        lambda: R.from_value_rowids([-1, 0]),
        lambda: R.from_value_rowids([0, 3], nrows=2),
        lambda: R.from_value_rowids([0], nrows=-1),
        lambda: R.from_uniform_row_length(2),
        lambda: R.from_uniform_row_length(2, nvals=5),
        lambda: R.from_uniform_row_length(-1, nrows=0),
        lambda: R.from_uniform_row_length([2], nvals=4),
        lambda: R.from_uniform_row_length(2, nvals=4, nrows=3),
        lambda: R.from_row_lengths([1]).with_dtype(tf.float32),
    ]
    return [error(call) for call in calls]


@program
def specs_of_partitions_and_shapes(tf: Any) -> Any:
    R, S = tf.experimental.RowPartition, tf.experimental.DynamicRaggedShape
    made = [
        R.from_row_lengths([2, 1]),
        R.from_uniform_row_length(2, nvals=6),
        R.from_value_rowids([0, 0, 1]),
        S.from_lengths([2, (2, 1), 3]),
        S.from_lengths([2, 2, 3], 1),
        S.from_lengths([2, 3], dtype=tf.int32),
        S.from_lengths([]),
    ]
    specs = [tf.type_spec_from_value(one) for one in made]
    shape = specs[3]
    kind = type(specs[0])
    return [
        [repr(spec) for spec in specs],
        [spec.is_compatible_with(spec) for spec in specs],
        [[spec == other for other in specs] for spec in specs],
        [shape.rank, shape.inner_rank, shape.num_row_partitions, str(shape.dtype)],
        repr(shape.with_dtype(tf.int32)),
        repr(S.Spec([kind(nrows=2, uniform_row_length=3)], [None, 4], tf.int64)),
        repr(S.Spec([kind(), kind(nvals=5)], None, tf.int64)),
        [repr(kind(**sizes)) for sizes in ({"nrows": 0}, {"nvals": 6, "uniform_row_length": 2})],
        error(lambda: kind(nvals=5, uniform_row_length=2)),
        error(lambda: kind(dtype=tf.float32)),
        error(lambda: S.Spec([kind(nvals=3)], [4], tf.int64)),
        error(lambda: S.Spec([kind()], [], tf.int64)),
        error(lambda: S.Spec([kind(dtype=tf.int32)], [3], tf.int64)),
        error(lambda: S.Spec([3], [3], tf.int64)),
        kind(nrows=2).is_compatible_with(kind(nvals=3)),
        kind(nrows=2).is_compatible_with(kind(nrows=3)),
    ]


@program
def ragged_shapes(tf: Any) -> Any:
    R, S = tf.experimental.RowPartition, tf.experimental.DynamicRaggedShape
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[4]]])
    made = [
        S.from_lengths([]),
        S.from_lengths([2, 3]),
        S.from_lengths([2, (3, 2)]),
        S.from_lengths([2, (2, 1), 2]),
        S.from_lengths([2, (2, 1), (1, 2, 3)]),
        S.from_lengths([2, 2, 3], 1),
        S.from_lengths([2, 2, 3], 2),
        S.from_lengths([2, (2, 1), 2], 2),
        S.from_lengths([2, (2, 2), 3], dtype=tf.int32),
        S.from_row_partitions([R.from_row_lengths([2, 1])]),
        S.from_row_partitions([R.from_row_lengths([2, 1])], dtype=tf.int32),
        S.from_tensor(_rows(tf)),
        S.from_tensor(deep),
        S.from_tensor(tf.zeros([2, 3])),
        S.from_tensor(tf.zeros([2, 3]), dtype=tf.int64),
        S.from_tensor(tf.expand_dims(_rows(tf), 1)),
        S([], [2, 3]),
        S([R.from_row_lengths([2, 1])], [3, 4]),
        S([R.from_row_lengths([2, 1])], tf.constant([3, 4]), validate=True),
        tf.shape(_rows(tf)),
        tf.shape(deep, out_type=tf.int64),
    ]
    return [
        [
            *(repr(shape), shape.rank, shape.inner_rank, shape.num_row_partitions),
            *(str(shape.dtype), shape.inner_shape.numpy().tolist()),
            *(_plain(shape.static_lengths()), _plain(shape.static_lengths(False))),
            [shape.is_uniform(axis) for axis in range(shape.rank)],
            [value(rows.row_splits()) for rows in shape.row_partitions],
        ]
        for shape in made
    ]


@program
def parts_of_ragged_shapes(tf: Any) -> Any:
    S = tf.experimental.DynamicRaggedShape
    shape, dense = S.from_lengths([2, (2, 1), 3, 4]), S.from_lengths([2, 3, 4], 1)
    slices = [slice(*ends) for ends in ((0, 1), (None, 2), (0, 3), (2, None), (1, 2), (-2, None))]
    slices += [slice(3, 1), slice(0, 0), slice(None), slice(0, 9), slice(9, None), slice(0, 2, 2)]
    indices = [0, 1, 2, 3, 4, -1, -3, -9, "a", *slices]

    def part(of: Any, index: Any) -> Any:
        found = of[index]
        return repr(found) if isinstance(found, S) else int(found)

    return [
        [error(lambda i=i: part(shape, i)) for i in indices],
        [error(lambda i=i: part(dense, i)) for i in indices],
        [bool(shape == S.from_lengths([2, (2, 1), 3, 4])), bool(shape != dense), shape == 3],
        bool(S.from_lengths([2, (2, 1)]) == S.from_lengths([2, (1, 2)])),
        repr(shape.with_dtype(tf.int32)),
        str(shape.with_dtype(tf.int32).dtype),
        shape.with_dtype(tf.int64) is shape,
    ]


@program
def ragged_shapes_that_are_none(tf: Any) -> Any:
    R, S = tf.experimental.RowPartition, tf.experimental.DynamicRaggedShape
    calls = [
        lambda: S(3, [2]),
        lambda: S([3], [2]),
        lambda: S([], [[2]]),
        lambda: S([], tf.constant([2.0])),
        lambda: S([R.from_value_rowids([0, 1])], [3]),
        lambda: S([R.from_row_lengths([2, 1])], [4], validate=True),
        lambda: S([R.from_row_lengths([2]), R.from_row_lengths([2])], [2], validate=True),
        lambda: S.from_lengths((2, 3)),
        lambda: S.from_lengths([2, [1, 1]]),
        lambda: S.from_lengths([2, (1, 1, 1)]),
        lambda: S.from_lengths([2, 3], 2),
        lambda: S.from_lengths([], 1),
        lambda: S.from_lengths([2, 3], 1.5),
        lambda: S.from_row_partitions([]),
        lambda: S.from_lengths([2]).is_uniform(3),
        lambda: S.from_lengths([2]).is_uniform(-1),
        lambda: S.from_lengths([2]).is_uniform("a"),
    ]
    return [error(call) for call in calls]


@program
def broadcast_ragged_shapes(tf: Any) -> Any:
    S = tf.experimental.DynamicRaggedShape
    pairs = [
        ([], [2, (1, 2)]),
        ([1], [3]),
        ([3], [3]),
        ([2], [3]),
        ([2, (2, 1)], [1, 1]),
        ([2, (2, 1)], [2, 1]),
        ([2, (2, 1)], [2, (2, 1)]),
        ([2, (2, 1)], [2, (1, 2)]),
        ([2, (2, 1)], [1]),
        ([2, (2, 1)], [3]),
        ([3, (2, 2, 2)], [1, 2]),
        ([2, (2, 1), (1, 2, 1)], [2, (2, 1), 1]),
        ([2, (2, 1), 3], [3]),
        ([2, (2, 1), 3], [1, 1, 3]),
        ([2, 3], [2, 3]),
        ([1, 3], [2, 1]),
        ([4, 1, 3], [2, 1]),
        ([2, (1, 2), (2, 1, 1)], [1, (2,), 1]),
        ([1, (2,)], [3, (2, 2, 2)]),
    ]
    found = []
    for one, other in pairs:
        x, y = S.from_lengths(one), S.from_lengths(other)
        found += [error(lambda: repr(tf.broadcast_dynamic_shape(x, y)))]  # noqa: B023
        found += [error(lambda: repr(tf.broadcast_dynamic_shape(y, x)))]  # noqa: B023
    int32 = S.from_lengths([2, (2, 1)], dtype=tf.int32)
    return [
        found,
        repr(tf.broadcast_dynamic_shape(S.from_lengths([2, (2, 1)]), tf.constant([1, 1]))),
        error(lambda: tf.broadcast_dynamic_shape(int32, S.from_lengths([2, (2, 1)]))),
        str(tf.broadcast_dynamic_shape(int32, S.from_lengths([2, 1])).dtype),
        value(tf.broadcast_dynamic_shape([1, 2], [3, 1])),
    ]


@program
def broadcast_to_ragged_shapes(tf: Any) -> Any:
    S = tf.experimental.DynamicRaggedShape
    rows = tf.shape(_rows(tf), out_type=tf.int64)
    pairs = [
        (3, rows),
        ([[7], [8], [9]], rows),
        ([[7]], rows),
        ([5], rows),
        (_rows(tf), rows),
        ([1, 2], S.from_lengths([2, 2])),
        ([[1.0, 2.0, 3.0]], S.from_lengths([2, (2, 1), 3])),
        ([[[1.0], [2.0]]], S.from_lengths([2, (2, 2), 3])),
        ([[[7]], [[8]]], S.from_lengths([2, (2, 1), (1, 2, 1)])),
        (tf.expand_dims(_rows(tf), 2), S.from_lengths([3, (2, 0, 1), 2])),
        (tf.expand_dims(_rows(tf), 2), S.from_lengths([3, (2, 0, 1), (1, 2, 1)])),
        ([1, 2], S.from_lengths([3])),
        ([[1, 2]], S.from_lengths([2])),
        (_rows(tf), S.from_lengths([3, (2, 1, 1)])),
        (_rows(tf), tf.shape(_rows(tf), out_type=tf.int32)),
        (tf.expand_dims(_rows(tf), 0), S.from_lengths([2, (3, 3), (2, 0, 1, 2, 0, 1)])),
    ]
    return [error(lambda x=x, s=s: value(tf.broadcast_to(x, s))) for x, s in pairs]


@program
def tensors_of_ragged_shapes(tf: Any) -> Any:
    S = tf.experimental.DynamicRaggedShape
    shape = S.from_lengths([3, (2, 0, 1), 2])
    rows = _rows(tf)
    return [
        value(tf.ones(shape)),
        value(tf.zeros(shape, tf.int32)),
        value(tf.fill(shape, "a")),
        value(tf.zeros(tf.shape(rows))),
        value(tf.ones(S.from_lengths([2, 2]))),
        value(tf.reshape(tf.range(6), shape)),
        value(tf.reshape(rows, S.from_lengths([2, (1, 2)]))),
        value(tf.reshape(rows, [3, 1])),
        value(tf.reshape(tf.ragged.constant([[[1, 2]], [[3]]]), S.from_lengths([1, (3,)]))),
        str(tf.zeros(shape).shape),
        error(lambda: tf.reshape(tf.range(5), shape)),
    ]


@program
def ragged_shapes_in_functions(tf: Any) -> Any:
    S = tf.experimental.DynamicRaggedShape
    traces: list[Any] = []

    @tf.function
    def like(x: Any, y: Any) -> Any:
        shape = tf.shape(x)
        traces.append([shape.rank, shape.num_row_partitions])
        return tf.broadcast_to(y, tf.shape(x, out_type=tf.int64)), shape

    @tf.function
    def ones(shape: Any) -> Any:
        return tf.ones(shape), shape[0]

    @tf.function
    def added(x: Any, y: Any) -> Any:
        return x + tf.expand_dims(y, 1)

    spec = tf.RaggedTensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec, tf.TensorSpec([None, None], tf.int32)])
    def joint(x: Any, y: Any) -> Any:
        shapes = [tf.shape(one, out_type=tf.int64) for one in (x, y)]
        both = tf.broadcast_dynamic_shape(*shapes)
        return tf.zeros(both, tf.int32) + x

    first = like(_rows(tf), tf.constant([[5], [6], [7]]))
    second = like(tf.ragged.constant([[1], [2, 3], []]), tf.constant([[5], [6], [7]]))
    return [
        [value(first[0]), repr(first[1]), value(second[0]), traces],
        value(ones(S.from_lengths([2, (2, 1)]))),
        value(ones(S.from_lengths([3, (0, 1, 2), 2]))),
        value(added(_rows(tf), tf.constant([10, 20, 30]))),
        value(joint(_rows(tf), tf.constant([[1], [1], [1]]))),
        value(joint(_rows(tf), tf.constant([[1]]))),
        error(lambda: joint(_rows(tf), tf.constant([[1], [1]]))),
    ]


@program
def rows_that_are_repeated(tf: Any) -> Any:
    rows = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
    column = tf.RaggedTensor.from_uniform_row_length([10.0, 20.0, 30.0], 1)
    calls = [
        lambda: rows + column,
        lambda: column * rows,
        lambda: rows + tf.RaggedTensor.from_uniform_row_length([1.0], 1),
        lambda: deep + tf.expand_dims(tf.ragged.constant([[10, 20], [], [30]]), 2),
        lambda: tf.expand_dims(rows, 2) * tf.ones([1, 1, 2]),
        lambda: tf.maximum(tf.expand_dims(rows, 0), tf.expand_dims(rows, 0)),
        lambda: rows + tf.ragged.constant([[1.0], [2.0], [3.0]]),
        lambda: rows < column,
        lambda: tf.expand_dims(rows, 1) + tf.expand_dims(rows, 1),
    ]
    return [error(lambda call=call: value(call())) for call in calls]


@program
def further_functions_of_ragged_tensors(tf: Any) -> Any:
    rows = _rows(tf)
    floats = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[4]]])
    square = tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    images = tf.ragged.constant(
        [np.arange(12.0).reshape(2, 2, 3).tolist(), np.ones((1, 3, 3)).tolist()],
        dtype=tf.float32,
        ragged_rank=2,
    )
    table = tf.reshape(tf.range(12.0), [6, 2])
    words = tf.ragged.constant([["a", "b'c"], [], ["d"]])
    many = tf.ragged.constant([[1], [2, 3, 4, 5, 6], [], [], [7], [8, 9]])
    calls = [
        lambda: tf.one_hot(rows, 4),
        lambda: tf.one_hot(rows, 4, on_value=5, off_value=1, axis=2),
        lambda: tf.one_hot(rows, 4, axis=1),
        lambda: tf.bitcast(tf.cast(rows, tf.int32), tf.float32),
        lambda: tf.split(rows, 3),
        lambda: tf.split(rows, [1, 2]),
        lambda: tf.split(square, 2, axis=2),
        lambda: tf.split(rows, 1),
        lambda: tf.split(rows, 2),
        lambda: tf.split(rows, 2, axis=1),
        lambda: tf.split(rows, [1, 1]),
        lambda: tf.cumsum(floats, axis=1),
        lambda: tf.cumsum(floats, axis=0),
        lambda: tf.cumsum(deep, axis=-1, exclusive=True),
        lambda: tf.cumsum(deep, axis=1, reverse=True),
        lambda: tf.cumsum(square, axis=2),
        lambda: tf.cumsum(floats, axis=2),
        lambda: tf.math.add_n([floats, floats * 2.0]),
        lambda: tf.dynamic_partition(rows, [0, 1, 0], 2),
        lambda: tf.nn.embedding_lookup(table, rows),
        lambda: tf.nn.embedding_lookup(table, deep, max_norm=1.0),
        lambda: tf.nn.embedding_lookup_sparse(table, rows, None, combiner="sum"),
        lambda: tf.nn.embedding_lookup_sparse(table, rows, floats, combiner="mean"),
        lambda: tf.nn.safe_embedding_lookup_sparse(table, rows),
        lambda: tf.image.resize(images, [2, 2]),
        lambda: tf.image.resize(rows, [2, 2]),
        lambda: tf.strings.format("x = {}", rows),
        lambda: tf.strings.format("{} and {}", [words, tf.constant([1, 2])]),
        lambda: tf.strings.format("{}", many, summarize=2),
        lambda: tf.strings.format("{}", deep, summarize=-1),
        lambda: tf.strings.format("{}", floats, placeholder="%"),
        lambda: tf.debugging.assert_type(rows, tf.int32),
        lambda: tf.debugging.assert_type(rows, tf.float32),
        lambda: tf.compat.v1.batch_gather(rows, tf.ragged.constant([[1, 0], [], [0]])),
        lambda: tf.nn.experimental.stateless_dropout(floats, 0.0, [1, 2]),
        lambda: tf.math.bincount(rows, axis=-1),
    ]
    return [error(lambda call=call: value(call())) for call in calls]
