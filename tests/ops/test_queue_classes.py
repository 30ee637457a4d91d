"""tf.queue in a session: what the operations do, shapes, names, sharing and errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from tideflow.ops.queues.classes import PriorityQueue
from tideflow.wire import errors
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph):
    with Session() as made:
        yield made


def test_elements_survive_between_steps(session):
    queue = FIFOQueue(10, ["float32", "int32"], [[], [2]])
    put = queue.enqueue((constant(1.5), constant([1, 2])))
    taken = queue.dequeue()
    session.run(put)
    session.run(put)
    assert session.run(queue.size()) == 2
    value, pair = session.run(taken)
    assert value == np.float32(1.5)
    assert pair.tolist() == [1, 2]
    assert session.run(queue.size()) == 1


def test_batches_in_and_out(session):
    queue = FIFOQueue(10, "float32", [[]])
    session.run(queue.enqueue_many([[1.0, 2.0, 3.0]]))
    assert session.run(queue.dequeue_many(2)).tolist() == [1, 2]
    session.run(queue.close())
    assert session.run(queue.is_closed())
    assert session.run(queue.dequeue_up_to(5)).tolist() == [3]
    with pytest.raises(errors.OutOfRangeError, match="insufficient elements"):
        session.run(queue.dequeue())


def test_a_dequeue_waits_for_another_thread(session):
    queue = FIFOQueue(10, "float32", [[]])
    put, taken = queue.enqueue(5.0), queue.dequeue()
    found = []
    thread = threading.Thread(target=lambda: found.append(session.run(taken)))
    thread.start()
    session.run(put)
    thread.join(30)
    assert found == [5.0]


def test_closing_the_queue_frees_a_waiting_thread(session):
    queue = FIFOQueue(10, "float32", [[]])
    taken, close = queue.dequeue(), queue.close()
    found = []

    def wait():
        try:
            session.run(taken)
        except errors.OutOfRangeError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    session.run(close)
    thread.join(30)
    (error,) = found
    assert error.node == taken.op.name


def test_names_make_elements_dicts(session):
    queue = FIFOQueue(10, ["float32", "int32"], [[], []], names=["a", "b"])
    session.run(queue.enqueue({"b": 3, "a": 1.0}))
    assert session.run(queue.dequeue()) == {"a": 1.0, "b": 3}
    with pytest.raises(ValueError, match="are not the names"):
        queue.enqueue({"a": 1.0})
    with pytest.raises(ValueError, match="named components"):
        queue.enqueue((1.0, 2))


def test_static_shapes_are_the_declared_ones():
    queue = FIFOQueue(10, ["float32", "int32"], [[2], []])
    vector, scalar = queue.dequeue_many(7)
    assert vector.shape.as_list() == [7, 2]
    assert scalar.shape.as_list() == [7]
    assert queue.dequeue_up_to(7)[0].shape.as_list() == [None, 2]
    assert queue.dequeue()[0].shape.as_list() == [2]
    with pytest.raises(ValueError, match="not compatible"):
        queue.enqueue(([1.0, 2.0, 3.0], 1))
    with pytest.raises(ValueError, match="has 2 components; 1 were given"):
        queue.enqueue([1.0])


def test_operations_are_named_after_the_queue():
    queue = FIFOQueue(10, "float32", [[]], name="input")
    assert queue.enqueue(1.0).name == "input_enqueue"
    assert queue.enqueue_many([[1.0]]).name == "input_EnqueueMany"
    assert queue.dequeue().op.name == "input_Dequeue"
    assert queue.dequeue_many(2).op.name == "input_DequeueMany"
    assert queue.size().op.name == "input_Size"
    assert queue.close().name == "input_Close"


def test_a_shared_name_is_one_queue(session):
    first = FIFOQueue(10, "float32", [[]], shared_name="shared")
    second = FIFOQueue(10, "float32", [[]], shared_name="shared")
    session.run(first.enqueue(4.0))
    assert session.run(second.dequeue()) == 4.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FIFOQueue(5, "float32", [[]], shared_name="s"), "capacity 10, not 5"),
        (lambda: FIFOQueue(10, "int32", [[]], shared_name="s"), "types"),
        (lambda: FIFOQueue(10, "float32", [[1]], shared_name="s"), "shapes"),
        (lambda: RandomShuffleQueue(10, 0, "float32", [[]], shared_name="s"), "RandomShuffle"),
    ],
)
def test_a_shared_queue_must_be_declared_alike(session, make, message):
    session.run(FIFOQueue(10, "float32", [[]], shared_name="s").size())
    with pytest.raises(errors.InvalidArgumentError, match=message):
        session.run(make().size())


def test_a_private_queue_belongs_to_its_session(graph):
    queue = FIFOQueue(10, "float32", [[]])
    with Session() as first, Session() as second:
        first.run(queue.enqueue(1.0))
        assert [s.run(queue.size()) for s in (first, second)] == [1, 0]


def test_a_shuffling_queue_keeps_its_minimum(session):
    queue = RandomShuffleQueue(10, 2, "float32", [[]], seed=3)
    session.run(queue.enqueue_many([[1.0, 2.0, 3.0, 4.0]]))
    found = session.run(queue.dequeue_many(2)).tolist()
    session.run(queue.close())
    found += session.run(queue.dequeue_many(2)).tolist()
    assert sorted(found) == [1, 2, 3, 4]


def test_a_padding_queue_pads(session):
    queue = PaddingFIFOQueue(10, "int32", [[None]])
    row = placeholder("int32", [None])
    put = queue.enqueue(row)
    for values in ([1], [2, 3], []):
        session.run(put, {row: values})
    assert session.run(queue.dequeue_many(3)).tolist() == [[1, 0], [2, 3], [0, 0]]


def test_a_priority_queue_orders(session):
    queue = PriorityQueue(10, "string", [[]])
    session.run(queue.enqueue_many(([3, 1, 2], ["c", "a", "b"])))
    priorities, values = session.run(queue.dequeue_many(3))
    assert priorities.tolist() == [1, 2, 3]
    assert values.tolist() == [b"a", b"b", b"c"]


def test_a_queue_can_be_chosen_when_run(session):
    queues = [FIFOQueue(10, "float32", [[]], name=f"q{i}") for i in range(2)]
    index = placeholder("int32", [])
    chosen = QueueBase.from_list(index, queues)
    session.run([queues[0].enqueue(1.0), queues[1].enqueue(2.0)])
    assert session.run(chosen.dequeue(), {index: 1}) == 2.0
    with pytest.raises(TypeError, match="same dtypes"):
        QueueBase.from_list(0, [queues[0], FIFOQueue(1, "int32")])


def test_wrong_values_are_refused_when_run(session):
    queue = FIFOQueue(10, "float32", [[2]])
    value = placeholder("float32")
    with pytest.raises(errors.InvalidArgumentError, match=r"expected \[2\], got \[3\]"):
        session.run(queue.enqueue(value), {value: [1, 2, 3]})
    count = placeholder("int32", [])
    with pytest.raises(errors.InvalidArgumentError, match="without shapes"):
        session.run(FIFOQueue(10, "float32").dequeue_many(count), {count: 1})


def test_closing_the_session_frees_a_waiting_thread(graph):
    queue = FIFOQueue(10, "float32", [[]], shared_name="waiting")
    taken, size = queue.dequeue(), queue.size()
    found = []
    session = Session()
    session.run(size)

    def wait():
        try:
            session.run(taken)
        except (errors.CancelledError, RuntimeError) as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    session.close()
    thread.join(30)
    assert not thread.is_alive()
    assert len(found) == 1


def test_a_run_that_times_out_takes_nothing(session):
    queue = FIFOQueue(10, "float32", [[]])
    session.run(queue.enqueue_many([[1.0, 2.0]]))
    batch = queue.dequeue_many(3)
    with pytest.raises(errors.DeadlineExceededError):
        session.run(batch, options=pb.RunOptions(timeout_in_ms=50))
    assert session.run(queue.dequeue_many(2)).tolist() == [1, 2]


def test_a_container_holds_the_queues_made_in_it(graph, session):
    with graph.container("mine"):
        inside = FIFOQueue(10, "float32", [[]], shared_name="q")
    outside = FIFOQueue(10, "float32", [[]], shared_name="q")
    session.run(inside.enqueue(1.0))
    assert session.run([inside.size(), outside.size()]) == [1, 0]
