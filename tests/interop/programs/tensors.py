"""Feeds, fetches and tensors between tasks, of every element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.registry import Cluster, program

_TYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bool",
    "bfloat16",
]


@program()
def scalar_add(tf: Any, at: Cluster) -> Any:
    with at.session() as session:
        return session.run(tf.constant(2) + tf.constant(40))


@program()
def adds_on_each_task(tf: Any, at: Cluster) -> Any:
    total = tf.constant(1.0)
    for task in ("/job:ps/task:0", "/job:worker/task:1", "/job:worker/task:0"):
        with tf.device(task):
            total = total * 2.0 + tf.constant(3.0)
    with at.session() as session:
        return [session.run(total) for _ in range(3)]


@program()
def each_element_type_goes_round(tf: Any, at: Cluster) -> Any:
    found = {}
    with at.session() as session:
        for name in _TYPES:
            dtype = tf.as_dtype(name)
            value = np.array([[0, 1, 3], [1, 0, 2]]).astype(dtype.as_numpy_dtype)
            x = tf.placeholder(dtype, [None, 3])
            with tf.device("/job:ps"):
                y = tf.identity(x)
            with tf.device("/job:worker/task:1"):
                z = tf.reshape(y, [3, 2])
            got = session.run([x, y, z], {x: value})
            scalar = session.run(z[0, 1], {x: value})
            empty = session.run(tf.identity(y), {x: value[:0]})
            found[name] = (str(got[2].dtype), [np.asarray(g).astype("c16") for g in got])
            found[name] += (str(scalar), str(empty.dtype), empty.shape)
    return found


@program()
def quantized_types_go_round(tf: Any, at: Cluster) -> Any:
    found = {}
    with at.session() as session:
        for name in ("qint8", "quint8", "qint16", "quint16", "qint32"):
            dtype = tf.as_dtype(name)
            value = np.array([[0, 1, 3], [1, 0, 100]]).astype(dtype.as_numpy_dtype)
            x = tf.placeholder(dtype, [None, 3])
            with tf.device("/job:ps"):
                y = tf.identity(x)
                made = tf.quantization.quantize([-0.5, 0.5, 2.5], -1.0, 3.0, dtype)
            with tf.device("/job:worker/task:1"):
                z = tf.reshape(y, [3, 2])
                floats = tf.quantization.dequantize(*made)
            got = session.run([y, z, floats, *made], {x: value})
            found[name] = [(str(g.dtype), np.asarray(g).tolist()) for g in got[:2]]
            found[name] += [np.round(g, 4).tolist() for g in got[2:]]
    return found


@program()
def strings_go_round(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.string, None)
    with tf.device("/job:ps"):
        y = tf.identity(x)
    with tf.device("/job:worker/task:1"):
        z = tf.strings.join([y, y], separator="-")
    with at.session() as session:
        return [
            session.run([y, z], {x: value})
            for value in ("plain", b"\x00\xff", ["a", "", "x" * 5000], [["b"], ["c"]])
        ]


@program()
def large_tensors_go_round(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/job:ps"):
        y = x + 1
    with tf.device("/job:worker/task:1"):
        z = y * 2
    with at.session() as session:
        found = session.run(z, {x: np.arange(2_000_000, dtype=np.float32)})
    return [found.shape, found[:3], found[-3:], float(found.sum(dtype=np.float64))]


@program()
def any_tensor_can_be_fed(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        x = tf.placeholder_with_default(1.0, [])
        y = x + 1
        z = y * 10
    with at.session() as session:
        return [session.run(z), session.run(z, {y: 5.0}), session.run([x, z], {x: 2.0, y: 7.0})]


@program()
def fetches_of_any_nesting(tf: Any, at: Cluster) -> Any:
    a, b = tf.constant(1), tf.constant([2.0, 3.0])
    op = tf.no_op()
    with at.session() as session:
        return session.run({"a": a, "both": [a, (b, a)], "op": op})


@program()
def control_edges_cross_tasks(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", [], initializer=tf.zeros_initializer())
        bump = v.assign_add(1.0)
    with tf.device("/job:worker/task:1"), tf.control_dependencies([bump]):
        seen = tf.constant(5) + 1
    with tf.device("/job:ps"), tf.control_dependencies([seen]):
        last = v.read_value() if hasattr(v, "read_value") else tf.identity(v)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([seen, last]) for _ in range(3)]


@program()
def math_of_many_sorts(tf: Any, at: Cluster) -> Any:
    rng = np.random.RandomState(1)
    a = rng.rand(4, 6).astype(np.float32)
    with tf.device("/job:ps"):
        x = tf.constant(a)
        squares = tf.matmul(x, x, transpose_b=True)
    with tf.device("/job:worker/task:1"):
        found = [
            tf.reduce_sum(squares, 0), tf.nn.softmax(squares), tf.argmax(squares, 1),
            tf.transpose(squares), tf.concat([squares, squares], 1), tf.split(squares, 2),
            tf.gather(squares, [0, 2]), tf.one_hot([1, 2], 3), tf.shape(squares),
            tf.stack([squares, squares]), tf.cast(squares, tf.int32), tf.nn.relu(squares - 1),
            tf.where(squares > 1, squares, -squares), tf.nn.top_k(squares, 2), tf.tile([1, 2], [2]),
            tf.unique([3, 3, 5]), tf.range(5), tf.linspace(0.0, 1.0, 3), tf.squeeze([[1]]),
            tf.pad([[1]], [[1, 1], [0, 0]]), tf.reverse([1, 2, 3], [0]), tf.cumsum([1, 2, 3]),
            tf.clip_by_value(squares, 0.0, 1.0), tf.sigmoid(squares), tf.norm(squares),
        ]  # fmt: skip
    with at.session() as session:
        return [np.asarray(v) if not isinstance(v, (list, tuple)) else [np.asarray(e) for e in v]
                for v in session.run(found)]  # fmt: skip


@program()
def stateless_and_seeded_random(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        found = [
            tf.random.stateless_uniform([3], seed=[1, 2]),
            tf.random.stateless_normal([3], seed=[1, 2]),
            tf.random_uniform([3], seed=7),
            tf.random_normal([2, 2], seed=8),
            tf.truncated_normal([4], seed=9),
        ]
    with at.session() as session:
        return [session.run(found), session.run(found)]


@program()
def gradients_of_many_sorts(tf: Any, at: Cluster) -> Any:
    """Each is built by the client and computed on the task of what it belongs to."""
    random = np.random.RandomState(11)
    images = random.rand(2, 6, 6, 3).astype(np.float32)
    rows = random.rand(4, 6).astype(np.float32)
    nn = tf.nn
    with tf.device("/job:ps"):
        x, m = tf.constant(images), tf.constant(rows)
        kernel = tf.constant(random.rand(3, 3, 3, 2).astype(np.float32))
        deep = tf.constant(random.rand(2, 2, 3, 1).astype(np.float32))
    with tf.device("/job:worker/task:1"):
        normal = nn.fused_batch_norm(x, tf.ones([3]), tf.zeros([3]), is_training=True)[0]
        ys = [
            nn.conv2d(x, kernel, [1, 2, 2, 1], "SAME"),
            nn.depthwise_conv2d(x, deep, [1, 1, 1, 1], "VALID"),
            nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
            nn.avg_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "VALID"),
            normal * tf.range(3, dtype=tf.float32),
            nn.l2_normalize(x, -1),
            nn.lrn(x),
            tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], "REFLECT"),
            tf.transpose(x, [3, 1, 2, 0]),
            tf.image.resize_bilinear(x, [3, 4]),
            tf.space_to_depth(x, 2),
        ]
        zs = [
            nn.softmax(m) * tf.range(6, dtype=tf.float32),
            nn.log_softmax(m)[:, 1],
            nn.elu(m - 0.5),
            nn.selu(m),
            nn.softplus(m),
            nn.softsign(m),
            nn.relu6(m * 9),
            nn.leaky_relu(m - 0.5),
            tf.gather(m, [3, 0, 0]),
            tf.gather_nd(m, [[1, 2], [1, 2]]),
            tf.cumsum(m, 1) ** 2,
            tf.concat(tf.split(m, 3, 1)[::-1], 1)[:, :3],
            tf.stack(tf.unstack(m)[1:]),
            tf.tile(m, [2, 1]),
            tf.reduce_max(m, 1),
            tf.reduce_prod(m, 0),
            tf.reduce_logsumexp(m, 1),
            tf.norm(m, axis=1),
            tf.dynamic_stitch([[0, 2], [1, 3]], tf.dynamic_partition(m, [0, 1, 0, 1], 2))[:3],
            tf.segment_sum(m, [0, 0, 1, 2]),
            tf.unsorted_segment_max(m, [1, 0, 1, 1], 2),
            tf.matmul(m, m, transpose_a=True),
            tf.linalg.det(tf.matmul(m, m, transpose_b=True)),
            tf.einsum("ij,kj->ik", m, m),
            tf.where(m > 0.5, m * m, tf.sqrt(m)),
            m[1:3, ::2] ** 3,
            tf.clip_by_value(m, 0.2, 0.8),
            tf.maximum(m, tf.reverse(m, [0])),
            tf.erf(m),
            tf.atan2(m, m + 1),
            nn.sigmoid_cross_entropy_with_logits(labels=m, logits=m * 2),
            tf.lgamma(m + 1),
            m**m,
            nn.softmax_cross_entropy_with_logits(labels=nn.softmax(m), logits=m),
            nn.top_k(m, 2)[0],
            nn.dropout(m, keep_prob=1.0),
            tf.reshape(m, [2, 12])[1],
            tf.sin(m) / m,
            tf.scatter_nd([[1], [3]], m[:2], [5, 6]) ** 2,
            tf.linalg.cholesky(tf.matmul(m, m, transpose_b=True) + tf.eye(4)),
        ]
    pairs = [(y, x) for y in ys] + [(z, m) for z in zs]
    gradients = [tf.gradients(tf.reduce_sum(y * 1.5), source)[0] for y, source in pairs]
    dense = [tf.convert_to_tensor(g) for g in gradients]
    with at.session() as session:
        found = session.run([dense, [tf.reduce_sum(tf.abs(y)) for y in [*ys, *zs]]])
    return [list(found[0]), list(found[1])]
