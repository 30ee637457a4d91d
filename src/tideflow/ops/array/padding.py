"""Padding, reversing and rolling.

Source: tensorflow/core/ops/array_ops.cc, core/kernels/pad_op.cc, mirror_pad_op.cc, roll_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar, check_vector
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

# ---- padding


def _padded(sign: int) -> Callable[[ShapeContext], list[Dims]]:
    """Return the shape rule of a padding (sign 1) or of its gradient (sign -1)."""

    def rule(c: ShapeContext) -> list[Dims]:
        given, paddings = c.inputs[0], c.inputs[1]
        if paddings is not None and (len(paddings) != 2 or paddings[1] not in (None, 2)):
            raise ValueError(f"paddings must have shape [rank, 2], not {format_dims(paddings)}")
        known = c.value(1)
        if given is None:
            rows = None if paddings is None else paddings[0]
            return [None if rows is None else (None,) * rows]
        if known is None:
            return [(None,) * len(given)]
        if known.shape != (len(given), 2) or (known.size and known.min() < 0):
            raise ValueError(
                f"paddings must be [{len(given)}, 2] numbers of at least 0; found {known.tolist()}"
            )
        added = known.sum(1).tolist()
        return [tuple(None if n is None else n + sign * m for n, m in zip(given, added))]

    return rule


def _check_paddings(x: Array, paddings: Array, what: str) -> list[list[int]]:
    pairs: list[list[int]] = paddings.tolist()
    if paddings.shape != (np.ndim(x), 2) or any(n < 0 for pair in pairs for n in pair):
        raise InvalidArgumentError(
            f"{what} of shape {list(np.shape(x))} wants [{np.ndim(x)}, 2] numbers of at least 0; "
            f"found {pairs}"
        )
    return pairs


@op(
    """
    Pad(input: T, paddings: Tpaddings) -> output: T
    T: type
    Tpaddings: type in indices = int32
    """,
    shape=_padded(1),
    static=("paddings",),
    compiles=Compiles.ALWAYS,
)
def pad_kernel(xp: ArrayNamespace, x: Array, paddings: Array, *, T: DType) -> Any:
    """Return x with zeros (empty strings) before and after along each axis."""
    return _pad_with(xp, x, paddings, b"" if T is dtypes.string else 0)


@op(
    """
    PadV2(input: T, paddings: Tpaddings, constant_values: T) -> output: T
    T: type
    Tpaddings: type in indices = int32
    """,
    shape=_padded(1),
    static=("paddings",),
    compiles=Compiles.ALWAYS,
)
def pad_v2_kernel(xp: ArrayNamespace, x: Array, paddings: Array, value: Array) -> Any:
    """Return x with a value before and after along each axis."""
    check_scalar(value, "PadV2: the value")
    return _pad_with(xp, x, paddings, value)


def _pad_with(xp: ArrayNamespace, x: Array, paddings: Array, value: object) -> Any:
    pairs = _check_paddings(x, paddings, "Pad")
    if xp is not np:
        return xp.pad(x, pairs, constant_values=value) if pairs else x
    sizes = [before + n + after for (before, after), n in zip(pairs, np.shape(x))]
    made = np.full(sizes, value, x.dtype)
    made[tuple(slice(before, before + n) for (before, _), n in zip(pairs, np.shape(x)))] = x
    return made


@gradient("Pad", "PadV2")
def pad_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Cut the padding off."""
    given, paddings, *value = op.inputs
    index = paddings.dtype.base_dtype
    sizes = apply_op("Shape", given, out_type=index)
    before = apply_op(
        "StridedSlice",
        paddings,
        [0, 0],
        [0, 1],
        [1, 1],
        begin_mask=1,
        end_mask=1,
        shrink_axis_mask=2,
    )
    part = apply_op("Slice", grad, before, sizes)
    if not value:
        return [part, None]
    axes = apply_op("Range", 0, apply_op("Rank", grad), 1)
    rest = apply_op("Sub", apply_op("Sum", grad, axes), apply_op("Sum", part, axes))
    return [part, None, rest]


_MIRROR_MODES = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}


def _mirror_index(n: int, before: int, after: int, mode: str) -> Any:
    """Return which elements of a dimension stand where in the padded one."""
    return np.pad(np.arange(n), (before, after), mode=_MIRROR_MODES[mode])  # type: ignore[call-overload]


def _check_mirror(pairs: Sequence[Sequence[int]], sizes: Sequence[int], mode: str) -> None:
    for (before, after), n in zip(pairs, sizes):
        most = n if mode == "SYMMETRIC" else n - 1
        if max(before, after) > max(most, 0):
            raise InvalidArgumentError(
                f"MirrorPad in mode {mode} can pad a dimension of size {n} by at most {most}; "
                f"found {[before, after]}"
            )


