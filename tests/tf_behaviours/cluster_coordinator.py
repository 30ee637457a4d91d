"""A coordinator of parameter servers and workers."""

from __future__ import annotations

import functools
import socket
import threading
from typing import Any

from shown_values import value
from tf_behaviours.registry import behaviour, error

_FOLDER = "python/distribute"
strategies = functools.partial(behaviour, f"{_FOLDER}/parameter_server_strategy_v2_test.py")
coordinators = functools.partial(behaviour, f"{_FOLDER}/coordinator/cluster_coordinator_test.py")
failures = functools.partial(behaviour, f"{_FOLDER}/coordinator/fault_tolerance_test.py")
per_worker = functools.partial(behaviour, f"{_FOLDER}/coordinator/values_test.py")
remote_values = functools.partial(behaviour, f"{_FOLDER}/coordinator/remote_value_test.py")

_servers: list[Any] = []


def _addresses(count: int) -> list[str]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("localhost", 0))
    found = [f"localhost:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


@functools.cache
def _cluster(tf: Any) -> Any:
    """Return a strategy over two workers and two parameter servers, and its coordinator."""
    spec = {"worker": _addresses(2), "ps": _addresses(2), "chief": _addresses(1)}
    # TensorFlow's servers of one process wait for each other in its threads.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8)
    for job in ("worker", "ps"):
        for task in range(2):
            _servers.append(
                tf.distribute.Server(spec, job_name=job, task_index=task, config=config)
            )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(
        resolver,
        variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(2),
    )
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def _place(thing: Any) -> str:
    return str(thing.device).replace("/replica:0", "").partition("/device")[0]


# ---- the strategy


@strategies("Variables go to the parameter servers in turn, whatever the names.")
def places_of_variables(tf: Any) -> Any:
    strategy, _ = _cluster(tf)
    with strategy.scope():
        made = [tf.Variable(float(i)) for i in range(4)]
        with tf.device("/job:ps/task:1"):
            asked = tf.Variable(1.0)
    places = [_place(v) for v in made]
    return [
        len(set(places)),
        places[0] == places[2],
        places[1] == places[3],
        _place(asked),
        [value(v) for v in made],
        _place(tf.Variable(1.0)),
    ]


@strategies("A variable of several rows is cut in shards over the parameter servers.")
def sharded_variables(tf: Any) -> Any:
    strategy, _ = _cluster(tf)
    with strategy.scope():
        v = tf.Variable([[1.0], [2.0], [3.0]], name="v")
        whole = tf.Variable(tf.ones([1, 2]))
        scalar = tf.Variable(3.0)
    return [
        type(v).__name__,
        [value(x) for x in v.variables],
        len({_place(x) for x in v.variables}),
        value(tf.convert_to_tensor(v)),
        v.shape.as_list(),
        v.dtype.name,
        [x.name for x in v.variables],
        type(whole).__name__ == type(v).__name__,
        type(scalar).__name__ == type(v).__name__,
        error(lambda: v.trainable),
    ]


@strategies("A sharded variable is assigned, sliced, gathered from and scattered as a whole.")
def uses_of_sharded_variables(tf: Any) -> Any:
    strategy, _ = _cluster(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0, 3.0, 4.0])
    found = [value(v + 1.0)]
    v.assign([4.0, 3.0, 2.0, 1.0])
    v.assign_add([1.0, 1.0, 1.0, 1.0])
    v.assign_sub([0.0, 0.0, 0.0, 2.0])
    found.append(value(tf.convert_to_tensor(v)))
    return [
        *found,
        error(lambda: value(v[1:3])),
        error(lambda: value(v[0])),
        error(lambda: value(v[-1])),
        error(lambda: value(tf.nn.embedding_lookup(v, [3, 0]))),
        error(lambda: value(tf.gather(v, [1, 2]))),
        error(lambda: v.assign([1.0]))[0] != "nothing was raised",
        value(tf.reduce_sum(v)),
    ]


