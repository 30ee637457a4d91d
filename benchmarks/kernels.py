"""Single ops beside TensorFlow's and bare jax: what training steps of usual models are made of.

Each is a `tf.function` of TensorFlow and of tideflow (compiled at once), and a `jax.jit` of what
jax offers for the same, on the same arrays.  They take turns in one process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.report import PAGE, machine, markdown_table, show, write_part
from tideflow.platform.settings import process_settings, using

_HEADS = ["op", "TensorFlow", "jax", "tideflow", "ratio to TensorFlow", "to jax"]
_RNG = np.random.default_rng(0)
# In each turn so many calls, of which the first is not counted.
_CALLS = 8


@dataclass(frozen=True)
class Kernel:
    """An op in both ways to write it.

    Attributes:
      name: in the table.
      arrays: what it takes.
      of_tf: of a module `tf` and tensors.
      of_jax: of arrays.
    """

    name: str
    arrays: tuple[np.ndarray, ...]
    of_tf: Callable[..., Any]
    of_jax: Callable[..., Any]


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape).astype(np.float32)


def _convolution(size: int, taps: int, channels: int, out: int, batch: int = 32) -> list[Kernel]:
    """Return a convolution of padding SAME, and its gradients."""
    x, w = _normal(batch, size, size, channels), _normal(taps, taps, channels, out)
    dy = _normal(batch, size, size, out)
    how = {"strides": [1, 1, 1, 1], "padding": "SAME"}

    def made(x: Any, w: Any) -> Any:
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)

    def for_input(tf: Any, w: Any, dy: Any) -> Any:
        return tf.raw_ops.Conv2DBackpropInput(input_sizes=x.shape, filter=w, out_backprop=dy, **how)

    def for_filter(tf: Any, x: Any, dy: Any) -> Any:
        return tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=w.shape, out_backprop=dy, **how
        )

    name = f"{taps}x{taps}, {channels} to {out} channels of {size}x{size}"
    found = [
        Kernel(f"convolution {name}", (x, w), lambda tf, x, w: tf.nn.conv2d(x, w, 1, "SAME"), made),
        Kernel(
            "its gradient for the filter", (x, dy), for_filter,
            lambda x, dy: jax.vjp(lambda w: made(x, w), jnp.zeros(w.shape))[1](dy)[0],
        ),
    ]  # fmt: skip
    if channels > 1:
        by_input = Kernel(
            "its gradient for the input", (w, dy), for_input,
            lambda w, dy: jax.vjp(lambda x: made(x, w), jnp.zeros(x.shape))[1](dy)[0],
        )  # fmt: skip
        found.insert(1, by_input)
    return found


def _gradient_too(
    name: str, arrays: tuple[np.ndarray, ...], of_tf: Callable[..., Any], of_jax: Callable[..., Any]
) -> Kernel:
    """Return an op with its gradients for all that it takes."""

    def taped(tf: Any, *given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            total = tf.reduce_sum(of_tf(tf, *given))
        return [total, *tape.gradient(total, given)]

    def differentiated(*given: Any) -> Any:
        return jax.value_and_grad(lambda *g: jnp.sum(of_jax(*g)), tuple(range(len(given))))(*given)

    return Kernel(name, arrays, taped, differentiated)


def _normalised_tf(axes: list[int]) -> Callable[..., Any]:
    def normalised(tf: Any, x: Any, scale: Any, shift: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes, keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5) ** 2

    return normalised


def _normalised_jax(axes: list[int]) -> Callable[..., Any]:
    def normalised(x: Any, scale: Any, shift: Any) -> Any:
        mean = jnp.mean(x, tuple(axes), keepdims=True)
        variance = jnp.mean(jnp.square(x - mean), tuple(axes), keepdims=True)
        return ((x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + shift) ** 2

    return normalised


def _depthwise_jax(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x, w.transpose(0, 1, 3, 2), (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=x.shape[3],
    )  # fmt: skip


def _pooled_jax(x: Any) -> Any:
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "SAME") ** 2


def _kernels() -> Iterator[Kernel]:
    scalar = np.array(1, np.float32)
    yield Kernel("addition of scalars: the call", (scalar,), lambda tf, x: x + x, lambda x: x + x)
    yield from _convolution(28, 5, 1, 32)
    yield from _convolution(14, 5, 32, 64)
    for size, channels in ((32, 16), (16, 32), (8, 64)):
        yield from _convolution(size, 3, channels, channels)
    yield _gradient_too(
        "depthwise convolution 3x3 of 28x28x64, and gradients",
        (_normal(32, 28, 28, 64), _normal(3, 3, 64, 1)),
        lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), _depthwise_jax,
    )  # fmt: skip
    yield _gradient_too(
        "maximum pool 2x2 of 28x28x32, and gradient", (_normal(32, 28, 28, 32),),
        lambda tf, x: tf.nn.max_pool2d(x, 2, 2, "SAME") ** 2, _pooled_jax,
    )  # fmt: skip
    yield Kernel(
        "sum by channel of 28x28x32", (_normal(32, 28, 28, 32),),
        lambda tf, x: tf.reduce_sum(x, [0, 1, 2]), lambda x: jnp.sum(x, (0, 1, 2)),
    )  # fmt: skip
    yield Kernel(
        "32 products 64x64 by 64x64", (_normal(32, 64, 64), _normal(32, 64, 64)),
        lambda tf, a, b: tf.matmul(a, b), jnp.matmul,
    )  # fmt: skip
    yield Kernel(
        "product 256x1024 by 1024x1024", (_normal(256, 1024), _normal(1024, 1024)),
        lambda tf, a, b: tf.matmul(a, b), jnp.matmul,
    )  # fmt: skip
    for what, shape, axes in (
        ("batch", (32, 32, 32, 16), [0, 1, 2]), ("layer", (512, 128), [1]),
    ):  # fmt: skip
        yield _gradient_too(
            f"{what} normalisation of {'x'.join(map(str, shape))}, and gradients",
            (_normal(*shape), _normal(shape[-1]), _normal(shape[-1])),
            _normalised_tf(axes), _normalised_jax(axes),
        )  # fmt: skip
    logits, labels = _normal(512, 1000), _RNG.integers(0, 1000, 512).astype(np.int32)

    def entropy(tf: Any, logits: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(each)
        return loss, tape.gradient(loss, logits)

    def entropy_of_jax(logits: Any, labels: Any) -> Any:
        def loss(logits: Any) -> Any:
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
            return -jnp.mean(chosen)

        return jax.value_and_grad(loss)(logits)

    yield Kernel(
        "softmax cross entropy of 512x1000, and gradient", (logits, labels), entropy, entropy_of_jax
    )
    yield Kernel("Adam on 3136x512", (_normal(3136, 512),), _adam, _adam_of_jax)


def _adam(tf: Any, gradient: Any) -> Any:
    w, m, v = _held(tf, gradient.shape)
    one = tf.constant(0.5)
    tf.raw_ops.ResourceApplyAdam(
        var=w.handle, m=m.handle, v=v.handle, beta1_power=one, beta2_power=one, lr=1e-3,
        beta1=0.9, beta2=0.999, epsilon=1e-7, grad=gradient,
    )  # fmt: skip
    return one


_variables: dict[Any, list[Any]] = {}


def _held(tf: Any, shape: Any) -> list[Any]:
    """Return the variables of a module: a function makes none when it is called."""
    if tf not in _variables:
        with tf.init_scope():
            _variables[tf] = [tf.Variable(np.zeros(shape, np.float32)) for _ in range(3)]
    return _variables[tf]


_of_jax: list[Any] = []


def _adam_of_jax(gradient: Any) -> Any:
    """Update what the last call has made: its arrays are given away."""
    if not _of_jax:
        _of_jax.extend(jnp.zeros(gradient.shape) for _ in range(3))
    _of_jax[:] = _adam_step(*_of_jax, gradient)
    return _of_jax[0]


def _adam_rule(w: Any, m: Any, v: Any, gradient: Any) -> Any:
    m = m + (gradient - m) * 0.1
    v = v + (gradient * gradient - v) * 0.001
    return w - 1e-3 * m / (jnp.sqrt(v) + 1e-7), m, v


_adam_step = jax.jit(_adam_rule, donate_argnums=(0, 1, 2))


def _calls(kernel: Kernel, tensorflow: Any, tideflow: Any) -> list[Callable[[], Any]]:
    """Return how TensorFlow, jax and tideflow call it, compiled and warm."""
    found: list[Callable[[], Any]] = []
    for tf in (tensorflow, tideflow):
        function = tf.function(lambda *given, tf=tf: kernel.of_tf(tf, *given))
        given = [tf.constant(one) for one in kernel.arrays]
        found.append(lambda function=function, given=given: function(*given))
    compiled = kernel.of_jax if kernel.of_jax is _adam_of_jax else jax.jit(kernel.of_jax)
    arrays = [jnp.asarray(one) for one in kernel.arrays]
    found.insert(1, lambda: jax.block_until_ready(compiled(*arrays)))
    for call in found:
        call()
    return found


def measure(rounds: int, only: str) -> Iterator[tuple[str, list[float]]]:
    """Give the name of each kernel, and the median seconds of TensorFlow, jax and tideflow."""
    import tensorflow  # noqa: PLC0415 - the other half of the comparison

    import tideflow  # noqa: PLC0415 - once the settings are made

    for kernel in _kernels():
        if only not in kernel.name:
            continue
        calls = _calls(kernel, tensorflow, tideflow)
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(rounds):
            for call, found in zip(calls, times, strict=True):
                call()
                for _ in range(_CALLS - 1):
                    started = time.perf_counter()
                    call()
                    found.append(time.perf_counter() - started)
        yield kernel.name, [statistics.median(found) for found in times]


def main(arguments: Sequence[str]) -> None:
    """Print, and on request write, the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write it into {PAGE.name}")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each (default: 12)")
    parser.add_argument("--only", default="", help="those whose name holds this text")
    options = parser.parse_args(arguments)
    table = Table(*_HEADS)
    rows = []
    with using(process_settings().replace(jit="always")):
        for name, (base, bare, ours) in measure(options.rounds, options.only):
            ratios = [f"{ours / base:.2f}", f"{ours / bare:.2f}"]
            rows.append([name, show(base), show(bare), show(ours), *ratios])
            table.add_row(*rows[-1])
    Console().print(table)
    if options.write:
        command = " ".join(["python -m benchmarks.kernels", *arguments])
        text = f"{machine()}\n- command: `{command}`\n\n{markdown_table(_HEADS, rows)}"
        write_part(PAGE, "kernels", text)


if __name__ == "__main__":
    main(sys.argv[1:])
