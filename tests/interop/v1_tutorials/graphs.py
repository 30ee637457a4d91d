"""Graphs and what stands in them: shapes, text, names, nodes, scopes, devices, importing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from v1_tutorials.registry import Place, refused, tutorial


@tutorial
def dimensions(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 784])
    shape = x.get_shape()
    d, n = shape[1], shape[0]
    return [
        [d.value, n.value, type(d).__name__, repr(d), str(d), repr(n), str(n), int(d), f"{d}"],
        [str(shape), repr(shape), shape.as_list(), shape.ndims, len(shape), repr(shape.dims)],
        [repr(d + 1), repr(d * 2), repr(2 * d), repr(d // 3), repr(d - 4), repr(d % 5)],
        [repr(n + 1), repr(n * d), repr(1 + n), repr(d + d), repr(n // 2), repr(n - 1)],
        [
            d == 784,
            d != 784,
            d == n,
            n == n,
            n == None,  # noqa: E711
            d > 3,
            n > 3,
            d <= 784,
            d == tf.Dimension(784),
        ],
        [list(range(10))[tf.Dimension(2) :], [1] * tf.Dimension(2), True],
        [[repr(one) for one in shape], repr(shape[1:]), str(shape[-1:]), repr(shape[5:])],
        [str(tf.TensorShape(None)), repr(tf.TensorShape(None)), repr(tf.TensorShape([]))],
        [str(tf.TensorShape([])), str(tf.TensorShape([3])), str(tf.TensorShape([3, None]))],
        [
            repr(tf.TensorShape(None)[2]),
            repr(tf.TensorShape(None)[2:]),
            repr(tf.TensorShape(None).dims),
        ],
        [repr(shape.concatenate([4])), repr(shape.merge_with([3, None])), shape.is_fully_defined()],
        [repr(shape.with_rank(2)), str(shape.with_rank_at_least(1)), repr(tf.TensorShape(5))],
        [refused(lambda: shape.with_rank(3)), refused(lambda: shape.merge_with([1, 2]))],
        [refused(lambda: shape.assert_is_compatible_with([1])), refused(lambda: tf.Dimension(-1))],
        [
            refused(lambda: tf.Dimension("a")),
            refused(lambda: int(n)),
            refused(lambda: len(tf.TensorShape(None))),
        ],
        [
            refused(lambda: shape.assert_is_fully_defined()),
            refused(lambda: tf.TensorShape(None).as_list()),
        ],
        [refused(lambda: [] * n), refused(lambda: shape[7]), refused(lambda: bool(n > 3))],
        [
            repr(tf.TensorShape([tf.Dimension(2), 3])),
            tf.TensorShape([2, 3]) == [2, 3],
            tf.TensorShape([2]) != [2],
        ],
        [repr(d.merge_with(n)), repr(d.is_compatible_with(3)), refused(lambda: d.merge_with(3))],
        [
            shape.num_elements(),
            tf.TensorShape([2, 3]).num_elements(),
            tf.TensorShape([d, 2]).as_list(),
        ],
        [tf.dimension_value(d), tf.dimension_value(3), tf.dimension_at_index(shape, 1).value],
        [np.prod(tf.TensorShape([2, 3]).as_list()), np.zeros([tf.Dimension(2), 1]).shape],
        [(d / 2 if False else refused(lambda: d / 2)), repr(copy.copy(d)), repr(divmod(7, 2))],
        [
            tf.TensorShape([None]) == tf.TensorShape([None]),
            tf.TensorShape(None) == tf.TensorShape(None),
        ],
    ]


@tutorial
def shapes_in_calls(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 6], name="x")
    n = x.get_shape()[1]
    w = tf.Variable(tf.zeros([n, 2]))
    found = [
        tf.matmul(x, w),
        tf.reshape(x, [-1, n // 2, 2]),
        tf.reshape(x, [tf.shape(x)[0], n]),
        tf.zeros([n]),
        tf.ones(x.get_shape()[1:]),
        tf.fill([n, 2], 7.0),
        tf.constant(1.0, shape=[n]),
        tf.tile(tf.zeros([1, 2]), [n, 1]),
        tf.random_uniform([n, 3]),
        tf.truncated_normal([n.value, 3]),
        tf.placeholder(tf.float32, [None, n]),
        tf.one_hot([1, 2], n),
        tf.range(n),
        tf.slice(x, [0, 0], [-1, n]),
        tf.split(x, n, 1)[0],
        tf.unstack(x, axis=1)[5],
        tf.get_variable("v", [n, n]),
        tf.get_variable("u", x.shape[1:]),
        tf.Variable(tf.random_normal([int(n), 1])),
        tf.cast(n, tf.float32) * x,
        x / tf.to_float(n),
        tf.transpose(x),
        tf.squeeze(tf.zeros([1, n, 1])),
        tf.broadcast_to(tf.zeros([1, n]), [3, n]),
        tf.pad(x, [[0, 0], [n, 0]]),
        x[:, : n - 1],
        x[:, n - 1],
    ]
    unknown = tf.placeholder(tf.float32)
    unknown.set_shape([None, 3])
    found.append(unknown)
    return [[str(one), str(one.get_shape())] for one in found]


@tutorial
def text_of_what_is_built(tf: Any, at: Place) -> Any:
    a = tf.constant(3.0, dtype=tf.float32)
    b = tf.constant(4.0)
    total = a + b
    p = tf.placeholder(tf.string)
    q = tf.placeholder(tf.int64, [None, 2], name="q")
    vec = tf.random_uniform(shape=(3,))
    top = tf.nn.top_k([1.0, 2.0])
    unique = tf.unique([1, 1])
    return [
        [str(a), repr(a), str(total), repr(p), str(q), repr(q), str(vec), f"{b}"],
        [str(total.op.type), repr(total.op), repr(tf.float32), str(tf.float32), tf.float32.name],
        [repr(a.dtype), str(top), type(top).__name__, str(unique), str(unique.idx)],
        [str(tf.no_op()), repr(tf.no_op().type), a.op.name, a.name, repr(a.shape)],
        [str(tf.GraphKeys.GLOBAL_VARIABLES), tf.as_dtype("float"), str(tf.string)],
        [repr([a, b]), str({"x": total})],
    ]


@tutorial
def node_defs(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.control_dependencies([x]):
        y = tf.matmul(x, [[1.0], [2.0]], transpose_b=False, name="y")
    v = tf.Variable([1.0], name="v")
    node = y.op.node_def
    return [
        [node.name, node.op, list(node.input), sorted(node.attr), node.device],
        [node.attr["T"].type, node.attr["transpose_a"].b, x.op.node_def.attr["dtype"].type],
        y.op.op_def.name,
        [y.op.get_attr("T"), x.op.get_attr("shape").dim[1].size, v.op.get_attr("dtype")],
        [v.op.get_attr("container"), v.op.get_attr("shared_name"), v.value().op.get_attr("_class")],
        [y.op.get_attr("transpose_a"), refused(lambda: y.op.get_attr("none"))],
        [v.op.colocation_groups(), v.value().op.colocation_groups(), y.op.colocation_groups()],
        [y.value_index, [op.name for op in x.consumers()]],
    ]


@tutorial
def names_that_are_given(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.Variable([1.0, 2.0], name="v")
    found = [
        tf.add(x, 1.0, name="z"),
        tf.multiply(2.0, x, name="w"),
        x + 1,
        1 - x,
        x * 2 * 3,
        v + 1,
        x / 2,
        x // 2,
        x % 2,
        x**2,
        -x,
        abs(x),
        x > 1,
        x[0],
        x[0:1],
        tf.concat([x, x], 0),
        tf.stack([x, [1.0, 2.0]]),
        tf.reshape(x, [1, 2]),
        tf.reduce_sum(x),
        tf.reduce_mean(x, 0, name="mean"),
        tf.argmax(x),
        tf.expand_dims(x, 0),
        tf.split(x, 2)[1],
        tf.matmul([[1.0]], [[2.0]]),
        tf.cast(x, tf.int32),
        tf.zeros([3]),
        tf.zeros_like(x),
        tf.ones([2]),
        tf.ones_like(x),
        tf.one_hot([0], 2),
        tf.tile([1], [2]),
        tf.equal(x, 1.0),
        tf.where(x > 0, x, [0.0, 0.0]),
        tf.gather(x, [0]),
        tf.nn.relu(x),
        tf.nn.softmax(x),
        tf.nn.l2_loss(x),
        tf.squared_difference(x, 2.0),
        tf.maximum(x, 0.0),
        tf.clip_by_value(x, 0.0, 1.0),
        tf.nn.dropout(x, 0.5),
        tf.random_normal([2]),
        tf.random_uniform([2]),
        tf.truncated_normal([2]),
        tf.transpose([[1, 2]]),
        tf.square(x),
        tf.nn.bias_add([[1.0, 2.0]], x),
        tf.range(3),
        tf.fill([2], 1.0),
        tf.logical_and(True, False),
        tf.assign(v, [3.0, 4.0]),
        tf.convert_to_tensor(np.ones(2), name="given"),
        tf.identity([1.0]),
        tf.gradients(tf.reduce_sum(x * x), x)[0],
        tf.size(x),
        tf.shape(x),
        tf.rank(x),
        tf.unstack(x)[0],
        tf.sparse_to_dense([0], [2], 1),
        tf.string_join(["a", "b"]),
        tf.nn.embedding_lookup(v, [0]),
        tf.add_n([x, x]),
        tf.pad(x, [[0, 1]]),
    ]
    return [[one.name for one in found]]


@tutorial
def names_of_scopes(tf: Any, at: Place) -> Any:
    found = []
    with tf.name_scope("a") as scope:
        found += [scope, tf.constant(1).name]
        with tf.name_scope("b"):
            found.append(tf.constant(1, name="c").name)
            with tf.name_scope(None):
                found.append(tf.constant(1, name="top").name)
            with tf.name_scope(scope):
                found.append(tf.constant(1, name="back").name)
    with tf.name_scope("a"):
        found.append(tf.constant(1).name)
    with tf.name_scope(None, "default", [tf.constant(1)]) as scope:
        found.append(scope)
    with tf.op_scope([], "old"):
        found.append(tf.constant(1).name)
    with tf.variable_scope(None, "vs"):
        found += [tf.get_variable("v", []).name, tf.constant(1).name]
    with tf.variable_scope(None, "vs") as vs:
        found += [tf.get_variable("v", []).name, vs.name, vs.original_name_scope]
    g = tf.get_default_graph()
    return [
        found,
        [g.unique_name("a"), g.unique_name("a", mark_as_used=False), g.unique_name("new")],
        [
            refused(lambda: tf.constant(1, name="bad name")),
            refused(lambda: tf.constant(1, name="-x")),
        ],
        [g.get_name_scope(), g.version > 0, type(g.version).__name__],
    ]


@tutorial
def elements_of_a_graph(tf: Any, at: Place) -> Any:
    g = tf.get_default_graph()
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.identity(x, name="y")
    other = tf.Graph()
    with other.as_default():
        z = tf.constant(1.0, name="z")
    with g.container("box"):
        v = tf.Variable(1.0, name="v")
        inside = tf.FIFOQueue(1, tf.float32).queue_ref.op.get_attr("container")
    with tf.container("second"):
        q = tf.FIFOQueue(1, tf.float32)
    g.prevent_feeding(y)
    g.prevent_fetching(x.op)
    found = [
        [g.get_tensor_by_name("x:0") is x, g.get_operation_by_name("y") is y.op],
        [
            g.as_graph_element("x:0") is x,
            g.as_graph_element(x.op) is x.op,
            g.as_graph_element(v).name,
        ],
        [g.is_feedable(x), g.is_feedable(y), g.is_fetchable(x), g.is_fetchable(x.op), inside],
        [v.op.get_attr("container"), q.queue_ref.op.get_attr("container")],
        [refused(lambda: g.get_tensor_by_name("x")), refused(lambda: g.get_tensor_by_name("no:0"))],
        [
            refused(lambda: g.get_tensor_by_name("x:7")),
            refused(lambda: g.get_operation_by_name("x:0")),
        ],
        [refused(lambda: g.get_operation_by_name("no")), refused(lambda: g.as_graph_element(z))],
        [refused(lambda: g.as_graph_element(3)), refused(lambda: g.get_operation_by_name(3))],
        [refused(lambda: y + z), g.finalized, g.building_function, g.seed, z.graph is other],
    ]
    with at.session() as sess:
        found.append([refused(lambda: sess.run(y, {y: [1, 2]}))])
    g.finalize()
    found.append([g.finalized, refused(lambda: tf.constant(1))])
    return found


@tutorial
def collections_of_a_graph(tf: Any, at: Place) -> Any:
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    tf.add_to_collection("losses", a)
    tf.add_to_collection("losses", b)
    tf.add_to_collections(["one", "two"], a)
    w = tf.get_variable("w", [2], regularizer=lambda v: 0.5 * tf.reduce_sum(v))
    total = tf.add_n(tf.get_collection("losses"), name="total")
    tf.losses.add_loss(total)
    return [
        [t.name for t in tf.get_collection("losses")],
        [t.name for t in tf.get_collection("losses", scope="a")],
        sorted(tf.get_default_graph().get_all_collection_keys()),
        [t.name for t in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)],
        [t.name for t in tf.losses.get_losses()],
        tf.losses.get_total_loss().name,
        [v.name for v in tf.trainable_variables()],
        [tf.get_collection("none"), w.name],
    ]


@tutorial
def devices_that_are_asked_for(tf: Any, at: Place) -> Any:
    found = []
    with tf.device("/cpu:0"):
        found.append(tf.constant(1, name="a"))
        with tf.device("/job:ps/task:1"):
            found.append(tf.constant(1, name="b"))
        with tf.device(None):
            found.append(tf.constant(1, name="c"))
    with tf.device("/gpu:1"):
        found.append(tf.constant(1, name="d"))
    with tf.device(lambda op: "/job:worker/task:3" if op.type == "Const" else "/job:ps"):
        found += [tf.constant(1, name="e"), tf.no_op(name="f")]
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
        v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w")
        found += [v, w, v.value(), v.initializer, v + w]
    with tf.device("/device:CPU:0"), tf.device("/job:worker"):
        found.append(tf.constant(1, name="g"))
    with tf.device("CPU:0"):
        found.append(tf.constant(1, name="h"))
    with tf.colocate_with(v):
        found.append(tf.constant(1, name="i"))
    with tf.device("/job:worker/replica:0/task:0/device:GPU:0"):
        found.append(tf.constant(1, name="j"))
    with tf.device(tf.DeviceSpec(job="ps", device_type="CPU", device_index=0)):
        found.append(tf.constant(1, name="k"))
    return [
        [[one.name, one.device] for one in found],
        tf.DeviceSpec.from_string("/job:ps/task:1/cpu:0").to_string(),
        refused(lambda: tf.device("/nonsense:a").__enter__() and tf.constant(1)),
    ]


@tutorial
def importing_graphs(tf: Any, at: Place) -> Any:
    with tf.Graph().as_default() as first:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.add(x, 1.0, name="y")
        tf.Variable(2.0, name="v")
        message = first.as_graph_def()
    tf.constant(5.0, name="x")
    given = tf.constant(41.0, name="given")
    (y,) = tf.import_graph_def(message, {"x:0": given}, ["y:0"])
    second = tf.import_graph_def(message, name="import", return_elements=["x", "y:0", "v/read:0"])
    found = [
        [y.name, y.op.name, [one.name for one in second]],
        refused(lambda: tf.import_graph_def(message, name="")),
        refused(lambda: tf.import_graph_def("text")),
        tf.import_graph_def(message, name="scope"),
    ]
    found.append(sorted(op.name for op in tf.get_default_graph().get_operations()))
    with tf.Graph().as_default():
        tf.import_graph_def(message, name="")
        found.append(sorted(op.name for op in tf.get_default_graph().get_operations()))
        found.append([tf.constant(1, name="y").name])
    with at.session() as sess:
        found.append(sess.run([y, second[1]], {second[0].outputs[0]: 3.0}))
    return found


@tutorial
def meta_graphs(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    y = tf.matmul(x, w, name="y")
    tf.add_to_collection("outputs", y)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(message)
        (y,) = tf.get_collection("outputs")
        (v,) = tf.trainable_variables()
        with at.session() as sess:
            sess.run(tf.global_variables_initializer())
            return [
                sess.run("y:0", {"x:0": [[1, 2]]}),
                y.name,
                str(v),
                type(v).__name__,
                sess.run(v * 2, {v: [[5.0], [6.0]]}),
            ]


@tutorial
def conversions_that_are_refused(tf: Any, at: Place) -> Any:
    f, i, s = tf.constant([1.0]), tf.constant([1]), tf.constant(["a"])
    p = tf.placeholder(tf.float32)
    return [
        [refused(lambda: f + i), refused(lambda: tf.add(f, i)), refused(lambda: i * f)],
        [refused(lambda: tf.matmul([[1.0]], [[1]])), refused(lambda: tf.multiply(f, i))],
        [refused(lambda: tf.concat([f, i], 0)), refused(lambda: tf.stack([f, i]))],
        [refused(lambda: i + 1.5), refused(lambda: s + 1), refused(lambda: s - s)],
        [
            refused(lambda: np.array(f)),
            refused(lambda: np.asarray([f])),
            refused(lambda: float(f[0])),
        ],
        [refused(lambda: bool(f)), refused(lambda: len(f)), refused(lambda: list(p))],
        [refused(lambda: int(i[0])), refused(lambda: [1, 2][i[0]]), refused(lambda: not p)],
        [
            refused(lambda: tf.constant("a", tf.float32)),
            refused(lambda: tf.constant(1.5, tf.int32)),
        ],
        [refused(lambda: tf.constant([1, "a"])), refused(lambda: tf.constant([[1], [2, 3]]))],
        [refused(lambda: tf.constant(None)), refused(lambda: tf.constant([1, 2, 3], shape=[2]))],
        [
            refused(lambda: tf.convert_to_tensor(f, tf.int32)),
            refused(lambda: tf.convert_to_tensor(object())),
        ],
        [
            refused(lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))),
            refused(lambda: tf.add_n([])),
        ],
        [
            refused(lambda: tf.zeros([2]) + tf.zeros([3])),
            refused(lambda: tf.reshape(tf.zeros([3]), [2])),
        ],
        [
            refused(lambda: tf.nn.conv2d(f, f, [1, 1, 1, 1], "SAME")),
            refused(lambda: tf.split(tf.zeros([3]), 2)),
        ],
        [refused(lambda: tf.assign(f, 1.0)), refused(lambda: tf.Variable(1.0).assign([1.0, 2.0]))],
        [refused(lambda: tf.gradients(i, i)), refused(lambda: tf.gradients(f, [s]))],
        [
            refused(lambda: tf.Variable(p)),
            refused(lambda: tf.Variable()),
            refused(lambda: tf.get_variable("z")),
        ],
        [
            refused(lambda: tf.argmax(s)),
            refused(lambda: tf.sqrt(i)),
            refused(lambda: tf.nn.softmax(i)),
        ],
        [refused(lambda: tf.cast("a", tf.float32)), refused(lambda: tf.reduce_sum(s))],
        [refused(lambda: tf.one_hot([1.0], 2)), refused(lambda: tf.gather(f, [0.0]))],
        [
            refused(lambda: tf.placeholder(tf.float32, "ab")),
            refused(lambda: tf.placeholder("nonsense")),
        ],
        [refused(lambda: f.set_shape([2])), refused(lambda: f[1]), refused(lambda: f["a"])],
        [
            refused(lambda: f[0, 0]),
            refused(lambda: f[1.0]),
            refused(lambda: p.get_shape()[0].value),
        ],
        [refused(lambda: tf.transpose(f, [0, 1])), refused(lambda: tf.squeeze(tf.zeros([2]), [0]))],
        [f == f, f == i, f != f, hash(f) == hash(f), f in [i, f], {f: 1}[f]],
    ]
