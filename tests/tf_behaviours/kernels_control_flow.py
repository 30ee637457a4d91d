"""Branches, loops and what runs before what; variables; tensor arrays and queues."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

FLOW = "python/kernel_tests/control_flow/control_flow_ops_py_test.py"
DEPENDENCIES = "python/ops/control_flow_ops_test.py"
COND = "python/kernel_tests/control_flow/cond_v2_test.py"
WHILE = "python/kernel_tests/control_flow/while_v2_test.py"
FUNCTIONAL = "python/kernel_tests/control_flow/functional_ops_test.py"
SCAN = "python/kernel_tests/control_flow/map_fn_test.py"


def _run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


@behaviour(FLOW, "Switch sends its value to one side; Merge takes what comes, and says whence.")
def switch_and_merge(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0])
    found = []
    for taken in (True, False):
        no, yes = tf.raw_ops.Switch(data=x, pred=tf.constant(taken))
        merged = tf.raw_ops.Merge(inputs=[no * 2.0, yes * 3.0])
        found.append(_run(tf, list(merged)))
    return found


@behaviour(FLOW, "The side of a Switch that is not taken is dead, and cannot be fetched.")
def dead_tensors(tf: Any) -> Any:
    no, yes = tf.raw_ops.Switch(data=tf.constant(1.0), pred=tf.constant(True))
    return [_run(tf, yes), error(lambda: _run(tf, no), "Retval[0] does not have value")]


@behaviour(FLOW, "cond runs the branch taken alone, and what the other would do is not done.")
def cond_runs_one(tf: Any) -> Any:
    v = tf.Variable(0.0)
    p = tf.placeholder(tf.bool, ())
    r = tf.cond(p, lambda: tf.assign_add(v, 1.0), lambda: tf.assign_sub(v, 10.0))
    with tf.Session() as session:
        session.run(v.initializer)
        return [session.run(r, {p: True}), session.run(r, {p: False}), session.run(v)]


@behaviour(FLOW, "Operations made outside run whichever branch is taken.")
def cond_and_outside(tf: Any) -> Any:
    v = tf.Variable(0.0)
    outside = tf.assign_add(v, 5.0)
    r = tf.cond(tf.constant(False), lambda: outside + 0.0, lambda: tf.constant(-1.0))
    with tf.Session() as session:
        session.run(v.initializer)
        return [session.run(r), session.run(v)]


@behaviour(FLOW, "cond takes a Python bool as its predicate and refuses functions that are none.")
def cond_predicates(tf: Any) -> Any:
    return [
        error(lambda: _run(tf, tf.cond(True, lambda: 1, lambda: 2))),
        error(lambda: tf.cond(tf.constant(True), 1, lambda: 2), "must be callable"),
        error(lambda: tf.cond(tf.constant(True), lambda: 1, None), "must be callable"),
        error(lambda: tf.cond(tf.constant(1), lambda: 1, lambda: 2)),
        error(lambda: tf.cond(tf.constant([True, False]), lambda: 1, lambda: 2)),
    ]


@behaviour(FLOW, "Branches must give as many values, of the same types.")
def cond_mismatches(tf: Any) -> Any:
    p = tf.placeholder(tf.bool, ())
    return [
        error(lambda: tf.cond(p, lambda: 1, lambda: 2.0)),
        error(lambda: tf.cond(p, lambda: (1, 2), lambda: 2)),
        error(lambda: tf.cond(p, lambda: None, lambda: 2)),
        error(lambda: tf.cond(p, lambda: None, lambda: None)),
        error(lambda: _run(tf, tf.cond(p, lambda: [1], lambda: [2]), {p: True})),
        error(lambda: _run(tf, tf.cond(p, lambda: [1], lambda: [2], strict=True), {p: True})),
    ]


@behaviour(FLOW, "cond gives back structures, operations and IndexedSlices of its branches.")
def cond_structures(tf: Any) -> Any:
    p = tf.placeholder(tf.bool, ())
    t = tf.constant([1.0, 2.0])
    slices = tf.cond(
        p,
        lambda: tf.IndexedSlices(t, tf.constant([0, 1])),
        lambda: tf.IndexedSlices(t * 2.0, tf.constant([2, 3])),
    )
    op = tf.cond(p, lambda: tf.no_op(), lambda: tf.no_op())
    d = tf.cond(p, lambda: {"a": 1, "b": (t, 2)}, lambda: {"a": 3, "b": (t + 1.0, 4)})
    return [
        _run(tf, [slices.values, slices.indices], {p: False}),
        isinstance(op, tf.Tensor),
        _run(tf, d, {p: True}),
    ]


@behaviour(
    FLOW, "The gradient of a cond is that of the branch taken, zero for what it did not use."
)
def cond_gradients(tf: Any) -> Any:
    x, y = tf.constant(3.0), tf.constant(5.0)
    p = tf.placeholder(tf.bool, ())
    r = tf.cond(p, lambda: x * x, lambda: x * y)
    grads = tf.gradients(r, [x, y])
    return [_run(tf, [r, *grads], {p: value}) for value in (True, False)]


@behaviour(FLOW, "Nested conds take the branch of each.")
def nested_conds(tf: Any) -> Any:
    p, q = tf.placeholder(tf.bool, ()), tf.placeholder(tf.bool, ())
    r = tf.cond(
        p, lambda: tf.cond(q, lambda: 1, lambda: 2), lambda: tf.cond(q, lambda: 3, lambda: 4)
    )
    return [_run(tf, r, {p: a, q: b}) for a in (True, False) for b in (True, False)]


@behaviour(FLOW, "A while loop runs while its condition holds, over several variables.")
def while_loops(tf: Any) -> Any:
    def body(i: Any, m: Any, names: Any) -> Any:
        return i + 1, {"m": m["m"] * 2.0}, names

    i, m, n = tf.while_loop(
        lambda i, *rest: i < 5, body, (0, {"m": tf.ones([2])}, tf.constant("x")), name="loop"
    )
    return [_run(tf, [i, m, n]), i.op.type, i.name, m["m"].shape]


@behaviour(FLOW, "A loop refuses variables whose shapes grow, unless invariants say so.")
def shape_invariants(tf: Any) -> Any:
    def grow(**kwargs: Any) -> Any:
        return tf.while_loop(
            lambda i, x: i < 3,
            lambda i, x: [i + 1, tf.concat([x, x], 0)],
            [tf.constant(0), tf.ones([1, 2])],
            **kwargs,
        )

    invariants = [tf.TensorShape([]), tf.TensorShape([None, 2])]
    r = grow(shape_invariants=invariants)
    return [
        error(grow, "shape"),
        _run(tf, r[1]).shape,
        r[1].shape,
        error(lambda: grow(shape_invariants=[tf.TensorShape([]), tf.TensorShape([3, 2])])),
    ]


@behaviour(FLOW, "A loop refuses bodies that give other types, numbers or structures.")
def while_mismatches(tf: Any) -> Any:
    zero = tf.constant(0)
    return [
        error(lambda: tf.while_loop(lambda i: i < 1, lambda i: i + 0.5, [zero])),
        error(lambda: tf.while_loop(lambda i: i < 1, lambda i: tf.constant(1.5), [zero])),
        error(lambda: tf.while_loop(lambda i: i < 1, lambda i: (i, i), [zero])),
        error(lambda: tf.while_loop(lambda i, j: i < 1, lambda i, j: i, [zero, zero])),
        error(lambda: tf.while_loop(lambda: True, lambda: (), [])),
        error(lambda: tf.while_loop(3, lambda i: i, [zero]), "must be callable"),
        error(lambda: tf.while_loop(lambda i: i < 1, 3, [zero]), "must be callable"),
        error(lambda: tf.while_loop(lambda i: [True, False], lambda i: i, [zero])),
        error(lambda: tf.while_loop(lambda i: i, lambda i: i + 1, [zero])),
    ]


@behaviour(FLOW, "A loop stops at the greatest number of iterations that it is given.")
def maximum_iterations(tf: Any) -> Any:
    loops = [
        tf.while_loop(lambda i: i < 100, lambda i: i + 1, [0], maximum_iterations=n)
        for n in (3, 0, tf.constant(7))
    ]
    single = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], return_same_structure=True)
    return [
        _run(tf, loops),
        _run(tf, single),
        _run(tf, tf.while_loop(lambda i: i < 9, lambda i: i + 4, [0])),
    ]


@behaviour(FLOW, "Loops nest, and a loop may run within a branch and a branch within a loop.")
def nested_loops(tf: Any) -> Any:
    def inner(i: Any, total: Any) -> Any:
        _, t = tf.while_loop(lambda j, t: j < i, lambda j, t: [j + 1, t + j], [0, total])
        return [i + 1, tf.cond(tf.equal(i, 2), lambda: t * 10, lambda: t)]

    loop = tf.while_loop(lambda i, t: i < 4, inner, [0, 0])
    p = tf.placeholder(tf.bool, ())
    r = tf.cond(p, lambda: loop_of(tf), lambda: -1)
    return [_run(tf, loop), _run(tf, r, {p: True}), _run(tf, r, {p: False})]


def loop_of(tf: Any) -> Any:
    return tf.while_loop(lambda i: i < 10, lambda i: i * 2 + 1, [0])


@behaviour(FLOW, "Gradients go through loops, to what goes in and to what is used within.")
def gradients_of_loops(tf: Any) -> Any:
    x, w = tf.constant(2.0), tf.constant(3.0)
    _, r = tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * w], [0, x])
    nothing = tf.while_loop(lambda i, a: i < 0, lambda i, a: [i + 1, a * w], [0, x])[1]
    p = tf.placeholder(tf.float32, ())
    by_value = tf.while_loop(lambda a: a < 100.0, lambda a: a * a, [p])
    return [
        _run(tf, [r, *tf.gradients(r, [x, w])]),
        _run(tf, tf.gradients(nothing, [x, w])),
        _run(tf, [by_value, *tf.gradients(by_value, p)], {p: 2.0}),
    ]


@behaviour(FLOW, "A loop may write and read variables, one iteration after the other.")
def loops_with_variables(tf: Any) -> Any:
    v = tf.Variable(1.0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([tf.assign(v, v * 2.0)]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 4, body, [0], parallel_iterations=1)
    with tf.Session() as session:
        session.run(v.initializer)
        return [session.run(loop), session.run(v)]


@behaviour(FLOW, "case takes the first predicate that holds, and the default if none does.")
def cases(tf: Any) -> Any:
    x = tf.placeholder(tf.int32, ())
    pairs = [(x < 1, lambda: 10), (x < 5, lambda: 20)]
    r = tf.case(pairs, default=lambda: 30)
    exclusive = tf.case(pairs, default=lambda: 30, exclusive=True)
    bare = tf.case([(x < 1, lambda: tf.constant(10)), (x < 2, lambda: tf.constant(11))])
    return [
        [_run(tf, r, {x: value}) for value in (0, 3, 9)],
        error(lambda: _run(tf, exclusive, {x: 0})),
        _run(tf, exclusive, {x: 3}),
        error(lambda: _run(tf, bare, {x: 9})),
        _run(tf, bare, {x: 1}),
        error(lambda: tf.case({x < 1: lambda: 1}, exclusive=False)),
        error(lambda: tf.case([(x < 1, 3)])),
        error(lambda: tf.case([x < 1])),
        error(lambda: tf.case(3)),
    ]


@behaviour(FLOW, "switch_case takes a branch by number; one out of range takes the last.")
def switch_cases(tf: Any) -> Any:
    x = tf.placeholder(tf.int32, ())
    r = tf.switch_case(x, [lambda: 1, lambda: 2, lambda: 3])
    d = tf.switch_case(x, {0: lambda: 1, 1: lambda: 2}, default=lambda: 9)
    return [
        [_run(tf, r, {x: value}) for value in (0, 1, 7, -1)],
        [_run(tf, d, {x: value}) for value in (0, 5, 7)],
        error(lambda: tf.switch_case(x, [])),
        error(lambda: tf.switch_case(1.5, [lambda: 1])),
        error(lambda: tf.switch_case(x, [lambda: 1, 3])),
    ]


@behaviour(FLOW, "A control dependency makes an operation run before what is made within.")
def dependencies(tf: Any) -> Any:
    v = tf.Variable(0.0, name="v")
    with tf.control_dependencies([v.initializer]):
        read = v.read_value()
    with tf.Session() as session:
        return [session.run(read), [op.name for op in read.op.control_inputs] == ["v/Assign"]]


@behaviour(DEPENDENCIES, "group of operations runs all; of none it is a no-op; it has no value.")
def groups(tf: Any) -> Any:
    v, w = tf.Variable(0.0), tf.Variable(0.0)
    g = tf.group(tf.assign(v, 1.0), [tf.assign(w, 2.0)], name="all")
    with tf.Graph().as_default():
        with tf.device("/task:0"):
            a = tf.constant(0, name="a")
        with tf.device("/task:1"):
            b = tf.constant(0, name="b")
        two = tf.group(a.op, b.op, name="two")
    with tf.Session() as session:
        session.run([v.initializer, w.initializer])
        return [
            session.run(g),
            session.run([v, w]),
            [g.name, g.type],
            sorted([op.name, op.device] for op in two.control_inputs),
            tf.group().type,
            error(lambda: tf.group(3)),
        ]


@behaviour(DEPENDENCIES, "tuple gives tensors that are there when all of them are.")
def tuples(tf: Any) -> Any:
    v = tf.Variable(0.0)
    change = tf.assign(v, 7.0)
    a, none, b = tf.tuple([tf.constant(1.0), None, tf.constant(2.0)], control_inputs=[change.op])
    with tf.Session() as session:
        session.run(v.initializer)
        return [
            session.run([a, b]),
            none,
            session.run(v),
            error(lambda: tf.tuple([])),
            error(lambda: tf.tuple([None])),
            error(lambda: tf.tuple([a], control_inputs=[3])),
        ]


@behaviour(
    DEPENDENCIES, "with_dependencies and identity keep the static shape of what they hand on."
)
def shapes_go_through(tf: Any) -> Any:
    p = tf.placeholder(tf.float32, [None, 3])
    c = tf.cond(tf.placeholder(tf.bool), lambda: p, lambda: tf.ones([2, 3]))
    w = tf.while_loop(lambda x: True, lambda x: x, [p])
    return [str(c.shape), str(w.shape), str(tf.identity(p).shape), c.dtype.name]


@behaviour(FUNCTIONAL, "foldl, foldr, scan and map_fn go over the first axis.")
def folds(tf: Any) -> Any:
    x = tf.constant([1.0, 2.0, 3.0])
    return _run(
        tf,
        [
            tf.foldl(lambda a, b: a * 2.0 + b, x),
            tf.foldr(lambda a, b: a * 2.0 + b, x, initializer=1.0),
            tf.scan(lambda a, b: a + b, x),
            tf.scan(lambda a, b: a + b, x, reverse=True, initializer=10.0),
            tf.map_fn(lambda a: (a, -a), x, dtype=(tf.float32, tf.float32)),
            tf.map_fn(lambda a: a[0] + a[1], (x, x * 10.0), dtype=tf.float32),
        ],
    )


@behaviour(FUNCTIONAL, "Gradients go through scan and foldl.")
def gradients_of_folds(tf: Any) -> Any:
    x, v = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    s = tf.scan(lambda a, b: a * b, x, initializer=v)
    f = tf.foldl(lambda a, b: a * b, x, initializer=v)
    return _run(tf, [tf.gradients(s, [x, v]), tf.gradients(f, [x, v])])


@behaviour(FLOW, "An assertion of a step fails with its data; one that holds does nothing.")
def assertions(tf: Any) -> Any:
    p = tf.placeholder(tf.bool, ())
    check = tf.Assert(p, ["the data", tf.constant([1, 2])])
    return [
        _run(tf, check, {p: True}),
        error(lambda: _run(tf, check, {p: False}), "assertion failed", "the data", "[1 2]"),
        error(lambda: tf.Assert(False, ["static"]) is None),
    ]


@behaviour(FLOW, "A TensorArray gathers what a loop writes; it may be stacked and read.")
def tensor_arrays_in_loops(tf: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3)
    x = tf.constant(2.0)
    _, filled = tf.while_loop(
        lambda i, a: i < 3, lambda i, a: [i + 1, a.write(i, x * tf.cast(i, tf.float32))], [0, array]
    )
    stacked = filled.stack()
    return _run(tf, [stacked, tf.gradients(stacked, x)])


@behaviour(WHILE, "A loop of a function's kind gives what loops of Switch and Merge give.")
def loops_both_ways(tf: Any) -> Any:
    def loop() -> Any:
        return tf.while_loop(lambda i, x: i < 4, lambda i, x: [i + 1, x * 2.0], [0, 1.5])

    plain = _run(tf, loop())
    tf.enable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            made = loop()
            return [plain, _run(tf, made), tf.control_flow_v2_enabled()]
    finally:
        tf.disable_control_flow_v2()


@behaviour(COND, "A branch of a function's kind gives what Switch and Merge give, and gradients.")
def conds_both_ways(tf: Any) -> Any:
    def gradient() -> Any:
        x = tf.constant(3.0)
        p = tf.placeholder(tf.bool, (), name="p")
        r = tf.cond(p, lambda: x * x, lambda: -x)
        return [[r, *tf.gradients(r, x)], p]

    fetches, p = gradient()
    plain = [_run(tf, fetches, {p: value}) for value in (True, False)]
    tf.enable_control_flow_v2()
    try:
        with tf.Graph().as_default():
            fetches, p = gradient()
            return [plain, [_run(tf, fetches, {p: value}) for value in (True, False)]]
    finally:
        tf.disable_control_flow_v2()


@behaviour(SCAN, "map_fn over an empty tensor gives an empty one of the right shape.")
def empty_maps(tf: Any) -> Any:
    found = tf.map_fn(lambda a: a + 1.0, tf.zeros([0, 3]))
    return [_run(tf, found).shape, _run(tf, tf.map_fn(tf.square, np.arange(3)))]
