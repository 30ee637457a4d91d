"""Functions called on a device of another task, which then holds the call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.cluster.services import EagerService
from tideflow.cluster.status import StatusService
from tideflow.eager.context import Context, context, replace_context
from tideflow.eager.remote import RemoteTensor
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]

W0 = "/job:worker/task:0"
W1 = "/job:worker/task:1"


@pytest.fixture(scope="module")
def spec() -> Iterator[dict[str, list[str]]]:
    """Two workers as processes."""
    made = make_spec({"worker": 2})
    processes = [ServerProcess(made, "worker", task) for task in range(2)]
    yield made
    for process in processes:
        process.close()


@pytest.fixture(autouse=True)
def joined(spec: dict[str, list[str]]) -> Iterator[None]:
    """A client that has joined them, and leaves them at the end."""
    replace_context(Context())
    tf.config.experimental_connect_to_cluster(spec)
    for device in (W0, W1):
        with tf.device(device):
            # By then both know each other as peers, whose calls each may hold.
            assert [float(tf.constant(1.0) + 1.0) for _ in range(3)] == [2.0] * 3
    yield
    context().disconnect()
    replace_context(None)


def until_running(address: str, count: int) -> None:
    """Wait until as many steps run on a worker."""

    async def wait() -> None:
        channel = make_channel(address, peer_name="a worker")
        try:
            status = stub(StatusService, channel)
            while True:
                found = await status.GetServerStatus(pb.ServerStatusRequest())
                if found.running_steps == count:
                    return
        finally:
            await channel.close()

    run_sync(wait(), 30.0)


def spanning(queue: Any) -> Any:
    """Return a function with a part on each worker, of which one waits for a queue on W1."""

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W1):
            taken = queue.dequeue()
        return x * 2.0 + taken

    return f


def make_queue() -> Any:
    with tf.device(W1):
        return tf.queue.FIFOQueue(3, [tf.float32], shapes=[[]])


def test_ctrl_c_ends_a_call_on_all_workers(spec: dict[str, list[str]]) -> None:
    queue = make_queue()
    f = spanning(queue)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        until_running(spec["worker"][1], 1)
        signal.pthread_kill(main, signal.SIGINT)

    for _ in range(2):
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt), tf.device(W0):
            f(tf.constant(1.0))
        thread.join()
        for address in spec["worker"]:
            until_running(address, 0)
        with tf.device(W0):
            queue.enqueue(5.0)
            assert f(tf.constant(1.0)).numpy() == 7.0


def test_a_call_may_wait_for_another_one_on_the_same_worker(spec: dict[str, list[str]]) -> None:
    queue = make_queue()
    f = spanning(queue)
    put = tf.function(lambda x: queue.enqueue(x))
    found = []

    def call() -> None:
        with tf.device(W0):
            found.append(f(tf.constant(1.0)).numpy())

    for number in range(3):
        waiting = threading.Thread(target=call)
        waiting.start()
        until_running(spec["worker"][1], 1)
        with tf.device(W0):
            put(tf.constant(float(number)))
        waiting.join()
    assert found == [2.0, 3.0, 4.0]


def test_the_first_error_ends_all_parts(spec: dict[str, list[str]]) -> None:
    queue = make_queue()

    @tf.function
    def f(x: Any, i: Any) -> Any:
        with tf.device(W1):
            taken = queue.dequeue()
        return tf.gather(x, i) + taken

    for _ in range(2):
        with tf.device(W0), pytest.raises(errors.InvalidArgumentError, match="is not in"):
            f(tf.constant([1.0]), tf.constant(4))
        for address in spec["worker"]:
            until_running(address, 0)


def test_a_function_on_a_worker_uses_what_only_the_client_has() -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def f(x: Any) -> Any:
        v.assign_add(x)
        return v * 10.0

    with tf.device(W0):
        assert f(tf.constant([1.0, 1.0])).numpy().tolist() == [20.0, 30.0]
    assert v.numpy().tolist() == [2.0, 3.0]


def test_results_stay_there_and_bring_shapes_and_small_values_along() -> None:
    with tf.device(W1):
        x = tf.ones([300, 2]) * 2.0

    @tf.function
    def f(x: Any, y: Any) -> Any:
        return x + y, tf.reduce_sum(x), tf.constant(["a", "b"])

    with tf.device(W0):
        big, small, text = f(x, tf.constant([1.0, 2.0]))
    assert all(isinstance(t, RemoteTensor) and "task:0" in t.device for t in (big, small, text))
    assert [t.shape.as_list() for t in (big, small, text)] == [[300, 2], [], [2]]
    np.testing.assert_array_equal(big.numpy(), np.tile([3.0, 4.0], (300, 1)))
    assert small.numpy() == 1200.0
    assert text.numpy().tolist() == [b"a", b"b"]
    with tf.device(W1):
        assert (small + 1.0).numpy() == 1201.0


def test_workers_let_results_go_although_nothing_but_calls_follows(
    spec: dict[str, list[str]],
) -> None:
    doubled = tf.function(lambda x: x * 2.0)

    def call() -> Any:
        with tf.device(W0):
            return doubled(tf.ones([3]))

    result = call()
    assert isinstance(result, RemoteTensor)
    item = pb.EagerQueueItem()
    item.operation.id, item.operation.name = 1 << 40, "Identity"
    item.operation.attrs["T"].type = result.dtype.as_datatype_enum
    result.fill_handle(item.operation.op_inputs.add().remote_handle)
    assert context().cluster is not None
    request = pb.EnqueueRequest(context_id=context().cluster.context_id, queue=[item])

    async def is_there() -> bool:
        channel = make_channel(spec["worker"][0], peer_name="a worker")
        try:
            await stub(EagerService, channel).Enqueue(request)
        except errors.InvalidArgumentError:
            return False
        finally:
            await channel.close()
        return True

    assert run_sync(is_there())
    del result
    while run_sync(is_there()):
        call()


def test_arguments_that_a_function_does_not_use_take_no_place_of_others() -> None:
    @tf.function
    def second(unused: Any, used: Any, handed_on: Any) -> Any:
        return used + 1.0, handed_on

    one, two, three = tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)
    with tf.device(W0):
        assert [float(t) for t in second(one, two, three)] == [3.0, 3.0]

    # Over two workers, too.
    @tf.function
    def over_both(unused: Any, used: Any) -> Any:
        with tf.device(W0):
            first = used + 1.0
        with tf.device(W1):
            return first * 2.0

    assert float(over_both(one, two)) == 6.0
