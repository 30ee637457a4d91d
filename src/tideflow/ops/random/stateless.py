"""Random values that follow from a seed alone: the same seed gives the same values, in TensorFlow
too.

Source: tensorflow/core/kernels/stateless_random_ops_v2.h, stateless_random_ops.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.tracing import Trace, is_known, refuse
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import shape_argument
from tideflow.ops.random import philox as random_philox
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_PHILOX = 1
_AUTO_SELECT = 3


def _key_counter_shape(c: ShapeContext) -> list[Dims]:
    if with_rank(c.inputs[0], 1, "seed")[0] not in (2, None):
        raise ValueError(f"seed must hold two numbers; its shape is {c.inputs[0]}")
    shapes: list[Dims] = [(1,), (2,), ()]
    return shapes[: len(c.node.output_types)]


@op(
    """
    StatelessRandomGetKeyCounter(seed: Tseed) -> key: uint64, counter: uint64
    Tseed: type in indices = int64
    """,
    shape=_key_counter_shape,
    compiles=Compiles.ALWAYS,
)
def get_key_counter_kernel(xp: ArrayNamespace, seed: Array) -> Any:
    """Return the Philox key and counter of a pair of seeds."""
    check_seed(seed)
    return random_philox.scramble_seed(xp, seed)


def check_seed(seed: Any) -> None:
    """Raise InvalidArgumentError for what is no pair of numbers."""
    if np.shape(seed) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2]; found {list(np.shape(seed))}")


@op(
    """
    StatelessRandomGetKeyCounterAlg(seed: Tseed) -> key: uint64, counter: uint64, alg: int32
    Tseed: type in indices = int64
    """,
    shape=_key_counter_shape,
    compiles=Compiles.ALWAYS,
)
def get_key_counter_alg_kernel(xp: ArrayNamespace, seed: Array) -> Any:
    """Return the Philox key and counter of a pair of seeds, and the number for Philox."""
    check_seed(seed)
    key, counter = random_philox.scramble_seed(xp, seed)
    return key, counter, np.array(_PHILOX, np.int32)


@op(
    "StatelessRandomGetAlg() -> alg: int32",
    shape=lambda c: [()],
    stateful=True,
)
def get_alg_kernel(ctx: KernelContext) -> Any:
    """Return the number for Philox."""
    return np.array(_PHILOX, np.int32)


def _shape_from_first(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(0)]


def _sizes(shape: Any, key: Array, counter: Array, alg: Array) -> tuple[list[int], int, Any]:
    """Check the inputs that all samplers share; return sizes, their product and the counter."""
    sizes = shape.tolist()
    if shape.ndim != 1 or any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape must be a vector of sizes; found {sizes}")
    if np.shape(key) != (1,) or np.ndim(counter) != 1 or np.shape(counter)[0] < 2:
        raise InvalidArgumentError(
            f"Philox wants a key of shape [1] and a counter of shape [2]; found "
            f"{list(np.shape(key))} and {list(np.shape(counter))}"
        )
    if isinstance(alg, (np.ndarray, np.generic)) and int(alg) not in (_PHILOX, _AUTO_SELECT):
        raise InvalidArgumentError(
            f"algorithm {int(alg)} is not offered; use {_PHILOX} (Philox) or {_AUTO_SELECT} (any)"
        )
    return sizes, int(np.prod(sizes, dtype=np.int64)), counter[:2]


def _know_algorithm(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have a sampler's algorithm be looked at while tracing; the kernel then serves."""
    if not is_known(inputs[3]):
        raise refuse("an algorithm that is computed")
    return NotImplemented


def _sample(
    xp: ArrayNamespace,
    inputs: tuple[Any, Any, Any, Any],
    dtype: DType,
    draw: random_philox.Distribution,
) -> Any:
    shape, key, counter, alg = inputs
    sizes, count, counter = _sizes(shape, key, counter, alg)
    return draw(xp, xp.asarray(key), xp.asarray(counter), count, dtype).reshape(sizes)


@op(
    """
    StatelessRandomUniformV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) \
-> output: dtype
    dtype: type in floats = float
    Tshape: type in indices = int32
    """,
    shape=_shape_from_first,
    static=("shape",),
    compiles=Compiles.ALWAYS,
    traced=_know_algorithm,
)
def uniform_v2_kernel(
    xp: ArrayNamespace, shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType
) -> Any:
    """Return floats in [0, 1)."""
    return _sample(xp, (shape, key, counter, alg), dtype, random_philox.uniform)


