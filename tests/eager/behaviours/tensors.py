"""Tensors: conversion, Python's protocols, and ops by odd arguments."""

# ruff: noqa: UP031, RUF005 - programs are written as users write them

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def ranges_of_floats(tf: Any) -> Any:
    return [
        tf.range(0.1, 1.1, 0.1),
        tf.range(0.0, 1.0, 0.1),
        tf.range(1.0, 0.0, -0.3),
        tf.range(0.0, 0.3, 0.1),
        tf.range(0.1, 0.7, 0.2),
        tf.range(np.float64(0.1), 1.1, 0.1),
        tf.range(5, dtype=tf.float16),
        tf.range(3.5),
        tf.function(lambda: tf.range(0.1, 1.1, 0.1))(),
    ]


@program
def ranges_fail(tf: Any) -> Any:
    return [
        error(lambda: tf.range(0, 3, 0)),
        error(lambda: tf.range(0, 3, -1)),
        error(lambda: tf.range(3, 0)),
        error(lambda: tf.range("a")),
    ]


@program
def tiles(tf: Any) -> Any:
    return [
        error(lambda: tf.tile([1, 2], [2.0])),
        error(lambda: tf.tile([1, 2], [2.5])),
        error(lambda: tf.tile([1, 2], [2, 3])),
        tf.tile([1, 2], tf.constant([2], tf.int64)),
    ]


@program
def axes(tf: Any) -> Any:
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    return [
        error(lambda: tf.reduce_mean(x, axis=False)),
        error(lambda: tf.reduce_mean(x, axis=True)),
        error(lambda: tf.reduce_sum(x, axis=1.0)),
        error(lambda: tf.reduce_sum(x, axis=[])),
        error(lambda: tf.reduce_sum(x, axis=2)),
        error(lambda: tf.reduce_max(x, axis=np.int64(1))),
        error(lambda: tf.reduce_sum(x, axis=tf.constant(1))),
        error(lambda: tf.reduce_sum(x, axis=(0, 1))),
        error(lambda: tf.reduce_sum(x, keepdims=True)),
        error(lambda: tf.argmax(x, axis=-1)),
        error(lambda: tf.concat([x, x], axis=2)),
        error(lambda: tf.squeeze(x, axis=0)),
    ]


@program
def tensor_equality(tf: Any) -> Any:
    a, b = tf.constant([1, 2]), tf.constant([1, 2])
    found = [bool(tf.reduce_all(a == b)), error(lambda: hash(a))]
    tf.compat.v1.disable_tensor_equality()
    try:
        v = tf.Variable(1)
        found += [
            a == b,
            a == a,
            a != b,
            error(lambda: {a: 1}[a]),
            v == v,
            v == 1,
            error(lambda: {v: 2}[v]),
            error(lambda: isinstance(hash(a), int)),
        ]
    finally:
        tf.compat.v1.enable_tensor_equality()
    return [*found, a == b, a == None, a != None]  # noqa: E711


@program
def comparisons_of_odd_things(tf: Any) -> Any:
    a = tf.constant([1, 2])
    return [
        error(lambda: a == [1, 2]),
        error(lambda: a == tf.constant([1, 2, 3])),
        error(lambda: a != tf.constant([1, 2, 3])),
        error(lambda: a == None),  # noqa: E711
        error(lambda: a == "x"),
        error(lambda: tf.constant("x") == "x"),
        error(lambda: a in [1, 2]),
        error(lambda: a == 1.5),
        error(lambda: tf.Variable(1) == tf.Variable(1)),
    ]


@program
def eyes(tf: Any) -> Any:
    return [
        tf.eye(2, batch_shape=tf.constant([2])),
        tf.eye(2, batch_shape=[1]),
        tf.eye(2, 3),
        tf.eye(tf.constant(2), num_columns=tf.constant(1), batch_shape=tf.constant([1, 1])),
        tf.function(lambda n: tf.eye(2, batch_shape=[n]))(tf.constant(2)),
    ]


@program
def eager_while_loops(tf: Any) -> Any:
    seen = []

    def body(i: Any, x: Any) -> Any:
        seen.append(type(i).__name__)
        return i + 1, x * 2.0

    found = tf.while_loop(lambda i, x: i < 3, body, [0, tf.constant(1.0)])
    other = error(lambda: tf.while_loop(lambda i: tf.less(i, 3), lambda i: i + 1, [0]))
    third = error(lambda: tf.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,)))
    fourth = error(
        lambda: tf.while_loop(
            lambda i: i < 3, lambda i: [i + 1], [tf.constant(0)], maximum_iterations=2
        )
    )
    return [seen, found, other, third, fourth, type(found).__name__, type(found[0]).__name__]


