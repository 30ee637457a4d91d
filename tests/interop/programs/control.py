"""Branches, loops and functions, within and across tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from programs.registry import Cluster, add_program, program

_Build = Callable[[Any, Cluster], Any]


def in_both_versions(
    build: _Build, name: str = "", clients: Iterable[str] = ("tensorflow", "tideflow")
) -> _Build:
    """Add a program twice: with Switch and Merge, and with functional If and While, which only
    TensorFlow's client makes of the same program."""

    def v1(tf: Any, at: Cluster) -> Any:
        return build(tf, at)

    def v2(tf: Any, at: Cluster) -> Any:
        tf.enable_control_flow_v2()
        try:
            return build(tf, at)
        finally:
            tf.disable_control_flow_v2()

    name = name or build.__name__
    v1.__module__ = v2.__module__ = build.__module__
    add_program(f"{name}_v1", v1, clients)
    add_program(f"{name}_v2", v2, ("tensorflow",))
    return build


@in_both_versions
def cond_takes_either_branch(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [])
    found = tf.cond(x > 0, lambda: x * 2, lambda: x - 1)
    with at.session() as session:
        return [session.run(found, {x: value}) for value in (3.0, -3.0)]


@in_both_versions
def cond_across_tasks(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [])

    def taken() -> Any:
        with tf.device("/job:worker/task:1"):
            return x * 2

    def other() -> Any:
        with tf.device("/job:ps"):
            return x - 1

    with tf.device("/job:ps"):
        found = tf.cond(x > 0, taken, other)
    with tf.device("/job:worker/task:1"):
        more = found + 100
    with at.session() as session:
        return [session.run([found, more], {x: value}) for value in (3.0, -3.0)]


@in_both_versions
def cond_with_gradient(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        y = tf.cond(x[0] > 0, lambda: x * x, lambda: 3 * x)
    (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return [session.run([y, gradient], {x: v}) for v in ([3.0, 1.0], [-3.0, 1.0])]


@in_both_versions
def cond_changes_variables(tf: Any, at: Cluster) -> Any:
    flag = tf.placeholder(tf.bool, [])
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)

        def grow() -> Any:
            with tf.control_dependencies([v.assign_add(1.0, read_value=False)]):
                return tf.constant(1)

        change = tf.cond(flag, grow, lambda: tf.constant(0))
    with at.session() as session:
        session.run(v.initializer)
        return [[session.run(change, {flag: f}), session.run(v)] for f in (True, False, True)]


@in_both_versions
def while_counts(tf: Any, at: Cluster) -> Any:
    limit = tf.placeholder(tf.int32, [])
    found = tf.while_loop(
        lambda i, _: i < limit, lambda i, s: (i + 1, s + tf.cast(i, tf.float32)), [0, 0.0]
    )
    with at.session() as session:
        return [session.run(found, {limit: n}) for n in (0, 1, 25)]


@in_both_versions
def while_across_tasks(tf: Any, at: Cluster) -> Any:
    limit = tf.placeholder(tf.int32, [])

    def body(i: Any, total: Any) -> Any:
        with tf.device("/job:ps"):
            total = total * 2
        with tf.device("/job:worker/task:1"):
            total = total + 1
        return i + 1, total

    with tf.device("/job:worker/task:0"):
        found = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(1.0)])
    with at.session() as session:
        return [session.run(found, {limit: n}) for n in (0, 1, 12)]


@in_both_versions
def while_in_while(tf: Any, at: Cluster) -> Any:
    def inner(i: Any, total: Any) -> Any:
        def step(j: Any, t: Any) -> Any:
            with tf.device("/job:ps"):
                return j + 1, t + i * j

        return i + 1, tf.while_loop(lambda j, _: j < 4, step, [tf.constant(0), total])[1]

    found = tf.while_loop(lambda i, _: i < 5, inner, [tf.constant(0), tf.constant(0)])
    with at.session() as session:
        return session.run(found)


@in_both_versions
def while_with_cond(tf: Any, at: Cluster) -> Any:
    def body(i: Any, evens: Any, odds: Any) -> Any:
        def even() -> Any:
            with tf.device("/job:ps"):
                return evens + i, odds

        return (i + 1, *tf.cond(tf.equal(i % 2, 0), even, lambda: (evens, odds + i)))

    found = tf.while_loop(lambda i, *_: i < 9, body, [tf.constant(0)] * 3)
    with at.session() as session:
        return session.run(found)


