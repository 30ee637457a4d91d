"""Queues, barriers, staging areas, stacks and accumulators."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/kernel_tests/data_structures/{name}_test.py")


fifo = _of("fifo_queue")
padding = _of("padding_fifo_queue")
priority = _of("priority_queue")
barriers = _of("barrier_ops")
accumulators = _of("conditional_accumulator")
sparse_accumulators = _of("sparse_conditional_accumulator")
stages = _of("stage_op")
map_stages = _of("map_stage_op")
arrays = _of("tensor_array_ops")
partitions = _of("dynamic_partition_op")
stitches = _of("dynamic_stitch_op")


def _takes(tf: Any, queue: Any, count: int) -> Any:
    out = queue.dequeue()
    with tf.Session() as session:
        return [session.run(out) for _ in range(count)]


# ---- first in, first out


@fifo("A queue says its types, shapes and names; wrong ones are refused.")
def makes_queues(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[1], [2, 3]], names=["i", "j"])
    return [
        [x.name for x in queue.dtypes],
        [x.as_list() for x in queue.shapes],
        queue.names,
        queue.name,
        queue.queue_ref.op.type,
        error(lambda: tf.FIFOQueue(10, [tf.int32, tf.int32], shapes=[[1]])),
        error(lambda: tf.FIFOQueue(10, [tf.int32], names=["a", "b"])),
    ]


@fifo("What goes in comes out in the order in which it went in; the size counts it.")
def fifo_order(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32)
    x = tf.placeholder(tf.float32)
    put, size, out = queue.enqueue((x,)), queue.size(), queue.dequeue()
    with tf.Session() as session:
        sizes = [session.run(size)]
        for value in (10.0, 20.0, 30.0):
            session.run(put, {x: value})
        sizes.append(session.run(size))
        return [sizes, [session.run(out) for _ in range(3)], session.run(size), put.type]


@fifo("Many are put in along the first dimension, and taken out as many as are asked for.")
def many_at_once(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[], [2]])
    put = queue.enqueue_many([[1.0, 2.0, 3.0, 4.0], [[1, 1], [2, 2], [3, 3], [4, 4]]])
    out, single, rest = queue.dequeue_many(2), queue.dequeue(), queue.dequeue_up_to(1)
    with tf.Session() as session:
        session.run(put)
        found = [session.run(out), session.run(single), session.run(rest)]
    return [found, [x.shape.as_list() for x in (*out, *single)], rest[0].shape.as_list()]


@fifo("None put in, or taken out, is an empty tensor of the right shape.")
def none_at_once(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[3]])
    put = queue.enqueue_many([np.zeros([0, 3], np.float32)])
    out, size = queue.dequeue_many(0), queue.size()
    with tf.Session() as session:
        session.run(put)
        return [session.run(size), session.run(out).shape]


@fifo("Components of other types, shapes, counts or lengths are refused.")
def refused_components(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
    free = tf.FIFOQueue(10, tf.float32)
    fed = tf.placeholder(tf.float32)
    put = queue.enqueue([1, fed])
    many = queue.enqueue_many([[1, 2], fed])
    with tf.Session() as session:
        return [
            error(lambda: queue.enqueue([1.5, [1.0, 2.0]])),
            error(lambda: queue.enqueue([1])),
            error(lambda: queue.enqueue([1, [1.0, 2.0, 3.0]])),
            error(lambda: queue.enqueue_many([1, [[1.0, 2.0]]])),
            error(lambda: free.dequeue_many(2)),
            error(lambda: free.dequeue_up_to(2)),
            error(lambda: session.run(put, {fed: [1.0]})),
            error(lambda: session.run(many, {fed: [[1.0, 2.0]]})),
            error(lambda: session.run(queue.dequeue_many(-1))),
        ]


@fifo("A closed queue gives what it has, and then says that it is closed and has too little.")
def closed_queues(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], name="q")
    put, more = queue.enqueue_many([[1.0, 2.0, 3.0]]), queue.enqueue((4.0,))
    out, two, up_to = queue.dequeue(), queue.dequeue_many(2), queue.dequeue_up_to(5)
    closed, close = queue.is_closed(), queue.close()
    with tf.Session() as session:
        session.run(put)
        found = [session.run(closed)]
        session.run(close)
        found += [session.run(closed), session.run(out)]
        found.append(error(lambda: session.run(more), "is closed"))
        found.append(error(lambda: session.run(queue.dequeue_many(3)), "insufficient elements"))
        found += [session.run(up_to), error(lambda: session.run(two), "is closed")]
        found.append(error(lambda: session.run(up_to), "requested 5, current size 0"))
        return [*found, error(lambda: session.run(queue.close()))]


@fifo("Those who wait are woken by what is put in, by close, and cancelled where asked.")
def cancelled_waits(tf: Any) -> Any:
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[]])
    put, out = queue.enqueue((1.0,)), queue.dequeue()
    close = queue.close(cancel_pending_enqueues=True)
    found = []
    with tf.Session() as session:
        session.run(put)
        waiting = threading.Thread(target=lambda: found.append(error(lambda: session.run(put))))
        waiting.start()
        session.run(close)
        waiting.join()
        return [*found, session.run(out), error(lambda: session.run(out))]


@fifo("A wait ends at the deadline of its step.")
def deadlines_of_waits(tf: Any) -> Any:
    out = tf.FIFOQueue(1, tf.float32).dequeue()
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=20)) as session:
        return error(lambda: session.run(out))


@fifo("Queues of a shared name are one; another type, shape or capacity is refused.")
def shared_queues(tf: Any) -> Any:
    one = tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name="shared")
    two = tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name="shared")
    others = [
        tf.FIFOQueue(5, tf.int32, shapes=[[]], shared_name="shared"),
        tf.FIFOQueue(6, tf.float32, shapes=[[]], shared_name="shared"),
        tf.FIFOQueue(5, tf.float32, shapes=[[1]], shared_name="shared"),
        tf.RandomShuffleQueue(5, 1, tf.float32, shapes=[[]], shared_name="shared"),
    ]
    with tf.Session() as session:
        session.run(one.enqueue((3.0,)))
        found = [session.run(two.dequeue())]
        return found + [error(lambda queue=queue: session.run(queue.size())) for queue in others]


@fifo("Components with names go in and come out as a dict.")
def named_components(tf: Any) -> Any:
    queue = tf.FIFOQueue(5, (tf.int32, tf.float32), names=("i", "f"), shapes=((), ()))
    put = queue.enqueue({"i": 1, "f": 2.0})
    many = queue.enqueue_many({"i": [3, 4], "f": [5.0, 6.0]})
    with tf.Session() as session:
        session.run([put, many])
        found = [session.run(queue.size()), sorted(queue.dequeue()), sorted(queue.dequeue_many(1))]
    return [
        *found,
        error(lambda: queue.enqueue({"i": 1})),
        error(lambda: queue.enqueue({"i": 1, "f": 2.0, "x": 3})),
        error(lambda: queue.enqueue([1, 2.0])),
        error(lambda: tf.FIFOQueue(5, tf.int32).enqueue({"i": 1})),
    ]


@fifo("One of several queues is chosen when the step runs.")
def chosen_queues(tf: Any) -> Any:
    queues = [tf.FIFOQueue(5, tf.float32, shapes=[[]]) for _ in range(2)]
    index = tf.placeholder(tf.int32)
    chosen = tf.QueueBase.from_list(index, queues)
    with tf.Session() as session:
        session.run([q.enqueue((x,)) for q, x in zip(queues, (1.0, 2.0))])
        out = chosen.dequeue()
        found = [session.run(out, {index: i}) for i in (1, 0)]
    return [
        found,
        error(lambda: tf.QueueBase.from_list(0, [])),
        error(lambda: tf.QueueBase.from_list(0, [queues[0], tf.FIFOQueue(5, tf.int32)])),
    ]


@fifo("Strings, booleans and numbers of every width pass through unchanged.")
def types_of_components(tf: Any) -> Any:
    values = [
        np.array(["a", ""], object),
        np.array([True, False]),
        np.array([1, -1], np.int8),
        np.array([1 + 2j], np.complex64),
        np.array([2**40]),
        np.array([1.5], np.float16),
    ]
    queue = tf.FIFOQueue(2, [tf.as_dtype(v.dtype) for v in values])
    with tf.Session() as session:
        session.run(queue.enqueue(values))
        return [[str(x.dtype), str(x.tolist())] for x in session.run(queue.dequeue())]


# ---- the other orders


@behaviour(
    "python/kernel_tests/random/random_shuffle_queue_test.py",
    "A queue that shuffles keeps so many back until it is closed; a seed repeats its order.",
)
def shuffled(tf: Any) -> Any:
    def order() -> Any:
        with tf.Graph().as_default():
            queue = tf.RandomShuffleQueue(10, 2, tf.int32, shapes=[[]], seed=7)
            put, out, close = queue.enqueue_many([list(range(6))]), queue.dequeue(), queue.close()
            with tf.Session() as session:
                session.run(put)
                found = [session.run(out) for _ in range(4)]
                session.run(close)
                return found + [session.run(out) for _ in range(2)]

    return [order() == order(), sorted(int(x) for x in order())]


@padding("Components of unknown sizes are padded to the longest of those taken together.")
def padded(tf: Any) -> Any:
    queue = tf.PaddingFIFOQueue(10, [tf.float32, tf.string], shapes=[[None], [None, 2]])
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.string)
    put, out = queue.enqueue([x, y]), queue.dequeue_many(2)
    with tf.Session() as session:
        session.run(put, {x: [1.0], y: [["a", "b"]]})
        session.run(put, {x: [1.0, 2.0], y: np.zeros([0, 2], object)})
        session.run(put, {x: [], y: [["c", "d"]]})
        return [session.run(out), session.run(queue.dequeue()), out[1].shape.as_list()]


@padding("Shapes must be given, and ranks must agree.")
def refused_padding(tf: Any) -> Any:
    queue = tf.PaddingFIFOQueue(10, [tf.float32], shapes=[[None]])
    return [
        error(lambda: tf.PaddingFIFOQueue(10, [tf.float32], shapes=None)),
        error(lambda: tf.PaddingFIFOQueue(10, [tf.float32, tf.int32], shapes=[[None]])),
        error(lambda: queue.enqueue([[[1.0]]])),
    ]


@priority("The least priority comes first, and equal ones in the order in which they came.")
def by_priority(tf: Any) -> Any:
    queue = tf.PriorityQueue(10, (tf.string,), ((),))
    put = queue.enqueue_many([np.array([3, 1, 2, 1]), np.array(["a", "b", "c", "d"], object)])
    out = queue.dequeue()
    with tf.Session() as session:
        session.run(put)
        found = [session.run(out) for _ in range(4)]
    return [[[int(p), v] for p, v in found], [x.name for x in queue.dtypes], queue.name]


@priority("Priorities are int64 scalars.")
def refused_priorities(tf: Any) -> Any:
    queue = tf.PriorityQueue(10, tf.float32, ())
    return [
        error(lambda: queue.enqueue([1.5, 1.0])),
        error(lambda: queue.enqueue([[1, 2], 1.0])),
        error(lambda: tf.PriorityQueue(10, tf.float32, None)),
    ]


# ---- barriers


def _barrier(tf: Any, types: Any = None) -> Any:
    types = types or [tf.float32]
    return tf.raw_ops, tf.raw_ops.Barrier(component_types=types, shapes=[[]] * len(types))


@barriers("Elements are ready when all their components have come, in the order of the first.")
def barrier_elements(tf: Any) -> Any:
    raw, barrier = _barrier(tf, [tf.float32, tf.int32])
    keys = tf.constant(["a", "b", "c"])
    first = raw.BarrierInsertMany(
        handle=barrier, keys=keys, values=[1.0, 2.0, 3.0], component_index=0
    )
    second = raw.BarrierInsertMany(
        handle=barrier, keys=["c", "a"], values=[30, 10], component_index=1
    )
    ready, incomplete = (
        raw.BarrierReadySize(handle=barrier),
        raw.BarrierIncompleteSize(handle=barrier),
    )
    taken = raw.BarrierTakeMany(
        handle=barrier, num_elements=2, component_types=[tf.float32, tf.int32]
    )
    with tf.Session() as session:
        session.run(first)
        found = [session.run([ready, incomplete])]
        session.run(second)
        found.append(session.run([ready, incomplete]))
        out = session.run([taken.keys, *taken.values])
        return [*found, [x.tolist() for x in out], session.run([ready, incomplete])]


@barriers("A component that came before is refused; so is a key after the close.")
def refused_barriers(tf: Any) -> Any:
    raw, barrier = _barrier(tf)
    insert = raw.BarrierInsertMany(handle=barrier, keys=["a"], values=[1.0], component_index=0)
    close = raw.BarrierClose(handle=barrier)
    other = raw.BarrierInsertMany(handle=barrier, keys=["b"], values=[1.0], component_index=0)
    with tf.Session() as session:
        session.run(insert)
        found = [error(lambda: session.run(insert))]
        session.run(close)
        return [*found, error(lambda: session.run(other))]


# ---- accumulators


@accumulators("An accumulator gives the mean of gradients once enough have come, and starts anew.")
def accumulated(tf: Any) -> Any:
    q = tf.ConditionalAccumulator(tf.float32, name="Q", shape=[2])
    x = tf.placeholder(tf.float32, [2])
    # As if of a step to come, since what is older than the last that was taken is dropped.
    apply, take, count = q.apply_grad(x, 10), q.take_grad(2), q.num_accumulated()
    with tf.Session() as session:
        session.run(apply, {x: [1.0, 2.0]})
        found = [session.run(count)]
        session.run(apply, {x: [3.0, 6.0]})
        found += [session.run(take), session.run(count)]
        session.run([apply], {x: [5.0, 5.0]})
        return [*found, session.run(q.take_grad(1)), q.dtype.name, q.name]


@accumulators("Gradients of an older step are dropped; take counts the step.")
def stale_gradients(tf: Any) -> Any:
    q = tf.ConditionalAccumulator(tf.float32, shape=[])
    step, x = tf.placeholder(tf.int64), tf.placeholder(tf.float32)
    apply, take, count = q.apply_grad(x, step), q.take_grad(1), q.num_accumulated()
    with tf.Session() as session:
        session.run(apply, {x: 1.0, step: 0})
        found = [session.run(take)]
        session.run(apply, {x: 2.0, step: 0})
        found.append(session.run(count))
        session.run(q.set_global_step(5))
        session.run(apply, {x: 3.0, step: 4})
        found.append(session.run(count))
        session.run(apply, {x: 4.0, step: 5})
        return [*found, session.run(take), error(lambda: session.run(q.set_global_step(2)))]


@accumulators("A sum is given where it is asked for; other reductions are refused.")
def reductions(tf: Any) -> Any:
    q = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM")
    with tf.Session() as session:
        for value in (1.0, 2.0):
            session.run(q.apply_grad(value))
        found = session.run(q.take_grad(2))
        bad = error(
            lambda: session.run(
                tf.ConditionalAccumulator(tf.float32, reduction_type="X").num_accumulated()
            )
        )
    return [found, bad]


@accumulators("Gradients of other shapes are refused, when they are given or when they come.")
def refused_gradients(tf: Any) -> Any:
    q = tf.ConditionalAccumulator(tf.float32, shape=[2, None])
    x = tf.placeholder(tf.float32)
    apply = q.apply_grad(x)
    with tf.Session() as session:
        found = [error(lambda: session.run(apply, {x: [1.0, 2.0, 3.0]}))]
        session.run(apply, {x: [[1.0], [2.0]]})
        found.append(error(lambda: session.run(apply, {x: [[1.0, 2.0], [1.0, 2.0]]})))
        found.append(error(lambda: q.apply_grad([1, 2])))
        return [*found, session.run(q.take_grad(1))]


@sparse_accumulators("Rows are averaged, each by how many gave it.")
def sparse_accumulated(tf: Any) -> Any:
    q = tf.SparseConditionalAccumulator(tf.float32, name="Q", shape=[3, 2])
    one = tf.IndexedSlices(tf.constant([[1.0, 1.0], [3.0, 3.0]]), tf.constant([0, 2], tf.int64))
    with tf.Session() as session:
        session.run(q.apply_indexed_slices_grad(one))
        session.run(q.apply_grad([2], [[5.0, 5.0]], [3, 2]))
        found = session.run(q.num_accumulated())
        taken = session.run(q.take_indexed_slices_grad(2))
        return [found, taken.indices, taken.values, taken.dense_shape]


@sparse_accumulators("Indices and values of other counts or shapes are refused.")
def refused_rows(tf: Any) -> Any:
    q = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 2])
    with tf.Session() as session:

        def apply(*given: Any) -> Any:
            return error(lambda: session.run(q.apply_grad(*given)))

        return [
            apply([0], [[1.0, 1.0, 1.0]], [3, 3]),
            apply([0, 1], [[1.0, 1.0]], [3, 2]),
            apply([0], [[1.0, 1.0]], [3, 1]),
            apply([], [], [3, 2]),
            session.run(q.num_accumulated()),
        ]


# ---- staging areas


@stages("What is put into a staging area is got in order, peeked at, counted and cleared.")
def staged(tf: Any) -> Any:
    raw = tf.raw_ops
    kept = {"dtypes": [tf.float32], "shared_name": "s", "capacity": 0}
    x = tf.placeholder(tf.float32)
    put = raw.Stage(values=[x], shared_name="s")
    size, get = raw.StageSize(**kept), raw.Unstage(**kept)
    peek, clear = raw.StagePeek(index=1, **kept), raw.StageClear(**kept)
    with tf.Session() as session:
        for value in (1.0, 2.0, 3.0):
            session.run(put, {x: value})
        found = [session.run(size), session.run(peek), session.run(get), session.run(size)]
        session.run(clear)
        return [*found, session.run(size)]


@map_stages("Staged tuples are got by key, once complete, the least key first where none is named.")
def staged_by_key(tf: Any) -> Any:
    raw = tf.raw_ops
    kinds = {"dtypes": [tf.float32, tf.int32], "shared_name": "m"}
    key = tf.placeholder(tf.int64)
    whole = raw.OrderedMapStage(key=key, indices=[0, 1], values=[1.5, 2], **kinds)
    part = raw.OrderedMapStage(key=key, indices=[0], values=[9.5], **kinds)
    rest = raw.OrderedMapStage(key=key, indices=[1], values=[8], **kinds)
    size = raw.OrderedMapSize(**kinds)
    incomplete = raw.OrderedMapIncompleteSize(**kinds)
    first = raw.OrderedMapUnstageNoKey(indices=[0, 1], **kinds)
    with tf.Session() as session:
        session.run(whole, {key: 5})
        session.run(whole, {key: 3})
        session.run(part, {key: 1})
        found = [session.run([size, incomplete])]
        session.run(rest, {key: 1})
        found.append(session.run([size, incomplete]))
        for _ in range(3):
            got = session.run([first.key, *first.values])
            found.append([int(got[0]), float(got[1]), int(got[2])])
        return found


# ---- tensor arrays


@arrays("An array is written and read once, stacked, gathered and concatenated.")
def tensor_arrays(tf: Any) -> Any:
    array = tf.TensorArray(tf.float32, 3, clear_after_read=False)
    array = array.write(0, [[1.0, 2.0]]).write(1, [[3.0, 4.0]]).write(2, [[5.0, 6.0]])
    with tf.Session() as session:
        return session.run(
            [array.stack(), array.concat(), array.gather([2, 0]), array.read(1), array.size()]
        )


@arrays("What is read twice, written twice or out of bounds is refused.")
def refused_arrays(tf: Any) -> Any:
    with tf.Session() as session:

        def run(make: Any) -> Any:
            return error(lambda: session.run(make(tf.TensorArray(tf.float32, 2))))

        def twice(array: Any) -> Any:
            array = array.write(0, 1.0)
            first = array.read(0)
            with tf.control_dependencies([first]):
                return array.read(0)

        return [
            run(twice),
            run(lambda a: a.write(0, 1.0).write(0, 2.0).flow),
            run(lambda a: a.write(5, 1.0).flow),
            run(lambda a: a.write(-1, 1.0).flow),
            run(lambda a: a.read(0)),
            run(lambda a: a.write(0, 1.0).stack()),
            run(lambda a: a.write(0, 1)),
            run(lambda a: a.write(0, 1.0).write(1, [1.0]).stack()),
            run(lambda a: a.unstack([1.0, 2.0, 3.0]).flow),
            run(lambda a: a.split([1.0, 2.0, 3.0], [1, 1]).flow),
        ]


@arrays("Gradients go back through what was written, read, stacked and split.")
def gradients_of_arrays(tf: Any) -> Any:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    array = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(x)
    y = array.stack() * [[1.0, 10.0], [100.0, 1000.0]]
    z = array.read(1) * 3.0
    parts = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x[0], [1, 1])
    with tf.Session() as session:
        return session.run(
            [tf.gradients(y, x)[0], tf.gradients(z, x)[0], tf.gradients(parts.concat(), x)[0]]
        )


# ---- partitions


@partitions("Rows go to partitions by number; numbers out of bounds are refused.")
def partitioned(tf: Any) -> Any:
    data = tf.placeholder(tf.float32)
    numbers = tf.placeholder(tf.int32)
    parts = tf.dynamic_partition(data, numbers, 3)
    with tf.Session() as session:

        def run(rows: Any, which: Any) -> Any:
            return session.run(parts, {data: rows, numbers: which})

        return [
            run([[1.0], [2.0], [3.0]], [2, 0, 2]),
            run(5.0, 1),
            run([], []),
            error(lambda: run([1.0], [3])),
            error(lambda: run([1.0], [-1])),
            error(lambda: run([1.0], [0, 1])),
            error(lambda: tf.dynamic_partition([1.0], [0], 0)),
        ]


@stitches("Rows are put at their indices, the last of an index wins; gradients go back.")
def stitched(tf: Any) -> Any:
    one, two = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[5.0, 6.0]])
    whole = tf.dynamic_stitch([[0, 2], [1]], [one, two])
    with tf.Session() as session:
        return [
            session.run(whole),
            session.run(tf.gradients(whole * 2.0, [one, two])),
            session.run(tf.dynamic_stitch([[0, 0], [0]], [[1, 2], [3]])),
            session.run(tf.dynamic_stitch([3, [1]], [1.5, [2.5]])).shape,
            error(lambda: tf.dynamic_stitch([[0, 1]], [[1.0]])),
            error(lambda: tf.dynamic_stitch([[0]], [[1.0], [2.0]])),
        ]
