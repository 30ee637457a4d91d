"""The local session, as a user meets it."""

from __future__ import annotations

import collections
import gc
import threading
import weakref

import numpy as np
import pytest

import tideflow.v1 as tf
from real_time import eventually


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_fetches_of_any_nesting_come_back_in_their_shape(graph):
    Pair = collections.namedtuple("Pair", ["left", "right"])
    a, b = tf.constant(1.0), tf.constant([2, 3])
    with tf.Session() as session:
        found = session.run({"x": [a, (b, a)], "y": Pair(a, "Const_1:0"), "z": a.op})
    assert found["x"][0] == 1.0
    assert isinstance(found["x"][1], tuple)
    assert found["x"][1][0].tolist() == [2, 3]
    assert isinstance(found["y"], Pair)
    assert found["y"].right.tolist() == [2, 3]
    assert found["z"] is None


def test_any_tensor_can_be_fed_and_its_producer_does_not_run(graph):
    x = tf.placeholder(tf.float32, [2])
    middle = tf.multiply(x, 2.0, name="middle")
    y = middle + 1.0
    with tf.Session() as session:
        assert session.run(y, {x: [1, 2]}).tolist() == [3, 5]
        assert session.run(y, {"middle:0": [10, 20]}).tolist() == [11, 21]
        # A fetch that is fed gives the value back.
        assert session.run([y, middle], {middle: [0, 0]})[1].tolist() == [0, 0]


def test_scalars_come_back_as_array_scalars_of_their_type(graph):
    with tf.Session() as session:
        found = session.run(tf.constant(3, tf.int64) * 2)
    assert found == 6
    assert found.dtype == np.int64


def test_a_feed_of_the_wrong_shape_names_both_shapes(graph):
    x = tf.placeholder(tf.float32, [None, 3], name="images")
    with (
        tf.Session() as session,
        pytest.raises(ValueError, match=r"\(2, 4\).*images:0.*\(None, 3\)"),
    ):
        session.run(x * 2.0, {x: np.zeros([2, 4])})


def test_a_feed_of_the_wrong_type_is_refused(graph):
    x = tf.placeholder(tf.int32, [], name="count")
    with tf.Session() as session:
        with pytest.raises(ValueError, match="count:0"):
            session.run(x + 1, {x: "many"})
        with pytest.raises(TypeError, match=r"cannot be a tf\.Tensor object"):
            session.run(x + 1, {x: tf.constant(1)})


def test_an_unfed_placeholder_is_named_with_its_line(graph):
    x = tf.placeholder(tf.float32, [3], name="x")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)'x'.*test_session\.py"):
            session.run(x * 2.0)


def test_unknown_fetches_and_targets_are_named(graph):
    tf.constant(1.0, name="one")
    with tf.Session() as session:
        with pytest.raises(ValueError, match="two"):
            session.run("two:0")
        with pytest.raises(ValueError, match="one:1"):
            session.run("one:1")
        with pytest.raises(TypeError, match="cannot fetch"):
            session.run(3.5)


def test_a_failing_op_names_op_shapes_and_the_users_line(graph):
    a = tf.placeholder(tf.float32, [None, None], name="a")
    b = tf.placeholder(tf.float32, [None, None], name="b")
    product = tf.matmul(a, b, name="product")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(product, {a: np.zeros([2, 3]), b: np.zeros([4, 5])})
        text = str(caught.value)
        assert "MatMul 'product'" in text
        assert "[2, 3]" in text
        assert "[4, 5]" in text
        assert "test_session.py" in text
        assert caught.value.node == "product"
        assert caught.value.op is product.op
        # The session goes on.
        found = session.run(product, {a: np.ones([1, 2]), b: np.ones([2, 1])})
        assert found.tolist() == [[2.0]]


def test_an_uninitialised_variable_is_named_with_its_initialiser(graph):
    v = tf.get_variable("weights", [2])
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"(?s)weights.*initializer"):
            session.run(v)
        session.run(v.initializer)
        assert session.run(v).shape == (2,)


