"""SyncReplicasOptimizer: one update from several replicas' gradients, late ones dropped.

Names and errors are compared with TensorFlow's in test_hooks_oracle.py.
"""

from __future__ import annotations

import threading

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster

RATE = 0.5


@pytest.fixture
def cluster():
    made = LocalCluster({"ps": 1, "worker": 2})
    yield made
    made.stop()


class Replica:
    """One worker: its own graph over variables on the parameter server, and its session."""

    def __init__(self, cluster, index, use_resource=True, sparse=False, **numbers):
        self.target, self.index = cluster.target("worker", index), index
        self.graph = tf.Graph()
        worker = f"/job:worker/task:{index}"
        place = tf.train.replica_device_setter(worker_device=worker, cluster=cluster.spec)
        with self.graph.as_default(), tf.device(place):
            self.step = tf.train.get_or_create_global_step()
            self.v = tf.get_variable(
                "v", initializer=[[0.0], [0.0], [0.0]], use_resource=use_resource
            )
            self.slope = tf.placeholder(tf.float32, [])
            rows = tf.gather(self.v, [0, 2]) if sparse else self.v
            descent = tf.train.GradientDescentOptimizer(RATE)
            self.optimizer = tf.train.SyncReplicasOptimizer(descent, **numbers)
            loss = self.slope * tf.reduce_sum(rows)
            self.train_op = self.optimizer.minimize(loss, global_step=self.step)
            self.local_step = tf.local_variables()[0]
            self.hook = self.optimizer.make_session_run_hook(index == 0)

    def open(self, *hooks):
        with self.graph.as_default():
            self.session = tf.train.MonitoredTrainingSession(
                self.target, self.index == 0, hooks=[self.hook, *hooks], max_wait_secs=60
            )
        return self

    def train(self, slope):
        self.session.run(self.train_op, {self.slope: slope})

    def train_until(self, step):
        """Make steps of slope 1; the second gradient with one token is late, and dropped."""
        while self.value()[0] < step:
            self.train(1.0)

    def value(self):
        """Return the global step and the variable, between two updates by the chief's thread."""
        previous = None
        while (found := self.read()) != previous:
            previous = found
        return found

    def read(self):
        step, value = self.session.run_step_fn(
            lambda step_context: step_context.session.run([self.step, self.v])
        )
        return int(step), value.ravel().tolist()

    def close(self):
        with self.graph.as_default():
            self.session.close()


def together(*calls):
    """Make calls at once, each in a thread; return when all have ended."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_is_the_mean_of_all_replicas_gradients(cluster, use_resource, sparse):
    kind = {"use_resource": use_resource, "sparse": sparse, "replicas_to_aggregate": 2}
    chief, other = (Replica(cluster, index, **kind).open() for index in range(2))
    try:
        # The first tokens let both begin at once; those of a step come when it is made.
        together(lambda: chief.train(1.0), lambda: other.train(3.0))
        together(lambda: chief.train(0.0), lambda: other.train(0.0))
        step, value = chief.value()
    finally:
        together(chief.close, other.close)
    assert step >= 1
    down = -RATE * 2.0
    assert value == pytest.approx([down, 0.0 if sparse else down, down])


def test_the_local_step_lives_on_the_worker_and_the_rest_on_the_server(cluster):
    replica = Replica(cluster, 1, replicas_to_aggregate=2)
    assert replica.local_step.device == "/job:worker/task:1"
    devices = {
        op.device
        for op in replica.graph.get_operations()
        if "Accumulator" in op.type or "Queue" in op.type
    }
    assert devices == {"/job:ps/task:0", "/job:ps/task:0/device:CPU:*"}


def test_a_gradient_of_a_step_that_is_over_is_dropped(cluster):
    numbers = {"replicas_to_aggregate": 1, "total_num_replicas": 2}
    chief, other = (Replica(cluster, index, **numbers).open() for index in range(2))
    try:
        # Each step needs one gradient only: the chief makes some while the other has not moved.
        chief.train_until(4)
        other.train(1000.0)  # made at step 0: too late
        step, _ = chief.value()
        chief.train_until(step + 2)
        step, after = chief.value()
    finally:
        together(chief.close, other.close)
    assert after == pytest.approx([-RATE * step] * 3)


def test_a_backup_replica_need_not_even_be_there(cluster):
    numbers = {"replicas_to_aggregate": 1, "total_num_replicas": 2}
    chief = Replica(cluster, 0, **numbers).open()
    try:
        chief.train_until(3)
        step, value = chief.value()
    finally:
        chief.close()
    assert value == pytest.approx([-RATE * step] * 3)


class LoseOnce(tf.train.SessionRunHook):
    """Takes the session for lost, after its second run."""

    runs = 0

    def after_run(self, run_context, run_values):
        self.runs += 1
        if self.runs == 2:
            raise tf.errors.AbortedError(None, None, "lost")


def test_a_chief_that_lost_its_session_goes_on_with_the_same_queue(cluster):
    hook = LoseOnce()
    chief = Replica(cluster, 0, replicas_to_aggregate=1).open(hook)
    try:
        chief.train_until(3)
    finally:
        chief.close()
    assert hook.runs > 2


def test_the_others_hear_that_the_chief_has_ended(cluster):
    numbers = {"replicas_to_aggregate": 1, "total_num_replicas": 2}
    chief, other = (Replica(cluster, index, **numbers).open() for index in range(2))
    chief.train_until(1)
    chief.close()
    with other.graph.as_default(), other.session:
        for _ in range(100):
            other.train(1.0)
        pytest.fail("the tokens should have ended")
    assert other.session.should_stop()


def test_averages_follow_each_step():
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", initializer=1.0)
        average = tf.train.ExponentialMovingAverage(0.5)
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(1.0),
            1,
            variable_averages=average,
            variables_to_average=[v],
        )
        train_op = optimizer.minimize(v, global_step=step)
        hooks = [optimizer.make_session_run_hook(True)]
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(3):
                session.run(train_op)
            found = session.run_step_fn(
                lambda step_context: step_context.session.run([v, average.average(v)])
            )
    # The update of the first steps is over when the third step's token is there.
    assert found[0] <= 0.0
    assert found[1] > found[0]


def test_the_hook_needs_a_model_that_is_initialized():
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", initializer=1.0)
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1)
        optimizer.minimize(v, global_step=step)
        hook = optimizer.make_session_run_hook(True)
        hook.begin()
        with tf.Session() as session:
            with pytest.raises(RuntimeError, match="not initialized: global_step, v"):
                hook.after_create_session(session, tf.train.Coordinator())


def test_bad_numbers_of_tokens():
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        v = tf.get_variable("v", initializer=1.0)
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(1.0), 3, total_num_replicas=1
        )
        optimizer.minimize(v, global_step=step)
        with pytest.raises(ValueError, match=r"Too few tokens.*1 \(given\) vs 2 \(needed\)"):
            optimizer.get_init_tokens_op(1)
        assert optimizer.get_init_tokens_op(2).type == "QueueEnqueueManyV2"
