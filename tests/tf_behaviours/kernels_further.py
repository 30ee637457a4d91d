"""What few programs of TensorFlow 1 call: parts of many families."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

SERIALIZED = "python/kernel_tests/sparse_ops/sparse_serialization_ops_test.py"
MERGE = "python/ops/sparse_ops_test.py"
SPLIT = "python/kernel_tests/sparse_ops/sparse_split_op_test.py"
PARTS = "python/kernel_tests/variables/partitioned_variables_test.py"
NUMERICS = "python/kernel_tests/math_ops/numerics_test.py"
LOSSES = "python/kernel_tests/nn_ops/losses_test.py"
SCALES = "python/training/experimental/loss_scale_test.py"
SCALED = "python/training/experimental/loss_scale_optimizer_test.py"
WARM = "python/training/warm_starting_util_test.py"
TESTS = "python/framework/test_util_test.py"
STRATEGIES = "python/distribute/one_device_strategy_test.py"


def _sparse(tf: Any) -> Any:
    return tf.SparseTensor([[0, 1], [0, 3], [2, 0]], [5.0, 6.0, 7.0], [3, 4])


def _parts(value: Any) -> Any:
    return [value.indices, value.values, value.dense_shape]


@behaviour(SERIALIZED, "Sparse tensors are written as strings, and read again as rows of one.")
def sparse_as_strings(tf: Any) -> Any:
    given = _sparse(tf)
    rows = tf.serialize_many_sparse(given)
    one = tf.io.serialize_sparse(tf.SparseTensor([[1]], [2.0], [4]))
    both = tf.concat([rows, tf.expand_dims(one, 0)], 0)
    read = tf.deserialize_many_sparse(both, tf.float32, rank=2)
    shapes = [str(x.shape) for x in (rows, one, read.indices, read.dense_shape)]
    variant = tf.io.serialize_sparse(given, out_type=tf.variant)
    refused = error(lambda: tf.serialize_sparse(tf.constant([1])), "SparseTensor")
    with tf.Session() as session:
        return [shapes, variant.dtype.name, refused, _parts(session.run(read))]


@behaviour(MERGE, "sparse_merge puts values at the places of their ids.")
def merged(tf: Any) -> Any:
    ids = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], np.array([2, 3, 0], np.int64), [2, 2])
    values = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [0.5, 1.5, 2.5], [2, 2])
    one = tf.sparse_merge(ids, values, 4)
    two = tf.sparse.merge([ids, ids], values, [4, 5], already_sorted=True)
    refused = [
        error(lambda: tf.sparse_merge(ids, values, [4]), "vocab_size"),
        error(lambda: tf.sparse_merge([ids], values, [4, 5]), "equal lengths"),
    ]
    with tf.Session() as session:
        return [[_parts(session.run(found)) for found in (one, two)], refused]


@behaviour(SPLIT, "sparse_split takes its arguments by name.")
def split(tf: Any) -> Any:
    given = _sparse(tf)
    parts = tf.sparse_split(sp_input=given, num_split=2, axis=1)
    old = tf.sparse.split(sp_input=given, num_split=3, axis=0)
    refused = [
        error(lambda: tf.sparse_split(given, 2, 1), "Keyword arguments are required"),
        error(lambda: tf.sparse_split(sp_input=given, axis=1), "num_split is required"),
    ]
    with tf.Session() as session:
        return [[_parts(one) for one in session.run([*parts, *old])], refused]


@behaviour(MERGE, "What is sparse stays so, and anything else becomes a tensor.")
def tensor_or_sparse(tf: Any) -> Any:
    convert = tf.convert_to_tensor_or_sparse_tensor
    given = _sparse(tf)
    value = tf.SparseTensorValue([[0]], [1.0], [2])
    return [
        convert(given) is given,
        type(convert(value)).__name__,
        convert([1, 2], tf.int64).dtype.name,
        error(lambda: convert(given, tf.int32), "Sparse dtype mismatch"),
    ]


@behaviour(PARTS, "create_partitioned_variables gives the parts of one variable.")
def parts_of_variables(tf: Any) -> Any:
    first = tf.create_partitioned_variables([4, 3], [2, 1], tf.ones_initializer(), name="a")
    second = tf.create_partitioned_variables([3, 5], [1, 3], np.arange(15.0).reshape(3, 5))
    with tf.variable_scope("s"):
        third = tf.create_partitioned_variables([2], [1], tf.zeros_initializer())
        again = tf.create_partitioned_variables(
            [2], [1], tf.zeros_initializer(), name="PartitionedVariable", reuse=True
        )
    refused = error(lambda: tf.create_partitioned_variables([2], [1, 1], None), "same", "length")
    names = [[v.name, v.shape.as_list(), v.dtype.base_dtype.name] for v in first + second + third]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [names, again[0] is third[0], refused, session.run([*first, *second])]


@behaviour(NUMERICS, "add_check_numerics_ops looks at all floats of the graph.")
def checked_numbers(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.divide(1.0, x, name="y")
    check = tf.add_check_numerics_ops()
    with tf.Session() as session:
        return [
            check.type,
            session.run([y, check], {x: [1.0, 2.0]})[0],
            error(lambda: session.run(check, {x: [0.0, 1.0]}), "Inf"),
        ]


@behaviour(NUMERICS, "add_check_numerics_ops refuses graphs with branches of TensorFlow 1.")
def checked_branches(tf: Any) -> Any:
    tf.cond(tf.placeholder(tf.bool, []), lambda: tf.constant(1.0), lambda: tf.constant(2.0))
    return error(tf.add_check_numerics_ops, "not compatible with TensorFlow control flow")


@behaviour(LOSSES, "mean_pairwise_squared_error compares the differences between elements.")
def pairs_of_errors(tf: Any) -> Any:
    labels = np.array([[1.0, 9.0, 2.0], [-5.0, -2.0, 6.0]], np.float32)
    guesses = np.array([[4.0, 8.0, 12.0], [8.0, 1.0, 3.0]], np.float32)
    loss = tf.losses.mean_pairwise_squared_error
    cube = np.arange(12.0, dtype=np.float32).reshape(2, 3, 2)
    found = [
        loss(labels, guesses),
        loss(labels, guesses, weights=2.5),
        loss(labels, guesses, weights=[[1.0], [3.0]]),
        loss(labels, guesses, weights=[[0.0], [3.0]]),
        loss(labels, guesses, weights=0.0),
        loss(cube, cube * cube),
    ]
    kept = [x.name for x in tf.get_collection(tf.GraphKeys.LOSSES)]
    refused = [
        error(lambda: loss(labels, guesses[:, :2]))[0],
        error(lambda: loss(labels, guesses, weights=[1.0, 3.0]))[0],
    ]
    with tf.Session() as session:
        values = [round(float(value), 3) for value in session.run(found)]
        return [values, len(kept), refused]


@behaviour(SCALES, "A dynamic scale of losses grows while gradients are finite, and shrinks.")
def scales(tf: Any) -> Any:
    fixed = tf.mixed_precision.FixedLossScale(8)
    grow = tf.mixed_precision.DynamicLossScale(
        initial_loss_scale=4, increment_period=2, multiplier=2
    )
    grad = tf.placeholder(tf.float32, [2])
    update, should_apply = grow.update([grad, None])
    refused = [
        error(lambda: tf.mixed_precision.FixedLossScale(0.5), "at least 1"),
        error(lambda: tf.mixed_precision.FixedLossScale("x"), "int or float"),
    ]
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in (1.0, 2.0, np.inf, 1.0, np.nan, np.nan, np.nan):
            is_finite, _ = session.run([should_apply, update], {grad: [value, 0.0]})
            found.append([bool(is_finite), float(session.run(grow()))])
        return [session.run(fixed()), fixed.get_config(), grow.get_config(), found, refused]


@behaviour(SCALED, "An optimizer of scaled losses leaves out steps whose gradients are not finite.")
def scaled_losses(tf: Any) -> Any:
    x = tf.Variable(2.0)
    factor = tf.placeholder(tf.float32, [])
    scale = tf.train.experimental.DynamicLossScale(8, increment_period=1)
    inner = tf.train.GradientDescentOptimizer(0.5)
    step = tf.train.get_or_create_global_step()
    train = tf.train.experimental.MixedPrecisionLossScaleOptimizer(inner, scale).minimize(
        x * x * factor, global_step=step
    )
    wrapped = tf.train.experimental.enable_mixed_precision_graph_rewrite(inner, 16)
    tf.train.experimental.disable_mixed_precision_graph_rewrite()
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in (0.5, np.inf, 0.5):
            session.run(train, {factor: value})
            found.append([float(v) for v in session.run([x, scale(), step])])
        return [found, type(wrapped).__name__]


@behaviour(WARM, "warm_start lets variables begin with what a checkpoint has, by name or by words.")
def warm(tf: Any, folder: Any) -> Any:
    for name, words in (("old", "a b c"), ("new", "c x a")):
        with open(os.path.join(str(folder), name), "w") as file:
            file.write("\n".join(words.split()) + "\n")
    old, new = (os.path.join(str(folder), name) for name in ("old", "new"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("dense/w", initializer=np.arange(4.0, dtype=np.float32))
        tf.get_variable("table", initializer=np.arange(6.0, dtype=np.float32).reshape(3, 2))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, os.path.join(str(folder), "model"))
    kept = tf.get_variable("dense/w", [4])
    table = tf.get_variable("words", [4, 2])
    other = tf.get_variable("other", initializer=[1.0])
    info = tf.train.VocabInfo(
        new_vocab=new, new_vocab_size=3, num_oov_buckets=1, old_vocab=old,
        backup_initializer=tf.ones_initializer(),
    )  # fmt: skip
    tf.train.warm_start(str(folder), "(dense|words)", {"words": info}, {"words": "table"})
    refused = error(
        lambda: tf.train.warm_start(str(folder), "dense", var_name_to_prev_var_name={"q": "t"}),
        "misspelled",
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([kept, table, other]), info.old_vocab_size, info.axis, refused]


@behaviour(TESTS, "Helpers of tests compare graphs and put attributes back.")
def helpers_of_tests(tf: Any) -> Any:
    def graph(value: float) -> Any:
        with tf.Graph().as_default() as made:
            tf.add(tf.constant(value, name="a"), 1.0, name="b")
        return made.as_graph_def()

    class Thing:
        value = 1

    with tf.test.StubOutForTesting() as stubs:
        stubs.Set(Thing, "value", 2)
        stubs.SmartSet(Thing, "value", 3)
        inside = Thing.value
    return [
        error(lambda: tf.test.assert_equal_graph_def(graph(1.0), graph(1.0))),
        error(lambda: tf.test.assert_equal_graph_def(graph(1.0), graph(2.0)))[0],
        [inside, Thing.value],
        tf.errors.exception_type_from_error_code(5).__name__,
        tf.errors.error_code_from_exception_type(tf.errors.AbortedError),
        tf.resource_loader.get_path_to_datafile("x").rpartition("/")[2],
    ]


@behaviour(STRATEGIES, "A strategy of one device trains in a graph, with an iterator of its own.")
def one_device(tf: Any) -> Any:
    made = tf.distribute
    found = []
    for strategy in (made.OneDeviceStrategy("/cpu:0"), made.MirroredStrategy(["/cpu:0"])):
        with tf.Graph().as_default(), strategy.scope():
            v = tf.get_variable("v", initializer=2.0)
            rows = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32)).batch(2)
            walk = strategy.make_dataset_iterator(rows)

            def step(x: Any, v: Any = v) -> Any:
                loss = tf.reduce_sum(v * x)
                train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
                with tf.control_dependencies([train]):
                    return tf.identity(loss)

            losses = strategy.experimental_run(step, walk)
            total = strategy.reduce(made.ReduceOp.SUM, losses, axis=None)
            with tf.Session() as session:
                session.run([walk.initialize(), tf.global_variables_initializer()])
                found.append([[session.run(total) for _ in range(2)], session.run(v), v.name])
    return found
