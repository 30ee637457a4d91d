"""Variables: what they are, how they are fed, read, assigned and shared."""

from __future__ import annotations

from typing import Any

from v1_tutorials.registry import Place, refused, tutorial


def nodes(tf: Any, without: str = "") -> Any:
    """Return what was built, by name: ops, inputs, types and devices; `without` is a prefix."""
    found = [
        [
            op.name,
            op.type,
            [t.name for t in op.inputs],
            [t.dtype.name for t in op.outputs],
            op.device,
        ]
        for op in tf.get_default_graph().get_operations()
        if not without or not op.name.startswith(without)
    ]
    return sorted(found, key=lambda row: row[0])


@tutorial
def a_variable_that_is_fed(tf: Any, at: Place) -> Any:
    v = tf.Variable(5.0, name="v")
    w = tf.get_variable("w", initializer=[3.0, 4.0])
    d = v * 2
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [
            sess.run(d, {v: 1.5}),
            sess.run([d, v], {v: 1.5}),
            sess.run(d),
            sess.run("v:0"),
            sess.run(d, {"v:0": 4.0}),
            sess.run(d, {v.value(): 7.0}),
            sess.run(w * 2, {w: [1, 2]}),
            nodes(tf),
        ]


@tutorial
def what_a_variable_says_of_itself(tf: Any, at: Place) -> Any:
    v = tf.Variable([[1.0, 2.0]], name="v", dtype=tf.float32)
    c = tf.Variable(3, name="count", trainable=False)
    return [
        [str(v), repr(c), v.dtype, str(v.dtype), v.dtype.base_dtype, v.op.type, v.initializer.type],
        [str(v.get_shape()), v.shape, str(v.value()), str(v.read_value()), str(v.initial_value)],
        [str(v.initialized_value()), v.device, v.graph is tf.get_default_graph()],
        [type(v).__name__, isinstance(v, tf.Variable), v.dtype == tf.float32],
        [str(tf.convert_to_tensor(v)), str(v[0]), str(v + 1), str(-v), str(1 - v)],
        [tf.is_variable_initialized(c).op.type, str(v.assign(v)), str(c.assign_add(1))],
        nodes(tf),
    ]


@tutorial
def an_uninitialised_variable(tf: Any, at: Place) -> Any:
    v = tf.Variable(1.0, name="v")
    w = tf.Variable(v.initialized_value() * 2, name="w")
    with at.session() as sess:

        def caught() -> Any:
            try:
                sess.run(v + 1)
            except tf.errors.FailedPreconditionError as error:
                return [
                    "uninitialized value v" in error.message,
                    error.op.name,
                    error.op.type,
                    error.node_def.name,
                    error.node_def.op,
                    error.error_code,
                ]

        found = [
            caught(),
            refused(lambda: sess.run(v)),
            refused(lambda: sess.run(v.assign_add(1.0))),
        ]
        found.append(sess.run(tf.report_uninitialized_variables()))
        sess.run(v.initializer)
        found.append(sess.run(tf.is_variable_initialized(w)))
        sess.run(w.initializer)
        found += [sess.run([v, w]), sess.run(tf.report_uninitialized_variables())]
        return found


@tutorial
def counting_with_assign(tf: Any, at: Place) -> Any:
    state = tf.Variable(0, name="counter")
    one = tf.constant(1)
    update = tf.assign(state, tf.add(state, one))
    more = tf.assign_add(state, 10)
    rows = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    scattered = tf.scatter_update(rows, [1], [[7.0, 8.0]])
    limited = state.count_up_to(30)
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [
            [sess.run(update) for _ in range(3)],
            sess.run(more),
            sess.run(state),
            sess.run(scattered),
            sess.run(tf.scatter_add(rows, [0, 0], [[1.0, 1.0], [2.0, 2.0]])),
            sess.run(limited),
            state.eval(),
            [str(update), str(more), str(scattered), str(limited)],
            state.load(29),
            sess.run(limited),
            refused(lambda: sess.run(limited)),
        ]


@tutorial
def order_by_control_dependencies(tf: Any, at: Place) -> Any:
    x = tf.Variable(1.0, name="x")
    assign = tf.assign(x, x + 1)
    with tf.control_dependencies([assign]):
        y = tf.identity(x, name="y")
        z = x.read_value()
        same = x.value()
    with tf.control_dependencies([y]):
        done = tf.no_op(name="done")
    group = tf.group(done, assign.op, name="group")
    both = tf.tuple([y, z], control_inputs=[done])
    with at.session() as sess:
        sess.run(x.initializer)
        return [
            sess.run([y, z]),
            sess.run(x),
            sess.run(group),
            sess.run(both),
            sess.run(same),
            [op.name for op in done.control_inputs],
            nodes(tf),
        ]


