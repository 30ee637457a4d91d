"""Threads, queues of inputs, replicas in step and basic loops."""

from __future__ import annotations

import functools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/training/{name}_test.py")


runners = _of("queue_runner")
coordinators = _of("coordinator")
inputs = _of("input")
syncs = _of("sync_replicas_optimizer")
loops = _of("basic_loops")


# ---- threads


@runners("A runner's threads put until the input ends, and then close the queue.")
def run_to_the_end(tf: Any) -> Any:
    count = tf.Variable(0)
    queue = tf.FIFOQueue(10, tf.float32)
    up = count.count_up_to(3)
    runner = tf.train.QueueRunner(queue, [up])
    with tf.Session() as session:
        session.run(count.initializer)
        threads = runner.create_threads(session)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [
            session.run(count),
            runner.exceptions_raised,
            error(lambda: session.run(queue.dequeue()), "is closed"),
            sorted(t.daemon for t in threads),
        ]


@runners("Other errors of threads are kept, or told to the coordinator.")
def errors_of_runners(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    queue = tf.FIFOQueue(10, tf.float32)
    bad = tf.check_numerics(np.float32("nan"), "bad")
    with tf.Session() as session:
        runner = tf.train.QueueRunner(queue, [bad])
        for thread in runner.create_threads(session, start=True):
            thread.join()
        found = [[type(e).__name__ for e in runner.exceptions_raised]]
        coordinator = tf.train.Coordinator()
        runner = tf.train.QueueRunner(queue, [bad])
        threads = runner.create_threads(session, coord=coordinator, start=True)
        found.append(error(lambda: coordinator.join(threads), "bad"))
        found.append(error(lambda: tf.train.QueueRunner(queue, [])))
        found.append(error(lambda: tf.train.QueueRunner(None, [bad])))
        return [*found, x.op.type]


@runners("All runners of a graph are started, and none outside of a session.")
def started_runners(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue((2.0,))] * 2)
    tf.train.add_queue_runner(runner)
    tf.train.add_queue_runner(runner, collection="other")
    found = [error(lambda: tf.train.start_queue_runners()), runner.name == queue.name]
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found += [len(threads), session.run(queue.dequeue())]
        coordinator.request_stop()
        coordinator.join(threads)
        found.append(len(tf.train.start_queue_runners(session, start=False, collection="none")))
    made = tf.train.QueueRunner.from_proto(runner.to_proto())
    return [*found, len(made.enqueue_ops), made.queue.name == queue.name]


