"""Modules that programs of TensorFlow 1 expect: gfile, graph_util, lookup, test and so on."""

from __future__ import annotations

import io
import os
import unittest

import numpy as np

from tutorials.recording import attempt, program


@program
def files_of_gfile(tf, folder):
    path = os.path.join(folder, "a.txt")
    with tf.gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
    with tf.gfile.Open(path, "a") as file:
        file.write("three\n")
    with tf.gfile.FastGFile(path, "rb") as file:
        everything = file.read()
    with tf.gfile.GFile(path) as file:
        lines = list(file)
    tf.gfile.MakeDirs(os.path.join(folder, "x/y"))
    tf.gfile.MkDir(os.path.join(folder, "z"))
    tf.gfile.Copy(path, os.path.join(folder, "x/b.txt"))
    again = attempt(lambda: tf.gfile.Copy(path, os.path.join(folder, "x/b.txt")))
    tf.gfile.Copy(path, os.path.join(folder, "x/b.txt"), overwrite=True)
    tf.gfile.Rename(os.path.join(folder, "x/b.txt"), os.path.join(folder, "x/c.txt"))
    found = [
        everything,
        again,
        sorted(tf.gfile.ListDirectory(folder)),
        tf.gfile.Glob(os.path.join(folder, "*.txt")),
        tf.gfile.Exists(path),
        tf.gfile.IsDirectory(folder),
        tf.gfile.Stat(path).length,
        sorted(
            (os.path.relpath(top, folder), sorted(folders), sorted(names))
            for top, folders, names in tf.gfile.Walk(folder)
        ),
        lines,
        tf.gfile.GFile(path).size(),
    ]
    tf.gfile.Remove(path)
    tf.gfile.DeleteRecursively(os.path.join(folder, "x"))
    return (
        found,
        sorted(tf.gfile.ListDirectory(folder)),
        [
            attempt(lambda: tf.gfile.GFile(path).read()),
            attempt(lambda: tf.gfile.Remove(path)),
            attempt(lambda: tf.gfile.ListDirectory(path)),
            attempt(lambda: tf.gfile.Stat(path)),
            attempt(lambda: tf.gfile.GFile(path, "q")),
            attempt(lambda: tf.gfile.Glob(os.path.join(folder, "none*"))),
        ],
    )


