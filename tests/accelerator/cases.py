"""What holds on an accelerator.  Run by test_accelerator.py, in a process where jax's second and
third CPU devices are GPU:0 and GPU:1."""

from __future__ import annotations

import gc
import threading
import weakref

import jax
import numpy as np
import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster
from tideflow.graph.building import apply_op
from tideflow.ops.functional import if_op, while_op
from tideflow.ops.state import VariableState
from tideflow.runtime.device_program import DeviceProgram
from tideflow.runtime.jit_program import JitProgram
from tideflow.runtime.program import Program
from tideflow.wire import messages as pb

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
GPU1 = "/job:localhost/replica:0/task:0/device:GPU:1"
SOFT = pb.ConfigProto(allow_soft_placement=True)
NO_GPU = pb.ConfigProto(device_count={"GPU": 0})
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def place_of(session, fetch, feeds=None):
    """Return on which device the node that makes a tensor ran, by the step's statistics."""
    metadata = pb.RunMetadata()
    options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE)
    session.run(fetch, feeds, options=options, run_metadata=metadata)
    found = {}
    for device_pb in metadata.step_stats.dev_stats:
        for node_pb in device_pb.node_stats:
            found[node_pb.node_name] = device_pb.device
    return found[fetch.op.name]


def states(session, device="GPU:0"):
    """Return the variables of a session's device by name."""
    manager = session._backend._devices.get(f"/device:{device}").resources
    return {t.name: t for t in manager._things.values() if isinstance(t, VariableState)}


def device_of(value):
    """Return the jax device that holds an array."""
    (found,) = value.devices()
    return found


def programs(session):
    """Return all programs of a session's graphs."""
    return [
        part
        for runner in session._backend._runners.values()
        for executor in runner.executors
        for group in executor._groups
        for part in group.parts
        if isinstance(part, Program)
    ]


# ---- devices


def test_a_session_lists_the_devices():
    with tf.Session() as session:
        found = session.list_devices()
    assert [d.name for d in found] == [CPU0, GPU0, GPU1]
    assert [d.device_type for d in found] == ["CPU", "GPU", "GPU"]
    assert "name: cpu" in found[1].physical_device_desc
    assert len({d.incarnation for d in found}) == 3


@pytest.mark.parametrize(("most", "count"), [(0, 1), (1, 2), (5, 3)])
def test_device_count_limits_them(most, count):
    with tf.Session(config=pb.ConfigProto(device_count={"GPU": most})) as session:
        assert len(session.list_devices()) == count


def test_visible_device_list_chooses_by_number():
    config = pb.ConfigProto()
    config.gpu_options.visible_device_list = "1"
    with tf.Session(config=config) as session:
        assert len(session.list_devices()) == 2
        session.run(tf.constant([1.0]) * 2)
    config.gpu_options.visible_device_list = "7"
    with pytest.raises(tf.errors.InvalidArgumentError, match="visible_device_list"):
        tf.Session(config=config)


# ---- placement


def test_what_asks_for_nothing_goes_to_the_gpu(graph):
    x = tf.placeholder(tf.float32, [4, 3])
    doubled = tf.multiply(x, 2.0, name="doubled")
    with tf.Session() as session:
        assert place_of(session, doubled, {x: ROWS}) == GPU0


def test_strings_stay_on_the_cpu():
    word = tf.placeholder(tf.string, [])
    joined = tf.strings.join([word, "b"])
    with tf.Session() as session:
        assert place_of(session, joined, {word: "a"}) == CPU0
        assert session.run(joined, {word: "a"}) == b"ab"


@pytest.mark.parametrize("device", ["/CPU:0", "/GPU:1", "/device:GPU:0"])
def test_a_device_asked_for_is_used(device):
    with tf.device(device):
        x = tf.placeholder(tf.float32, [4, 3])
        made = x + 1.0
    with tf.Session() as session:
        assert place_of(session, made, {x: ROWS}).endswith(device[-5:])
        assert (session.run(made, {x: ROWS}) == ROWS + 1).all()


def test_an_op_without_a_compiled_form_names_itself_and_the_device():
    word = tf.placeholder(tf.string, [])
    with tf.device("/device:GPU:0"):
        joined = tf.strings.join([word, word], name="wrong")
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Cannot assign.*wrong") as caught,
    ):
        session.run(joined, {word: "a"})
    assert "/device:GPU:0" in caught.value.message
    assert "CPU:0" in caught.value.message


