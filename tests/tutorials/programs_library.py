"""Templates, tables, containers, tracebacks, failed imports, and control flow as functions."""

from __future__ import annotations

import os

import numpy as np

from tutorials.programs_checkpoints import keys
from tutorials.recording import attempt, program


@program
def templates(tf, folder):
    def layer(x, size):
        w = tf.get_variable("w", [3, size], initializer=tf.ones_initializer())
        tf.add_to_collection("seen", 1)
        return tf.matmul(x, w)

    shared = tf.make_template("shared", layer, size=2)
    x = tf.ones([1, 3])
    first, second = shared(x), shared(x * 2.0)
    other = tf.make_template("shared", layer, size=2)
    third = other(x)
    unique = tf.make_template("fixed", layer, unique_name_="mine", size=1)
    unique(x)
    again = tf.make_template("fixed", layer, unique_name_="mine", size=1)
    with tf.variable_scope("outer"):
        inner = tf.make_template("inner", layer, size=1)
        late = tf.make_template("late", layer, create_scope_now_=True, size=1)
    inner(x)
    late(x)

    def forgetful(x):
        return x * tf.get_variable(
            f"v{len(tf.global_variables())}", [], initializer=tf.ones_initializer()
        )

    bad = tf.make_template("bad", forgetful)
    bad(x)
    ctr = []

    def made(x):
        return x * tf.get_variable("c", [], initializer=tf.ones_initializer())

    def getter(getter, name, *args, **kwargs):
        ctr.append(name)
        return getter(name, *args, **kwargs)

    tf.make_template("g", made, custom_getter_=getter)(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run([first, second, third])
    return (
        [v.name for v in tf.global_variables()],
        values,
        [t.op.name for t in (first, second, third)],
        attempt(lambda: again(x).name),
        attempt(lambda: bad(x)),
        ctr,
        [
            shared.name,
            shared.func is layer,
            shared.variable_scope_name,
            other.variable_scope_name,
            shared.var_scope.name,
        ],
        [v.name for v in shared.variables],
        [v.name for v in shared.trainable_variables],
        [v.name for v in shared.global_variables],
        shared.local_variables,
        attempt(lambda: tf.make_template("a/b", layer, size=1)(x).name),
    )


@program
def templates_in_templates(tf, folder):
    def inner(x):
        return x + tf.get_variable("b", [], initializer=tf.zeros_initializer())

    def outer(x):
        one = tf.make_template("one", inner)
        two = tf.make_template("two", inner)
        return two(one(one(x)))

    t = tf.make_template("outer", outer)
    t(tf.constant(1.0))
    t(tf.constant(2.0))
    with tf.variable_scope("root", reuse=tf.AUTO_REUSE):
        t(tf.constant(2.0))
    return [v.name for v in tf.global_variables()], [
        op.name for op in tf.get_default_graph().get_operations() if "add" in op.name.lower()
    ]


@program
def tracebacks(tf, folder):
    def make():
        return tf.constant(1.0)

    frames = [frame for frame in make().op.traceback if frame.filename == __file__]
    return [[frame.name, frame.lineno == frame[1], len(frame)] for frame in frames]


@program
def names_of_containers(tf, folder):
    def queue():
        return tf.FIFOQueue(3, tf.float32, name="q").size()

    def reference():
        return tf.Variable(1.0, use_resource=False).initializer

    def resource():
        return tf.Variable(1.0, use_resource=True).initializer

    def run(name, make):
        graph = tf.Graph()
        with graph.as_default(), tf.Session() as session, graph.container(name):
            return attempt(lambda: session.run(make()))

    names = ("box", "_a", "a_", "a-b", "a.b", "a/b", "a b", "A1", "-a", ".a", "/a", "1a")
    return [[name, *(run(name, make) for make in (queue, reference, resource))] for name in names]


@program
def linear_algebra(tf, folder):
    x = tf.constant([[2.0, 1.0], [4.0, 5.0]])
    determinant, factors = tf.linalg.slogdet(x), tf.linalg.lu(x)
    with tf.Session() as session:
        fetched = session.run(determinant)
        values = session.run([determinant.log_abs_determinant, factors.lu, factors.p])
    return (
        [type(one).__name__ for one in (determinant, factors, tf.linalg.qr(x), tf.linalg.eigh(x))],
        [list(determinant._fields), list(factors._fields)],
        values,
        type(fetched).__name__,
    )


@program
def control_flow_of_the_second_kind(tf, folder):
    tf.enable_control_flow_v2()
    found = [tf.control_flow_v2_enabled()]
    try:
        g = tf.Graph()
        with g.as_default():
            p = tf.placeholder(tf.bool)
            v = tf.get_variable("v", initializer=2.0)
            c = tf.cond(p, lambda: v * 2.0, lambda: v - 1.0)
            i, s = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s * v), (0, 1.0))
            k = tf.case([(p, lambda: tf.constant(1))], default=lambda: tf.constant(2))
            sw = tf.switch_case(
                tf.cast(p, tf.int32), [lambda: tf.constant(10), lambda: tf.constant(20)]
            )
            f = tf.scan(lambda a, x: a + x, tf.range(4))
            m = tf.map_fn(lambda x: x * 2, tf.range(3))
            gs = tf.gradients(s + c, v)
            ops = sorted(
                {op.type for op in g.get_operations()}
                & {
                    "If",
                    "StatelessIf",
                    "While",
                    "StatelessWhile",
                    "Switch",
                    "Merge",
                    "Enter",
                    "Case",
                    "StatelessCase",
                }
            )
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                found += [
                    ops,
                    session.run([c, s, k, sw, gs[0]], {p: True}),
                    session.run([f, m, i]),
                    session.run([c, gs[0]], {p: False}),
                ]
    finally:
        tf.disable_control_flow_v2()
    found.append(tf.control_flow_v2_enabled())
    with tf.Graph().as_default() as g:
        c = tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(2))
        found.append(
            sorted({op.type for op in g.get_operations()} & {"If", "StatelessIf", "Switch"})
        )
    return found