@program
def conds_on_python(tf: Any) -> Any:
    return [
        error(lambda: tf.cond(True, lambda: 1, lambda: 2)),
        error(lambda: tf.cond(tf.constant(False), lambda: 1, lambda: "a")),
        tf.case([(tf.constant(True), lambda: 3)], default=lambda: 4),
        error(lambda: tf.switch_case(1, [lambda: 5, lambda: 6])),
        tf.switch_case(tf.constant(1), [lambda: 5, lambda: 6]),
        error(lambda: tf.cond(1, lambda: 1, lambda: 2)),
        error(lambda: tf.cond(None, lambda: 1, lambda: 2)),
    ]


@program
def what_is_a_tensor(tf: Any) -> Any:
    ragged = tf.ragged.constant([[1], []])
    sparse = tf.sparse.from_dense([0, 1])
    return [
        tf.is_tensor(x)
        for x in (
            1,
            np.ones(1),
            tf.constant(1),
            tf.Variable(1),
            sparse,
            ragged,
            [tf.constant(1)],
            tf.TensorSpec([]),
            tf.TensorArray(tf.int32, 1),
        )
    ] + [
        isinstance(tf.constant(1), tf.Tensor),
        isinstance(tf.Variable(1), tf.Tensor),
        isinstance(sparse, tf.Tensor),
    ]


@program
def constants(tf: Any) -> Any:
    return [
        error(lambda: tf.constant([True, 1])),
        error(lambda: tf.constant([1, True])),
        error(lambda: tf.constant([1, 2.5])),
        error(lambda: tf.constant([1, "a"])),
        error(lambda: tf.constant(["a", 1])),
        error(lambda: tf.constant([[1], [1, 2]])),
        error(lambda: tf.constant(None)),
        error(lambda: tf.constant([None])),
        error(lambda: tf.constant(1.5, tf.int32)),
        error(lambda: tf.constant(1, tf.float32)),
        error(lambda: tf.constant("a", tf.int32)),
        error(lambda: tf.constant(300, tf.uint8)),
        error(lambda: tf.constant(-1, tf.uint8)),
        error(lambda: tf.constant(2**31)),
        error(lambda: tf.constant(2**40, tf.int32)),
        error(lambda: tf.constant(2**70)),
        error(lambda: tf.constant([2**31, 1])),
        error(lambda: tf.constant(True, tf.int32)),
        error(lambda: tf.constant(1, tf.bool)),
        error(lambda: tf.constant(1 + 2j)),
        error(lambda: tf.constant(1 + 2j, tf.float32)),
        error(lambda: tf.constant([], shape=[0, 2])),
        error(lambda: tf.constant([])),
        error(lambda: tf.constant(1, shape=[2, 2])),
        error(lambda: tf.constant([1, 2, 3], shape=[2, 2])),
        error(lambda: tf.constant([1, 2, 3, 4], shape=[2, 2])),
        error(lambda: tf.constant(b"a")),
        error(lambda: tf.constant({"a": 1})),
        error(lambda: tf.constant({1, 2})),
        error(lambda: tf.constant((1, 2))),
        error(lambda: tf.constant(range(3))),
        error(lambda: tf.constant(tf.constant([1, 2]), tf.float32)),
        error(lambda: tf.constant([tf.constant(1), 2])),
        error(lambda: tf.constant([np.float32(1.0), 2])),
        error(lambda: tf.constant(np.float64(1.0))),
        error(lambda: tf.constant([np.float64(1.0), np.float64(2.0)])),
        error(lambda: tf.constant([1.0, np.int64(2)])),
        error(lambda: tf.constant(np.int64(2))),
        error(lambda: tf.constant([np.int64(2), np.int64(3)])),
        error(lambda: tf.constant(np.bool_(True))),
        error(lambda: tf.constant(np.array(["a", "b"]))),
        error(lambda: tf.constant(np.array([1, None]))),
        error(lambda: tf.constant(np.array([1, 2], object))),
        error(lambda: tf.constant(np.uint32(3))),
        error(lambda: tf.constant(np.datetime64("2020-01-01"))),
        error(lambda: tf.constant(np.array([1.5]), tf.int32)),
        error(lambda: tf.constant(np.array([1]), tf.float32)),
        error(lambda: tf.constant(np.array([300]), tf.uint8)),
    ]


