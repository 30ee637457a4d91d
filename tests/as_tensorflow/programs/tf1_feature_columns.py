"""Columns of features: one linear model and one deep one, fed from parsed examples."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
fc = tf.feature_column
rng = np.random.RandomState(10)
KINDS = ["fern", "moss", "oak"]


def example(i):
    def floats(*values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    def texts(*values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in values]))

    height = float(rng.randint(0, 40)) / 4
    features = {
        "height": floats(height),
        "leaves": floats(*rng.rand(2)),
        "kind": texts(KINDS[i % 3]),
        "places": texts(*["sun", "shade", "pond"][: i % 3]),
        "tall": floats(float(height > 5)),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


height = fc.numeric_column("height")
leaves = fc.numeric_column("leaves", shape=[2], normalizer_fn=lambda x: (x - 0.5) * 2)
kind = fc.categorical_column_with_vocabulary_list("kind", KINDS, num_oov_buckets=1)
places = fc.categorical_column_with_hash_bucket("places", 10)
buckets = fc.bucketized_column(height, [2.0, 5.0, 8.0])
crossed = fc.crossed_column([buckets, "kind"], 20)
weighted = fc.weighted_categorical_column(kind, "weight")
linear = [leaves, buckets, kind, crossed]
deep = [
    height,
    leaves,
    fc.indicator_column(kind),
    fc.embedding_column(places, 3, combiner="sum", initializer=tf.ones_initializer()),
    *fc.shared_embedding_columns([kind], 2, initializer=tf.ones_initializer()),
]
print([column.name for column in deep], sorted(fc.make_parse_example_spec(linear)))
spec = {
    **fc.make_parse_example_spec([*linear, *deep]),
    "tall": tf.FixedLenFeature([1], tf.float32),
}
print({name: type(value).__name__ for name, value in sorted(spec.items())})

with tf.Graph().as_default():
    tf.set_random_seed(1)
    examples = tf.data.Dataset.from_tensor_slices([example(i) for i in range(12)])
    batches = examples.batch(4).map(lambda texts: tf.parse_example(texts, spec)).repeat()
    features = tf.data.make_one_shot_iterator(batches).get_next()
    labels = features.pop("tall")
    wide = fc.linear_model(features, linear, sparse_combiner="sum")
    inputs = fc.input_layer(features, deep)
    first = tf.get_variable("first", [inputs.shape[1], 3], initializer=tf.ones_initializer())
    last = tf.get_variable("last", [3, 1], initializer=tf.ones_initializer())
    logits = wide + tf.tanh(inputs @ first) @ last
    loss = tf.losses.sigmoid_cross_entropy(labels, logits)
    train = tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.01).minimize(loss)
    names = {name: v.shape.as_list() for v in tf.trainable_variables() for name in [v.op.name]}
    for name in sorted(names):
        print(name, names[name])
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        print(inputs.shape.as_list(), np.round(session.run(inputs)[0, :5], 3).tolist())
        for _ in range(4):
            print(np.round(session.run([loss, train])[0], 4))

with tf.Graph().as_default(), tf.Session() as session:
    given = {
        "kind": tf.constant([["oak", "cactus"], ["moss", ""]]),
        "weight": tf.constant([[2.0, 3.0], [0.5, 0.0]]),
        "height": tf.constant([[1.0], [9.0]]),
    }
    layer = fc.input_layer(given, [fc.indicator_column(weighted), buckets])
    identity = fc.indicator_column(
        fc.categorical_column_with_identity("number", 3, default_value=0)
    )
    numbers = fc.input_layer({"number": tf.constant([[2], [7]])}, [identity])
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    print(session.run(layer).tolist(), session.run(numbers).tolist())
    for wrong in (
        lambda: fc.input_layer(given, [kind]),
        lambda: fc.bucketized_column(height, [3.0, 2.0]),
        lambda: fc.input_layer({}, [height]),
        lambda: fc.numeric_column("x", shape=[-1]),
    ):
        try:
            wrong()
        except (ValueError, KeyError) as error:
            print(type(error).__name__)
