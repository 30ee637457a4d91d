"""Names that calls take from a graph: what is made later is named after what was made before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from v1_tutorials.registry import Place, refused, tutorial


def taken(tf: Any, *calls: Callable[[], Any]) -> list[Any]:
    """Return for each call what comes first in the names that it takes of a graph."""
    found = []
    for call in calls:
        with tf.Graph().as_default() as graph:
            call()
            names = {op.name.split("/")[0] for op in graph.get_operations()}
            found.append([*sorted(names), tf.constant(0).name])
    return found


@tutorial
def names_of_datasets(tf: Any, at: Place) -> Any:
    made = tf.data.Dataset

    def rows() -> Any:
        return made.from_tensor_slices([1.0, 2.0, 3.0])

    def widened() -> Any:
        return rows().map(lambda x: x[None], num_parallel_calls=2)

    return taken(
        tf,
        lambda: made.from_tensor_slices(({"b": [1, 2], "a": [1.0, 2.0]}, [1, 2])),
        lambda: made.from_tensors((1, {"a": 2.0})),
        lambda: made.range(1, 5, 2).repeat(3).shuffle(10, seed=3),
        lambda: rows().take(2).skip(2).shard(2, 0).prefetch(1).cache().shuffle(10),
        lambda: rows().batch(2, num_parallel_calls=2).batch(3, drop_remainder=True),
        lambda: made.zip((rows().concatenate(rows()), rows().window(2, 1, 1, True))),
        lambda: rows().interleave(lambda x: made.from_tensors(x), cycle_length=2),
        lambda: rows().interleave(lambda x: made.from_tensors(x), 2, num_parallel_calls=2),
        lambda: widened().padded_batch(2, [None], 5.0, drop_remainder=True),
        lambda: rows().reduce(0.0, lambda a, b: a + b),
        lambda: rows().apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2)),
        lambda: made.random(seed=3),
        lambda: tf.data.make_one_shot_iterator(rows()).get_next(),
        lambda: tf.data.make_initializable_iterator(rows()).get_next(),
        lambda: tf.data.Iterator.from_structure(tf.float32, []).make_initializer(rows()),
    )


@tutorial
def names_of_input_queues(tf: Any, at: Place) -> Any:
    train, numbers = tf.train, [tf.int32]

    def one() -> Any:
        return tf.placeholder(tf.int32, [], name="one")

    def queue() -> Any:
        return tf.FIFOQueue(3, numbers, shapes=[[]])

    def join() -> Any:
        return tf.QueueBase.from_list(0, [queue(), queue()]).dequeue()

    return taken(
        tf,
        lambda: train.input_producer([1.0, 2.0], num_epochs=2, shuffle=False).dequeue(),
        lambda: train.input_producer([1.0, 2.0], name="n", summary_name="s").dequeue_many(2),
        lambda: train.string_input_producer(["a"], num_epochs=1).dequeue(),
        lambda: train.range_input_producer(5, shuffle=False, capacity=3).dequeue(),
        lambda: train.slice_input_producer([[1, 2], [3, 4]]),
        lambda: train.batch([one()], 2, allow_smaller_final_batch=True),
        lambda: train.batch({"a": [one()]}, 2, enqueue_many=True, name="n"),
        lambda: train.maybe_batch([one()], tf.constant(True, name="keep"), 2),
        lambda: train.batch_join([[one()], [one()]], 2),
        lambda: train.shuffle_batch([one()], 2, 10, 5, seed=3),
        lambda: train.maybe_shuffle_batch_join([[one()]], 2, 10, 5, True),
        lambda: queue().enqueue_many([[1]]),
        join,
    )


@tutorial
def what_embeddings_are_called(tf: Any, at: Place) -> Any:
    rows = [tf.get_variable(f"rows_{i}", [2, 2]) for i in range(2)]
    parts = tf.get_variable(
        "parts", [4, 2], partitioner=tf.fixed_size_partitioner(2), use_resource=True
    )
    one = tf.get_variable("one", [4, 2], use_resource=True)
    found = [tf.nn.embedding_lookup(table, [0, 3]) for table in (rows, parts, one, rows[0])]
    return [[tensor.name, tensor.op.type] for tensor in found]


@tutorial
def names_of_mathematics(tf: Any, at: Place) -> Any:
    def x(*shape: int | None, dtype: str = "float32") -> Any:
        return tf.placeholder(dtype, shape, name="x")

    def any_rank() -> Any:
        return tf.placeholder(tf.float32, name="x")

    def gradients() -> Any:
        given = x(2)
        return tf.gradients(tf.reduce_mean(tf.square(given)), given)

    def custom() -> Any:
        return tf.custom_gradient(lambda a: (a * 2.0, lambda d: d * 3.0))(x(2))

    def averages() -> Any:
        return tf.train.ExponentialMovingAverage(0.9).apply([tf.Variable([1.0, 2.0])])

    def rates() -> Any:
        return tf.train.piecewise_constant(x(dtype="int64"), [1, 2], [1.0, 2.0, 3.0])

    return taken(
        tf,
        lambda: [
            tf.reduce_mean(x(2)),
            tf.reduce_max(x(None, 2), name="r"),
            tf.reduce_any(x(2, dtype="bool")),
        ],
        lambda: [tf.reduce_sum(any_rank()), tf.reduce_prod(x()), tf.reduce_min(x(2), axis=0)],
        lambda: [tf.one_hot([1], 3), tf.reverse(x(2), [0]), tf.count_nonzero([1])],
        lambda: [tf.multinomial([[1.0, 2.0]], 2), tf.linspace(0.0, 1.0, 3)],
        lambda: [tf.cast(-3, tf.float32), tf.verify_tensor_all_finite(x(2), "m")],
        lambda: [tf.assert_equal(1, x(dtype="int32")), tf.assert_greater(x(), 1.0)],
        lambda: [
            tf.string_split(["a b"]),
            tf.parse_example([""], {"a": tf.VarLenFeature("int64")}),
        ],
        lambda: [
            tf.sparse.from_dense([1, 0]),
            tf.sparse_tensor_to_dense(tf.sparse.from_dense([1])),
        ],
        lambda: tf.sparse.transpose(tf.sparse.from_dense([[1, 0]])),
        gradients,
        custom,
        averages,
        rates,
    )


@tutorial
def names_of_arrays_and_tables(tf: Any, at: Place) -> Any:
    def array(**options: Any) -> Any:
        return tf.TensorArray(tf.float32, 2, **options)

    def table() -> Any:
        pairs = tf.lookup.KeyValueTensorInitializer(["a"], [1])
        return tf.lookup.StaticHashTable(pairs, -1)

    def two_tables() -> Any:
        return [table().size(), table().lookup(tf.constant(["a"]))]

    def branches() -> Any:
        tf.enable_control_flow_v2()
        try:
            n = tf.placeholder(tf.int32, [], name="n")
            filled = array().write(0, 1.0).stack()
            chosen = tf.cond(n > 1, lambda: filled, lambda: -filled)
            return tf.while_loop(lambda i: i < n, lambda i: i + 1, [0], back_prop=False), chosen
        finally:
            tf.disable_control_flow_v2()

    return taken(
        tf,
        lambda: array().write(0, 1.0).write(1, 2.0).read(0),
        lambda: array().unstack([1.0, 2.0]).stack(),
        lambda: array().split([1.0, 2.0], [1, 1]).concat(),
        lambda: array(dynamic_size=True).scatter([0, 1], [1.0, 2.0]).gather([0]),
        lambda: [array().size(), array(dynamic_size=True).size()],
        two_tables,
        branches,
    )


@tutorial
def values_that_graphs_state(tf: Any, at: Place) -> Any:
    """Only what is put together of constants and sizes is known; assertions go by that, too."""
    a, flag = tf.constant([1.0, 2.0]), tf.constant(True)
    x = tf.placeholder(tf.float32, [2, None])
    given = [
        *(tf.cast(a, tf.int32), tf.identity(a), tf.shape(x), tf.rank(x), tf.range(3)),
        *(tf.concat([a, a], 0), tf.stack([a, a]), tf.stack([a, a], 1), tf.fill([2], 1)),
        *(tf.equal(a, a), tf.less(a, a), tf.stop_gradient(a), a + 1.0, -a, a[0], tf.shape(x)[0]),
        *(tf.reshape(a, [2, 1]), tf.reduce_sum(a), tf.where(flag, 1, 2), tf.tile(a, [2])),
        *(tf.logical_not(flag), tf.expand_dims(a, 0), tf.gather(a, [0]), tf.maximum(a, 1.0)),
    ]
    calls = [
        lambda: tf.assert_greater(a, 1.5),
        lambda: tf.assert_positive(-a),
        lambda: tf.assert_equal(tf.constant(1), 2),
        lambda: tf.assert_less(a, a + 0.0),
    ]
    refuses = [refused(lambda call=call: [call()].clear()) for call in calls]
    with at.session() as sess:
        near = refused(lambda: sess.run(tf.assert_near(1.0, 1.0, 0.0, 0.0)))[0]
        late = refused(lambda: sess.run(tf.assert_less(a, a + 0.0)))[0]
    return [[tf.get_static_value(one) for one in given], refuses, near, late]


@tutorial
def names_of_tables_and_hessians(tf: Any, at: Place) -> Any:
    """Mutable tables, tables with buckets for other words, and second derivatives."""
    lookup, words = tf.lookup, ["a", "b"]

    def vocabulary(**options: Any) -> Any:
        pairs = lookup.KeyValueTensorInitializer(words, tf.constant([0, 1], tf.int64))
        table = lookup.StaticVocabularyTable(pairs, 3, **options)
        return [table.lookup(tf.constant(words)), table.size()]

    def mutable(name: str = "MutableHashTable") -> Any:
        table = lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name=name)
        table.insert(words, [1, 2])
        return [table.lookup(tf.constant(words)), table.size(), table.export()]

    def dense() -> Any:
        table = lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)
        return [table.insert([1], [2]), table.erase(tf.constant([1], tf.int64)), table.lookup([3])]

    def hessians() -> Any:
        x = tf.placeholder(tf.float32, [None], name="x")
        return tf.hessians(tf.reduce_sum(x * x * x), x)

    def sparse() -> Any:
        a = tf.sparse_placeholder(tf.float32, name="a")
        return [tf.sparse_add(a, a), tf.sparse.eye(2)]

    with tf.Graph().as_default() as graph, at.session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        (second,) = tf.hessians(tf.reduce_sum(x * x * x), x)
        value = sess.run(second, {x: [1.0, 2.0]})
        found = [second.name, value, graph.get_operations()[-1].name]
    calls = [vocabulary, lambda: vocabulary(name="v"), mutable, lambda: mutable("m"), dense]
    return [found, taken(tf, *calls, hessians, sparse)]


@tutorial
def names_of_functions_with_scopes(tf: Any, at: Place) -> Any:
    """Functions of several operations have a scope, whose name others can be given."""

    def x(*shape: int | None, dtype: str = "float32", name: str = "x") -> Any:
        return tf.placeholder(dtype, shape, name=name)

    def dense(dtype: str = "float32") -> Any:
        return x(2, 3, dtype=dtype), x(2, 3, dtype=dtype, name="y")

    math, nn, linalg, image, strings = tf.math, tf.nn, tf.linalg, tf.image, tf.strings
    calls = [
        lambda: linalg.matvec(x(2, 3), x(3)),
        lambda: [linalg.trace(x(3, 3)), linalg.trace(x(3, 3), name="t")],
        lambda: linalg.lstsq(x(3, 2), x(3, 1)),
        lambda: linalg.triangular_solve(x(3, 3), x(3, 1)),
        lambda: linalg.einsum("ij->ji", x(2, 3)),
        lambda: [math.is_non_decreasing(x(3)), math.is_strictly_increasing(x(3), name="s")],
        lambda: [math.lbeta(x(3)), math.log_sigmoid(x(3)), math.reciprocal_no_nan(x(3))],
        lambda: [math.angle(x(3)), math.imag(x(3)), math.scalar_mul(2.0, x(3))],
        lambda: [math.reduce_std(x(3)), math.reduce_std(x(2, None), 1, name="q")],
        lambda: math.unsorted_segment_mean(x(3), [0, 1, 1], 2),
        lambda: math.unsorted_segment_sqrt_n(x(3), [0, 1, 1], 2, name="n"),
        lambda: [math.xdivy(*dense()), math.xlog1py(*dense()), math.accumulate_n(dense())],
        lambda: [math.bessel_i0(x(3)), math.erfinv(x(3)), math.ndtri(x(3), name="n")],
        lambda: math.sobol_sample(2, 4),
        lambda: [tf.sort(x(3)), tf.argsort(x(3), name="order")],
        lambda: [tf.repeat(x(2, 3), [1, 2], axis=0), tf.batch_gather(x(2, 3), [[0], [1]])],
        lambda: [nn.max_pool1d(x(1, 4, 3), 2, 2, "SAME"), nn.avg_pool1d(x(1, 4, 3), 2, 2, "SAME")],
        lambda: nn.atrous_conv2d(x(1, 6, 6, 3), x(2, 2, 3, 4), 2, "SAME"),
        lambda: nn.depthwise_conv2d_native(x(1, 4, 4, 3), x(2, 2, 3, 2), [1, 1, 1, 1], "SAME"),
        lambda: nn.in_top_k(x(2, 3), [0, 1], 2),
        lambda: nn.collapse_repeated(x(2, 3, dtype="int32"), [3, 3]),
        lambda: [image.random_flip_left_right(x(4, 4, 3)), image.random_flip_up_down(x(4, 4, 3))],
        lambda: image.decode_image(x(dtype="string")),
        lambda: image.resize_bilinear(x(1, 4, 4, 3), [2, 2]),
        lambda: [strings.split(x(2, dtype="string")), strings.reduce_join(x(2, dtype="string"))],
        lambda: [
            tf.random.categorical(x(2, 3), 2),
            tf.random.stateless_categorical(x(2, 3), 2, [1, 2]),
        ],
        lambda: tf.metrics.mean_relative_error(x(3), x(3), x(3)),
        lambda: [
            tf.metrics.mean_absolute_error(x(3), x(3)),
            tf.metrics.percentage_below(x(3), 0.5),
        ],
    ]
    return taken(tf, *calls)