def test_soft_placement_puts_it_on_the_cpu():
    with tf.device("/device:GPU:0"):
        word = tf.placeholder(tf.string, [])
        joined = tf.strings.join([word, "b"])
    with tf.Session(config=SOFT) as session:
        assert session.run(joined, {word: "a"}) == b"ab"
        assert place_of(session, joined, {word: "a"}) == CPU0


def test_a_gpu_that_is_not_there_is_an_error_or_softened():
    with tf.device("/device:GPU:9"):
        x = tf.placeholder(tf.float32, [4, 3])
        made = x + 1.0
    feeds = {x: ROWS}
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="GPU:9"):
        session.run(made, feeds)
    with tf.Session(config=SOFT) as session:
        assert place_of(session, made, feeds) == GPU0
    soft_cpu = pb.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    with tf.Session(config=soft_cpu) as session:
        assert place_of(session, made, feeds) == CPU0


def test_a_variable_stays_where_it_was_placed_whatever_is_run(graph):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    with tf.Session() as session:
        session.run(weights.initializer)
        looked_at = tf.py_func(lambda value: value.sum(), [weights], tf.float32)
        assert session.run(looked_at) == ROWS.sum()
        added = weights.assign_add(tf.ones([4, 3]))
        assert (session.run(added) == ROWS + 1).all()
        assert list(states(session)) == ["weights"]
        assert not states(session, "CPU:0")


def test_placement_is_told(capfd):
    with tf.Session(config=pb.ConfigProto(log_device_placement=True)) as session:
        session.run(tf.multiply(tf.placeholder_with_default(ROWS, [4, 3]), 2.0, name="doubled"))
    assert f"doubled: (Mul): {GPU0}" in capfd.readouterr().err


# ---- values


def test_values_between_regions_stay_on_the_device():
    x = tf.placeholder(tf.float32, [4, 3])
    doubled = x * 2.0
    with tf.control_dependencies([tf.Assert(tf.reduce_all(doubled < 100.0), [doubled])]):
        result = tf.identity(doubled) + 1.0
    with tf.Session() as session:
        assert (session.run(result, {x: ROWS}) == 2 * ROWS + 1).all()
        (program,) = programs(session)
        assert isinstance(program, DeviceProgram)
        assert len(program.regions) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(result, {x: ROWS + 100})


def test_nothing_pure_is_run_by_numpy(monkeypatch):
    x = tf.placeholder(tf.float32, [4, 3])
    made = tf.reduce_sum(tf.matmul(tf.nn.relu(x), x, transpose_b=True))
    with tf.Session() as session:
        session.run(made, {x: ROWS})
        (program,) = programs(session)
        assert not isinstance(program, JitProgram)
        assert [type(part).__name__ for part, _ in program._parts] == ["DeviceRegion"]


@pytest.mark.parametrize(
    "fed", [np.float32, np.float64, np.int32, np.int64, np.bool_, np.complex64]
)
def test_types_and_values_pass_both_ways(fed):
    value = np.array([[0, 1], [2, 3]]).astype(fed)
    with tf.device("/CPU:0"):
        before = tf.identity(tf.placeholder(value.dtype, [2, 2], name="fed"))
    with tf.device("/GPU:0"):
        turned = tf.transpose(before)
    with tf.device("/GPU:1"):
        again = tf.transpose(turned)
    with tf.device("/CPU:0"):
        after = tf.identity(again)
    with tf.Session() as session:
        found = session.run([turned, after], {"fed:0": value})
    assert [f.dtype for f in found] == [fed, fed]
    assert (found[0] == value.T).all()
    assert (found[1] == value).all()


def test_fed_arrays_may_change_after_the_step_and_fetched_ones_are_ours():
    x = tf.placeholder(tf.float32, [None])
    kept = tf.get_variable("kept", [400_000], initializer=tf.zeros_initializer())
    keep = kept.assign(x)
    with tf.Session() as session:
        mine = np.ones(400_000, np.float32)
        session.run(keep.op, {x: mine})
        mine[:] = 7
        found = session.run(kept)
        assert (found == 1).all()
        found[:] = 5
        assert (session.run(kept) == 1).all()


