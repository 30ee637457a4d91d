"""A coordinator, parameter servers and workers, as real processes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.eager.context import context
from tideflow.wire import errors

pytestmark = pytest.mark.processes

Servers = dict[tuple[str, int], ServerProcess]


@pytest.fixture
def spec() -> dict[str, list[str]]:
    return make_spec({"ps": 2, "worker": 2})


@pytest.fixture
def servers(spec: dict[str, list[str]]) -> Iterator[Servers]:
    started = {(job, task): ServerProcess(spec, job, task) for job in spec for task in range(2)}
    yield started
    context().disconnect()
    for server in started.values():
        server.close()


def make_strategy(spec: dict[str, list[str]], **options) -> tf.distribute.ParameterServerStrategy:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec)
    return tf.distribute.ParameterServerStrategy(resolver, **options)


def test_functions_run_on_workers_and_variables_lie_on_servers(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    strategy = make_strategy(spec)
    with strategy.scope():
        first, second = tf.Variable([0.0, 0.0]), tf.Variable(0)
    assert [v.device[:18] for v in (first, second)] == ["/job:ps/replica:0/", "/job:ps/replica:0/"]
    assert first.device != second.device
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def step(x):
        first.assign_add([1.0, x])
        second.assign_add(1)
        return x * 2.0

    values = [coordinator.schedule(step, args=(tf.constant(2.0),)) for _ in range(10)]
    coordinator.join()
    assert coordinator.done()
    assert first.numpy().tolist() == [10, 20]
    assert second.numpy() == 10
    assert coordinator.fetch(values) == [4.0] * 10


def test_each_worker_has_a_dataset_and_variables_can_be_parted(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = make_strategy(spec, variable_partitioner=partitioner)
    with strategy.scope():
        table = tf.Variable(tf.reshape(tf.range(6.0), [3, 2]), name="table")
    assert [v.name for v in table.variables] == ["table/part_0:0", "table/part_1:0"]
    assert [v.shape.as_list() for v in table.variables] == [[2, 2], [1, 2]]
    assert len({v.device for v in table.variables}) == 2
    np.testing.assert_array_equal(table.numpy(), np.arange(6.0).reshape(3, 2))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    numbers = iter(coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(100)))
    found = [coordinator.schedule(lambda i: next(i), args=(numbers,)) for _ in range(6)]
    coordinator.join()
    assert sorted(int(v.fetch()) for v in found)[0] == 0


def test_iterators_of_workers_go_when_nobody_holds_them(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))
    dataset = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.range(3))
    held = []
    for _ in range(3):  # epochs
        numbers = iter(dataset)
        taken = coordinator.schedule(lambda i: next(i), args=(numbers,))
        assert taken.fetch() == 0
        coordinator.join()
        held.append([weakref.ref(numbers.of(worker)) for worker in range(2)])
    del numbers
    gc.collect()
    assert [[ref() for ref in epoch] for epoch in held] == [[None, None]] * 3


def test_functions_end_with_the_clients_cluster(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))
    assert coordinator.schedule(lambda: tf.constant(1)).fetch() == 1
    context().disconnect()
    late = [coordinator.schedule(lambda: tf.constant(1)) for _ in range(2)]
    for value in late:
        with pytest.raises(errors.OpError):
            value.fetch()


def mapped() -> tf.data.Dataset:
    """Return 10, 12, 14 and so on; each step calls a function that calls another."""
    offset = tf.constant(10, tf.int64)
    double = tf.function(lambda x: tf.cond(x < 1, lambda: x, lambda: x * 2))
    data = tf.data.Dataset.range(50).map(lambda x: double(x) + offset, num_parallel_calls=2)
    return data.filter(lambda x: x % 2 == 0).prefetch(2)


WAYS = {
    "plain": lambda strategy: mapped(),
    "parted": lambda strategy: strategy.experimental_distribute_dataset(mapped()),
    "made by a function": lambda strategy: strategy.distribute_datasets_from_function(
        lambda context: mapped()
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_datasets_of_workers_call_functions(
    spec: dict[str, list[str]], servers: Servers, way: str
) -> None:
    strategy = make_strategy(spec)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    numbers = iter(coordinator.create_per_worker_dataset(lambda: WAYS[way](strategy)))

    @tf.function
    def two(iterator):
        return next(iterator), next(iterator)

    def one(iterator):
        return (next(iterator),)

    found = [coordinator.schedule((one, two)[i % 2], args=(numbers,)) for i in range(6)]
    coordinator.join()
    taken = sorted(int(x) for value in found for x in value.fetch())
    # Each worker begins at 10 and leaves nothing out.
    each = [taken.count(x) for x in range(10, 10 + 2 * len(taken), 2)]
    assert sum(each) == len(taken) == 9
    assert each == sorted(each, reverse=True)
    assert each[0] in (1, 2)


def test_every_worker_makes_a_dataset_that_was_made_here(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))
    rows = tf.data.Dataset.zip((mapped(), tf.data.Dataset.from_tensor_slices(tf.range(50))))
    batches = iter(coordinator.create_per_worker_dataset(rows.concatenate(rows).batch(2)))
    found = [coordinator.schedule(lambda i: next(i), args=(batches,)) for _ in range(4)]
    taken = {tuple(map(tuple, (a.tolist(), b.tolist()))) for a, b in coordinator.fetch(found)}
    assert ((10, 12), (0, 1)) in taken
    with pytest.raises(TypeError, match="a dataset or a function that makes one is wanted"):
        coordinator.create_per_worker_dataset(3)


def test_functions_of_datasets_come_back_with_a_worker(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))
    numbers = iter(coordinator.create_per_worker_dataset(mapped))

    def take(count: int) -> list[int]:
        found = [coordinator.schedule(lambda i: next(i), args=(numbers,)) for _ in range(count)]
        coordinator.join()
        return [int(value.fetch()) for value in found]

    take(4)
    for task in range(2):
        servers["worker", task].kill()
        servers["worker", task] = ServerProcess(spec, "worker", task)
    assert min(take(4)) == 10


def test_the_first_error_is_raised_once(spec: dict[str, list[str]], servers: Servers) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))

    @tf.function
    def fail():
        tf.debugging.assert_equal(1, 2, message="as it must")
        return tf.constant(1)

    lost = coordinator.schedule(fail)
    with pytest.raises(tf.errors.InvalidArgumentError, match="as it must"):
        coordinator.join()
    with pytest.raises(tf.errors.InvalidArgumentError, match="as it must"):
        lost.fetch()
    again = coordinator.schedule(tf.function(lambda: tf.constant(3)))
    coordinator.join()
    assert again.fetch() == 3
    with pytest.raises(ValueError, match="RemoteValue"):
        coordinator.schedule(lambda x: x, args=(again,))


def test_a_function_may_return_what_it_was_given(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    coordinator = tf.distribute.coordinator.ClusterCoordinator(make_strategy(spec))

    @tf.function
    def step(x, y):
        return y, x + y, x

    value = coordinator.schedule(step, args=(tf.constant(1), tf.constant(2)))
    assert value.fetch() == (2, 3, 1)
    alone = coordinator.schedule(tf.function(lambda x: x), args=(tf.constant(5),))
    assert alone.fetch() == 5
    coordinator.join()


def test_training_goes_on_when_a_worker_dies_and_comes_back(
    spec: dict[str, list[str]], servers: Servers
) -> None:
    strategy = make_strategy(spec)
    with strategy.scope():
        count = tf.Variable(0)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def step():
        count.assign_add(1)
        return count.value()

    for _ in range(5):
        coordinator.schedule(step)
    coordinator.join()
    servers["worker", 0].kill()
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    assert count.numpy() >= 25
    servers["worker", 0] = ServerProcess(spec, "worker", 0)
    for _ in range(20):
        coordinator.schedule(step)
    coordinator.join()
    assert count.numpy() >= 45
