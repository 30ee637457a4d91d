"""Tensors from nothing or from a value: constants, placeholders, fills, and plain pass-through.

Source: tensorflow/core/ops/array_ops.cc and python/ops/array_ops.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.array_values import to_array
from tideflow.graph.building import (
    apply_op,
    constant_tensor,
    convert_to_tensor,
)
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import ShapeContext, from_attr, no_outputs, same_as
from tideflow.graph.shapes import Dims, TensorShape, as_dims, format_dims, merge
from tideflow.graph.static_value import same_sizes
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType, as_dtype

# Fills of fewer elements than this become constants, as in TensorFlow.
_SMALL_CONSTANT = 1000


def _const_shape(c: ShapeContext) -> list[Dims]:
    return [tuple(np.shape(c.attrs["value"]))]


@op(
    """
    Const() -> output: dtype
    value: tensor
    dtype: type
    """,
    shape=_const_shape,
    role=roles.CONST,
    is_stated=True,
    checked_outputs=0,
    host_types={"dtype": (dtypes.string, dtypes.int32)},
)
def const(xp: ArrayNamespace, *, value: Array) -> Any:
    """Return the attr."""
    return value


not_differentiable("Const")


@export("constant")
def constant(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    name: str | None = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """Return a constant tensor.

    With a shape that has more elements than value, the last element fills the rest (v1 rule).
    Raises: TypeError where verify_shape is set and the value has another shape; ValueError for a
    shape with fewer elements than the value, or an empty name.
    """
    if name == "" and not get_default_graph().is_eager:
        raise ValueError("'' is not a valid node name; leave out the name of the constant")
    wanted = None if dtype is None else as_dtype(dtype)
    if shape is None:
        return constant_tensor(value, wanted, None, name)
    array = to_array(value, wanted)
    sizes = tuple(int(size or 0) for size in TensorShape(shape).as_list())
    if verify_shape and array.shape != sizes:
        raise TypeError(f"the constant has shape {list(array.shape)}, not {list(sizes)}")
    count = int(np.prod(sizes, dtype=np.int64))
    if 0 < array.size < count:
        flat = array.reshape(-1)
        filled = np.full(count, flat[-1], array.dtype)
        filled[: flat.size] = flat
        array = filled.reshape(sizes)
    return constant_tensor(array, wanted, sizes, name)


def _holds_tensor(values: Sequence[Any]) -> bool:
    """Whether nested lists have a tensor or variable among their leaves."""
    # By kinds: to look at each of a million numbers costs more than to make them an array.
    kinds = set(map(type, values))
    if any(issubclass(kind, Tensor) or hasattr(kind, "_as_graph_element") for kind in kinds):
        return True
    if not any(issubclass(kind, (list, tuple)) for kind in kinds):
        return False
    return any(_holds_tensor(part) for part in values if isinstance(part, (list, tuple)))


@export_v2("constant")
def constant_v2(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    name: str = "Const",
) -> Tensor:
    """Return a constant tensor; a value of one element fills the shape.

    Raises: TypeError for a shape with another number of elements, or a tensor of another type;
    TypeError or ValueError for a value that cannot be a tensor.
    """
    if isinstance(value, Tensor) and dtype is not None and value.dtype != as_dtype(dtype):
        raise TypeError(
            f"the tensor has type {value.dtype.name}, not {as_dtype(dtype).name} (tf.cast converts)"
        )
    if isinstance(value, Tensor) and shape is None:
        return convert_to_tensor(value)
    if get_default_graph().is_eager and _holds_tensor([value]):
        raise ValueError("a constant cannot be made of tensors; tf.stack joins them")
    wanted = None if dtype is None else as_dtype(dtype)
    if shape is not None:
        sizes = [size or 0 for size in TensorShape(shape).as_list()]
        count = int(np.size(to_array(value, wanted)))
        if count not in (1, int(np.prod(sizes, dtype=np.int64))):
            raise TypeError(f"a value of {count} elements does not fill shape {sizes}")
    return constant(value, wanted, shape, name)


@op(
    """
    Placeholder() -> output: dtype
    dtype: type
    shape: shape = unknown
    """,
    shape=from_attr("shape"),
    role=roles.PLACEHOLDER,
    checked_outputs=0,
)
def placeholder_kernel(ctx: KernelContext, *, dtype: DType, shape: TensorShape) -> Any:
    """Refuse: a placeholder has no value of its own."""
    raise errors.InvalidArgumentError(
        f"You must feed a value for placeholder tensor {ctx.node.name!r}, of type {dtype.name} and "
        f"shape {format_dims(shape.sizes)}; give one in feed_dict"
    )


not_differentiable("Placeholder")


@export("placeholder")
def placeholder(
    dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None
) -> Tensor:
    """Return a tensor whose value is fed at each run."""
    made: Tensor = apply_op("Placeholder", dtype=dtype, shape=as_shape(shape), name=name)
    return made


def as_shape(shape: Any) -> TensorShape:
    """Return any description of a static shape as a TensorShape."""
    return shape if isinstance(shape, TensorShape) else TensorShape(as_dims(shape))


def _with_default_shape(c: ShapeContext) -> list[Dims]:
    declared: Dims = c.attrs["shape"].sizes
    merge(c.inputs[0], declared)
    return [declared]


@op(
    """
    PlaceholderWithDefault(input: dtype) -> output: dtype
    dtype: type
    shape: shape
    """,
    shape=_with_default_shape,
    role=roles.PLACEHOLDER,
)
def placeholder_with_default_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return the default; a fed value takes the output's place."""
    return x