@in_both_versions
def while_with_gradient(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps"):
        y = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, v * x), [0, x])[1]
    (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return session.run([y, gradient], {x: [2.0, 0.5]})


@in_both_versions
def while_with_a_growing_shape(tf: Any, at: Cluster) -> Any:
    found = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, v: (i + 1, tf.concat([v, v], 0)),
        [tf.constant(0), tf.constant([1.0])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    with at.session() as session:
        return session.run(found)


@in_both_versions
def while_changes_variables(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(2.0, read_value=False)]):
            return i + 1

    loop = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    with at.session() as session:
        session.run(v.initializer)
        return [session.run(loop), session.run(v)]


@in_both_versions
def case_of_three(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps"):
        found = tf.case(
            [(x < 0, lambda: tf.constant(-1)), (x > 10, lambda: tf.constant(1))],
            default=lambda: tf.constant(0),
        )
        chosen = tf.switch_case(x, [lambda: x + 10, lambda: x + 20], default=lambda: x)
    with at.session() as session:
        return [session.run([found, chosen], {x: v}) for v in (-5, 0, 1, 50)]


@program(["tensorflow"])
def a_dead_fetch_is_refused(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker/task:1"):
        no, yes = tf.raw_ops.Switch(data=x, pred=x > 0)
    with tf.device("/job:ps"):
        no, yes = no + 1, yes + 1
    with at.session() as session:
        return [
            session.run(yes, {x: 1.0}),
            at.attempt(lambda: session.run(no, {x: 1.0})),
            session.run(no, {x: -1.0}),
        ]


@in_both_versions
def a_loop_that_may_not_run(tf: Any, at: Cluster) -> Any:
    """Where the branch is not taken, the loop on another task, and what it sends, are dead."""
    flag = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [2])

    def loop() -> Any:
        with tf.device("/job:worker/task:1"):
            y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [tf.constant(0), x])
        with tf.device("/job:ps"):
            return y[1] + 1

    with tf.device("/job:ps"):
        found = tf.cond(flag, loop, lambda: tf.cond(x[0] > 0, lambda: -x, lambda: x * 0))
    with tf.device("/job:worker/task:1"):
        more = found * 2
    (gradient,) = tf.gradients(more, [x])
    with at.session() as session:
        return [
            session.run([found, more, gradient], {flag: f, x: v})
            for f, v in ((True, [2.0, 3.0]), (False, [2.0, 3.0]), (False, [-2.0, 3.0]))
        ]


@in_both_versions
def branches_of_a_loop_on_other_tasks(tf: Any, at: Cluster) -> Any:
    """Each iteration sends dead tensors one way and live ones the other; so does its gradient."""
    x = tf.placeholder(tf.float32, [])

    def body(i: Any, y: Any) -> Any:
        def grow() -> Any:
            with tf.device("/job:ps"):
                return y * x

        def turn() -> Any:
            with tf.device("/job:worker/task:1"):
                return tf.sin(y) + x

        return i + 1, tf.cond(tf.equal(i % 3, 1), grow, turn)

    with tf.device("/job:worker/task:0"):
        y = tf.while_loop(lambda i, _: i < 7, body, [tf.constant(0), x])[1]
        (gradient,) = tf.gradients(y, [x])
    with at.session() as session:
        return [session.run([y, gradient], {x: value}) for value in (0.5, -1.5)]


@in_both_versions
def loops_with_limits(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        serial = tf.while_loop(
            lambda i: i < 9, lambda i: i + 1, [tf.constant(0)], parallel_iterations=1
        )
        limited = tf.while_loop(
            lambda i: i < 9, lambda i: i + 1, [tf.constant(0)], maximum_iterations=4
        )
        swapped = tf.while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), [0, 1.0], swap_memory=True,
            back_prop=False,
        )  # fmt: skip
    with at.session() as session:
        return session.run([serial, limited, swapped])


@in_both_versions
def a_loop_of_which_a_part_is_fetched(tf: Any, at: Cluster) -> Any:
    """What only other variables of the loop need draws no numbers, fails in nothing, feeds nothing;
    a variable that changes another one is needed."""
    wrong = tf.placeholder(tf.float32, [2])
    with tf.device("/job:worker/task:1"):
        drawn = tf.random_normal([2], seed=7)
        checked = tf.check_numerics(wrong, "not finite")

    def body(i: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return i + 1, a * 2.0, a + b, c + drawn, d * checked

    start = [0, tf.constant(1.0), tf.constant(0.5), drawn, checked]
    count, doubled, added, walked, failed = tf.while_loop(lambda i, *_: i < 3, body, start)
    (gradient,) = tf.gradients(walked, [drawn])
    feeds = {wrong: [1.0, float("nan")]}
    with at.session() as session:
        return [
            session.run(count),
            session.run([added, count]),
            session.run([walked, drawn]),
            session.run(doubled),
            session.run([gradient, drawn]),
            at.attempt(lambda: session.run([doubled, failed], feeds)),
            at.attempt(lambda: session.run(failed)),
        ]


@program()
def dead_control_edges_cross_tasks(tf: Any, at: Cluster) -> Any:
    """What comes after a dead op on another task does not run."""
    flag = tf.placeholder(tf.bool, [])
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=0.0, use_resource=True)

    def taken() -> Any:
        with tf.device("/job:worker/task:1"):
            y = tf.random_uniform([], 2.0, 3.0)
        with tf.device("/job:ps"), tf.control_dependencies([y]):
            with tf.control_dependencies([v.assign_add(1.0)]):
                return tf.constant(1.0)

    with tf.device("/job:worker/task:0"):
        found = tf.cond(flag, taken, lambda: tf.constant(2.0))
    with at.session() as session:
        session.run(v.initializer)
        return [[session.run(found, {flag: f}), session.run(v)] for f in (False, True, False, True)]
