"""MirroredStrategy over two devices of this process."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf


def replica_values(strategy):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(float(context.replica_id_in_sync_group + 1))
    )


def test_each_replica_runs_with_its_part_and_results_are_joined() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    doubled = strategy.run(lambda x: x * 2.0, (replica_values(strategy),))
    assert [v.numpy() for v in strategy.experimental_local_results(doubled)] == [2, 4]
    assert strategy.reduce("SUM", doubled, axis=None).numpy() == 6
    assert strategy.reduce(tf.distribute.ReduceOp.MEAN, doubled, axis=None).numpy() == 3
    with pytest.raises(ValueError, match="'MAX' is not a valid ReduceOp"):
        strategy.reduce("MAX", doubled, axis=None)


@pytest.mark.parametrize("in_function", [False, True])
def test_replicas_meet_in_merge_calls(in_function: bool) -> None:
    strategy = tf.distribute.MirroredStrategy()
    seen = []

    def merge(strategy, x):
        seen.append(tf.distribute.in_cross_replica_context())
        return strategy.extended.reduce_to("SUM", x, None)

    def replica(x):
        context = tf.distribute.get_replica_context()
        total = context.merge_call(merge, (x,))
        gathered = context.all_gather(tf.reshape(x, [1]), axis=0)
        return total + context.all_reduce("MEAN", x), gathered

    def step():
        return strategy.run(replica, (replica_values(strategy),))

    total, gathered = (tf.function(step) if in_function else step)()
    assert total.values[0].numpy() == total.values[1].numpy() == 4.5
    assert gathered.numpy().tolist() == [1, 2]
    assert seen == [True]


def test_mirrored_variables_have_a_copy_on_each_device() -> None:
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        v = tf.Variable([1.0, 2.0], name="v", aggregation=tf.VariableAggregation.MEAN)
    assert [copy.name for copy in v.values] == ["v:0", "v/replica_1:0"]
    assert [copy.device[-5:] for copy in v.values] == ["CPU:0", "CPU:1"]
    assert isinstance(v, tf.Variable)
    v.assign_add([1.0, 1.0])
    strategy.run(lambda x: v.assign(x * tf.ones([2])), (replica_values(strategy),))
    assert [copy.numpy().tolist() for copy in v.values] == [[1.5, 1.5]] * 2


def test_variables_that_are_read_together() -> None:
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        total = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    strategy.run(lambda x: total.assign_add(x), (replica_values(strategy),))
    assert [copy.numpy() for copy in total.values] == [1, 2]
    assert total.numpy() == 3
    total.assign(8.0)
    assert [copy.numpy() for copy in total.values] == [4, 4]
    with pytest.raises(ValueError, match="assign_add"):
        total.assign_add(1.0)


def test_training_on_replicas_is_training_on_the_whole_batch() -> None:
    x = np.random.RandomState(0).rand(8, 3).astype(np.float32)
    y = x.sum(1, keepdims=True)

    def losses(strategy) -> list[float]:
        with strategy.scope():
            w = tf.Variable(tf.zeros([3, 1]))

        def replica(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)
            context = tf.distribute.get_replica_context()
            grad = context.all_reduce("MEAN", tape.gradient(loss, w))
            context.merge_call(
                lambda s, g: s.extended.update(w, lambda v, g: v.assign_sub(0.3 * g), (g,)), (grad,)
            )
            return loss

        @tf.function
        def step(x, y):
            return strategy.reduce("MEAN", strategy.run(replica, (x, y)), axis=None)

        count = strategy.num_replicas_in_sync
        parts = [
            strategy.experimental_distribute_values_from_function(
                lambda c, a=a: tf.constant(np.split(a, count)[c.replica_id_in_sync_group])
            )
            for a in (x, y)
        ]
        return [float(step(*parts)) for _ in range(20)]

    one = losses(tf.distribute.OneDeviceStrategy("CPU:0"))
    two = losses(tf.distribute.MirroredStrategy())
    np.testing.assert_allclose(one, two, atol=1e-5)
    assert two[-1] < 0.1 * two[0]


def test_replicas_that_go_different_ways_are_told() -> None:
    strategy = tf.distribute.MirroredStrategy()

    def replica():
        context = tf.distribute.get_replica_context()
        if context.replica_number == 0:
            context.merge_call(lambda s: None)

    with pytest.raises(RuntimeError, match="different number of replica_context"):
        strategy.run(replica)


def test_an_error_of_a_replica_is_raised() -> None:
    strategy = tf.distribute.MirroredStrategy()

    def replica():
        if tf.distribute.get_replica_context().replica_number == 1:
            raise KeyError("from replica 1")
        tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0))

    with pytest.raises(KeyError, match="from replica 1"):
        strategy.run(replica)


def test_the_wrong_context_is_named() -> None:
    strategy = tf.distribute.MirroredStrategy()
    other = tf.distribute.OneDeviceStrategy("CPU:0")
    assert not tf.distribute.has_strategy()
    with strategy.scope():
        assert tf.distribute.get_replica_context() is None
        with pytest.raises(RuntimeError, match=r"Mixing different tf.distribute.Strategy"):
            with other.scope():
                pass
    with pytest.raises(RuntimeError, match="merge_call"):
        strategy.run(lambda: strategy.run(lambda: 1))


def test_datasets_are_parted_batch_by_batch() -> None:
    strategy = tf.distribute.MirroredStrategy()
    data = tf.data.Dataset.range(4).batch(4).concatenate(tf.data.Dataset.range(3).batch(3))
    parts = strategy.experimental_distribute_dataset(data)
    found = [[v.numpy().tolist() for v in element.values] for element in parts]
    assert found == [[[0, 1], [2, 3]], [[0, 1], [2]]]
    with pytest.raises(AttributeError, match="element_spec"):
        strategy.experimental_distribute_dataset([[1, 2]])


def test_a_function_is_traced_once_for_a_strategy() -> None:
    strategy = tf.distribute.MirroredStrategy()
    traces = []

    @tf.function
    def replica(x):
        traces.append(1)
        return x + 1.0

    for _ in range(3):
        strategy.run(replica, (tf.constant(1.0),))
    assert len(traces) <= 2


def two_batches(strategy):
    return strategy.experimental_distribute_dataset(tf.data.Dataset.range(6).batch(4))


def batches_of_replicas(strategy):
    return strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(5).batch(2))


def test_an_element_spec_is_a_signature_under_which_replicas_keep_their_parts() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    data = two_batches(strategy)

    @tf.function(input_signature=[data.element_spec])
    def step(x):
        return strategy.reduce("SUM", strategy.run(tf.reduce_sum, (x,)), axis=None)

    assert repr(data.element_spec) == f"PerReplicaSpec({', '.join([SPEC] * 2)})"
    assert iter(data).element_spec == data.element_spec
    assert [step(x).numpy() for x in data] == [6, 9]
    assert step.experimental_get_tracing_count() == 1
    with pytest.raises(TypeError, match="input_signature"):
        step(tf.constant([1], tf.int64))


SPEC = "TensorSpec(shape=(None,), dtype=tf.int64, name=None)"


@pytest.mark.parametrize("make", [two_batches, batches_of_replicas])
def test_distributed_datasets_and_iterators_are_walked_over_in_functions(make) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def total_of(x):
        return strategy.reduce("SUM", strategy.run(tf.reduce_sum, (x,)), axis=None)

    @tf.function
    def by_dataset(data):
        total = tf.constant(0, tf.int64)
        for x in data:
            total += total_of(x)
        return total

    @tf.function
    def by_optionals(walk):
        total = tf.constant(0, tf.int64)
        found = walk.get_next_as_optional()
        while found.has_value():
            total += total_of(found.get_value())
            found = walk.get_next_as_optional()
        return total

    whole = sum(total_of(x).numpy() for x in make(strategy))
    for _ in range(2):
        assert by_dataset(make(strategy)).numpy() == whole
        assert by_optionals(iter(make(strategy))).numpy() == whole
    assert by_dataset.experimental_get_tracing_count() == 1
    assert by_optionals.experimental_get_tracing_count() == 1


def test_optionals_end_with_the_last_replica_that_gets_something() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    walk = iter(batches_of_replicas(strategy))
    first, last, none = (walk.get_next_as_optional() for _ in range(3))
    found = [[part.numpy().tolist() for part in one.get_value().values] for one in (first, last)]
    assert found == [[[0, 1], [2, 3]], [[4], []]]
    assert not none.has_value().numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
        none.get_value()


def test_central_storage_keeps_one_variable_that_replicas_share() -> None:
    make = tf.distribute.experimental.CentralStorageStrategy
    strategy = make(["CPU:0", "CPU:1"], "CPU:1")
    with strategy.scope():
        total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
        plain = tf.Variable([4.0])
    strategy.run(lambda x: total.assign_add(x), (replica_values(strategy),))
    assert total.numpy() == 4.0
    assert total.device == plain.device == strategy.extended.parameter_devices[0]
    with pytest.raises(ValueError, match="must specify an aggregation method"):
        strategy.run(lambda: plain.assign([1.0]))

    def step():
        with tf.GradientTape() as tape:
            loss = plain * plain
        gradient = tf.distribute.get_replica_context().all_reduce(
            "MEAN", tape.gradient(loss, plain)
        )
        context = tf.distribute.get_replica_context()
        context.merge_call(
            lambda s, g: s.extended.update(plain, lambda v, g: v.assign_sub(0.5 * g), (g,)),
            (gradient,),
        )

    strategy.run(tf.function(step))
    assert plain.numpy().tolist() == [0.0]
    assert make().num_replicas_in_sync == 1


def test_variables_of_a_strategy_say_and_check_how_they_are_kept_equal() -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    kinds = tf.VariableSynchronization
    with strategy.scope():
        v = tf.Variable(1.0)
        assert {v.synchronization, v.values[0].synchronization} == {kinds.ON_WRITE}
        for given in ({"synchronization": "x"}, {"aggregation": "x"}):
            with pytest.raises(ValueError, match="Invalid variable"):
                tf.Variable(1.0, **given)
