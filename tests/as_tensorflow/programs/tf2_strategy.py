"""Replicas of a strategy share a variable and add up what they give."""

import tensorflow as tf

tf.config.set_soft_device_placement(True)
strategy = tf.distribute.MirroredStrategy(["CPU:0"])
print(strategy.num_replicas_in_sync, tf.distribute.has_strategy())
with strategy.scope():
    total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    print(tf.distribute.has_strategy(), tf.distribute.in_cross_replica_context())


@tf.function
def step(x):
    total.assign_add(tf.reduce_sum(x))
    return tf.reduce_mean(x)


dataset = tf.data.Dataset.range(8).map(lambda i: tf.cast(i, tf.float32)).batch(4)
for batch in strategy.experimental_distribute_dataset(dataset):
    mean = strategy.run(step, args=(batch,))
    print(float(strategy.reduce(tf.distribute.ReduceOp.MEAN, mean, axis=None)))
print(float(total.read_value()), [d.device_type for d in tf.config.list_logical_devices("CPU")][:1])
