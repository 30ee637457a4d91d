"""Sessions: what is fed, fetched, called and refused."""

from __future__ import annotations

import collections
import os
import tempfile
from typing import Any

import numpy as np

from v1_tutorials.registry import Place, refused, tutorial

Pair = collections.namedtuple("Pair", ["first", "second"])


@tutorial
def fetches_of_all_forms(tf: Any, at: Place) -> Any:
    a, b = tf.constant(10, name="a"), tf.constant([1.0, 2.0], name="b")
    s = tf.constant("text")
    with at.session() as sess:
        return [
            sess.run(a),
            sess.run(b),
            sess.run([a, b]),
            sess.run((a, b)),
            sess.run({"x": a, "y": [b, {"z": a}]}),
            sess.run(Pair(a, b)),
            sess.run(collections.OrderedDict([("k", a), ("j", b)])),
            sess.run("a:0"),
            sess.run("a"),
            sess.run(["a:0", a.op, b]),
            sess.run(tf.no_op()),
            sess.run([]),
            sess.run({}),
            sess.run([[], a]),
            sess.run(s),
            sess.run([s, tf.constant(["a", "b"])]),
            sess.run(tf.constant(True)),
            sess.run(tf.zeros([0, 2])),
            sess.run(tf.constant(1, tf.int64)),
            sess.run(tf.constant(2j)),
            sess.run(tf.nn.top_k(b, 1)),
            sess.run(tf.unique([3, 3, 4])),
            sess.run(tf.IndexedSlices(b, tf.constant([0, 1]))),
            sess.run(tf.nn.moments(b, [0])),
            sess.run(tf.unique_with_counts([3, 3])),
            sess.run(tf.setdiff1d([1, 2], [1])),
            sess.run(tf.linalg.svd([[2.0, 0.0], [0.0, 1.0]], compute_uv=False)),
            sess.run(tf.self_adjoint_eigvals([[2.0, 0.0], [0.0, 1.0]])),
            str(tf.nn.top_k(b, 1)),
        ]


@tutorial
def what_was_fed_is_fetched(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None], name="x")
    y = x + 1
    c = tf.constant(3, name="c")
    s = tf.placeholder(tf.string)
    with at.session() as sess:
        given = np.array([1.0, 2.0], np.float64)
        found = sess.run([x, y], {x: given})
        return [
            found,
            sess.run(x, {x: [4, 5]}),
            sess.run(x, {x: given}) is given,
            sess.run(c, {c: 8}),
            sess.run([c, c * 2], {c: 8}),
            sess.run(c, {"c:0": np.int32(4)}),
            sess.run(s, {s: "word"}),
            sess.run(s, {s: ["word", b"x"]}),
            sess.run({"x": x, "n": tf.no_op()}, {x: [1.0]}),
            sess.run(y, {y: [7.0]}),
            sess.run([x, x], {x: [1.0]}),
        ]


