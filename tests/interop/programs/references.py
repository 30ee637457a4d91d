"""References: fetched, sent and passed on, beside those who update what they refer to."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.registry import Cluster, program

PS, NEXT = "/job:ps", "/job:worker/task:1"
DEVICES = (PS, NEXT, "/job:worker/task:0")


def _counter(tf: Any, at: Cluster, name: str = "v", value: Any = 1.0) -> tuple[Any, Any]:
    """Return a reference variable, and the reference itself."""
    v = tf.get_variable(f"{at.name}/{name}", initializer=value, use_resource=False)
    return v, tf.get_default_graph().get_tensor_by_name(f"{v.op.name}:0")


@program(local=True)
def a_reference_is_fetched_beside_its_update(tf: Any, at: Cluster) -> Any:
    """The fetch sees the value from before or from after the update, as it happens."""
    found = []
    with at.session() as session:
        for number, device in enumerate(DEVICES):
            with at.device(device):
                v, reference = _counter(tf, at, f"v{number}")
                grown = tf.assign_add(v, 1.0)
            session.run(v.initializer)
            for fetches in ([grown, reference], [reference, grown], [reference, reference]):
                before = session.run(reference)
                got = session.run(fetches)
                after = session.run(v)
                found.append([before, after, set(got) <= {before, after}])
            found.append(session.run({"a": grown.op, "b": [tf.shape(reference)]}))
            found.append(session.run(reference))
    return found


@program(local=True)
def the_global_step_is_fetched_beside_training(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        step = tf.get_variable(
            f"{at.name}/step", initializer=np.int64(0), trainable=False, use_resource=False
        )
        v = tf.get_variable(f"{at.name}/v", initializer=[1.0, 2.0], use_resource=False)
    with at.device(NEXT):
        loss = tf.reduce_sum(tf.square(v))
    with at.device(PS):
        train = tf.train.MomentumOptimizer(0.1, 0.5).minimize(loss, step, var_list=[v])
    reference = tf.get_default_graph().get_tensor_by_name(f"{step.op.name}:0")
    steps = []
    with at.session() as session:
        variables = tf.global_variables()
        session.run([one.initializer for one in variables])
        for number in range(4):
            _, seen, here = session.run([train, step, reference])
            steps.append(seen in (number, number + 1) and here in (number, number + 1))
        return [steps, session.run([step, reference, v])]


@program(local=True)
def references_pass_through_other_ops(tf: Any, at: Cluster) -> Any:
    """What gives a reference on is fetched, read on another task, and updated further."""
    with at.device(PS):
        v, reference = _counter(tf, at, "v", np.float32([1, 2, 3]))
        passed = tf.raw_ops.RefIdentity(input=reference)
        assigned = tf.assign(v, [4.0, 5.0, 6.0])
        scattered = tf.scatter_add(assigned, [0, 2], [10.0, 20.0])
        again = tf.assign_add(scattered, [1.0, 1.0, 1.0])
        counted = tf.get_variable(f"{at.name}/c", initializer=0, use_resource=False).count_up_to(3)
    with at.device(NEXT):
        there = again * 2
        total = tf.reduce_sum(passed)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        found = [session.run([total, passed])]
        found.append(session.run([there, again]))
        found.append(session.run(reference))
        found += [session.run(tf.is_variable_initialized(v)), session.run(scattered)]
        found += [at.attempt(lambda: session.run([counted, reference])) for _ in range(4)]
        return [one["error"] if isinstance(one, dict) else one for one in found]


@program(local=True)
def references_in_branches(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v, reference = _counter(tf, at)
        flag = tf.placeholder(tf.bool, [])
        no, yes = tf.raw_ops.RefSwitch(data=reference, pred=flag)
        grown = tf.assign_add(yes, 10.0)
        shrunk = tf.assign_sub(no, 1.0)
        either, _ = tf.raw_ops.RefMerge(inputs=[grown, shrunk])
        read = tf.identity(either)
    with at.device(NEXT):
        chosen = tf.cond(flag, lambda: tf.identity(v) * 2, lambda: v + 1)
    with at.session() as session:
        session.run(v.initializer)
        return [
            [
                session.run([either], {flag: choice}),
                session.run(read, {flag: choice}),
                session.run([chosen, reference], {flag: choice}),
            ]
            for choice in (True, False)
        ]


@program(local=True)
def references_in_loops(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v, reference = _counter(tf, at)

        def body(i: Any, total: Any) -> Any:
            with tf.control_dependencies([total]):
                changed = tf.assign_add(v, 1.0)
            with at.device(NEXT):
                return i + 1, total + tf.identity(changed)

        loop = tf.while_loop(
            lambda i, _: i < 4, body, [tf.constant(0), tf.constant(0.0)], parallel_iterations=1
        )
    with tf.control_dependencies(loop):
        after = tf.assign_add(v, 100.0)
    with at.session() as session:
        session.run(v.initializer)
        return [session.run([loop, after]), session.run(reference), session.run(loop[1])]


@program(local=True)
def references_go_into_queues(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v, reference = _counter(tf, at, "v", np.float32([1, 2]))
        queue = tf.FIFOQueue(9, [tf.float32], [[2]], shared_name=f"{at.name}/queue")
        put = queue.enqueue([reference])
    with at.device(NEXT):
        other = tf.FIFOQueue(9, [tf.float32], [[2]], shared_name=f"{at.name}/other")
        put_there = other.enqueue([tf.assign_add(v, [10.0, 10.0])])
    with at.session() as session:
        session.run(v.initializer)
        session.run(put_there)
        session.run(put)
        found = [session.run(other.dequeue()), session.run([queue.dequeue(), reference])]
        session.run([put, reference])
        return [*found, session.run(queue.dequeue())]


@program(["tensorflow"], local=True)
def references_go_into_functions(tf: Any, at: Cluster) -> Any:
    from tensorflow.python.framework import function  # noqa: PLC0415  (not in the v1 API)

    with at.device(PS):
        v, reference = _counter(tf, at)

    @function.Defun(tf.float32)
    def doubled(x: Any) -> Any:
        return x * 2

    with at.device(PS):
        first = doubled(reference)
        second = reference + 1
        grown = tf.assign_add(v, 1.0)
        with tf.control_dependencies([first, second]):
            later = tf.assign_add(v, 10.0)
    with at.device(NEXT):
        third = doubled(grown)
    with at.session() as session:
        session.run(v.initializer)
        return [
            session.run([first, second]),
            session.run([first, second, later]),
            session.run([third, grown]),
            session.run(reference),
        ]


@program(local=True)
def references_in_callables_and_partial_runs(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v, reference = _counter(tf, at)
        x = tf.placeholder(tf.float32, [])
        y = tf.placeholder(tf.float32, [])
        grown = tf.assign_add(v, x)
        with tf.control_dependencies([grown]):
            shrunk = tf.assign_sub(v, y)
    with at.session() as session:
        session.run(v.initializer)
        call = session.make_callable([grown, reference], [x])
        first, seen = call(1.0)
        found = [first, seen in (1.0, 2.0)]
        handle = session.partial_run_setup([grown, shrunk], [x, y])
        found.append(session.partial_run(handle, grown, {x: 5.0}))
        found.append(session.partial_run(handle, shrunk, {y: 2.0}))
        return [*found, session.run(reference)]


@program(local=True)
def strings_and_flags_behind_references(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        word, at_word = _counter(tf, at, "word", "a")
        words, at_words = _counter(tf, at, "words", ["a", "b"])
        flag, at_flag = _counter(tf, at, "flag", False)
        set_ = tf.group(tf.assign(word, "longer"), tf.assign(flag, True))
        part = tf.scatter_update(words, [1], ["c"])
    with at.device(NEXT):
        joined = tf.strings.join([at_word, tf.identity(word), "!"])
        inverted = tf.logical_not(at_flag)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        found = [session.run([at_word, at_words, at_flag, joined, inverted])]
        session.run(set_)
        return [*found, session.run([part, joined, inverted]), session.run([at_word, at_words])]


@program(local=True)
def a_reference_without_a_value_is_fetched(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v, reference = _counter(tf, at)
        grown = tf.assign_add(v, 1.0)
    with at.session() as session:
        found = [
            at.attempt(lambda: session.run(fetches))["error"]  # noqa: B023
            for fetches in (reference, [reference, grown], grown, tf.identity(reference))
        ]
        return [*found, session.run([v.initializer]), session.run([reference])]