def _a_network(tf):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=[[1.0], [2.0]])
    b = tf.get_variable("b", initializer=[0.5], use_resource=True)
    y = tf.identity(tf.matmul(x, w) + b, name="y")
    loss = tf.reduce_mean(y, name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    return x, y


@program
def constants_for_variables(tf, folder):
    x, y = _a_network(tf)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run("train", {x: [[1.0, 1.0]]})
        before = session.run(y, {x: [[1.0, 2.0]]})
        frozen = tf.graph_util.convert_variables_to_constants(
            session, tf.get_default_graph().as_graph_def(), ["y"]
        )
    path = os.path.join(folder, "frozen.pb")
    with tf.gfile.GFile(path, "wb") as file:
        file.write(frozen.SerializeToString())
    with tf.Graph().as_default() as graph:
        read = tf.GraphDef()
        with tf.gfile.GFile(path, "rb") as file:
            read.ParseFromString(file.read())
        tf.import_graph_def(read, name="p")
        with tf.Session(graph=graph) as session:
            after = session.run("p/y:0", {"p/x:0": [[1.0, 2.0]]})
    return before, after, sorted((n.name, n.op) for n in frozen.node if n.op == "Const")


@program
def constants_for_some_variables(tf, folder):
    _a_network(tf)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        definition = session.graph.as_graph_def()
        only = tf.graph_util.convert_variables_to_constants(
            session, definition, ["y"], variable_names_whitelist=["w"]
        )
        without = tf.graph_util.convert_variables_to_constants(
            session, definition, ["y"], variable_names_blacklist=["w"]
        )
        wrong = attempt(
            lambda: tf.graph_util.convert_variables_to_constants(session, definition, ["none"])
        )

    def constants(graph_def):
        return [n.name for n in graph_def.node if n.op == "Const" and n.name in ("w", "b")]

    return constants(only), constants(without), wrong


@program
def sub_graphs(tf, folder):
    _a_network(tf)
    definition = tf.get_default_graph().as_graph_def()
    small = tf.graph_util.extract_sub_graph(definition, ["MatMul"])
    with tf.name_scope("s"):
        tf.constant(1.0, name="lonely")
    return (
        [n.name for n in small.node],
        attempt(lambda: tf.graph_util.extract_sub_graph(definition, ["none"])),
        attempt(lambda: tf.graph_util.extract_sub_graph(definition, "MatMul")),
        attempt(lambda: tf.graph_util.extract_sub_graph(3, ["MatMul"])),
    )


@program
def what_nodes_say(tf, folder):
    v = tf.Variable(1.0, name="v", use_resource=False)
    c = tf.constant([1, 2], name="c")
    s = tf.constant("s", name="s")
    definition = tf.get_default_graph()
    m = tf.matmul(tf.ones([2, 3], name="ones"), tf.ones([3, 1]), name="m")
    return [
        tf.graph_util.must_run_on_cpu(c.op),
        tf.graph_util.must_run_on_cpu(s.op.node_def),
        tf.graph_util.must_run_on_cpu(m.op),
        tf.graph_util.must_run_on_cpu(v.op, pin_variables_on_cpu=True),
        tf.graph_util.tensor_shape_from_node_def_name(definition, "m").as_list(),
        tf.graph_util.tensor_shape_from_node_def_name(definition, "c:0").as_list(),
    ]


@program
def splitting_strings(tf, folder):
    text = tf.constant(["hello world", "", "a b c"])
    found = [
        tf.string_split(text),
        tf.string_split(["a,b,,c"], delimiter=","),
        tf.string_split(["a,b,,c"], ",", skip_empty=False),
        tf.string_split(["a.b,c"], delimiter=".,"),
        tf.strings.split(text, sep=" ", result_type="SparseTensor"),
    ]
    with tf.Session() as session:
        return [session.run([one.indices, one.values, one.dense_shape]) for one in found], attempt(
            lambda: tf.string_split(["a"], delimiter=["a", "b"]) and None
        )


@program
def initialisers(tf, folder):
    found = {}
    made = {
        "zeros": tf.zeros_initializer(),
        "ones": tf.ones_initializer(tf.float32),
        "constant": tf.constant_initializer(3),
        "constant_of_list": tf.constant_initializer([1.0, 2.0, 3.0, 4.0]),
        "old_constant": tf.initializers.constant(2.5),
        "uniform": tf.random_uniform_initializer(-1.0, 1.0, seed=1),
        "normal": tf.random_normal_initializer(0.0, 2.0, seed=1),
        "truncated": tf.truncated_normal_initializer(stddev=0.1, seed=2),
        "glorot": tf.glorot_uniform_initializer(seed=3),
        "glorot_normal": tf.glorot_normal_initializer(seed=3),
        "scaling": tf.variance_scaling_initializer(seed=4),
        "unit_scaling": tf.uniform_unit_scaling_initializer(factor=1.5, seed=4),
        "orthogonal": tf.orthogonal_initializer(),
        "identity": tf.initializers.identity(gain=2.0),
        "he": tf.initializers.he_normal(seed=5),
        "lecun": tf.initializers.lecun_uniform(seed=6),
    }
    for name, one in made.items():
        if one:
            v = tf.get_variable(name, [2, 2], initializer=one)
            found[name] = [v.dtype.base_dtype.name, v.shape.as_list()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = {
            name: session.run(name + ":0")
            for name in (
                "zeros",
                "ones",
                "constant",
                "constant_of_list",
                "identity",
                "old_constant",
            )
        }
        q = session.run("orthogonal:0")
        return found, values, np.round(q @ q.T, 3).tolist(), made["constant"].get_config()["value"]


@program
def scopes_as_objects(tf, folder):
    with tf.variable_scope("a", initializer=tf.ones_initializer()) as scope:
        first = tf.get_variable("v", [2])
    with tf.variable_scope(scope, reuse=True):
        again = tf.get_variable("v", [2])
    made = tf.VariableScope(reuse=tf.AUTO_REUSE, name="b", initializer=tf.zeros_initializer())
    with tf.variable_scope(made):
        other = tf.get_variable("w", [1])
    scope.set_dtype(tf.float64)
    scope.set_use_resource(True)
    with tf.variable_scope(scope, auxiliary_name_scope=False) as inner:
        double = tf.get_variable("d", [1])
    scope.reuse_variables()
    return (
        [scope.name, scope.original_name_scope, scope.reuse, inner.name, made.name],
        [first is again, first.name, other.name, double.dtype.base_dtype.name],
        isinstance(scope, tf.VariableScope),
        [v.name for v in scope.trainable_variables()],
        [v.name for v in scope.global_variables()],
        attempt(lambda: tf.get_variable_scope().name),
        scope.get_variable is not None,
    )


@program
def gradient_errors(tf, folder):
    x = tf.constant([1.0, 2.0])
    with tf.Session():
        error = tf.test.compute_gradient_error(x, [2], x * x, [2])
        return bool(error < 1e-2)


@program
def ctc_losses(tf, folder):
    rng = np.random.RandomState(0)
    logits = rng.randn(4, 2, 5).astype(np.float32)
    blanks = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 4, 0], [2, 3])
    plain = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 2, 0], [2, 3])
    with tf.Session() as session:
        found = [
            attempt(lambda labels=labels: session.run(tf.nn.ctc_loss(labels, logits, [4, 3])))
            for labels in (plain, blanks)
        ]
        found.append(
            attempt(
                lambda: session.run(
                    tf.nn.ctc_loss_v2([[1, 2], [3, 3]], logits, [2, 1], [4, 4], blank_index=0)
                )
            )
        )
        found.append(
            attempt(
                lambda: session.run(
                    tf.nn.ctc_loss_v2([[1, 4], [3, 3]], logits, [2, 1], [4, 4], blank_index=-1)
                )
            )
        )
        found.append(
            attempt(
                lambda: session.run(
                    tf.nn.ctc_loss_v2([[0, 1], [3, 3]], logits, [2, 1], [4, 4], blank_index=0)
                )
            )
        )
        return found