@tutorial
def sharing_by_scopes(tf: Any, at: Place) -> Any:
    with tf.variable_scope("foo"):
        v = tf.get_variable("v", [1])
        n = tf.Variable(1.0, name="n")
        a = tf.constant(1.0, name="a")
    with tf.variable_scope("foo", reuse=True) as scope:
        v1 = tf.get_variable("v", [1])
        b = v1 + 1
    with tf.variable_scope("foo", reuse=tf.AUTO_REUSE):
        v2 = tf.get_variable("v", [1])
    with tf.variable_scope(scope, auxiliary_name_scope=False):
        c = tf.constant(1.0, name="a")
    with tf.name_scope("bar") as bar:
        u = tf.get_variable("u", [2], initializer=tf.random_normal_initializer(seed=1))
        t = tf.Variable(2.0)
        d = tf.add(u, t)

    def refuse(reuse: Any, shape: Any = (1,), dtype: Any = tf.float32) -> Any:
        with tf.variable_scope("foo", reuse=reuse):
            tf.get_variable("w" if reuse else "v", shape, dtype)

    def other_shape() -> Any:
        with tf.variable_scope("foo", reuse=True):
            tf.get_variable("v", [2])

    return [
        [v is v1, v1 is v2, bar, scope.name, scope.original_name_scope, scope.reuse],
        [one.name for one in (v, n, a, b, c, u, t, d)],
        [refused(lambda: refuse(True)), refused(lambda: refuse(False)), refused(other_shape)],
        [one.name for one in tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "foo")],
        sorted(tf.get_default_graph().get_all_collection_keys()),
    ]


@tutorial
def initializers_of_all_sorts(tf: Any, at: Place) -> Any:
    made = {
        "zeros": tf.zeros_initializer(),
        "ones": tf.ones_initializer(),
        "constant": tf.constant_initializer(3.0),
        "listed": tf.constant_initializer([1.0, 2.0, 3.0, 4.0]),
        "uniform": tf.random_uniform_initializer(-1, 1, seed=1),
        "normal": tf.random_normal_initializer(stddev=0.1, seed=1),
        "truncated": tf.truncated_normal_initializer(stddev=0.1, seed=1),
        "glorot": tf.glorot_uniform_initializer(seed=1),
        "scaling": tf.variance_scaling_initializer(seed=1),
        "identity": tf.initializers.identity(),
    }
    found = {key: tf.get_variable(key, [2, 2], initializer=one) for key, one in made.items()}
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(found)


@tutorial
def accuracy_over_batches_by_hand(tf: Any, at: Place) -> Any:
    labels = tf.placeholder(tf.int64, [None])
    guesses = tf.placeholder(tf.int64, [None])
    with tf.name_scope("metric"):
        collections = [tf.GraphKeys.LOCAL_VARIABLES]
        total = tf.Variable(0.0, trainable=False, collections=collections, name="total")
        count = tf.Variable(0.0, trainable=False, collections=collections, name="count")
        right = tf.reduce_sum(tf.to_float(tf.equal(labels, guesses)))
        update = tf.div(
            tf.assign_add(total, right), tf.assign_add(count, tf.to_float(tf.size(labels)))
        )
        value = tf.div(total, count)
    with at.session() as sess:
        sess.run(tf.local_variables_initializer())
        sess.run(update, {labels: [1, 2], guesses: [1, 0]})
        sess.run(update, {labels: [1, 2, 3], guesses: [1, 2, 3]})
        return [
            sess.run(value),
            [v.name for v in tf.local_variables()],
            [v.name for v in tf.global_variables()],
            [str(update), str(value)],
        ]


@tutorial
def resource_variables_on_request(tf: Any, at: Place) -> Any:
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    d = v * 2
    with at.session() as sess:
        found = [refused(lambda: sess.run(v)), refused(lambda: sess.run(d))]
        sess.run(tf.global_variables_initializer())
        found += [sess.run([v, w, d]), refused(lambda: sess.run(d, {v: 9.0}))]
        return [
            *found,
            str(v),
            str(w),
            tf.resource_variables_enabled(),
            type(v).__name__,
            nodes(tf),
        ]


@tutorial
def optimizers_on_references(tf: Any, at: Place) -> Any:
    rows = {}
    with at.session() as sess:
        for kind, arguments in (
            ("GradientDescent", [0.1]),
            ("Momentum", [0.1, 0.9]),
            ("Adagrad", [0.1]),
            ("Adadelta", [0.1]),
            ("Adam", [0.1]),
            ("RMSProp", [0.1]),
            ("Ftrl", [0.1]),
        ):
            x = tf.Variable([1.0, -2.0], name=f"x{kind}")
            e = tf.Variable([[1.0], [2.0], [3.0]], name=f"e{kind}")
            loss = tf.reduce_sum(x**2) + tf.reduce_sum(tf.nn.embedding_lookup(e, [0, 2, 2]) ** 2)
            train = getattr(tf.train, f"{kind}Optimizer")(*arguments).minimize(loss)
            sess.run(
                tf.variables_initializer(
                    [v for v in tf.global_variables() if kind in v.name or "power" in v.name]
                )
            )
            sess.run(train)
            sess.run(train)
            rows[kind] = sess.run([x, e])
    return [rows, [v.name for v in tf.global_variables()]]


@tutorial
def moving_averages_of_variables(tf: Any, at: Place) -> Any:
    v = tf.Variable(1.0, name="v")
    ema = tf.train.ExponentialMovingAverage(0.9, num_updates=3)
    with tf.control_dependencies([tf.assign(v, 11.0)]):
        keep = ema.apply([v])
    with at.session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(keep)
        return [sess.run([v, ema.average(v)]), ema.average_name(v), ema.average(v).name, keep.name]