def test_a_mixed_graph_gives_what_the_cpu_gives():
    x = tf.placeholder(tf.float32, [4, 3])
    shifted = tf.py_func(lambda value: value + 1, [x * 2.0], tf.float32)
    shifted.set_shape([4, 3])
    result = tf.reduce_sum(tf.matmul(shifted, x, transpose_b=True), 0)
    with tf.Session() as session:
        ours = session.run(result, {x: ROWS})
    with tf.Session(config=NO_GPU) as session:
        expected = session.run(result, {x: ROWS})
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_a_tensor_may_decide_the_shape_of_another():
    count = tf.placeholder(tf.int32, [])
    wide = tf.fill([count * 2, 3], 1.5)
    total = tf.reduce_sum(wide) + 1.0
    with tf.Session() as session:
        for n in (1, 4, 2, 4):
            found, summed = session.run([wide, total], {count: n})
            assert found.shape == (2 * n, 3)
            assert summed == 9 * n + 1


def test_shapes_may_change_from_step_to_step():
    x = tf.placeholder(tf.float32, [None, 3])
    flat = tf.reshape(x, [-1])
    with tf.Session() as session:
        for n in range(1, 6):
            assert session.run(flat, {x: np.ones((n, 3))}).shape == (3 * n,)


def test_large_constants_keep_their_own_values():
    x = tf.placeholder(tf.float32, [2000])
    first = x * 2 + tf.constant(np.full(2000, 1, np.float32))
    other = x * 2 + tf.constant(np.full(2000, 5, np.float32))
    with tf.Session() as session:
        zeros = np.zeros(2000, np.float32)
        assert session.run(first, {x: zeros})[0] == 1
        assert session.run(other, {x: zeros})[0] == 5


def test_rows_outside_are_zeros_and_labels_outside_give_no_number():
    indices = tf.placeholder(tf.int32, [None])
    taken = tf.gather(tf.constant(ROWS), indices)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=indices, logits=ROWS[:2])
    with tf.Session() as session:
        found = session.run(taken, {indices: [1, 9]})
        assert (found == [ROWS[1], [0, 0, 0]]).all()
        lost = session.run(loss, {indices: [1, 9]})
    assert np.isfinite(lost[0])
    assert np.isnan(lost[1])


# ---- variables


def use_both_kinds(function):
    return pytest.mark.parametrize("use_resource", [True, False])(function)


@use_both_kinds
def test_variables_live_on_the_device(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    with tf.device("/GPU:1"):
        other = tf.get_variable("other", initializer=ROWS, use_resource=use_resource)
    step = [weights.assign_add(tf.ones([4, 3])), other.assign_sub(tf.ones([4, 3]))]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([one.op for one in step])
        first, second = states(session)["weights"], states(session, "GPU:1")["other"]
        assert device_of(first.value) == jax.local_devices(backend="cpu")[1]
        assert device_of(second.value) == jax.local_devices(backend="cpu")[2]
        # What a checkpoint reads.
        found = session.run([weights, other])
        assert (found[0] == ROWS + 1).all()
        assert (found[1] == ROWS - 1).all()
        assert first.describe() == ("float32", "[4,3]", ROWS.nbytes)


@use_both_kinds
def test_updates_are_donated(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    add = weights.assign_add(tf.ones([4, 3])).op
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(add)  # the first value came from the host
        state = states(session)["weights"]
        before = state.value.unsafe_buffer_pointer()
        for _ in range(3):
            session.run(add)
        assert state.value.unsafe_buffer_pointer() == before
        old = state.value
        session.run(add)
        # Somebody holds it: it is left alone.
        assert (np.asarray(old) == ROWS + 4).all()
        del old
        before = len(jax.live_arrays())
        for _ in range(5):
            session.run(add)
        gc.collect()
        assert len(jax.live_arrays()) <= before
        assert (session.run(weights) == ROWS + 10).all()


@use_both_kinds
def test_a_variable_without_a_value_names_itself_and_the_node(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    with (
        tf.Session() as session,
        pytest.raises(
            tf.errors.FailedPreconditionError, match=r"'weights'.* has no value"
        ) as found,
    ):
        session.run(weights * 2.0)
    assert "GPU:0" in found.value.message
    with (
        tf.Session() as session,
        pytest.raises(
            (tf.errors.FailedPreconditionError, tf.errors.NotFoundError), match="weights"
        ),
    ):
        session.run(weights.assign_add(ROWS).op)


@use_both_kinds
def test_an_assignment_keeps_the_shape(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    value = tf.placeholder(tf.float32, None)
    assign = weights.assign(value).op
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(assign, {value: ROWS * 2})
        assert (session.run(weights) == ROWS * 2).all()
        if not use_resource:
            with pytest.raises(tf.errors.InvalidArgumentError, match="has shape"):
                session.run(assign, {value: [1.0]})


@use_both_kinds
def test_rows_that_come_twice_are_added_up_first(use_resource):
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Graph().as_default(), tf.device("/GPU:0" if config is not NO_GPU else None):
            table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
            rows = tf.placeholder(tf.int32, [None])
            taken = tf.gather(table, rows)
            train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(taken * taken))
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for fed in ([1, 1, 3], [0, 2, 0], [3]):
                    session.run(train, {rows: fed})
                found.append(session.run(table))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.3),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@use_both_kinds
def test_a_step_that_trains_an_embedding_is_one_region(optimizer, use_resource):
    fed = ([1, 1, 3], [0, 2, 0], [3, 3, 3], [0, 1, 2])
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Graph().as_default():
            table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
            rows = tf.placeholder(tf.int32, [None])
            loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
            train = OPTIMIZERS[optimizer]().minimize(loss)
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, train], {rows: one})[0] for one in fed]
                found.append((losses, session.run(table)))
                if config is not NO_GPU:
                    step = next(p for p in programs(session) if p.regions)
                    between = [p.instructions for p, _ in step._parts if p not in step.regions]
                    assert {one.node.op for run in between for one in run} <= {"VariableV2"}
                    assert len(step.regions) == 1
                    # Nor does it matter how many rows are distinct.
                    assert len(step.regions[0]._ready) == 1
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


