"""Compiled regions give what NumPy gives, and never more than NumPy would promise."""

from __future__ import annotations

import _thread
import gc
import logging
import random
import threading
import weakref

import numpy as np
import pytest

import tideflow.v1 as tf
from real_time import duration_s
from tideflow.graph.building import apply_op
from tideflow.ops.state import OwnMemory
from tideflow.platform.settings import Settings
from tideflow.runtime import jit_compile
from tideflow.runtime.jit_mode import JitMode, jit_mode
from tideflow.runtime.jit_program import JitProgram
from tideflow.runtime.jit_thread import wait_until_compiled
from tideflow.runtime.jit_trials import Trial
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("TIDEFLOW_JIT", raising=False)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def config(level):
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.global_jit_level = level
    return made


NEVER = config(pb.OptimizerOptions.OFF)
AUTO = config(pb.OptimizerOptions.ON_1)
ALWAYS = config(pb.OptimizerOptions.ON_2)


def compiled_regions(session):
    """Return how many regions of a session's graphs are in compiled form."""
    return sum(runner.compiled_regions for runner in session.backend.runners.values())


def programs_with(name):
    """Return the programs, of any session in the process, that have a node of this name."""
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, JitProgram)
        and any(name in one.node.name for one in found.instructions)
    ]


def train(kind, optimizer, session_config, steps=6):
    """Train a small model; return the losses, the weights and the number of regions."""
    rng = np.random.default_rng(3)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6])
        y = tf.placeholder(tf.int32, [None])
        start = rng.normal(size=(6, 4)).astype(np.float32)
        w = tf.get_variable("w", initializer=tf.constant(start), use_resource=kind == "resource")
        b = tf.get_variable("b", initializer=tf.zeros([4]), use_resource=kind == "resource")
        logits = tf.nn.bias_add(tf.matmul(tf.nn.relu(x), w), b)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        step = optimizer().minimize(loss)
        feeds = {x: rng.normal(size=(8, 6)), y: rng.integers(0, 4, 8)}
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, step], feeds)[0] for _ in range(steps)]
            return losses, session.run([w, b]), compiled_regions(session)


@pytest.mark.parametrize("kind", ["resource", "ref"])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.5),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdamOptimizer(0.01),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_training_is_the_same_in_every_tier(kind, optimizer):
    plain = train(kind, optimizer, NEVER)
    compiled = train(kind, optimizer, ALWAYS)
    assert plain[2] == 0
    assert compiled[2] > 0
    np.testing.assert_allclose(compiled[0], plain[0], rtol=1e-5)
    for mine, expected in zip(compiled[1], plain[1], strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)


def test_reads_and_updates_of_a_variable_keep_the_order_of_the_graph(graph):
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    before = v.read_value() * 10.0
    with tf.control_dependencies([before]):
        added = v.assign_add([1.0, 1.0], read_value=False)
    with tf.control_dependencies([added]):
        between = v.read_value() * 10.0
    with tf.control_dependencies([between]):
        assigned = v.assign(before + between, read_value=False)
    with tf.control_dependencies([assigned]):
        after = v.read_value() + 0.0
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        found = session.run([before, between, after])
        assert compiled_regions(session)
        assert [value.tolist() for value in found] == [[10, 20], [20, 30], [30, 50]]
        assert session.run(v).tolist() == [30, 50]


def test_two_handles_of_one_variable_are_seen_to_be_one(graph):
    v = tf.get_variable("v", initializer=[1.0], use_resource=True)
    x = tf.placeholder(tf.float32, [1])
    handle = v.handle
    twin = apply_op(
        "VarHandleOp", container="localhost", shared_name="v", dtype=tf.float32, shape=[1]
    )
    add = apply_op("AssignAddVariableOp", twin, tf.exp(x))
    with tf.control_dependencies([add]):
        mine = apply_op("AssignAddVariableOp", handle, tf.exp(x))
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        for _ in range(3):
            session.run(mine, {x: [0.0]})
        assert session.run(v).tolist() == [7.0]


@pytest.mark.parametrize("size", [1000, 100_000])
def test_a_value_that_was_fetched_never_changes(graph, size):
    v = tf.get_variable("v", initializer=tf.zeros([size]), use_resource=True)
    step = v.assign_add(tf.ones([size]) * tf.exp(0.0), read_value=False)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        kept = []
        for _ in range(5):
            session.run(step)
            kept.append(session.run(v))
        assert [float(value[0]) for value in kept] == [1, 2, 3, 4, 5]
        assert all(value.flags.writeable for value in kept)


