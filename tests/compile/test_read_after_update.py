"""Who runs after an update of a reference variable sees it, as in TensorFlow's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tideflow.v1 as tf

READERS: dict[str, Callable[[Any, Any], Any]] = {
    "by a control edge": lambda read, update: _after(update, lambda: read * 10),
    "by another input": lambda read, update: read * _after(update, lambda: tf.constant(10)),
    "by the update's result": lambda read, update: (read + 0 * update) * 10,
}


def _after(update: Any, make: Callable[[], Any]) -> Any:
    with tf.control_dependencies([update]):
        return make()


@pytest.mark.parametrize("how", READERS)
def test_a_reader_after_an_update_sees_it(how: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=1, use_resource=False)
        read = tf.identity(v)
        update = tf.assign_add(v, 2)
        found = READERS[how](read, update)
        session.run(tf.global_variables_initializer())
        assert [session.run(found) for _ in range(2)] == [30, 50]


def test_a_reader_before_an_update_does_not_see_it() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=1, use_resource=False)
        found = tf.identity(v) * 10
        with tf.control_dependencies([found]):
            update = tf.assign_add(v, 2)
        session.run(tf.global_variables_initializer())
        assert [session.run([found, update]) for _ in range(2)] == [[10, 3], [30, 5]]