@strategies("Initial values may be functions, which are told which rows they are for.")
def first_values_of_shards(tf: Any) -> Any:
    strategy, _ = _cluster(tf)
    seen = []

    def first(shape: Any = None, dtype: Any = None, partition_info: Any = None) -> Any:
        seen.append(None if partition_info is None else True)
        return tf.zeros([4] if shape is None else shape, tf.float32)

    with strategy.scope():
        v = tf.Variable(lambda: tf.constant([1.0, 2.0]))
        w = tf.Variable(initial_value=first, shape=[4], dtype=tf.float32)
    return [value(tf.convert_to_tensor(v)), value(tf.convert_to_tensor(w)), seen]


@strategies("Sharded variables are saved as one, and restored by those without shards.")
def saved_shards(tf: Any, folder: str) -> Any:
    strategy, _ = _cluster(tf)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0, 3.0])
    path = tf.train.Checkpoint(v=v).save(f"{folder}/c")
    v.assign([0.0, 0.0, 0.0])
    tf.train.Checkpoint(v=v).restore(path).assert_consumed()
    return [
        sorted((n, s) for n, s in tf.train.list_variables(path)),
        value(tf.convert_to_tensor(v)),
    ]


@strategies("Partitioners say into how many parts a shape is cut.")
def partitioners(tf: Any) -> Any:
    made = tf.distribute.experimental.partitioners
    shape = tf.TensorShape([100, 3])
    return [
        made.FixedShardsPartitioner(3)(shape, tf.float32),
        made.MinSizePartitioner(min_shard_bytes=400, max_shards=8)(shape, tf.float32),
        made.MaxSizePartitioner(max_shard_bytes=500)(shape, tf.float32),
        made.MaxSizePartitioner(max_shard_bytes=500, max_shards=2)(shape, tf.float32),
        error(lambda: made.MinSizePartitioner(min_shard_bytes=0)),
        error(lambda: made.MinSizePartitioner(max_shards=0)),
        error(lambda: made.MaxSizePartitioner(max_shard_bytes=0)),
        made.MinSizePartitioner(min_shard_bytes=400)(tf.TensorShape([1]), tf.float32),
    ]


@strategies("A run without a coordinator has one replica, on the chief.")
def runs_of_the_chief(tf: Any) -> Any:
    strategy, _ = _cluster(tf)
    with strategy.scope():
        v = tf.Variable(2.0)
    return [
        strategy.num_replicas_in_sync,
        error(lambda: value(strategy.run(lambda: v + 1.0))),
        error(lambda: value(strategy.reduce("SUM", tf.constant(2.0), axis=None))),
        error(lambda: strategy.experimental_distribute_dataset(tf.data.Dataset.range(2)))[0],
    ]


@strategies("A scope of the strategy takes no other strategy within.")
def mixed_scopes(tf: Any) -> Any:
    strategy, _ = _cluster(tf)

    def mixed() -> None:
        with strategy.scope(), tf.distribute.OneDeviceStrategy("CPU:0").scope():
            pass

    with strategy.scope():
        inside = [tf.distribute.has_strategy(), tf.distribute.get_strategy() is strategy]
    return [inside, error(mixed)]


# ---- the coordinator


@coordinators("A coordinator is for a strategy of parameter servers, one for each strategy.")
def one_coordinator(tf: Any) -> Any:
    strategy, coordinator = _cluster(tf)
    again = tf.distribute.coordinator.ClusterCoordinator(strategy)
    return [
        again is coordinator,
        coordinator.strategy is strategy,
        error(lambda: tf.distribute.coordinator.ClusterCoordinator(tf.distribute.get_strategy())),
    ]