@op(
    """
    StatelessRandomNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) \
-> output: dtype
    dtype: type in floats = float
    Tshape: type in indices = int32
    """,
    shape=_shape_from_first,
    static=("shape",),
    compiles=Compiles.ALWAYS,
    traced=_know_algorithm,
)
def normal_v2_kernel(
    xp: ArrayNamespace, shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType
) -> Any:
    """Return values of the standard normal distribution."""
    return _sample(xp, (shape, key, counter, alg), dtype, random_philox.normal)


@op(
    """
    StatelessTruncatedNormalV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) \
-> output: dtype
    dtype: type in floats = float
    Tshape: type in indices = int32
    """,
    shape=_shape_from_first,
    static=("shape",),
)
def truncated_normal_v2_kernel(
    xp: ArrayNamespace, shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType
) -> Any:
    """Return values of the standard normal distribution that lie within (-2, 2)."""
    return _sample(xp, (shape, key, counter, alg), dtype, random_philox.truncated_normal)


@op(
    """
    StatelessRandomUniformFullIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32) \
-> output: dtype
    dtype: type in {int32, int64, uint32, uint64} = uint64
    Tshape: type in indices = int32
    """,
    shape=_shape_from_first,
    static=("shape",),
    compiles=Compiles.ALWAYS,
    traced=_know_algorithm,
)
def uniform_full_int_v2_kernel(
    xp: ArrayNamespace, shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType
) -> Any:
    """Return integers over the whole range of the type."""
    return _sample(xp, (shape, key, counter, alg), dtype, random_philox.full_integers)


@op(
    """
    StatelessRandomUniformIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32, \
minval: dtype, maxval: dtype) -> output: dtype
    dtype: type in {int32, int64, uint32, uint64}
    Tshape: type in indices = int32
    """,
    shape=_shape_from_first,
    static=("shape",),
)
def uniform_int_v2_kernel(
    xp: ArrayNamespace,
    shape: Array,
    key: Array,
    counter: Array,
    alg: Array,
    minval: Array,
    maxval: Array,
    *,
    dtype: DType,
) -> Any:
    """Return integers in [minval, maxval)."""
    if np.ndim(minval) or np.ndim(maxval):
        raise InvalidArgumentError("minval and maxval must be scalars")
    if xp is np and minval >= maxval:
        raise InvalidArgumentError(f"minval {minval} must be less than maxval {maxval}")

    def draw(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
        return random_philox.integers(xp, key, counter, count, dtype, minval, maxval)

    return _sample(xp, (shape, key, counter, alg), dtype, draw)


def seeded(xp: Any, shape: Array, seed: Any, dtype: DType, draw: random_philox.Distribution) -> Any:
    """Return what `draw` makes of a pair of seeds."""
    check_seed(seed)
    key, counter = random_philox.scramble_seed(xp, seed)
    return _sample(xp, (shape, key, counter, None), dtype, draw)


@op(
    """
    StatelessRandomUniform(shape: T, seed: Tseed) -> output: dtype
    dtype: type in floats = float
    T: type in indices = int32
    Tseed: type in indices = int64
    """,
    shape=_shape_from_first,
    static=("shape",),
)
def uniform_kernel(xp: ArrayNamespace, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Return floats in [0, 1)."""
    return seeded(xp, shape, seed, dtype, random_philox.uniform)


@op(
    """
    StatelessRandomNormal(shape: T, seed: Tseed) -> output: dtype
    dtype: type in floats = float
    T: type in indices = int32
    Tseed: type in indices = int64
    """,
    shape=_shape_from_first,
    static=("shape",),
)
def normal_kernel(xp: ArrayNamespace, shape: Array, seed: Array, *, dtype: DType) -> Any:
    """Return values of the standard normal distribution."""
    return seeded(xp, shape, seed, dtype, random_philox.normal)


not_differentiable(
    "StatelessRandomGetKeyCounter",
    "StatelessRandomGetKeyCounterAlg",
    "StatelessRandomGetAlg",
    "StatelessRandomUniformV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomUniformFullIntV2",
    "StatelessRandomUniformIntV2",
    "StatelessRandomUniform",
    "StatelessRandomNormal",
)

# ---- public functions

_ALGORITHMS = {"philox": _PHILOX, "auto_select": _AUTO_SELECT}


def _generator_inputs(shape: Any, seed: int | None, alg: str) -> list[Any]:
    """Return the inputs that all samplers share."""
    if alg not in _ALGORITHMS:
        raise ValueError(f"alg {alg!r} is none of {sorted(_ALGORITHMS)}")
    dims = convert_to_tensor(shape_argument(shape), name="shape")
    key, counter = apply_op("StatelessRandomGetKeyCounter", seed)
    return [dims, key, counter, np.array(_ALGORITHMS[alg], np.int32)]


@export("random.stateless_uniform", "random.stateless_random_uniform", "stateless_random_uniform")
def stateless_random_uniform(
    shape: TensorLike,
    seed: Any,
    minval: object = 0,
    maxval: object | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Return values spread evenly over [minval, maxval) that follow from the seed (two integers).

    For integers without minval and maxval (both None): over the whole range of the type.
    Raises: ValueError for integers of which only one bound is given.
    """
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "stateless_random_uniform") as scope:
        made: Tensor
        if wanted.is_integer:
            if (minval is None) != (maxval is None):
                raise ValueError("for integers give both minval and maxval, or None for both")
            inputs = _generator_inputs(shape, seed, alg)
            if minval is None:
                made = apply_op(
                    "StatelessRandomUniformFullIntV2", *inputs, dtype=wanted, name=scope
                )
                return made
            low, end = convert_to_tensor(minval, wanted), convert_to_tensor(maxval, wanted)
            made = apply_op("StatelessRandomUniformIntV2", *inputs, low, end, name=scope)
            return made
        low = convert_to_tensor(minval, wanted, "min")
        end = convert_to_tensor(1 if maxval is None else maxval, wanted, "max")
        inputs = _generator_inputs(shape, seed, alg)
        drawn = apply_op("StatelessRandomUniformV2", *inputs, dtype=wanted)
        scaled = apply_op("Mul", drawn, apply_op("Sub", end, low))
        made = apply_op("AddV2", scaled, low, name=scope)
        return made


def _stateless_normal(
    op_name: str, default: str, args: tuple[Any, Any, Any, Any, Any], name: str | None, alg: str
) -> Tensor:
    shape, seed, mean, stddev, dtype = args
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or default) as scope:
        inputs = _generator_inputs(shape, seed, alg)
        drawn = apply_op(op_name, *inputs, dtype=wanted)
        scaled = apply_op("Mul", drawn, convert_to_tensor(stddev, wanted, "stddev"))
        made: Tensor = apply_op(
            "AddV2", scaled, convert_to_tensor(mean, wanted, "mean"), name=scope
        )
        return made


