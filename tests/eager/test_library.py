"""Functions live as long as something can call them: here, and with the workers that know them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow as tf
from cluster.servers import ServerProcess, make_spec
from tideflow.cluster.services import EagerService
from tideflow.eager.context import Context, context, replace_context
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb


def with_branches_and_loops(factor: float) -> Any:
    """Return a function that calls others: branches, a loop, and a traced function."""
    weight = tf.Variable(1.0)

    @tf.function
    def added(x: Any) -> Any:
        return x + weight

    @tf.function
    def f(x: Any) -> Any:
        y = tf.cond(x > 0, lambda: x * factor, lambda: x)
        return added(tf.while_loop(lambda a: a < 100.0, lambda a: [a * 2.0], [y])[0])

    return f


def gradient_of(f: Any, at: float) -> float:
    x = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return float(tape.gradient(y, x))


def test_functions_end_with_what_calls_them() -> None:
    before = set(context().library)
    f = with_branches_and_loops(3.0)
    assert gradient_of(f, 1.0) == 3.0 * 2**6
    graph = weakref.ref(f.get_concrete_function(tf.constant(1.0)).graph)
    assert set(context().library) > before
    del f
    gc.collect()
    assert set(context().library) <= before
    assert graph() is None


def test_a_function_holds_those_that_only_it_calls() -> None:
    def make() -> Any:
        inner = with_branches_and_loops(3.0)
        return tf.function(lambda x: 2.0 * inner(x))

    f = make()
    f.get_concrete_function(tf.TensorSpec([], tf.float32))
    gc.collect()
    assert float(f(tf.constant(1.0))) == 2.0 * (3.0 * 2**6 + 1.0)
    assert gradient_of(f, 1.0) == 2.0 * 3.0 * 2**6


def test_a_dataset_outlives_the_function_that_made_it() -> None:
    def make() -> Any:
        @tf.function
        def made(count: Any) -> Any:
            def double_the_odd(x: Any) -> Any:
                return tf.cond(x % 2 == 0, lambda: x, lambda: 2 * x)

            dataset = tf.data.Dataset.range(count).map(double_the_odd)
            return tf.data.experimental.to_variant(dataset)

        return made(tf.constant(4, tf.int64))

    variant = make()
    gc.collect()
    dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))
    assert [int(x) for x in dataset] == [0, 2, 2, 6]


def test_functions_of_datasets_end_with_them() -> None:
    def elements(factor: int) -> list[int]:
        dataset = tf.data.Dataset.range(4).map(
            lambda x: tf.cond(x % 2 == 0, lambda: x, lambda: factor * x)
        )
        gc.collect()
        return [int(x) for x in dataset.filter(lambda x: x > 0)]

    before = set(context().library)
    assert elements(2) == [2, 2, 6]
    assert elements(3) == [3, 2, 9]
    gc.collect()
    assert set(context().library) <= before


@pytest.fixture
def workers() -> Iterator[dict[str, list[str]]]:
    """Two workers as processes, and a client that has joined them."""
    spec = make_spec({"worker": 2})
    processes = [ServerProcess(spec, "worker", task) for task in range(2)]
    replace_context(Context())
    tf.config.experimental_connect_to_cluster(spec)
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            # By then all know each other as peers, whose calls each may hold.
            assert [float(tf.constant(1.0) + 1.0) for _ in range(3)] == [2.0] * 3
    yield spec
    context().disconnect()
    replace_context(None)
    for process in processes:
        process.close()


def knows(address: str, name: str) -> bool:
    """Whether a worker knows a function of this client."""

    async def ask() -> bool:
        channel = make_channel(address, peer_name="a worker")
        item = pb.EagerQueueItem()
        item.operation.id, item.operation.name = 1 << 40, name
        assert context().cluster is not None
        request = pb.EnqueueRequest(context_id=context().cluster.context_id, queue=[item])
        try:
            await stub(EagerService, channel).Enqueue(request)
        except errors.NotFoundError:
            return False
        except errors.OpError:  # it lacks its argument
            return True
        finally:
            await channel.close()
        raise AssertionError("a function ran without its argument")

    return run_sync(ask(), 30.0)


def run_one(number: float) -> tuple[str, str]:
    """Call a function on worker 0, with a branch on worker 1; returns both names."""

    @tf.function
    def f(x: Any) -> Any:
        with tf.device("/job:worker/task:1"):
            y = tf.cond(tf.reduce_sum(x) > 0, lambda: x + number, lambda: x)
        return y * 2.0

    before = set(context().library)
    with tf.device("/job:worker/task:0"):
        np.testing.assert_array_equal(f(tf.ones([3])), [2.0 * (1.0 + number)] * 3)
    made = set(context().library) - before
    (own,) = (name for name in made if name.startswith("__inference_f_"))
    return own, min(made - {own})


@pytest.mark.processes
@pytest.mark.timeout(60)
def test_workers_forget_functions_that_are_over(workers: dict[str, list[str]]) -> None:
    first, second = workers["worker"]
    own, branch = run_one(1.0)
    assert knows(first, own)
    assert knows(second, branch)
    gc.collect()
    later, later_branch = run_one(2.0)
    assert not knows(first, own)
    assert not knows(second, branch)
    assert knows(first, later)
    assert knows(second, later_branch)


class Shift:
    """A Python function that can be watched."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x + np.float32(1)


def plain(shift: Shift, x: tf.Tensor) -> tf.Tensor:
    return tf.numpy_function(shift, [x], tf.float32)


def differentiated(shift: Shift, x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.py_function(lambda v: shift(v.numpy()) + v, [x], tf.float32)
    return y + 0.0 * tape.gradient(y, x)


def branched(shift: Shift, x: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: plain(shift, x), lambda: x)


def looped(shift: Shift, x: tf.Tensor) -> tf.Tensor:
    def turn(i: tf.Tensor, v: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.ensure_shape(plain(shift, v), x.shape)

    return tf.while_loop(lambda i, v: i < 2, turn, [0, x])[1]


@pytest.mark.parametrize("use", [plain, differentiated, branched, looped])
def test_a_trace_holds_the_python_functions_that_it_calls_and_nothing_else_does(use) -> None:
    shift = Shift()
    watched = weakref.ref(shift)
    function = tf.function(lambda x, s=shift: use(s, x))
    del shift
    expected = function(tf.ones([2])).numpy().tolist()
    for size in range(1, 4):  # a trace for each
        function(tf.ones([size]))
    gc.collect()
    assert function(tf.ones([2])).numpy().tolist() == expected
    del function
    gc.collect()
    assert watched() is None


def test_a_dataset_holds_the_python_functions_that_it_calls() -> None:
    shift = Shift()
    watched = weakref.ref(shift)
    data = tf.data.Dataset.from_tensor_slices([1.0, 2.0]).map(lambda x, s=shift: plain(s, x))
    del shift
    gc.collect()
    assert [x.numpy() for x in data] == [2.0, 3.0]
    del data
    gc.collect()
    assert watched() is None
