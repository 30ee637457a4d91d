"""Fourier transforms over any axes, and convolutions of any number of dimensions of batches.

TensorFlow has no kernels for CPUs of the transforms and of the two gradients; here they are made of
other operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_static_value
from tideflow.wire import dtypes, errors

_COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


# ---- Fourier transforms


def _ints(values: Any, what: str) -> list[int]:
    known = get_static_value(convert_to_tensor(values, dtypes.int32))
    if known is None:
        raise ValueError(f"{what} must be known when the graph is built")
    return [int(value) for value in np.reshape(known, -1)]


def _plan(x: Tensor, fft_length: Any, axes: Any, half: int | None = None) -> list[tuple[int, int]]:
    """Return the axes, and the length of the transform along each.

    half: the last axis's length by default, where a spectrum of a half is given.
    """
    if x.dims is None or None in x.dims:
        raise ValueError(f"a transform over axes needs a known shape; found {x.shape}")
    count = len(x.dims)
    chosen = list(range(count)) if axes is None else [axis % count for axis in _ints(axes, "axes")]
    if fft_length is not None:
        lengths = _ints(fft_length, "fft_length")
    else:
        lengths = [x.dims[axis] or 0 for axis in chosen]
        if half is not None:
            lengths[-1] = half
    if len(lengths) != len(chosen):
        raise errors.InvalidArgumentError(
            f"axes and fft_length must have one size; found {chosen} and {lengths}"
        )
    return [*zip(chosen, lengths)]


def _resized(x: Any, axis: int, size: int) -> Any:
    """Return a tensor cut, or filled with zeros, at the end of an axis."""
    has = x.dims[axis]
    if size < has:
        return x[(*[slice(None)] * axis, slice(0, size))]
    before = [[0, 0]] * axis
    after = [[0, 0]] * (len(x.dims) - axis - 1)
    return apply_op("Pad", x, [*before, [0, size - has], *after]) if size > has else x


def _along(op_name: str, x: Any, axis: int, *rest: Any, **attrs: Any) -> Any:
    """Apply a transform of the last axis to another one."""
    order = list(range(len(x.dims)))
    order[axis], order[-1] = order[-1], order[axis]
    moved = apply_op("Transpose", x, order)
    return apply_op("Transpose", apply_op(op_name, moved, *rest, **attrs), order)


def _factor(plan: list[tuple[int, int]], norm: str | None) -> float:
    """Return what a forward transform is divided by."""
    size = math.prod(length for _, length in plan)
    factors = {None: 1.0, "backward": 1.0, "ortho": math.sqrt(size), "forward": float(size)}
    if norm not in factors:
        raise ValueError(f"norm must be one of {[*factors]}; found {norm!r}")
    return factors[norm]


def _scaled(x: Any, factor: float) -> Any:
    if factor == 1:
        return x
    return apply_op("Mul", x, convert_to_tensor(np.array(factor, x.dtype.as_numpy_dtype)))


def _complex(op_name: str, x: Any, plan: list[tuple[int, int]]) -> Any:
    for axis, length in plan:
        x = _along(op_name, _resized(x, axis, length), axis)
    return x


@export("signal.fftnd")
def fftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the Fourier transform of complex numbers over axes (None: all).

    Args:
      fft_length: a size for each axis, to which the input is cut or filled with zeros.
      norm: "backward" (the default) divides the inverse by the number of elements, "forward" the
        forward transform, "ortho" both by its root.
    Raises: ValueError for a shape that is not known.
    """
    with get_default_graph().name_scope(name or "fftnd"):
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
        plan = _plan(x, fft_length, axes)
        return _scaled(_complex("FFT", x, plan), 1 / _factor(plan, norm))


@export("signal.ifftnd")
def ifftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the inverse Fourier transform of complex numbers over axes (see fftnd)."""
    with get_default_graph().name_scope(name or "ifftnd"):
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
        plan = _plan(x, fft_length, axes)
        return _scaled(_complex("IFFT", x, plan), _factor(plan, norm))


@export("signal.rfftnd")
def rfftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the Fourier transform of floats over axes; of the last one the half that tells all.

    See fftnd.
    """
    with get_default_graph().name_scope(name or "rfftnd"):
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
        if x.dtype not in _COMPLEX:
            raise ValueError(f"RFFT requires tf.float32 or tf.float64 inputs, got: {x}")
        plan = _plan(x, fft_length, axes)
        *others, (last, length) = plan
        real = _resized(x, last, length)
        half = _along("RFFT", real, last, [length], Tcomplex=_COMPLEX[x.dtype])
        return _scaled(_complex("FFT", half, others), 1 / _factor(plan, norm))


