"""Variables and queues that sessions and tasks share."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from programs.registry import Cluster, program


def _two_sessions_share(tf: Any, at: Cluster, use_resource: bool) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(
            f"{at.name}/v", initializer=np.float32([1, 2]), use_resource=use_resource
        )
    grow = v.assign_add([10.0, 20.0])
    with at.session("worker:0") as first, at.session("worker:1") as second:
        ready = tf.is_variable_initialized(v) if not use_resource else v.is_initialized()
        before = first.run(ready)
        first.run(v.initializer)
        found = [before, second.run(v), second.run(grow), first.run(v), first.run(grow)]
        return [*found, second.run(v + 1), second.run(ready)]


@program()
def two_sessions_share_a_ref_variable(tf: Any, at: Cluster) -> Any:
    return _two_sessions_share(tf, at, use_resource=False)[1:]


@program()
def two_sessions_share_a_resource_variable(tf: Any, at: Cluster) -> Any:
    return _two_sessions_share(tf, at, use_resource=True)[1:]


@program()
def state_outlives_its_session(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=3.0, use_resource=True)
        w = tf.get_variable(f"{at.name}/w", initializer=4.0, use_resource=False)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        session.run([v.assign_add(1.0), w.assign_add(1.0)])
    with at.session() as session:
        return session.run([v, w])


@program()
def isolated_sessions_have_state_of_their_own(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=3.0, use_resource=True)
    with at.session() as session:
        session.run(v.initializer)
    with at.session(isolate_session_state=True) as session:
        found = at.attempt(lambda: session.run(v))
        session.run(v.assign(7.0))
        found = [found, session.run(v)]
    with at.session() as session:
        return [*found, session.run(v)]


@program()
def scatter_updates_and_slices(tf: Any, at: Cluster) -> Any:
    found = []
    for use_resource in (False, True):
        with tf.device("/job:ps"):
            v = tf.get_variable(
                f"{at.name}/v{use_resource}", initializer=np.zeros([4, 2], np.float32),
                use_resource=use_resource,
            )  # fmt: skip
            updates = [
                tf.scatter_add(v, [0, 2], [[1.0, 2.0], [3.0, 4.0]]),
                tf.scatter_update(v, [3], [[9.0, 9.0]]),
                tf.scatter_sub(v, [0], [[0.5, 0.5]]),
                v[1, :].assign([5.0, 6.0]),
            ]
        with at.session() as session:
            session.run(v.initializer)
            for update in updates:
                session.run(tf.group(update))
                found.append(session.run(v))
            found.append(session.run(tf.gather(v, [3, 1])))
    return found


@program()
def read_of_a_resource_keeps_its_value(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=np.ones(3, np.float32), use_resource=True)
        before = v.read_value()
        with tf.control_dependencies([before]):
            bump = v.assign_add([1.0, 1.0, 1.0], read_value=False)
        with tf.control_dependencies([bump]):
            after = v.read_value()
            kept = before + 0
    with at.session() as session:
        session.run(v.initializer)
        return [session.run([before, after, kept]) for _ in range(2)]


@program()
def a_queue_shared_between_tasks(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(
            10, [tf.int32, tf.string], shapes=[[], [2]], shared_name=f"{at.name}/queue"
        )
    with tf.device("/job:worker/task:1"):
        item = [tf.constant(5) * 2, tf.constant(["a", "b"])]
    put = queue.enqueue(item)
    put_many = queue.enqueue_many([[1, 2, 3], [["c", "d"], ["e", "f"], ["g", "h"]]])
    with at.session("worker:1") as first, at.session("worker:0") as second:
        first.run(put)
        first.run(put_many)
        found = [second.run(queue.size()), second.run(queue.dequeue())]
        found.append(second.run(queue.dequeue_many(2)))
        first.run(queue.close())
        found.append(second.run(queue.dequeue_up_to(5)))
        found.append(at.attempt(lambda: second.run(queue.dequeue())))
        found.append(at.attempt(lambda: second.run(put)))
        return found


@program()
def queues_of_every_sort(tf: Any, at: Cluster) -> Any:
    found = []
    with tf.device("/job:ps"):
        priority = tf.PriorityQueue(10, [tf.string], shapes=[[]], shared_name=f"{at.name}/priority")
        padding = tf.PaddingFIFOQueue(
            10, [tf.int32], shapes=[[None]], shared_name=f"{at.name}/padding"
        )
        shuffle = tf.RandomShuffleQueue(
            10, 0, [tf.int32], shapes=[[]], shared_name=f"{at.name}/shuffle"
        )
    with at.session() as session:
        session.run(priority.enqueue_many([np.int64([3, 1, 2]), ["c", "a", "b"]]))
        found.append(session.run(priority.dequeue_many(3)))
        session.run(padding.enqueue([[1, 2, 3]]))
        session.run(padding.enqueue([[4]]))
        found.append(session.run(padding.dequeue_many(2)))
        session.run(shuffle.enqueue_many([[1, 2, 3, 4]]))
        found.append(sorted(session.run(shuffle.dequeue_many(4)).tolist()))
    return found


@program()
def a_dequeue_waits_for_another_session(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
    with tf.device("/job:worker/task:1"):
        taken = queue.dequeue() * 2
    put = queue.enqueue(21.0)
    found = []
    with at.session("worker:0") as first, at.session("worker:1") as second:
        thread = threading.Thread(target=lambda: found.append(first.run(taken)))
        thread.start()
        second.run(put)
        thread.join(20)
    return found


@program()
def containers_can_be_reset(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        with tf.container(f"{at.name}_box"):
            boxed = tf.get_variable(f"{at.name}/boxed", initializer=1.0, use_resource=True)
        free = tf.get_variable(f"{at.name}/free", initializer=2.0, use_resource=True)
    with at.session() as session:
        session.run(tf.global_variables_initializer())
        found = [session.run([boxed, free])]
    tf.Session.reset(at.targets["worker:0"], [f"{at.name}_box"])
    with at.session() as session:
        return [*found, at.attempt(lambda: session.run(boxed)), session.run(free)]


@program()
def variables_of_each_type(tf: Any, at: Cluster) -> Any:
    """Each is set, changed and read on one task, and read from another."""
    found = {}
    for name in ("float16", "bfloat16", "float64", "int8", "int32", "int64", "uint8", "complex64"):
        dtype = tf.as_dtype(name)
        value = np.array([1, 2, 3]).astype(dtype.as_numpy_dtype)
        for use_resource in (False, True):
            with tf.device("/job:ps"):
                v = tf.get_variable(
                    f"{at.name}/{name}_{use_resource}", initializer=value, use_resource=use_resource
                )
                set_ = tf.assign(v, value + value)
            with tf.device("/job:worker/task:1"):
                there = tf.identity(v)
            with at.session() as session:
                session.run(v.initializer)
                before = session.run(there)
                session.run(tf.group(set_))
                after = session.run(there)
            kind = f"{name} {'resource' if use_resource else 'ref'}"
            found[kind] = [str(after.dtype), before.astype("c16"), after.astype("c16")]
    with tf.device("/job:ps"):
        words = tf.get_variable(f"{at.name}/words", initializer=["a", "bc"], use_resource=True)
        flag = tf.get_variable(f"{at.name}/flag", initializer=[True, False], use_resource=True)
    with tf.device("/job:worker/task:1"):
        joined, inverted = tf.strings.join([words, words]), tf.logical_not(flag)
    with at.session() as session:
        session.run([words.initializer, flag.initializer])
        return [found, session.run([joined, inverted])]


@program()
def counting_up_to_a_limit(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=0, use_resource=False)
        count = v.count_up_to(2)
    with at.session() as session:
        session.run(v.initializer)
        return [at.attempt(lambda: session.run(count)) for _ in range(3)]


@program()
def pending_calls_of_a_queue_are_cancelled(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], shared_name=f"{at.name}/queue")
        ready = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=f"{at.name}/ready")
        fill, more = queue.enqueue(1.0), queue.enqueue(2.0, name="more")
    tell, told = ready.enqueue(0.0), ready.dequeue()
    with tf.device("/job:ps"), tf.control_dependencies([tell]):
        blocked = queue.enqueue(3.0, name="blocked")
    found = []
    with at.session() as session, at.session("worker:1") as other:
        session.run(fill)
        thread = threading.Thread(
            target=lambda: found.append(at.attempt(lambda: session.run(blocked)))
        )
        thread.start()
        other.run(told)
        other.run(queue.close(cancel_pending_enqueues=True))
        thread.join(20)
        found.append(at.attempt(lambda: other.run(more)))
        found.append(other.run([queue.size(), queue.is_closed()]))
        found.append(other.run(queue.dequeue()))
        return [*found, at.attempt(lambda: other.run(queue.dequeue(name="last")))]


@program()
def gradients_are_accumulated(tf: Any, at: Cluster) -> Any:
    """What SyncReplicasOptimizer is made of: stale gradients are dropped, the others averaged."""
    step = tf.placeholder(tf.int64, [])
    with tf.device("/job:ps"):
        dense = tf.ConditionalAccumulator(tf.float32, [2], shared_name=f"{at.name}/dense")
        sparse = tf.SparseConditionalAccumulator(
            tf.float32, [4, 1], shared_name=f"{at.name}/sparse"
        )
        taken, rows = dense.take_grad(2), sparse.take_indexed_slices_grad(2)
    with tf.device("/job:worker/task:1"):
        gradient = tf.cast(step, tf.float32) * [1.0, 10.0]
        give = [
            dense.apply_grad(gradient, step),
            sparse.apply_grad([step, 0], [[1.0], [tf.cast(step, tf.float32)]], [4, 1], step),
        ]
    with at.session("worker:0") as session, at.session("worker:1") as other:
        session.run([dense.set_global_step(1), sparse.set_global_step(1)])
        for value in (0, 1, 3):
            other.run(give, {step: value})
        found = [session.run([dense.num_accumulated(), sparse.num_accumulated()])]
        found.append(session.run(taken))
        found.append(list(session.run([rows.indices, rows.values])))
        other.run(give, {step: 1})
        return [*found, session.run([dense.num_accumulated(), sparse.num_accumulated()])]


@program(["tensorflow"])
def tables_are_shared(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        fixed = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], np.int64([1, 2])), -1
        )
        mutable = tf.lookup.experimental.MutableHashTable(
            tf.string, tf.float32, 0.0, name=f"{at.name}_table"
        )
        put = mutable.insert(tf.constant(["x", "y"]), tf.constant([1.0, 3.0]))
        drop = mutable.remove(tf.constant(["x"]))
    words = tf.placeholder(tf.string, [None])
    with tf.device("/job:worker/task:1"):
        ids = fixed.lookup(words) * 10
        rows = mutable.lookup(words) + 1
    with at.session() as session, at.session("worker:1") as other:
        found = [at.attempt(lambda: session.run(ids, {words: ["a"]}))["error"]]
        session.run(tf.tables_initializer())
        found.append(other.run(ids, {words: ["b", "a", "zzz"]}))
        session.run(put)
        found.append(other.run([rows, mutable.size()], {words: ["y", "x", "q"]}))
        other.run(drop)
        keys, values = mutable.export()
        return [*found, session.run([keys, values, mutable.size()])]
