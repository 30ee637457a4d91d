"""Cosine transforms, by Fourier transforms of twice the length.

Source: tensorflow/python/ops/signal/dct_ops.py; Makhoul, "A fast cosine transform in one and two
dimensions" (1980).
"""

from __future__ import annotations

import math
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.signal.fourier import irfft, rfft

_INVERSES = {1: 1, 2: 3, 3: 2, 4: 4}


@export("signal.dct", "spectral.dct")
def dct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the discrete cosine transform over the last axis of a real tensor.

    Args:
      type: 1 to 4.
      n: how many elements to transform; the input is cut, or filled with zeros.
      axis: -1, no other is offered.
      norm: None, or "ortho" for an orthonormal transform (not for type 1).
    Raises: ValueError for arguments that make no sense; NotImplementedError for another axis.
    """
    _check(type, n, axis, norm)
    with get_default_graph().name_scope(name or "dct"):
        made: Tensor = _transform(_of_length(convert_to_tensor(input), n), type, norm)
        return made


@export("signal.idct", "spectral.idct")
def idct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the inverse of dct, but for a factor where norm is None (see dct)."""
    _check(type, n, axis, norm)
    return dct(input, _INVERSES[type], n, axis, norm, name or "idct")


def _check(kind: int, n: int | None, axis: int, norm: str | None) -> None:
    if kind not in _INVERSES:
        raise ValueError(f"type must be 1, 2, 3 or 4; found {kind!r}")
    if n is not None and n < 1:
        raise ValueError(f"n must be positive; found {n}")
    if axis != -1:
        raise NotImplementedError(f"axis must be -1; found {axis!r}")
    if norm not in (None, "ortho"):
        raise ValueError(f"norm must be None or 'ortho'; found {norm!r}")
    if kind == 1 and norm == "ortho":
        raise ValueError("type 1 has no orthonormal form")


def _of_length(x: Tensor, n: int | None) -> Tensor:
    if n is None:
        return x
    cut = x[..., :n]
    missing = n - apply_op("Shape", cut)[-1]
    pairs = [[0, 0]] * ((x.shape.rank or 1) - 1) + [[0, missing]]
    made: Tensor = apply_op("Pad", cut, pairs)
    return made


def _transform(x: Tensor, kind: int, norm: str | None) -> Any:
    size = apply_op("Shape", x)[-1]
    if kind == 1:
        if x.dims and x.dims[-1] is not None and x.dims[-1] < 2:
            raise ValueError("type 1 needs two elements at least")
        mirrored = apply_op("ReverseV2", x, [-1])[..., 1:-1]
        made: Tensor = apply_op("Real", rfft(apply_op("ConcatV2", [x, mirrored], -1)), Tout=x.dtype)
        return made
    if kind == 2:
        return _second(x, size, norm)
    if kind == 3:
        return _third(x, size, norm)
    odd = _second(x, size * 2, None)[..., 1::2]
    if norm == "ortho":
        odd = odd * apply_op("Rsqrt", apply_op("Cast", size * 2, DstT=x.dtype))
    return odd


def _turns(count: Any, size: Any, x: Any, sign: float) -> Any:
    """Return 2 exp(sign i pi k / (2 size)) for k below count."""
    places = apply_op("Cast", apply_op("Range", 0, count, 1), DstT=x.dtype)
    angle = places * (sign * math.pi / 2) / apply_op("Cast", size, DstT=x.dtype)
    out = "complex128" if x.dtype.size == 8 else "complex64"
    made = apply_op("Complex", apply_op("Cos", angle), apply_op("Sin", angle), Tout=out)
    return made * 2.0


def _with_first(share: Any, size: object, factor: float) -> Any:
    """Return `size` times share, the first time by a factor."""
    is_first = apply_op("Equal", apply_op("Range", 0, size, 1), 0)
    return apply_op("SelectV2", is_first, share * factor, share)


def _second(x: Any, size: Any, norm: str | None) -> Any:
    """Return type 2 of x filled with zeros to `size` elements."""
    spectrum = rfft(x, apply_op("Pack", [size * 2]))[..., :size]
    found = apply_op("Real", spectrum * _turns(size, size, x, -1.0), Tout=x.dtype)
    if norm == "ortho":
        share = apply_op("Rsqrt", apply_op("Cast", size * 2, DstT=x.dtype))
        found = found * _with_first(share, size, math.sqrt(0.5))
    return found


def _third(x: Tensor, size: Any, norm: str | None) -> Any:
    count = apply_op("Cast", size, DstT=x.dtype)
    if norm == "ortho":
        weighted = x * _with_first(apply_op("Sqrt", count * 0.5), size, math.sqrt(2))
    else:
        weighted = x * count
    turns = _turns(size, size, x, 1.0)
    spectrum = turns * apply_op(
        "Complex", weighted, apply_op("ZerosLike", weighted), Tout=turns.dtype
    )
    return irfft(spectrum, apply_op("Pack", [size * 2]))[..., :size]