@export("random.stateless_normal", "random.stateless_random_normal", "stateless_random_normal")
def stateless_random_normal(
    shape: ShapeLike,
    seed: int,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Return normally distributed values that follow from the seed (two integers)."""
    return _stateless_normal(
        "StatelessRandomNormalV2",
        "stateless_random_normal",
        (shape, seed, mean, stddev, dtype),
        name,
        alg,
    )


@export("random.stateless_truncated_normal", "stateless_truncated_normal")
def stateless_truncated_normal(
    shape: ShapeLike,
    seed: int,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: str = "auto_select",
) -> Tensor:
    """Return normally distributed values within two standard deviations of the mean."""
    return _stateless_normal(
        "StatelessTruncatedNormalV2",
        "stateless_truncated_normal",
        (shape, seed, mean, stddev, dtype),
        name,
        alg,
    )


@export("random.split", "random.experimental.stateless_split")
def stateless_split(seed: int, num: TensorLike = 2, alg: str = "auto_select") -> Tensor:
    """Return seeds [num, 2] that follow from a seed (two integers), of its type."""
    given = convert_to_tensor(seed)
    sizes = apply_op("Pack", [num, 2])
    return stateless_random_uniform(
        sizes, given, minval=None, maxval=None, dtype=given.dtype, alg=alg
    )


@export("random.fold_in", "random.experimental.stateless_fold_in")
def stateless_fold_in(seed: int, data: TensorLike, alg: str = "auto_select") -> Tensor:
    """Return a seed (two integers) that follows from another and an integer."""
    number = convert_to_tensor(data)
    first = stateless_random_uniform(
        [1], seed, minval=None, maxval=None, dtype=number.dtype, alg=alg
    )
    made: Tensor = apply_op("Pack", [apply_op("Reshape", first, []), number])
    return made