@pytest.mark.parametrize("size", [16, 1 << 20])
def test_a_caller_may_change_what_was_fed_after_the_step(graph, size):
    x = tf.placeholder(tf.float32, [size])
    v = tf.get_variable("v", initializer=tf.zeros([size]), use_resource=True)
    step = v.assign(tf.cumsum(x), read_value=False)
    given = np.ones(size, np.float32)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        for _ in range(3):
            given[:] = 1
            session.run(step, {x: given})
            given[:] = 0
            assert session.run(v)[-1] == size


def test_an_assigned_feed_is_not_the_callers_array(graph):
    x = tf.placeholder(tf.float32, [4])
    v = tf.get_variable("v", initializer=tf.zeros([4]), use_resource=True)
    step = tf.group(v.assign(x, read_value=False), tf.exp(x))
    given = np.ones(4, np.float32)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        session.run(step, {x: given})
        given[:] = 7
        assert session.run(v).tolist() == [1, 1, 1, 1]


def test_labels_out_of_range_fail_as_they_do_uncompiled(graph):
    logits = tf.placeholder(tf.float32, [2, 3])
    labels = tf.placeholder(tf.int32, [2])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name="xent")
    feeds = {logits: np.zeros((2, 3))}
    with tf.Session(config=ALWAYS) as session:
        assert session.run(loss, {**feeds, labels: [0, 2]}).shape == (2,)
        assert compiled_regions(session)
        for wrong in ([0, 3], [-1, 0]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
                session.run(loss, {**feeds, labels: wrong})
        assert session.run(loss, {**feeds, labels: [1, 1]}).shape == (2,)


def test_integer_division_by_zero_fails_and_leaves_variables_alone(graph):
    x = tf.placeholder(tf.int32, [2])
    v = tf.get_variable("v", initializer=[1, 2], use_resource=True)
    step = v.assign_add(tf.floordiv([4, 6], x) * 2, read_value=False)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        session.run(step, {x: [2, 3]})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(step, {x: [2, 0]})
        assert session.run(v).tolist() == [5, 6]


@pytest.mark.parametrize("op", ["RealDiv", "Inv", "Reciprocal", "FloorDiv"])
def test_integers_are_divided_the_same_in_every_tier(graph, op):
    x = tf.placeholder(tf.int32, [2])
    y = apply_op(op, *([x, x][: 1 if op in ("Inv", "Reciprocal") else 2]))
    found = []
    for level in (NEVER, ALWAYS):
        with tf.Session(config=level) as session:
            assert session.run(y + 1, {x: [1, 1]}).tolist() == [2, 2]
            try:
                found.append(session.run(y, {x: [1, 0]}).tolist())
            except tf.errors.OpError as error:
                found.append(type(error))
    assert found[0] == found[1]


def test_an_uninitialized_variable_fails_by_name(graph):
    v = tf.get_variable("v", initializer=[1.0], use_resource=True)
    with tf.Session(config=ALWAYS) as session:
        for _ in range(2):
            with pytest.raises(tf.errors.FailedPreconditionError, match="'v'"):
                session.run(tf.exp(v.read_value() + 1.0))


def test_known_divisors_divide_exactly(graph):
    x = tf.placeholder(tf.float32, [64])
    y = x / tf.constant(np.arange(1, 65, dtype=np.float32))
    with tf.Session(config=ALWAYS) as session:
        found = session.run(y, {x: np.arange(1, 65)})
        assert compiled_regions(session)
    assert (found == 1).all()


def test_64_bits_stay_64_bits(graph):
    x = tf.placeholder(tf.float64, [2])
    i = tf.placeholder(tf.int64, [2])
    made = [x * 2.0 + 1e-12, i * 3 + (1 << 40)]
    with tf.Session(config=ALWAYS) as session:
        a, b = session.run(made, {x: [1, 2], i: [1, 2]})
        assert compiled_regions(session)
    assert (a.dtype, a[0]) == (np.float64, 2.0 + 1e-12)
    assert (b.dtype, b.tolist()) == (np.int64, [(1 << 40) + 3, (1 << 40) + 6])


def test_results_are_the_callers_own(graph):
    x = tf.placeholder(tf.float32, [4])
    y = tf.exp(x)
    with tf.Session(config=ALWAYS) as session:
        found = session.run(y, {x: np.zeros(4)})
        found[:] = 5
        assert session.run(y, {x: np.zeros(4)}).tolist() == [1, 1, 1, 1]


def aligned(count):
    """Return ones whose memory compiled code takes as it is."""
    memory = np.empty(count * 4 + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    ones = memory[begin : begin + count * 4].view(np.float32)
    ones[:] = 1
    return ones


def test_large_results_are_handed_on_and_nobody_else_has_them(graph):
    size = 1 << 16
    x = tf.placeholder(tf.float32, [size])
    v = tf.get_variable("v", initializer=tf.zeros([size]), use_resource=True)
    y = tf.exp(x)
    with tf.control_dependencies([y]):
        kept = v.assign(y, read_value=False)
    same, again = tf.identity(y), tf.reshape(y, [2, -1])
    given = aligned(size)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        found = [session.run([y, same, again, kept], {x: given}) for _ in range(2)]
        # Not copied: this is compiled code's memory.
        alone = session.run(y, {x: given})
        assert isinstance(alone.base, OwnMemory)
        arrays = [alone, *found[0][:3], *found[1][:3]]
        for i, array in enumerate(arrays):
            assert array.flags.writeable
            assert not np.shares_memory(array, given)
            assert not any(np.shares_memory(array, other) for other in arrays[:i])
            array[:] = i
        assert np.allclose(session.run(v), np.e)
        assert np.allclose(session.run(y, {x: given}), np.e)
        assert [array.flat[-1] for array in arrays] == list(range(7))
        assert (given == 1).all()


def test_large_results_are_free_when_nobody_has_them(graph):
    x = tf.placeholder(tf.float32, [1 << 16])
    y = tf.exp(x)
    with tf.Session(config=ALWAYS) as session:
        found = session.run(y, {x: aligned(1 << 16)})
        part = found[10:20]
        keeper = weakref.ref(found.base)
        del found
        assert np.allclose(part, np.e)
        assert keeper() is not None
        del part
        assert keeper() is None


def test_a_fed_array_serves_as_it_is_and_stays_what_it_is(graph):
    size = 1 << 16
    x = tf.placeholder(tf.float32, [size])
    v = tf.get_variable("v", initializer=tf.zeros([size]), use_resource=True)
    step = tf.group(v.assign(x + 0.0, read_value=False), v.assign_add(x, read_value=False))
    given = aligned(size)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        for i in range(3):
            given[:] = i
            session.run(step, {x: given})
            assert (given == i).all()
            found = session.run(v)
            given[:] = 9
            assert set(session.run(v)) == set(found) <= {i, 2 * i}


def test_an_interrupted_step_leaves_the_variables_as_they_are_or_shall_be(graph):
    v = tf.get_variable("v", initializer=tf.zeros([1 << 19]), use_resource=True)
    step = v.assign_add(tf.exp(tf.sin(v) * 0.0), read_value=False)
    chance = random.Random(3)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        session.run(step)
        took = duration_s(lambda: session.run(step))
        count = 2
        for _ in range(20):
            timer = threading.Timer(chance.random() * took, _thread.interrupt_main)
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                session.run(step)
                timer.join()
                # What came too late for the step is raised here.
                for _ in range(1000):
                    pass
            timer.join()
            found = session.run(v)
            assert (found == found[0]).all()
            assert count <= found[0] <= count + 1
            count = int(found[0])


def test_a_shape_that_keeps_changing_is_named_once(graph, caplog):
    x = tf.placeholder(tf.float32, [None], name="images")
    y = tf.reduce_sum(tf.exp(x))
    with tf.Session(config=ALWAYS) as session, caplog.at_level(logging.WARNING):
        found = [session.run(y, {x: np.zeros(n)}) for n in range(1, 13)]
    assert found == [float(n) for n in range(1, 13)]
    warnings = [r.getMessage() for r in caplog.records if "shapes of" in r.getMessage()]
    assert len(warnings) == 1
    assert "images:0" in warnings[0]


def test_regions_that_share_a_changing_tensor_warn_together(graph, caplog):
    x = tf.placeholder(tf.float32, [None], name="images")
    called = tf.py_func(lambda value: value, [tf.exp(x)], tf.float32)
    called.set_shape([None])
    y = tf.reduce_sum(tf.exp(x) * 2.0 + tf.log(called))
    with tf.Session(config=ALWAYS) as session, caplog.at_level(logging.WARNING):
        for n in range(1, 13):
            assert session.run(y, {x: np.zeros(n)}) == 2 * n
        assert compiled_regions(session) == 2
    assert sum("shapes of images:0" in record.getMessage() for record in caplog.records) == 1


def test_a_number_of_distinct_indices_that_keeps_changing_leaves_the_rest_compiled(graph, caplog):
    ids = tf.placeholder(tf.int32, [12])
    table = tf.get_variable("table", initializer=np.ones((12, 4), np.float32), use_resource=True)
    scale = tf.get_variable("scale", initializer=np.ones(4, np.float32), use_resource=True)
    loss = tf.reduce_sum(tf.exp(tf.nn.embedding_lookup(table, ids) * scale))
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.Session(config=ALWAYS) as session, caplog.at_level(logging.WARNING):
        session.run(tf.global_variables_initializer())
        for count in range(1, 13):
            session.run(step, {ids: np.arange(12) % count})
        assert compiled_regions(session)
    assert "shapes of" not in caplog.text


def test_nothing_is_traced_while_the_program_ends(graph, monkeypatch):
    monkeypatch.setattr(jit_compile, "is_leaving", lambda: True)
    x = tf.placeholder(tf.float32, [3])
    y = tf.exp(x) * 3.14159
    with tf.Session(config=ALWAYS) as session:
        assert session.run(y, {x: [0, 0, 0]}).tolist() == pytest.approx([3.14159] * 3)
        assert compiled_regions(session) == 0


@pytest.mark.parametrize(("level", "expected"), [(NEVER, False), (ALWAYS, True)])
def test_a_sessions_level_reaches_its_workers(graph, level, expected):
    server = tf.train.Server.create_local_server()
    x = tf.placeholder(tf.float32, [3])
    y = tf.exp(x, name=f"level_probe_{expected}") * 2.0
    with tf.Session(server.target, config=level) as session:
        np.testing.assert_allclose(session.run(y, {x: [0, 1, 2]}), 2 * np.exp([0, 1, 2]), 1e-6)
        mine = programs_with(f"level_probe_{expected}")
        assert any(program.compiled_regions for program in mine) is expected
    server.stop()


def test_auto_compiles_what_is_hot_in_the_background(graph):
    x = tf.placeholder(tf.float32, [256, 256])
    y = tf.reduce_sum(tf.sin(tf.exp(tf.cos(x))))
    given = np.linspace(0, 1, 256 * 256).reshape(256, 256)
    with tf.Session(config=AUTO) as session:
        expected = session.run(y, {x: given})
        regions = 0
        for _ in range(20_000):  # until it has cost enough, however fast the machine
            np.testing.assert_allclose(session.run(y, {x: given}), expected, rtol=1e-4)
            if compiled_regions(session):
                wait_until_compiled()
                regions = compiled_regions(session)
                break
        for _ in range(20):
            np.testing.assert_allclose(session.run(y, {x: given}), expected, rtol=1e-4)
    assert regions == 1


def test_updates_from_several_threads_are_all_counted(graph):
    v = tf.get_variable("v", initializer=tf.zeros([64]), use_resource=True)
    step = v.assign_add(tf.exp(tf.zeros([64])), read_value=False)
    with tf.Session(config=ALWAYS) as session:
        session.run(v.initializer)
        threads = [
            threading.Thread(target=lambda: [session.run(step) for _ in range(50)])
            for _ in range(4)
        ]
        readers = [threading.Thread(target=lambda: [session.run(v) for _ in range(50)])]
        for thread in threads + readers:
            thread.start()
        for thread in threads + readers:
            thread.join()
        assert session.run(v).tolist() == [200.0] * 64


def test_closed_sessions_leave_no_programs_behind(graph):
    x = tf.placeholder(tf.float32, [4])
    y = tf.exp(x, name="closed_probe")
    with tf.Session(config=ALWAYS) as session:
        session.run(y, {x: np.zeros(4)})
        assert programs_with("closed_probe")
    del session
    gc.collect()
    assert not programs_with("closed_probe")


def test_the_setting_comes_before_the_option(set_settings):
    assert jit_mode(ALWAYS.graph_options) is JitMode.ALWAYS
    assert jit_mode(AUTO.graph_options) is JitMode.AUTO
    assert jit_mode(tf.ConfigProto().graph_options) is jit_mode() is JitMode.AUTO
    set_settings(jit="never")
    assert jit_mode(ALWAYS.graph_options) is jit_mode() is JitMode.NEVER
    assert jit_mode(None, Settings(jit="always")) is JitMode.ALWAYS


def test_regions_that_differ_in_a_large_constant_alone_keep_their_own(graph):
    fed = tf.placeholder(tf.float32, [2000])
    first = fed * 2 + tf.constant(np.full(2000, 1, np.float32))
    other = fed * 2 + tf.constant(np.full(2000, 5, np.float32))
    with tf.Session(config=ALWAYS) as session:
        zeros = np.zeros(2000, np.float32)
        assert session.run(first, {fed: zeros})[0] == 1
        assert session.run(other, {fed: zeros})[0] == 5


def test_a_long_step_waits_for_the_compiler(graph):
    x = tf.placeholder(tf.float32, [16, 28, 28, 32])
    filters = np.linspace(-1, 1, 5 * 5 * 32 * 64, dtype=np.float32).reshape(5, 5, 32, 64)
    hot = tf.nn.conv2d(x, filters, strides=[1, 1, 1, 1], padding="SAME", name="waited_for")
    hot = tf.reduce_sum(tf.nn.relu(hot), [1, 2, 3])
    given = np.random.default_rng(0).normal(size=(16, 28, 28, 32)).astype(np.float32)
    with tf.Session(config=AUTO) as session:
        expected = session.run(hot, {x: given})
        seen = []
        for _ in range(40):
            np.testing.assert_allclose(session.run(hot, {x: given}), expected, rtol=1e-4)
            seen.append(any(program.is_untried for program in programs_with("waited_for")))
    assert True in seen
    assert not seen[-1]


@pytest.fixture
def held_compiler(monkeypatch):
    """Hold the compiler up until the test ends, and fail it where a step waits for it."""
    may_start = threading.Event()
    compiled = jit_compile.compile_region

    def held_up(*args):
        assert may_start.wait(60)
        return compiled(*args)

    monkeypatch.setattr(jit_compile, "compile_region", held_up)
    waits = []
    monkeypatch.setattr(Trial, "wait", lambda trial, _: waits.append(trial))
    yield waits
    may_start.set()
    wait_until_compiled()


def long_steps(session, name, **options):
    """Run tanh of a large array until the next run would wait for the compiler, and once more.

    Returns: how many runs there were before that one.
    """
    x = tf.placeholder(tf.float32, [2000, 1000])
    hot = x
    for _ in range(40):
        hot = tf.tanh(hot, name=name)
    feeds = {x: np.zeros([2000, 1000], np.float32)}
    runs = 0
    while not any(program.is_untried for program in programs_with(name)):
        session.run(hot, feeds, **options)
        runs += 1
    assert session.run(hot, feeds, **options).sum() == 0
    return runs


def test_a_step_without_a_deadline_waits_for_the_compiler(graph, held_compiler):
    with tf.Session(config=AUTO) as session:
        long_steps(session, "patient")
    assert held_compiler


def test_after_two_long_steps_it_is_known_that_compiling_pays(graph, held_compiler):
    with tf.Session(config=AUTO) as session:
        assert long_steps(session, "few") == 2


def test_a_step_with_a_deadline_does_not_wait_for_the_compiler(graph, held_compiler):
    with tf.Session(config=AUTO) as session:
        long_steps(session, "hurried", options=tf.RunOptions(timeout_in_ms=60_000))
    assert not held_compiler


def test_servers_do_not_wait_for_the_compiler(graph, held_compiler):
    server = tf.train.Server.create_local_server(config=AUTO)
    with tf.Session(server.target, config=AUTO) as session:
        long_steps(session, "served")
    assert not held_compiler
    server.stop()


def test_the_first_call_of_compiled_code_may_take_longer_than_numpy(graph):
    x = tf.placeholder(tf.float32, [200, 200])
    hot = x
    for _ in range(40):
        hot = tf.tanh(hot, name="untried")
    with tf.Session(config=AUTO) as session:
        feeds = {x: np.ones([200, 200], np.float32)}
        seen = []
        for _ in range(20_000):  # until it has cost enough, and NumPy has been timed
            session.run(hot, feeds)
            wait_until_compiled()
            seen.append(any(program.is_untried for program in programs_with("untried")))
            if True in seen and not seen[-1]:
                break
        assert True in seen
        assert not seen[-1]
