"""Arrays: shapes, joining, gathering, scattering, slicing, searching, padding, transposing."""

from __future__ import annotations

from tideflow.ops.array.broadcasting import broadcast_dynamic_shape
from tideflow.ops.array.diagonals import (
    eye,
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
)
from tideflow.ops.array.gathering import (
    boolean_mask,
    gather_v2_grad,
    gather_v2_kernel,
    sparse_rows_grad,
)
from tideflow.ops.array.joining import concat, split, stack
from tideflow.ops.array.padding import pad
from tideflow.ops.array.searching import first_occurrences, unique
from tideflow.ops.array.shapes import reshape, shape
from tideflow.ops.array.slicing import getitem, is_slice, slice_bounds
from tideflow.ops.array.strided import strided_index
from tideflow.ops.array.transposing import matrix_transpose

__all__ = [
    "boolean_mask",
    "broadcast_dynamic_shape",
    "concat",
    "eye",
    "first_occurrences",
    "gather_v2_grad",
    "gather_v2_kernel",
    "getitem",
    "is_slice",
    "matrix_band_part",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_set_diag",
    "matrix_transpose",
    "pad",
    "reshape",
    "shape",
    "slice_bounds",
    "sparse_rows_grad",
    "split",
    "stack",
    "strided_index",
    "unique",
]
