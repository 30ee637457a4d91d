"""Feature columns, and the inputs and models made of them."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

columns = functools.partial(behaviour, "python/feature_column/feature_column_test.py")
later = functools.partial(behaviour, "python/feature_column/feature_column_v2_test.py")
sequences = functools.partial(behaviour, "python/feature_column/sequence_feature_column_test.py")


def _grid(*shape: int) -> Any:
    return np.sin(1.3 * np.arange(np.prod(shape)) + 0.2).reshape(shape).astype(np.float32)


def _run(tf: Any, fetches: Any) -> Any:
    """Return what a session gives in which each variable has known values."""
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for variable in tf.global_variables():
            variable.load(_grid(*variable.shape.as_list()), session)
        return _leaves(session.run(fetches))


def _leaves(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return [_leaves(item) for item in found]
    return np.round(found, 5) if isinstance(found, np.ndarray) else found


def _named(variables: Any) -> list[Any]:
    return [[v.name, v.shape.as_list(), v.trainable] for v in variables]


def _sparse(tf: Any, rows: list[list[Any]], kind: Any = np.int64) -> Any:
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([one for row in rows for one in row], kind)
    return tf.SparseTensor(places, values, [len(rows), max(map(len, rows))])


@columns("input_layer puts numbers, buckets, indicators and vectors side by side, by name.")
def inputs(tf: Any) -> Any:
    fc = tf.feature_column
    price = fc.numeric_column("price", shape=(2,), normalizer_fn=lambda x: x / 2.0)
    age = fc.numeric_column("age")
    buckets = fc.bucketized_column(age, [18, 25.0, 60])
    color = fc.categorical_column_with_vocabulary_list("color", ["R", "G", "B"], num_oov_buckets=2)
    features = {
        "price": tf.constant([[1.0, 2.0], [5.0, 6.0], [0.0, 1.0]]),
        "age": tf.constant([12, 25, 70]),
        "color": tf.constant([["R", "x"], ["", "G"], ["B", "B"]]),
    }
    used: dict[Any, Any] = {}
    outputs: dict[Any, Any] = {}
    net = fc.input_layer(
        features,
        [price, age, buckets, fc.indicator_column(color), fc.embedding_column(color, 2)],
        cols_to_vars=used,
        cols_to_output_tensors=outputs,
    )
    shapes = {column.name: str(output.shape) for column, output in outputs.items()}
    names = {column.name: [v.name for v in found] for column, found in used.items()}
    collected = [v.name for v in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)]
    return [str(net.shape), shapes, names, collected, _named(tf.global_variables()), _run(tf, net)]


@columns("linear_model has weights for each column, and a bias.")
def linear(tf: Any) -> Any:
    fc = tf.feature_column
    features = {
        "price": tf.constant([[1.0], [5.0]]),
        "size": tf.constant([3.0, 20.0]),
        "tag": _sparse(tf, [["a", "b"], ["c"]], object),
        "id": _sparse(tf, [[1], [0, 3]]),
        "weight": _sparse(tf, [[0.5], [2.0, 1.5]], np.float32),
    }
    ids = fc.categorical_column_with_identity("id", 4)
    size = fc.bucketized_column(fc.numeric_column("size"), [5, 10])
    tags = fc.categorical_column_with_hash_bucket("tag", 5)
    used: dict[Any, Any] = {}
    all_columns = [
        fc.numeric_column("price"), size, tags, fc.weighted_categorical_column(ids, "weight"),
        fc.crossed_column(["tag", ids], 6), fc.crossed_column([size, "tag"], 7),
    ]  # fmt: skip
    one = fc.linear_model(features, all_columns, cols_to_vars=used)
    other = fc.linear_model(
        features, [tags, size], units=3, sparse_combiner="mean", trainable=False
    )
    names = {getattr(key, "name", key): [v.name for v in found] for key, found in used.items()}
    return [str(one.shape), names, _named(tf.global_variables()), _run(tf, [one, other])]


@columns("Shared embeddings look up one table, in each model that uses them.")
def shared(tf: Any) -> Any:
    fc = tf.feature_column
    features = {"a": _sparse(tf, [[1], [0, 2]]), "b": _sparse(tf, [[2, 1], []])}
    both = [fc.categorical_column_with_identity(name, 3) for name in ("b", "a")]
    pair = fc.shared_embedding_columns(both, 2, combiner="sum")
    named = fc.shared_embedding_columns(both, 2, shared_embedding_collection_name="own")
    net = fc.input_layer(features, pair)
    again = fc.input_layer(features, named)
    return [[c.name for c in pair], _named(tf.global_variables()), _run(tf, [net, again])]


@columns("Scopes are entered again with reuse, and weights may be in further collections.")
def scopes(tf: Any) -> Any:
    fc = tf.feature_column
    column = fc.embedding_column(
        fc.categorical_column_with_identity("a", 3), 2, initializer=tf.ones_initializer()
    )
    features = {"a": _sparse(tf, [[1], [0, 2]])}
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        fc.input_layer(features, [column], weight_collections=["mine"])
        fc.input_layer(features, [column])
        fc.linear_model(features, [column])
    fc.input_layer(features, [column], trainable=False)
    mine = [v.name for v in tf.get_collection("mine")]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [_named(tf.global_variables()), mine, session.run(tf.global_variables()[0])]


@columns("Vocabularies are files, too; other values are left out, have a default, or buckets.")
def vocabularies(tf: Any, folder: Any) -> Any:
    fc = tf.feature_column
    path = os.path.join(str(folder), "words")
    with open(path, "w") as file:
        file.write("red\ngreen\nblue\n")
    features = {"c": tf.constant([["red", "pink"], ["blue", "grey"]]), "n": tf.constant([7, 40])}
    listed = [
        fc.categorical_column_with_vocabulary_file("c", path, 3),
        fc.categorical_column_with_vocabulary_file("c", path, 2, default_value=1),
        fc.categorical_column_with_vocabulary_file("c", path, num_oov_buckets=2),
        fc.categorical_column_with_vocabulary_list("c", ("blue", "red"), default_value=0),
        fc.categorical_column_with_vocabulary_list("n", (40, 50), dtype=tf.int64),
        fc.categorical_column_with_hash_bucket("n", 5, dtype=tf.int32),
        fc.categorical_column_with_identity("n", 10, default_value=3),
    ]
    nets = [fc.input_layer(features, [fc.indicator_column(column)]) for column in listed]
    return [[column.name for column in listed], _run(tf, nets)]


@later("A spec for parsing says what columns need of examples.")
def parsing(tf: Any) -> Any:
    fc = tf.feature_column
    age = fc.numeric_column("age", default_value=3, dtype=tf.int64)
    ids = fc.categorical_column_with_identity("id", 4)
    spec = fc.make_parse_example_spec(
        [
            fc.numeric_column("price", shape=(2,), default_value=0.5),
            fc.bucketized_column(age, [1, 2]),
            fc.weighted_categorical_column(ids, "weight"),
            fc.embedding_column(fc.categorical_column_with_hash_bucket("tag", 5), 3),
            fc.crossed_column(["x", "y"], 6),
        ]
    )
    example = tf.train.Example()
    example.features.feature["id"].int64_list.value.extend([1, 2])
    example.features.feature["weight"].float_list.value.extend([0.5, 2.0])
    parsed = tf.io.parse_example([example.SerializeToString()], spec)
    shown = {
        key: [type(one).__name__, one.dtype.name, getattr(one, "shape", None),
              getattr(one, "default_value", None)]
        for key, one in sorted(spec.items())
    }  # fmt: skip
    weights = fc.indicator_column(fc.weighted_categorical_column(ids, "weight"))
    net = fc.input_layer(parsed, [fc.numeric_column("price", (2,), 0.5), weights])
    return [shown, _run(tf, net)]


@later("Columns are tuples with names, that are equal when they say the same.")
def tuples(tf: Any) -> Any:
    fc = tf.feature_column
    price = fc.numeric_column("price", (2,), default_value=1)
    tag = fc.categorical_column_with_hash_bucket("tag", 5)
    table = fc.embedding_column(tag, 3, initializer=tf.zeros_initializer)
    crossed = fc.crossed_column(["b", fc.crossed_column(["c", "a"], 3)], 9)
    bucketized = fc.bucketized_column(fc.numeric_column("q"), [1.0, 2.0])
    found = [price, tag, table, crossed, fc.indicator_column(tag), bucketized]
    return [
        [column.name for column in found],
        [list(column._fields) for column in found],
        [price == fc.numeric_column("price", (2,), default_value=1), price == tag],
        [price.default_value, price.shape, price.dtype.name, table.dimension, table.combiner],
        [bucketized.boundaries, bucketized.num_buckets, list(bucketized.variable_shape)],
        [crossed.num_buckets, table.variable_shape.as_list(), found[4].variable_shape.as_list()],
    ]


@sequences("Columns of sequences give a vector for each step, and lengths.")
def steps(tf: Any) -> Any:
    fc = tf.feature_column
    ids = fc.sequence_categorical_column_with_identity("id", 4)
    words = fc.sequence_categorical_column_with_vocabulary_list("word", ["a", "b"])
    hashed = fc.sequence_categorical_column_with_hash_bucket("word", 5)
    number = fc.sequence_numeric_column("number", shape=(2,), default_value=-1.0)
    spec = fc.make_parse_example_spec([fc.indicator_column(ids), hashed])
    spec.update(number.parse_example_spec)
    tag = fc.embedding_column(words, 2)
    shown = {key: [type(one).__name__, one.dtype.name] for key, one in sorted(spec.items())}
    names = [ids.name, words.name, hashed.name, number.name, tag.name, number.shape]
    features = {"id": _sparse(tf, [[1], [0, 2]])}
    return [
        shown,
        names,
        ids.num_buckets,
        error(lambda: fc.input_layer(features, [fc.embedding_column(ids, 2)]), "must not be"),
        error(lambda: fc.input_layer(features, [fc.indicator_column(ids)]), "must not be"),
    ]


@columns("A table may begin with the values of a checkpoint.")
def from_checkpoint(tf: Any, folder: Any) -> Any:
    fc = tf.feature_column
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("table", initializer=_grid(3, 2))
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, os.path.join(str(folder), "saved"))
    column = fc.embedding_column(
        fc.categorical_column_with_identity("a", 3), 2,
        ckpt_to_load_from=path, tensor_name_in_ckpt="table",
    )  # fmt: skip
    net = fc.input_layer({"a": tf.constant([[0], [2]], tf.int64)}, [column])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(net)


@columns("A model of columns is trained.")
def trained(tf: Any) -> Any:
    fc = tf.feature_column
    rng = np.random.RandomState(0)
    features = {
        "x": tf.constant(rng.randn(20, 2).astype(np.float32)),
        "k": tf.constant(rng.randint(0, 5, [20, 1])),
    }
    kind = fc.categorical_column_with_identity("k", 5)
    labels = tf.cast(features["k"] > 2, tf.float32)
    net = fc.input_layer(features, [fc.numeric_column("x", 2), fc.embedding_column(kind, 3)])
    w = tf.get_variable("w", [5, 1])
    logits = tf.matmul(net, w) + fc.linear_model(features, [kind])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.AdagradOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for variable in tf.trainable_variables():
            variable.load(_grid(*variable.shape.as_list()) * 0.1, session)
        losses = [round(float(session.run([loss, train])[0]), 4) for _ in range(6)]
        return [_named(tf.trainable_variables()), losses]


@columns("What does not fit is refused.")
def refused(tf: Any) -> Any:
    fc = tf.feature_column
    price = fc.numeric_column("price")
    ids = fc.categorical_column_with_identity("id", 4)
    hashed = fc.categorical_column_with_hash_bucket("tag", 5)
    x = {"price": tf.constant([[1.0]])}
    model = fc.linear_model
    return [
        error(lambda: fc.input_layer(x, [ids]), "must be a _DenseColumn"),
        error(lambda: fc.input_layer(x, []), "must not be empty"),
        error(lambda: fc.input_layer(x, {"a": price}), "found dict"),
        error(lambda: fc.input_layer(x, [price, fc.numeric_column("price")]), "Duplicate"),
        error(lambda: fc.input_layer({}, [price]), "price is not in features dictionary"),
        error(lambda: fc.input_layer({"price": tf.constant(1.0)}, [price]), "cannot have rank 0"),
        error(lambda: fc.input_layer({"price": _sparse(tf, [[1]])}, [price]), "not supported"),
        error(lambda: model({"id": tf.constant([[0.5]])}, [ids]), "Invalid input, not integer"),
        error(lambda: fc.numeric_column(3), "key must be a string"),
        error(lambda: fc.numeric_column("a", shape=(0,)), "greater than 0"),
        error(lambda: fc.numeric_column("a", default_value="x"), "compatible with dtype"),
        error(lambda: fc.numeric_column("a", shape=(2,), default_value=[1.0]), "equal to given"),
        error(lambda: fc.numeric_column("a", dtype=tf.string), "convertible to float"),
        error(lambda: fc.numeric_column("a", normalizer_fn=1), "must be a callable"),
        error(lambda: fc.bucketized_column(price, [2, 1]), "sorted list"),
        error(lambda: fc.bucketized_column(ids, [1]), "numeric_column()"),
        error(lambda: fc.crossed_column(["a"], 3), "length > 1"),
        error(lambda: fc.crossed_column(["a", hashed], 3), "not supported for crossing"),
        error(lambda: fc.crossed_column(["a", 3], 3), "Unsupported key type"),
        error(lambda: fc.categorical_column_with_identity("a", 0), "< 1"),
        error(lambda: fc.categorical_column_with_identity("a", 2, 5), "not in range"),
        error(lambda: fc.categorical_column_with_vocabulary_list("a", []), "non-empty"),
        error(lambda: fc.categorical_column_with_vocabulary_list("a", ["x", "x"]), "Duplicate"),
        error(lambda: fc.categorical_column_with_hash_bucket("a", 0), "at least 1"),
        error(lambda: fc.categorical_column_with_vocabulary_file("a", "/no/file"), "not exist"),
        error(lambda: fc.embedding_column(ids, 0), "Invalid dimension"),
        error(lambda: fc.embedding_column(ids, 2, ckpt_to_load_from="x"), "both"),
        error(lambda: fc.indicator_column(price), "Unsupported input type"),
        error(lambda: fc.shared_embedding_columns([ids, hashed], 2), "same type"),
        error(lambda: fc.make_parse_example_spec(["x"]), "FeatureColumn instances"),
    ]