@tutorial
def feeds_of_all_forms(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    i = tf.placeholder(tf.int32, name="i")
    b = tf.placeholder(tf.bool, [])
    d = tf.placeholder_with_default([1.0, 2.0], [2])
    s = tf.placeholder(tf.string, [None])
    y = x * 2
    with at.session() as sess:
        return [
            sess.run(y, {x: [[1, 2], [3, 4]]}),
            sess.run(y, feed_dict={"x:0": np.ones((2, 2), np.int64)}),
            sess.run(i + 1, {i: 3}),
            sess.run(i + 1, {i: np.array([1, 2])}),
            sess.run(tf.cond(b, lambda: 1, lambda: 2), {b: True}),
            sess.run([d, d + 1]),
            sess.run(d + 1, {d: [5, 6]}),
            sess.run(s, {s: ["a", "bc"]}),
            sess.run(tf.string_join([s, s]), {s: np.array(["a", "bc"])}),
            sess.run(y, {y: np.zeros((2, 2))}),
            sess.run(y + 1, {y: np.zeros((2, 2))}),
            refused(lambda: sess.run(y)),
            refused(lambda: sess.run(y, {x: [1, 2]})),
            refused(lambda: sess.run(y, {x: "a"})),
            refused(lambda: sess.run(y, {x: [["a", "b"], ["c", "d"]]})),
            refused(lambda: sess.run(y, {x: x})),
            refused(lambda: sess.run(i, {i: 1.5})),
            refused(lambda: sess.run(i, {i: 2**40})),
            refused(lambda: sess.run(y, {"none:0": 1})),
            refused(lambda: sess.run(y, {3: 1})),
            refused(lambda: sess.run(y, {y.op: 1})),
            refused(lambda: sess.run(None)),
            refused(lambda: sess.run(3)),
            refused(lambda: sess.run("none:0")),
            refused(lambda: sess.run([y, None], {x: np.ones((2, 2))})),
            refused(lambda: sess.run(tf.Graph())),
            refused(lambda: sess.run(y, [1])),
            refused(lambda: sess.run(x.eval)),
            refused(lambda: y.eval({x: np.ones((2, 3))})),
        ]


@tutorial
def callables(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.placeholder(tf.float32, [], name="y")
    v = tf.Variable(1.0, name="v")
    total = x + y
    with at.session() as sess:
        sess.run(v.initializer)
        add = sess.make_callable(total, [x, y])
        grow = sess.make_callable(tf.assign_add(v, x), feed_list=[x])
        many = sess.make_callable([total, {"v": v}], [x, y])
        only = sess.make_callable(v.op)
        names = sess.make_callable("add:0", ["x:0", "y:0"])
        return [
            add(1.0, 2.0),
            add(np.float32(1), 5),
            grow(2.0),
            grow(2.0),
            many(1, 2),
            only(),
            names(3.0, 4.0),
            sess.make_callable(x, [x])(7),
            sess.make_callable(total, [x, y], accept_options=True)(1, 2, options=tf.RunOptions()),
            refused(lambda: add(1.0)),
            refused(lambda: add("a", 1.0)),
            refused(lambda: add([1.0, 2.0], 1.0)),
            refused(lambda: sess.make_callable("none:0")),
            refused(lambda: sess.make_callable(total, x)),
            callable(sess.make_callable(total, ["none:0"])),
            refused(lambda: sess.make_callable(3)),
        ]


@tutorial
def partial_runs(tf: Any, at: Place) -> Any:
    a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
    r1 = a + b
    r2 = r1 * c
    with at.session() as sess:
        handle = sess.partial_run_setup([r1, r2], [a, b, c])
        first = sess.partial_run(handle, r1, feed_dict={a: 1, b: 2})
        second = sess.partial_run(handle, r2, feed_dict={c: first * 3})
        return [first, second, type(handle).__name__]


@tutorial
def steps_that_fail(tf: Any, at: Place) -> Any:
    x = tf.placeholder(tf.float32, [None, None], name="x")
    y = tf.matmul(x, [[1.0], [2.0]], name="y")
    i = tf.placeholder(tf.int32, [], name="i")
    g = tf.gather([1.0, 2.0], i, name="g")
    decoded = tf.decode_raw(
        tf.placeholder_with_default(b"abc", [], name="raw"), tf.int32, name="decoded"
    )
    number = tf.string_to_number(tf.placeholder_with_default(b"abc", []), name="number")
    div = tf.div(5, i, name="div")
    numerics = tf.check_numerics(tf.log(tf.to_float(i)), "bad", name="numerics")

    def caught(fetch: Any, feed: Any) -> Any:
        try:
            sess.run(fetch, feed)
        except tf.errors.OpError as error:
            return [
                type(error).__name__,
                error.error_code,
                error.op.name,
                error.node_def.name,
                error.node_def.op,
                list(error.node_def.input),
            ]

    with at.session() as sess:
        return [
            caught(y, {x: [[1.0]]}),
            caught(g, {i: 7}),
            caught(decoded, None),
            caught(number, None),
            caught(div, {i: 0}),
            caught(numerics, {i: 0}),
            caught(y, None),
        ]


@tutorial
def sessions_that_are_refused(tf: Any, at: Place) -> Any:
    empty = at.session()
    found = [refused(lambda: empty.run([]))]
    empty.close()
    x = tf.constant(1.0, name="x")
    with tf.Graph().as_default():
        other = tf.constant(2.0, name="other")
    sess = at.session()
    found += [
        sess.run(x),
        refused(lambda: sess.run(other)),
        refused(lambda: other.eval(session=sess)),
        refused(lambda: x.eval()),
        refused(lambda: x.op.run()),
        sess.graph is tf.get_default_graph(),
        tf.get_default_session() is None,
        refused(lambda: tf.Session(graph="a")),
        refused(lambda: tf.Session(config="a")),
        refused(lambda: tf.Session(3)),
    ]
    with sess.as_default():
        found += [x.eval(), x.op.run(), tf.get_default_session() is sess]
    sess.close()
    found += [refused(lambda: sess.run(x)), sess.close()]
    with tf.Session(graph=tf.Graph()) as without:
        found.append(refused(lambda: without.run(tf.constant([]).op if False else [])))
        found.append(refused(lambda: without.run("x:0")))
    return found


@tutorial
def tensors_as_python_sees_them(tf: Any, at: Place) -> Any:
    a = tf.constant([[1, 2], [3, 4]])
    rows = [row.name for row in tf.unstack(a)]
    with at.session() as sess, sess.as_default():
        return [
            rows,
            a[0].eval(),
            a[:, 1].eval(),
            a[..., tf.newaxis].shape.as_list(),
            a[-1, ::-1].eval(),
            (a + np.array([[1, 1], [1, 1]])).eval(),
            (np.ones((2, 2), np.int32) + a).eval(),
            (a / 2).eval(),
            (a // 2).eval(),
            (7 % a).eval(),
            (a**2).eval(),
            (a @ a).eval(),
            (a > 2).eval(),
            tf.boolean_mask(a, a > 2).eval(),
            (~(a > 2)).eval(),
            tf.div(a, 2).eval(),
            tf.truediv(a, 2).eval(),
            tf.to_float(a).eval(),
            tf.cast(a, "float64").eval(),
            tf.reduce_sum(a, 1, keep_dims=True).eval(),
            tf.reduce_max(a, axis=0).eval(),
            tf.reduce_all(a > 0).eval(),
            tf.shape(a).eval(),
            tf.Print(a, [a], "a: ").eval(),
            tf.reverse(a, [1]).eval(),
            tf.argmax(a, axis=1).eval(),
            tf.unstack(a)[1].eval(),
            tf.constant("abc").eval(),
        ]


@tutorial
def strings_and_bytes(tf: Any, at: Place) -> Any:
    words = tf.constant(["Hello", "wörld", "x"])
    p = tf.placeholder(tf.string, [])
    with at.session() as sess:
        return sess.run(
            [
                words,
                words[0],
                tf.string_join(["a", p], separator="-"),
                tf.substr(words, 0, 1),
                tf.as_string([1.5, 2.0], precision=1),
                tf.string_to_number(["1.5", "2"]),
                tf.string_to_hash_bucket_fast(words, 10),
                tf.reduce_join(words, 0),
                tf.encode_base64(p),
                tf.decode_raw(p, tf.uint8),
                tf.regex_replace(words, "l", "L"),
                tf.equal(words, "x"),
                tf.strings.length(words),
                tf.strings.lower(words),
                tf.gather(words, [1]),
                tf.stack([p, "z"]),
            ],
            {p: "é"},
        )


@tutorial
def random_numbers_with_seeds(tf: Any, at: Place) -> Any:
    tf.set_random_seed(7)
    a = tf.random_uniform([2])
    b = tf.random_normal([2], seed=3)
    c = tf.truncated_normal([2], seed=3)
    d = tf.random_shuffle(tf.range(5), seed=1)
    e = tf.multinomial([[1.0, 1.0]], 4, seed=1)
    f = tf.random_uniform([3], 0, 10, dtype=tf.int32)
    h = tf.nn.dropout(tf.ones([6]), 0.5, seed=2)
    k = tf.random_crop(tf.range(9), [2], seed=4)
    with at.session() as sess:
        first = [sess.run([a, b, c, d, e, f, h, k]) for _ in range(2)]
    with at.session() as sess:
        return [first, sess.run([a, b])]


@tutorial
def datasets_of_files(tf: Any, at: Place) -> Any:
    """Files one after the other and in turns, of the names that a dataset gives, and headers."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in "ab"]
        for name in names:
            with tf.io.TFRecordWriter(name + ".records") as writer:
                for i in range(3):
                    writer.write(f"{name[-1]}{i}".encode())
            with open(name, "w") as file:
                file.write(f"-{name[-1]}0{name[-1]}1+")
        records = [name + ".records" for name in names]
        given = tf.data.Dataset.from_tensor_slices(records)
        made = [
            tf.data.TFRecordDataset(records, num_parallel_reads=2),
            tf.data.TFRecordDataset(records, None, 1000),
            tf.data.TFRecordDataset(given),
            tf.data.FixedLengthRecordDataset(names, 2, 1, 1),
            tf.data.FixedLengthRecordDataset(names, 2, header_bytes=1, footer_bytes=1),
            tf.data.TextLineDataset(names, buffer_size=100, num_parallel_reads=2),
        ]
        following = [tf.data.make_one_shot_iterator(one.batch(9)).get_next() for one in made]
        with at.session() as sess:
            return [sess.run(one).tolist() for one in following]


@tutorial
def ragged_tensors_in_sessions(tf: Any, at: Place) -> Any:
    """Ragged tensors are fed and fetched as values with rows of their own."""
    ragged = tf.ragged
    x = ragged.placeholder(tf.float32, 1, [], name="x")
    deep = ragged.placeholder(tf.int32, 2, [2])
    doubled = x * 2.0
    given = ragged.constant_value([[1.0, 2.0], [], [3.0]], np.float32)
    nested = ragged.constant_value([[[[1, 2]], []], []], np.int32, inner_shape=(2,))
    with at.session() as sess:
        found = sess.run({"two": doubled, "one": [x]}, {x: given})
        inner = sess.run(deep, {deep: nested})
        sums = sess.run(tf.reduce_sum(doubled, 1), {x: given})
        return [
            [x.flat_values.name, x.row_splits.name, deep.nested_row_splits[1].name],
            [x.shape.as_list(), deep.shape.as_list(), ragged.placeholder(tf.int32, 0).name],
            [type(found["two"]).__name__, found["two"].to_list(), found["one"][0].to_list()],
            [str(found["two"]), repr(found["two"]), found["two"].shape, str(found["two"].dtype)],
            [inner.to_list(), inner.ragged_rank, inner.shape, inner.flat_values],
            [s.tolist() for s in inner.nested_row_splits],
            sums,
            sess.run(ragged.constant([[1], [2, 3]])).to_list(),
            ragged.constant_value([1, 2]).tolist(),
            ragged.constant_value([[1], []], row_splits_dtype="int32").row_splits.dtype.name,
            ragged.constant_value([[], []]).to_list(),
            refused(lambda: ragged.RaggedTensorValue([1], np.array([0, 1]))),
            refused(lambda: ragged.RaggedTensorValue(np.array([1]), [0, 1])),
            refused(lambda: ragged.constant_value([[1], 2])),
        ]
