"""Optimizers, moving averages and slots: what one step changes, and what is refused."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/training/{name}_test.py")


base = _of("optimizer")
averages = _of("moving_averages")
slots = _of("slot_creator")
kernels = _of("training_ops")


def _run(tf: Any, fetches: Any, steps: Any = (), config: Any = None) -> Any:
    """Return what fetches give after some steps, with all variables initialized."""
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for step in steps:
            session.run(step)
        return session.run(fetches)


def _stepped(tf: Any, make: Callable[[], Any], times: int = 3, dtype: Any = None) -> Any:
    """Return two variables after steps by fixed gradients, of both kinds of variables, and by
    gradients of rows; and the names of all variables."""
    found = []
    for use_resource in (False, True):
        with tf.Graph().as_default():
            kind = dtype or tf.float32
            v = tf.Variable([1.0, 2.0], use_resource=use_resource, dtype=kind, name="v")
            w = tf.Variable([[3.0], [4.0]], use_resource=use_resource, dtype=kind, name="w")
            rows = tf.IndexedSlices(
                tf.constant([[0.1], [0.2]], kind), tf.constant([1, 1]), tf.constant([2, 1])
            )
            step = make().apply_gradients([(tf.constant([0.1, 0.2], kind), v), (rows, w)])
            names = sorted(x.name for x in tf.global_variables())
            found.append([_run(tf, [v, w], [step] * times), names])
    return found


# ---- one optimizer each


@_of("gradient_descent")("Gradient descent takes the rate times the gradient away.")
def gradient_descent(tf: Any) -> Any:
    return _stepped(tf, lambda: tf.train.GradientDescentOptimizer(3.0))


@_of("gradient_descent")("A rate may be a tensor or a function, called when the step is built.")
def rates(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.GradientDescentOptimizer(tf.constant(3.0)), 1),
        _stepped(tf, lambda: tf.train.GradientDescentOptimizer(lambda: 2.0), 1),
    ]


@_of("gradient_descent")("A loss with rows of an embedding changes the rows that were looked up.")
def embedding_rows(tf: Any) -> Any:
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(v, [0, 2, 2]) ** 2)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return _run(tf, v, [step])


@_of("gradient_descent")("A constant gradient may be given in place of that of the loss.")
def given_gradients(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.train.GradientDescentOptimizer(3.0)
    pairs = optimizer.compute_gradients(v * 5.0, [v], grad_loss=tf.constant([1.0, 2.0]))
    return _run(tf, [pairs[0][0], v], [optimizer.apply_gradients(pairs)])


@_of("gradient_descent")("A step is taken inside of a condition and of a loop.")
def steps_within_loops(tf: Any) -> Any:
    v = tf.Variable(1.0, use_resource=True)

    def body(i: Any) -> Any:
        step = tf.train.GradientDescentOptimizer(0.5).minimize(v * v, var_list=[v])
        with tf.control_dependencies([step]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 2, body, [0])
    return _run(tf, v, [loop])


@_of("momentum")("Momentum adds up gradients; with Nesterov's rule the step looks ahead.")
def momentum(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.MomentumOptimizer(2.0, 0.9)),
        _stepped(tf, lambda: tf.train.MomentumOptimizer(2.0, 0.9, use_nesterov=True)),
        _stepped(tf, lambda: tf.train.MomentumOptimizer(lambda: 2.0, tf.constant(0.9)), 1),
    ]


@_of("momentum")("Slots are not trainable, and are made once for several steps that are built.")
def momentum_slots(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    optimizer = tf.train.MomentumOptimizer(2.0, 0.9)
    first = optimizer.apply_gradients([(tf.constant([0.1, 0.1]), v)])
    second = optimizer.apply_gradients([(tf.constant([0.2, 0.2]), v)])
    slot = optimizer.get_slot(v, "momentum")
    return [
        optimizer.get_slot_names(),
        slot.name,
        slot.shape.as_list(),
        slot in tf.trainable_variables(),
        [x.name for x in optimizer.variables()],
        _run(tf, [v, slot], [first, second]),
    ]


@_of("adam")("Adam divides by the root of the mean square; its powers count the steps.")
def adam(tf: Any) -> Any:
    return [
        _stepped(tf, tf.train.AdamOptimizer),
        _stepped(tf, lambda: tf.train.AdamOptimizer(0.1, beta1=lambda: 0.8, epsilon=1e-3)),
        _stepped(tf, lambda: tf.train.AdamOptimizer(tf.constant(0.01)), dtype=tf.float64),
    ]


@_of("adam")("Rows that repeat an index are summed before Adam squares them.")
def adam_repeated_rows(tf: Any) -> Any:
    found = []
    for values, indices in (([[0.1], [0.1]], [1, 1]), ([[0.2]], [1])):
        v = tf.Variable([[1.0], [2.0]])
        rows = tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([2, 1]))
        found.append(_run(tf, v, [tf.train.AdamOptimizer().apply_gradients([(rows, v)])] * 2))
    return found


@_of("adam")("Two Adams have powers and slots of their own; one shares its powers.")
def adams_side_by_side(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    w = tf.Variable([1.0, 2.0], name="w")
    grad = tf.constant([0.1, 0.1])
    one, two = tf.train.AdamOptimizer(), tf.train.AdamOptimizer(name="Other")
    steps = [
        one.apply_gradients([(grad, v)]),
        one.apply_gradients([(grad, w)]),
        two.apply_gradients([(grad, v)]),
    ]
    powers = [one._get_beta_accumulators(), two._get_beta_accumulators()]
    return [
        [x.name for x in tf.global_variables()],
        _run(tf, [list(pair) for pair in powers], steps),
    ]


@_of("adagrad")("Adagrad divides by the root of all squares so far.")
def adagrad(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.AdagradOptimizer(3.0)),
        _stepped(tf, lambda: tf.train.AdagradOptimizer(3.0, initial_accumulator_value=0.5)),
        error(lambda: tf.train.AdagradOptimizer(3.0, initial_accumulator_value=0.0)),
    ]


@_of("adagrad")("A variable gets slots where its shape is not known before it has a value.")
def slots_of_unknown_shapes(tf: Any) -> Any:
    start = tf.placeholder(tf.float32, name="start")
    v = tf.Variable(start, validate_shape=False)
    step = tf.train.AdagradOptimizer(3.0).apply_gradients([(tf.constant([0.1, 0.1]), v)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer(), {start: [1.0, 2.0]})
        session.run(step)
        return session.run(v)


@_of("adagrad_da")("Dual averaging starts from what all gradients together say.")
def adagrad_da(tf: Any) -> Any:
    def make() -> Any:
        step = tf.Variable(0, dtype=tf.int64, name="step")
        return tf.train.AdagradDAOptimizer(
            3.0, step, l1_regularization_strength=0.001, l2_regularization_strength=0.1
        )

    v = tf.Variable([1.0, 2.0])
    count = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdagradDAOptimizer(3.0, count)
    step = optimizer.apply_gradients([(tf.constant([0.1, 0.2]), v)], global_step=count)
    return [_run(tf, [v, count], [step]), _stepped(tf, make, 1)]


@_of("adadelta")("Adadelta measures its steps by those before.")
def adadelta(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.AdadeltaOptimizer(1.0, 0.95, 1e-6)),
        _stepped(tf, lambda: tf.train.AdadeltaOptimizer(lambda: 0.1, rho=0.5)),
    ]


@_of("rmsprop")("RMSProp divides by a mean square, centered or not, with or without momentum.")
def rmsprop(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.RMSPropOptimizer(2.0, decay=0.9, momentum=0.5, epsilon=1.0)),
        _stepped(tf, lambda: tf.train.RMSPropOptimizer(0.5, centered=True, epsilon=1e-3)),
        _stepped(tf, lambda: tf.train.RMSPropOptimizer(lambda: 0.5), dtype=tf.float64),
    ]


@_of("ftrl")("Ftrl keeps weights at zero that too little speaks for.")
def ftrl(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.FtrlOptimizer(3.0, initial_accumulator_value=0.1)),
        _stepped(
            tf,
            lambda: tf.train.FtrlOptimizer(
                3.0, l1_regularization_strength=0.001, l2_regularization_strength=2.0
            ),
        ),
        _stepped(
            tf,
            lambda: tf.train.FtrlOptimizer(3.0, l2_shrinkage_regularization_strength=0.1, beta=0.1),
        ),
        _stepped(tf, lambda: tf.train.FtrlOptimizer(3.0, learning_rate_power=0.0), 1),
    ]


@_of("ftrl")("Ftrl refuses strengths and starts below zero, and powers above it.")
def refused_ftrl(tf: Any) -> Any:
    return [
        error(lambda: tf.train.FtrlOptimizer(1.0, learning_rate_power=0.1)),
        error(lambda: tf.train.FtrlOptimizer(1.0, initial_accumulator_value=-0.1)),
        error(lambda: tf.train.FtrlOptimizer(1.0, l1_regularization_strength=-0.1)),
        error(lambda: tf.train.FtrlOptimizer(1.0, l2_regularization_strength=-0.1)),
        error(lambda: tf.train.FtrlOptimizer(1.0, l2_shrinkage_regularization_strength=-1.0)),
    ]


@_of("proximal_gradient_descent")("A proximal step shrinks what regularization does not want.")
def proximal_gradient_descent(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.ProximalGradientDescentOptimizer(3.0)),
        _stepped(
            tf,
            lambda: tf.train.ProximalGradientDescentOptimizer(
                3.0, l1_regularization_strength=0.001, l2_regularization_strength=2.0
            ),
        ),
    ]


@_of("proximal_adagrad")("Proximal Adagrad without regularization is Adagrad.")
def proximal_adagrad(tf: Any) -> Any:
    return [
        _stepped(tf, lambda: tf.train.ProximalAdagradOptimizer(3.0)),
        _stepped(tf, lambda: tf.train.AdagradOptimizer(3.0)),
        _stepped(
            tf,
            lambda: tf.train.ProximalAdagradOptimizer(
                3.0, l1_regularization_strength=0.001, l2_regularization_strength=2.0
            ),
        ),
    ]


# ---- what all share


@base("minimize is compute_gradients and apply_gradients, and counts steps.")
def minimize(tf: Any) -> Any:
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable([3.0, 4.0], name="w")
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(3.0)
    op = optimizer.minimize(5 * v + 3 * w, global_step=step, var_list=[v, w])
    named = optimizer.minimize(v, name="own")
    return [
        _run(tf, [v, w, step], [op, op]),
        op.name,
        named.name,
        [x.name for x in tf.get_collection(tf.GraphKeys.TRAIN_OP)],
    ]


@base("What a loss does not depend on has no gradient; a loss that depends on nothing is refused.")
def missing_gradients(tf: Any) -> Any:
    v, w = tf.Variable([1.0], name="v"), tf.Variable([3.0], name="w")
    optimizer = tf.train.GradientDescentOptimizer(3.0)
    loss = 5 * v
    return [
        [grad is None for grad, _ in optimizer.compute_gradients(loss, [v, w])],
        error(lambda: optimizer.minimize(tf.constant(5.0), var_list=[v]), "No gradients", "no "),
        error(lambda: optimizer.apply_gradients([(None, v), (None, w)]), "No gradients provided"),
        error(lambda: optimizer.apply_gradients([]), "No variables provided"),
        error(lambda: optimizer.apply_gradients([("x", v)])),
        error(lambda: optimizer.minimize(loss, var_list=[])),
        error(lambda: optimizer.minimize(loss, var_list=[tf.constant(5.0)])),
        error(lambda: tf.train.Optimizer(False, "")),
    ]


@base("A graph without trainable variables is refused.")
def nothing_to_train(tf: Any) -> Any:
    v = tf.Variable([1.0], trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(3.0)
    return [
        error(lambda: optimizer.minimize(v * 2.0), "No variables to optimize"),
        error(lambda: optimizer.compute_gradients(v * 2.0, gate_gradients=7)),
        error(lambda: optimizer.compute_gradients(tf.constant([1]), [v])),
    ]


@base("Gates say which gradients wait for others; all give the same.")
def gates(tf: Any) -> Any:
    found = []
    for gate in ("GATE_NONE", "GATE_OP", "GATE_GRAPH"):
        v, w = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
        optimizer = tf.train.GradientDescentOptimizer(3.0)
        op = optimizer.minimize(5 * v * w, var_list=[v, w], gate_gradients=getattr(optimizer, gate))
        found.append([getattr(optimizer, gate), _run(tf, [v, w], [op])])
    return found


@base("Variables are held to their constraints after each step.")
def constraints(tf: Any) -> Any:
    found = []
    for use_resource in (False, True):
        clip = lambda x: tf.clip_by_value(x, -0.1, 0.0)  # noqa: E731
        v = tf.Variable([1.0, 2.0], constraint=clip, use_resource=use_resource)
        w = tf.get_variable(
            f"w{use_resource}", initializer=[3.0, 4.0], constraint=lambda x: x / tf.norm(x)
        )
        op = tf.train.GradientDescentOptimizer(3.0).minimize(5 * v + 3 * w, var_list=[v, w])
        found.append(_run(tf, [v, w], [op]))
    return found


@base("A step may be colocated with the gradients' operations, and gradients be changed between.")
def changed_gradients(tf: Any) -> Any:
    v = tf.Variable([1.0, -20.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(v * v, colocate_gradients_with_ops=True)
    clipped = [(tf.clip_by_norm(grad, 1.0), variable) for grad, variable in pairs]
    return _run(tf, v, [optimizer.apply_gradients(clipped)])


@base("An optimizer has a name; hyperparameters are nodes below it.")
def names(tf: Any) -> Any:
    v = tf.Variable([1.0], name="v")
    optimizer = tf.train.AdamOptimizer(name="Mine")
    optimizer.minimize(v * v)
    own = [op.name for op in tf.get_default_graph().get_operations() if op.name[:4] == "Mine"]
    return [optimizer.get_name(), own, optimizer.get_slot_names(), optimizer.get_slot(v, "x")]


@kernels("The kernels of steps change variables as their formulas say, and give the variable back.")
def raw_steps(tf: Any) -> Any:
    raw = tf.raw_ops if hasattr(tf, "raw_ops") else tf.compat.v1.raw_ops
    v, a = tf.Variable([1.0, 2.0]), tf.Variable([0.5, 0.5])
    refs = (v._ref(), a._ref())  # noqa: SLF001 - raw ops of TensorFlow take no variables
    half = tf.constant(0.5)
    grad = tf.constant([0.1, 0.2])
    descended = raw.ApplyGradientDescent(var=refs[0], alpha=half, delta=grad)
    with tf.control_dependencies([descended]):
        stepped = raw.ApplyAdagrad(var=refs[0], accum=refs[1], lr=half, grad=grad)
    wrong = error(lambda: raw.ApplyGradientDescent(var=refs[0], alpha=grad, delta=grad))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(stepped), session.run(a), wrong]


# ---- slots


@slots("A slot is named after its variable, is of its type and shape, and is not trainable.")
def made_slots(tf: Any) -> Any:
    found = []
    for use_resource in (False, True):
        with tf.variable_scope(f"s{use_resource}", use_resource=use_resource):
            v = tf.get_variable("v", initializer=[1.0, 2.0], dtype=tf.float32)
        optimizer = tf.train.AdagradOptimizer(0.1)
        optimizer.apply_gradients([(tf.constant([0.1, 0.1]), v)])
        slot = optimizer.get_slot(v, "accumulator")
        found.append(
            [slot.name, slot.shape.as_list(), slot.dtype.name, slot.op.type, slot.trainable]
        )
    return found


@slots("The slot of a part of a variable is a part of the whole slot.")
def slots_of_parts(tf: Any) -> Any:
    v = tf.get_variable(
        "v", [4], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2)
    )
    parts = list(v)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.apply_gradients([(tf.constant([0.1, 0.1]), part) for part in parts])
    slot_list = [optimizer.get_slot(part, "momentum") for part in parts]
    return [
        [x.name for x in slot_list],
        [x._get_save_slice_info().spec for x in slot_list],
        [x._get_save_slice_info().full_name for x in slot_list],
    ]


# ---- moving averages


def _mover(tf: Any) -> Any:
    """Return assign_moving_average, which TensorFlow's public API does not have."""
    if hasattr(tf.train, "assign_moving_average"):
        return tf.train.assign_moving_average
    module = importlib.import_module("tensorflow.python.training.moving_averages")
    return module.assign_moving_average