@program
def conversions(tf: Any) -> Any:
    return [
        error(lambda: tf.convert_to_tensor(np.array([1.5]), tf.int32)),
        error(lambda: tf.convert_to_tensor(np.array([1]), tf.float32)),
        error(lambda: tf.convert_to_tensor(np.array([1.0]), tf.float32)),
        error(lambda: tf.convert_to_tensor(np.float64(1.0), tf.float32)),
        error(lambda: tf.convert_to_tensor(np.int64(1), tf.int32)),
        error(lambda: tf.convert_to_tensor(1.0, tf.int32)),
        error(lambda: tf.convert_to_tensor(1, tf.float64)),
        error(lambda: tf.convert_to_tensor(tf.constant(1), tf.float32)),
        error(lambda: tf.convert_to_tensor(tf.Variable(1), tf.float32)),
        error(lambda: tf.convert_to_tensor([tf.constant(1), 2.5])),
        error(lambda: tf.convert_to_tensor([tf.constant(1.0), 2])),
        error(lambda: tf.convert_to_tensor(True, tf.float32)),
        error(lambda: tf.convert_to_tensor(1, dtype_hint=tf.float32)),
        error(lambda: tf.convert_to_tensor("a", dtype_hint=tf.float32)),
        error(lambda: tf.constant(1.0) + np.float64(2.0)),
        error(lambda: tf.constant(1.0) + np.array([1.0, 2.0])),
        error(lambda: tf.constant(1.0) + np.array([1, 2])),
        error(lambda: tf.constant(1) + np.array([1, 2])),
        error(lambda: tf.constant(1) + np.array([1.0, 2.0])),
        error(lambda: tf.constant(1) + np.int64(3)),
        error(lambda: tf.constant(1) + np.float32(3)),
        error(lambda: np.array([1.0, 2.0]) + tf.constant(1.0)),
        error(lambda: np.array([1.0, 2.0]) * tf.constant([1.0, 2.0], tf.float64)),
        error(lambda: np.float64(2.0) * tf.constant(1.0)),
        error(lambda: np.float32(2.0) * tf.constant(1.0)),
        error(lambda: tf.constant(1) + 2.5),
        error(lambda: 2.5 + tf.constant(1)),
        error(lambda: tf.constant(1.0) + 2),
        error(lambda: tf.constant(1.0) + True),
        error(lambda: tf.constant(1) + tf.constant(1.0)),
        error(lambda: tf.constant(1) + "a"),
        error(lambda: tf.constant("a") + "b"),
        error(lambda: tf.constant(1, tf.uint8) + 300),
        error(lambda: tf.constant(1, tf.uint8) - 2),
        error(lambda: tf.constant(1, tf.int8) * 200),
        error(lambda: tf.constant(5) / 2),
        error(lambda: tf.constant(5) // 2),
        error(lambda: tf.constant(-5) % 3),
        error(lambda: 2 ** tf.constant(3)),
        error(lambda: tf.constant(5) // 0),
        error(lambda: tf.constant([True]) & tf.constant([False])),
        error(lambda: ~tf.constant([True])),
        error(lambda: ~tf.constant([1])),
        error(lambda: tf.constant(1) & tf.constant(3)),
        error(lambda: abs(tf.constant(-1))),
        error(lambda: round(tf.constant(1.5))),
        error(lambda: divmod(tf.constant(5), 2)),
        error(lambda: tf.constant([1, 2]) @ tf.constant([1, 2])),
        error(lambda: tf.cast("a", tf.float32)),
        error(lambda: tf.cast(1.9, tf.int32)),
        error(lambda: tf.cast(np.array([1.9, -1.9]), tf.int32)),
        error(lambda: tf.math.add(1, 2.5)),
        error(lambda: tf.add(np.array([1, 2]), 2)),
        error(lambda: tf.matmul(np.ones([1, 1]), tf.ones([1, 1]))),
        error(lambda: tf.matmul(tf.ones([1, 1]), np.ones([1, 1]))),
        error(lambda: tf.stack([1, 2.0])),
        error(lambda: tf.stack([np.float64(1), tf.constant(1.0)])),
        error(lambda: tf.concat([[1], [2.0]], 0)),
        error(lambda: tf.where([True, False], 1, 2.0)),
        error(lambda: tf.maximum(1, 2.0)),
        error(lambda: tf.clip_by_value(tf.constant([1, 5]), 0, 2)),
        error(lambda: tf.clip_by_value(tf.constant([1, 5]), 0.0, 2.0)),
    ]


@program
def pythons_protocols(tf: Any) -> Any:
    return [
        error(lambda: bool(tf.constant([]))),
        error(lambda: bool(tf.constant([1]))),
        error(lambda: bool(tf.constant([1, 2]))),
        error(lambda: bool(tf.constant("a"))),
        error(lambda: bool(tf.constant(""))),
        error(lambda: int(tf.constant([3]))),
        error(lambda: int(tf.constant(3.7))),
        error(lambda: float(tf.constant(3))),
        error(lambda: len(tf.constant(1))),
        error(lambda: len(tf.constant([1, 2]))),
        error(lambda: list(tf.constant(1))),
        error(lambda: [1, 2, 3][tf.constant(1)]),
        error(lambda: list(range(tf.constant(2)))),
        error(lambda: tf.constant([1, 2])[2]),
        error(lambda: tf.constant([1, 2])[-3]),
        error(lambda: tf.constant([1, 2])[0:5]),
        error(lambda: tf.constant([1, 2])["a"]),
        error(lambda: tf.constant([1, 2])[1.0]),
        error(lambda: tf.constant([1, 2])[None, :]),
        error(lambda: tf.constant([1, 2])[[0, 1]]),
        error(lambda: tf.constant([1, 2])[[True, False]]),
        error(lambda: tf.constant([1, 2])[tf.constant([True, False])]),
        error(lambda: tf.constant(1)[0]),
        error(lambda: tf.constant([[1, 2]])[..., 0]),
        error(lambda: tf.constant([1, 2])[tf.constant(0)]),
        error(lambda: tf.constant([1, 2])[np.int64(0)]),
        error(lambda: "%d" % tf.constant(3)),
        error(lambda: f"{tf.constant(3.14159):.2f}"),
        error(lambda: f"{tf.constant([1, 2])}"),
        error(lambda: "{}".format(tf.constant("a"))),
        error(lambda: np.asarray(tf.constant([1.5]))),
        error(lambda: np.sum(tf.constant([1, 2]))),
        error(lambda: max(tf.constant([1, 5, 2]))),
        error(lambda: sum(tf.constant([1, 5, 2]))),
        error(lambda: sorted(tf.constant([3, 1, 2]))),
        error(lambda: 1 in tf.constant([1, 2])),
        error(lambda: tf.constant(2) in tf.constant([1, 2])),
        error(lambda: tf.constant([1]).item()),
        error(lambda: tf.constant([1]).tolist()),
        error(lambda: tf.constant([1]).foo),
        error(lambda: tf.constant([1, 2]).reshape([2, 1])),
        error(lambda: tf.constant([1, 2]).astype("float32")),
        error(lambda: tf.constant([[1, 2]]).T),
        error(lambda: tf.constant([1]).shape.as_list()),
        error(lambda: tf.constant([1]).name),
        error(lambda: tf.constant([1]).op),
        error(lambda: tf.constant([1]).graph),
        error(lambda: tf.constant([1]).eval()),
        error(lambda: tf.constant([1]).consumers()),
        error(lambda: tf.constant([1]).value_index),
        error(lambda: setattr(tf.constant([1]), "foo", 1)),
        error(lambda: tf.constant([1, 2]).__setitem__(0, 1)),
    ]


@program
def specs_and_shapes(tf: Any) -> Any:
    s = tf.TensorShape([2, None])
    return [
        str(s),
        repr(s),
        s.as_list(),
        s.rank,
        s[0],
        s[1],
        repr(s[:1]),
        len(s),
        list(s),
        s == [2, None],
        s == (2, None),
        str(tf.TensorShape(None)),
        repr(tf.TensorShape(None)),
        str(tf.TensorShape([])),
        repr(tf.TensorShape([])),
        str(tf.TensorShape([3])),
        s.is_compatible_with([2, 3]),
        s.is_fully_defined(),
        s.num_elements(),
        tf.TensorShape([2, 3]).num_elements(),
        str(s.merge_with([None, 3])),
        error(lambda: s.merge_with([3, 3])),
        str(s.concatenate([4])),
        str(s + [4]),
        str([4] + s),
        error(lambda: s.assert_is_compatible_with([3, 3])),
        error(lambda: s.assert_has_rank(3)),
        str(s.with_rank(2)),
        error(lambda: s.with_rank(3)),
        error(lambda: tf.TensorShape(None).as_list()),
        error(lambda: len(tf.TensorShape(None))),
        error(lambda: list(tf.TensorShape(None))),
        error(lambda: tf.TensorShape(-1)),
        error(lambda: tf.TensorShape([-1])),
        error(lambda: tf.TensorShape(["a"])),
        str(tf.TensorShape(3)),
        str(tf.TensorShape([np.int64(3)])),
        str(tf.TensorShape([None])),
        bool(tf.TensorShape(None)),
        bool(tf.TensorShape([])),
        hash(tf.TensorShape([1])) == hash(tf.TensorShape([1])),
        str(s.most_specific_compatible_shape([3, 4])),
        s.is_subtype_of(tf.TensorShape(None)),
        s.dims,
        f"{s}",
        repr(tf.TensorSpec([2, None], tf.float32)),
        repr(tf.TensorSpec([], tf.int32, name="x")),
        str(tf.TensorSpec(None)),
        repr(tf.SparseTensorSpec([2, None], tf.float32)),
        repr(tf.RaggedTensorSpec([2, None], tf.float32)),
        repr(tf.type_spec_from_value(tf.constant([1]))),
        tf.TensorSpec([2]) == tf.TensorSpec([2]),
        tf.TensorSpec([2]).is_compatible_with(tf.constant([1.0, 2.0])),
        repr(tf.float32),
        str(tf.float32),
        tf.float32.name,
        tf.float32 == "float32",
        tf.float32 == np.float32,
        tf.as_dtype("int32").size,
        tf.int32.max,
        tf.float32.as_numpy_dtype.__name__,
        repr(tf.as_dtype(np.dtype("U3"))),
    ]


@program
def integers_beyond_int64(tf: Any) -> Any:
    values = [2**64 - 1, (2**63,), [2**64 - 1, 1], [[1], [2**63]], [2**63, -1], [2**64, 1]]
    found = []
    for value in values:
        found.append(
            [error(lambda value=value, t=t: tf.constant(value, t)) for t in (None, tf.int64)]
        )
        found.append([tf.constant(value, tf.float32), tf.constant(value, tf.float64)])
        with tf.Graph().as_default():
            found.append(error(lambda value=value: tf.constant(value).dtype.name))
    return [found, [tf.constant(value, tf.uint64) for value in values[:4]]]


@program
def static_shapes_of_sparse_sums(tf: Any) -> Any:
    found = []

    @tf.function
    def sums(count: Any, axis: Any) -> Any:
        whole = tf.SparseTensor([[0, 0], [1, 2]], [0.5, 1.5], [2, 3])
        part = tf.SparseTensor(whole.indices, whole.values, tf.stack([count, 3]))
        for sparse in (whole, part):
            for along in (None, 0, 1, -1, [0, 1], [0, 0], [], axis):
                for keep in (False, True):
                    largest = tf.sparse.reduce_max(sparse, along, keepdims=keep)
                    found.append(str(largest.shape))
                    found.append(str(tf.sparse.reduce_sum(sparse, along, keepdims=keep).shape))
        return tf.unstack(tf.sparse.reduce_sum(whole, 1))

    return [sums(tf.constant(2, tf.int64), tf.constant(1)), found]


@program
def tables_in_graphs_and_their_names(tf: Any) -> Any:
    types = [tf.string, tf.int64]

    def entries() -> Any:
        return tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))

    with tf.Graph().as_default():
        with tf.name_scope("s"):
            fixed = tf.lookup.StaticHashTable(entries(), -1)
        named = tf.lookup.StaticHashTable(entries(), -1, name="mine")
        changing = tf.lookup.experimental.MutableHashTable(*types, -1, checkpoint=False)
        one, key = tf.constant([1], tf.int64), tf.constant(["a"])
        made = [table.lookup(key) for table in (fixed, fixed, named, changing)]
        made += [named.lookup(key, name="given"), named[key], named.size(), *fixed.export()]
        made += [changing.size(), changing.insert(key, one), changing.remove(key)]
        made += changing.export()
        names = [one.name for one in made]
        operations = one.graph.get_operations()
        names += [op.name for op in operations if op.type == "LookupTableImportV2"]
    table = tf.lookup.StaticHashTable(entries(), -1)
    sparse = tf.SparseTensor([[0, 1], [1, 0]], ["b", "c"], [2, 2])
    found = [tf.sparse.to_dense(table.lookup(sparse)), table[tf.ragged.constant([["a"], []])]]
    return [names, found[0], found[1].to_list()]


@program
def tensors_with_values_have_no_name(tf: Any) -> Any:
    x = tf.constant(1.0)
    return [
        hasattr(x, "name"),
        error(lambda: x.name, "Tensor.name is undefined when eager execution is enabled."),
        getattr(x, "name", "none"),
        error(lambda: tf.debugging.assert_equal(x, 2.0), "Condition x == y did not hold"),
    ]
