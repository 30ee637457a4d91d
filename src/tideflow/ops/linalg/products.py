"""Matrix products, of two matrices or of stacks of them.

Sizes are checked by the product itself; half-width floats are multiplied as float32, which BLAS
knows, and rounded once.
Source: matmul_op_impl.h of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, scoped
from tideflow.ops.math import convert_pair_below
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_MULTIPLIED = (
    "{bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, "
    "complex128}"
)
_STACKED = _MULTIPLIED.replace("int32,", "int16, int32,", 1)


def _product(xp: ArrayNamespace, a: Array, b: Array) -> Any:
    if a.dtype.itemsize == 2 and xp is np and a.dtype.kind in "fV":
        wide = np.matmul(a.astype(np.float32), b.astype(np.float32))
        return wide.astype(a.dtype)
    try:
        return xp.matmul(a, b)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"Matrix size-incompatible: a is {list(a.shape)} and b is {list(b.shape)} as "
            "multiplied; the last size of a must be the second last of b, and the sizes before "
            "them must broadcast"
        ) from None


def _inner(a: int | None, b: int | None, left: Dims, right: Dims) -> None:
    if a is not None and b is not None and a != b:
        raise ValueError(
            f"the inner sizes must agree: {a} of {shapes.format_dims(left)} against {b} of "
            f"{shapes.format_dims(right)}"
        )


def _matmul_shape(c: ShapeContext) -> list[Dims]:
    a = with_rank(c.inputs[0], 2, "a of MatMul")
    b = with_rank(c.inputs[1], 2, "b of MatMul")
    rows, inner_a = reversed(a) if c.attrs["transpose_a"] else a
    inner_b, columns = reversed(b) if c.attrs["transpose_b"] else b
    _inner(inner_a, inner_b, *c.inputs)
    return [(rows, columns)]


@op(
    f"""
MatMul(a: T, b: T) -> product: T
transpose_a: bool = false
transpose_b: bool = false
T: type in {_MULTIPLIED}
grad_a: bool = false
grad_b: bool = false
""",
    shape=_matmul_shape,
    compiles=Compiles.ALWAYS,
)
def _matmul(xp: ArrayNamespace, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Any:
    if a.ndim != 2 or b.ndim != 2:
        raise InvalidArgumentError(
            f"MatMul needs two matrices; a is {list(a.shape)}, b is {list(b.shape)}"
        )
    return _product(xp, a.T if transpose_a else a, b.T if transpose_b else b)


@gradient("MatMul")
def _matmul_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = (conj(t) for t in op.inputs)
    turn_a, turn_b = op.attrs["transpose_a"], op.attrs["transpose_b"]

    def times(left: TensorLike, right: TensorLike, turn_left: bool, turn_right: bool) -> Any:
        return apply_op("MatMul", left, right, transpose_a=turn_left, transpose_b=turn_right)

    grad_a = times(grad, b, False, not turn_b) if not turn_a else times(b, grad, turn_b, True)
    grad_b = times(a, grad, not turn_a, False) if not turn_b else times(grad, a, True, turn_a)
    return [grad_a, grad_b]


# ---- stacks of matrices


def _batch_shape(c: ShapeContext) -> list[Dims]:
    x, y = c.inputs
    if x is None or y is None:
        return [None]
    for name, dims in (("x", x), ("y", y)):
        if len(dims) < 2:
            raise ValueError(f"{name} must have rank 2 at least; it is {shapes.format_dims(dims)}")
    rows, inner_x = (x[-1], x[-2]) if c.attrs["adj_x"] else x[-2:]
    inner_y, columns = (y[-1], y[-2]) if c.attrs["adj_y"] else y[-2:]
    _inner(inner_x, inner_y, x, y)
    batch = shapes.broadcast(x[:-2], y[:-2])
    return [None if batch is None else (*batch, rows, columns)]


def _adjoint(xp: Any, x: Array) -> Any:
    turned = x.swapaxes(-1, -2)
    return xp.conj(turned) if x.dtype.kind == "c" else turned


def _batch_product(xp: ArrayNamespace, x: Array, y: Array, adj_x: bool, adj_y: bool) -> Any:
    if x.ndim < 2 or y.ndim < 2:
        raise InvalidArgumentError(
            f"both operands need rank 2 at least; x is {list(x.shape)}, y is {list(y.shape)}"
        )
    return _product(xp, _adjoint(xp, x) if adj_x else x, _adjoint(xp, y) if adj_y else y)


@op(
    """
