"""A graph is saved, and imported from its meta graph."""

import os
import tempfile

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "model")
    with tf.Graph().as_default():
        with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
            v = tf.get_variable("v", initializer=[1.0, 2.0])
            same = tf.get_variable("v", [2])
        out = tf.identity(v * 2.0, name="out")
        tf.add_to_collection("outputs", out)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(v.assign([3.0, 4.0]))
            path = tf.train.Saver().save(session, prefix, global_step=5)
        print(v is same, os.path.basename(path), tf.train.latest_checkpoint(folder) == path)
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path + ".meta")
        with tf.Session() as session:
            saver.restore(session, path)
            print(session.run(tf.get_collection("outputs")[0]).tolist())
        print(
            [op.name for op in graph.get_operations() if op.type in ("VariableV2", "VarHandleOp")]
        )
    print(tf.train.load_checkpoint(path).get_variable_to_shape_map())
