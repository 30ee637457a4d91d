"""Variables that begin with the values of a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("old/a", initializer=np.float32([1, 2]))
        tf.get_variable("old/b", initializer=np.float32(3))
        tf.get_variable("p", initializer=np.arange(10, dtype=np.float32).reshape(5, 2))
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, str(tmp_path / "m"))


def initialized():
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return {v.op.name: session.run(v).tolist() for v in tf.global_variables()}


def test_names_and_variables(checkpoint):
    with tf.variable_scope("new"):
        tf.get_variable("x", [2])
        y = tf.get_variable("y", [], use_resource=False)
    tf.train.init_from_checkpoint(checkpoint, {"old/a": "new/x", "old/b": y})
    assert initialized() == {"new/x": [1, 2], "new/y": 3}


@pytest.mark.parametrize("source", ["directory", "prefix"])
def test_scopes(checkpoint, tmp_path, source):
    with tf.variable_scope("new"):
        tf.get_variable("a", [2])
        tf.get_variable("b", [])
    given = tmp_path if source == "directory" else checkpoint
    tf.train.init_from_checkpoint(given, {"old/": "new/"})
    assert initialized() == {"new/a": [1, 2], "new/b": 3}


def test_everything(checkpoint):
    tf.get_variable("old/a", [2])
    tf.train.init_from_checkpoint(checkpoint, [("/", None)])
    assert initialized() == {"old/a": [1, 2]}


@pytest.mark.parametrize("by", ["name", "object", "parts"])
def test_a_partitioned_variable_takes_its_slices(checkpoint, by):
    whole = tf.get_variable("q", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    target = {"name": "q", "object": whole, "parts": list(whole)}[by]
    tf.train.init_from_checkpoint(checkpoint, {"p": target})
    assert initialized() == {
        "q/part_0": [[0, 1], [2, 3], [4, 5]],
        "q/part_1": [[6, 7], [8, 9]],
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"none": "x"}, "'none' is not in the checkpoint"),
        ({"old/a": "none"}, "the graph lacks"),
        ({"old/b": "x"}, r"has shape \[2\]; the tensor 'old/b'"),
        ({"old/": "none"}, "must end in"),
        ({"old/": "/"}, "would begin with the tensor 'old/x'"),
    ],
)
def test_what_cannot_be_is_refused(checkpoint, given, message):
    tf.get_variable("x", [2])
    with pytest.raises(ValueError, match=message):
        tf.train.init_from_checkpoint(checkpoint, given)