@export("signal.irfftnd")
def irfftnd(
    input_tensor: TensorLike,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the floats of which rfftnd gives a half spectrum; the last length is even by default.

    See fftnd.
    """
    with get_default_graph().name_scope(name or "irfftnd"):
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
        if not x.dtype.is_complex:
            raise ValueError(f"IRFFT requires tf.complex64 or tf.complex128 inputs, got: {x}")
        last_axis = -1 if axes is None else _ints(axes, "axes")[-1]
        size = 0 if x.dims is None else x.dims[last_axis] or 0
        plan = _plan(x, fft_length, axes, half=max(0, 2 * (size - 1)))
        *others, (last, length) = plan
        half = _resized(_complex("IFFT", x, others), last, length // 2 + 1)
        found = _along("IRFFT", half, last, [length], Treal=x.dtype.real_dtype)
        return _scaled(found, _factor(plan, norm))


def _by_position(transform: Any, what: str) -> None:
    """Export a transform under its name in the root, with the arguments of its op."""

    def called(input: TensorLike, fft_length: Any, axes: Any, name: str | None = None) -> Any:
        return transform(input, fft_length, axes, name=name)

    called.__name__ = called.__qualname__ = what
    called.__doc__ = f"See tf.signal.{what}."
    export(what)(called)


for _transform in (fftnd, ifftnd):
    _by_position(_transform, _transform.__name__)


@export("rfftnd")
def rfftnd_of(
    input: TensorLike,
    fft_length: Any,
    axes: Any,
    Tcomplex: Any = dtypes.complex64,
    name: str | None = None,
) -> Any:
    """See tf.signal.rfftnd.  Tcomplex: the type of the result."""
    return apply_op("Cast", rfftnd(input, fft_length, axes, name=name), DstT=Tcomplex)


@export("irfftnd")
def irfftnd_of(
    input: TensorLike,
    fft_length: Any,
    axes: Any,
    Treal: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """See tf.signal.irfftnd.  Treal: the type of the result."""
    return apply_op("Cast", irfftnd(input, fft_length, axes, name=name), DstT=Treal)


# ---- convolutions


@export("conv")
def conv(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "CHANNELS_LAST",
    dilations: Sequence[int] = (),
    batch_dims: int = 1,
    groups: int = 1,
    name: str | None = None,
) -> Any:
    """Return the convolution over two or three dimensions, after batch_dims of batches.

    padding: "SAME", "VALID", or "EXPLICIT" with explicit_paddings.
    """
    return apply_op(
        "Conv",
        input,
        filter,
        strides=list(strides),
        padding=padding,
        explicit_paddings=list(explicit_paddings),
        data_format=data_format,
        dilations=list(dilations),
        batch_dims=batch_dims,
        groups=groups,
        name=name,
    )


def _backward(
    op_name: str, first: TensorLike, second: TensorLike, grad: TensorLike, **attrs: Any
) -> Any:
    for key in ("strides", "explicit_paddings", "dilations"):
        attrs[key] = list(attrs[key])
    return apply_op(op_name, first, second, grad, **attrs)


@export("conv2d_backprop_filter_v2")
def conv2d_backprop_filter_v2(
    input: TensorLike,
    filter: TensorLike,
    out_backprop: TensorLike,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """Return the gradient of a convolution to its filter, of which the shape alone counts."""
    return _backward(
        "Conv2DBackpropFilter",
        input,
        apply_op("Shape", filter),
        out_backprop,
        strides=strides,
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


@export("conv2d_backprop_input_v2")
def conv2d_backprop_input_v2(
    input: TensorLike,
    filter: TensorLike,
    out_backprop: TensorLike,
    strides: Sequence[int],
    padding: str,
    use_cudnn_on_gpu: bool = True,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Any:
    """Return the gradient of a convolution to its input, of which the shape alone counts."""
    return _backward(
        "Conv2DBackpropInput",
        apply_op("Shape", input),
        filter,
        out_backprop,
        strides=strides,
        padding=padding,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        explicit_paddings=explicit_paddings,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


@export("check_pinned")
def check_pinned(tensor: TensorLike, name: str | None = None) -> NoReturn:
    """Refuse: no tensor lies in pinned memory.  Raises: FailedPreconditionError."""
    raise errors.FailedPreconditionError("to check pinnedness, a build for CUDA is needed")
