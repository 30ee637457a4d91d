"""Shapes of tensors and changes of shape: no element is computed here.

Source: tensorflow/core/ops/array_ops.cc for signatures and shape rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles, shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims, TensorShape, format_dims
from tideflow.graph.static_value import rank_value, shape_value, size_value
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import IndexedSlices, as_shape, shape_argument
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

# ---- asking for shapes


def _rank_vector(c: ShapeContext) -> list[Dims]:
    return [(None if dims is None else len(dims),) for dims in c.inputs]


@op(
    """
    Shape(input: T) -> output: out_type
    T: type
    out_type: type in indices = int32
    """,
    shape=_rank_vector,
    compiles=Compiles.ALWAYS,
    static_value=shape_value,
    is_stated=True,
)
def shape_kernel(xp: ArrayNamespace, x: Array, *, out_type: DType) -> Any:
    """Return the sizes of x; concrete even while x is traced."""
    return sizes_array(np.shape(x), out_type)


@functools.lru_cache(maxsize=4096)
def sizes_array(sizes: tuple[int, ...], dtype: DType) -> Any:
    """Return a vector of numbers, always the same read-only array: shapes and axes recur."""
    made = np.array(sizes, dtype.as_numpy_dtype)
    made.setflags(write=False)
    return made


@op(
    """
    ShapeN(input: N * T) -> output: N * out_type
    N: int >= 1
    T: type
    out_type: type in indices = int32
    """,
    shape=_rank_vector,
    compiles=Compiles.ALWAYS,
    static_value=shape_value,
)
def shape_n_kernel(xp: ArrayNamespace, values: list[Any], *, out_type: DType) -> Any:
    """Return the sizes of each input."""
    return [sizes_array(np.shape(x), out_type) for x in values]


@op(
    """
    Size(input: T) -> output: out_type
    T: type
    out_type: type in indices = int32
    """,
    shape=scalar,
    compiles=Compiles.ALWAYS,
    rows=Rows.COUNT,
    static_value=size_value,
    is_stated=True,
)
def size_kernel(xp: ArrayNamespace, x: Array, *, out_type: DType) -> Any:
    """Return the number of elements of x."""
    return np.array(np.size(x), out_type.as_numpy_dtype)


@op(
    """
    Rank(input: T) -> output: int32
    T: type
    """,
    shape=scalar,
    compiles=Compiles.ALWAYS,
    static_value=rank_value,
    is_stated=True,
)
def rank_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return the number of dimensions of x."""
    return np.array(np.ndim(x), np.int32)


not_differentiable("Shape", "ShapeN", "Size", "Rank")


def _sizes_held(value: object) -> Any:
    """Return the sizes that a sparse tensor holds; None of any other value."""
    if isinstance(value, (Tensor, IndexedSlices)):
        return None
    return getattr(value, "dense_shape", None)


def _of_type(sizes: TensorLike, dtype: DType, name: str | None) -> Tensor:
    given = convert_to_tensor(sizes)
    if given.dtype is dtype:
        return given
    made: Tensor = apply_op("Cast", given, DstT=dtype, name=name)
    return made


@export("shape")
def shape(
    input: object,
    name: str | None = None,
    out_type: DTypeLike | None = dtypes.int32,
    optimize: bool = True,
) -> Tensor:
    """Return the sizes of a tensor as a vector; a constant where they are known now.

    Args:
      input: a tensor of any shape and type, dense or sparse.
      out_type: int32 or int64.
      optimize: whether to give a constant.
    Returns: [rank].
    """
    out_type = dtypes.int32 if out_type is None else as_dtype(out_type)
    if (sizes_held := _sizes_held(input)) is not None:
        return _of_type(sizes_held, out_type, name)
    given = convert_to_tensor(input)
    if optimize and given.shape.is_fully_defined():
        sizes = np.array(given.shape.as_list(), out_type.as_numpy_dtype)
        return convert_to_tensor(sizes, out_type, name or "Shape")
    made: Tensor = apply_op("Shape", given, out_type=out_type, name=name)
    return made


@export("shape_n")
def shape_n(
    input: Sequence[Any], out_type: DTypeLike = dtypes.int32, name: str | None = None
) -> list[Tensor]:
    """Return the sizes of each of several tensors of one type."""
    made: list[Tensor] = apply_op("ShapeN", list(input), out_type=out_type, name=name)
    return made


@export("size")
def size(input: Any, name: str | None = None, out_type: DTypeLike | None = dtypes.int32) -> Tensor:
    """Return the number of elements of a tensor; a constant where it is known now.

    Args:
      input: a tensor of any shape and type, dense or sparse.
      out_type: int32 or int64.
    Returns: a scalar.
    """
    out_type = dtypes.int32 if out_type is None else as_dtype(out_type)
    if (sizes_held := _sizes_held(input)) is not None:
        product: Tensor = apply_op("Prod", _of_type(sizes_held, out_type, None), [0], name=name)
        return product
    given = convert_to_tensor(input)
    count = given.shape.num_elements()
    if count is not None:
        return convert_to_tensor(np.array(count, out_type.as_numpy_dtype), out_type, name or "Size")
    made: Tensor = apply_op("Size", given, out_type=out_type, name=name)
    return made


