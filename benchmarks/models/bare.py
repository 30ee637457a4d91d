"""The models as one function that bare `jax.jit` compiles: the floor of a step that XLA computes.

`Api` gives networks what they use of TensorFlow, by jax.  Where jax has several ways, it is the one
that is fastest on CPUs: windows of pools that tile the input are reshaped, and loops are scans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.models.networks import Batch, Network
from benchmarks.models.training import BETA1, BETA2, EPSILON, TrainStep

State = Any


def _conv2d(x: Any, filters: Any, strides: Sequence[int], padding: str) -> Any:
    how = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, filters, tuple(strides[1:3]), padding, dimension_numbers=how
    )


def _max_pool2d(x: Any, ksize: int, strides: int, padding: str) -> Any:
    if ksize != strides or x.shape[1] % ksize or x.shape[2] % ksize:
        raise ValueError(f"windows of {ksize} every {strides} do not tile {x.shape}")
    count, height, width, channels = x.shape
    tiles = x.reshape(count, height // ksize, ksize, width // ksize, ksize, channels)
    return tiles.max((2, 4))


def _cross_entropy(labels: Any, logits: Any) -> Any:
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
    return -chosen[..., 0]


def _moments(x: Any, axes: Sequence[int]) -> tuple[Any, Any]:
    return x.mean(tuple(axes)), x.var(tuple(axes))


def _normalised(x: Any, mean: Any, variance: Any, shift: Any, scale: Any, epsilon: float) -> Any:
    by = jax.lax.rsqrt(variance + epsilon) * scale
    return x * by + (shift - mean * by)


def _while_loop(cond: Callable[..., Any], body: Callable[..., Any], start: Sequence[Any]) -> Any:
    """Run a loop whose first variable counts its turns from 0, and alone decides when it ends."""
    others = [None] * (len(start) - 1)
    turns = next(n for n in itertools.count() if not cond(n, *others))

    def turn(carried: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], None]:
        return tuple(body(*carried)), None

    return jax.lax.scan(turn, tuple(map(jnp.asarray, start)), None, turns)[0]


def _matmul(a: Any, b: Any, transpose_b: bool = False) -> Any:
    return a @ (b.swapaxes(-1, -2) if transpose_b else b)


def _over(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        axes = tuple(axis) if isinstance(axis, list) else axis
        return reduce(x, axis=axes, keepdims=keepdims)

    return reduced


API = SimpleNamespace(
    nn=SimpleNamespace(
        conv2d=_conv2d, max_pool2d=_max_pool2d, relu=jax.nn.relu, softmax=jax.nn.softmax,
        sparse_softmax_cross_entropy_with_logits=_cross_entropy, moments=_moments,
        batch_normalization=_normalised,
    ),
    math=SimpleNamespace(rsqrt=jax.lax.rsqrt),
    constant=jnp.asarray, convert_to_tensor=jnp.asarray, zeros=jnp.zeros, reshape=jnp.reshape,
    transpose=jnp.transpose, matmul=_matmul, unstack=list, while_loop=_while_loop,
    gather=lambda x, at: x[at], concat=jnp.concatenate, split=jnp.split, square=jnp.square,
    sigmoid=jax.nn.sigmoid, tanh=jnp.tanh, reduce_mean=_over(jnp.mean), reduce_sum=_over(jnp.sum),
)  # fmt: skip


def train_step(network: Network) -> TrainStep:
    """Return the training step of a network, whose state is donated."""
    update = {"adam": _adam, "sgd": _sgd, "": _nothing}[network.optimizer]

    def loss_of(weights: dict[str, Any], batch: dict[str, Any]) -> Any:
        return network.loss(API, weights, batch)

    def train(state: State, batch: dict[str, Any]) -> tuple[State, Any]:
        loss, slopes = jax.value_and_grad(loss_of)(state[0], batch)
        return update(network.rate, state, slopes), loss

    compiled = jax.jit(train, donate_argnums=0)
    weights = {name: jnp.array(value) for name, value in network.weights.items()}
    state: State = (weights,)
    if network.optimizer == "adam":
        state = (*state, *(jax.tree.map(jnp.zeros_like, weights) for _ in range(2)), jnp.float32(0))

    def step(batch: Batch) -> float:
        nonlocal state
        state, loss = compiled(state, batch)
        return float(np.asarray(loss))

    return step


def _adam(rate: float, state: State, slopes: Any) -> State:
    weights, first, second, count = state
    count = count + 1
    rate = rate * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, slopes)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, slopes)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, first, second
    )
    return weights, first, second, count


def _sgd(rate: float, state: State, slopes: Any) -> State:
    return (jax.tree.map(lambda w, g: w - rate * g, state[0], slopes),)


def _nothing(rate: float, state: State, slopes: Any) -> State:
    return state