@export("placeholder_with_default")
def placeholder_with_default(
    input: TensorLike, shape: ShapeLike, name: str | None = None
) -> Tensor:
    """Return a tensor that is input unless it is fed."""
    made: Tensor = apply_op("PlaceholderWithDefault", input, shape=as_shape(shape), name=name)
    return made


@op(
    """
    Identity(input: T) -> output: T
    T: type
    """,
    shape=same_as(0),
    compiles=Compiles.ALWAYS,
    role=roles.IDENTITY,
    rows=Rows.ELEMENTWISE,
    partial_value=same_sizes,
    is_stated=True,
    checked_outputs=0,
)
def identity_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Pass the value on."""
    return x


@op(
    """
    _EagerConst(input: T) -> output: T
    T: type
    """,
    shape=same_as(0),
    role=roles.FORWARD,
)
def eager_const_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Pass the value on; TensorFlow's eager clients wrap their constants in it."""
    return x


@gradient("Identity", "PlaceholderWithDefault", "Snapshot", "_EagerConst")
def identity_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass the gradient on."""
    return [grad]


@export("identity")
def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of the same value, made where the op is placed."""
    made: Tensor = apply_op("Identity", input, name=name)
    return made


@op(
    """
    Snapshot(input: T) -> output: T
    T: type
    """,
    shape=same_as(0),
    role=roles.FORWARD,
)
def snapshot(xp: ArrayNamespace, x: Array) -> Any:
    """Pass the value on."""
    return x


def _same_each(c: ShapeContext) -> list[Dims]:
    return list(c.inputs)


@op(
    """
    IdentityN(input: *T) -> output: *T
    T: list(type) >= 1
    """,
    shape=_same_each,
    compiles=Compiles.ALWAYS,
    role=roles.IDENTITY_N,
)
def identity_n_kernel(xp: ArrayNamespace, values: list[Any]) -> Any:
    """Pass the values on."""
    return values


@gradient("IdentityN")
def identity_n_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Pass the gradients on."""
    return list(grads)


@export("identity_n")
def identity_n(input: TensorLike, name: str | None = None) -> list[Tensor]:
    """Return tensors of the same values."""
    made = apply_op("IdentityN", input, name=name)
    return made if isinstance(made, list) else [made]


@op("NoOp()", shape=no_outputs, role=roles.NO_OP)
def no_op_kernel(xp: ArrayNamespace) -> Any:
    """Do nothing; the op is there for its control edges."""


@export("no_op")
def no_op(name: str | None = None) -> Operation:
    """Return an operation that does nothing."""
    made: Operation = apply_op("NoOp", name=name)
    return made


@export_v2("no_op")
def no_op_v2(name: str | None = None) -> Operation | None:
    """Return an operation that does nothing; None where operations are called at once."""
    return None if get_default_graph().is_eager else no_op(name)


@op(
    """
    StopGradient(input: T) -> output: T
    T: type
    """,
    shape=same_as(0),
    role=roles.FORWARD,
    is_stated=True,
)
def stop_gradient_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Pass the value on."""
    return x