@averages("A moving average starts at zero and is corrected for that, or is not.")
def assigned_averages(tf: Any) -> Any:
    found = []
    for zero_debias in (True, False):
        v = tf.Variable([10.0, 11.0], name=f"v{zero_debias}")
        value = tf.constant([1.0, 2.0])
        moved = _mover(tf)(v, value, 0.25, zero_debias=zero_debias)
        found.append(_run(tf, v, [moved]))
    return [found, sorted(x.name for x in tf.global_variables())]


@averages("An ExponentialMovingAverage follows variables and tensors, slower at first with steps.")
def exponential_averages(tf: Any) -> Any:
    found = []
    for arguments in ((0.25,), (0.25, 1), (0.25, None, True)):
        with tf.Graph().as_default():
            v = tf.Variable([10.0, 20.0], name="v")
            tensor = v * 2.0
            average = tf.train.ExponentialMovingAverage(*arguments)
            applied = average.apply([v, tensor])
            with tf.control_dependencies([applied]):
                changed = v.assign_add([10.0, 10.0])
            one, two = average.average(v), average.average(tensor)
            found.append(_run(tf, [one, two], [changed, changed]))
            found.append([average.name, average.average_name(v), one.name, two.name])
    return found


@averages("An average that was not asked for is None; two of one variable are refused.")
def refused_averages(tf: Any) -> Any:
    v, w = tf.Variable([1.0], name="v"), tf.Variable([1], name="w")
    average = tf.train.ExponentialMovingAverage(0.5)
    before = average.average(v)
    average.apply([v])
    return [
        before,
        average.average(v).name,
        error(lambda: average.apply([v])),
        error(lambda: average.apply([w])),
        average.average_name(w),
        [x.name for x in tf.get_collection(tf.GraphKeys.MOVING_AVERAGE_VARIABLES)],
        [x.name for x in tf.moving_average_variables()],
    ]


