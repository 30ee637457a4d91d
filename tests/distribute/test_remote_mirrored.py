"""MirroredStrategy over devices of two workers, which are processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.eager.context import context

pytestmark = pytest.mark.processes

DEVICES = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]


@pytest.fixture
def servers() -> Iterator[list[ServerProcess]]:
    spec = make_spec({"worker": 2})
    started = [ServerProcess(spec, "worker", task) for task in range(2)]
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
    yield started
    context().disconnect()
    for server in started:
        server.close()


def both_ways(step, in_function: bool):
    return tf.function(step) if in_function else step


def numbers(strategy):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([1.0 + context.replica_id_in_sync_group])
    )


@pytest.mark.parametrize("in_function", [False, True])
def test_replicas_run_on_their_workers_and_meet(
    servers: list[ServerProcess], in_function: bool
) -> None:
    strategy = tf.distribute.MirroredStrategy(["/job:worker/task:0", "/job:worker/task:1"])
    assert list(strategy.extended.worker_devices) == DEVICES
    with strategy.scope():
        v = tf.Variable([10.0], aggregation=tf.VariableAggregation.SUM)
    assert [copy.device for copy in v.values] == DEVICES

    def replica(x):
        replica_context = tf.distribute.get_replica_context()
        read = v + x
        merged = replica_context.merge_call(
            lambda strategy, y: strategy.extended.reduce_to("SUM", y, None), (x * 10.0,)
        )
        reduced = replica_context.all_reduce("MEAN", x)
        gathered = replica_context.all_gather(x, axis=0)
        v.assign_add(x)
        return read, merged, reduced, gathered

    step = both_ways(lambda x: strategy.run(replica, (x,)), in_function)
    read, merged, reduced, gathered = step(numbers(strategy))
    local = strategy.experimental_local_results
    assert [part.numpy().tolist() for part in local(read)] == [[11], [12]]
    assert {part.numpy().item() for part in local(merged)} == {30}
    assert {part.numpy().item() for part in local(reduced)} == {1.5}
    assert [part.numpy().tolist() for part in local(gathered)] == [[1, 2]] * 2
    assert [copy.numpy().tolist() for copy in v.values] == [[13]] * 2
    assert strategy.reduce("SUM", read, axis=None).numpy().item() == 23
    assert strategy.gather(read, axis=0).numpy().tolist() == [11, 12]


def test_what_eager_replicas_compute_stays_on_their_workers(servers: list[ServerProcess]) -> None:
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    doubled = strategy.run(lambda x: x * 2.0, (numbers(strategy),))
    assert [part.device for part in doubled.values] == DEVICES


def test_mirrored_variables_are_saved_and_restored_as_one(
    servers: list[ServerProcess], tmp_path: Path
) -> None:
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
        counter = tf.Variable(
            0.0,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    strategy.run(lambda x: counter.assign_add(x[0]), (numbers(strategy),))
    path = tf.train.Checkpoint(v=v, counter=counter).save(str(tmp_path / "saved"))
    v.assign([0.0, 0.0])
    counter.assign(0.0)
    tf.train.Checkpoint(v=v, counter=counter).restore(path)
    assert [copy.numpy().tolist() for copy in v.values] == [[1, 2]] * 2
    assert float(counter.read_value()) == 3
    # As one variable, it can be read where there is no strategy.
    alone, sum_alone = tf.Variable([0.0, 0.0]), tf.Variable(0.0)
    tf.train.Checkpoint(v=alone, counter=sum_alone).restore(path)
    np.testing.assert_array_equal(alone.numpy(), [1, 2])
    assert float(sum_alone) == 3


@pytest.mark.parametrize("in_function", [False, True])
def test_a_worker_that_is_lost_is_told_of(servers: list[ServerProcess], in_function: bool) -> None:
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    with strategy.scope():
        v = tf.Variable([1.0])
    step = both_ways(lambda: strategy.run(lambda: v + 1.0), in_function)
    strategy.experimental_local_results(step())[1].numpy()
    servers[1].kill()
    with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError), match="task:1"):
        strategy.experimental_local_results(step())[1].numpy()


def test_a_device_that_is_nowhere_is_refused(servers: list[ServerProcess]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="/job:worker/task:7 unknown device"):
        tf.distribute.MirroredStrategy([DEVICES[0], "/job:worker/task:7"])
