"""Initializers in the TF2 shape: the type comes with the call, not with the initializer.

`tf.initializers` in TensorFlow is Keras's; what it draws without a seed is anybody's guess, so only
shapes, types and distributions are the same.

Source: tensorflow/python/ops/init_ops_v2.py for names and defaults.
"""

from __future__ import annotations

import math
from typing import Any

from tideflow.graph.array_values import to_array
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export_v2, export_value_v2
from tideflow.ops.state.initializers import (
    Constant,
    Identity,
    Ones,
    RandomNormal,
    RandomUniform,
    TruncatedNormal,
    VarianceScaling,
    Zeros,
)
from tideflow.wire.dtypes import DType, as_dtype


@export_v2("zeros_initializer", "initializers.zeros")
class ZerosV2(Zeros):
    """Zeros, or empty strings, or False."""

    def __init__(self) -> None:
        super().__init__()

    def get_config(self) -> dict[str, Any]:
        return {}


@export_v2("ones_initializer", "initializers.ones")
class OnesV2(Ones):
    """Ones, or True."""

    def __init__(self) -> None:
        super().__init__()

    def get_config(self) -> dict[str, Any]:
        return {}


@export_v2("constant_initializer")
class ConstantV2(Constant):
    """One value everywhere, or the elements of a list in row-major order.

    support_partition: accepted for programs that give it; parts are made as wholes are.
    Raises: TypeError or ValueError, when called, for a value that does not fit.
    """

    def __init__(self, value: TensorLike = 0, support_partition: bool = False) -> None:
        super().__init__(value)
        self.support_partition = support_partition

    def _own_type(self) -> DType:
        return as_dtype(to_array(self.value).dtype)

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


@export_v2("initializers.constant")
class ConstantOfKeras(ConstantV2):
    """One value everywhere, or the elements of a list in row-major order."""

    def __init__(self, value: TensorLike = 0.0) -> None:
        super().__init__(value)

    def _own_type(self) -> DType:
        return self.dtype


@export_v2("initializers.identity")
class IdentityV2(Identity):
    """The identity matrix times gain.  Raises: ValueError, when called, for another rank."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__(gain)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain}


class _Untyped:
    """What the configuration of an initializer without a type of its own leaves out."""

    def get_config(self) -> dict[str, Any]:
        found: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return {name: value for name, value in found.items() if name != "dtype"}


@export_v2("random_uniform_initializer", "initializers.random_uniform")
class RandomUniformV2(_Untyped, RandomUniform):
    """Numbers from [minval, maxval), by default [-0.05, 0.05)."""

    def __init__(
        self, minval: TensorLike = -0.05, maxval: TensorLike = 0.05, seed: int | None = None
    ) -> None:
        super().__init__(minval, maxval, seed)


@export_v2("random_normal_initializer", "initializers.random_normal")
class RandomNormalV2(_Untyped, RandomNormal):
    """Numbers from a normal distribution, by default of deviation 0.05."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(mean, stddev, seed)


@export_v2("initializers.truncated_normal")
class TruncatedNormalV2(_Untyped, TruncatedNormal):
    """Numbers from a truncated normal distribution, by default of deviation 0.05."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(mean, stddev, seed)


@export_v2("initializers.variance_scaling")
class VarianceScalingV2(_Untyped, VarianceScaling):
    """Numbers whose variance is scale / n (see VarianceScaling).

    Args:
      input_axes, output_axes: whose sizes are the inputs and outputs of a unit; by default the last
        two axes, times the sizes of those before.
    """

    _names = ("scale", "mode", "distribution", "input_axes", "output_axes")

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        input_axes: Any = None,
        output_axes: Any = None,
    ) -> None:
        super().__init__(scale, mode, distribution, seed)
        self.input_axes, self.output_axes = input_axes, output_axes

    def _fans(self, sizes: list[int]) -> tuple[float, float]:
        if self.input_axes is None or self.output_axes is None:
            return super()._fans(sizes)
        fan_in, fan_out = (
            math.prod(sizes[axis] for axis in axes) for axes in (self.input_axes, self.output_axes)
        )
        return fan_in, fan_out


def _export_setting(name: str, scale: float, mode: str, distribution: str) -> None:
    """Give a public name to one published setting of VarianceScalingV2."""

    def init(
        self: VarianceScalingV2,
        seed: int | None = None,
        input_axes: Any = None,
        output_axes: Any = None,
    ) -> None:
        VarianceScalingV2.__init__(self, scale, mode, distribution, seed, input_axes, output_axes)

    def get_config(self: VarianceScalingV2) -> dict[str, Any]:
        axes = {"input_axes": self.input_axes, "output_axes": self.output_axes}
        return {"seed": self.seed, **axes}

    body = {"__init__": init, "get_config": get_config, "__module__": __name__}
    body["__doc__"] = f"VarianceScaling({scale}, {mode!r}, {distribution!r})."
    title = "".join(part.title() for part in name.split("_"))
    export_value_v2(f"initializers.{name}", type(title, (VarianceScalingV2,), body))


for _paper, _scale, _mode in (
    ("glorot", 1.0, "fan_avg"),  # Glorot and Bengio 2010
    ("he", 2.0, "fan_in"),  # He et al. 2015
    ("lecun", 1.0, "fan_in"),  # LeCun et al. 1998
):
    _export_setting(f"{_paper}_uniform", _scale, _mode, "uniform")
    _export_setting(f"{_paper}_normal", _scale, _mode, "truncated_normal")
