"""Flags, the entry of a program, and summaries on disk."""

import glob
import os
import sys
import tempfile

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.app.flags.DEFINE_integer("units_of_program", 3, "how many")
tf.flags.DEFINE_string("name_of_program", "x", "what it is called")
FLAGS = tf.app.flags.FLAGS


def main(argv):
    print(FLAGS.units_of_program, tf.flags.FLAGS.name_of_program, len(argv))
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default() as graph:
        value = tf.placeholder(tf.float32, [])
        merged = tf.summary.merge([tf.summary.scalar("value", value)])
        with tf.Session() as session:
            writer = tf.summary.FileWriter(folder, graph)
            for step in range(3):
                writer.add_summary(session.run(merged, {value: step * 1.5}), step)
            writer.close()
        (path,) = glob.glob(os.path.join(folder, "events*"))
        for event in tf.train.summary_iterator(path):
            for one in event.summary.value:
                print(event.step, one.tag, one.simple_value)


sys.argv = ["program", "--units_of_program=5"]
try:
    tf.app.run(main)
except SystemExit as end:
    print("code", end.code or 0)
