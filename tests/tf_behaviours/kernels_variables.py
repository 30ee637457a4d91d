"""Variables, their scopes, their initialization and their changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

VARIABLES = "python/kernel_tests/variables/variables_test.py"
OPS = "python/kernel_tests/variables/variable_ops_test.py"
SCOPES = "python/kernel_tests/variables/variable_scope_test.py"
RESOURCES = "python/kernel_tests/variables/resource_variable_ops_test.py"
DENSE = "python/kernel_tests/variables/dense_update_ops_test.py"
SCATTER = "python/kernel_tests/array_ops/scatter_ops_test.py"
PARTITIONED = "python/kernel_tests/variables/partitioned_variables_test.py"


@behaviour(VARIABLES, "A variable has its name, shape, type and initial value, and starts unset.")
def made(tf: Any) -> Any:
    v = tf.Variable(0.0)
    w = tf.Variable([[1, 2]], name="w", dtype=tf.int64)
    with tf.Session() as session:
        unset = error(lambda: session.run(v), "Attempting to use uninitialized value")
        session.run(tf.global_variables_initializer())
        return [
            [v.name, v.op.name, v.op.type, v.dtype, str(v.shape), v.initializer.name],
            [w.name, w.dtype.base_dtype.name, w.get_shape().as_list(), w.initial_value.name],
            unset,
            session.run([v, w, w.initial_value]),
            [v.graph is tf.get_default_graph(), v.device, str(v)],
        ]


@behaviour(VARIABLES, "A variable may start from another's initialized value.")
def dependent_starts(tf: Any) -> Any:
    a = tf.Variable(tf.constant(3.0), name="a")
    b = tf.Variable(a.initialized_value() * 2.0, name="b")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run([a, b])


@behaviour(
    VARIABLES, "assign, assign_add and assign_sub change a variable, by methods or functions."
)
def assignments(tf: Any) -> Any:
    v = tf.Variable(0.0)
    steps = [
        v.assign(4.0),
        v.assign_add(1.5),
        v.assign_sub(0.5),
        tf.assign(v, v * 2.0),
        v.count_up_to,
    ]
    with tf.Session() as session:
        session.run(v.initializer)
        found = [session.run(step) for step in steps[:4]]
        return [*found, session.run(v), steps[0].dtype, error(lambda: v.assign([1.0, 2.0]))]


@behaviour(VARIABLES, "A value of another shape can be assigned where shapes are not validated.")
def shapes_not_validated(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], validate_shape=False)
    change = tf.assign(v, [[3.0], [4.0], [5.0]], validate_shape=False)
    w = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [
            str(v.shape),
            session.run(change),
            session.run(v),
            error(lambda: tf.assign(w, [1.0])),
        ]


@behaviour(VARIABLES, "count_up_to counts and ends with OutOfRangeError.")
def counting(tf: Any) -> Any:
    v = tf.Variable(0)
    up = v.count_up_to(2)
    with tf.Session() as session:
        session.run(v.initializer)
        return [session.run(up), session.run(up), error(lambda: session.run(up)), session.run(v)]


@behaviour(VARIABLES, "Variables take part in arithmetic from either side, and can be sliced.")
def arithmetic(tf: Any) -> Any:
    v = tf.Variable([2.0, 3.0])
    made = [v + 1.0, 1.0 - v, v * v, 6.0 / v, v**2.0, 2.0**v, -v, abs(-v), v > 2.0, v[1], v % 2.0]
    made.append(tf.matmul([[1.0, 1.0]], tf.expand_dims(v, 1)))
    with tf.Session() as session:
        session.run(v.initializer)
        return session.run(made)


@behaviour(VARIABLES, "Collections hold variables: global, trainable, local and others.")
def collections(tf: Any) -> Any:
    a = tf.Variable(1.0, name="a")
    tf.Variable(1.0, name="b", trainable=False)
    tf.Variable(1.0, name="c", collections=["own"])
    tf.Variable(1.0, name="d", collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    tf.Variable(1.0, name="e", collections=["own", "own"], trainable=True)
    return [
        [v.name for v in found]
        for found in (
            tf.global_variables(),
            tf.trainable_variables(),
            tf.local_variables(),
            tf.get_collection("own"),
            tf.all_variables(),
            tf.global_variables("a"),
        )
    ] + [a in set(tf.global_variables())]


@behaviour(VARIABLES, "What is not initialized is reported, and can be asserted.")
def reports(tf: Any) -> Any:
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    report = tf.report_uninitialized_variables()
    check = tf.assert_variables_initialized([v, w])
    is_set = tf.is_variable_initialized(v)
    with tf.Session() as session:
        found = [list(session.run(report)), session.run(is_set), error(lambda: session.run(check))]
        session.run(v.initializer)
        found += [list(session.run(report)), session.run(is_set)]
        session.run(w.initializer)
        return [*found, list(session.run(report)), session.run(check)]


@behaviour(VARIABLES, "A variable is made from its message, with slices, collections and parts.")
def messages(tf: Any) -> Any:
    v = tf.Variable([1.0], name="v", trainable=False)
    message = v.to_proto()
    again = tf.Variable.from_proto(message)
    with tf.Session() as session:
        session.run(again.initializer)
        return [
            [message.variable_name, message.initializer_name, message.snapshot_name],
            message.initial_value_name,
            message.trainable,
            message.is_resource,
            again.name,
            session.run(again),
        ]


@behaviour(VARIABLES, "A variable refuses starts of no kind, and functions need a type or run.")
def refused_starts(tf: Any) -> Any:
    return [
        error(lambda: tf.Variable()),
        error(lambda: tf.Variable(None)),
        error(lambda: tf.Variable(tf.placeholder(tf.float32)), "initial_value must have a shape"),
        error(lambda: tf.Variable(lambda: 3.0, dtype=tf.int32)),
        error(lambda: tf.Variable(1.0, collections="variables")),
        error(lambda: bool(tf.Variable(1.0))),
        error(lambda: list(tf.Variable(1.0))),
        error(lambda: tf.Variable([1.0, 2.0])[5:].shape),
    ]


@behaviour(VARIABLES, "A function as initial value is called once, under the variable's own scope.")
def functions_as_starts(tf: Any) -> Any:
    calls = []

    def start() -> Any:
        calls.append(1)
        return tf.constant([1.0, 2.0], name="start")

    v = tf.Variable(start, name="v", dtype=tf.float32)
    with tf.Session() as session:
        session.run(v.initializer)
        return [session.run(v), len(calls), v.initial_value.name]


@behaviour(VARIABLES, "load puts a value into a variable of a session.")
def loads(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        v.load([3.0, 4.0], session)
        return [session.run(v), error(lambda: v.load([1.0], session))]


@behaviour(OPS, "Variable ops are of their shape, and a temporary variable lives for a step.")
def temporary(tf: Any) -> Any:
    v = tf.raw_ops.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t")
    filled = tf.raw_ops.Assign(ref=v, value=[1.0, 2.0])
    final = tf.raw_ops.DestroyTemporaryVariable(ref=filled, var_name="t")
    with tf.Session() as session:
        return [session.run(final), session.run(final), str(final.shape)]


@behaviour(DENSE, "Assignments of any type change the variable; of another shape they are refused.")
def dense_updates(tf: Any) -> Any:
    found = []
    with tf.Session() as session:
        for dtype in (tf.float32, tf.float64, tf.int32, tf.int64, tf.complex64):
            v = tf.Variable(tf.cast([1, 2], dtype))
            session.run(v.initializer)
            changes = [tf.assign_add(v, tf.cast([1, 1], dtype)), tf.assign_sub(v, [3, 3])]
            found.append([session.run(change) for change in changes])
    return [found, error(lambda: tf.assign_add(tf.Variable([1.0, 2.0]), [1.0]))]


@behaviour(SCATTER, "Scattered updates change rows, add up repeated ones, and refuse bad rows.")
def scatters(tf: Any) -> Any:
    names = ("update", "add", "sub", "mul", "div", "min", "max")
    found = []
    with tf.Session() as session:
        for name in names:
            v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
            session.run(v.initializer)
            scatter = getattr(tf, f"scatter_{name}")
            found.append(session.run(scatter(v, [2, 0], [[4.0, 2.0], [2.0, 8.0]])))
        v = tf.Variable([1.0, 2.0])
        session.run(v.initializer)
        found.append(session.run(tf.scatter_add(v, [1, 1], [1.0, 2.0])))
        found.append(error(lambda: session.run(tf.scatter_add(v, [7], [1.0])), "indices[0] = 7"))
        found.append(error(lambda: tf.scatter_add(v, [0, 1], [[1.0]])))
    return found


@behaviour(SCOPES, "get_variable makes a variable once, and refuses a second of its name.")
def get_variable(tf: Any) -> Any:
    with tf.variable_scope("tower"):
        v = tf.get_variable("v", [1])
        again = error(lambda: tf.get_variable("v", [1]), "already exists")
    with tf.variable_scope("tower", reuse=True):
        same = tf.get_variable("v", [1])
        missing = error(lambda: tf.get_variable("w", [1]), "does not exist")
        other = error(lambda: tf.get_variable("v", [2]), "shape")
        kind = error(lambda: tf.get_variable("v", [1], dtype=tf.int32))
    with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
        auto = tf.get_variable("v", [1]), tf.get_variable("new", [1])
    return [v.name, again, same is v, missing, other, kind, auto[0] is v, auto[1].name]


@behaviour(SCOPES, "Scopes nest, open anew by object, and give operations scopes of their own.")
def nested_scopes(tf: Any) -> Any:
    found = []
    with tf.variable_scope("a") as outer:
        with tf.variable_scope("b") as inner:
            found.append([tf.get_variable("v", []).name, tf.constant(1).name, inner.name])
        with tf.variable_scope("b"):
            found.append([tf.get_variable("w", []).name, tf.constant(1).name])
    with tf.variable_scope("c"), tf.variable_scope(inner):
        found.append([tf.get_variable("x", []).name, tf.constant(1).name])
    with tf.variable_scope(outer, auxiliary_name_scope=False):
        found.append([tf.get_variable("y", []).name, tf.constant(1).name])
    with tf.variable_scope(inner) as scope, tf.name_scope(scope.original_name_scope):
        found.append([tf.constant(1).name, scope.original_name_scope, tf.get_variable_scope().name])
    return found


@behaviour(SCOPES, "A scope with a default name is numbered anew; one with a name is not.")
def default_names(tf: Any) -> Any:
    found = []
    for _ in range(2):
        with tf.variable_scope(None, default_name="layer"):
            found.append(tf.get_variable("v", []).name)
    for _ in range(2):
        with tf.variable_scope("named", default_name="layer", reuse=tf.AUTO_REUSE):
            found.append(tf.get_variable("v", []).name)
    found.append(error(lambda: tf.variable_scope(None).__enter__()))
    found.append(error(lambda: tf.variable_scope(3).__enter__()))
    return found


@behaviour(SCOPES, "A scope hands on initializers, regularizers, types, getters and constraints.")
def inherited(tf: Any) -> Any:
    init = tf.constant_initializer(0.3)

    def regular(v: Any) -> Any:
        return tf.reduce_sum(v) * 0.5

    def custom(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **kwargs) * 2.0

    with tf.variable_scope("s", initializer=init, regularizer=regular, dtype=tf.float64):
        v = tf.get_variable("v", [2])
        with tf.variable_scope("t", custom_getter=custom):
            doubled = tf.get_variable("w", [1])
            scope = tf.get_variable_scope()
        u = tf.get_variable("u", [1], initializer=tf.ones_initializer(), regularizer=None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = tf.losses.get_regularization_losses()
        return [
            session.run([v, doubled, u]),
            sorted(loss.name for loss in losses),
            session.run(losses),
            [scope.dtype.name, scope.initializer is init, scope.reuse],
        ]


@behaviour(SCOPES, "get_variable takes tensors, arrays and functions to start from.")
def starts_of_get_variable(tf: Any) -> Any:
    a = tf.get_variable("a", initializer=tf.constant([1.0, 2.0]))
    b = tf.get_variable("b", initializer=np.array([1, 2, 3]))
    c = tf.get_variable(
        "c", [2], initializer=lambda shape, dtype, partition_info=None: tf.ones(shape)
    )
    d = tf.get_variable("d", [2], dtype=tf.int32)
    e = tf.get_variable("e", [2], dtype=tf.string)
    f = tf.get_variable("f", initializer=3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [
            session.run([a, b, c, d, f]),
            list(session.run(e)),
            error(lambda: tf.get_variable("g", [3], initializer=tf.constant([1.0]))),
            error(lambda: tf.get_variable("h")),
            error(lambda: tf.get_variable("i", [None])),
            error(lambda: tf.get_variable("j", [2], initializer=3.5)),
        ]


@behaviour(SCOPES, "reuse_variables turns reuse on for what follows in the scope.")
def reuse_variables(tf: Any) -> Any:
    with tf.variable_scope("s") as scope:
        v = tf.get_variable("v", [])
        before = scope.reuse
        scope.reuse_variables()
        same = tf.get_variable("v", []) is v
        with tf.variable_scope("t") as inner:
            inherits = inner.reuse
        after = tf.get_variable_scope().reuse
    return [before, same, inherits, after, tf.get_variable_scope().reuse]


@behaviour(SCOPES, "Local variables belong to their own collection and are not trained.")
def get_local_variable(tf: Any) -> Any:
    v = tf.get_local_variable("v", [], initializer=tf.zeros_initializer())
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        lists = [tf.local_variables(), tf.global_variables(), tf.trainable_variables()]
        return [session.run(v), [[x.name for x in one] for one in lists], v.trainable]


@behaviour(SCOPES, "make_template shares the variables of all its calls.")
def templates(tf: Any) -> Any:
    def layer(x: Any, name: str) -> Any:
        return x * tf.get_variable(name, [], initializer=tf.constant_initializer(2.0))

    shared = tf.make_template("scale", layer, name="w")
    a, b = shared(tf.constant(1.0)), shared(tf.constant(5.0))
    other = tf.make_template("scale", layer, name="w")(tf.constant(1.0))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([a, b, other]), [v.name for v in tf.global_variables()], a.name]


@behaviour(PARTITIONED, "A partitioned variable is several, which are read and saved as one.")
def partitioned(tf: Any) -> Any:
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2, axis=0)):
        v = tf.get_variable("v", [5, 2], initializer=tf.ones_initializer())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole = tf.convert_to_tensor(v)
        return [
            type(v).__name__,
            [part.name for part in v],
            [part.shape.as_list() for part in v],
            session.run(whole).shape,
            [tf.min_max_variable_partitioner(4, 0, 16)(tf.TensorShape([64, 2]), tf.float32)],
            [tf.variable_axis_size_partitioner(64)(tf.TensorShape([64, 2]), tf.float32)],
            session.run(tf.nn.embedding_lookup(v, [0, 4])),
        ]


@behaviour(RESOURCES, "A resource variable is read, assigned and scattered through its handle.")
def resources(tf: Any) -> Any:
    v = tf.get_variable("v", [3], initializer=tf.zeros_initializer(), use_resource=True)
    steps = [
        v.assign([1.0, 2.0, 3.0]),
        v.assign_add([1.0, 1.0, 1.0]),
        v.scatter_add(tf.IndexedSlices([5.0], [1])),
        v.scatter_update(tf.IndexedSlices([9.0], [0])),
    ]
    with tf.Session() as session:
        unset = error(lambda: session.run(v))
        session.run(v.initializer)
        found = [session.run(step) for step in steps]
        return [
            unset,
            found,
            session.run([v, v.sparse_read([1, 2]), v.is_initialized(), v.shape and v[0]]),
            [v.handle.dtype.name, v.op.type, v.dtype.name, v.name],
            error(lambda: v.assign([1.0])),
        ]


@behaviour(RESOURCES, "Gradients go to a resource variable that is gathered from, as slices.")
def gradients_of_gathers(tf: Any) -> Any:
    v = tf.get_variable("v", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=True)
    g = tf.gradients(tf.gather(v, [1, 1]) * 3.0, v)[0]
    with tf.Session() as session:
        session.run(v.initializer)
        return [
            type(g).__name__,
            session.run(g.values),
            session.run(g.indices),
            g.dense_shape is None,
        ]