@averages("variables_to_restore maps the averages' names to the variables.")
def averages_to_restore(tf: Any) -> Any:
    v, w = tf.Variable([1.0], name="v"), tf.Variable([2.0], name="w")
    tf.Variable([3.0], name="x", trainable=False)
    average = tf.train.ExponentialMovingAverage(0.5, name="avg")
    average.apply([v])
    found = average.variables_to_restore()
    limited = average.variables_to_restore([w])
    return [
        {name: x.op.name for name, x in found.items()},
        {name: x.op.name for name, x in limited.items()},
    ]


@averages("Averages are made in the scope of their variable, and placed with it.")
def places_of_averages(tf: Any) -> Any:
    with tf.device("/job:dev_v"), tf.variable_scope("scope"):
        v = tf.get_variable("v", initializer=10.0)
    with tf.device("/job:dev_w"):
        w = tf.Variable(20.0, name="w")
    average = tf.train.ExponentialMovingAverage(0.25)
    with tf.device("/job:other"), tf.variable_scope("later"):
        average.apply([v, w])
    return [[average.average(x).name, average.average(x).device] for x in (v, w)]


@averages("The first value of an average is the variable's, also where that is set at once.")
def starts_of_averages(tf: Any) -> Any:
    v = tf.Variable(np.float32(4.0), name="v")
    average = tf.train.ExponentialMovingAverage(0.9)
    applied = average.apply([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        start = session.run(average.average(v))
        session.run(v.assign(14.0))
        session.run(applied)
        return [start, session.run(average.average(v))]


# ---- rates that fall


@_of("learning_rate_decay")("Rates fall with the step by each of the formulas.")
def falling_rates(tf: Any) -> Any:
    step = tf.placeholder(tf.int32, [])
    rates_by_name = {
        "constant": tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1]),
        "exponential": tf.train.exponential_decay(1.0, step, 10, 0.5),
        "stairs": tf.train.exponential_decay(1.0, step, 10, 0.5, staircase=True),
        "polynomial": tf.train.polynomial_decay(1.0, step, 20, 0.1, power=2.0),
        "cycle": tf.train.polynomial_decay(1.0, step, 10, 0.1, cycle=True),
        "natural": tf.train.natural_exp_decay(1.0, step, 10, 0.5),
        "inverse": tf.train.inverse_time_decay(1.0, step, 10, 0.5, staircase=True),
        "cosine": tf.train.cosine_decay(1.0, step, 20, 0.1),
        "restarts": tf.train.cosine_decay_restarts(1.0, step, 10, t_mul=2.0),
        "linear": tf.train.linear_cosine_decay(1.0, step, 20),
    }
    with tf.Session() as session:
        return [session.run(rates_by_name, {step: n}) for n in (0, 5, 10, 15, 25, 40)]


