"""Mutexes and critical sections: what they keep apart, and who lets go of them."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest

import tideflow as tf
from tideflow.graph.building import apply_op


def test_steps_that_read_and_write_do_not_mix() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        total = v1.get_variable("total", initializer=0, use_resource=True)
        section = tf.CriticalSection(name="adding")

        def add() -> Any:
            read = total.read_value()
            with tf.control_dependencies([read]):
                return total.assign(read + 1)

        runs = [session.make_callable(section.execute(add)) for _ in range(4)]
        session.run(total.initializer)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(run) for run in runs * 10]:
                done.result()
        assert session.run(total) == 40


def test_a_step_that_fails_lets_go_of_the_mutex() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        section = tf.CriticalSection()
        x = v1.placeholder(tf.int32, [])
        found = section.execute(lambda: {"a": 6 // x, "b": None})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(found["a"], {x: 0})
        assert session.run(found["a"], {x: 2}) == 3


def test_a_lock_is_waited_for_until_it_is_dropped() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        mutex = apply_op("MutexV2", shared_name="m")
        first = apply_op("MutexLock", mutex)
        held = tf.Variable(0.0)
        session.run(held.initializer)
        with tf.control_dependencies([first.op]):
            added = held.assign_add(1.0)
        with tf.control_dependencies([added]):
            dropped = apply_op("ConsumeMutexLock", first)
        # Asked for at the same time, but made to wait for what the first holder does.
        later = apply_op("MutexLock", mutex)
        with tf.control_dependencies([later.op]):
            seen = held.read_value()
        with tf.control_dependencies([seen]):
            done = apply_op("ConsumeMutexLock", later)
        for count in (1, 2):
            session.run([dropped, done])
            assert session.run(held) == count


def test_sections_of_functions_and_eager_calls() -> None:
    section, variable = tf.CriticalSection(), tf.Variable(0.0)

    @tf.function
    def add(x: Any) -> Any:
        return section.execute(lambda: variable.assign_add(x))

    assert float(section.execute(lambda: variable.assign_add(1.0))) == 1
    assert float(add(tf.constant(2.0))) == 3
    assert float(add(tf.constant(2.0))) == 5
    with pytest.raises(ZeroDivisionError):
        section.execute(lambda: 1 // 0)
    with pytest.raises(ValueError, match="already running"):
        section.execute(lambda: section.execute(lambda: 1))
    assert section.execute(lambda: None) is None