@program
def tests_in_their_class(tf, folder):
    seen = []

    class Case(tf.test.TestCase):
        def setUp(self):
            super().setUp()
            seen.append("setup")

        def test_values(self):
            with self.test_session() as session:
                seen.append(session.run(tf.constant(2.0) * 3.0))
                seen.append(tf.constant(4.0).eval())
            with self.session(graph=tf.Graph()) as session:
                c = tf.constant([1.0, 2.0])
                self.assertAllEqual(c, [1.0, 2.0])
                self.assertAllClose(self.evaluate(c), [1.0, 2.000001])
                self.assertAllClose({"a": c}, {"a": [1.0, 2.0]})
            with self.cached_session():
                self.assertAllInRange(tf.range(3), 0, 2)
                self.assertAllInSet(tf.range(3), {0, 1, 2})
                self.assertAllGreater(tf.range(1, 3), 0)
                self.assertAllLess(tf.range(3), 3)
                self.assertAllGreaterEqual([1, 2], 1)
                self.assertAllLessEqual([1, 2], 2)

        def test_asserts(self):
            self.assertNear(1.0, 1.05, 0.1)
            self.assertArrayNear([1.0, 2.0], [1.0, 2.01], 0.02)
            self.assertNDArrayNear(np.ones(2), np.ones(2) + 0.001, 0.01)
            self.assertNotAllClose([1.0], [2.0])
            self.assertNotAllEqual([1.0], [2.0])
            self.assertShapeEqual(np.ones([2, 3]), tf.ones([2, 3]))
            self.assertStartsWith("abc", "ab")
            self.assertEmpty([])
            self.assertLen([1, 2], 2)
            self.assertAllCloseAccordingToType(np.float32(1), np.float32(1.0000001))
            self.assertProtoEquals('op: "A" name: "b"', tf.NodeDef(op="A", name="b"))
            self.assertItemsEqual([1, 2], [2, 1])

        def test_raising(self):
            with self.assertRaisesOpError("bad thing"):
                with self.test_session():
                    tf.Assert(False, ["bad thing"]).run()
            with self.assertRaisesWithPredicateMatch(ValueError, "Shapes|shape|Dimensions"):
                tf.zeros([2]) + tf.zeros([3])
            with self.assertRaisesWithPredicateMatch(tf.errors.OpError, lambda e: True):
                with self.test_session():
                    tf.Assert(False, ["x"]).run()

        def test_folder(self):
            path = os.path.join(self.get_temp_dir(), "f")
            with open(path, "w") as file:
                file.write("x")
            seen.append(tf.gfile.Exists(path))
            seen.append(os.path.isdir(tf.test.get_temp_dir()))

        def test_that_fails(self):
            self.assertAllClose([1.0, 2.0], [1.0, 3.0])

        def test_that_fails_too(self):
            self.assertAllEqual([1, 2], [1, 3])

        def test_that_fails_as_well(self):
            self.assertAllEqual(self.evaluate(tf.constant(1)), 2)

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Case)
    outcome = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    failed = sorted(case.id().rpartition(".")[2] for case, _ in outcome.failures)
    broken = sorted((c.id().rpartition(".")[2], text[-300:]) for c, text in outcome.errors)
    return (
        seen,
        failed,
        broken,
        outcome.testsRun,
        [
            tf.test.is_gpu_available(),
            tf.test.is_built_with_cuda(),
            tf.test.gpu_device_name(),
            callable(tf.test.main),
        ],
    )