def test_whoever_sees_distinct_values_sees_only_these():
    given = tf.placeholder(tf.int32, [None])
    distinct, numbers = tf.unique(given)
    summed = tf.unsorted_segment_sum(tf.cast(given, tf.float32), numbers, tf.size(distinct))
    largest = tf.reduce_max(summed)
    weighted = summed * tf.constant([1.0, 10.0])
    with tf.Session() as session:
        feeds = {given: [7, 5, 7, 5, 5]}
        assert session.run([largest, distinct], feeds)[0] == 15.0
        assert (session.run(summed, feeds) == [14.0, 15.0]).all()
        assert (session.run(weighted, feeds) == [14.0, 150.0]).all()
        assert session.run(tf.size(distinct), feeds) == 2
        assert session.run([numbers, tf.shape(distinct)], feeds)[1] == 2
        assert session.run(largest, {given: [-5, -7]}) == -5.0


@pytest.mark.parametrize("fed", [[], [2], [3, 0, 3, 0]])
def test_any_number_of_rows_may_be_summed_up_and_scattered(fed):
    table = tf.get_variable("table", initializer=ROWS, use_resource=True)
    given = tf.placeholder(tf.int64, [None])
    distinct, numbers = tf.unique(given)
    summed = tf.unsorted_segment_sum(tf.ones([tf.size(given), 3]), numbers, tf.size(distinct))
    changed = table.scatter_sub(tf.IndexedSlices(summed, distinct))
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(changed, {given: fed})
        expected = ROWS.copy()
        np.subtract.at(expected, np.array(fed, np.int64), 1.0)
        assert (session.run(table) == expected).all()


@use_both_kinds
def test_an_assignment_after_a_read_may_change_the_shape(use_resource):
    weights = tf.get_variable(
        "weights", initializer=ROWS, validate_shape=False, use_resource=use_resource
    )
    fed = tf.placeholder(tf.float32, None)
    value = weights.read_value() if use_resource else weights + 0.0
    with tf.control_dependencies([value]):
        assign = tf.assign(weights, fed, validate_shape=False)
    with tf.Session() as session:
        session.run(weights.initializer)
        for given in (ROWS * 2, [1.0, 2.0], [3.0, 4.0], ROWS):
            before = session.run(weights)
            assert (session.run([value, assign.op], {fed: given})[0] == before).all()
            assert (session.run(weights) == given).all()


def test_the_shape_of_a_variable_is_part_of_a_region():
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    size = apply_op("VariableShape", weights.handle)
    flat = tf.reshape(weights * 2.0, [tf.reduce_prod(size)])
    with tf.Session() as session:
        with pytest.raises(tf.errors.OpError, match="weights"):
            session.run(size)
        session.run(weights.initializer)
        assert (session.run(flat) == ROWS.ravel() * 2).all()
        assert (session.run(size) == [4, 3]).all()
        last = programs(session)[-1]
        assert len(last._parts) == 1


