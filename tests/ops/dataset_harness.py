"""Running a dataset that TensorFlow's client built: on TensorFlow, and on a server of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.v1 import train

# More elements than any test has.
MOST = 200


@functools.cache
def server() -> Any:
    """Return a server of ours, for all tests of a module."""
    return train.Server.create_local_server()


def stop_server() -> None:
    """End the server, if there is one."""
    if server.cache_info().currsize:
        server().stop()
        server.cache_clear()


class Failure(str):
    """The class of an error; two are equal whatever the message says."""

    def __new__(cls, error: Exception) -> Failure:
        made = super().__new__(cls, type(error).__name__)
        made.message = str(error)
        return made

    def __repr__(self) -> str:
        return f"<{self}: {self.message[:300]}>"


def collect(
    tf: Any, build: Callable[[], Any], target: str, most: int = MOST, one_shot: bool = False
) -> list[Any]:
    """Return the elements of a dataset; an error stands for the element that it took the place of.

    The first end or the second error is the last thing noted.
    """
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        dataset = build()
        make = tf.data.make_one_shot_iterator if one_shot else tf.data.make_initializable_iterator
        iterator = make(dataset)
        element = iterator.get_next()
        config = tf.ConfigProto(operation_timeout_in_ms=20_000)
        found: list[Any] = []
        errors = 0
        with tf.Session(target, config=config) as session:
            try:
                if not one_shot:
                    session.run(iterator.initializer)
            except tf.errors.OpError as error:
                return [Failure(error)]
            while len(found) < most and errors < 2:
                try:
                    found.append(session.run(element))
                except tf.errors.OutOfRangeError as error:
                    found.append("the end" if "End of sequence" in error.message else error.message)
                    break
                except tf.errors.OpError as error:
                    found.append(Failure(error))
                    errors += 1
    return found


def check(tf: Any, build: Callable[[], Any], most: int = MOST, one_shot: bool = False) -> list[Any]:
    """Assert that both give the same elements and errors in the same order; return them."""
    expected = collect(tf, build, "", most, one_shot)
    found = collect(tf, build, server().target, most, one_shot)
    assert len(found) == len(expected), f"ours {found}\nTensorFlow {expected}"
    for i, (ours, theirs) in enumerate(zip(found, expected)):
        tf.nest.map_structure(functools.partial(_same, f"element {i}"), ours, theirs)
    return expected


def _same(what: str, ours: Any, theirs: Any) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype, f"{what}: type {ours.dtype}, TensorFlow {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, TensorFlow {theirs.shape}"
    np.testing.assert_array_equal(ours, theirs, err_msg=what)
