"""A small transformer's train step: a session of tideflow's beside bare `jax.jit`.

Both start from the same weights and see the same tokens, and their losses are compared before any
time is.  The model goes where `--device` says, in both: `--device gpu` means the first GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.processes import Cluster
from benchmarks.report import show
from benchmarks.transformer_model import (
    NORM_EPSILON,
    Sizes,
    initial_weights,
    loss_of_session,
    mask_of,
    tokens_of,
)
from tideflow.platform.settings import process_settings
from tideflow.runtime.accelerator import find_accelerators
from tideflow.wire import messages as pb

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
# Losses of the two that differ by more than this do not do the same work.
_TOLERANCE = 1e-3


def loss_of_jax(weights: dict[str, jax.Array], tokens: jax.Array, sizes: Sizes) -> jax.Array:
    """Return the mean cross entropy."""

    def normed(x: jax.Array, name: str) -> jax.Array:
        x = x - x.mean(-1, keepdims=True)
        variance = (x * x).mean(-1, keepdims=True)
        scaled = x * jax.lax.rsqrt(variance + NORM_EPSILON) * weights[f"{name}_scale"]
        return scaled + weights[f"{name}_shift"]

    depth = sizes.width // sizes.heads
    x = weights["embedding"][tokens[:, :-1]] + weights["position"]
    for i in range(sizes.layers):
        qkv = normed(x, f"{i}_before") @ weights[f"{i}_qkv"]
        qkv = qkv.reshape(sizes.batch, sizes.length, 3, sizes.heads, depth)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) * depth**-0.5 + mask_of(sizes.length)
        mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3)
        x = x + mixed.reshape(sizes.batch, sizes.length, sizes.width) @ weights[f"{i}_join"]
        wide = jax.nn.relu(normed(x, f"{i}_middle") @ weights[f"{i}_widen"])
        x = x + wide @ weights[f"{i}_narrow"]
    logits = x @ weights["out"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
    return -chosen.mean()


# ---- the train steps: each returns the loss of one


def step_of_session(target: str, device: str, ps: bool, sizes: Sizes) -> Callable[[], float]:
    """Return a step of a session; with `ps` the weights and their moments are on /job:ps."""
    import tideflow.v1 as tf  # noqa: PLC0415  (the comparison must not pay for its import)

    variables = "/job:ps/task:0" if ps else device
    with tf.Graph().as_default():
        tokens = tf.placeholder(tf.int32, [sizes.batch, sizes.length + 1])
        with tf.device(variables):
            weights = {
                name: tf.get_variable(f"w{name}", initializer=value, use_resource=True)
                for name, value in initial_weights(sizes).items()
            }
        with tf.device(device):
            loss = loss_of_session(tf, weights, tokens, sizes)
            train = tf.train.AdamOptimizer(RATE, BETA1, BETA2, EPSILON).minimize(loss)
        session = tf.Session(target)
        session.run(tf.global_variables_initializer())
    feeds = {tokens: tokens_of(sizes)}
    return lambda: float(session.run([loss, train], feeds)[0])


def step_of_jax(sizes: Sizes, device: jax.Device | None = None) -> Callable[[], float]:
    """Return a step of one compiled function whose state is donated; without a device it runs on
    jax's own choice."""

    def train(state: tuple[Any, ...], tokens: jax.Array) -> tuple[tuple[Any, ...], jax.Array]:
        weights, first, second, count = state
        loss, slopes = jax.value_and_grad(lambda w: loss_of_jax(w, tokens, sizes))(weights)
        count = count + 1
        rate = RATE * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
        first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, slopes)
        second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, slopes)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, first, second
        )
        return (weights, first, second, count), loss

    compiled = jax.jit(train, donate_argnums=0)
    weights = {name: jnp.asarray(value) for name, value in initial_weights(sizes).items()}
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state: tuple[Any, ...] = (weights, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))
    if device is not None:
        state = jax.device_put(state, device)
    tokens = tokens_of(sizes)

    def step() -> float:
        nonlocal state
        state, loss = compiled(state, tokens)
        return float(loss)

    return step


def device_of_jax(device: str) -> jax.Device | None:
    """Return jax's device that a session calls /device:GPU:i; None for any other name."""
    _, is_gpu, index = device.rpartition("GPU:")
    found = find_accelerators(pb.ConfigProto(), process_settings()) if is_gpu else []
    return found[int(index)].device if is_gpu and int(index) < len(found) else None


def measure(steps: dict[str, Callable[[], float]], count: int) -> dict[str, float]:
    """Return the median seconds of each, taken in turns.

    Raises: ValueError when the losses differ: they do not do the same work.
    """
    losses = {name: [step() for _ in range(10)] for name, step in steps.items()}
    base = next(iter(losses.values()))
    for name, found in losses.items():
        if not np.allclose(found, base, rtol=_TOLERANCE):
            raise ValueError(f"{name} does other work: losses {found}, not {base}")
    for step in steps.values():
        for _ in range(30):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(count):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transformer", description=__doc__)
    for name, default, help_text in (
        ("layers", 2, "how many layers"),
        ("width", 128, "floats of a token"),
        ("heads", 4, "attention heads"),
        ("length", 64, "tokens of a sequence"),
        ("batch", 16, "sequences of a step"),
        ("vocabulary", 256, "how many tokens there are"),
        ("steps", 50, "timed steps of each"),
    ):
        text = f"{help_text} ({default})"
        parser.add_argument(f"--{name}", type=int, default=default, help=text)
    parser.add_argument("--device", default="", help="where the model goes: gpu, or /device:GPU:1")
    options = vars(parser.parse_args())
    count, device = options.pop("steps"), options.pop("device")
    if device.lower() == "gpu":
        device = "/device:GPU:0"
    jax_device = device_of_jax(device)
    if jax_device is None and "GPU" in device:
        parser.error("there is no such GPU here; docs/gpu.md says how one is found")
    sizes = Sizes(**options)
    console = Console()
    on = f"{jax_device or jax.devices()[0]} (jax) and {device or 'its own device'} (session)"
    console.print(f"the model is on {on}")
    cluster = Cluster("tideflow", (("ps", 1), ("worker", 1)))
    try:
        worker = f"/job:worker/task:0{device}"
        with console.status("compiling"):
            found = measure(
                {
                    "bare jax.jit": step_of_jax(sizes, jax_device),
                    "local session": step_of_session("", device, False, sizes),
                    "ps + worker": step_of_session(cluster.target(0), worker, True, sizes),
                },
                count,
            )
    finally:
        cluster.close()
    table = Table("step of a small transformer", "median", "overhead", title=str(sizes))
    base = found["bare jax.jit"]
    for name, seconds in found.items():
        table.add_row(name, show(seconds), f"{100 * (seconds / base - 1):+.1f} %")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
