"""QueueRunner: threads that keep queues filled, close them at the end and stop when told to."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def counting_runner(limit, capacity=3, threads=1):
    counter = tf.Variable(0, name="counter", use_resource=True)
    queue = tf.FIFOQueue(capacity, tf.int32, shapes=[[]], name="numbers")
    enqueue = queue.enqueue(counter.count_up_to(limit))
    return queue, tf.train.QueueRunner(queue, [enqueue] * threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_queue_is_filled_and_closed_at_the_end(threads):
    queue, runner = counting_runner(7, threads=threads)
    tf.train.add_queue_runner(runner)
    number = queue.dequeue()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        started = tf.train.start_queue_runners(session, coord)
        found = [session.run(number) for _ in range(7)]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(number)
        coord.request_stop()
        coord.join(started)
    assert sorted(found) == list(range(7))
    assert runner.exceptions_raised == []


def test_a_stop_cancels_a_pending_enqueue():
    _, runner = counting_runner(100, capacity=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        started = runner.create_threads(session, coord, start=True)
        coord.request_stop()
        coord.join(started, stop_grace_period_secs=10)
    assert not any(thread.is_alive() for thread in started)


def test_another_error_stops_the_coordinator():
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
    wrong = queue.enqueue(tf.placeholder(tf.int32, []))
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        tf.train.QueueRunner(queue, [wrong]).create_threads(session, coord, start=True)
        with pytest.raises(tf.errors.InvalidArgumentError):
            coord.join()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_coordinator_errors_are_kept():
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
    wrong = queue.enqueue(tf.placeholder(tf.int32, []))
    runner = tf.train.QueueRunner(queue, [wrong])
    with tf.Session() as session:
        for thread in runner.create_threads(session, start=True):
            thread.join()
    assert [type(error) for error in runner.exceptions_raised] == [tf.errors.InvalidArgumentError]


def test_threads_are_made_once_for_each_session():
    _, runner = counting_runner(100)
    with tf.Session() as first, tf.Session() as second:
        assert len(runner.create_threads(first, tf.train.Coordinator())) == 2
        assert runner.create_threads(first, tf.train.Coordinator()) == []
        assert len(runner.create_threads(second)) == 1


def test_a_runner_travels_as_a_message(graph):
    with tf.name_scope("outer"):
        queue, runner = counting_runner(3)
    message = runner.to_proto()
    assert message.queue_name == queue.name == "outer/numbers"
    assert message.queue_closed_exception_types == [tf.errors.OutOfRangeError.code]
    found = tf.train.QueueRunner.from_proto(message)
    assert found.name == runner.name
    assert [op.name for op in found.enqueue_ops] == [op.name for op in runner.enqueue_ops]
    assert found.close_op is runner.close_op
    assert found.cancel_op is runner.cancel_op
    inside = runner.to_proto("outer")
    assert inside.queue_name == "numbers"
    assert tf.train.QueueRunner.from_proto(inside, "outer").close_op is runner.close_op
    assert runner.to_proto("elsewhere") is None


def test_bad_arguments():
    queue, runner = counting_runner(3)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue)
    with pytest.raises(ValueError, match="mutually exclusive"):
        tf.train.QueueRunner(queue, [], queue_runner_def=runner.to_proto())
    with pytest.raises(TypeError, match="tuple of tf"):
        tf.train.QueueRunner(queue, [1], queue_closed_exception_types=(ValueError,))
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match=r"must be a `tf\.Session`"):
        tf.train.start_queue_runners(3)
