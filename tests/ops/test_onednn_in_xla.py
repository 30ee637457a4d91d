"""Convolutions by the oneDNN that jaxlib holds: right, used where they should be, and kept."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import threading
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tideflow.v1 as tf
from ops.harness import Case, build, run
from tideflow.graph.kernel import bind
from tideflow.ops.nn import onednn_in_xla
from tideflow.ops.nn.onednn_in_xla import TARGET, TRIED_JAXLIB
from tideflow.runtime import jit_compile
from tideflow.runtime.jit_cache import ExecutableFolder
from tideflow.runtime.jit_thread import wait_until_compiled
from tideflow.runtime.jit_trials import Trial

RNG = np.random.default_rng(5)

has_onednn = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="jaxlib holds oneDNN on Linux for x86-64 alone",
)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def cases(
    size,
    kernel,
    stride=(1, 1),
    padding="SAME",
    dilation=(1, 1),
    explicit=(),
    channels=5,
    out=6,
    groups=1,
):
    """Return a convolution of pictures [3, *size, channels], and both its gradients."""
    attrs = {
        "strides": [1, *stride, 1],
        "padding": padding,
        "dilations": [1, *dilation, 1],
        "explicit_paddings": [0, 0, *explicit, 0, 0] if explicit else [],
    }
    x, w = normal(3, *size, channels), normal(*kernel, channels // groups, out)
    forward = Case("Conv2D", [x, w], attrs)
    dy = normal(*run(forward)[0].shape)
    sizes = [np.array(one.shape, np.int32) for one in (x, w)]
    return [
        forward,
        Case("Conv2DBackpropInput", [sizes[0], w, dy], attrs),
        Case("Conv2DBackpropFilter", [x, sizes[1], dy], attrs),
    ]


GEOMETRIES = {
    "same": ((7, 6), (3, 3)),
    "even filter": ((7, 6), (2, 4)),
    "valid": ((7, 6), (3, 2), (1, 1), "VALID"),
    "strided": ((8, 9), (3, 3), (2, 2)),
    "strides that differ": ((8, 9), (3, 3), (1, 3)),
    "positions that no window reaches": ((8, 9), (3, 2), (2, 3), "VALID"),
    "dilated": ((9, 8), (3, 3), (1, 1), "SAME", (2, 3)),
    "strided and dilated": ((9, 8), (2, 3), (2, 1), "VALID", (1, 2)),
    "explicit paddings": ((6, 7), (3, 3), (2, 1), "EXPLICIT", (1, 1), (0, 2, 1, 0)),
    "paddings beyond the filter": ((4, 5), (2, 3), (1, 1), "EXPLICIT", (1, 1), (3, 4, 5, 1)),
    "one column": ((9, 1), (3, 1)),
    "filter as large as the picture": ((6, 5), (6, 5), (1, 1), "VALID"),
    "one channel": ((7, 6), (3, 3), (1, 1), "SAME", (1, 1), (), 1),
    "many channels": ((5, 5), (3, 3), (1, 1), "SAME", (1, 1), (), 33, 65),
    "groups": ((7, 6), (3, 3), (1, 1), "SAME", (1, 1), (), 12, 9, 3),
    "groups, strided": ((8, 9), (3, 2), (2, 3), "VALID", (1, 1), (), 10, 4, 2),
    "groups, paddings beyond": ((4, 5), (2, 3), (2, 1), "EXPLICIT", (1, 1), (3, 4, 5, 1), 8, 6, 2),
    "groups of one tap": ((5, 5), (1, 1), (1, 1), "SAME", (1, 1), (), 4, 6, 2),
    "a group for each channel": ((7, 6), (3, 3), (1, 1), "SAME", (1, 1), (), 4, 8, 4),
    "these, strided and dilated": ((9, 8), (2, 3), (2, 1), "VALID", (1, 2), (), 3, 3, 3),
    "these, positions that no window reaches": (
        (8, 9),
        (3, 2),
        (2, 3),
        "VALID",
        (1, 1),
        (),
        3,
        6,
        3,
    ),
    "these, more pictures than a cache holds": (
        (80, 80),
        (2, 2),
        (1, 1),
        "SAME",
        (1, 1),
        (),
        24,
        24,
        24,
    ),
    "many groups": ((5, 5), (3, 3), (1, 1), "SAME", (1, 1), (), 130, 65, 65),
    "one tap": ((5, 5), (1, 1)),
    "one tap, strided": ((5, 6), (1, 1), (2, 2)),
}


def check(geometry):
    for case in cases(*geometry):
        (expected,), (found,) = run(case), run(case, "jax")
        most = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * most, err_msg=str(case))


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())
def test_compiled_convolutions_agree_with_numpys(geometry):
    check(geometry)


@pytest.mark.parametrize("name", ["paddings beyond the filter", "positions that no window reaches"])
def test_those_by_xla_alone_agree_too(name, set_settings):
    set_settings(onednn=False)
    check(GEOMETRIES[name])


def is_called(case):
    """Whether the code that is compiled of a case calls oneDNN."""
    op, flat = build(case)
    pictures = [i for i, one in enumerate(flat) if one.ndim == 4]

    def call(*given):
        values = list(flat)
        for i, value in zip(pictures, given, strict=True):
            values[i] = value
        return bind(op, jnp)(*values)

    with jax.enable_x64(True):
        return TARGET in jax.jit(call).lower(*[flat[i] for i in pictures]).as_text()


@has_onednn
def test_the_installed_jaxlib_is_one_whose_onednn_was_tried():
    """After an upgrade: add the release if this file's other tests pass with it."""
    assert version("jaxlib") in TRIED_JAXLIB