@op(
    """
    MirrorPad(input: T, paddings: Tpaddings) -> output: T
    T: type
    Tpaddings: type in indices = int32
    mode: string in {REFLECT, SYMMETRIC}
    """,
    shape=_padded(1),
    static=("paddings",),
    compiles=Compiles.ALWAYS,
)
def mirror_pad_kernel(xp: ArrayNamespace, x: Array, paddings: Array, *, mode: str) -> Any:
    """Return x padded with its own mirror image: without (REFLECT) or with its edge."""
    pairs = _check_paddings(x, paddings, "MirrorPad")
    _check_mirror(pairs, np.shape(x), mode)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = xp.take(x, _mirror_index(x.shape[axis], before, after, mode), axis)
    return x


@op(
    """
    MirrorPadGrad(input: T, paddings: Tpaddings) -> output: T
    T: type
    Tpaddings: type in indices = int32
    mode: string in {REFLECT, SYMMETRIC}
    """,
    shape=_padded(-1),
    static=("paddings",),
)
def mirror_pad_grad_kernel(xp: ArrayNamespace, x: Array, paddings: Array, *, mode: str) -> Any:
    """Fold a padded gradient back: each element gets the sum over its images."""
    pairs = _check_paddings(x, paddings, "MirrorPadGrad")
    sizes = [size - sum(pair) for size, pair in zip(x.shape, pairs)]
    _check_mirror(pairs, sizes, mode)
    for axis, ((before, after), n) in enumerate(zip(pairs, sizes)):
        first, middle, last = xp.split(x, [before, before + n], axis)
        edge = 1 if mode == "REFLECT" else 0
        for part, begin in ((first, edge), (last, n - edge - after)):
            size = part.shape[axis]
            if size:
                around = [(0, 0)] * x.ndim
                around[axis] = (begin, n - begin - size)
                middle = middle + xp.pad(xp.flip(part, axis), around)
        x = middle
    return x


@gradient("MirrorPad")
def mirror_pad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Fold the gradient back."""
    paddings = op.inputs[1]
    return [apply_op("MirrorPadGrad", grad, paddings, mode=op.attrs["mode"]), None]


@gradient("MirrorPadGrad")
def mirror_pad_grad_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Pad the gradient."""
    return [apply_op("MirrorPad", grad, op.inputs[1], mode=op.attrs["mode"]), None]


@export("pad")
def pad(
    tensor: TensorLike,
    paddings: TensorLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: TensorLike = 0,
) -> Tensor:
    """Return a tensor padded by paddings ([rank, 2]: before and after).

    mode: CONSTANT, REFLECT (mirror without the edge) or SYMMETRIC (with it).
    Raises: ValueError for another mode.
    """
    wanted = mode.upper()
    made: Tensor
    if wanted == "CONSTANT":
        is_zero = not isinstance(constant_values, Tensor) and np.all(constant_values == 0)
        if is_zero:
            made = apply_op("Pad", tensor, paddings, name=name)
        else:
            made = apply_op("PadV2", tensor, paddings, constant_values, name=name)
    elif wanted in _MIRROR_MODES:
        made = apply_op("MirrorPad", tensor, paddings, mode=wanted, name=name)
    else:
        raise ValueError(f"mode {mode!r} is none of CONSTANT, REFLECT and SYMMETRIC")
    return made


# ---- reversing and rolling


@op(
    """
    ReverseV2(tensor: T, axis: Tidx) -> output: T
    Tidx: type in indices = int32
    T: type in {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, \
float, double, complex64, complex128, string}
    """,
    shape=same_as(0),
    static=("axis",),
    compiles=Compiles.ALWAYS,
)
def reverse_v2_kernel(xp: ArrayNamespace, x: Array, axis: Array) -> Any:
    """Return x turned round along the axes.

    Raises: InvalidArgumentError for an axis that is not there or comes twice.
    """
    rank = np.ndim(x)
    if not rank:
        return x
    check_vector(axis, "reverse: the axes")
    axes = axis.tolist()
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) != len(axes):
        raise InvalidArgumentError(f"reverse: axes {axes} for shape {list(np.shape(x))}")
    return xp.flip(x, tuple(axes)) if axes else x


@gradient("ReverseV2")
def reverse_v2_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Turn the gradient round."""
    return [apply_op("ReverseV2", grad, op.inputs[1]), None]


def _reverse_shape(c: ShapeContext) -> list[Dims]:
    given, dims = c.inputs
    if dims is not None and len(dims) != 1:
        raise ValueError(f"dims must be a vector; its shape is {list(dims)}")
    if given is not None and len(given) > 8:
        raise ValueError(f"at most 8 dimensions can be turned round; tensor has {len(given)}")
    if given is not None and dims is not None and dims[0] not in (None, len(given)):
        raise ValueError(f"dims must have {len(given)} elements; it has {dims[0]}")
    return [given]


@op(
    """
    Reverse(tensor: T, dims: bool) -> output: T
    T: type in {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, \
float, double, complex64, complex128, string}
    """,
    shape=_reverse_shape,
    static=("dims",),
)
def reverse_kernel(xp: ArrayNamespace, x: Array, dims: Array) -> Any:
    """Return x turned round along the axes for which dims is true.

    Raises: InvalidArgumentError; UnimplementedError for more than 8 dimensions.
    """
    rank = np.ndim(x)
    if not rank:
        return x
    check_vector(dims, "reverse: dims")
    if len(dims) != rank:
        raise InvalidArgumentError(f"reverse: dims must have {rank} elements; it has {len(dims)}")
    if rank > 8:
        raise UnimplementedError(f"reverse: at most 8 dimensions; found {rank}")
    return xp.flip(x, tuple(np.flatnonzero(dims).tolist()))


@gradient("Reverse")
def reverse_v1_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Turn the gradient round."""
    return [apply_op("Reverse", grad, op.inputs[1]), None]


