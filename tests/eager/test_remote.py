"""Our eager client on servers of ours, which are processes of their own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import ServerProcess, make_spec
from real_time import LONG_S
from tideflow.cluster.services import EagerService
from tideflow.cluster.status import StatusService
from tideflow.eager.context import Context, context, replace_context
from tideflow.eager.remote import RemoteTensor
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

pytestmark = [pytest.mark.processes, pytest.mark.timeout(40)]

W0 = "/job:worker/task:0"
W1 = "/job:worker/task:1"


class Workers:
    """Two tasks as processes."""

    def __init__(self) -> None:
        self.spec = make_spec({"worker": 2})
        self.processes = [ServerProcess(self.spec, "worker", task) for task in range(2)]

    def replace(self, task: int) -> None:
        self.processes[task].kill()
        self.processes[task] = ServerProcess(self.spec, "worker", task)

    def close(self) -> None:
        for process in self.processes:
            process.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


@pytest.fixture
def workers(shared: Workers) -> Iterator[Workers]:
    """Workers that a client has joined; it leaves them at the end."""
    replace_context(Context())
    tf.config.experimental_connect_to_cluster(shared.spec)
    yield shared
    context().disconnect()
    replace_context(None)


def test_operations_run_where_they_are_asked_to(workers: Workers) -> None:
    with tf.device(W0):
        a = tf.constant([1.0, 2.0]) * 2.0
    with tf.device(W1):
        b = a + 1.0
    assert a.device.endswith("/job:worker/replica:0/task:0/device:CPU:0")
    assert "task:1" in b.device
    assert b.shape.as_list() == [2]
    assert b.numpy().tolist() == [3.0, 5.0]


def test_a_large_constant_comes_whole_and_leaves_the_loops_to_others(workers: Workers) -> None:
    given = tf.range(16 << 20, dtype=tf.int32)  # 64 MiB
    for device in (W0, W1):
        with tf.device(device):
            ends = tf.gather(given, [0, -1 % given.shape[0]])
        assert ends.numpy().tolist() == [0, (16 << 20) - 1]


def test_a_large_constant_of_a_function_leaves_the_loops_to_others(workers: Workers) -> None:
    large = np.arange(8 << 20, dtype=np.int32)

    @tf.function
    def last(index: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(large), index)

    @tf.function
    def on_both(index: tf.Tensor) -> tf.Tensor:
        with tf.device(W1):
            found = tf.gather(tf.constant(large), index)
        with tf.device(W0):
            return found + 1

    with tf.device(W0):
        assert last(tf.constant(5)).numpy() == 5
        assert on_both(tf.constant(5)).numpy() == 6


def test_a_failed_operation_fails_what_needs_it_and_nothing_else(workers: Workers) -> None:
    with tf.device(W0):
        good = tf.constant([1.0]) + 1.0
        bad = tf.gather(tf.constant([1.0]), tf.constant(9))
        with pytest.raises(errors.InvalidArgumentError, match="is not in"):
            bad.numpy()
        with pytest.raises(errors.InvalidArgumentError, match=r"is not in(.|\n)*remote target"):
            (bad + 1.0).numpy()
    with tf.device(W1), pytest.raises(errors.InvalidArgumentError, match="is not in"):
        (bad * 2.0).numpy()
    assert good.numpy().tolist() == [2.0]


def test_an_error_does_not_spoil_what_was_sent_with_it(workers: Workers) -> None:
    with tf.device(W0):
        made = []
        for i in range(20):
            made.append(tf.constant(float(i)) * 2.0)
        bad = tf.reshape(tf.ones([4]), [3])
        with pytest.raises(errors.InvalidArgumentError):
            bad.numpy()
        assert [one.numpy() for one in made] == [i * 2.0 for i in range(20)]


def test_a_walk_over_a_dataset_ends_where_the_dataset_is(workers: Workers) -> None:
    with tf.device(W0):
        inside = [x.numpy() for x in tf.data.Dataset.range(3)]
        far = tf.data.Dataset.range(3).map(lambda x: x * 2)
        walk = iter(tf.data.Dataset.range(1))
        present, missing = walk.get_next_as_optional(), walk.get_next_as_optional()
    near = tf.data.Dataset.range(2)
    with tf.device(W1):
        from_elsewhere = [x.numpy() for x in far], [x.numpy() for x in near]
    assert (inside, from_elsewhere) == ([0, 1, 2], ([0, 2, 4], [0, 1]))
    assert [one.has_value().numpy() for one in (present, missing)] == [True, False]
    assert "task:0" in next(iter(far)).device


def test_an_error_of_an_element_is_raised_where_the_walk_is(workers: Workers) -> None:
    with tf.device(W0):
        with pytest.raises(errors.InvalidArgumentError, match="division by zero"):
            for _ in tf.data.Dataset.range(3).map(lambda x: 1 // (x - 1)):
                pass
        assert (tf.constant(1) + 1).numpy() == 2


def test_assertions_of_remote_tensors_are_raised_where_they_stand(workers: Workers) -> None:
    with tf.device(W0):
        x = tf.constant([1, -1]) + 0
        with pytest.raises(errors.InvalidArgumentError, match="Condition x == y did not hold"):
            tf.debugging.assert_equal(x, 1, message="all ones")
        with pytest.raises(errors.InvalidArgumentError, match="Condition x > 0 did not hold"):
            tf.debugging.assert_positive(x)
        with pytest.raises(errors.InvalidArgumentError, match="as told"):
            tf.debugging.Assert(tf.reduce_all(x > 0), ["as told"])
        assert (x + 1).numpy().tolist() == [2, 0]


def test_constants_lie_where_they_are_made(workers: Workers) -> None:
    with tf.device(W0):
        made = [tf.constant(1.0), tf.zeros([2]), tf.eye(2), tf.convert_to_tensor([1, 2])]
    for tensor in made:
        assert tensor.device == tensor.backing_device
        assert tensor.device == "/job:worker/replica:0/task:0/device:CPU:0"
    assert (made[1] + made[0]).numpy().tolist() == [1.0, 1.0]
    assert made[0].cpu().device == context().default_device.name


def test_a_blocked_operation_holds_up_nobody_else_and_ends_with_its_context(
    workers: Workers,
) -> None:
    with tf.device(W0):
        queue = tf.queue.FIFOQueue(3, [tf.float32], shapes=[[]])
    found: list[errors.OpError] = []

    def dequeue() -> None:
        try:
            with tf.device(W0):
                queue.dequeue().numpy()
        except errors.OpError as error:
            found.append(error)

    waiting = threading.Thread(target=dequeue)
    waiting.start()
    with tf.device(W1):
        assert (tf.constant(1.0) + 1.0).numpy() == 2.0
    channel = make_channel(workers.spec["worker"][0], peer_name="worker 0")
    status = run_sync(stub(StatusService, channel).GetServerStatus(pb.ServerStatusRequest()))
    assert status.task.endswith("task:0")
    run_sync(channel.close())
    context().disconnect()
    waiting.join()
    assert len(found) == 1


def test_a_function_over_two_workers_is_cancelled_as_a_whole(workers: Workers) -> None:
    with tf.device(W1):
        queue = tf.queue.FIFOQueue(3, [tf.float32], shapes=[[]])

    @tf.function
    def f(x, i):
        with tf.device(W0):
            y = tf.gather(x, i)
        with tf.device(W1):
            return queue.dequeue() + y

    with pytest.raises(errors.InvalidArgumentError, match="is not in"):
        f(tf.constant([1.0]), tf.constant(4))
    with tf.device(W1):
        queue.enqueue(2.0)
    assert f(tf.constant([1.0]), tf.constant(0)).numpy() == 3.0


def test_variables_of_a_replaced_worker_are_refused_and_the_others_stay(shared: Workers) -> None:
    own = Workers()
    replace_context(Context())
    try:
        tf.config.experimental_connect_to_cluster(own.spec)
        with tf.device(W0):
            v = tf.Variable(1.0)
        with tf.device(W1):
            w = tf.Variable(2.0)

        @tf.function
        def f(x):
            with tf.device(W0):
                y = x + v
            with tf.device(W1):
                return y * 2.0

        assert f(tf.constant(1.0)).numpy() == 4.0
        own.replace(1)
        with pytest.raises(errors.OpError):
            w.numpy()
        tf.config.experimental_connect_to_cluster(own.spec)
        with pytest.raises(errors.InvalidArgumentError, match="contains an invalid device"):
            w.numpy()
        assert v.numpy() == 1.0
        assert f(tf.constant(2.0)).numpy() == 6.0
        with tf.device(W1):
            assert tf.Variable(7.0).numpy() == 7.0
    finally:
        context().disconnect()
        replace_context(None)
        own.close()


def test_a_tensor_is_copied_to_a_worker_once_and_again_where_that_is_replaced() -> None:
    own = Workers()
    replace_context(Context())
    try:
        tf.config.experimental_connect_to_cluster(own.spec)
        with tf.device(W0):
            far = tf.constant([1.0, 2.0]) + 1.0
        large = tf.ones([10_000])

        def use() -> list[object]:
            with tf.device(W1):
                assert (far * 2.0).numpy().tolist() == [4.0, 6.0]
                assert (large + 1.0).numpy().sum() == 20_000
            return [*far.copies.values(), *large.copies.values()]

        first, second = use(), use()
        assert len(first) == 2
        assert [*map(id, first)] == [*map(id, second)]
        own.replace(1)
        tf.config.experimental_connect_to_cluster(own.spec)
        third = use()
        assert len(third) == 2
        assert not {*map(id, first)} & {*map(id, third)}
        # Nor does the new process hear of what is dropped now: it never had it.
        del first, second
        use()
        assert [*map(id, use())] == [*map(id, third)]
    finally:
        context().disconnect()
        replace_context(None)
        own.close()


def test_a_copy_goes_with_its_tensor(workers: Workers) -> None:
    large = tf.ones([10_000])
    with tf.device(W0):
        kept = large + 1.0
        (copy,) = large.copies.values()
        number, device = copy.op_id, copy.device
        del copy, large
        # What is collected is told of with the next operation, and that is answered after it.
        assert (kept * 1.0).numpy().sum() == 20_000
    gone = RemoteTensor(kept.owner, kept.dtype, device, number, 0, None)
    with pytest.raises(errors.InvalidArgumentError, match="Unable to find the relevant tensor"):
        gone.numpy()


def test_connecting_waits_for_a_worker_that_is_not_there_yet() -> None:
    spec = make_spec({"worker": 2})
    processes = [ServerProcess(spec, "worker", 0)]
    replace_context(Context())
    connecting = threading.Thread(target=tf.config.experimental_connect_to_cluster, args=(spec,))
    try:
        connecting.start()
        processes.append(ServerProcess(spec, "worker", 1))
        connecting.join()
        with tf.device(W1):
            assert (tf.constant(1.0) + 1.0).numpy() == 2.0
    finally:
        context().disconnect()
        replace_context(None)
        for process in processes:
            process.close()


def test_joining_the_same_cluster_again_keeps_what_is_there(workers: Workers) -> None:
    with tf.device(W0):
        v = tf.Variable([1.0])
    tf.config.experimental_connect_to_cluster(workers.spec)
    tf.config.experimental_connect_to_cluster(workers.spec)
    v.assign_add([1.0])
    assert v.numpy().tolist() == [2.0]


def test_a_tensor_outlives_its_context_as_a_name_only(workers: Workers) -> None:
    with tf.device(W0):
        a = tf.constant(1.0) + 1.0
        read = tf.constant(1.0) + 2.0
        assert read.numpy() == 3.0
    context().disconnect()
    with pytest.raises(errors.AbortedError, match="was closed"):
        a.numpy()
    assert read.numpy() == 3.0


def test_errors_of_an_asynchronous_scope_come_at_its_end(workers: Workers) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="is not in"):
        with tf.experimental.async_scope(), tf.device(W0):
            tf.gather(tf.constant([1.0]), tf.constant(9))
    tf.experimental.async_clear_error()
    with tf.experimental.async_scope(), tf.device(W0):
        x = tf.constant(1.0) + 1.0
    assert x.numpy() == 2.0


def test_an_operation_that_no_worker_knows_is_named(workers: Workers) -> None:
    async def call() -> None:
        channel = make_channel(workers.spec["worker"][0], peer_name="worker 0")
        cluster = context().cluster
        assert cluster is not None
        item = pb.EagerQueueItem()
        item.operation.id, item.operation.name = 10**9, "NoSuchOp"
        request = pb.EnqueueRequest(context_id=cluster.context_id, queue=[item])
        try:
            await stub(EagerService, channel).Enqueue(request)
        finally:
            await channel.close()

    with pytest.raises(errors.NotFoundError, match="'NoSuchOp' is neither a type of a primitive"):
        run_sync(call())


def test_a_client_that_vanishes_leaves_nothing(workers: Workers) -> None:
    async def vanish() -> None:
        channel = make_channel(workers.spec["worker"][0], peer_name="worker 0")
        service = stub(EagerService, channel)
        try:
            server_pb = pb.ServerDef(job_name="worker", protocol="grpc")
            server_pb.cluster.job.add(name="worker").tasks[0] = workers.spec["worker"][0]
            await service.CreateContext(
                pb.CreateContextRequest(context_id=77, keep_alive_secs=1, server_def=server_pb)
            )
            await service.KeepAlive(pb.KeepAliveRequest(context_id=77))
            status = stub(StatusService, channel)

            async def is_there() -> bool:
                found = await status.GetServerStatus(pb.ServerStatusRequest())
                return any(s.handle == "eager_77" for s in found.worker_session)

            assert await is_there()
            async with asyncio.timeout(LONG_S):
                while await is_there():
                    pass
            with pytest.raises(errors.AbortedError, match="Unable to find a context_id"):
                await service.KeepAlive(pb.KeepAliveRequest(context_id=77))
            await service.CloseContext(pb.CloseContextRequest(context_id=77))
        finally:
            await channel.close()

    run_sync(vanish())


def test_a_stale_view_is_refused(workers: Workers) -> None:
    async def call() -> None:
        channel = make_channel(workers.spec["worker"][1], peer_name="worker 1")
        cluster = context().cluster
        assert cluster is not None
        try:
            await stub(EagerService, channel).UpdateContext(
                pb.UpdateContextRequest(context_id=cluster.context_id, context_view_id=9)
            )
        finally:
            await channel.close()

    with pytest.raises(errors.InvalidArgumentError, match="UpdateContext failed"):
        run_sync(call())


def test_a_model_trains_on_a_worker(workers: Workers) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=[64, 4]).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)
    with tf.device(W0):
        w = tf.Variable(np.zeros([4, 1], np.float32))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            with tf.device(W1):
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        w.assign_sub(0.2 * tape.gradient(loss, w))
        return loss

    losses = [float(step(tf.constant(x), tf.constant(y))) for _ in range(40)]
    assert losses[-1] < 1e-3 * losses[0]


def test_python_functions_run_in_the_program_whatever_calls_them(workers: Workers) -> None:
    def numbers() -> Iterator[int]:
        yield from (3, 5)

    def own(x: np.int64) -> np.int64:
        here.append(os.getpid())
        return np.int64(x + 1)

    def refuse(x: np.int64) -> np.int64:
        raise ValueError(f"no {x}")

    def double(x: tf.Tensor) -> tf.Tensor:
        return tf.py_function(lambda v: v * 2.0, [x], tf.float32)

    here: list[int] = []
    Data = tf.data.Dataset
    with tf.device(W0):
        made = Data.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
        mapped = Data.range(3).map(lambda x: tf.numpy_function(own, [x], tf.int64))
        assert [int(x) for x in made.concatenate(mapped)] == [3, 5, 1, 2, 3]
        assert "worker" in next(iter(made)).device
        slices = Data.from_tensor_slices([1.0, 2.0])
        assert [float(x) for x in slices.map(double, num_parallel_calls=2)] == [2.0, 4.0]
        with pytest.raises(errors.InvalidArgumentError, match="no 0"):
            next(iter(Data.range(1).map(lambda x: tf.numpy_function(refuse, [x], tf.int64))))

        @tf.function
        def total(x: tf.Tensor) -> tf.Tensor:
            found = tf.numpy_function(own, [x], tf.int64)
            for element in Data.from_generator(
                numbers, output_signature=tf.TensorSpec([], tf.int64)
            ):
                found += element
            return found

        assert int(total(tf.constant(1, tf.int64))) == 10
        assert int(tf.numpy_function(own, [tf.constant(6, tf.int64)], tf.int64)) == 7
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = tf.function(double)(x.read_value()) * x
        assert float(tape.gradient(y, x)) == 12.0
    assert here == [os.getpid()] * 5