@program
def nodes_of_failed_imports(tf, folder):
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0, name="a")
        tf.identity(a, name="b")
        good = graph.as_graph_def()

    def operations():
        return [op.name for op in tf.get_default_graph().get_operations()]

    def imported(definition, **kwargs):
        found = attempt(lambda: tf.import_graph_def(definition, **kwargs))
        return [found, operations()]

    def spoiled(change):
        bad = type(good)()
        bad.CopyFrom(good)
        change(bad.node[1])
        with tf.Graph().as_default():
            tf.constant(0, name="first")
            return [
                imported(bad, name="i"),
                imported(good, name="i"),
                imported(good, return_elements=["zz"], name="k"),
                imported(good, input_map={"zz": tf.constant(1.0)}, name="l"),
            ]

    return [
        spoiled(lambda node: node.input.__setitem__(0, "nowhere")),
        spoiled(lambda node: setattr(node, "op", "NoSuchOp")),
        spoiled(lambda node: setattr(node.attr["T"], "type", 3)),
        spoiled(lambda node: node.input.__setitem__(0, "a:3")),
        spoiled(lambda node: node.input.append("^gone")),
        spoiled(lambda node: setattr(node, "name", "a")),
    ]


@program
def tables_in_savers(tf, folder):
    table = tf.lookup.experimental.MutableHashTable(
        tf.string, tf.int64, -1, name="table", checkpoint=True
    )
    tf.get_variable("v", initializer=1.0)
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(table.insert(["a", "b"], [1, 2]))
        path = saver.save(session, os.path.join(folder, "t"))
    with tf.Session() as session:
        saver.restore(session, path)
        return session.run(table.lookup(["a", "b", "c"])), keys(tf, path)


@program
def tables(tf, folder):
    vocabulary = os.path.join(folder, "words.txt")
    with open(vocabulary, "w") as file:
        file.write("emerson\nlake\npalmer\n")
    words = tf.constant(["lake", "palmer", "who", "and"])
    made = [
        tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["lake", "who"], np.array([7, 8], np.int64)), -1
        ),
        tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                vocabulary,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            2,
        ),
    ]
    found = [table.lookup(words) for table in made]
    sizes = [table.size() for table in made]
    with tf.Session() as session:
        early = attempt(lambda: session.run(found[0]))
        session.run(tf.tables_initializer())
        return (
            early,
            session.run(found),
            session.run(sizes),
            [(table.key_dtype.name, table.value_dtype.name) for table in made],
        )


@program
def mutable_tables(tf, folder):
    experimental = tf.lookup.experimental
    table = experimental.MutableHashTable(tf.string, tf.int64, -1)
    put = [
        table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)),
    ]
    with tf.Session() as session:
        session.run(put)
        return (
            session.run(
                [
                    table.lookup(tf.constant(["a", "c"])),
                    table.size(),
                ]
            ),
            sorted(session.run(table.export()[0]).tolist()),
            session.run(table.remove(tf.constant(["a"]))),
            session.run(table.size()),
        )
