"""Branches, loops, queues and threads, as tutorials write them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from v1_tutorials.registry import Place, refused, tutorial


@tutorial
def branches(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable(1.0, name="v")
    y = tf.cond(x > 0, lambda: x * 2, lambda: x - 1)
    z = tf.cond(tf.less(x, 1.0), lambda: [x, v], lambda: [v, x])
    change = tf.cond(x > 0, lambda: tf.assign(v, x), lambda: tf.assign(v, -x))
    chosen = tf.case(
        {x < 0: lambda: tf.constant(-1), x > 5: lambda: tf.constant(1)},
        default=lambda: tf.constant(0),
        exclusive=True,
    )
    with at.session() as sess:
        sess.run(v.initializer)
        return [
            [sess.run([y, z, chosen], {x: one}) for one in (3.0, -3.0, 7.0)],
            [sess.run(change, {x: -4.0}), sess.run(v)],
            [
                y.name,
                [t.name for t in z],
                chosen.name,
                str(y.dtype),
                str(change.dtype),
            ],
            [
                refused(lambda: tf.cond(x > 0, lambda: 1, lambda: 1.0)),
                refused(lambda: tf.cond(x > 0, lambda: x, lambda: [x, x])),
            ],
            [
                refused(lambda: tf.cond(True, 1, 2)),
                refused(lambda: tf.cond(x, lambda: x, lambda: x)),
            ],
            [
                refused(lambda: tf.case([(x > 0, lambda: 1)], default=lambda: 1.0)),
                refused(lambda: tf.case(3)),
            ],
            [
                refused(lambda: tf.cond(x > 0, lambda: None, lambda: x)),
                refused(lambda: tf.cond(True, lambda: x, lambda: v)),
            ],
        ]


@tutorial
def functions_run_after_what_they_wait_for(tf: Any, at: Place) -> Any:
    """A function may wait for an operation of the graph around it, directly or two graphs out."""
    v = tf.Variable([1.0, 2.0], use_resource=True, name="v")
    counted = tf.Variable(0, use_resource=True, name="counted")
    changed = tf.scatter_update(v, [1], [5.0])
    count = counted.assign_add(1).op

    @tf.function
    def waits() -> Any:
        with tf.control_dependencies([changed]):
            return v + 0.0

    def counts() -> Any:
        with tf.control_dependencies([count]):
            return tf.identity(counted)

    tf.enable_control_flow_v2()
    try:
        asked = tf.placeholder_with_default(True, [])
        branch = tf.cond(asked, lambda: -changed, lambda: changed + 1.0)
        nested = tf.cond(asked, lambda: tf.cond(asked, counts, lambda: counted + 9), lambda: -1)
        loop = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + counts()), [0, 0])
    finally:
        tf.disable_control_flow_v2()
    called = waits()
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        found = [sess.run(nested), sess.run(loop), sess.run(counted)]
        found.append(sess.run(branch, {asked: False}))
        sess.run(v.initializer)
        return [*found, sess.run(called), sess.run(v)]


@tutorial
def arrays_of_another_type(tf: Any, at: Place) -> Any:
    """What is written must have the array's type; most of it is found when it is written."""
    x = tf.placeholder_with_default(tf.constant([1, 2]), [2])

    given = {"write": (0, x[0]), "unstack": (x,), "scatter": ([0, 1], x), "split": (x, [1, 1])}

    def fill(how: str) -> Any:
        array = tf.TensorArray("float32", 2)
        with at.session() as sess:
            return sess.run(getattr(array, how)(*given[how]).read(0))

    found = []
    for is_list in (False, True):
        (tf.enable_control_flow_v2 if is_list else tf.disable_control_flow_v2)()
        try:
            found += [refused(functools.partial(fill, how)) for how in given]
        finally:
            tf.disable_control_flow_v2()
    return [one if isinstance(one, str) else one[0] for one in found]