@use_both_kinds
def test_rows_of_a_variable_are_read_and_changed_there(use_resource):
    table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
    taken = tf.gather(table, [1, 1, 3])
    loss = tf.reduce_sum(taken * taken)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(table.initializer)
        assert (session.run(taken) == ROWS[[1, 1, 3]]).all()
        session.run(train)
        found = session.run(table)
        assert isinstance(states(session)["table"].value, jax.Array)
    expected = ROWS.copy()
    expected[1] -= 0.4 * ROWS[1]
    expected[3] -= 0.2 * ROWS[3]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_variable_that_was_dropped_is_found_no_more():
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    step = weights.assign_add(tf.ones([4, 3])).op
    drop = apply_op("DestroyResourceOp", weights.handle)
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(step)
        first = weakref.ref(states(session)["weights"])
        session.run(drop)
        gc.collect()
        assert first() is None
        with pytest.raises(tf.errors.OpError, match="weights"):
            session.run(step)
        session.run(weights.initializer)
        session.run(step)
        assert (session.run(weights) == ROWS + 1).all()


def test_random_initial_values_are_those_of_the_cpu():
    weights = tf.get_variable("w", [50, 3], initializer=tf.random_normal_initializer(seed=3))
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Session(config=config) as session:
            session.run(weights.initializer)
            found.append(session.run(weights))
    assert (found[0] == found[1]).all()


def test_steps_of_several_threads_lose_no_update():
    total = tf.get_variable("total", [64], initializer=tf.zeros_initializer())
    add = total.assign_add(tf.ones([64])).op
    double = total * 2.0
    with tf.Session() as session:
        session.run(total.initializer)

        def work():
            for _ in range(40):
                session.run(add)
                session.run(double)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (session.run(total) == 160).all()


# ---- training


def train_losses(config, optimizer, use_resource):
    rng = np.random.default_rng(3)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6])
        labels = tf.placeholder(tf.int32, [None])
        hidden = x
        for i, width in enumerate((8, 5)):
            shape = [int(hidden.shape[1]), width]
            initial = rng.normal(size=shape).astype(np.float32)
            weights = tf.get_variable(f"w{i}", initializer=initial, use_resource=use_resource)
            hidden = tf.nn.tanh(tf.matmul(hidden, weights))
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
        )
        train = optimizer().minimize(loss, tf.train.get_or_create_global_step())
        rng = np.random.default_rng(4)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            losses = []
            for _ in range(6):
                feeds = {x: rng.normal(size=(9, 6)), labels: rng.integers(0, 5, 9)}
                losses.append(session.run([loss, train], feeds)[0])
            return losses, session.run(tf.trainable_variables())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@use_both_kinds
def test_training_gives_what_the_cpu_gives(optimizer, use_resource):
    ours, weights = train_losses(pb.ConfigProto(), OPTIMIZERS[optimizer], use_resource)
    expected, expected_weights = train_losses(NO_GPU, OPTIMIZERS[optimizer], use_resource)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    for found, wanted in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_gradients_cross_devices():
    x = tf.placeholder(tf.float32, [4, 3])
    with tf.device("/GPU:0"):
        a = tf.tanh(x)
    with tf.device("/CPU:0"):
        b = tf.sin(a)
    with tf.device("/GPU:1"):
        c = tf.reduce_sum(b * b)
    (slope,) = tf.gradients(c, x)
    with tf.Session() as session:
        found = session.run(slope, {x: ROWS / 10})
    t = np.tanh(ROWS / 10)
    np.testing.assert_allclose(found, 2 * np.sin(t) * np.cos(t) * (1 - t * t), rtol=1e-5)


# ---- control flow


def test_a_loop_runs_its_body_on_the_device():
    start = tf.placeholder(tf.float32, [3])
    with tf.device("/GPU:0"):
        count, value = tf.while_loop(
            lambda i, v: tf.logical_and(i < 7, tf.reduce_sum(v) < 1000.0),
            lambda i, v: (i + 1, v * 2.0),
            [0, start],
        )
        (slope,) = tf.gradients(value, start)
    with tf.Session() as session:
        found = session.run([count, value, slope], {start: [1.0, 2.0, 3.0]})
        assert found[0] == 7
        assert found[1].tolist() == [128, 256, 384]
        assert found[2].tolist() == [128] * 3
        assert session.run(count, {start: [900.0, 0, 0]}) == 1


