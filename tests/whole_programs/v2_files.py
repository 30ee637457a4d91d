"""The grammar of eager programs, part 3: records, checkpoints, training of replicas."""

from __future__ import annotations

from whole_programs.builder import Builder, Rules, Value
from whole_programs.syntax import Type

RULES = Rules()


@RULES.add(0.7)
def records(g: Builder) -> None:
    path = g.name("path")
    g.say(f"{path} = at.directory + '/{path}'")
    options = g.choice(("", ", tf.io.TFRecordOptions('GZIP')"))
    with g.block(f"with tf.io.TFRecordWriter({path}{options}) as w:"):
        with g.block("for i in range(4):"):
            g.say(
                "f = {'n': tf.train.Feature(int64_list=tf.train.Int64List(value=[i])), "
                "'w': tf.train.Feature(bytes_list=tf.train.BytesList(value=[b'a' * i]))}"
            )
            g.say(
                "e = tf.train.Example(features=tf.train.Features(feature=f))\n"
                "w.write(e.SerializeToString())"
            )
    kind = f"tf.data.TFRecordDataset({path}, compression_type={'GZIP' if options else ''!r})"
    parsed = (
        "tf.io.parse_single_example(r, {'n': tf.io.FixedLenFeature([], tf.int64), "
        "'w': tf.io.FixedLenFeature([], tf.string)})"
    )
    g.say(f"at.note(lambda: list({kind}.map(lambda r: {parsed}).batch(3).as_numpy_iterator()))")


@RULES.add(0.7)
def checkpoint_of_training(g: Builder) -> None:
    """What a manager keeps, and a later object that takes its values."""
    variable, manager, first, again = (g.name(word) for word in ("v", "cm", "ck", "ck"))
    g.say(f"{variable} = tf.Variable([1.0, 2.0])")
    keeps = g.random.randrange(1, 3)
    g.say(f"{first} = tf.train.Checkpoint(step=tf.Variable(0), v={variable}, l=[{variable}])")
    folder = f"at.directory + '/{manager}'"
    g.say(f"{manager} = tf.train.CheckpointManager({first}, {folder}, max_to_keep={keeps})")
    with g.block("for _ in range(3):"):
        g.say(f"{first}.step.assign_add(1)\n{variable}.assign({variable} * 2)\n{manager}.save()")
    g.say(f"at.note(lambda: [p[len(at.directory):] for p in {manager}.checkpoints])")
    g.say(f"{again} = tf.train.Checkpoint(step=tf.Variable(7))")
    g.say(f"status = {again}.restore({manager}.latest_checkpoint)")
    g.say(
        f"{again}.v = tf.Variable([0.0, 0.0])\nat.note({again}.v.numpy)\nat.note({again}.step.numpy)"
    )
    g.say("at.note(lambda: type(status.expect_partial()).__name__ != '')")
    g.say(f"at.note(lambda: tf.train.list_variables({manager}.latest_checkpoint))")


@RULES.add(1)
def distributed_training(g: Builder) -> None:
    name, weight, data = (g.name(word) for word in ("st", "v", "ds"))
    form = g.choice(("at.mirrored_strategy()", "tf.distribute.get_strategy()"))
    g.say(f"{name} = {form}")
    aggregation = g.choice(("SUM", "MEAN", "ONLY_FIRST_REPLICA"))
    with g.block(f"with {name}.scope():"):
        g.say(
            f"{weight} = tf.Variable(1.0, aggregation=tf.VariableAggregation.{aggregation})\n"
            "total = tf.Variable(0.0, synchronization=tf.VariableSynchronization.ON_READ, "
            "aggregation=tf.VariableAggregation.SUM)"
        )
    g.say(f"{data} = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]).batch(2)")
    g.say(f"{data} = {name}.experimental_distribute_dataset({data})")
    step = Value(g.name("f"), Type("trains"))
    with g.function(step, f"@tf.function\ndef {step.name}(batch):", []):
        with g.block("def replica(x):"):
            with g.block("with tf.GradientTape() as t:"):
                g.say(f"loss = tf.reduce_sum(tf.square(x * {weight}))")
            g.say(f"d = t.gradient(loss, {weight})\ntotal.assign_add(loss)")
            g.say(f"{weight}.assign_sub(0.01 * d)\nreturn loss")
        g.say(f"losses = {name}.run(replica, (batch,))")
        g.say(f"return {name}.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)")
    with g.block(f"for batch in {data}:"):
        g.say(f"at.note({step}, batch)")
    g.say(f"at.note({weight}.numpy)\nat.note(lambda: total.read_value())")
