"""Feeds of any tensor, with any kind of consumer."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs.registry import Cluster, program

PS, NEXT = "/job:ps", "/job:worker/task:1"


@program(local=True)
def a_control_edge_from_a_fed_placeholder(tf: Any, at: Cluster) -> Any:
    """What waits for a placeholder waits for its feed, on every task."""
    found = []
    with at.session() as session:
        for there in (PS, NEXT, "/job:worker/task:0"):
            for here in (PS, NEXT, "/job:worker/task:0"):
                with at.device(there):
                    x = tf.placeholder(tf.float32, [])
                with at.device(here), tf.control_dependencies([x]):
                    y = tf.identity(tf.constant(5.0))
                    group = tf.group(tf.no_op(), y)
                found.append(session.run(y, {x: 1.0}))
                found.append(session.run([y, x, group], {x: 1.0}))
                found.append(at.attempt(lambda: session.run(y))["error"])  # noqa: B023
    return found


@program(local=True)
def a_mean_over_fed_batches(tf: Any, at: Cluster) -> Any:
    values = tf.placeholder(tf.float32, [None])
    weights = tf.placeholder(tf.float32, [None])
    with at.device(PS):
        mean, update = tf.metrics.mean(values, weights, name=f"{at.name}_mean")
        accuracy = tf.metrics.accuracy(weights, values, name=f"{at.name}_accuracy")
    with at.session() as session:
        session.run(tf.local_variables_initializer())
        found = [
            session.run([update, accuracy[1]], {values: batch, weights: [1.0] * len(batch)})
            for batch in ([1.0, 2.0], [3.0], [4.0, 5.0, 6.0])
        ]
        return [found, session.run([mean, accuracy[0]])]


@program(local=True)
def control_edges_from_other_fed_tensors(tf: Any, at: Cluster) -> Any:
    """Only a placeholder gives way as a whole; any other node that is fed still runs when somebody
    waits for it."""
    with at.device(PS):
        runs = tf.get_variable(f"{at.name}/runs", initializer=0, use_resource=True)
    with at.device(NEXT):
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([runs.assign_add(1)]):
            fed = x + 1
            parts = tf.split([1.0, 2.0, 3.0], 3)
        default = tf.placeholder_with_default(tf.constant(7.0) * 2, [])
    with tf.control_dependencies([fed]):
        after_fed = tf.identity(tf.constant(1.0))
    with tf.control_dependencies([parts[0]]):
        after_part = tf.identity(parts[1])
    with tf.control_dependencies([default]):
        after_default = tf.identity(tf.constant(3.0))
    found = []
    with at.session() as session:
        session.run(runs.initializer)
        for fetch, feeds in (
            (after_fed, {fed: 2.0, x: 1.0}),
            (fed + 1, {fed: 2.0}),
            (after_part, {parts[0]: [9.0]}),
            (after_part, {parts[1]: [9.0]}),
            (parts[2] + parts[0], {parts[0]: [9.0]}),
            (after_default, {default: 1.0}),
            (after_default, {}),
            (default, {}),
        ):
            found.append([session.run(fetch, feeds), session.run(runs)])
        return [*found, at.attempt(lambda: session.run(after_fed, {fed: 2.0}))["error"]]


@program(local=True)
def a_fed_placeholder_is_run_as_a_target(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        x = tf.placeholder(tf.float32, [])
    with at.device(NEXT):
        y = x * 2
    found = []
    with at.session() as session:
        for fetches in (x.op, [y, x.op], [tf.group(x.op), y]):
            value = at.attempt(lambda: session.run(fetches, {x: 2.0}))  # noqa: B023
            found.append(value["error"] if isinstance(value, dict) else value)
    return found


@program(local=True)
def control_edges_of_fed_placeholders_in_partial_runs(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        a = tf.placeholder(tf.float32, [])
    with at.device(NEXT):
        b = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([a]):
            first = tf.constant(1.0) + 1
    with tf.control_dependencies([b, first]):
        second = tf.identity(a)
    with at.session() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        found = [session.partial_run(handle, first, {a: 4.0})]
        return [*found, session.partial_run(handle, second, {b: 5.0})]


@program(local=True)
def control_edges_of_fed_placeholders_in_callables(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        x = tf.placeholder(tf.float32, [2])
        flag = tf.placeholder(tf.bool, [])
    with at.device(NEXT), tf.control_dependencies([x, flag]):
        y = tf.constant([1.0, 2.0]) * 3
    with at.session() as session:
        call = session.make_callable([y, x], [x, flag])
        return [call([1.0, 1.0], True), call([2.0, 2.0], False)]


@program(["tensorflow"], local=True)
def a_connection_to_a_placeholder_with_control_edges(tf: Any, at: Cluster) -> Any:
    """A tensor that takes another one's place is made before what waits for that runs."""
    from tensorflow.core.protobuf import config_pb2  # noqa: PLC0415  (programs import neither)

    with at.device(PS):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)
        x = tf.placeholder(tf.float32, [])
    with at.device(NEXT):
        changed = tf.identity(v.assign_add(1.0))
        with tf.control_dependencies([x]):
            y = v.read_value() * 10
    with at.session() as session:
        session.run(v.initializer)
        options = config_pb2.CallableOptions()
        options.fetch.append(y.name)
        connection = options.tensor_connection.add()
        connection.from_tensor, connection.to_tensor = changed.name, x.name
        call = session._make_callable_from_options(options)
        return [call(), call()]