not_differentiable("StopGradient")


@export("stop_gradient")
def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the same value, through which no gradient flows."""
    made: Tensor = apply_op("StopGradient", input, name=name)
    return made


@op(
    """
    PreventGradient(input: T) -> output: T
    T: type
    message: string = ''
    """,
    shape=same_as(0),
    role=roles.FORWARD,
)
def prevent_gradient_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Pass the value on."""
    return x


@gradient("PreventGradient")
def prevent_gradient_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Refuse.  Raises: LookupError."""
    raise LookupError(
        f"gradient of {op.name!r} was asked for, which is not allowed: {op.attrs['message']}"
    )


@export("raw_ops.PreventGradient")
def prevent_gradient(input: TensorLike, message: str = "", name: str | None = None) -> Tensor:
    """Return the same value; asking for its gradient is an error."""
    made: Tensor = apply_op("PreventGradient", input, message=message, name=name)
    return made


def zeros_of(xp: Any, sizes: Sequence[int], dtype: Any) -> Any:
    """Return an array of zeros; those of NumPy's object type, strings here, are empty."""
    return np.full(sizes, b"", object) if dtype.kind == "O" else xp.zeros(sizes, dtype)


@op(
    """
    ZerosLike(x: T) -> y: T
    T: type
    """,
    shape=same_as(0),
    compiles=Compiles.ALWAYS,
)
def zeros_like_kernel(xp: ArrayNamespace, x: Array, *, T: DType) -> Any:
    """Return zeros (empty strings) in the shape of x; each variant says what its own zero is.

    One that knows none (a dataset) is its own: it can only be the gradient of a result without one.
    """
    if T is dtypes.string:
        return np.full(np.shape(x), b"", object)
    if T is dtypes.variant:
        made = np.empty(np.shape(x), object)
        for index, value in np.ndenumerate(x):
            made[index] = value.zeros_like() if hasattr(value, "zeros_like") else value
        return made
    return xp.zeros_like(x)


not_differentiable("ZerosLike", "OnesLike")


def is_zeros_like(tensor: Tensor) -> bool:
    """Whether a tensor is zeros of the shape of another, as the gradient of an unused output is."""
    return tensor.op.type == "ZerosLike"


@op(
    """
    OnesLike(x: T) -> y: T
    T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, \
uint64, complex64, complex128, bool}
    """,
    shape=same_as(0),
    compiles=Compiles.ALWAYS,
)
def ones_like_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return ones in the shape of x."""
    return xp.ones_like(x)


def _fill_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is not None and len(given) != 1:
        raise ValueError(f"dims must be a vector; its shape is {format_dims(given)}")
    return [c.value_as_shape(0)]


@op(
    """
    Fill(dims: index_type, value: T) -> output: T
    T: type
    index_type: type in indices = int32
    """,
    shape=_fill_shape,
    static=("dims",),
    compiles=Compiles.ALWAYS,
    is_stated=True,
    checked_outputs=0,
)
def fill_kernel(xp: ArrayNamespace, dims: Array, value: Array, *, T: DType) -> Any:
    """Return an array of dims full of value.

    Raises: InvalidArgumentError for dims that are no vector or have a negative size, or a value
    that is no scalar.
    """
    if dims.ndim != 1 or np.ndim(value):
        raise errors.InvalidArgumentError(
            f"Fill wants a vector of sizes and a scalar; found shapes {list(dims.shape)} and "
            f"{list(np.shape(value))}"
        )
    sizes = dims.tolist()
    if sizes and min(sizes) < 0:
        raise errors.InvalidArgumentError(f"Fill wants sizes of at least 0; found {sizes}")
    return xp.full(sizes, value, T.as_numpy_dtype)


@gradient("Fill")
def fill_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Sum over all elements."""
    rank = apply_op("Rank", grad)
    axes = apply_op("Range", 0, rank, 1)
    return [None, apply_op("Sum", grad, axes)]