@coordinators("A function is scheduled on some worker; its result can be fetched.")
def scheduled_functions(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def f(x: Any) -> Any:
        return x * 2, {"a": x + 1}

    found = coordinator.schedule(f, args=(tf.constant(3),))
    return [value(found.fetch()), coordinator.done()]


@coordinators("A join waits for all that was scheduled; done tells whether that is over.")
def joins(tf: Any) -> Any:
    strategy, coordinator = _cluster(tf)
    with strategy.scope():
        v = tf.Variable(0.0)

    @tf.function
    def add() -> None:
        v.assign_add(1.0)

    for _ in range(20):
        coordinator.schedule(add)
    coordinator.join()
    found = [value(v), coordinator.done()]
    coordinator.join()
    return [*found, coordinator.done()]


@coordinators("Results of one function are arguments of another.")
def results_as_arguments(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    first = coordinator.schedule(tf.function(lambda: tf.constant([1.0, 2.0])))
    second = coordinator.schedule(tf.function(lambda x: tf.reduce_sum(x)), args=(first,))
    return error(lambda: value(second.fetch()))


@coordinators("What is no function, or arguments that it does not take, is refused.")
def refused_schedules(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    return [
        error(lambda: coordinator.schedule(3)),
        error(lambda: value(coordinator.schedule(lambda: tf.constant(4) + 1).fetch())),
        error(lambda: coordinator.schedule(tf.function(lambda x: x))),
        error(lambda: coordinator.join()),
        error(lambda: coordinator.schedule(tf.function(lambda: None)).fetch()),
    ]


@coordinators("An error of a function is raised by the next join, once.")
def errors_at_joins(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def fail(x: Any) -> Any:
        return tf.debugging.check_numerics(x / 0.0, "failed")

    coordinator.schedule(fail, args=(tf.constant(1.0),))
    found = [error(coordinator.join, "failed"), error(coordinator.join)]
    ok = coordinator.schedule(tf.function(lambda: tf.constant(1)))
    return [*found, value(ok.fetch())]


@coordinators("After an error schedule raises it; what was to come is cancelled.")
def errors_at_schedules(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def fail() -> Any:
        return tf.reshape(tf.range(3), tf.stack([tf.constant(2)]))

    def until_raised() -> None:
        for _ in range(10000):
            coordinator.schedule(fail)

    found = [error(until_raised)[0]]
    return [*found, error(coordinator.join)[0], error(coordinator.join)[0]]


@coordinators("An error that a function raises while it is traced is raised by the join.")
def errors_of_tracing(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def fail() -> Any:
        raise ValueError("in the trace")

    def run() -> None:
        coordinator.schedule(fail)
        coordinator.join()

    return [error(run, "in the trace"), error(coordinator.join)]


@coordinators("Several threads may schedule functions.")
def scheduled_by_threads(tf: Any) -> Any:
    strategy, coordinator = _cluster(tf)
    with strategy.scope():
        v = tf.Variable(0)

    @tf.function
    def add() -> None:
        v.assign_add(1)

    threads = [
        threading.Thread(target=lambda: [coordinator.schedule(add) for _ in range(5)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    coordinator.join()
    return value(v)


@coordinators("Functions train variables of the parameter servers by gradients.")
def training_steps(tf: Any) -> Any:
    strategy, coordinator = _cluster(tf)
    with strategy.scope():
        w = tf.Variable([[1.0], [1.0]])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(x, tf.convert_to_tensor(w)) - 1.0) ** 2)
        gradients = tape.gradient(loss, w.variables)
        for v, g in zip(w.variables, gradients, strict=True):
            v.assign_sub(0.1 * g)
        return loss

    losses = []
    for _ in range(3):
        losses.append(coordinator.schedule(step, args=(tf.constant([[1.0, 2.0]]),)))
        coordinator.join()
    return [value(loss.fetch()) for loss in losses]


@coordinators("Fetch gives values of a structure of results, and leaves others as they are.")
def fetched_structures(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    found = coordinator.schedule(tf.function(lambda: {"a": tf.constant(1), "b": [tf.constant(2)]}))
    fetched = coordinator.fetch([found, 5, "x", {"k": found}])
    return [value(fetched[0]), fetched[1], fetched[2], value(fetched[3]["k"])]


# ---- values


@remote_values("A remote value gives its tensors on the worker, and NumPy's on fetching.")
def remote_results(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    found = coordinator.schedule(tf.function(lambda: tf.constant([1, 2])))
    got = found.get()
    return [type(found.fetch()).__name__, value(got)]


@remote_values("The error of a function is raised by its remote value, again and again.")
def remote_errors(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    bad = coordinator.schedule(tf.function(lambda x: tf.gather([1, 2], x)), args=(tf.constant(7),))
    found = [error(bad.fetch)[0], error(bad.fetch)[0], error(bad.get)[0]]
    return [found, error(coordinator.join)[0]]


@per_worker("A per-worker dataset is made on each worker; each has an iterator of its own.")
def per_worker_datasets(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    data = coordinator.create_per_worker_dataset(
        lambda: tf.data.Dataset.range(1, 100).shuffle(3, seed=1).map(lambda x: x * 0 + 2)
    )
    it = iter(data)

    @tf.function
    def step(it: Any) -> Any:
        return next(it) + 1

    results = [coordinator.schedule(step, args=(it,)) for _ in range(4)]
    coordinator.join()
    return [[value(r.fetch()) for r in results], str(data.element_spec)]


@per_worker("A per-worker dataset may be given as a dataset, and iterated again.")
def given_datasets(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def step(it: Any) -> Any:
        return next(it)

    def run(dataset: Any) -> Any:
        it = iter(coordinator.create_per_worker_dataset(dataset))
        found = [coordinator.schedule(step, args=(it,)) for _ in range(3)]
        coordinator.join()
        return sorted(value(r.fetch()).item() for r in found)

    return [
        run(tf.data.Dataset.from_tensors(5).repeat()),
        run(lambda: tf.data.Dataset.from_tensors(6).repeat()),
        error(
            lambda: next(
                iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(3)))
            )
        )[0],
    ]


@per_worker("The end of a worker's dataset is raised by the join; then all can begin again.")
def ends_of_datasets(tf: Any) -> Any:
    _, coordinator = _cluster(tf)
    data = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(2))
    it = iter(data)

    @tf.function
    def step(it: Any) -> Any:
        return next(it)

    for _ in range(6):
        try:
            coordinator.schedule(step, args=(it,))
        except tf.errors.OutOfRangeError:
            break
    found = error(coordinator.join)[0]
    it = iter(data)
    again = coordinator.schedule(step, args=(it,))
    coordinator.join()
    return [found in ("OutOfRangeError", "nothing was raised"), value(again.fetch())]


# ---- failures


@failures("A function that is cancelled by the failure of another is told so.")
def cancelled_functions(tf: Any) -> Any:
    _, coordinator = _cluster(tf)

    @tf.function
    def fail() -> Any:
        return tf.gather([1.0], tf.constant(3))

    results = []

    def schedule() -> None:
        results.append(coordinator.schedule(fail))
        for _ in range(30):
            results.append(coordinator.schedule(tf.function(lambda: tf.constant(1.0))))
        coordinator.join()

    found = error(schedule)[0]
    if found == "nothing was raised":
        found = error(coordinator.join)[0]
    kinds = {error(r.fetch)[0] for r in results}
    allowed = {
        "InvalidArgumentError",
        "nothing was raised",
        "CancelledError",
        "FunctionRetryableError",
    }
    return [found, sorted(kinds - allowed), "InvalidArgumentError" in kinds]


@failures("After a failure the coordinator goes on with what is scheduled next.")
def work_after_failures(tf: Any) -> Any:
    strategy, coordinator = _cluster(tf)
    with strategy.scope():
        v = tf.Variable(0.0)

    @tf.function
    def fail() -> None:
        tf.debugging.assert_equal(v, 100.0)

    @tf.function
    def add() -> None:
        v.assign_add(1.0)

    coordinator.schedule(fail)
    found = [error(coordinator.join)[0]]
    for _ in range(5):
        coordinator.schedule(add)
    coordinator.join()
    return [*found, value(v)]
