"""What is known of the shapes of sparse tensors before they have values."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import error, program


@program
def elements_of_datasets(tf: Any) -> Any:
    rows = tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense([[0, 1, 0], [2, 0, 0]]))
    specs = [
        rows.map(tf.sparse.to_dense),
        rows.batch(2),
        rows.batch(2).map(tf.sparse.to_dense),
        rows.batch(2, drop_remainder=True).map(tf.sparse.to_dense),
        rows.map(lambda x: tf.sparse.add(x, x)),
        rows.map(lambda x: tf.sparse.reshape(x, [3, -1])),
        rows.map(lambda x: tf.sparse.reshape(x, [3, 1])).map(tf.sparse.to_dense),
        rows.map(lambda x: tf.sparse.to_dense(tf.sparse.reorder(x))),
    ]
    values = [x.tolist() for x in rows.batch(2).map(tf.sparse.to_dense).as_numpy_iterator()]
    return [*(str(one.element_spec) for one in specs), values]


def _shapes(tf: Any, x: Any) -> list[Any]:
    made = [
        x,
        tf.sparse.reorder(x),
        tf.sparse.transpose(x),
        tf.sparse.slice(x, [0, 0], [1, 2]),
        tf.sparse.concat(0, [x, x]),
        tf.sparse.concat(-1, [x, x]),
        tf.sparse.concat(1, [x, x], expand_nonconcat_dims=True),
        tf.sparse.add(x, x),
        tf.sparse.reshape(x, [-1]),
        tf.sparse.expand_dims(x, 0),
        tf.sparse.expand_dims(x, -1),
        tf.sparse.retain(x, [True, False]),
        tf.sparse.map_values(tf.abs, x),
        *tf.sparse.split(x, 2, axis=0),
    ]
    return [[str(one.shape), str(tf.sparse.to_dense(one).shape)] for one in made]


@program
def in_functions(tf: Any) -> Any:
    given = tf.sparse.from_dense([[0, 1, 0], [2, 0, 0]])
    found = []

    def look(x: Any) -> Any:
        found.append(_shapes(tf, x))
        return tf.sparse.to_dense(tf.sparse.expand_dims(tf.sparse.transpose(x), 1))

    plain = tf.function(look)
    values = plain(given).numpy().tolist()
    plain(given)
    for sizes in ([2, 3], [None, 3], [None, None]):
        tf.function(look, input_signature=[tf.SparseTensorSpec(sizes, tf.int32)])(given)
    return [values, plain.experimental_get_tracing_count(), *found]


@program
def traces_by_shape(tf: Any) -> Any:
    @tf.function
    def total(x: Any) -> Any:
        return tf.sparse.reduce_sum(x)

    one, two = tf.sparse.from_dense([[0, 1]]), tf.sparse.from_dense([[3], [4]])
    return [
        *(int(total(x)) for x in (one, two, one)),
        total.experimental_get_tracing_count(),
    ]


@program
def placeholders(tf: Any) -> Any:
    found = []
    with tf.Graph().as_default():
        for shape in ([2, 3], [None, 3], None):
            x = tf.compat.v1.sparse_placeholder(tf.int32, shape)
            made = [x, tf.sparse.reorder(x), tf.sparse.add(x, x)]
            found.append([[str(one.shape), str(tf.sparse.to_dense(one).shape)] for one in made])
    return found


@program
def shapes_that_do_not_fit(tf: Any) -> Any:
    @tf.function
    def reshaped(x: Any, shape: Any) -> Any:
        return tf.sparse.reshape(x, shape).values

    x = tf.sparse.from_dense([[0, 1, 0], [2, 0, 0]])
    return [error(lambda: reshaped(x, (4, 2)))[:1], error(lambda: reshaped(x, (-1, -1)))[:1]]


@program
def segments(tf: Any) -> Any:
    with tf.Graph().as_default():
        rows, ids = tf.ones([3, 2]), [0, 0, 1]
        return [
            str(tf.math.segment_sum(rows, ids).shape),
            str(tf.math.segment_prod(rows, ids).shape),
            str(tf.math.unsorted_segment_sum(rows, ids, 2).shape),
            str(tf.sparse.segment_sum(rows, [0, 1], [0, 1]).shape),
            str(tf.sparse.segment_mean(rows, [0, 1], [0, 1], num_segments=4).shape),
        ]