@program(local=True)
def fed_placeholders_order_what_queues_do(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        queue = tf.FIFOQueue(5, [tf.float32, tf.int32], [[], []], shared_name=f"{at.name}/queue")
    x = tf.placeholder(tf.float32, [])
    with at.device(NEXT), tf.control_dependencies([x]):
        put = queue.enqueue([2.0, 3])
        size = queue.size()
        value, number = queue.dequeue()
        total = value + tf.cast(number, tf.float32)
    with at.session() as session:
        session.run(put, {x: 0.0})
        found = [session.run(size, {x: 0.0})]
        # Fed in part, the element is still taken; fed in whole, it is not.
        found.append(session.run(total, {value: 10.0, number: 20}))
        found.append(session.run(size, {x: 0.0}))
        found.append(session.run(total, {value: 10.0, x: 0.0}))
        return [*found, session.run(size, {x: 0.0}), session.run(size + 1, {size: 41})]


@program(local=True)
def fed_placeholders_order_what_loops_do(tf: Any, at: Cluster) -> Any:
    x = tf.placeholder(tf.float32, [])
    limit = tf.placeholder(tf.int32, [])
    with at.device(PS):

        def body(i: Any, total: Any) -> Any:
            with at.device(NEXT), tf.control_dependencies([x]):
                more = tf.identity(total) + 2
            return i + 1, more

        with tf.control_dependencies([x, limit]):
            start = tf.constant(0.0)
        _, total = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), start])
    with tf.control_dependencies([x]):
        chosen = tf.cond(limit > 2, lambda: tf.identity(total) + x, lambda: -total)
    with at.session() as session:
        return [
            session.run([total, chosen], {x: 1.0, limit: 3}),
            session.run([total, chosen], {x: 1.0, limit: 1}),
            session.run(chosen, {x: 1.0, limit: 3, total: 100.0}),
            session.run(chosen, {x: 1.0, limit: 1, start: 100.0}),
        ]


@program(["tensorflow"], local=True)
def fed_placeholders_order_what_functions_do(tf: Any, at: Cluster) -> Any:
    from tensorflow.python.framework import function  # noqa: PLC0415  (not in the v1 API)

    x = tf.placeholder(tf.float32, [])
    with at.device(PS):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=True)

    @function.Defun(tf.float32)
    def doubled(y: Any) -> Any:
        with tf.control_dependencies([y]):
            return tf.constant(2.0) * y

    @tf.function
    def counted(y: Any) -> Any:
        with tf.control_dependencies([x]):
            v.assign_add(1.0)
            return v + y + x

    with at.device(NEXT), tf.control_dependencies([x]):
        first = doubled(tf.constant(4.0))
        second = counted(tf.constant(4.0))
    with at.session() as session:
        session.run(v.initializer)
        return [session.run([first, second], {x: value}) for value in (1.0, 2.0)]


@program(local=True)
def any_tensor_is_fed(tf: Any, at: Cluster) -> Any:
    """Constants, variables, reads, conditions, elements, strings and what a gradient needs."""
    with at.device(PS):
        old = tf.get_variable(f"{at.name}/old", initializer=1.0, use_resource=False)
        new = tf.get_variable(f"{at.name}/new", initializer=2.0, use_resource=True)
        words = tf.constant(["a", "b"])
        word = tf.constant("c")
        read = new.read_value()
    with at.device(NEXT):
        constant = tf.constant([1.0, 2.0])
        is_positive = constant[0] > 0
        chosen = tf.cond(is_positive, lambda: constant * 2, lambda: constant - 1)
        loss = tf.reduce_sum(chosen * read * old.value())
        (gradient,) = tf.gradients(loss, [constant])
        joined = tf.strings.join([words, [word, word]], separator="-")
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
        element = iterator.get_next()
        more = element + 1
        reference = tf.identity(old) + old
        number = tf.strings.to_number(word)
    with at.session() as session:
        session.run([old.initializer, new.initializer, iterator.initializer])
        return [
            session.run([chosen, loss, gradient], feeds)
            for feeds in ({}, {constant: [3.0, 4.0]}, {is_positive: False}, {read: 10.0},
                          {chosen: [1.0, 1.0]})
        ] + [
            session.run(joined, {words: ["x", "y"]}),
            session.run(joined, {word: "z"}),
            session.run(joined, {word: b"\x00z\x00", words: [b"", b"\xff\x00"]}),
            session.run(number, {word: "12.5"}),
            session.run([more, element]),
            session.run(reference, {old: 20.0}),
            session.run(old.value() + 1, {old: np.float32(5)}),
            session.run(tf.shape(words), {words: np.array(["x", "y"])}),
        ]  # fmt: skip


@program(local=True)
def a_reference_is_fed(tf: Any, at: Cluster) -> Any:
    with at.device(PS):
        v = tf.get_variable(f"{at.name}/v", initializer=1.0, use_resource=False)
        grown = tf.assign_add(v, 10.0)
        read = tf.identity(v)
    with at.device(NEXT):
        there = grown * 2
    with at.session() as session:
        session.run(v.initializer)
        failed = at.attempt(lambda: session.run(grown, {v: 5.0}))
        return [
            failed["error"],
            session.run([read], {v: 5.0}),
            session.run([there, grown]),
            session.run(v),
        ]
