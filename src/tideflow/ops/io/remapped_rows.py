"""Rows and columns of a stored matrix in another order, for starting from another model's rows.

Source: tensorflow/core/kernels/load_and_remap_matrix_op.cc; behaviour of TensorFlow 2.21, which
reads no checkpoints of the first version here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.formats import open_checkpoint, path_of
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims, merge
from tideflow.graph.types import Array
from tideflow.wire import dtypes, errors


def _shape(c: ShapeContext) -> list[Dims]:
    for what in ("ckpt_path", "old_tensor_name"):
        with_rank(c.shape(what), 0, what)
    merge(c.shape("row_remapping"), (c.attrs["num_rows"],))
    for what in ("col_remapping", "initializing_values"):
        with_rank(c.shape(what), 1, what)
    return [(c.attrs["num_rows"], c.attrs["num_cols"])]


def _one(value: Any, what: str) -> Any:
    if np.size(value) != 1:
        raise errors.InvalidArgumentError(
            f"The `{what}` tensor must have exactly one element, got tensor of shape "
            f"{list(np.shape(value))}"
        )
    return np.asarray(value, object).reshape(())


def _check_remapping(remapping: Any, what: str) -> Any:
    """Return where new rows or columns were, -1 for nowhere."""
    if np.ndim(remapping) != 1:
        raise errors.InvalidArgumentError(
            f"The `{what}` tensor must be 1-D, got a tensor of shape {list(np.shape(remapping))}"
        )
    olds, firsts, counts = np.unique(remapping, return_index=True, return_counts=True)
    for old, first, count in zip(olds.tolist(), firsts.tolist(), counts.tolist()):
        if old >= 0 and count > 1:
            second = int(np.flatnonzero(remapping == old)[1])
            raise errors.UnimplementedError(
                f"Old ID {old} is mapped to both new ID {first} and {second}, which is not "
                "supported."
            )
    return np.maximum(remapping, -1)


def _read(path: str, name: str) -> Any:
    with open_checkpoint(path) as reader:
        if name not in reader:
            raise errors.NotFoundError(f"Key {name} not found in checkpoint {path}")
        dtype, shape = reader.describe(name)
        if dtype is not dtypes.float32:
            raise errors.InvalidArgumentError(
                f"Tensor {name} has invalid type {dtype.name} instead of expected type float"
            )
        if len(shape) != 2:
            raise errors.InvalidArgumentError(
                f"Tensor {name} has shape {list(shape)} of invalid rank {len(shape)} instead of "
                "expected shape of rank 2."
            )
        return np.asarray(reader.read(name))


@op(
    """
    LoadAndRemapMatrix(
        ckpt_path: string, old_tensor_name: string, row_remapping: int64, col_remapping: int64,
        initializing_values: float
    ) -> output_matrix: float
    num_rows: int >= 0
    num_cols: int >= 1
    max_rows_in_memory: int = -1
    """,
    shape=_shape,
    stateful=True,
)
async def load_and_remap_matrix(
    ctx: KernelContext,
    ckpt_path: Array,
    old_tensor_name: Array,
    row_remapping: Array,
    col_remapping: Array,
    initializing_values: Array,
    *,
    num_rows: int,
    num_cols: int,
    max_rows_in_memory: int,
) -> Any:
    """Return a matrix [num_rows, num_cols] of what a checkpoint's has elsewhere.

    Row i is the old row row_remapping[i], and so with columns, which are the old ones where
    col_remapping is empty.  What was nowhere (-1) is filled with initializing_values, in order;
    they must be as many.
    Raises: NotFoundError; InvalidArgumentError for sizes that do not fit; UnimplementedError for an
    old row or column that is wanted twice.
    """
    path = path_of(_one(ckpt_path, "ckpt_path"), "ckpt_path")
    name = _one(old_tensor_name, "old_tensor_name").item().decode("utf-8", "surrogateescape")
    rows = _check_remapping(row_remapping, "row_remapping")
    if len(rows) != num_rows:
        raise errors.InvalidArgumentError(
            f"Size of row_remapping is {len(rows)} instead of being equal to num_rows={num_rows}"
        )
    cols = _check_remapping(col_remapping, "col_remapping")
    if len(cols) not in (0, num_cols):
        raise errors.InvalidArgumentError(
            f"Provided col_remapping, but its size is {len(cols)} instead of being equal to "
            f"num_cols={num_cols}"
        )

    def work(flag: StopFlag) -> Any:
        return _read(path, name)

    old = await run_blocking(FILES, work)
    if not len(cols):
        cols = np.arange(num_cols)
        if old.shape[1] != num_cols:
            raise errors.InvalidArgumentError(
                f"Tensor {name} has shape {list(old.shape)}, where the size of its 2nd dimension "
                f"is {old.shape[1]} instead of being equal to num_cols={num_cols}"
            )
    _check_inside(rows, old.shape[0], "row_remapping", errors.InternalError)
    _check_inside(cols, old.shape[1], "col_remapping", errors.InvalidArgumentError)
    return _filled(old, rows, cols, np.asarray(initializing_values, np.float32).reshape(-1))


def _check_inside(wanted: Any, size: int, what: str, error: type[errors.OpError]) -> None:
    if len(wanted) and wanted.max() >= size:
        raise error(f"{what} holds {int(wanted.max())}, which is out of bounds: there are {size}")


def _filled(old: Any, rows: Any, cols: Any, given: Any) -> Any:
    missing = (rows < 0)[:, None] | (cols < 0)
    count = int(missing.sum())
    if len(given) < count:
        raise errors.InvalidArgumentError(
            f"initializing_values contained {len(given)} elements, but more missing values remain."
        )
    if len(given) > count:
        raise errors.InvalidArgumentError(
            f"initializing_values contained {len(given)} elements, but only {count} elements were "
            "used to fill in missing values."
        )
    made = np.empty(missing.shape, np.float32)
    made[missing] = given
    made[~missing] = old[np.ix_(rows[rows >= 0], cols[cols >= 0])].reshape(-1)
    return made


not_differentiable("LoadAndRemapMatrix")
