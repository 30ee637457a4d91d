"""The first versions of the ops of diagonals, which TensorFlow still makes of older graphs.

Those of the first version know the main diagonal alone; those of the second stand every diagonal at
the left.

Source: tensorflow/core/ops/array_ops.cc, core/kernels/linalg/matrix_diag_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.array.diagonals import (
    matrix_diag_part_v3_kernel,
    matrix_diag_v3_kernel,
    matrix_set_diag_v3_kernel,
)

_MAIN = np.zeros((), np.int32)
_ANY_SIZE = np.full((), -1, np.int32)
_LEFT = "LEFT_LEFT"


def _diag_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given == ():
        raise ValueError("diagonal must have rank 1 or more")
    return [None if given is None else (*given, given[-1])]


def _part_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is None:
        return [None]
    if len(given) < 2:
        raise ValueError(f"input must have rank 2 or more; found {list(given)}")
    rows, columns = given[-2:]
    return [(*given[:-2], None if rows is None or columns is None else min(rows, columns))]


def _unknown(c: ShapeContext) -> list[Dims]:
    return [None]


@op("MatrixDiag(diagonal: T) -> output: T\nT: type", shape=_diag_shape)
def matrix_diag_kernel(xp: ArrayNamespace, diagonal: Array) -> Any:
    """Return matrices with the diagonals given and zeros elsewhere."""
    padding = np.zeros((), diagonal.dtype)
    if diagonal.dtype == object:
        padding[()] = b""
    return matrix_diag_v3_kernel(xp, diagonal, _MAIN, _ANY_SIZE, _ANY_SIZE, padding, align=_LEFT)


@op("MatrixDiagPart(input: T) -> diagonal: T\nT: type", shape=_part_shape)
def matrix_diag_part_kernel(xp: ArrayNamespace, input: Array) -> Any:
    """Return the main diagonals of matrices."""
    padding = np.zeros((), input.dtype)
    return matrix_diag_part_v3_kernel(xp, input, _MAIN, padding, align=_LEFT)


@op("MatrixSetDiag(input: T, diagonal: T) -> output: T\nT: type", shape=same_as(0))
def matrix_set_diag_kernel(xp: ArrayNamespace, input: Array, diagonal: Array) -> Any:
    """Return matrices with their main diagonals replaced."""
    return matrix_set_diag_v3_kernel(xp, input, diagonal, _MAIN, align=_LEFT)


@gradient("MatrixDiag")
def matrix_diag_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Take the diagonals of the gradient."""
    return [apply_op("MatrixDiagPart", grad)]


@gradient("MatrixDiagPart")
def matrix_diag_part_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Put the gradient on the diagonals of zeros."""
    return [apply_op("MatrixSetDiag", apply_op("ZerosLike", op.inputs[0]), grad)]


@gradient("MatrixSetDiag")
def matrix_set_diag_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Clear the gradient on the diagonals; give it to what replaced them."""
    cleared = apply_op("MatrixSetDiag", grad, apply_op("ZerosLike", op.inputs[1]))
    return [cleared, apply_op("MatrixDiagPart", grad)]


@op(
    """
    MatrixDiagV2(diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T)
        -> output: T
    T: type
    """,
    shape=_unknown,
    static=("k", "num_rows", "num_cols"),
)
def matrix_diag_v2_kernel(
    xp: ArrayNamespace, diagonal: Array, k: Array, rows: Array, columns: Array, padding: Array
) -> Any:
    """Return matrices with the diagonals given and padding elsewhere."""
    return matrix_diag_v3_kernel(xp, diagonal, k, rows, columns, padding, align=_LEFT)


@op(
    "MatrixDiagPartV2(input: T, k: int32, padding_value: T) -> diagonal: T\nT: type",
    shape=_unknown,
    static=("k",),
)
def matrix_diag_part_v2_kernel(xp: ArrayNamespace, x: Array, k: Array, padding: Array) -> Any:
    """Return the diagonals k of matrices."""
    return matrix_diag_part_v3_kernel(xp, x, k, padding, align=_LEFT)


@op(
    "MatrixSetDiagV2(input: T, diagonal: T, k: int32) -> output: T\nT: type",
    shape=same_as(0),
    static=("k",),
)
def matrix_set_diag_v2_kernel(xp: ArrayNamespace, x: Array, diagonal: Array, k: Array) -> Any:
    """Return matrices with their diagonals k replaced."""
    return matrix_set_diag_v3_kernel(xp, x, diagonal, k, align=_LEFT)


@gradient("MatrixDiagV2")
def matrix_diag_v2_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Take the diagonals of the gradient."""
    zero = np.zeros((), grad.dtype.as_numpy_dtype)
    return [apply_op("MatrixDiagPartV2", grad, op.inputs[1], zero), None, None, None, None]


@gradient("MatrixDiagPartV2")
def matrix_diag_part_v2_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Put the gradient on the diagonals of zeros."""
    zeros = apply_op("ZerosLike", op.inputs[0])
    return [apply_op("MatrixSetDiagV2", zeros, grad, op.inputs[1]), None, None]


@gradient("MatrixSetDiagV2")
def matrix_set_diag_v2_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Clear the gradient on the diagonals; give it to what replaced them."""
    _, diagonal, k = op.inputs
    zero = np.zeros((), grad.dtype.as_numpy_dtype)
    cleared = apply_op("MatrixSetDiagV2", grad, apply_op("ZerosLike", diagonal), k)
    return [cleared, apply_op("MatrixDiagPartV2", grad, k, zero), None]
