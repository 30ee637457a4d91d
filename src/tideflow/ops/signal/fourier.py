"""Discrete Fourier transforms over the last dimensions.

Source: tensorflow/core/kernels/fft_ops.cc.
"""

from __future__ import annotations

import functools
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_SUFFIXES = {1: "", 2: "2D", 3: "3D"}
_COMPLEX_OF = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _check_rank(x: Any, rank: int) -> None:
    if x.ndim < rank:
        raise errors.InvalidArgumentError(
            f"the input must have rank {rank} or more; its shape is {list(x.shape)}"
        )


def _same(c: ShapeContext, *, rank: int) -> list[Dims]:
    dims = c.inputs[0]
    if dims is not None and len(dims) < rank:
        raise ValueError(f"the input must have rank {rank} or more; its shape is {list(dims)}")
    return [dims]


def _real_shape(c: ShapeContext, *, rank: int, half: bool) -> list[Dims]:
    (dims,) = _same(c, rank=rank)
    if dims is None:
        return [None]
    length = c.value(1)
    if length is None:
        return [(*dims[:-rank], *[None] * rank)]
    sizes = length.reshape(-1).tolist()
    if len(sizes) != rank:
        raise ValueError(f"fft_length must have {rank} entries; found {sizes}")
    if half:
        sizes[-1] = sizes[-1] // 2 + 1
    return [(*dims[:-rank], *sizes)]


def _sizes(fft_length: Any, rank: int) -> tuple[int, ...]:
    sizes = tuple(fft_length.reshape(-1).tolist())
    if fft_length.shape != (rank,) or min(sizes) < 0:
        raise errors.InvalidArgumentError(
            f"fft_length must be {rank} sizes; found {fft_length.tolist()}"
        )
    return sizes


def _check_long_enough(x: Any, wanted: tuple[int, ...]) -> None:
    """TensorFlow cuts what is too long, and refuses what is too short unless it is empty."""
    found = x.shape[x.ndim - len(wanted) :]
    if any(0 < size < least for size, least in zip(found, wanted)):
        raise errors.InvalidArgumentError(
            f"the last dimensions must have sizes of at least {list(wanted)}; found {list(found)}"
        )