def test_variables_keep_their_values_between_steps(graph):
    v = tf.get_variable("v", initializer=1.0)
    add = tf.assign_add(v, 2.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(add) == 3.0
        assert session.run(add) == 5.0
        assert session.run(v) == 5.0
    with tf.Session() as other:
        with pytest.raises(tf.errors.FailedPreconditionError):
            other.run(v)


def test_a_fetched_variable_does_not_change_under_later_updates(graph):
    v = tf.get_variable("v", initializer=tf.zeros([4]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(v)
        session.run(tf.assign_add(v, tf.ones([4])))
        assert before.tolist() == [0, 0, 0, 0]


def test_make_callable_takes_feeds_in_order(graph):
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        run = session.make_callable([x - y, x * y], [x, y])
        assert run(5.0, 3.0) == [2.0, 15.0]
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run(1.0)
        assert caught.value.op is y.op
        assert caught.value.node_def == y.op.node_def
        with pytest.raises(TypeError, match="feed_list"):
            session.make_callable(x, "x:0")


def test_sparse_tensors_are_fed_and_fetched(graph):
    sparse = tf.sparse_placeholder(tf.float32, [2, 3])
    value = tf.SparseTensorValue([[1, 2]], [5.0], [2, 3])
    with tf.Session() as session:
        found = session.run([sparse * 2.0, tf.sparse_tensor_to_dense(sparse)], {sparse: value})
        assert isinstance(found[0], tf.SparseTensorValue)
        assert found[0].values.tolist() == [10.0]
        assert found[1].tolist() == [[0, 0, 0], [0, 0, 5]]


def test_what_was_fed_is_fetched_as_it_was_given(graph):
    x = tf.placeholder(tf.float32, [2])
    given = np.array([1, 2], np.float32)
    with tf.Session() as session:
        assert session.run(x, {x: given}) is given


def test_a_session_of_an_empty_graph_runs_nothing(graph):
    with tf.Session() as session, pytest.raises(RuntimeError, match="graph is empty"):
        session.run([])


def test_partial_run_feeds_and_fetches_in_pieces(graph):
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    first = a + 1.0
    second = first * b
    with tf.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        assert session.partial_run(handle, first, {a: 2.0}) == 3.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="missing"):
            session.partial_run(handle, second)
        assert session.partial_run(handle, second, {b: 4.0}) == 12.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.partial_run(handle, second, {b: 4.0})


def test_run_metadata_tells_what_ran(graph):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.exp(x, name="y")
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(y, {x: [0, 1]}, options, metadata)
    [device] = metadata.step_stats.dev_stats
    by_name = {stats.node_name: stats for stats in device.node_stats}
    assert by_name["y"].timeline_label.startswith("y = Exp")
    [output] = by_name["y"].output
    assert [d.size for d in output.tensor_description.shape.dim] == [2]
    assert [node.name for node in metadata.partition_graphs[0].node if node.op == "Exp"] == ["y"]


def test_run_metadata_tells_where_a_step_ran_that_had_nothing_to_compute(graph):
    known = tf.shape(tf.placeholder(tf.float32, [2, 3]))
    fed = tf.constant(1.0)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        for fetch in (known, tf.constant(2.0), tf.no_op()):
            session.run(fetch, {}, options, metadata)
            [device] = metadata.step_stats.dev_stats
            assert device.device.endswith("CPU:0")
            assert device.node_stats
        metadata = tf.RunMetadata()
        session.run(fed, {fed: 2.0}, options, metadata)
        assert not metadata.step_stats.dev_stats


def test_an_op_that_is_known_ahead_may_be_a_target(graph):
    with tf.Session() as session:
        assert session.run(tf.gather([1.0, 2.0], [0, 0]).op) is None


def test_a_graph_may_hold_functions(graph):
    v = tf.Variable(3.0, use_resource=True)

    @tf.function
    def grown(a):
        if tf.reduce_sum(a) > 0:
            a = a * v
        for _ in tf.range(3):
            a += 1.0
        return a

    x = tf.placeholder(tf.float32, [2])
    y = grown(x)
    slope = tf.gradients(y, [x])[0]
    with tf.Session() as session:
        session.run(v.initializer)
        found = [session.run([y, slope], {x: given}) for given in ([1, 2], [-1, -2])]
    assert [[one.tolist() for one in some] for some in found] == [
        [[6, 9], [3, 3]],
        [[2, 1], [1, 1]],
    ]


def test_who_wants_to_hear_of_allocations_gets_times_without_a_trace(graph):
    x = tf.placeholder(tf.float32, [])
    y = tf.exp(x)
    options = tf.RunOptions(report_tensor_allocations_upon_oom=True)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(y, {x: 0.0}, options, metadata)
        assert metadata.step_stats.dev_stats
        session.run(y, {x: 0.0}, tf.RunOptions(), metadata)
        assert not metadata.step_stats.dev_stats


def test_several_devices_are_there_when_asked_for(graph):
    with tf.device("/cpu:1"):
        a = tf.constant([1.0]) * tf.placeholder_with_default([2.0], [1])
    with tf.device("/cpu:0"):
        b = a + 1.0
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as session:
        assert session.run(b).tolist() == [3.0]
        names = [device.name for device in session.list_devices()]
    assert [name.rsplit("/", 1)[1] for name in names] == ["device:CPU:0", "device:CPU:1"]


def test_a_missing_device_is_refused_and_those_there_are_listed(graph):
    with tf.device("/gpu:0"):
        a = tf.identity(tf.placeholder_with_default(1.0, []), name="there")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"there.*GPU:0.*CPU:0"):
            session.run(a)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        assert session.run(a) == 1.0


def test_many_threads_may_run_one_session(graph):
    v = tf.get_variable("count", initializer=0)
    add = tf.assign_add(v, 1, use_locking=True)
    x = tf.placeholder(tf.int32, [])
    y = x * 2
    wrong = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def work(number):
            for _ in range(100):
                session.run(add)
                if session.run(y, {x: number}) != 2 * number:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(v) == 600
    assert wrong == []


def test_closing_cancels_a_step_that_waits(graph):
    queue = tf.FIFOQueue(1, tf.float32)
    began = threading.Event()
    with tf.control_dependencies([tf.py_func(lambda: began.set() is None, [], tf.bool)]):
        waiting = queue.dequeue()
    session = tf.Session()
    session.run(queue.size())
    failed = []

    def wait():
        try:
            session.run(waiting)
        except tf.errors.CancelledError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert began.wait(30)
    session.close()
    thread.join(30)
    assert len(failed) == 1
    assert "Session::Close" in str(failed[0])
    with pytest.raises(RuntimeError, match="closed"):
        session.run(waiting)


def test_a_timeout_ends_a_step_that_waits_and_leaves_the_session_usable(graph):
    queue = tf.FIFOQueue(1, tf.float32)
    waiting = queue.dequeue()
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(waiting, options=tf.RunOptions(timeout_in_ms=50))
        session.run(queue.enqueue(2.0))
        assert session.run(waiting) == 2.0


def test_a_graph_can_grow_between_steps(graph):
    a = tf.constant(1.0)
    with tf.Session() as session:
        assert session.run(a) == 1.0
        b = a + 1.0
        assert session.run(b) == 2.0


def test_an_unknown_op_in_an_imported_graph_is_named_with_its_node(graph):
    graph_pb = tf.GraphDef()
    graph_pb.node.add(name="strange", op="NoSuchOp")
    with pytest.raises(tf.errors.NotFoundError, match=r"NoSuchOp.*strange"):
        tf.import_graph_def(graph_pb)


def test_a_graph_travels_through_its_message(graph):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    tf.reduce_sum(tf.nn.relu(x) * [1.0, 2.0], axis=1, name="y")
    graph_pb = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    with tf.Graph().as_default():
        given = tf.placeholder(tf.float32, [None, 2])
        [y] = tf.import_graph_def(graph_pb, {"x": given}, ["y:0"], name="again")
        assert y.op.name == "again/y"
        with tf.Session() as session:
            assert session.run(y, {given: [[1, 1], [-1, 3]]}).tolist() == [3.0, 6.0]


def test_an_unreachable_target_says_what_would_be_right():
    with pytest.raises(tf.errors.NotFoundError, match=r"grpc://host:port"):
        tf.Session("carrier-pigeon://roof")


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_variable_without_a_value_is_named_with_its_initializer(graph, use_resource):
    variable = tf.get_variable("layer/w", [2], use_resource=use_resource)
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError) as caught:
            session.run(variable + 1.0)
        name = variable.initializer.name
        assert f"variable 'layer/w' is operation {name!r}" in caught.value.message
        session.run(name)
        assert session.run(variable).shape == (2,)


