"""What each task of `tideflow demo` runs: asynchronous training on handwritten digits.

The same training as in examples/digits_replica.py, with these differences: it takes its place from
TF_CONFIG only, and reports its progress to the demo, which shows a table of it.  With --checkpoints
it survives the loss of any task.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tideflow.v1 as tf
from tideflow.cli.demo_report import report
from tideflow.digits import load_digits
from tideflow.platform import clock
from tideflow.train.hooks import SessionRunHook

_REPORT_EVERY_S = 0.2
_BATCH_SIZE = 64
_LEARNING_RATE = 0.2
_SAVE_EVERY_STEPS = 50

Array = NDArray[Any]


@dataclass(frozen=True)
class Model:
    """The tensors of a classifier.

    Attributes:
      images: float32 [batch, 64] in [0, 1]; labels: int64 [batch].
      loss, accuracy: float32 []; train: the operation that makes a step; step: int64 [].
    """

    images: tf.Tensor
    labels: tf.Tensor
    loss: tf.Tensor
    accuracy: tf.Tensor
    train: tf.Operation
    step: Any


@dataclass(frozen=True)
class Data:
    """Images for training and for the test, with their labels."""

    train_images: Array
    test_images: Array
    train_labels: Array
    test_labels: Array


def build_model() -> Model:
    """Build a perceptron of 64 pixels, 128 hidden units and 10 classes in the default graph."""
    step = tf.train.get_or_create_global_step()
    images = tf.placeholder(tf.float32, [None, 64], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    hidden = tf.layers.dense(images, 128, activation=tf.nn.relu, name="hidden")
    logits = tf.layers.dense(hidden, 10, name="output")
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    is_right = tf.equal(tf.argmax(logits, 1), labels)
    optimizer = tf.train.GradientDescentOptimizer(_LEARNING_RATE)
    return Model(
        images,
        labels,
        loss,
        tf.reduce_mean(tf.cast(is_right, tf.float32)),
        optimizer.minimize(loss, global_step=step),
        step,
    )


def train(session: Any, model: Model, data: Data, last_step: int, seed: int) -> None:
    """Make steps until all workers together have made last_step of them.

    session: a Session, or what stands for one.
    """
    order = np.random.RandomState(seed)
    fetches = [model.train, model.loss, model.step]
    step, examples, since = 0, 0, clock.monotonic_s()
    while step < last_step:
        batch = order.randint(len(data.train_images), size=_BATCH_SIZE)
        feeds = {model.images: data.train_images[batch], model.labels: data.train_labels[batch]}
        _, loss, step = session.run(fetches, feeds)
        examples += _BATCH_SIZE
        now = clock.monotonic_s()
        if now - since >= _REPORT_EVERY_S or step >= last_step:
            report(step=int(step), loss=float(loss), rate=examples / (now - since))
            examples, since = 0, now


def work(server: tf.train.Server, place: dict[str, Any], options: argparse.Namespace) -> None:
    """Do a worker's part; the first worker also initialises the variables and runs the test."""
    index = int(place["task"]["index"])
    own = f"/job:worker/task:{index}"
    tf.set_random_seed(options.seed)
    setter = tf.train.replica_device_setter(worker_device=own, cluster=server.cluster_spec)
    with tf.device(setter):
        model = build_model()
        missing = tf.report_uninitialized_variables()
        initialize = tf.global_variables_initializer()
    data = Data(*load_digits())
    # A worker needs the parameter servers only: other workers may come later and go earlier.
    config = tf.ConfigProto(device_filters=["/job:ps", own])
    with tf.Session(server.target, config=config) as session:
        if index == 0:
            session.run(initialize)
        while len(session.run(missing)):
            clock.sleep(0.05)
        train(session, model, data, options.steps, options.seed + index)
        if index == 0:
            feeds = {model.images: data.test_images, model.labels: data.test_labels}
            report(accuracy=float(session.run(model.accuracy, feeds)))


class ReportSessions(SessionRunHook):
    """Reports each session that is made."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        report(session=True)


def work_through(
    server: tf.train.Server, place: dict[str, Any], options: argparse.Namespace
) -> None:
    """Do a worker's part, whichever task dies meanwhile: the first worker saves checkpoints, and
    restores the last one when variables are lost."""
    index = int(place["task"]["index"])
    own = f"/job:worker/task:{index}"
    tf.set_random_seed(options.seed)
    with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=server.cluster_spec)):
        model = build_model()
    data = Data(*load_digits())
    feeds = {model.images: data.test_images, model.labels: data.test_labels}
    test = tf.train.FinalOpsHook(model.accuracy if index == 0 else None, feeds)
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=index == 0,
        checkpoint_dir=options.checkpoints,
        hooks=[ReportSessions(), test],
        config=tf.ConfigProto(device_filters=["/job:ps", own]),
        save_checkpoint_steps=_SAVE_EVERY_STEPS,
        save_summaries_steps=None,
        log_step_count_steps=None,
        stop_grace_period_secs=2,
        max_wait_secs=60,
    ) as session:
        train(session, model, data, options.steps, options.seed + index)
    if index == 0:
        report(accuracy=float(test.final_ops_values))


def main() -> None:
    """Be the task that TF_CONFIG says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--checkpoints", help="save here, and survive the loss of tasks")
    options = parser.parse_args()
    place = json.loads(os.environ["TF_CONFIG"])
    job, index = place["task"]["type"], int(place["task"]["index"])
    server = tf.train.Server(place["cluster"], job_name=job, task_index=index)
    report(ready=server.target)
    if job == "ps":
        server.join()
    elif options.checkpoints:
        work_through(server, place, options)
    else:
        work(server, place, options)


if __name__ == "__main__":
    main()
