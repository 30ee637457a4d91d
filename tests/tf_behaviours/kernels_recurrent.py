"""Recurrent cells, and loops over time."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

RNN = "python/kernel_tests/nn_ops/rnn_test.py"
CELLS = "python/kernel_tests/nn_ops/rnn_cell_test.py"
loops = functools.partial(behaviour, RNN)
cells = functools.partial(behaviour, CELLS)

BATCH, STEPS, WIDTH, UNITS = 3, 4, 2, 3


def _rnn_cell(tf: Any) -> Any:
    """Return tf.nn.rnn_cell, whose classes TensorFlow shows with Keras 2 alone."""
    try:
        return tf.nn.rnn_cell.GRUCell and tf.nn.rnn_cell
    except AttributeError:
        from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl  # noqa: PLC0415

        return rnn_cell_impl


def _grid(*shape: int) -> Any:
    return np.sin(1.7 * np.arange(np.prod(shape)) + 0.3).reshape(shape).astype(np.float32)


def _filled(tf: Any) -> Any:
    """Return a session in which each trained variable has known values."""
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    for i, variable in enumerate(tf.trainable_variables()):
        shape = variable.shape.as_list()
        variable.load(_grid(*shape) * (0.5 + 0.1 * i), session)
    return session


def _named(variables: Any) -> list[Any]:
    return [[v.name, v.shape.as_list(), v.dtype.base_dtype.name] for v in variables]


def _leaves(found: Any) -> Any:
    if isinstance(found, (list, tuple)):
        return [type(found).__name__, *map(_leaves, found)]
    return np.round(found, 5)


def _run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with _filled(tf) as session:
        return _leaves(session.run(fetches, feeds))


@cells("A cell makes its variables under its name in the scope in force, and uses them again.")
def steps_of_cells(tf: Any) -> Any:
    rnn = _rnn_cell(tf)
    made = [
        rnn.BasicRNNCell(UNITS),
        rnn.GRUCell(UNITS),
        rnn.BasicLSTMCell(UNITS),
        rnn.BasicLSTMCell(UNITS, forget_bias=0.0, state_is_tuple=False, activation=tf.nn.relu),
        rnn.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.4),
        rnn.LSTMCell(UNITS, num_proj=2, proj_clip=0.3, name="projected"),
    ]
    x = tf.constant(_grid(BATCH, WIDTH))
    found: list[Any] = []
    outputs = []
    for cell in made:
        state = cell.zero_state(BATCH, tf.float32)
        first = cell(x, state)
        second = cell(x, first[1])
        outputs.append((first, second))
        sizes = [str(cell.state_size), cell.output_size, len(cell.trainable_variables)]
        found.append([sizes, _named(cell.variables)])
    return [found, _named(tf.global_variables()), _run(tf, outputs)]


@cells("The first values of biases are 0, but 1 for the gates of a GRU.")
def first_values(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, WIDTH))
    cell = _rnn_cell(tf).GRUCell(UNITS, kernel_initializer=tf.constant_initializer(0.5))
    cell(x, cell.zero_state(BATCH, tf.float32))
    lstm = _rnn_cell(tf).LSTMCell(2, initializer=tf.ones_initializer())
    lstm(x, lstm.zero_state(BATCH, tf.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [[v.name, session.run(v)] for v in tf.global_variables()]


@loops("dynamic_rnn runs a cell over time; outputs and states end where a sequence does.")
def over_time(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, None, WIDTH])
    lengths = tf.placeholder(tf.int32, [None])
    feeds = {x: _grid(BATCH, STEPS, WIDTH), lengths: [4, 0, 2]}
    lstm = _rnn_cell(tf).BasicLSTMCell(UNITS)
    whole = tf.nn.dynamic_rnn(lstm, x, dtype=tf.float32)
    gru = _rnn_cell(tf).GRUCell(UNITS)
    ended = tf.nn.dynamic_rnn(gru, x, lengths, dtype=tf.float32, scope="ended")
    turned = tf.transpose(x, [1, 0, 2])
    major = tf.nn.dynamic_rnn(
        _rnn_cell(tf).BasicRNNCell(UNITS), turned, dtype=tf.float32, time_major=True, scope="major"
    )
    shapes = [str(y.shape) for y in (whole[0], ended[0], ended[1], major[0], whole[1].c)]
    return [shapes, _named(tf.trainable_variables()), _run(tf, [whole, ended, major], feeds)]


@loops("Known sizes are kept, and an initial state says the type.")
def known_sizes(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, STEPS, WIDTH))
    cell = _rnn_cell(tf).LSTMCell(UNITS)
    first = _rnn_cell(tf).LSTMStateTuple(
        tf.constant(_grid(BATCH, UNITS)), tf.constant(_grid(BATCH, UNITS))
    )
    outputs, state = tf.nn.dynamic_rnn(
        cell, x, initial_state=first, sequence_length=[1, 4, 3], swap_memory=True
    )
    shapes = [str(y.shape) for y in (outputs, state.c, state.h)]
    return [shapes, type(state).__name__, _run(tf, [outputs, state])]


@loops("Gradients flow through all steps, to variables, inputs and the first state.")
def gradients_over_time(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, STEPS, WIDTH))
    found = []
    for number, lengths in enumerate((None, [2, 4, 1])):
        with tf.variable_scope(f"net{number}"):
            cell = _rnn_cell(tf).MultiRNNCell(
                [_rnn_cell(tf).BasicLSTMCell(UNITS), _rnn_cell(tf).GRUCell(UNITS)]
            )
            first = cell.zero_state(BATCH, tf.float32)
            outputs, state = tf.nn.dynamic_rnn(cell, x, lengths, first)
        loss = tf.reduce_sum(tf.square(outputs)) + tf.reduce_sum(state[0].c * 0.5)
        variables = tf.trainable_variables(f"net{number}")
        found.append([loss, tf.gradients(loss, [*variables, x, first[0].h])])
    return [_named(tf.trainable_variables()), _run(tf, found)]


@loops("bidirectional_dynamic_rnn runs a second cell from the ends of sequences.")
def both_ways(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, STEPS, WIDTH))
    one = tf.nn.bidirectional_dynamic_rnn(
        _rnn_cell(tf).LSTMCell(UNITS), _rnn_cell(tf).GRUCell(2), x, [2, 4, 3], dtype=tf.float32
    )
    other = tf.nn.bidirectional_dynamic_rnn(
        _rnn_cell(tf).GRUCell(2),
        _rnn_cell(tf).GRUCell(2),
        tf.transpose(x, [1, 0, 2]),
        dtype=tf.float32,
        time_major=True,
        scope="other",
    )
    return [_named(tf.trainable_variables()), _run(tf, [one, other])]


@loops("static_rnn makes each step in the graph, with the same variables.")
def step_by_step(tf: Any) -> Any:
    x = [tf.constant(_grid(BATCH, WIDTH) + i) for i in range(STEPS)]
    cell = _rnn_cell(tf).BasicLSTMCell(UNITS)
    plain = tf.nn.static_rnn(cell, x, dtype=tf.float32)
    ended = tf.nn.static_rnn(
        _rnn_cell(tf).GRUCell(UNITS), x, dtype=tf.float32, sequence_length=[1, 4, 2], scope="ended"
    )
    both = tf.nn.static_bidirectional_rnn(
        _rnn_cell(tf).GRUCell(2), _rnn_cell(tf).BasicRNNCell(2), x, dtype=tf.float32,
        sequence_length=[1, 4, 2],
    )  # fmt: skip
    unended = tf.nn.static_bidirectional_rnn(
        _rnn_cell(tf).GRUCell(2), _rnn_cell(tf).GRUCell(2), x, dtype=tf.float32, scope="all"
    )
    names = _named(tf.trainable_variables())
    return [names, _run(tf, [plain, ended, both, unended])]


@loops("static_state_saving_rnn starts from a state that is kept, and keeps the last one.")
def kept_states(tf: Any) -> Any:
    class Keeper:
        def __init__(self) -> None:
            self.kept = tf.Variable(tf.ones([BATCH, UNITS]), trainable=False, name="kept")

        def state(self, name: str) -> Any:
            return self.kept.read_value() + len(name)

        def save_state(self, name: str, value: Any) -> Any:
            return tf.assign(self.kept, value)

    keeper = Keeper()
    x = [tf.constant(_grid(BATCH, WIDTH) + i) for i in range(2)]
    outputs, state = tf.nn.static_state_saving_rnn(_rnn_cell(tf).GRUCell(UNITS), x, keeper, "s")
    with _filled(tf) as session:
        found = session.run([outputs, state])
        return _leaves([found, session.run(keeper.kept)])


@loops("raw_rnn asks a function what comes next, as for decoding.")
def own_loops(tf: Any) -> Any:
    cell = _rnn_cell(tf).LSTMCell(UNITS)
    inputs = tf.constant(_grid(STEPS, BATCH, WIDTH))
    rows = tf.TensorArray(tf.float32, STEPS, clear_after_read=False).unstack(inputs)
    lengths = tf.constant([4, 1, 3])

    def following(time: Any, output: Any, state: Any, seen: Any) -> Any:
        emit = None if output is None else output * 2.0
        state = cell.zero_state(BATCH, tf.float32) if output is None else state
        seen = tf.constant(0) if output is None else seen + 1
        ended = time >= lengths
        value = tf.cond(
            tf.reduce_all(ended), lambda: tf.zeros([BATCH, WIDTH]), lambda: rows.read(time)
        )
        return ended, value, state, emit, seen

    emitted, state, seen = tf.nn.raw_rnn(cell, following)
    return [_named(tf.trainable_variables()), _run(tf, [emitted.stack(), state, seen])]


@cells("Cells on top of each other have a scope each; their states are a tuple, or side by side.")
def stacked(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, WIDTH))
    tuples = _rnn_cell(tf).MultiRNNCell([_rnn_cell(tf).BasicLSTMCell(n) for n in (2, 3)])
    one = tuples(x, tuples.zero_state(BATCH, tf.float32))
    joined = _rnn_cell(tf).MultiRNNCell(
        [_rnn_cell(tf).GRUCell(n) for n in (2, 3)], state_is_tuple=False
    )
    other = joined(x, tf.constant(_grid(BATCH, 5)), scope="joined")
    sizes = [str(tuples.state_size), tuples.output_size, joined.state_size]
    return [sizes, _named(tf.global_variables()), _run(tf, [one, other])]


@cells("A wrapper adds inputs to outputs, or drops elements by the choices of its seed.")
def wrapped(tf: Any) -> Any:
    rnn = _rnn_cell(tf)
    x = tf.constant(_grid(BATCH, UNITS))
    residual = rnn.ResidualWrapper(rnn.GRUCell(UNITS))
    own = rnn.ResidualWrapper(rnn.GRUCell(UNITS), residual_fn=lambda i, o: i - o)
    placed = rnn.DeviceWrapper(rnn.BasicLSTMCell(UNITS), "/cpu:0")
    kept = rnn.DropoutWrapper(rnn.BasicLSTMCell(UNITS), input_keep_prob=1.0)
    dropped = rnn.DropoutWrapper(
        rnn.LSTMCell(UNITS), input_keep_prob=0.7, output_keep_prob=0.6, state_keep_prob=0.5, seed=7
    )
    fetches = [
        cell(x, cell.zero_state(BATCH, tf.float32))
        for cell in (residual, own, placed, kept, dropped)
    ]
    sizes = [str(dropped.state_size), dropped.output_size, placed.output_size]
    return [sizes, _named(tf.global_variables()), _run(tf, fetches)]


@cells("With variational_recurrent all steps drop the same elements.")
def dropped_alike(tf: Any) -> Any:
    cell = _rnn_cell(tf).DropoutWrapper(
        _rnn_cell(tf).BasicRNNCell(UNITS), input_keep_prob=0.5, output_keep_prob=0.5,
        variational_recurrent=True, input_size=WIDTH, dtype=tf.float32, seed=3,
    )  # fmt: skip
    x = tf.constant(np.ones([BATCH, STEPS, WIDTH], np.float32))
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    found = _run(tf, outputs)
    kept = found != 0
    return [str(outputs.shape), bool((kept == kept[:1, :1]).all())]


@cells("A program's own cell says its sizes and a step, by call or by __call__.")
def own_cells(tf: Any) -> Any:
    class Plain(_rnn_cell(tf).RNNCell):  # type: ignore[misc,name-defined]
        state_size = UNITS
        output_size = UNITS

        def call(self, inputs: Any, state: Any) -> Any:
            w = tf.get_variable("w", [WIDTH, UNITS])
            output = tf.tanh(tf.matmul(inputs, w) + state)
            return output, output

    class Old(_rnn_cell(tf).RNNCell):  # type: ignore[misc,name-defined]
        def __init__(self, units: int) -> None:
            self._units = units

        @property
        def state_size(self) -> int:
            return self._units

        @property
        def output_size(self) -> int:
            return self._units

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            with tf.variable_scope(scope or type(self).__name__):
                w = tf.get_variable("w", [WIDTH, self._units])
                b = tf.get_variable("b", [self._units], initializer=tf.zeros_initializer())
                output = tf.tanh(tf.matmul(inputs, w) + b - state)
            return output, output

    x = tf.constant(_grid(BATCH, STEPS, WIDTH))
    plain = Plain()
    one = tf.nn.dynamic_rnn(plain, x, dtype=tf.float32)
    other = tf.nn.dynamic_rnn(Old(UNITS), x, dtype=tf.float32, scope="old")
    listed = tf.nn.static_rnn(Old(2), tf.unstack(x, axis=1), dtype=tf.float32, scope="listed")
    names = [_named(tf.global_variables()), len(plain.variables)]
    return [names, _run(tf, [one, other, listed])]


@cells("A second call in a scope that reuses finds the variables of the first.")
def reused(tf: Any) -> Any:
    x = tf.constant(_grid(BATCH, STEPS, WIDTH))

    def net() -> Any:
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            return tf.nn.dynamic_rnn(_rnn_cell(tf).LSTMCell(UNITS), x, dtype=tf.float32)[0]

    one, two = net(), net()
    cell = _rnn_cell(tf).GRUCell(2)
    for scope in ("a", "b"):
        with tf.variable_scope(scope):
            cell(x[:, 0], cell.zero_state(BATCH, tf.float32))
    again = _rnn_cell(tf).GRUCell(2, reuse=True, name="gru_cell")
    with tf.variable_scope("a"):
        again(x[:, 0], again.zero_state(BATCH, tf.float32))
    return [_named(tf.global_variables()), _run(tf, tf.reduce_max(tf.abs(one - two)))]


@loops("A network as tutorials write it: embeddings, dropout, stacked cells, a softmax, Adam.")
def trained(tf: Any) -> Any:
    words, units, steps, batch = 11, 8, 5, 4
    data = (np.arange(batch * (steps + 1)).reshape(batch, -1) * 3) % words
    x = tf.placeholder(tf.int32, [batch, steps])
    y = tf.placeholder(tf.int32, [batch, steps])
    table = tf.get_variable("embedding", [words, units])
    cell = _rnn_cell(tf).MultiRNNCell(
        [_rnn_cell(tf).BasicLSTMCell(units, state_is_tuple=True) for _ in range(2)]
    )
    first = cell.zero_state(batch, tf.float32)
    outputs, last = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, x), initial_state=first)
    with tf.variable_scope("softmax"):
        w = tf.get_variable("w", [units, words])
        b = tf.get_variable("b", [words])
    logits = tf.matmul(tf.reshape(outputs, [-1, units]), w) + b
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
    )
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    train = tf.train.AdamOptimizer(0.05).apply_gradients(zip(grads, variables))
    names = _named(variables)
    with _filled(tf) as session:
        state = session.run(first)
        losses = []
        for _ in range(8):
            feeds = {x: data[:, :-1], y: data[:, 1:]}
            for (c, h), kept in zip(first, state):
                feeds[c], feeds[h] = kept.c, kept.h
            value, state, _ = session.run([loss, last, train], feeds)
            losses.append(round(float(value), 3))
        return [names, losses, type(state[0]).__name__]


@loops("What does not fit is refused.")
def refused(tf: Any) -> Any:
    cell = _rnn_cell(tf).BasicLSTMCell(UNITS)
    x = tf.placeholder(tf.float32, [BATCH, STEPS, WIDTH])
    rnn = _rnn_cell(tf)
    return [
        error(lambda: tf.nn.dynamic_rnn(cell, x), "dtype` must be specified"),
        error(lambda: tf.nn.dynamic_rnn(object(), x, dtype=tf.float32), "is not an RNNCell"),
        error(lambda: tf.nn.dynamic_rnn(cell, x, [[1]], dtype=tf.float32), "must be a vector"),
        error(lambda: tf.nn.static_rnn(cell, x, dtype=tf.float32), "must be a sequence"),
        error(lambda: tf.nn.static_rnn(cell, [], dtype=tf.float32), "must not be empty"),
        error(lambda: rnn.MultiRNNCell([]), "at least one cell"),
        error(lambda: rnn.MultiRNNCell([cell], state_is_tuple=False), "state_is_tuple is not set"),
        error(lambda: rnn.DropoutWrapper(cell, input_keep_prob=1.5), "must be between 0 and 1"),
        error(lambda: rnn.DropoutWrapper(cell, variational_recurrent=True), "dtype must be"),
        error(lambda: cell(x, cell.zero_state(BATCH, tf.float32)), "expected ndim=2"),
        error(lambda: tf.nn.raw_rnn(cell, 3), "must be a callable"),
        error(lambda: rnn.LSTMStateTuple(tf.zeros([1]), tf.zeros([1], tf.int32)).dtype, "internal"),
        error(lambda: cell.get_initial_state(), "cannot be None"),
    ]
