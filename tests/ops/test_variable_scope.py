"""Variables by name: get_variable, variable scopes, partitions and the global step."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.graph import Graph


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def test_scopes_name_variables_and_operations():
    with tf.variable_scope("a"):
        v = tf.get_variable("v", [1])
        with tf.variable_scope("b"):
            w = tf.get_variable("w", [1])
            with tf.name_scope("n"):
                x = tf.get_variable("x", [1])
                op = tf.identity(1.0, name="op").op
    assert [v.name, w.name, x.name] == ["a/v:0", "a/b/w:0", "a/b/x:0"]
    assert op.name == "a/b/n/op"


def test_reuse_returns_what_is_there():
    with tf.variable_scope("a"):
        v = tf.get_variable("v", [2])
    with tf.variable_scope("a", reuse=True):
        assert tf.get_variable("v") is v
        with tf.variable_scope("inner"):
            assert tf.get_variable_scope().reuse is True
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v", [2]) is v
        fresh = tf.get_variable("u", [1])
        assert tf.get_variable("u", [1]) is fresh
    with tf.variable_scope("a") as scope:
        scope.reuse_variables()
        assert tf.get_variable("v") is v


@pytest.mark.parametrize(
    ("reuse", "name", "shape", "dtype", "message"),
    [
        (None, "v", [2], None, "already exists"),
        (True, "missing", [2], None, "does not exist"),
        (True, "v", [3], None, "specified shape"),
        (True, "v", [2], tf.int32, "specified dtype"),
    ],
)
def test_what_reuse_forbids(reuse: Any, name: str, shape: Any, dtype: Any, message: str):
    with tf.variable_scope("a"):
        tf.get_variable("v", [2])
    with tf.variable_scope("a", reuse=reuse), pytest.raises(ValueError, match=message):
        tf.get_variable(name, shape, dtype)


def test_reentering_a_scope_object_takes_its_name_but_a_new_name_scope():
    with tf.variable_scope("a") as scope:
        pass
    with tf.variable_scope("outer"), tf.variable_scope(scope) as again:
        v = tf.get_variable("v", [1])
        op = tf.identity(1.0, name="op").op
        assert again.original_name_scope == "a/"
    assert v.name == "a/v:0"
    assert op.name == "outer/a/op"
    with (
        tf.variable_scope(scope, auxiliary_name_scope=False) as quiet,
        tf.name_scope(quiet.original_name_scope),
    ):
        assert tf.identity(1.0, name="op").op.name == "a/op"


def test_default_names_are_made_unique():
    names = []
    for _ in range(3):
        with tf.variable_scope(None, "layer"):
            names.append(tf.get_variable("w", [1]).name)
    assert names == ["layer/w:0", "layer_1/w:0", "layer_2/w:0"]
    with pytest.raises(TypeError, match="name_or_scope"), tf.variable_scope(None):
        pass


def test_defaults_are_inherited_and_overridden():
    with tf.variable_scope(
        "a", initializer=tf.constant_initializer(3.0), dtype=tf.float64, use_resource=False
    ):
        with tf.variable_scope("b", initializer=tf.ones_initializer()):
            v = tf.get_variable("v", [2])
        w = tf.get_variable("w", [2])
        x = tf.get_variable("x", [2], tf.float32, tf.zeros_initializer())
    assert v.dtype is tf.float64.as_ref
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = [value.tolist() for value in session.run([v, w, x])]
    assert values == [[1, 1], [3, 3], [0, 0]]


def test_what_initializers_may_be():
    a = tf.get_variable("a", initializer=[1, 2])
    b = tf.get_variable("b", initializer=tf.constant(2.5))
    c = tf.get_variable("c", [2], initializer=tf.ones_initializer)
    d = tf.get_variable("d", [], tf.int64)
    e = tf.get_variable("e", initializer=lambda: tf.ones([3]))
    assert [v.dtype for v in (a, b, c, d, e)] == [
        tf.int32,
        tf.float32,
        tf.float32,
        tf.int64,
        tf.float32,
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [v.tolist() for v in session.run([a, b, c, d, e])] == [
            [1, 2],
            2.5,
            [1, 1],
            0,
            [1, 1, 1],
        ]
    with pytest.raises(ValueError, match="fully defined"):
        tf.get_variable("f", [None, 2])
    with pytest.raises(ValueError, match="initializer"):
        tf.get_variable("g", [2], tf.complex64)


def test_custom_getters_nest():
    calls = []

    def getter(label: str) -> Any:
        def get(inner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
            calls.append((label, name))
            return inner(name, *args, **kwargs)

        return get

    with (
        tf.variable_scope("a", custom_getter=getter("outer")),
        tf.variable_scope("b", custom_getter=getter("inner")),
    ):
        v = tf.get_variable("v", [1])
    assert calls == [("inner", "a/b/v"), ("outer", "a/b/v")]
    assert v.name == "a/b/v:0"


def test_regularizers_add_losses():
    with tf.variable_scope("a", regularizer=lambda v: tf.reduce_sum(v * 2.0)):
        tf.get_variable("v", initializer=[1.0, 2.0])
        tf.get_variable("w", initializer=[1.0], regularizer=tf.no_regularizer)
    (loss,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert loss.name.startswith("a/v/Regularizer/")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(loss) == 6.0


def test_local_variables():
    v = tf.get_local_variable("v", [1])
    assert (tf.local_variables(), tf.global_variables(), v.trainable) == ([v], [], False)


def test_members_of_a_scope():
    with tf.variable_scope("a") as scope:
        v = tf.get_variable("v", [1])
    tf.get_variable("ab", [1])
    assert scope.global_variables() == scope.trainable_variables() == [v]
    assert tf.global_variables("a/") == [v]


def test_threads_have_their_own_scopes(graph: Graph):
    seen = []

    def work() -> None:
        with graph.as_default():
            seen.append(tf.get_variable_scope().name)

    with tf.variable_scope("a"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [""]


# ---- partitions


def test_a_partitioned_variable_is_one_value_in_parts():
    whole = np.arange(15, dtype=np.float32).reshape(5, 3)
    p = tf.get_variable("p", [5, 3], initializer=whole, partitioner=tf.fixed_size_partitioner(2))
    assert [part.name for part in p] == ["p/part_0:0", "p/part_1:0"]
    assert [part._get_save_slice_info().spec for part in p] == ["5 3 0,3:0,3", "5 3 3,2:0,3"]
    doubled = p.assign(whole * 2.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert (session.run(p.as_tensor()) == whole).all()
        assert (session.run(tf.convert_to_tensor(p) + 1.0) == whole + 1).all()
        session.run(doubled)
        assert (session.run(p[3]) == whole[3] * 2).all()
    again = tf.Variable.from_proto(list(p)[1].to_proto())
    assert again._get_save_slice_info().spec == "5 3 3,2:0,3"


def test_a_partitioned_variable_is_reused_whole():
    split = tf.fixed_size_partitioner(2)
    p = tf.get_variable("p", [4, 1], partitioner=split)
    with tf.variable_scope("", reuse=True):
        assert tf.get_variable("p", [4, 1], partitioner=split) is p
        with pytest.raises(ValueError, match="split"):
            tf.get_variable("p", [4, 1], partitioner=tf.fixed_size_partitioner(4))


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [
        (tf.fixed_size_partitioner(3, axis=1), [1, 3]),
        (tf.variable_axis_size_partitioner(1024), [4, 1]),
        (tf.variable_axis_size_partitioner(1024, max_shards=2), [2, 1]),
        (tf.min_max_variable_partitioner(max_partitions=8, min_slice_size=1024), [4, 1]),
        (tf.min_max_variable_partitioner(max_partitions=2, min_slice_size=1024), [2, 1]),
    ],
)
def test_partitioners(partitioner: Any, expected: list[int]):
    assert list(partitioner(shape=[64, 16], dtype=tf.float32)) == expected


# ---- the global step


def test_the_global_step():
    assert tf.train.get_global_step() is None
    step = tf.train.get_or_create_global_step()
    assert tf.train.get_or_create_global_step() is step is tf.train.get_global_step()
    assert (step.name, step.dtype, step.trainable) == ("global_step:0", tf.int64, False)
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign_add(step, 3))
        assert tf.train.global_step(session, step) == 3
    with pytest.raises(TypeError, match="integer"):
        tf.train.assert_global_step(tf.constant(1.0))
