"""What TensorFlow 1 built in graphs, where operations are called at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

WRAPPED = "python/eager/wrap_function_test.py"
RNN = "python/kernel_tests/nn_ops/rnn_test.py"
COLUMNS = "python/feature_column/feature_column_v2_test.py"
SPARSE = "python/ops/sparse_ops_test.py"
WRAPPERS = "python/kernel_tests/nn_ops/rnn_cell_test.py"
STRATEGIES = "python/distribute/mirrored_strategy_test.py"


def _named(variables: Any) -> list[Any]:
    return [[v.name, v.shape.as_list()] for v in variables]


@behaviour(WRAPPED, "A wrapped function makes its variables once, whichever way.")
def wrapped(tf: Any) -> Any:
    v1 = tf.compat.v1

    def scale(x: Any) -> Any:
        v = v1.get_variable("v", [2], initializer=v1.ones_initializer())
        w = tf.Variable(3.0, name="w")
        return tf.identity(x * v, name="y") + w

    signature = [tf.TensorSpec([2], tf.float32)]
    one, two = (v1.wrap_function(scale, signature) for _ in range(2))
    two.variables[0].assign([5.0, 6.0])
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(two(x))
    part = one.prune("y:0", {"a": one.structured_outputs})
    return value([one(x), two(x), part(x), _named(one.variables), tape.gradient(y, two.variables)])


@behaviour(WRAPPED, "prune takes a part of an imported graph: tensors for tensors.")
def pruned(tf: Any) -> Any:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
        tf.nn.relu(x @ tf.constant([[1.0, -1.0], [2.0, 0.5]]), name="out")
        graph_pb = graph.as_graph_def()
    whole = tf.compat.v1.wrap_function(lambda: tf.compat.v1.import_graph_def(graph_pb, name=""), [])
    element = whole.graph.as_graph_element
    one = whole.prune(element("x:0"), element("out:0"))
    many = whole.prune([element("x:0")], [element("out:0"), element("out")])
    given = tf.constant([[1.0, 2.0]])
    return value([one(given), many(given), str(one.inputs[0].shape), str(one.outputs[0].shape)])


@behaviour(WRAPPED, "get_variable gives a new variable each time where nothing is built.")
def new_each_time(tf: Any) -> Any:
    v1 = tf.compat.v1
    one, two = (v1.get_variable("q", initializer=float(i)) for i in range(2))
    return value([one is two, one.name, two.name, one, two])


@behaviour(RNN, "Cells and loops over time run at once, and in functions.")
def recurrent(tf: Any) -> Any:
    nn = tf.compat.v1.nn
    try:
        cells = nn.rnn_cell.GRUCell and nn.rnn_cell
    except AttributeError:  # TensorFlow shows them with Keras 2 alone
        from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells  # noqa: PLC0415
    x = tf.constant(np.sin(np.arange(24.0)).reshape(2, 4, 3).astype(np.float32))
    first = tf.compat.v1.constant_initializer(0.1)
    cell = cells.LSTMCell(3, initializer=first)
    with tf.GradientTape() as tape:
        outputs, state = nn.dynamic_rnn(cell, x, [4, 2], dtype=tf.float32)
        loss = tf.reduce_sum(outputs * outputs)
    grads = tape.gradient(loss, cell.trainable_variables)

    @tf.function
    def again(x: Any) -> Any:
        return nn.dynamic_rnn(cell, x, dtype=tf.float32)[0]

    listed, _ = nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
    return value([outputs, state, grads, again(x), listed[-1], len(cell.variables)])


@behaviour(COLUMNS, "Columns are made in the TF2 shape, too, and say what parsing needs.")
def columns(tf: Any) -> Any:
    fc = tf.feature_column
    words = fc.categorical_column_with_vocabulary_list("w", ["a", "b"], num_oov_buckets=1)
    ids = fc.sequence_categorical_column_with_identity("s", 3)
    found = [
        fc.numeric_column("x", shape=(2,)), fc.indicator_column(words), words, ids,
        fc.bucketized_column(fc.numeric_column("y"), [0.0, 1.0]), fc.embedding_column(ids, 2),
        fc.crossed_column(["w", "z"], 5), fc.sequence_numeric_column("n"),
    ]  # fmt: skip
    spec = fc.make_parse_example_spec(found)
    shown = {key: [type(one).__name__, one.dtype.name] for key, one in sorted(spec.items())}
    return [
        [one.name for one in found],
        shown,
        error(lambda: fc.shared_embeddings([words, words], 2), "eager execution")[0],
        error(lambda: fc.categorical_column_with_vocabulary_file("w", ""), "Missing"),
    ]


@behaviour(SPARSE, "Products at given places, and sparse tensors as strings.")
def sparse(tf: Any) -> Any:
    places = tf.constant([[0, 1], [1, 0]])
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0, 6.0], [7.0, 8.0]])
    plain = tf.sparse.sampled_addmm(places, [1.0, 2.0], [2, 2], a, b)
    scaled = tf.sparse.sampled_addmm(places, [1.0, 2.0], [2, 2], a, b, beta=0.5, alpha=2.0)
    given = tf.sparse.from_dense([[0, 3], [4, 0]])
    rows = tf.io.serialize_many_sparse(given)
    return value([plain, scaled, tf.io.deserialize_many_sparse(rows, tf.int32), rows.shape[1]])


@behaviour(STRATEGIES, "Strategies of TensorFlow 1 have iterators of their own.")
def strategies(tf: Any) -> Any:
    v1 = tf.compat.v1.distribute
    strategy = v1.MirroredStrategy(["/cpu:0"])
    before = v1.has_strategy()
    v1.experimental_set_strategy(strategy)
    during = [v1.has_strategy(), v1.get_strategy() is strategy]
    v1.experimental_set_strategy(None)
    with strategy.scope():
        v = tf.Variable(1.0)
        walk = strategy.make_dataset_iterator(tf.data.Dataset.range(4).batch(2))

        def step(x: Any) -> Any:
            return v.assign_add(tf.cast(tf.reduce_sum(x), tf.float32))

        found = []
        for _ in range(2):
            strategy.experimental_run(step, walk)
            found.append(v.numpy())
        walk.initialize()
        strategy.experimental_run(step, walk)
    config = strategy.update_config_proto(tf.compat.v1.ConfigProto(allow_soft_placement=True))
    rows = strategy.experimental_make_numpy_dataset(np.array([1.0, 2.0]))
    return [
        [before, during, v1.has_strategy()],
        [found, v.numpy(), strategy.num_replicas_in_sync],
        [config.allow_soft_placement, value(list(rows)), str(v1.get_loss_reduction())],
    ]


@behaviour(WRAPPERS, "Wrappers of the TF2 shape go around any cell that says its sizes.")
def wrappers(tf: Any) -> Any:
    class Cell:
        state_size = output_size = 3

        def build(self, shape: Any) -> None:
            self.built = True

        def get_initial_state(self, batch_size: int, dtype: Any) -> Any:
            return tf.zeros([batch_size, 3], dtype)

        def call(self, inputs: Any, state: Any) -> Any:
            output = tf.tanh(inputs + 0.5 * state)
            return output, output

        __call__ = call

    tf.random.set_seed(7)  # what is drawn does not depend on what was drawn before
    x = tf.constant(np.sin(np.arange(6.0)).reshape(2, 3).astype(np.float32))
    made = [
        tf.nn.RNNCellResidualWrapper(Cell()),
        tf.nn.RNNCellDeviceWrapper(Cell(), "/cpu:0"),
        tf.nn.RNNCellDropoutWrapper(Cell(), input_keep_prob=0.5, output_keep_prob=0.5, seed=3),
    ]
    return value([[cell(x, tf.ones([2, 3])), cell.state_size, cell.output_size] for cell in made])