@export("rank")
def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the number of dimensions of a tensor; a constant where it is known now.

    Args:
      input: a tensor of any shape and type, dense or sparse.
    Returns: an int32 scalar.
    """
    if (sizes_held := _sizes_held(input)) is not None:
        return size(sizes_held, name)
    given = convert_to_tensor(input)
    if given.dims is not None:
        return convert_to_tensor(np.array(len(given.dims), np.int32), dtypes.int32, name or "Rank")
    made: Tensor = apply_op("Rank", given, name=name)
    return made


# ---- reshaping


def _reshape_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[1], 1, "shape")
    wanted = c.value_as_shape(1)
    given = c.inputs[0]
    exact = c.value(1)
    if wanted is None:
        return [None]
    have = shapes.num_elements(given)
    if None not in wanted:
        need = shapes.num_elements(wanted)
        if have is not None and have != need:
            raise ValueError(
                f"{have} elements of shape {format_dims(given)} cannot be given shape "
                f"{format_dims(wanted)}"
            )
        return [wanted]
    # Only a size written as -1 is inferred; a size that is merely unknown stays so, unless it is
    # the only one.
    if wanted.count(None) > 1:
        if exact is not None and (exact == -1).sum() > 1:
            raise ValueError(f"at most one size may be -1; found {exact.tolist()}")
        return [wanted]
    known = shapes.num_elements(tuple(s for s in wanted if s is not None)) or 0
    if have is None or not known:
        return [wanted]
    if have % known:
        raise ValueError(
            f"{have} elements of shape {format_dims(given)} cannot be given shape "
            f"{format_dims(wanted)}"
        )
    return [tuple(have // known if s is None else s for s in wanted)]


@op(
    """
    Reshape(tensor: T, shape: Tshape) -> output: T
    T: type
    Tshape: type in indices = int32
    """,
    shape=_reshape_shape,
    static=("shape",),
    role=roles.RESHAPE,
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def reshape_kernel(xp: ArrayNamespace, x: Array, sizes: Array) -> Any:
    """Return x with other sizes, one of which may be -1; a scalar counts as a vector of one.

    Raises: InvalidArgumentError when the number of elements does not fit.
    """
    wanted = sizes.tolist()
    try:
        if sizes.ndim == 1 and (not wanted or min(wanted) >= -1):
            return x.reshape(wanted)
    except (ValueError, TypeError):
        pass
    if sizes.ndim == 0:
        return reshape_kernel(xp, x, sizes.reshape(1))
    size, given = np.size(x), list(np.shape(x))
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"sizes input must be 1-D, not {list(sizes.shape)}")
    if wanted.count(-1) == 1 and size == 0 and 0 in wanted:
        # Without elements, the other sizes decide.
        rest = math.prod(filter(None, given)) // -math.prod(filter(None, wanted))
        return x.reshape([rest if n == -1 else n for n in wanted])
    if wanted.count(-1) == 1:
        part = -math.prod(wanted)
        text = f"requires a multiple of {part}"
    else:
        text = f"has {math.prod(wanted)}"
    raise InvalidArgumentError(
        f"Input to reshape is a tensor with {size} values, but the requested shape {text} "
        f"(from shape {given} to {wanted})"
    )


@gradient("Reshape", "ExpandDims", "Squeeze")
def reshape_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give the gradient the shape of the input."""
    given = op.inputs[0]
    restored = apply_op("Reshape", grad, shape(given))
    return [restored] + [None] * (len(op.edges) - 1)