@coordinators("A coordinator stops once, raises what a thread raised, and may be cleared.")
def coordinated(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    found = [coordinator.should_stop(), coordinator.wait_for_stop(0.0)]

    def work() -> None:
        with coordinator.stop_on_exception():
            raise RuntimeError("First")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    found += [coordinator.should_stop(), error(lambda: coordinator.join([thread]), "First")]
    coordinator.clear_stop()
    found += [coordinator.should_stop(), coordinator.joined]
    coordinator.request_stop()
    coordinator.request_stop()
    return [*found, coordinator.join([]), coordinator.should_stop()]


@coordinators("The end of an input is no error; what joins late is told, and threads register.")
def quiet_coordinators(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    found = [coordinator.join([]), coordinator.joined]
    own = tf.train.Coordinator(clean_stop_exception_types=(ValueError,))
    own.request_stop(ValueError("fine"))
    found.append(own.join([]))
    late = tf.train.Coordinator()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    late.register_thread(thread)
    thread.start()
    late.request_stop()
    found.append(error(lambda: late.join(stop_grace_period_secs=0.05)))
    found.append(late.join(stop_grace_period_secs=0.05, ignore_live_threads=True))
    stop.set()
    thread.join()
    return found


@coordinators("A thread that loops calls its target until it is asked to stop.")
def looping_threads(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    calls: list[int] = []

    def work(most: int, step: int = 1) -> None:
        calls.append(step)
        if len(calls) >= most:
            coordinator.request_stop()

    thread = tf.train.LooperThread.loop(coordinator, None, work, (3,), {"step": 2})
    coordinator.join([thread])
    broken = tf.train.Coordinator()

    def fail() -> None:
        raise ValueError("broken")

    failing = tf.train.LooperThread.loop(broken, None, fail)
    return [
        calls,
        error(lambda: broken.join([failing]), "broken"),
        error(lambda: tf.train.LooperThread("x", 1)),
    ]


# ---- inputs


def _drained(tf: Any, fetches: Any, most: int = 50) -> Any:
    """Return what a pipeline gives until it ends."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(found) < most:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            found.append("end")
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


@inputs("Names, numbers and slices come as often as epochs say, in order unless shuffled.")
def producers(tf: Any) -> Any:
    return [
        _drained(tf, tf.train.string_input_producer(["a", "b"], 2, shuffle=False).dequeue()),
        _drained(tf, tf.train.range_input_producer(3, 1, shuffle=False).dequeue()),
        _drained(
            tf, tf.train.slice_input_producer([[1, 2], ["x", "y"]], num_epochs=1, shuffle=False)
        ),
        _drained(tf, tf.train.input_producer([[1], [2]], [1], 1, shuffle=False).dequeue_many(2)),
        sorted(
            x.decode()
            for x in _drained(
                tf, tf.train.string_input_producer(["a", "b", "c"], 1, seed=1).dequeue()
            )[:-1]
        ),
    ]


@inputs("An empty list and what has no rows are refused; epochs end.")
def refused_producers(tf: Any) -> Any:
    x = tf.placeholder(tf.string)
    empty = tf.train.string_input_producer(x).dequeue()

    def run() -> Any:
        with tf.Session() as session:
            coordinator = tf.train.Coordinator()
            session.run(tf.no_op())
            threads = tf.train.start_queue_runners(session, coordinator)
            coordinator.join(threads)

    return [
        error(lambda: tf.train.string_input_producer([])),
        error(lambda: tf.train.slice_input_producer([])),
        error(lambda: tf.train.input_producer(tf.constant(1))),
        error(lambda: tf.train.limit_epochs(tf.constant(1), num_epochs=0)),
        empty.dtype.name,
    ]


@inputs("Epochs are counted by a local variable, which ends what it limits.")
def limited_epochs(tf: Any) -> Any:
    limited = tf.train.limit_epochs(tf.constant("seven"), num_epochs=2)
    unlimited = tf.train.limit_epochs(tf.constant(7))
    names = [v.name for v in tf.local_variables()]
    return [_drained(tf, limited), unlimited.op.type, names]


@inputs("Batches are of equal size, but for the last where that is allowed.")
def batches(tf: Any) -> Any:
    def run(**options: Any) -> Any:
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(5, 1, shuffle=False).dequeue()
            batch = tf.train.batch([rows, tf.as_string(rows)], 2, **options)
            return [_drained(tf, batch), [x.shape.as_list() for x in batch]]

    return [run(), run(allow_smaller_final_batch=True), run(num_threads=1, capacity=3)]


@inputs("Batches of dicts, of many rows at once, of padded rows, and of some rows only.")
def kinds_of_batches(tf: Any) -> Any:
    found = []
    for make in (
        lambda x: tf.train.batch({"a": x, "b": [x, x]}, 2),
        lambda x: tf.train.batch([tf.stack([x, x + 10])], 2, enqueue_many=True),
        lambda x: tf.train.batch([tf.range(x)], 2, dynamic_pad=True),
        lambda x: tf.train.maybe_batch([x], tf.equal(x % 2, 0), 1),
        lambda x: tf.train.batch_join([[x]], 2),
        lambda x: (
            tf.train.batch([tf.sparse.from_dense([x, 0, x])], 2)[0].values
            if False
            else tf.train.batch([x], 4, allow_smaller_final_batch=True)
        ),
    ):
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(4, 1, shuffle=False).dequeue()
            found.append(_drained(tf, make(rows)))
    return found


@inputs("Shuffled batches have all rows once; a seed repeats their order.")
def shuffled_batches(tf: Any) -> Any:
    def run(seed: int) -> list[int]:
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(8, 1, shuffle=False).dequeue()
            batch = tf.train.shuffle_batch([rows], 2, 8, 4, seed=seed)
            return [int(x) for part in _drained(tf, batch)[:-1] for x in part]

    def bad() -> Any:
        return tf.train.shuffle_batch([tf.constant(1)], 0, 8, 4)

    return [sorted(run(1)), len(run(2)), error(bad)[0] == "nothing was raised"]


@inputs("A batch of tensors of unknown rank, or of none, is refused.")
def refused_batches(tf: Any) -> Any:
    unknown = tf.placeholder(tf.int32)
    return [
        error(lambda: tf.train.batch([unknown], 2)),
        error(lambda: tf.train.batch([], 2)),
        error(lambda: tf.train.batch_join([[unknown]], 2)),
        error(lambda: tf.train.batch_join([], 2)),
        error(lambda: tf.train.batch([tf.constant(1)], 2, shapes=[[1]])),
    ]


@inputs("Files are matched once, as a variable.")
def matched_files(tf: Any, folder: str) -> Any:
    for name in ("a1", "a2", "b"):
        Path(folder, name).touch()
    found = tf.train.match_filenames_once(os.path.join(folder, "a*"))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        first = sorted(os.path.basename(x).decode() for x in session.run(found))
        Path(folder, "a3").touch()
        return [first, len(session.run(found)), found.dtype.name]


# ---- replicas in step


@syncs("The chief has a runner that applies what replicas gave, once they have given it.")
def replicas_in_step(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([1.0, 2.0], name="v", use_resource=False)
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=1, total_num_replicas=1
    )
    unready = error(optimizer.get_chief_queue_runner)
    train = optimizer.apply_gradients([(tf.constant([0.5, 0.5]), v)], global_step=step)
    return [
        unready,
        train.op.name,
        len(optimizer.get_chief_queue_runner().enqueue_ops),
        optimizer.get_slot_names(),
        type(optimizer.chief_init_op).__name__,
        error(lambda: optimizer.apply_gradients([(tf.constant([0.5, 0.5]), v)])),
        error(lambda: optimizer.apply_gradients([])),
    ]


@syncs("Slots and gradients are those of the optimizer within.")
def wrapped_optimizers(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    inner = tf.train.AdamOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(inner, 2, 3)
    pairs = optimizer.compute_gradients(tf.reduce_sum(v * v))
    optimizer.apply_gradients(pairs, global_step=tf.train.get_or_create_global_step())
    return [
        len(pairs),
        optimizer.get_slot_names(),
        optimizer.get_slot(v, "m").name,
        error(lambda: optimizer.get_init_tokens_op(0)),
        optimizer.get_init_tokens_op().type,
        [x.name for x in optimizer.variables()],
    ]


@loops("A loop calls a function with the session until it raises, or the supervisor stops.")
def basic_loops(tf: Any) -> Any:
    tf.Variable(1.0)
    calls: list[Any] = []

    def train(session: Any, a: int, b: int = 0) -> None:
        calls.append([a, b])
        if len(calls) == 3:
            supervisor.request_stop()

    supervisor = tf.train.Supervisor(logdir=None)
    tf.train.basic_train_loop(supervisor, train, args=(1,), kwargs={"b": 2})
    return calls