@export("reverse", "reverse_v2", "manip.reverse")
def reverse(tensor: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor turned round along the axes (a vector of int32 or int64)."""
    with get_default_graph().name_scope(name or "ReverseV2") as scope:
        given = convert_to_tensor(axis, preferred_dtype=dtypes.int32, name="axis")
        if given.dims == ():
            given = apply_op("Reshape", given, [1])
        made: Tensor = apply_op("ReverseV2", tensor, given, name=scope)
        return made


@op(
    """
    Roll(input: T, shift: Tshift, axis: Taxis) -> output: T
    T: type
    Tshift: type in indices
    Taxis: type in indices
    """,
    shape=same_as(0),
    static=("axis",),
)
def roll_kernel(xp: ArrayNamespace, x: Array, shift: Array, axis: Array) -> Any:
    """Return x with its elements moved on along the axes, round the end.

    Raises: InvalidArgumentError for an axis that is not there, or shifts that do not fit the axes.
    """
    axes, rank = axis.reshape(-1).tolist(), np.ndim(x)
    if (
        np.ndim(axis) > 1
        or np.shape(shift) != np.shape(axis)
        or any(not -rank <= a < rank for a in axes)
    ):
        raise InvalidArgumentError(
            f"roll: {np.size(shift)} shifts along axes {axes} for shape {list(np.shape(x))}"
        )
    flat = shift.reshape(-1)
    for i, a in enumerate(axes):
        x = xp.roll(x, flat[i], a)
    return x


@gradient("Roll")
def roll_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Move the gradient back."""
    _, shift, axis = op.inputs
    return [apply_op("Roll", grad, apply_op("Neg", shift), axis), None, None]


@export("roll", "manip.roll")
def roll(input: TensorLike, shift: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with its elements moved on by shift along axis, round the end.

    Args:
      input: of any shape and type.
      shift, axis: scalars, or vectors of the same length; int32 or int64.
    Returns: a tensor of the shape and type of input.
    Raises: InvalidArgumentError for an axis that input lacks.
    """
    made: Tensor = apply_op("Roll", input, shift, axis, name=name)
    return made


def _reverse_sequence_shape(c: ShapeContext) -> list[Dims]:
    return [c.inputs[0]]


@op(
    """
    ReverseSequence(input: T, seq_lengths: Tlen) -> output: T
    seq_dim: int
    batch_dim: int = 0
    T: type
    Tlen: type in indices = int64
    """,
    shape=_reverse_sequence_shape,
)
def reverse_sequence_kernel(
    xp: ArrayNamespace, x: Array, lengths: Array, *, seq_dim: int, batch_dim: int
) -> Any:
    """Return x with the first lengths[i] elements along seq_dim turned round in each batch i."""
    if min(seq_dim, batch_dim) < 0:
        raise InvalidArgumentError(
            f"seq_dim and batch_dim must not be negative; found {seq_dim} and {batch_dim}"
        )
    n = x.shape[seq_dim]
    if np.shape(lengths) != (x.shape[batch_dim],) or (
        xp is np and lengths.size and (lengths.min() < 0 or lengths.max() > n)
    ):
        raise InvalidArgumentError(
            f"ReverseSequence of shape {list(x.shape)} wants {x.shape[batch_dim]} lengths in "
            f"[0, {n}]"
        )
    places = np.arange(n)
    index = xp.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
    front = xp.moveaxis(x, (batch_dim, seq_dim), (0, 1))
    index = index.reshape(index.shape + (1,) * (front.ndim - 2))
    turned = xp.take_along_axis(front, index.astype(np.int64), 1)
    return xp.moveaxis(turned, (0, 1), (batch_dim, seq_dim))


@gradient("ReverseSequence")
def reverse_sequence_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Turn the gradient round in the same places."""
    dims = {name: op.attrs[name] for name in ("seq_dim", "batch_dim")}
    return [apply_op("ReverseSequence", grad, op.inputs[1], **dims), None]


@export("reverse_sequence")
def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Return a tensor with the first seq_lengths[i] elements of each batch i turned round."""
    sequence = seq_dim if seq_axis is None else seq_axis
    batch = batch_dim if batch_axis is None else batch_axis
    if sequence is None:
        raise ValueError("seq_axis must be given")
    made: Tensor = apply_op(
        "ReverseSequence", input, seq_lengths, seq_dim=sequence, batch_dim=batch or 0, name=name
    )
    return made