@tutorial
def loops(tf: Any, at: Place) -> Any:
    n = tf.placeholder(tf.int32, [], name="n")
    i = tf.constant(0)
    w = tf.Variable(2.0, name="w")
    fib = tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), [i, 0, 1])
    powers = tf.while_loop(lambda i, x: i < n, lambda i, x: [i + 1, x * w], [i, 1.0])
    (gradient,) = tf.gradients(powers[1], w)
    grown = tf.while_loop(
        lambda i, m: tf.less(i, 3),
        lambda i, m: [i + 1, tf.concat([m, m], axis=0)],
        [i, tf.ones([1, 2])],
        shape_invariants=[i.get_shape(), tf.TensorShape([None, 2])],
    )
    array = tf.TensorArray(tf.float32, size=3, clear_after_read=False)
    filled = tf.while_loop(
        lambda i, ta: i < 3, lambda i, ta: (i + 1, ta.write(i, tf.to_float(i) ** 2)), (0, array)
    )[1]
    with at.session() as sess:
        sess.run(w.initializer)
        return [
            sess.run([fib, powers, gradient, grown[1], filled.stack()], {n: 6}),
            [t.name for t in fib],
            str(grown[1]),
            sess.run(tf.map_fn(lambda x: x * x, np.array([1, 2, 3]))),
            sess.run(tf.scan(lambda a, x: a + x, np.array([1, 2, 3]))),
            sess.run(tf.foldl(lambda a, x: a + x, np.array([1, 2, 3]))),
            refused(lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1.0, [0])),
            refused(lambda: tf.while_loop(lambda i: i < 3, lambda i: (i, i), [0])),
            refused(
                lambda: tf.while_loop(
                    lambda i, m: i < 3,
                    lambda i, m: [i + 1, tf.concat([m, m], 0)],
                    [0, tf.ones([1])],
                )
            ),
            refused(lambda: tf.while_loop(3, lambda i: i, [0])),
            refused(lambda: tf.while_loop(lambda: True, list, [])),
        ]


@tutorial
def mandelbrot(tf: Any, at: Place) -> Any:
    Y, X = np.mgrid[-1.3:1.3:0.5, -2:1:0.5]
    Z = X + 1j * Y
    xs = tf.constant(Z.astype(np.complex64))
    zs = tf.Variable(xs)
    ns = tf.Variable(tf.zeros_like(xs, tf.float32))
    zs_ = zs * zs + xs
    not_diverged = tf.abs(zs_) < 4
    step = tf.group(zs.assign(zs_), ns.assign_add(tf.cast(not_diverged, tf.float32)))
    sess = at.interactive()
    try:
        tf.global_variables_initializer().run()
        for _ in range(4):
            step.run()
        return [ns.eval(), str(zs), str(not_diverged)]
    finally:
        sess.close()


@tutorial
def queues_by_hand(tf: Any, at: Place) -> Any:
    queue = tf.FIFOQueue(3, tf.int32, shapes=[[]], name="queue")
    init = queue.enqueue_many(([0, 10, 20],))
    x = queue.dequeue()
    put = queue.enqueue([x + 1])
    pairs = tf.FIFOQueue(4, [tf.float32, tf.string], [[], []], names=["number", "word"])
    both = pairs.enqueue({"number": 1.0, "word": "one"})
    taken = pairs.dequeue()
    shuffled = tf.RandomShuffleQueue(5, 1, tf.float32, [[2]], seed=3)
    padded = tf.PaddingFIFOQueue(5, tf.int32, [[None]])
    fill = [padded.enqueue([[1]]), padded.enqueue([[1, 2, 3]])]
    priority = tf.PriorityQueue(5, [tf.string], [[]])
    rank = [priority.enqueue([n, str(n)]) for n in (3, 1)]
    with at.session() as sess:
        sess.run(init)
        rows = [sess.run([x, put])[0] for _ in range(5)]
        sess.run(both)
        found = [
            rows,
            sess.run(queue.size()),
            sess.run(taken),
            queue.name,
            queue.dtypes,
            queue.names,
        ]
        for one in fill:
            sess.run(one)
        found.append(sess.run(padded.dequeue_many(2)))
        for one in rank:
            sess.run(one)
        found.append([sess.run(priority.dequeue()) for _ in range(2)])
        sess.run(queue.close())
        found += [refused(lambda: sess.run(put)), [refused(lambda: sess.run(x)) for _ in range(4)]]
        found += [refused(lambda: queue.enqueue([1.0]))]
        found += [
            [str(x), put.name, str(queue.size()), shuffled.name, str(shuffled.dequeue_many(2))]
        ]
        return [*found, str(queue.queue_ref), repr(queue.shapes)]


@tutorial
def queue_runners_and_coordinators(tf: Any, at: Place) -> Any:
    numbers = tf.train.range_input_producer(5, num_epochs=1, shuffle=False)
    one = numbers.dequeue()
    batch = tf.train.batch([one, one * 2], 2, allow_smaller_final_batch=True)
    names = tf.train.string_input_producer(["a", "b"], shuffle=False, num_epochs=1)
    word = names.dequeue()
    rows = []
    with at.session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        try:
            while not coord.should_stop():
                rows.append(sess.run(batch))
        except tf.errors.OutOfRangeError:
            rows.append("end")
        finally:
            coord.request_stop()
        words = [sess.run(word) for _ in range(2)]
        coord.join(threads)
    runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    return [
        rows,
        words,
        [runner.name for runner in runners],
        [v.name for v in tf.local_variables()],
        [str(t) for t in batch],
        coord.should_stop(),
    ]