def _define(rank: int) -> None:
    suffix, axes = _SUFFIXES[rank], _axes(rank)
    forward, inverse, real, back = (f"{name}{suffix}" for name in ("FFT", "IFFT", "RFFT", "IRFFT"))
    complex_text = "Tcomplex: type in {complex64, complex128} = complex64"
    both_text = f"Treal: type in {{float, double}} = float\n{complex_text}"
    same = functools.partial(_same, rank=rank)

    @op(f"{forward}(input: Tcomplex) -> output: Tcomplex\n{complex_text}", shape=same)
    def fft(xp: ArrayNamespace, x: Array) -> Any:
        _check_rank(x, rank)
        return xp.fft.fftn(x, axes=axes).astype(x.dtype) if x.size else x

    @op(f"{inverse}(input: Tcomplex) -> output: Tcomplex\n{complex_text}", shape=same)
    def ifft(xp: ArrayNamespace, x: Array) -> Any:
        _check_rank(x, rank)
        return xp.fft.ifftn(x, axes=axes).astype(x.dtype) if x.size else x

    @op(
        f"{real}(input: Treal, fft_length: int32) -> output: Tcomplex\n{both_text}",
        shape=functools.partial(_real_shape, rank=rank, half=True),
        static=("fft_length",),
    )
    def rfft(xp: ArrayNamespace, x: Array, fft_length: Array, *, Tcomplex: DType) -> Any:
        _check_rank(x, rank)
        sizes = _sizes(fft_length, rank)
        _check_long_enough(x, sizes)
        dtype = Tcomplex.as_numpy_dtype
        shape = (*x.shape[:-rank], *sizes[:-1], sizes[-1] // 2 + 1)
        if not x.size or 0 in shape:
            return xp.zeros(shape, dtype)
        return xp.fft.rfftn(x, sizes, axes).astype(dtype)

    @op(
        f"{back}(input: Tcomplex, fft_length: int32) -> output: Treal\n{both_text}",
        shape=functools.partial(_real_shape, rank=rank, half=False),
        static=("fft_length",),
    )
    def irfft(xp: ArrayNamespace, x: Array, fft_length: Array, *, Treal: DType) -> Any:
        _check_rank(x, rank)
        sizes = _sizes(fft_length, rank)
        _check_long_enough(x, (*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0))
        dtype = Treal.as_numpy_dtype
        if not x.size or 0 in sizes:
            return xp.zeros((*x.shape[:-rank], *sizes), dtype)
        return xp.fft.irfftn(x, sizes, axes).astype(dtype)

    def size_of(x: Any) -> Any:
        """Return how many elements are transformed together, in the type of x."""
        sizes = apply_op("StridedSlice", apply_op("Shape", x), [-rank], [0], [1], end_mask=1)
        return apply_op("Cast", apply_op("Prod", sizes, 0), DstT=x.dtype)

    @gradient(forward)
    def forward_gradient(op: Operation, grad: Tensor) -> list[Any]:
        return [apply_op(inverse, grad) * size_of(grad)]

    @gradient(inverse)
    def inverse_gradient(op: Operation, grad: Tensor) -> list[Any]:
        return [apply_op(forward, grad) / size_of(grad)]

    @gradient(real)
    def real_gradient(op: Operation, grad: Tensor) -> list[Any]:
        x, length = op.inputs
        # The half that a real input leaves out, as zeros, makes it a whole transform.
        whole = _resized(grad, _with_last(apply_op("Shape", grad), length[-1]))
        found = apply_op("Real", apply_op(inverse, whole) * size_of(whole), Tout=x.dtype)
        return [_resized(found, apply_op("Shape", x)), None]

    @gradient(back)
    def back_gradient(op: Operation, grad: Tensor) -> list[Any]:
        x, length = op.inputs
        spectrum = apply_op(real, grad, length, Tcomplex=x.dtype)
        weights = _half_weights(length[-1], apply_op("Shape", spectrum)[-1], x.dtype)
        found = spectrum * weights / apply_op("Cast", apply_op("Prod", length, 0), DstT=x.dtype)
        return [_resized(found, apply_op("Shape", x)), None]


def _with_last(shape: ShapeLike, last: Tensor) -> Any:
    kept = apply_op("StridedSlice", shape, [0], [-1], [1])
    return apply_op("ConcatV2", [kept, apply_op("Pack", [last])], 0)


def _half_weights(length: Tensor, count: Tensor, dtype: DType) -> Any:
    """Return how often each element of a half spectrum stands in the whole: 1 or 2."""
    at = apply_op("Range", 0, count, 1)
    is_alone = apply_op("LogicalOr", apply_op("Equal", at, 0), apply_op("Equal", at * 2, length))
    return apply_op("Cast", 2 - apply_op("Cast", is_alone, DstT=dtypes.int32), DstT=dtype)


def _resized(x: TensorLike, shape: TensorLike) -> Any:
    """Return x cut, or filled with zeros, at the end of each dimension."""
    current = apply_op("Shape", x)
    least = apply_op("Minimum", current, shape)
    part = apply_op("Slice", x, apply_op("ZerosLike", least), least)
    return apply_op(
        "Pad", part, apply_op("Pack", [apply_op("ZerosLike", least), shape - least], axis=1)
    )


for _rank in _SUFFIXES:
    _define(_rank)


def _length_of(x: object, fft_length: object, rank: int, is_half: bool) -> Any:
    if fft_length is not None:
        return fft_length
    sizes = apply_op("StridedSlice", apply_op("Shape", x), [-rank], [0], [1], end_mask=1)
    if not is_half:
        return sizes
    last = apply_op("Maximum", (sizes[-1] - 1) * 2, 0)
    kept = apply_op("StridedSlice", sizes, [0], [-1], [1])
    return apply_op("ConcatV2", [kept, apply_op("Pack", [last])], 0)


def _long_enough(x: Tensor, fft_length: object, rank: int, is_half: bool) -> Any:
    """Return x filled with zeros where its last dimensions are shorter than the transform.

    An empty tensor stays empty.
    """
    if fft_length is None:
        return x
    wanted = convert_to_tensor(fft_length, dtypes.int32)
    if is_half:
        half = apply_op("FloorDiv", wanted[-1], 2)
        wanted = _with_last(wanted, apply_op("AddV2", half, 1))
    sizes = apply_op("Shape", x)
    places = apply_op("StridedSlice", sizes, [-rank], [0], [1], end_mask=1)
    missing = apply_op("Relu", wanted - places) * apply_op("Minimum", places, 1)
    outer = apply_op("ZerosLike", apply_op("StridedSlice", sizes, [0], [-rank], [1], begin_mask=1))
    after = apply_op("ConcatV2", [outer, missing], 0)
    made = apply_op("Pad", x, apply_op("Pack", [apply_op("ZerosLike", after), after], axis=1))
    if x.dims is not None:
        made.set_shape([*x.dims[:-rank], *[None] * rank])
    return made


def _publish(rank: int) -> tuple[Any, Any]:
    suffix, lower = _SUFFIXES[rank], _SUFFIXES[rank].lower()

    def plain(op_name: str, input: TensorLike, name: str | None = None) -> Tensor:
        made: Tensor = apply_op(op_name, convert_to_tensor(input), name=name)
        return made

    def fft(input: TensorLike, name: str | None = None) -> Tensor:
        """Return the discrete Fourier transform over the last dimensions of a complex tensor."""
        return plain(f"FFT{suffix}", input, name)

    def ifft(input: TensorLike, name: str | None = None) -> Tensor:
        """Return the inverse transform over the last dimensions of a complex tensor."""
        return plain(f"IFFT{suffix}", input, name)

    def rfft(
        input_tensor: TensorLike, fft_length: TensorLike | None = None, name: str | None = None
    ) -> Tensor:
        """Return half the transform of a real tensor; the other half is its conjugate.

        fft_length: the sizes to transform, by default those of the last dimensions, which are cut
        or filled with zeros.
        """
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
        x = _long_enough(x, fft_length, rank, False)
        length = _length_of(x, fft_length, rank, False)
        made: Tensor = apply_op(
            f"RFFT{suffix}", x, length, Tcomplex=_COMPLEX_OF[x.dtype], name=name
        )
        return made

    def irfft(
        input_tensor: TensorLike, fft_length: TensorLike | None = None, name: str | None = None
    ) -> Tensor:
        """Return the real tensor whose half transform is given.

        fft_length: the result's sizes, by default with an even last one.
        """
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
        x = _long_enough(x, fft_length, rank, True)
        real = dtypes.float64 if x.dtype == dtypes.complex128 else dtypes.float32
        length = _length_of(x, fft_length, rank, True)
        made: Tensor = apply_op(f"IRFFT{suffix}", x, length, Treal=real, name=name)
        return made

    for function in (fft, ifft, rfft, irfft):
        name = f"{function.__name__}{lower}"
        aliases = () if function in (rfft, irfft) else (name,)
        function.__name__ = function.__qualname__ = name
        export(f"signal.{name}", f"spectral.{name}", *aliases)(function)
    return rfft, irfft


rfft, irfft = _publish(1)
for _rank in (2, 3):
    _publish(_rank)
