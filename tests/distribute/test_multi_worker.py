"""Workers that compute in step, as real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cluster.servers import free_ports, make_environment

pytestmark = pytest.mark.processes

_PROGRAM = """
import json, sys
import numpy as np
import tideflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
with strategy.scope():
    v = tf.Variable(float(rank + 5))
    w = tf.Variable(tf.zeros([3, 1]))
    mean = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
    total = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ,
                        aggregation=tf.VariableAggregation.SUM)

def replica():
    context = tf.distribute.get_replica_context()
    number = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
    mine = tf.ones([rank + 1]) * number
    return context.all_reduce("SUM", number), context.all_gather(mine, axis=0)

calls = [strategy.run(replica), tf.function(lambda: strategy.run(replica))()]
traced = tf.function(lambda: strategy.run(replica))
calls += [traced(), traced()]

@tf.function
def keep():
    mean.assign(rank + 1.0)
    total.assign_add(rank + 1.0)
    return tf.cast(rank + 1.0, tf.float32)

scalars = strategy.run(keep)
along = strategy.reduce("MEAN", scalars, axis=0 if strategy.num_replicas_in_sync > 1 else None)
kept = [float(along), float(mean), float(total)]
total.assign(8.0)
kept.append(float(total))

data = np.random.RandomState(0).rand(8, 3).astype(np.float32)

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, w) - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
    grad = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, w))
    w.assign_sub(0.3 * grad)
    return loss

train = tf.function(lambda x: strategy.reduce("MEAN", strategy.run(step, (x,)), axis=None))
losses = []
for _ in range(10):
    for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors(data)):
        losses.append(float(train(x)))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT
hint = tf.data.experimental.SHARD_HINT
hinted = tf.data.Dataset.range(8).shard(hint, hint).batch(4).with_options(options)
shared = strategy.experimental_distribute_dataset(hinted)
print(json.dumps({
    "by hints": [strategy.experimental_local_results(x)[0].numpy().tolist() for x in shared],
    "kept": kept,
    "replicas": strategy.num_replicas_in_sync,
    "first": float(v.numpy()),
    "sums": [float(a) for a, _ in calls],
    "gathered": [b.numpy().tolist() for _, b in calls],
    "gathered values": strategy.gather(tf.fill([rank + 1], rank), axis=0).numpy().tolist(),
    "losses": losses,
}))
"""


def start(address: list[str], index: int) -> subprocess.Popen[str]:
    config = {"cluster": {"worker": address}, "task": {"type": "worker", "index": index}}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        env={**make_environment(), "TF_CONFIG": json.dumps(config)},
    )


def run_together(count: int) -> list[dict]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    workers = [start(addresses, i) for i in range(count)]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * count
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def test_two_workers_agree_and_train_as_one() -> None:
    [alone] = run_together(1)
    found = run_together(2)
    assert alone["by hints"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [worker["by hints"] for worker in found] == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    for worker in found:
        assert worker["replicas"] == 2
        assert worker["first"] == 5
        # Along an axis, scalars are reduced for Keras; TensorFlow refuses them.
        assert worker["kept"] == [1.5, 1.5, 3.0, 8.0]
        assert worker["sums"] == [3, 3, 3, 3]
        assert worker["gathered"] == [[1, 2, 2]] * 4
        assert worker["gathered values"] == [0, 1, 1]
        assert worker["losses"] == pytest.approx(alone["losses"], abs=1e-5)
    assert alone["losses"][-1] < 0.2 * alone["losses"][0]