def test_an_update_before_the_initializer_names_it(graph):
    variable = tf.get_variable("w", [])
    with tf.Session() as session, pytest.raises(tf.errors.OpError, match="operation 'w/Assign'"):
        session.run(variable.assign_add(1.0))


@pytest.mark.parametrize("arguments", [{"config": {"a": 1}}, {"target": 3}, {"graph": "g"}])
def test_a_session_of_the_wrong_arguments_says_which(arguments):
    (name,) = arguments
    with pytest.raises(TypeError, match=f"{name} must be"):
        tf.Session(**arguments)


def test_a_dropped_session_ends_its_partial_run(graph):
    x = tf.placeholder(tf.float32)
    y = x * 2.0
    session = tf.Session()
    session.partial_run_setup([y], [x])
    backend = weakref.ref(session.backend)
    del session
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "tideflow-close":
            thread.join(10)
    gc.collect()
    assert backend() is None


def endless_loop():
    return tf.while_loop(lambda i: i >= 0, lambda i: tf.maximum(i, 1), [0])


def test_a_timeout_ends_a_loop_that_never_ends(graph):
    options = tf.RunOptions(timeout_in_ms=100)
    with tf.Session() as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(endless_loop(), options=options)
        assert session.run(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])) == 3


def test_closing_the_session_ends_a_loop_that_never_ends(graph):
    loop, began = endless_loop(), threading.Event()

    def begin():
        began.set()
        return np.int64(0)

    seen = tf.py_func(begin, [], tf.int64)
    session, caught = tf.Session(), []

    def run():
        try:
            session.run([loop, seen])
        except tf.errors.CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(30)
    session.close()
    thread.join(30)
    assert len(caught) == 1


def test_closing_the_session_ends_a_loop_of_the_caller_s_own_thread(graph):
    turns = tf.get_variable("turns", [], tf.int64, use_resource=True)

    def turn(i):
        with tf.control_dependencies([turns.assign_add(1)]):
            return tf.maximum(i, 1)

    loop = tf.while_loop(lambda i: i >= 0, turn, [0])
    session, caught = tf.Session(), []
    session.run(turns.initializer)

    def run():
        with pytest.raises(tf.errors.CancelledError, match="Session::Close") as found:
            session.run(loop)
        caught.append(found.value)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: session.run(turns) > 2)
    session.close()
    thread.join(30)
    assert len(caught) == 1
    with pytest.raises(RuntimeError, match="closed"):
        session.run(loop)
