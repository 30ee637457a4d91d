"""Summaries of a training: every kind is written, with steps and conditions, and read again."""

import glob
import os
import tempfile

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(8)


def events(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*tfevents*"))):
        for record in tf.data.TFRecordDataset(path):
            yield tf.compat.v1.Event.FromString(record.numpy())


def told(folder):
    for event in events(folder):
        for value in event.summary.value:
            if not value.HasField("tensor"):
                print(event.step, value.tag, value.simple_value)
                continue
            tensor = tf.make_ndarray(value.tensor)
            plugin = value.metadata.plugin_data.plugin_name
            small = (
                np.round(tensor, 3).tolist()
                if tensor.dtype.kind == "f" and tensor.size == 1
                else None
            )
            shape = None if plugin == "histograms" else tensor.shape
            print(event.step, value.tag, plugin, value.metadata.summary_description, shape, small)


with tempfile.TemporaryDirectory() as folder:
    writer = tf.summary.create_file_writer(os.path.join(folder, "train"), filename_suffix=".one")
    print(tf.summary.experimental.get_step(), tf.summary.scalar("nowhere", 1.0, step=1).numpy())
    w = tf.Variable([0.0, 0.0])
    x = tf.constant(rng.randn(16, 2).astype("float32"))

    @tf.function
    def step(i):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) - 1.0) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        with tf.name_scope("losses"):
            tf.summary.scalar("loss", loss, step=i, description="what is made small")
        with tf.summary.record_if(i % 2 == 0):
            tf.summary.histogram("weights", w, step=i, buckets=4)
        return loss

    with writer.as_default():
        for i in tf.range(3, dtype=tf.int64):
            step(i)
    with writer.as_default(step=10):
        print(int(tf.summary.experimental.get_step()), bool(tf.summary.should_record_summaries()))
        tf.summary.text("said", ["a", "b"])
        tf.summary.image("dots", tf.reshape(tf.linspace(0.0, 1.0, 32), [2, 4, 4, 1]), max_outputs=1)
        tf.summary.audio("tone", tf.zeros([1, 20, 1]), 8000)
        tf.summary.experimental.set_step(12)
        print(tf.summary.scalar("set", 2).numpy())
        with tf.summary.record_if(False):
            print(tf.summary.scalar("never", 2).numpy(), bool(tf.summary.should_record_summaries()))
        with tf.summary.experimental.summary_scope("outer", values=[w]) as (tag, scope):
            print(tag, scope)
            tf.summary.write(tag, [1, 2, 3], metadata=tf.compat.v1.SummaryMetadata())
        raw = tf.compat.v1.Summary(
            value=[tf.compat.v1.Summary.Value(tag="raw", simple_value=0.5)]
        ).SerializeToString()
        print(tf.summary.experimental.write_raw_pb(raw, step=13).numpy())
    writer.flush()
    told(os.path.join(folder, "train"))
    kinds = [event.WhichOneof("what") for event in events(os.path.join(folder, "train"))]
    print(kinds[0], {kind: kinds.count(kind) for kind in sorted(set(kinds))})
    print(sorted(os.path.splitext(one)[1] for one in os.listdir(os.path.join(folder, "train"))))
    writer.close()
    try:
        with writer.as_default():
            tf.summary.scalar("late", 1.0, step=1)
        print("wrote")
    except RuntimeError as error:
        print(type(error).__name__)

    # ---- graphs

    @tf.function
    def measured(i):
        tf.summary.scalar("norm", tf.norm(w), step=i)
        return i + 1

    traced = tf.summary.create_file_writer(os.path.join(folder, "graph"))
    tf.summary.trace_on(graph=True, profiler=False)
    with traced.as_default():
        measured(tf.constant(7, tf.int64))
        tf.summary.trace_export("measured", step=0)
        tf.summary.graph(measured.get_concrete_function(tf.TensorSpec([], tf.int64)).graph)
    traced.close()
    found = list(events(os.path.join(folder, "graph")))
    print([event.WhichOneof("what") for event in found])
    graph = tf.compat.v1.GraphDef.FromString(found[-1].graph_def)
    print(any(node.op == "WriteScalarSummary" for node in graph.node))

    # ---- no step, and nothing that is written to

    tf.summary.experimental.set_step(None)
    with tf.summary.create_file_writer(os.path.join(folder, "none")).as_default() as chosen:
        try:
            tf.summary.scalar("x", 1.0)
        except ValueError as error:
            print(type(error).__name__)
        print(chosen is not None)
    with tf.summary.create_noop_writer().as_default():
        print(tf.summary.scalar("x", 1.0, step=1).numpy())
    try:
        tf.summary.scalar("x", [1.0, 2.0], step=1)
        with tf.summary.create_file_writer(os.path.join(folder, "bad")).as_default():
            tf.summary.scalar("x", [1.0, 2.0], step=1)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        print(type(error).__name__)