@export("fill")
def fill(dims: TensorLike, value: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of shape dims (a number is the size of a vector) full of a scalar."""
    sizes = [dims] if isinstance(dims, int) else shape_argument(dims)
    made: Tensor = apply_op("Fill", sizes, value, name=name)
    return made


def shape_argument(shape: Any) -> Any:
    """Return a shape given as a TensorShape or list so that it converts to an index vector.

    Raises: ValueError for a TensorShape that is not known in full.
    """
    if isinstance(shape, TensorShape):
        if not shape.is_fully_defined():
            raise ValueError(f"shape {shape} must be known in full here; tf.shape gives it at run")
        return np.array(shape.as_list(), np.int32)
    if isinstance(shape, (list, tuple)) and not shape:
        return np.zeros(0, np.int32)
    return shape


def _static_shape(shape: Any) -> tuple[int, ...] | None:
    """Return a shape that is known now as a tuple, None if it is a tensor or holds one."""
    if isinstance(shape, Tensor):
        return None
    if isinstance(shape, TensorShape):
        return tuple(shape_argument(shape).tolist())
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    try:
        sizes = tuple(shape)
    except TypeError:
        return None
    if any(getattr(size, "op", None) is not None for size in sizes):
        return None
    return tuple(int(getattr(size, "value", size)) for size in sizes)


def _filled(shape: Any, dtype: DTypeLike, one: int, name: str | None, default: str) -> Tensor:
    wanted = as_dtype(dtype).base_dtype
    value: Any = b"" if wanted is dtypes.string else one
    with get_default_graph().name_scope(name or default) as scope:
        sizes = _static_shape(shape)
        if sizes is not None and np.prod(sizes, dtype=np.int64) < _SMALL_CONSTANT:
            array = np.full(sizes, value, wanted.as_numpy_dtype)
            return constant_tensor(array, wanted, None, scope)
        dims = convert_to_tensor(shape if sizes is None else np.array(sizes), name="shape")
        if dims.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError(f"a shape must hold integers; found {dims.dtype.name}")
        if dims.dims == ():
            dims = apply_op("Reshape", dims, [1])
        scalar = constant_tensor(np.array(value, wanted.as_numpy_dtype), wanted, (), "Const")
        made: Tensor = apply_op("Fill", dims, scalar, name=scope)
        return made


@export("zeros")
def zeros(shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return zeros (False, empty strings) of the shape given."""
    return _filled(shape, dtype, 0, name, "zeros")


@export("ones")
def ones(shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return ones of the shape given.

    Raises: TypeError for strings where operations are called at once; in graphs they are empty.
    """
    if as_dtype(dtype) is dtypes.string and get_default_graph().is_eager:
        raise TypeError("Cannot convert 1 to a tensor of dtype string")
    return _filled(shape, dtype, 1, name, "ones")


@export("zeros_like")
def zeros_like(
    tensor: TensorLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    optimize: bool = True,
) -> Tensor:
    """Return zeros in the shape of a tensor.

    Args:
      dtype: the type of the result; the tensor's own if None.
      optimize: whether a static shape may make the result a constant.
    """
    return _like(tensor, dtype, name, optimize, "zeros_like", zeros, "ZerosLike")


@export("ones_like")
def ones_like(
    tensor: TensorLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    optimize: bool = True,
) -> Tensor:
    """Return ones in the shape of a tensor (see zeros_like)."""
    return _like(tensor, dtype, name, optimize, "ones_like", ones, "OnesLike")


def _like(
    tensor: TensorLike,
    dtype: Any,
    name: str | None,
    optimize: bool,
    default: str,
    make: Any,
    op_name: str,
) -> Tensor:
    with get_default_graph().name_scope(name or default) as scope:
        given = convert_to_tensor(tensor, name="tensor")
        wanted = given.dtype.base_dtype if dtype is None else as_dtype(dtype)
        made: Tensor
        if optimize and given.shape.is_fully_defined() and wanted is not dtypes.variant:
            made = make(given.shape, wanted, name=scope)
        elif wanted is given.dtype.base_dtype:
            made = apply_op(op_name, given, name=scope)
        else:
            made = make(apply_op("Shape", given), wanted, name=scope)
        return made