def test_a_loop_may_cross_devices():
    with tf.device("/GPU:0"):
        start = tf.placeholder_with_default([1.0, 2.0], [2])

    def body(i, v):
        with tf.device("/GPU:1"):
            doubled = v * 2.0
        with tf.device("/CPU:0"):
            return i + 1, doubled + 1.0

    _, value = tf.while_loop(lambda i, v: i < 3, body, [0, start])
    with tf.Session() as session:
        assert session.run(value).tolist() == [15, 23]


@pytest.mark.parametrize(("fed", "expected"), [(1.0, 2.0), (-1.0, 0.0)])
def test_a_branch_is_taken_by_a_tensor_of_the_device(fed, expected):
    x = tf.placeholder(tf.float32, [])
    made = tf.cond(x * 1.0 > 0, lambda: x * 2.0, lambda: x + 1.0)
    with tf.Session() as session:
        assert session.run(made, {x: fed}) == expected


def test_tensor_arrays_and_maps():
    x = tf.placeholder(tf.float32, [4, 3])
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
    (slope,) = tf.gradients(mapped, x)
    with tf.Session() as session:
        found, grad = session.run([mapped, slope], {x: ROWS})
    sums = ROWS.sum(1, keepdims=True)
    np.testing.assert_allclose(found, sums * ROWS)
    np.testing.assert_allclose(grad, np.broadcast_to(2 * sums, ROWS.shape))


def test_functions_run_where_they_are_called():
    x = tf.placeholder(tf.float32, [2])
    found = while_op(lambda i, v: i < 4, lambda i, v: (i + 1, v * 3.0), [0, x])
    chosen = if_op(tf.reduce_sum(x) > 2, lambda: found[1] * 2.0, lambda: found[1])
    with tf.Session() as session:
        assert session.run(found[1], {x: [1.0, 2.0]}).tolist() == [81, 162]
        assert session.run(chosen, {x: [1.0, 2.0]}).tolist() == [162, 324]
        assert session.run(chosen, {x: [0.0, 1.0]}).tolist() == [0, 81]
        assert place_of(session, found[1], {x: [1.0, 2.0]}) == GPU0


# ---- errors


def test_inputs_that_do_not_fit_name_the_node_and_spoil_nothing():
    x = tf.placeholder(tf.float32)
    product = tf.matmul(x, tf.constant(ROWS), name="product")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"'product' on .*GPU:0"):
            session.run(product, {x: np.ones((2, 5))})
        assert session.run(product, {x: np.ones((2, 4))}).shape == (2, 3)
        (program,) = programs(session)
        assert len(program.regions) == 1


def test_a_failing_part_ends_the_others():
    x = tf.placeholder(tf.float32, [2])

    def fail(value):
        raise ValueError("no")

    broken = tf.py_func(fail, [x * 2.0], tf.float32)
    with tf.device("/GPU:1"):
        never = tf.reduce_sum(broken * 2.0)
    with tf.Session() as session, pytest.raises(tf.errors.OpError, match="no"):
        session.run(never, {x: [1.0, 2.0]})


def test_partial_runs_cross_devices():
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    first, second = a * 2.0, (a * 2.0) + b
    with tf.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        assert session.partial_run(handle, first, {a: 3.0}) == 6
        assert session.partial_run(handle, second, {b: 1.0}) == 7


# ---- clusters


@pytest.fixture
def cluster():
    made = LocalCluster({"ps": 1, "worker": 1})
    yield made
    made.stop()


def test_a_cluster_has_the_gpus_of_its_tasks(cluster):
    with tf.device("/job:ps/task:0/device:GPU:1"):
        weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    with tf.device("/job:worker/task:0/device:GPU:0"):
        x = tf.placeholder(tf.float32, [4, 3])
        loss = tf.reduce_sum(tf.square(weights - x))
        train = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    with tf.device("/job:worker/task:0/device:CPU:0"):
        doubled = loss * 2.0
    with tf.Session(cluster.target("worker", 0)) as session:
        names = [d.name for d in session.list_devices()]
        assert names[:3] == [
            f"/job:worker/replica:0/task:0/device:{d}" for d in ("CPU:0", "GPU:0", "GPU:1")
        ]
        assert "/job:ps/replica:0/task:0/device:GPU:1" in names
        session.run(tf.global_variables_initializer())
        zeros = np.zeros((4, 3), np.float32)
        for i in range(3):
            found = session.run([loss, doubled, train], {x: zeros})
            np.testing.assert_allclose(found[0], (ROWS**2).sum() / 4**i, rtol=1e-5)
            np.testing.assert_allclose(found[1], 2 * found[0])
        np.testing.assert_allclose(session.run(weights), ROWS / 8)