@export("reshape", "manip.reshape")
def reshape(tensor: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return a tensor with the same elements and another shape; one size may be -1.

    Args:
      tensor: of any shape and type.
      shape: int32 or int64, a vector.
    Raises: ValueError, or InvalidArgumentError, for a shape of another number of elements.
    Example:
      >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy().tolist()
      [[1, 2], [3, 4]]
    """
    made: Tensor = apply_op("Reshape", tensor, shape_argument(shape), name=name)
    return made


def _expand_dims_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    axis = c.value(1)
    if axis is not None and axis.size != 1:
        raise ValueError(f"dim must be one number; found {axis.tolist()}")
    if given is None:
        return [None]
    if axis is None:
        return [(None,) * (len(given) + 1)]
    at = int(axis.reshape(()))
    if not -len(given) - 1 <= at <= len(given):
        raise ValueError(
            f"dim {at} lies outside [{-len(given) - 1}, {len(given)}] for shape "
            f"{format_dims(given)}"
        )
    at %= len(given) + 1
    return [(*given[:at], 1, *given[at:])]


@op(
    """
    ExpandDims(input: T, dim: Tdim) -> output: T
    T: type
    Tdim: type in indices = int32
    """,
    shape=_expand_dims_shape,
    static=("dim",),
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def expand_dims_kernel(xp: ArrayNamespace, x: Array, dim: Array) -> Any:
    """Return x with a dimension of size 1 put in at dim."""
    sizes = list(np.shape(x))
    if np.size(dim) != 1:
        raise InvalidArgumentError(f"ExpandDims: dim must be one number; found {dim.tolist()}")
    at = int(dim.item())
    if not -len(sizes) - 1 <= at <= len(sizes):
        raise InvalidArgumentError(
            f"ExpandDims: dim {at} lies outside [{-len(sizes) - 1}, {len(sizes)}] for shape {sizes}"
        )
    sizes.insert(at if at >= 0 else at + len(sizes) + 1, 1)
    return x.reshape(sizes)


@export("expand_dims")
def expand_dims(
    input: Any,
    axis: TensorLike | None = None,
    name: str | None = None,
    dim: TensorLike | None = None,
) -> Tensor:
    """Return a tensor with a dimension of size 1 put in at axis."""
    made: Tensor = apply_op("ExpandDims", input, _one_of("axis", axis, "dim", dim), name=name)
    return made


@export_v2("expand_dims")
def expand_dims_v2(input: TensorLike, axis: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with a dimension of size 1 put in at axis.

    Args:
      input: of any shape and type.
      axis: a whole number in [-1 - rank, rank].
    Raises: ValueError, or InvalidArgumentError, for another axis.
    Example:
      >>> tf.expand_dims([1, 2], 0).numpy().tolist()
      [[1, 2]]
    """
    return expand_dims(input, axis, name)


def _one_of(name: str, value: object, old_name: str, old_value: object) -> Any:
    """Return the value of an argument that has an older name too.  Raises: ValueError."""
    if value is not None and old_value is not None:
        raise ValueError(f"give {name} or {old_name}, not both")
    found = old_value if value is None else value
    if found is None:
        raise ValueError(f"{name} must be given")
    return found


def _squeeze_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    axes = c.attrs["squeeze_dims"]
    if given is None:
        return [None]
    if not axes:
        return [None if None in given else tuple(s for s in given if s != 1)]
    rank = len(given)
    dropped = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} lies outside shape {format_dims(given)}")
        if given[axis] not in (1, None):
            raise ValueError(f"axis {axis} of shape {format_dims(given)} has not size 1")
        dropped.add(axis % rank)
    return [tuple(s for i, s in enumerate(given) if i not in dropped)]


@op(
    """
    Squeeze(input: T) -> output: T
    T: type
    squeeze_dims: list(int) >= 0 = []
    """,
    shape=_squeeze_shape,
    compiles=Compiles.ALWAYS,
    checked_outputs=0,
)
def squeeze_kernel(xp: ArrayNamespace, x: Array, *, squeeze_dims: list[int]) -> Any:
    """Return x without dimensions of size 1: those named, or all of them."""
    sizes = np.shape(x)
    if not squeeze_dims:
        return x.reshape([s for s in sizes if s != 1])
    dropped = set()
    for axis in squeeze_dims:
        if not -len(sizes) <= axis < len(sizes) or sizes[axis] != 1:
            raise InvalidArgumentError(
                f"Squeeze: axis {axis} of shape {list(sizes)} is not there or has not size 1"
            )
        dropped.add(axis % len(sizes))
    return x.reshape([s for i, s in enumerate(sizes) if i not in dropped])


@export("squeeze")
def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """Return a tensor without its dimensions of size 1, or without those that axis names.

    Args:
      input: of any shape and type.
      axis: a number or a list of them; None for all dimensions of size 1.
      squeeze_dims: an older name of axis.
    Raises: ValueError, or InvalidArgumentError, where a dimension that axis names has another size.
    """
    if axis is not None and squeeze_dims is not None:
        raise ValueError("give axis or squeeze_dims, not both")
    axes = squeeze_dims if axis is None else axis
    axes = [] if axes is None else [axes] if np.isscalar(axes) else list(axes)
    made: Tensor = apply_op("Squeeze", input, squeeze_dims=axes, name=name)
    return made


def _ensure_shape_shape(c: ShapeContext) -> list[Dims]:
    return [shapes.merge(c.inputs[0], c.attrs["shape"].sizes)]


@op(
    """
    EnsureShape(input: T) -> output: T
    shape: shape
    T: type
    """,
    shape=_ensure_shape_shape,
    compiles=Compiles.ALWAYS,
)
def ensure_shape_kernel(xp: ArrayNamespace, x: Array, *, shape: TensorShape) -> Any:
    """Return x.  Raises: InvalidArgumentError when its shape is not as declared."""
    if not shapes.compatible(np.shape(x), shape.sizes):
        raise InvalidArgumentError(
            f"Shape of tensor {list(np.shape(x))} is not compatible with expected shape "
            f"{format_dims(shape.sizes)}"
        )
    return x


@gradient("EnsureShape")
def ensure_shape_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on."""
    return [grad]


@export("ensure_shape")
def ensure_shape(x: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return x, known to have the shape, which is checked when it runs.

    Args:
      x: of any type.
      shape: sizes, None where any will do.
    Returns: a tensor of the type of x.
    Raises: ValueError for a shape that x is known not to have; InvalidArgumentError when it runs.
    """
    made: Tensor = apply_op("EnsureShape", x, shape=as_shape(shape), name=name)
    return made
