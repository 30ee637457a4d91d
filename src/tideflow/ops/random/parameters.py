"""What ops over distributions with parameters share: shapes, places in the sequence, sources.

Source: tensorflow/core/kernels/{random_op,random_poisson_op,stateless_random_gamma_op}.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import shape_argument
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.algorithms import Source
from tideflow.ops.random.draws import Sequence
from tideflow.wire.errors import InvalidArgumentError

PER_ELEMENT = 256


def sizes_of(shape: Any) -> list[int]:
    sizes: list[int] = np.asarray(shape).tolist()
    if np.ndim(shape) != 1 or any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape must be a vector of sizes; found {sizes}")
    return sizes


def layout(samples: int, parameters: int) -> tuple[Any, Any]:
    """Return for each element of [samples, parameters] its place in the sequence, flat.

    All samples of one parameter follow each other there.
    """
    at: Any = np.arange(samples)[:, None] + samples * np.arange(parameters)
    which: Any = np.broadcast_to(np.arange(parameters), (samples, parameters))
    return at.reshape(-1), which.reshape(-1)


def stateful_sequence(ctx: KernelContext, seed: int, seed2: int) -> Sequence:
    found: Sequence = ctx.memo(
        lambda: Sequence(seed or _chance(seed, seed2), seed2), is_random=True
    )
    return found


def stateful_source(ctx: KernelContext, seed: int, seed2: int, count: int) -> Source:
    return Source(*stateful_sequence(ctx, seed, seed2).reserve(count * PER_ELEMENT))


def _chance(seed: int, seed2: int) -> int:
    """Return a seed of the system's for an op that has none."""
    return seed if seed or seed2 else int(np.random.default_rng().integers(1, 1 << 62))


def samples_each(shape: list[int], parameters: Any, what: str) -> int:
    """Return how many samples of each parameter make up a shape that ends in their shape."""
    rank = parameters.ndim
    if rank > len(shape) or tuple(shape[len(shape) - rank :]) != parameters.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape; found {shape} for {what} of shape "
            f"{list(parameters.shape)}"
        )
    return math.prod(shape[: len(shape) - rank])


def require_some(parameters: Any, what: str) -> None:
    if not parameters.size:
        raise InvalidArgumentError(f"Input {what} should have non-zero element count, got: 0")


def shape_and_second(c: ShapeContext) -> list[Dims]:
    wanted, other = c.value_as_shape(0), c.inputs[1]
    return [None if wanted is None or other is None else (*wanted, *other)]


def shape_from_first(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(0)]


def seeded_source(seed: Any) -> Source:
    if np.shape(seed) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {list(np.shape(seed))}")
    return Source(*random_philox.scramble_seed(np, seed))


def philox_source(key: Array, counter: Array, alg: Array) -> Source:
    """Return where the inputs of a sampler begin.  Raises: InvalidArgumentError."""
    if np.ndim(alg) or int(alg) not in (1, 3):
        raise InvalidArgumentError(f"algorithm {np.asarray(alg).tolist()} is not offered; 1 is")
    if np.shape(key) != (1,) or np.ndim(counter) != 1 or np.shape(counter)[0] < 2:
        raise InvalidArgumentError(
            f"Philox wants a key of shape [1] and a counter of shape [2]; found "
            f"{list(np.shape(key))} and {list(np.shape(counter))}"
        )
    return Source(np.asarray(key), np.asarray(counter)[:2])


def shape_tensor(shape: Any) -> Tensor:
    return convert_to_tensor(shape_argument(shape), name="shape")
