"""Windows: weights over a frame that go to nothing towards its ends.

Source: tensorflow/python/ops/signal/window_ops.py.
"""

from __future__ import annotations

import math
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.math import cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


def _length(window_length: TensorLike, dtype: DTypeLike) -> tuple[Any, Any]:
    """Return a length as int32, and 0 .. length - 1 in the type.  Raises: ValueError."""
    wanted = as_dtype(dtype)
    if not wanted.is_floating:
        raise ValueError(f"a window's type must be floating; found {wanted.name}")
    length = convert_to_tensor(window_length, dtypes.int32)
    if length.shape.rank not in (None, 0):
        raise ValueError(f"window_length must be a scalar; its shape is {length.shape}")
    return length, apply_op("Cast", apply_op("Range", 0, length, 1), DstT=wanted)


@export("signal.hann_window")
def hann_window(
    window_length: TensorLike,
    periodic: bool = True,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Hann window [window_length]; a periodic one for use with transforms."""
    return _raised_cosine(window_length, periodic, dtype, name or "hann_window", 0.5, 0.5)


@export("signal.hamming_window")
def hamming_window(
    window_length: TensorLike,
    periodic: bool = True,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Hamming window [window_length]; a periodic one for use with transforms."""
    return _raised_cosine(window_length, periodic, dtype, name or "hamming_window", 0.54, 0.46)


def _raised_cosine(
    window_length: TensorLike,
    periodic: bool,
    dtype: DTypeLike,
    name: str,
    mean: float,
    swing: float,
) -> Tensor:
    with get_default_graph().name_scope(name):
        length, places = _length(window_length, dtype)
        # An odd window is the same either way; one of a single element is 1.
        is_longer = apply_op("Cast", convert_to_tensor(periodic), DstT="int32") * (
            1 - apply_op("FloorMod", length, 2)
        )
        period = apply_op("Maximum", length + is_longer - 1, 1)
        angle = places * (2 * math.pi) / apply_op("Cast", period, DstT=places.dtype)
        wave = mean - swing * apply_op("Cos", angle)
        made: Tensor = _ones_if_alone(length, wave)
        return made


def _ones_if_alone(length: Tensor, window: Tensor) -> Any:
    return apply_op("SelectV2", apply_op("Equal", length, 1), apply_op("OnesLike", window), window)


@export("signal.kaiser_window")
def kaiser_window(
    window_length: TensorLike,
    beta: TensorLike = 12.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Kaiser window [window_length], the narrower the greater beta is."""
    with get_default_graph().name_scope(name or "kaiser_window"):
        length, places = _length(window_length, dtype)
        width = apply_op("Cast", apply_op("Maximum", length - 1, 1), DstT=places.dtype)
        shape = cast(beta, places.dtype)
        inside = apply_op("Relu", 1 - apply_op("Square", places * 2 / width - 1))
        found = apply_op("BesselI0e", shape * apply_op("Sqrt", inside))
        # I0(a) / I0(b) by values that do not overflow.
        scale = apply_op("Exp", shape * (apply_op("Sqrt", inside) - 1))
        made: Tensor = _ones_if_alone(length, found / apply_op("BesselI0e", shape) * scale)
        return made


@export("signal.kaiser_bessel_derived_window")
def kaiser_bessel_derived_window(
    window_length: TensorLike,
    beta: TensorLike = 12.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Kaiser-Bessel derived window [window_length], whose length is even."""
    with get_default_graph().name_scope(name or "kaiser_bessel_derived_window"):
        length, _ = _length(window_length, dtype)
        half = apply_op("FloorDiv", length, 2)
        sums = apply_op("Cumsum", kaiser_window(half + 1, beta, dtype), 0)
        last = apply_op("GatherV2", sums, half, 0)
        rising = apply_op("Sqrt", sums[:-1] / last)
        made: Tensor = apply_op("ConcatV2", [rising, apply_op("ReverseV2", rising, [0])], 0)
        return made


@export("signal.vorbis_window")
def vorbis_window(
    window_length: TensorLike, dtype: DTypeLike = dtypes.float32, name: str | None = None
) -> Tensor:
    """Return a Vorbis power complementary window [window_length]."""
    with get_default_graph().name_scope(name or "vorbis_window"):
        length, places = _length(window_length, dtype)
        size = apply_op("Cast", length, DstT=places.dtype)
        inner = apply_op("Sin", (places + 0.5) * math.pi / size)
        made: Tensor = apply_op("Sin", apply_op("Square", inner) * (math.pi / 2))
        return made