@has_onednn
def test_onednn_is_called_for_filters_of_several_taps(set_settings):
    assert [is_called(case) for case in cases((7, 6), (3, 3))] == [True] * 3
    assert [is_called(case) for case in cases((7, 6), (3, 1), (2, 2))] == [True, False, True]
    assert [is_called(case) for case in cases((7, 6), (1, 1))] == [False] * 3
    assert [is_called(case) for case in cases(*GEOMETRIES["one channel"])] == [True, True, False]
    set_settings(onednn=False)
    assert [is_called(case) for case in cases((7, 6), (3, 3))] == [False] * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_other_types_are_left_to_xla(dtype):
    x, w = normal(1, 5, 5, 2).astype(dtype), normal(3, 3, 2, 4).astype(dtype)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    assert not is_called(Case("Conv2D", [x, w], attrs))


@has_onednn
def test_onednn_is_called_for_groups():
    assert [is_called(case) for case in cases(*GEOMETRIES["groups"])] == [True] * 3
    assert [is_called(case) for case in cases(*GEOMETRIES["groups, strided"])] == [True] * 3
    each = cases(*GEOMETRIES["a group for each channel"])
    assert [is_called(case) for case in each] == [True] * 3


def test_another_release_of_jaxlib_is_not_asked(monkeypatch):
    """Options that oneDNN does not expect would end the process."""
    forget = onednn_in_xla.is_there.cache_clear
    forget()
    monkeypatch.setattr(onednn_in_xla, "TRIED_JAXLIB", frozenset())
    try:
        assert not is_called(cases((7, 6), (3, 3))[0])
    finally:
        forget()


def branches(count=8):
    """Return a graph in which many convolutions wait for nothing but one input, and its input."""
    x = tf.placeholder(tf.float32, [4, 12, 12, 8])
    filters = [tf.constant(normal(3, 3, 8, 8) / 8) for _ in range(count)]
    once = [tf.nn.conv2d(x, w, padding="SAME") for w in filters]
    twice = [tf.nn.conv2d(tf.tanh(y), w, padding="SAME") for y, w in zip(once, filters)]
    return tf.stack(twice), x


def test_many_at_once_in_several_threads_give_the_same_and_end(set_settings):
    pictures = normal(4, 12, 12, 8)
    with tf.Graph().as_default():
        fetched, x = branches()
        set_settings(jit="never")
        with tf.Session() as session:
            expected = session.run(fetched, {x: pictures})
        set_settings(jit="always")
        found = []
        with tf.Session() as session:

            def work():
                for _ in range(15):
                    found.append(session.run(fetched, {x: pictures}))

            threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
    assert len(found) == 60
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


TRAINING = """
import sys
import numpy as np
import tideflow.v1 as tf

x = tf.placeholder(tf.float32, [2, 8, 8, 4])
w = tf.get_variable("w", initializer=tf.fill([3, 3, 4, 4], 0.1), use_resource=True)
deep = tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, w, padding="SAME")), w, padding="SAME")
loss = tf.reduce_sum(deep)
train = tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(2):
        found, _ = session.run([loss, train], {x: np.ones([2, 8, 8, 4], np.float32)})
print("found", found, "jax" in sys.modules)
"""


