"""Initializers: what fills a new variable.

An initializer is called with a shape and gives a tensor.  Those with random numbers take their
seeds by the rules of tideflow.ops.framework.seeds when they are called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.array_values import to_array
from tideflow.graph.building import apply_op, constant_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import as_dims
from tideflow.graph.types import Array, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_value
from tideflow.ops.framework import get_seed
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

# The standard deviation of a normal cut off at two deviations; dividing by it restores the width.
_TRUNCATED_WIDTH = 0.87962566103423978
# Up to this size a constant is a Const; above it a Fill, which is small in a GraphDef.
_CONST_ELEMENTS = 1000


class Initializer:
    """What every initializer does."""

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        """Return a tensor of that shape.

        Args:
          shape: sizes, all known.
          dtype: element type; the initializer's own when None.
          partition_info: the whole variable's shape and the part's place in it, or None.
        """
        raise TypeError(f"{type(self).__name__} cannot be called; a subclass says how")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments from which `from_config` makes an equal initializer."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """Return an initializer made with arguments from get_config."""
        return cls(**config)


def _sizes(shape: ShapeLike) -> list[int]:
    dims = as_dims(shape)
    if dims is None or None in dims:
        raise ValueError(f"an initializer needs a fully known shape; found {shape}")
    return [size for size in dims if size is not None]


def _whole_shape(shape: ShapeLike, partition_info: Any) -> list[int]:
    return _sizes(shape if partition_info is None else partition_info.full_shape)


def _filled(sizes: list[int], value: TensorLike, dtype: DType) -> Tensor:
    if math.prod(sizes) <= _CONST_ELEMENTS:
        array = np.full(sizes, to_array(value, dtype)[()], dtype.as_numpy_dtype)
        return constant_tensor(array, dtype)
    made: Tensor = apply_op("Fill", sizes, constant_tensor(value, dtype))
    return made


class Zeros(Initializer):
    """Zeros, or empty strings, or False."""

    def __init__(self, dtype: DTypeLike = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        found = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        zero: Any = b"" if found is dtypes.string else False if found.is_bool else 0
        return _filled(_sizes(shape), zero, found)

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Ones(Initializer):
    """Ones, or True."""

    def __init__(self, dtype: DTypeLike = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        found = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        return _filled(_sizes(shape), True if found.is_bool else 1, found)

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Constant(Initializer):
    """One value everywhere, or the elements of a list in row-major order.

    A list that is too short repeats its last element; verify_shape demands the exact shape.
    Raises: TypeError or ValueError, when called, for a value that does not fit.
    """

    def __init__(
        self, value: TensorLike = 0, dtype: Any = dtypes.float32, verify_shape: bool = False
    ) -> None:
        self.value = value
        self.dtype = as_dtype(dtype)
        self.verify_shape = verify_shape

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: object | None = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        found = self._own_type() if dtype is None else as_dtype(dtype).base_dtype
        array = to_array(self.value, found)
        sizes = _sizes(shape)
        if (self.verify_shape if verify_shape is None else verify_shape) and (
            list(array.shape) != sizes
        ):
            raise TypeError(f"the value has shape {list(array.shape)}; {sizes} is wanted")
        if array.size == 1:
            return _filled(sizes, array.reshape(())[()], found)
        return constant_tensor(_stretched(array, sizes), found)

    def _own_type(self) -> DType:
        """The element type where the caller says none."""
        return self.dtype

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value, "dtype": self.dtype.name}


def _stretched(array: Array, sizes: list[int]) -> Any:
    count = math.prod(sizes)
    if not array.size or array.size > count:
        raise ValueError(f"{array.size} elements cannot fill shape {sizes}")
    flat = array.reshape(-1)
    return np.concatenate([flat, np.full(count - flat.size, flat[-1], flat.dtype)]).reshape(sizes)


class _Random(Initializer):
    """What initializers with random numbers share."""

    _names: tuple[str, ...] = ()

    def __init__(self, seed: int | None, dtype: DTypeLike) -> None:
        self.seed = seed
        self.dtype = as_dtype(dtype)

    def _type(self, dtype: Any) -> DType:
        """Return the element type to use.  Raises: ValueError for one that is no float."""
        found = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        if not found.is_floating:
            raise ValueError(f"random initializers give floats, not {found.name}")
        return found

    def _draw(self, op_name: str, sizes: list[int], dtype: DType) -> Tensor:
        seed, seed2 = get_seed(self.seed)
        made: Tensor = apply_op(op_name, sizes, dtype=dtype, seed=seed or 0, seed2=seed2 or 0)
        return made

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self._names}
        return {**own, "seed": self.seed, "dtype": self.dtype.name}


def _scaled(x: Tensor, factor: float, shift: float = 0.0) -> Tensor:
    found: Tensor = x if factor == 1 else apply_op("Mul", x, factor)
    return found if shift == 0 else apply_op("AddV2", found, shift)


class RandomUniform(_Random):
    """Numbers from [minval, maxval); integers are allowed too."""

    _names = ("minval", "maxval")

    def __init__(
        self,
        minval: Any = -0.05,
        maxval: Any = 0.05,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        super().__init__(seed, dtype)
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape: ShapeLike, dtype: Any = None, partition_info: Any = None) -> Tensor:
        found = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        sizes = _sizes(shape)
        if found.is_integer:
            seed, seed2 = get_seed(self.seed)
            bounds = [constant_tensor(int(v), found) for v in (self.minval, self.maxval)]
            made: Tensor = apply_op(
                "RandomUniformInt", sizes, *bounds, seed=seed or 0, seed2=seed2 or 0
            )
            return made
        low, high = float(self.minval), float(self.maxval)
        return _scaled(self._draw("RandomUniform", sizes, found), high - low, low)


class RandomNormal(_Random):
    """Numbers from a normal distribution."""

    _names = ("mean", "stddev")
    _op = "RandomStandardNormal"

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 0.05,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(seed, dtype)
        self.mean, self.stddev = mean, stddev

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        drawn = self._draw(self._op, _sizes(shape), self._type(dtype))
        return _scaled(drawn, self.stddev, self.mean)


class TruncatedNormal(RandomNormal):
    """Numbers from a normal distribution, none further than two deviations from its mean."""

    _op = "TruncatedNormal"


@export("random_uniform_initializer", "initializers.random_uniform")
class RandomUniformV1(RandomUniform):
    """Numbers from [minval, maxval), by default [0, 1) for floats."""

    def __init__(
        self,
        minval: TensorLike = 0.0,
        maxval: TensorLike | None = None,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if maxval is None:
            if as_dtype(dtype).is_integer:
                raise ValueError("random integers need maxval")
            maxval = 1.0
        super().__init__(minval, maxval, seed, dtype)


@export("random_normal_initializer", "initializers.random_normal")
class RandomNormalV1(RandomNormal):
    """Numbers from a normal distribution, by default of deviation 1."""

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 1.0,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


@export("truncated_normal_initializer", "initializers.truncated_normal")
class TruncatedNormalV1(TruncatedNormal):
    """Numbers from a truncated normal distribution, by default of deviation 1."""

    def __init__(
        self,
        mean: float = 0.0,
        stddev: float = 1.0,
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


@export("variance_scaling_initializer", "initializers.variance_scaling")
class VarianceScaling(_Random):
    """Numbers whose variance is scale / n.

    Args:
      mode: n is "fan_in" (inputs of a unit), "fan_out" (outputs) or "fan_avg" (their mean).
      distribution: "truncated_normal" (or "normal"), "untruncated_normal" or "uniform".
    Raises: ValueError for a scale that is not positive, or another mode or distribution.
    """

    _names: tuple[str, ...] = ("scale", "mode", "distribution")

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: DTypeLike = dtypes.float32,
    ) -> None:
        super().__init__(seed, dtype)
        if scale <= 0:
            raise ValueError(f"scale must be positive; found {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"mode must be 'fan_in', 'fan_out' or 'fan_avg'; found {mode!r}")
        kind = distribution.lower()
        if kind not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(
                "distribution must be 'truncated_normal', 'untruncated_normal' or 'uniform'; "
                f"found {distribution!r}"
            )
        self.scale, self.mode, self.distribution = scale, mode, kind

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        found = self._type(dtype)
        fan_in, fan_out = self._fans(_whole_shape(shape, partition_info))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        sizes = _sizes(shape)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return _scaled(self._draw("RandomUniform", sizes, found), 2 * limit, -limit)
        deviation = math.sqrt(variance)
        if self.distribution == "untruncated_normal":
            return _scaled(self._draw("RandomStandardNormal", sizes, found), deviation)
        return _scaled(self._draw("TruncatedNormal", sizes, found), deviation / _TRUNCATED_WIDTH)

    def _fans(self, sizes: list[int]) -> tuple[float, float]:
        """Return how many inputs and outputs a unit has."""
        return _fans(sizes)


def _fans(sizes: list[int]) -> tuple[float, float]:
    """Return how many inputs and outputs a unit has, for weights of the shape given.

    The last two sizes are channels in and out; those before are the field that a unit sees.
    """
    if not sizes:
        return 1.0, 1.0
    if len(sizes) == 1:
        return sizes[0], sizes[0]
    field = math.prod(sizes[:-2])
    return sizes[-2] * field, sizes[-1] * field


def _scaling(
    scale: float, mode: str, distribution: str, paper: str
) -> Callable[[str], type[VarianceScaling]]:
    """Return a maker of classes for one published setting of VarianceScaling."""

    def make(name: str) -> type[VarianceScaling]:
        def init(
            self: VarianceScaling, seed: int | None = None, dtype: DType = dtypes.float32
        ) -> None:
            VarianceScaling.__init__(self, scale, mode, distribution, seed, dtype)

        def get_config(self: VarianceScaling) -> dict[str, Any]:
            return {"seed": self.seed, "dtype": self.dtype.name}

        body = {"__init__": init, "get_config": get_config, "__module__": __name__}
        body["__doc__"] = f"VarianceScaling({scale}, {mode!r}, {distribution!r}): {paper}."
        return type(name, (VarianceScaling,), body)

    return make


GlorotUniform = _scaling(1.0, "fan_avg", "uniform", "Glorot and Bengio 2010")("GlorotUniform")
GlorotNormal = _scaling(1.0, "fan_avg", "truncated_normal", "Glorot and Bengio 2010")(
    "GlorotNormal"
)
HeUniform = _scaling(2.0, "fan_in", "uniform", "He et al. 2015")("HeUniform")
HeNormal = _scaling(2.0, "fan_in", "truncated_normal", "He et al. 2015")("HeNormal")
LecunUniform = _scaling(1.0, "fan_in", "uniform", "LeCun et al. 1998")("LecunUniform")
LecunNormal = _scaling(1.0, "fan_in", "truncated_normal", "LeCun et al. 1998")("LecunNormal")


class Identity(Initializer):
    """The identity matrix times gain.  Raises: ValueError, when called, for another rank."""

    def __init__(self, gain: float = 1.0, dtype: DTypeLike = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: ShapeLike, dtype: Any = None, partition_info: Any = None) -> Tensor:
        found = self.dtype if dtype is None else as_dtype(dtype).base_dtype
        whole = _whole_shape(shape, partition_info)
        if len(whole) != 2:
            raise ValueError(f"the identity initializer makes matrices; the shape is {whole}")
        sizes = _sizes(shape)
        offsets = (0, 0) if partition_info is None else partition_info.var_offset
        rows = np.arange(sizes[0])[:, None] + offsets[0]
        columns = np.arange(sizes[1]) + offsets[1]
        matrix = (rows == columns) * self.gain
        return constant_tensor(matrix.astype(found.as_numpy_dtype), found)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "dtype": self.dtype.name}


@export("uniform_unit_scaling_initializer", "initializers.uniform_unit_scaling")
class UniformUnitScaling(_Random):
    """Uniform numbers that keep the size of what flows through: +-factor * sqrt(3 / inputs)."""

    _names: tuple[str, ...] = ("factor",)

    def __init__(
        self, factor: float = 1.0, seed: int | None = None, dtype: DTypeLike = dtypes.float32
    ) -> None:
        super().__init__(seed, dtype)
        self.factor = factor

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        inputs = max(1.0, float(math.prod(_whole_shape(shape, partition_info)[:-1])))
        limit = math.sqrt(3 / inputs) * self.factor
        drawn = self._draw("RandomUniform", _sizes(shape), self._type(dtype))
        return _scaled(drawn, 2 * limit, -limit)


@export("orthogonal_initializer", "initializers.orthogonal")
class Orthogonal(_Random):
    """A matrix with orthogonal rows or columns, times gain; further sizes come before the last.

    Raises: ValueError, when called, for less than two sizes.
    """

    _names: tuple[str, ...] = ("gain",)

    def __init__(
        self, gain: float = 1.0, seed: int | None = None, dtype: DTypeLike = dtypes.float32
    ) -> None:
        super().__init__(seed, dtype)
        self.gain = gain

    def __call__(
        self, shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object | None = None
    ) -> Tensor:
        sizes = [int(size) for size in _whole_shape(shape, partition_info)]
        if len(sizes) < 2:
            raise ValueError(f"an orthogonal matrix has two sizes at least; the shape is {sizes}")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        flat = [max(rows, columns), min(rows, columns)]
        q, r = apply_op("Qr", self._draw("RandomStandardNormal", flat, self._type(dtype)))
        q = apply_op("Mul", q, apply_op("Sign", apply_op("DiagPart", r)))
        if rows < columns:
            q = apply_op("Transpose", q, [1, 0])
        return _scaled(apply_op("Reshape", q, sizes), self.gain)


for _names, _thing in (
    (("zeros_initializer", "initializers.zeros"), Zeros),
    (("ones_initializer", "initializers.ones"), Ones),
    (("constant_initializer", "initializers.constant"), Constant),
    (("initializers.identity",), Identity),
    (("glorot_uniform_initializer", "initializers.glorot_uniform"), GlorotUniform),
    (("glorot_normal_initializer", "initializers.glorot_normal"), GlorotNormal),
    (("initializers.he_uniform",), HeUniform),
    (("initializers.he_normal",), HeNormal),
    (("initializers.lecun_uniform",), LecunUniform),
    (("initializers.lecun_normal",), LecunNormal),
):
    for _name in _names:
        export_value(_name, _thing)