@_of("learning_rate_decay")("Bounds and values must go together, and a step is needed.")
def refused_rates(tf: Any) -> Any:
    return [
        error(lambda: tf.train.piecewise_constant(tf.constant(1), [1, 2], [1.0, 2.0])),
        error(lambda: tf.train.piecewise_constant(tf.constant(1), [1.5], [1.0, 2.0])),
        error(lambda: tf.train.exponential_decay(1.0, None, 10, 0.5)),
        error(lambda: tf.train.polynomial_decay(1.0, None, 10)),
        error(lambda: tf.train.cosine_decay(1.0, None, 10)),
        error(lambda: tf.train.natural_exp_decay(1.0, None, 10, 0.5)),
        error(lambda: tf.train.inverse_time_decay(1.0, None, 10, 0.5)),
    ]


@_of("training_util")("The global step is found, made once, and refused where it cannot count.")
def global_steps_of_graphs(tf: Any) -> Any:
    before = tf.train.get_global_step()
    made = tf.train.get_or_create_global_step()
    found = [
        before,
        made.name,
        made.dtype.name,
        made is tf.train.get_or_create_global_step(),
        made in tf.trainable_variables(),
        error(tf.train.create_global_step),
        [x.name for x in tf.get_collection(tf.GraphKeys.GLOBAL_STEP)],
    ]
    with tf.Graph().as_default():
        tf.Variable(0.0, name="global_step")
        found.append(error(tf.train.get_global_step))
    with tf.Graph().as_default():
        tf.Variable([0], name="global_step")
        found.append(error(tf.train.get_global_step))
    with tf.Graph().as_default():
        tf.Variable(3, name="global_step", trainable=False)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found.append(tf.train.global_step(session, tf.train.get_global_step()))
    return found