BatchMatMul(x: T, y: T) -> output: T
T: type in {bfloat16, half, float, double, int32, int64, complex64, complex128}
adj_x: bool = false
adj_y: bool = false
grad_x: bool = false
grad_y: bool = false
""",
    shape=_batch_shape,
    compiles=Compiles.ALWAYS,
)
def _batch_matmul(xp: ArrayNamespace, x: Array, y: Array, *, adj_x: bool, adj_y: bool) -> Any:
    if x.shape[:-2] != y.shape[:-2]:
        raise InvalidArgumentError(
            f"the sizes before the last two must agree; x is {list(x.shape)}, y {list(y.shape)}"
        )
    return _batch_product(xp, x, y, adj_x, adj_y)


@op(
    f"""
BatchMatMulV2(x: T, y: T) -> output: T
T: type in {_STACKED}
adj_x: bool = false
adj_y: bool = false
grad_x: bool = false
grad_y: bool = false
""",
    shape=_batch_shape,
    compiles=Compiles.ALWAYS,
)
def batch_matmul_v2_kernel(
    xp: ArrayNamespace, x: Array, y: Array, *, adj_x: bool, adj_y: bool
) -> Any:
    return _batch_product(xp, x, y, adj_x, adj_y)


@op(
    """
BatchMatMulV3(x: Ta, y: Tb) -> output: Tout
Ta: type in {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}
Tb: type in {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}
Tout: type in {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}
adj_x: bool = false
adj_y: bool = false
grad_x: bool = false
grad_y: bool = false
""",
    shape=_batch_shape,
    compiles=Compiles.ALWAYS,
)
def _batch_matmul_v3(
    xp: ArrayNamespace, x: Array, y: Array, *, adj_x: bool, adj_y: bool, Tout: DType
) -> Any:
    wide = Tout.as_numpy_dtype
    return _batch_product(xp, x.astype(wide), y.astype(wide), adj_x, adj_y)


@gradient("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    adj_x, adj_y = op.attrs["adj_x"], op.attrs["adj_y"]
    extra = {"Tout": op.attrs["Tout"]} if op.type == "BatchMatMulV3" else {}

    def times(left: TensorLike, right: TensorLike, turn_left: bool, turn_right: bool) -> Any:
        return apply_op(op.type, left, right, adj_x=turn_left, adj_y=turn_right, **extra)

    grad_x = times(y, grad, adj_y, True) if adj_x else times(grad, y, False, not adj_y)
    grad_y = times(grad, x, True, adj_x) if adj_y else times(x, grad, not adj_x, False)
    if op.type == "BatchMatMul":
        return [grad_x, grad_y]
    return sum_batches(x, y, grad_x, grad_y)


def sum_batches(x: Any, y: Any, grad_x: TensorLike, grad_y: TensorLike) -> list[Any]:
    """Sum gradients over the leading sizes along which an operand was stretched."""
    if x.dims is not None and y.dims is not None:
        batch_x, batch_y = x.dims[:-2], y.dims[:-2]
        if batch_x == batch_y and None not in batch_x:
            return [grad_x, grad_y]
    shape_x, shape_y = apply_op("Shape", x), apply_op("Shape", y)
    axes = apply_op("BroadcastGradientArgs", _all_but_two(shape_x), _all_but_two(shape_y))
    return [
        apply_op("Reshape", apply_op("Sum", grad_x, axes[0]), shape_x),
        apply_op("Reshape", apply_op("Sum", grad_y, axes[1]), shape_y),
    ]


def _all_but_two(shape: ShapeLike) -> Any:
    return apply_op("StridedSlice", shape, [0], [-2], [1])


@op(
    """
