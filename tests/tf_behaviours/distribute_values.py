"""Values and variables of replicas in one process."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

_FOLDER = "python/distribute"
values = functools.partial(behaviour, f"{_FOLDER}/values_test.py")
mirrored = functools.partial(behaviour, f"{_FOLDER}/mirrored_variable_test.py")
inputs = functools.partial(behaviour, f"{_FOLDER}/input_lib_test.py")
common = functools.partial(behaviour, f"{_FOLDER}/strategy_common_test.py")
central = functools.partial(behaviour, f"{_FOLDER}/central_storage_strategy_test.py")
collective = functools.partial(behaviour, f"{_FOLDER}/collective_all_reduce_strategy_test.py")
v_variables = functools.partial(behaviour, f"{_FOLDER}/vars_test.py")


def _two(tf: Any) -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def _local(strategy: Any, found: Any) -> Any:
    return [value(x) for x in strategy.experimental_local_results(found)]


def _number(tf: Any) -> Any:
    return tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)


# ---- values of replicas


@values("What replicas return is joined leaf by leaf; what is one for all stays one.")
def joined_results(tf: Any) -> Any:
    strategy = _two(tf)
    same = object()

    def body() -> Any:
        n = _number(tf)
        return {"a": n, "b": [n, (n, same)], "c": None, "d": "text", "e": 3}

    found = strategy.run(body)
    return [
        _local(strategy, found["a"]),
        _local(strategy, found["b"][0]),
        type(found["b"]).__name__,
        type(found["b"][1]).__name__,
        found["b"][1][1] is same,
        found["c"],
        found["d"],
        found["e"],
    ]


@values("Arguments of one kind are parted, all others are given to each replica as they are.")
def parted_arguments(tf: Any) -> Any:
    strategy = _two(tf)
    x = strategy.experimental_distribute_values_from_function(
        lambda c: tf.constant(c.replica_id_in_sync_group + 1)
    )
    found = strategy.run(
        lambda a, b, c: (a["x"] * b, c), args=({"x": x}, 10), kwargs={"c": [x, "s"]}
    )
    return [_local(strategy, found[0]), _local(strategy, found[1][0]), found[1][1]]


@values("Functions for each replica are told its number; what they give may be of any kind.")
def values_of_any_kind(tf: Any) -> Any:
    strategy = _two(tf)
    made = strategy.experimental_distribute_values_from_function
    return [
        _local(strategy, made(lambda c: np.arange(c.replica_id_in_sync_group + 1))),
        list(strategy.experimental_local_results(made(lambda c: "ab"[c.replica_id_in_sync_group]))),
        [type(x).__name__ for x in made(lambda c: 1.5).values],
        isinstance(made(lambda c: 1), tf.distribute.DistributedValues),
        error(lambda: made(lambda c: tf.data.Dataset.range(1)).values[0] is not None),
    ]


@values("Local results of a plain value are the value alone.")
def local_results(tf: Any) -> Any:
    strategy = _two(tf)
    one = tf.distribute.OneDeviceStrategy("CPU:0")
    return [
        _local(strategy, tf.constant(1)),
        strategy.experimental_local_results("a"),
        strategy.experimental_local_results([1, 2]),
        _local(one, one.run(lambda: tf.constant(4))),
    ]


@values("A value for each replica shows its parts; it is no number.")
def shown_values(tf: Any) -> Any:
    strategy = _two(tf)
    x = strategy.run(lambda: _number(tf) + 1.0)
    return [str(x), repr(x), error(lambda: float(x)), error(lambda: x + 1.0)]


@values("A value for each replica is a composite: functions take it and give it back.")
def values_through_functions(tf: Any) -> Any:
    strategy = _two(tf)
    traces = []

    @tf.function
    def double(x: Any) -> Any:
        traces.append(1)
        return strategy.run(lambda y: y * 2.0, args=(x,))

    x = strategy.run(lambda: _number(tf) + 1.0)
    found = [_local(strategy, double(x)), _local(strategy, double(double(x)))]
    return [*found, len(traces), len(tf.nest.flatten(x, expand_composites=True))]


@values("A value for each replica may go round a loop and come out of a branch.")
def values_in_control_flow(tf: Any) -> Any:
    strategy = _two(tf)
    x = strategy.run(lambda: _number(tf) + 1.0)

    @tf.function
    def looped(x: Any) -> Any:
        for _ in tf.range(3):
            x = strategy.run(lambda y: y * 2.0, args=(x,))
        return x

    @tf.function
    def branched(p: Any, x: Any) -> Any:
        return tf.cond(p, lambda: strategy.run(lambda y: y + 1.0, args=(x,)), lambda: x)

    return [
        _local(strategy, looped(x)),
        _local(strategy, branched(tf.constant(True), x)),
        _local(strategy, branched(tf.constant(False), x)),
    ]


# ---- mirrored variables


@mirrored("Copies begin alike, whatever the function of the first value draws.")
def first_values(tf: Any) -> Any:
    strategy = _two(tf)
    drawn = []

    def first() -> Any:
        drawn.append(1)
        return tf.random.uniform([2])

    with strategy.scope():
        v = tf.Variable(first)
    a, b = _local(strategy, v)
    return [len(drawn), bool((a == b).all())]


@mirrored("Variables made in replicas are mirrored, one after the other.")
def variables_made_in_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    held = {}

    def body() -> Any:
        if "v" not in held:
            held["v"] = tf.Variable(1.0, name="inside")
        return held["v"] + _number(tf)

    return [
        error(lambda: _local(strategy, strategy.run(body))),
        type(held["v"]).__name__,
        held["v"].name,
    ]


@mirrored("A variable is assigned in replicas by each aggregation, in place and in functions.")
def assigned_in_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    kinds = tf.VariableAggregation
    found = []
    for kind in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA):
        for wrap in (lambda f: f, tf.function):
            with strategy.scope():
                v = tf.Variable(1.0, aggregation=kind)

            def body(v: Any = v) -> Any:
                return v.assign(_number(tf) + 3.0)

            result = strategy.run(wrap(body))
            found.append([_local(strategy, v), _local(strategy, result)])
    return found


@mirrored("A number that replicas share cannot be summed by an assignment; a mean is itself.")
def assigned_numbers(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        mean = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
    strategy.run(lambda: mean.assign_sub(0.25))
    return [error(lambda: strategy.run(lambda: total.assign_add(1.0))), _local(strategy, mean)]


@mirrored("Across replicas a variable takes a value, or one for each copy.")
def assigned_across_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        v.assign(5.0)
        found = [_local(strategy, v)]
        v.assign_add(1.0)
        found.append(_local(strategy, v))
        found.append(value(v.assign_sub(2.0)))
    return found


@mirrored("An update runs a function on each copy, with the parts of its arguments.")
def updates(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable(1.0)
    x = strategy.run(lambda: _number(tf) + 1.0)
    with strategy.scope():
        results = strategy.extended.update(v, lambda c, y: c.assign_add(y), args=(x,), group=False)
        grouped = strategy.extended.update(v, lambda c: c.assign_add(1.0))
    return [
        _local(strategy, v),
        len(strategy.experimental_local_results(results)),
        error(lambda: strategy.run(lambda: strategy.extended.update(v, lambda c: c))),
        value(strategy.extended.read_var(v)),
        grouped is None or "given",
    ]


@mirrored("Variables know the strategy that made them, and may not be made by another inside.")
def owners_of_variables(tf: Any) -> Any:
    strategy, other = _two(tf), _two(tf)
    with strategy.scope():
        v = tf.Variable(1.0)

    def mixed() -> Any:
        with strategy.scope(), other.scope():
            return tf.Variable(1.0)

    return [
        v.distribute_strategy is strategy,
        strategy.extended.variable_created_in_scope(v),
        other.extended.variable_created_in_scope(v),
        strategy.extended.variable_created_in_scope(tf.Variable(1.0)),
        error(mixed),
    ]


@mirrored("A variable made beside another one lies where that does.")
def variables_beside_others(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable(1.0)
        with strategy.extended.colocate_vars_with(v):
            w = tf.Variable(2.0)

    def beside_a_stranger() -> Any:
        with strategy.scope(), strategy.extended.colocate_vars_with(tf.constant(1.0)):
            return tf.Variable(1.0)

    return [
        [a.device == b.device for a, b in zip(v.values, w.values, strict=True)],
        error(beside_a_stranger),
    ]


@mirrored("A variable is taken for its replica's copy by operations and by tapes.")
def copies_in_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])

    def body() -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(v * v) * (_number(tf) + 1.0)
        return tape.gradient(y, v), v.device, tf.convert_to_tensor(v)[0]

    found = strategy.run(body)
    return [
        _local(strategy, found[0]),
        list(strategy.experimental_local_results(found[1])),
        _local(strategy, found[2]),
    ]


@mirrored("Modes of variables are checked when they are made, and told by the variable.")
def modes_of_variables(tf: Any) -> Any:
    strategy = _two(tf)
    sync, kinds = tf.VariableSynchronization, tf.VariableAggregation

    def made(**given: Any) -> Any:
        with strategy.scope():
            v = tf.Variable(1.0, **given)
        return [v.synchronization.name, v.aggregation.name, v.trainable, type(v).__name__]

    return [
        made(),
        made(synchronization=sync.ON_READ, aggregation=kinds.SUM),
        made(synchronization=sync.ON_WRITE, aggregation=kinds.MEAN),
        error(lambda: made(synchronization=sync.NONE)),
        error(lambda: made(synchronization="x"), "Invalid variable synchronization mode"),
        error(lambda: made(aggregation="x"), "Invalid variable aggregation mode"),
    ]


@v_variables("A variable that is joined when it is read is changed in each replica by itself.")
def read_variables(tf: Any) -> Any:
    strategy = _two(tf)
    kinds = tf.VariableAggregation
    found = []
    for kind in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA, kinds.NONE):
        with strategy.scope():
            v = tf.Variable(
                1.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=kind
            )
        strategy.run(tf.function(lambda v=v: v.assign_add(_number(tf) + 1.0)))
        found.append([_local(strategy, v), error(lambda v=v: value(v.read_value()))])
    return found


@v_variables("Across replicas such a variable is assigned so that reading gives the value back.")
def read_variables_across_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    kinds = tf.VariableAggregation
    found = []
    for kind in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA):
        with strategy.scope():
            v = tf.Variable(
                0.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=kind
            )
            v.assign(6.0)
            found.append([_local(strategy, v), value(v)])
            found.append(error(lambda v=v: value(v.assign_add(2.0))))
    return found


@v_variables("Scattered updates of replicas are aggregated, row by row.")
def scattered_in_replicas(tf: Any) -> Any:
    strategy = _two(tf)
    found = []
    for kind in (tf.VariableAggregation.SUM, tf.VariableAggregation.MEAN):
        for method in ("scatter_add", "scatter_sub"):
            with strategy.scope():
                v = tf.Variable([0.0, 0.0, 0.0], aggregation=kind)

            def body(v: Any = v, method: str = method) -> Any:
                rows = tf.distribute.get_replica_context().replica_id_in_sync_group
                slices = tf.IndexedSlices(tf.constant([4.0]), tf.reshape(rows, [1]))
                getattr(v, method)(slices)

            found.append([error(lambda body=body: strategy.run(body))[0], _local(strategy, v)])
    return found


@v_variables("A mirrored variable cannot be pickled.")
def pickled_variables(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable(1.0)
    return error(lambda: type(pickle.loads(pickle.dumps(v))).__name__)


@v_variables("Operators and conversions of a mirrored variable use a value.")
def operators_of_variables(tf: Any) -> Any:
    strategy = _two(tf)
    with strategy.scope():
        v = tf.Variable([2.0, 3.0])
        n = tf.Variable(3)
    return [
        value(v + 1.0),
        value(1.0 - v),
        value(v * v),
        value(v / 2.0),
        value(v**2.0),
        value(-v),
        value(v > 2.5),
        value(tf.matmul([v], [[1.0], [1.0]])),
        value(n % 2),
        np.asarray(v.numpy()).tolist(),
        error(lambda: int(n)),
        error(lambda: range(5)[n]),
        error(lambda: [value(x) for x in v]),
        error(lambda: len(v)),
    ]


# ---- what all strategies do


def _strategies(tf: Any) -> Any:
    return [
        _two(tf),
        tf.distribute.OneDeviceStrategy("CPU:0"),
        tf.distribute.get_strategy(),
        tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0"),
    ]


@common("Each strategy trains alike: gradients of replicas are joined and applied once.")
def steps_of_strategies(tf: Any) -> Any:
    found = []
    for strategy in _strategies(tf):
        make = getattr(strategy, "scope", None)
        if strategy is tf.distribute.get_strategy():
            v = tf.Variable(1.0)
        else:
            with make():
                v = tf.Variable(1.0)

        def body(v: Any = v) -> Any:
            with tf.GradientTape() as tape:
                loss = (v - 3.0) ** 2
            gradient = tape.gradient(loss, v)

            def apply(by: Any, g: Any, v: Any = v) -> None:
                mean = by.extended.reduce_to("MEAN", g, v)
                by.extended.update(v, lambda c, d: c.assign_sub(0.25 * d), args=(mean,))

            tf.distribute.get_replica_context().merge_call(apply, args=(gradient,))
            return loss

        losses = [
            strategy.reduce("MEAN", strategy.run(tf.function(body)), axis=None) for _ in range(3)
        ]
        found.append([value(losses), value(v.read_value())])
    return found


@common("Reductions need an axis, also None; unknown kinds and places are refused.")
def refused_reductions(tf: Any) -> Any:
    strategy = _two(tf)
    x = strategy.run(lambda: _number(tf))
    return [
        error(lambda: strategy.reduce("SUM", x)),
        error(lambda: strategy.reduce("MIN", x, axis=None)),
        error(lambda: strategy.reduce("SUM", 1.0, axis=None)),
        error(lambda: value(strategy.reduce("MEAN", 1.0, axis=None))),
        error(lambda: value(strategy.reduce("SUM", x, axis=0))),
        error(lambda: strategy.run(lambda: strategy.reduce("SUM", 1.0, axis=None))),
        value(strategy.reduce(tf.distribute.ReduceOp.SUM, [x, {"a": x}], axis=None)),
    ]


@common("Replicas are joined in a merge call with arguments of all, and get their parts back.")
def arguments_of_merge_calls(tf: Any) -> Any:
    strategy = _two(tf)
    seen = []

    def merge(by: Any, x: Any, *, scale: float) -> Any:
        seen.append([_local(by, x), tf.distribute.in_cross_replica_context(), by is strategy])
        return by.reduce("SUM", x, axis=None) * scale, x

    def body() -> Any:
        context = tf.distribute.get_replica_context()
        total, own = context.merge_call(merge, args=(_number(tf),), kwargs={"scale": 2.0})
        return total + own

    return [_local(strategy, strategy.run(body)), seen]


@common("Replicas that make other numbers of merge calls are refused.")
def uneven_merge_calls(tf: Any) -> Any:
    strategy = _two(tf)

    def body() -> Any:
        context = tf.distribute.get_replica_context()
        if int(context.replica_id_in_sync_group) == 0:
            context.merge_call(lambda by: None)

    return error(lambda: strategy.run(body))


@common("An error in a replica comes out of the run, by its class.")
def errors_of_replicas(tf: Any) -> Any:
    strategy = _two(tf)

    def second() -> Any:
        if int(tf.distribute.get_replica_context().replica_id_in_sync_group) == 1:
            raise KeyError("second")
        return 1

    return [
        error(lambda: strategy.run(lambda: {}["x"])),
        error(lambda: strategy.run(second)),
        error(lambda: strategy.run(lambda: tf.gather([1], 5))),
        _local(strategy, strategy.run(lambda: tf.constant(2) + 0)),
    ]


@central("Variables lie on one device and are shared; replicas must say how they join updates.")
def shared_variables(tf: Any) -> Any:
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
    with strategy.scope():
        mean = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)
        plain = tf.Variable(1.0)
    strategy.run(lambda: mean.assign_add(_number(tf)))
    return [
        strategy.num_replicas_in_sync,
        value(mean.read_value()),
        mean.device,
        len(strategy.experimental_local_results(mean)),
        error(lambda: strategy.run(lambda: plain.assign(2.0)), "specify an aggregation method"),
        _local(strategy, strategy.run(lambda: plain + _number(tf))),
        isinstance(mean, tf.Variable),
        type(mean).__name__,
    ]


@central("Datasets are parted as by mirrored strategies; one device makes plain variables.")
def shared_datasets(tf: Any) -> Any:
    make = tf.distribute.experimental.CentralStorageStrategy
    strategy, one = make(["CPU:0", "CPU:1"]), make()
    with one.scope():
        v = tf.Variable(1.0)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(5).batch(4))
    return [
        [_local(strategy, x) for x in data],
        one.num_replicas_in_sync,
        v.device,
        value(one.run(lambda: v + 1.0)),
    ]


@collective("Without other workers reductions, gathers and inputs are those of one replica.")
def one_worker_alone(tf: Any) -> Any:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    contexts = []

    def made(context: Any) -> Any:
        contexts.append((context.num_input_pipelines, context.input_pipeline_id))
        return tf.data.Dataset.range(2).batch(1)

    data = strategy.distribute_datasets_from_function(made)

    def body() -> Any:
        context = tf.distribute.get_replica_context()
        x = tf.constant([[1.0, 2.0]])
        return (
            context.all_reduce("MEAN", x),
            context.all_gather(x, axis=0),
            context.replica_id_in_sync_group,
        )

    found = strategy.run(tf.function(body))
    return [
        [_local(strategy, x) for x in found],
        [_local(strategy, x) for x in data],
        contexts,
        strategy.cluster_resolver is not None,
        value(strategy.gather(tf.constant([3]), axis=0)),
    ]


@collective("Gradients go through all_reduce and all_gather.")
def gradients_of_collectives(tf: Any) -> Any:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def body() -> Any:
        x = tf.constant([2.0, 3.0])
        context = tf.distribute.get_replica_context()
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = context.all_reduce("SUM", x * x)
            z = context.all_gather(x * 3.0, axis=0)
        return tape.gradient(y, x), tape.gradient(z, x)

    return [value(g) for g in strategy.run(tf.function(body))]
