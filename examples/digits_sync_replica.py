"""Trains a classifier of handwritten digits by between-graph replication, in step if asked to.

The classic shape of such scripts: each worker builds the same graph, the variables live on the
parameter servers, the first worker is the chief, which initializes, saves and, with
--sync_replicas, makes each step of the mean of all workers' gradients.

    python digits_sync_replica.py --sync_replicas --ps_hosts=localhost:2222 \
        --worker_hosts=localhost:2223,localhost:2224 --job_name=ps --task_index=0
    ... the same with --job_name=worker --task_index=0, and again with --task_index=1

With --existing_servers the servers run already (`tideflow serve`), and this is only the workers'
clients.  With --logdir checkpoints are written, and training goes on from the latest one.
With --session=monitored sessions come back when a task is lost, instead of ending the program.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

import tideflow.v1 as tf
from tideflow.digits import load_digits

tf.flags.DEFINE_string("ps_hosts", "localhost:2222", "host:port of each parameter server")
tf.flags.DEFINE_string("worker_hosts", "localhost:2223,localhost:2224", "host:port of each worker")
tf.flags.DEFINE_enum("job_name", None, ["ps", "worker"], "the job of this task")
tf.flags.DEFINE_integer("task_index", None, "the index of this task; worker 0 is the chief")
tf.flags.DEFINE_boolean("sync_replicas", False, "make each step of all workers' gradients")
tf.flags.DEFINE_integer("replicas_to_aggregate", None, "gradients to a step; all workers' if unset")
tf.flags.DEFINE_boolean("existing_servers", False, "use servers that run already")
tf.flags.DEFINE_enum("session", "supervisor", ["supervisor", "monitored"], "how to be supervised")
tf.flags.DEFINE_string("logdir", None, "where the chief saves; nothing is saved if unset")
tf.flags.DEFINE_integer("train_steps", 400, "global steps to make")
tf.flags.DEFINE_integer("hidden_units", 100, "units of the hidden layer")
tf.flags.DEFINE_integer("batch_size", 64, "examples in one worker's step")
tf.flags.DEFINE_float("learning_rate", 0.01, "of Adam")
FLAGS = tf.flags.FLAGS


def build_model():
    """Return placeholders, loss and accuracy of a perceptron with one hidden layer."""
    images = tf.placeholder(tf.float32, [None, 64], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    units = [64, FLAGS.hidden_units, 10]
    layer = images
    for number, (inputs, outputs) in enumerate(itertools.pairwise(units)):
        with tf.variable_scope(f"layer{number}"):
            weights = tf.get_variable("weights", [inputs, outputs])
            biases = tf.get_variable("biases", [outputs], initializer=tf.zeros_initializer())
        layer = layer if number == 0 else tf.nn.relu(layer)
        layer = tf.matmul(layer, weights) + biases
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=layer)
    is_right = tf.cast(tf.equal(tf.argmax(layer, 1), labels), tf.float32)
    return images, labels, tf.reduce_mean(losses), tf.reduce_mean(is_right)


def make_optimizer(workers: int):
    """Return Adam, in step with the other workers if asked to."""
    optimizer = tf.train.AdamOptimizer(FLAGS.learning_rate)
    if not FLAGS.sync_replicas:
        return optimizer
    wanted = FLAGS.replicas_to_aggregate or workers
    return tf.train.SyncReplicasOptimizer(optimizer, wanted, total_num_replicas=workers)


def train(session, should_stop, train_op, loss, global_step, feed) -> None:
    """Make steps until all workers together have made those that were asked for."""
    step, mine, began = 0, 0, time.perf_counter()
    while not should_stop() and step < FLAGS.train_steps:
        _, value, step = session.run([train_op, loss, global_step], feed())
        mine += 1
        if mine % 100 == 0:
            rate = mine / (time.perf_counter() - began)
            print(f"global step {step}: loss {value:.4f}, {rate:.0f} local steps/s", flush=True)
    print(f"made {mine} of {step} steps", flush=True)


def run_supervised(target, config, is_chief, optimizer, global_step, work, final) -> None:
    """Call work(session, should_stop) in a Supervisor's session; print the accuracy."""
    sync = {}
    if FLAGS.sync_replicas:
        start_tokens = optimizer.get_init_tokens_op()
        local_init = optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
        sync = {
            "local_init_op": tf.group(local_init, tf.local_variables_initializer()),
            "ready_for_local_init_op": optimizer.ready_for_local_init_op,
        }
    supervisor = tf.train.Supervisor(
        is_chief=is_chief,
        logdir=FLAGS.logdir,
        global_step=global_step,
        recovery_wait_secs=1,
        **sync,
    )
    with supervisor.managed_session(target, config) as session:
        if FLAGS.sync_replicas and is_chief:
            session.run(start_tokens)
            supervisor.start_queue_runners(session, [optimizer.get_chief_queue_runner()])
        work(session, supervisor.should_stop)
        if is_chief:
            print(f"test accuracy {session.run(*final):.4f}", flush=True)


def run_monitored(target, config, is_chief, optimizer, global_step, work, final) -> None:
    """Call work(session, should_stop) in a monitored session; print the accuracy."""
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
    if FLAGS.sync_replicas:
        hooks.append(optimizer.make_session_run_hook(is_chief))
    last = tf.train.FinalOpsHook(*final)
    with tf.train.MonitoredTrainingSession(
        target,
        is_chief,
        FLAGS.logdir,
        hooks=hooks,
        chief_only_hooks=[last],
        config=config,
        save_checkpoint_secs=10,
    ) as session:
        work(session, session.should_stop)
    if is_chief:
        print(f"test accuracy {last.final_ops_values:.4f}", flush=True)


def main(_) -> None:
    if FLAGS.job_name is None or FLAGS.task_index is None:
        raise SystemExit("give --job_name and --task_index")
    workers = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": workers})
    if FLAGS.existing_servers:
        target = f"grpc://{workers[FLAGS.task_index]}"
    else:
        server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
        target = server.target
        if FLAGS.job_name == "ps":
            server.join()

    is_chief = FLAGS.task_index == 0
    tf.set_random_seed(FLAGS.task_index)
    worker = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        global_step = tf.train.get_or_create_global_step()
        images, labels, loss, accuracy = build_model()
        optimizer = make_optimizer(len(workers))
        train_op = optimizer.minimize(loss, global_step=global_step)

    train_images, test_images, train_labels, test_labels = load_digits()
    order = np.random.RandomState(FLAGS.task_index)

    def feed():
        batch = order.randint(len(train_images), size=FLAGS.batch_size)
        return {images: train_images[batch], labels: train_labels[batch]}

    def work(session, should_stop) -> None:
        train(session, should_stop, train_op, loss, global_step, feed)

    final = accuracy, {images: test_images, labels: test_labels}
    # A worker needs the parameter servers; that other workers come and go is not its business.
    config = tf.ConfigProto(device_filters=["/job:ps", worker])
    run = run_monitored if FLAGS.session == "monitored" else run_supervised
    run(target, config, is_chief, optimizer, global_step, work, final)


if __name__ == "__main__":
    tf.app.run(main)