@has_onednn
@pytest.mark.processes
def test_the_next_process_calls_onednn_without_jax(tmp_path):
    """jaxlib cannot write such code, so what is kept is compiled when it is loaded."""

    def train():
        environment = {
            **os.environ, "TIDEFLOW_JIT": "always", "TIDEFLOW_JIT_CACHE": str(tmp_path / "kept"),
            "ONEDNN_VERBOSE": "1",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", TRAINING],
            env=environment, check=True, timeout=120, capture_output=True, text=True,
        )  # fmt: skip
        (said,) = [line for line in done.stdout.splitlines() if line.startswith("found")]
        _, loss, has_jax = said.split()
        return float(loss), has_jax, done.stdout.count("exec,cpu,convolution")

    first, _, calls = train()
    assert calls == 2 * 5  # a step: two forward, one input's gradient, two filters'
    again, has_jax, calls = train()
    assert (has_jax, calls) == ("False", 2 * 5)
    assert first == again


# Pictures of no other test's size.
PICTURES = (2, 9, 7, 4)


def trials():
    """Return what is known of compiled regions that take the pictures."""
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, Trial)
        and one.executable
        and any(shape == PICTURES for _, shape in one.signature)
    ]


def run_hot(until):
    """Run convolutions as a new program until what is known of their region is as wanted."""
    jit_compile.forget_compiled()
    gc.collect()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, PICTURES)
        w = tf.get_variable("w", initializer=tf.fill([3, 3, 4, 4], 0.1), use_resource=True)
        deep = tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(x, w, padding="SAME")), w, padding="SAME")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            while not any(until(one.executable) for one in trials()):
                found = session.run(deep, {x: np.ones(PICTURES, np.float32)})
                wait_until_compiled()
            return found


@pytest.fixture
def kept(tmp_path, set_settings, monkeypatch):
    """The folder in which compiled code is kept; this process also does the other one's work."""
    folder = tmp_path / "kept"
    set_settings(jit="auto", jit_cache=str(folder))

    def answered(kept, key, request, must_end):
        kept.keep(key, jit_compile.compile_request(request))
        return True

    monkeypatch.setattr(jit_compile, "compile_elsewhere", answered)
    monkeypatch.setattr(jit_compile, "SETTLED_S", 0.0)
    return folder


@has_onednn
def test_the_next_program_begins_with_code_that_was_kept_and_changes_over(
    kept, monkeypatch, set_settings
):
    def are_both_kept(_):
        return len(list(kept.glob("*.tfx"))) > 1

    expected = run_hot(are_both_kept)
    interim = max(kept.glob("*.tfx"), key=lambda file: file.stat().st_mtime_ns)
    monkeypatch.setattr(jit_compile, "SETTLED_S", 1e9)
    at_first = run_hot(lambda executable: executable.is_interim)
    np.testing.assert_allclose(at_first, expected, rtol=1e-5)
    monkeypatch.setattr(jit_compile, "SETTLED_S", 0.0)
    later = run_hot(lambda executable: not executable.is_interim)
    np.testing.assert_allclose(later, expected, rtol=1e-5)
    # What does not load is made anew.
    ExecutableFolder(kept).keep(interim.stem, b"of another compiler")
    run_hot(lambda executable: not executable.is_interim and are_both_kept(executable))
    assert b"of another compiler" not in interim.read_bytes()
    # Code that runs always is the same from the first step on.
    set_settings(jit="always", jit_cache=str(kept))
    run_hot(lambda executable: not executable.is_interim)


@has_onednn
def test_convolutions_in_groups_call_onednn_though_it_is_left_out():
    with onednn_in_xla.left_out():
        assert [is_called(case) for case in cases((7, 6), (3, 3))] == [False] * 3
        assert [is_called(case) for case in cases(*GEOMETRIES["groups"])][:2] == [True] * 2


@has_onednn
@pytest.mark.processes
def test_no_convolution_is_left_to_products_of_matrices():
    """Threads of XLA's that make those wait for one another without end."""
    program = """
from ops.test_onednn_in_xla import GEOMETRIES, check
for name, geometry in GEOMETRIES.items():
    if "these" in name or "groups" in name or "dilated" in name:
        check(geometry)
"""
    env = os.environ | {"ONEDNN_VERBOSE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if ",exec,cpu,convolution," in line]
    assert lines
    assert [line for line in lines if "gemm" in line.split(",")[6]] == []