@tutorial
def producer_and_consumer(tf: Any, at: Place) -> Any:
    queue = tf.FIFOQueue(10, "float")
    counter = tf.Variable(0.0)
    increment = tf.assign_add(counter, tf.constant(1.0))
    enqueue = queue.enqueue(tf.add(increment, 0.0))
    runner = tf.train.QueueRunner(queue, enqueue_ops=[enqueue])
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        coord = tf.train.Coordinator()
        threads = runner.create_threads(sess, coord=coord, start=True)
        first = [sess.run(queue.dequeue()) for _ in range(4)]
        coord.request_stop()
        coord.join(threads)
        return [first, runner.name, len(threads)]


@tutorial
def gradients_of_all_sorts(tf: Any, at: Place) -> Any:
    x = tf.Variable([1.0, 2.0], name="x")
    c = tf.constant(3.0)
    y = tf.reduce_sum(x**2 * c)
    e = tf.nn.embedding_lookup(x, [0, 0])
    found = tf.gradients(y, [x, c])
    (slices,) = tf.gradients(e, x)
    unused = tf.gradients(y, [tf.constant(1.0)])
    stopped = tf.gradients(tf.stop_gradient(x) * x, x)
    weighted = tf.gradients([y, x], x, grad_ys=[2.0, [1.0, 1.0]])
    (hess,) = tf.hessians(y, x)
    with at.session() as sess:
        sess.run(x.initializer)
        return [
            sess.run(found),
            sess.run(slices),
            type(slices).__name__,
            unused,
            sess.run([stopped, weighted, hess]),
        ]


@tutorial
def sparse_tensors_in_sessions(tf: Any, at: Place) -> Any:
    a = tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1.0, 2.0], dense_shape=[3, 4])
    p = tf.sparse_placeholder(tf.float32, name="p")
    q = tf.sparse_placeholder(tf.float32, shape=[3, 4], name="q")
    dense = tf.sparse_tensor_to_dense(p)
    value = tf.SparseTensorValue([[0, 1], [2, 3]], [5.0, 6.0], [3, 4])
    total = tf.sparse_reduce_sum(p)
    with at.session() as sess:
        fetched = sess.run(a)
        return [
            fetched,
            type(fetched).__name__,
            isinstance(fetched, tf.SparseTensorValue),
            sess.run([a, {"a": a}]),
            sess.run(dense, {p: value}),
            sess.run(dense, {p: fetched}),
            sess.run(dense, {p: ([[0, 0]], [9.0], [1, 2])}),
            sess.run(total, {p: (np.array([[0, 0]]), np.array([9.0]), np.array([1, 2]))}),
            sess.run(p, {p: value}),
            sess.run(tf.sparse_add(a, q), {q: value}),
            sess.run(a * 2.0),
            sess.run(a / tf.constant(2.0)),
            sess.run(tf.sparse_tensor_dense_matmul(a, tf.ones([4, 1]))),
            sess.run(tf.sparse_reorder(tf.SparseTensor([[1, 0], [0, 0]], [1, 2], [2, 2]))),
            sess.run(tf.sparse_concat(0, [a, a])),
            sess.run(tf.sparse_to_dense([[0, 1]], [2, 2], 7)),
            sess.run(
                tf.nn.embedding_lookup_sparse(
                    tf.ones([3, 2]),
                    tf.SparseTensor([[0, 0], [1, 0]], [1, 2], [2, 1]),
                    None,
                    combiner="sum",
                )
            ),
            refused(lambda: sess.run(a, {a: value})),
            sess.run(tf.sparse_tensor_to_dense(q) + 1, {q: value}),
            sess.run(q, {q: value}),
            a.eval(),
            sess.run(tf.sparse_transpose(a)),
            sess.run(tf.sparse_slice(a, [0, 0], [2, 3])),
            [
                str(a),
                repr(p),
                str(a.get_shape()),
                str(q.shape),
                str(p.get_shape()),
                a.dtype,
                str(a.op.name),
            ],
            [p.indices.name, p.values.name, p.dense_shape.name, q.indices.name, str(q.dense_shape)],
            [
                # Which of its placeholders TensorFlow names is left to chance.
                refused(lambda: sess.run(dense))[0],
                refused(lambda: sess.run(dense, {p: 1.0})),
                refused(lambda: a + 1.0),
            ],
            [
                refused(lambda: sess.run(dense, {p: ([[0, 0]], [9.0])})),
                a.graph is tf.get_default_graph(),
            ],
            refused(lambda: tf.SparseTensor([[0, 0]], [1.0], [3])),
        ]