SparseMatMul(a: Ta, b: Tb) -> product: float
transpose_a: bool = false
transpose_b: bool = false
a_is_sparse: bool = false
b_is_sparse: bool = false
Ta: type in {float, bfloat16} = float
Tb: type in {float, bfloat16} = float
""",
    shape=_matmul_shape,
)
def _sparse_matmul(
    xp: ArrayNamespace, a: Array, b: Array, *, transpose_a: bool, transpose_b: bool
) -> Any:
    # The zeros are only a hint; the dense product gives the same result.
    wide = (t.astype(np.float32) for t in (a, b))
    return _matmul(xp, *wide, transpose_a=transpose_a, transpose_b=transpose_b)


@gradient("SparseMatMul")
def _sparse_matmul_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = (apply_op("Cast", t, DstT="float32") for t in op.inputs)
    product = apply_op(
        "MatMul",
        a,
        b,
        transpose_a=op.attrs["transpose_a"],
        transpose_b=op.attrs["transpose_b"],
    )
    grads = _matmul_grad(product.op, grad)
    return [apply_op("Cast", g, DstT=t.dtype) for g, t in zip(grads, op.inputs)]


@export("linalg.matmul", "matmul")
def matmul(
    a: object,
    b: object,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DTypeLike | None = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Any:
    """Return the product of two matrices, or of stacks of matrices.

    Shapes: a [..., m, k], b [..., k, n], product [..., m, n]; sizes before the last two
    broadcast.  `transpose_*` turns an operand, `adjoint_*` conjugates it too.
    output_type: the product's type where it is not the operands' (int8 gives int32).  `grad_*` say
    that an operand is a gradient, which changes nothing here.
    Raises: ValueError when an operand is both transposed and adjoint, or sizes cannot fit;
    InvalidArgumentError when they turn out not to fit.
    """
    for turn, adjoint, which in ((transpose_a, adjoint_a, "a"), (transpose_b, adjoint_b, "b")):
        if turn and adjoint:
            raise ValueError(f"only one of transpose_{which} and adjoint_{which} can be True")
    if output_type is None:
        a, b, name = convert_pair_below(name or "MatMul", a, b, names=("a", "b"))
    else:
        a, b = convert_to_tensor(a), convert_to_tensor(b)
        wide = as_dtype(output_type)
        if a.dtype != b.dtype or a.dtype != wide:
            return apply_op(
                "BatchMatMulV3",
                conj(a) if transpose_a else a,
                conj(b) if transpose_b else b,
                adj_x=transpose_a or adjoint_a,
                adj_y=transpose_b or adjoint_b,
                Tout=wide,
                name=name or "MatMul",
            )
    is_stack = any(t.dims is None or len(t.dims) > 2 for t in (a, b))
    if is_stack and all(t.dims is None or len(t.dims) >= 2 for t in (a, b)):
        if transpose_a:
            a = conj(a)
        if transpose_b:
            b = conj(b)
        return apply_op(
            "BatchMatMulV2",
            a,
            b,
            adj_x=transpose_a or adjoint_a,
            adj_y=transpose_b or adjoint_b,
            name=name or "MatMul",
        )
    return apply_op(
        "MatMul",
        conj(a) if adjoint_a else a,
        conj(b) if adjoint_b else b,
        transpose_a=transpose_a or adjoint_a,
        transpose_b=transpose_b or adjoint_b,
        name=name,
    )


@export("sparse_matmul")
def sparse_matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the float32 product of two matrices said to hold many zeros."""
    return apply_op(
        "SparseMatMul",
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )


@export("linalg.matvec")
@scoped("MatVec")
def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return matrix times vector.  Shapes: a [..., m, k], b [..., k], product [..., m]."""
    column = apply_op("ExpandDims", convert_to_tensor(b), -1)
    product = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return apply_op("Squeeze", product, squeeze_dims=[-1])
