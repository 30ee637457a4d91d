"""Coordinator: threads that stop together, and whose first error is raised at the end."""

from __future__ import annotations

import sys
import threading

import pytest

import tideflow.v1 as tf
from clocks import manual_clock


def test_the_first_error_stops_all_threads_and_is_raised_by_join():
    coord = tf.train.Coordinator()

    def fail():
        with coord.stop_on_exception():
            raise ValueError("first")

    def wait_and_fail():
        coord.wait_for_stop()
        coord.request_stop(KeyError("second"))

    threads = [threading.Thread(target=wait_and_fail), threading.Thread(target=fail)]
    for thread in threads:
        thread.start()
    with pytest.raises(ValueError, match="first"):
        coord.join(threads)
    assert coord.joined
    assert coord.should_stop()
    with pytest.raises(ValueError, match="first"):
        coord.raise_requested_exception()


def test_the_end_of_the_input_is_no_error():
    coord = tf.train.Coordinator()
    coord.request_stop(tf.errors.OutOfRangeError(None, None, "over"))
    coord.join([])
    assert coord.should_stop()


def test_clean_errors_can_be_chosen():
    coord = tf.train.Coordinator(clean_stop_exception_types=(KeyError,))
    coord.request_stop(KeyError("fine"))
    coord.join()
    other = tf.train.Coordinator(clean_stop_exception_types=[])
    other.request_stop(tf.errors.OutOfRangeError(None, None, "over"))
    with pytest.raises(tf.errors.OutOfRangeError):
        other.join()


def test_what_sys_exc_info_returned_is_an_error_too():
    coord = tf.train.Coordinator()
    try:
        raise RuntimeError("as a tuple")
    except RuntimeError:
        coord.request_stop(sys.exc_info())
    with pytest.raises(RuntimeError, match="as a tuple"):
        coord.join()


def test_something_else_than_an_error_is_reported_as_such():
    coord = tf.train.Coordinator()
    coord.request_stop("stop!")
    with pytest.raises(ValueError, match="not 'stop!'"):
        coord.join()


def test_an_error_after_join_is_raised_at_once():
    coord = tf.train.Coordinator()
    coord.request_stop()
    coord.join()
    with pytest.raises(ValueError, match="late"):
        coord.request_stop(ValueError("late"))
    coord.clear_stop()
    assert not coord.should_stop()
    assert not coord.joined


def test_threads_that_do_not_stop_are_named():
    coord = tf.train.Coordinator()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="stubborn")
    coord.register_thread(thread)
    thread.start()
    try:
        coord.request_stop()
        with pytest.raises(RuntimeError, match="threads still running: stubborn"):
            coord.join(stop_grace_period_secs=0.05)
        coord.register_thread(thread)
        coord.join(stop_grace_period_secs=0.05, ignore_live_threads=True)
        assert thread.is_alive()
    finally:
        release.set()
        thread.join()


def test_join_ends_when_all_threads_have_ended_without_a_stop():
    coord = tf.train.Coordinator()
    thread = threading.Thread(target=lambda: None)
    thread.start()
    coord.join([thread])
    assert not coord.should_stop()


def test_a_looper_calls_regularly_until_the_stop():
    coord = tf.train.Coordinator()
    calls = []

    def call(value, other=None):
        calls.append((value, other))
        if len(calls) == 3:
            coord.request_stop()

    looper = tf.train.LooperThread.loop(coord, 0.001, call, args=(1,), kwargs={"other": 2})
    coord.join()
    assert not looper.is_alive()
    assert calls == [(1, 2)] * 3


def test_a_looper_begins_and_ends_once_and_its_errors_stop():
    coord = tf.train.Coordinator()
    seen = []

    class Looper(tf.train.LooperThread):
        def start_loop(self):
            seen.append("start")

        def run_loop(self):
            seen.append("run")
            raise ValueError("in the loop")

        def stop_loop(self):
            seen.append("stop")

    Looper(coord, None).start()
    with pytest.raises(ValueError, match="in the loop"):
        coord.join()
    assert seen == ["start", "run"]


def test_a_looper_keeps_its_pace_when_the_wall_clock_jumps():
    coord = tf.train.Coordinator()
    calls = []

    def call():
        clock.wall_lead_s -= 1e8
        clock.advance(3600)
        calls.append(1)
        if len(calls) == 5:
            coord.request_stop()

    with manual_clock() as clock:
        tf.train.LooperThread.loop(coord, 3600, call).join(10)
    assert len(calls) == 5


@pytest.mark.parametrize(
    ("args", "message"),
    [(("no coordinator", 1), "must be a Coordinator"), ((None, 1), "must be a Coordinator")],
)
def test_a_looper_needs_a_coordinator(args, message):
    with pytest.raises(ValueError, match=message):
        tf.train.LooperThread(*args)
    with pytest.raises(ValueError, match="also pass 'target'"):
        tf.train.LooperThread(tf.train.Coordinator(), 1, args=(1,))
