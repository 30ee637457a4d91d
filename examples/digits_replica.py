"""Trains a classifier of handwritten digits by between-graph replication, asynchronously.

The classic shape: every task runs this script with its place in the cluster.

    python digits_replica.py --ps_hosts=localhost:2222 \
        --worker_hosts=localhost:2223,localhost:2224 --job_name=ps --task_index=0
    ... the same with --job_name=worker --task_index=0, and again with --task_index=1

Or all of them at once, on this machine (the place is then in TF_CONFIG):

    tideflow run digits_replica.py --ps 1 --workers 2

Each worker builds its own graph. The variables live on the parameter server, so all graphs share
them; each worker reads them, computes a gradient on its own batch, and applies it without waiting
for the others. Only the API of TensorFlow 1 is used.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np

import tideflow.v1 as tf
from tideflow.digits import load_digits

tf.flags.DEFINE_string("ps_hosts", "", "host:port of each parameter server, with commas between")
tf.flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas between")
tf.flags.DEFINE_enum("job_name", None, ["ps", "worker", "chief"], "the job of this task")
tf.flags.DEFINE_integer("task_index", 0, "the index of this task in its job")
tf.flags.DEFINE_integer("steps", 2000, "training steps of all workers together")
tf.flags.DEFINE_integer("batch_size", 64, "examples in a step")
tf.flags.DEFINE_float("learning_rate", 0.2, "of the gradient descent")
tf.flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
FLAGS = tf.flags.FLAGS


def find_place() -> tuple[dict[str, list[str]], str, int]:
    """Return the cluster, and this task's job and index, from the flags or else TF_CONFIG."""
    if FLAGS.job_name:
        cluster = {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
        return cluster, FLAGS.job_name, FLAGS.task_index
    if "TF_CONFIG" not in os.environ:
        raise SystemExit(
            "give --ps_hosts, --worker_hosts, --job_name and --task_index, or TF_CONFIG"
        )
    config = json.loads(os.environ["TF_CONFIG"])
    return config["cluster"], config["task"]["type"], int(config["task"]["index"])


def build_model() -> dict:
    """Build a perceptron with one hidden layer: 64 pixels, 128 units, 10 classes."""
    images = tf.placeholder(tf.float32, [None, 64], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    with tf.variable_scope("hidden"):
        weights = tf.get_variable("weights", [64, 128], initializer=tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [128], initializer=tf.zeros_initializer())
        hidden = tf.nn.relu(tf.matmul(images, weights) + biases)
    with tf.variable_scope("output"):
        weights = tf.get_variable("weights", [128, 10], initializer=tf.glorot_uniform_initializer())
        biases = tf.get_variable("biases", [10], initializer=tf.zeros_initializer())
        logits = tf.matmul(hidden, weights) + biases
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    is_right = tf.equal(tf.argmax(logits, 1), labels)
    return {
        "images": images,
        "labels": labels,
        "loss": tf.reduce_mean(losses),
        "accuracy": tf.reduce_mean(tf.cast(is_right, tf.float32)),
    }


def wait_for_variables(session, uninitialized) -> None:
    """Wait until the chief has given every variable its first value."""
    while len(missing := session.run(uninitialized)):
        print(f"waiting for the chief to initialise {len(missing)} variables", flush=True)
        time.sleep(0.2)


def train(session, model: dict, train_op, global_step, data, order) -> None:
    """Take part in the training until all workers together have made the steps."""
    images, labels = data
    fetches = [train_op, model["loss"], global_step]
    step, mine, started = 0, 0, time.perf_counter()
    while step < FLAGS.steps:
        batch = order.randint(len(images), size=FLAGS.batch_size)
        feeds = {model["images"]: images[batch], model["labels"]: labels[batch]}
        _, loss, step = session.run(fetches, feeds)
        mine += 1
        if mine % 200 == 0:
            rate = mine * FLAGS.batch_size / (time.perf_counter() - started)
            print(f"step {step}: loss {loss:.4f}, {rate:,.0f} examples/s", flush=True)
    print(f"made {mine} of the {step} steps", flush=True)


def main(_) -> None:
    cluster, job, index = find_place()
    server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index)
    if job == "ps":
        server.join()
        return

    is_chief = job == "chief" or ("chief" not in cluster and index == 0)
    tf.set_random_seed(FLAGS.seed)
    place = tf.train.replica_device_setter(
        worker_device=f"/job:{job}/task:{index}", cluster=tf.train.ClusterSpec(cluster)
    )
    with tf.device(place):
        global_step = tf.train.get_or_create_global_step()
        model = build_model()
        optimizer = tf.train.GradientDescentOptimizer(FLAGS.learning_rate)
        train_op = optimizer.minimize(model["loss"], global_step=global_step)
        uninitialized = tf.report_uninitialized_variables()
        initialize = tf.global_variables_initializer()

    train_images, test_images, train_labels, test_labels = load_digits()
    # A worker needs the parameter servers; that other workers come and go is not its business.
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:{job}/task:{index}"])
    with tf.Session(server.target, config=config) as session:
        if is_chief:
            session.run(initialize)
        wait_for_variables(session, uninitialized)
        order = np.random.RandomState(FLAGS.seed + index)
        train(session, model, train_op, global_step, (train_images, train_labels), order)
        if is_chief:
            feeds = {model["images"]: test_images, model["labels"]: test_labels}
            accuracy = session.run(model["accuracy"], feeds)
            print(f"test accuracy {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    tf.app.run(main)
