"""Diagonals and bands of matrices, in batches.

A band of diagonals is stored as rows of one length, from the uppermost diagonal to the lowest;
shorter ones are padded on the left or the right, as `align` says for those above the main diagonal
and those below it (RIGHT_LEFT: upper ones stand at the right, lower ones at the left).

Source: tensorflow/core/ops/array_ops.cc (MatrixDiagV3), core/kernels/linalg/matrix_diag_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.static_value import static_value
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError

# ---- bands


@op(
    """
    MatrixBandPart(input: T, num_lower: Tindex, num_upper: Tindex) -> band: T
    T: type
    Tindex: type in indices = int64
    """,
    shape=same_as(0),
    compiles=Compiles.ALWAYS,
)
def matrix_band_part_kernel(
    xp: ArrayNamespace, x: Array, num_lower: Array, num_upper: Array
) -> Any:
    """Return x with zeros outside a band; a negative number keeps all diagonals on that side.

    Raises: InvalidArgumentError below rank 2 or (by NumPy) for a band wider than the matrix.
    """
    if np.ndim(x) < 2:
        raise InvalidArgumentError(
            f"MatrixBandPart wants rank 2 or more; found shape {list(np.shape(x))}"
        )
    check_scalar(num_lower, "MatrixBandPart: num_lower")
    check_scalar(num_upper, "MatrixBandPart: num_upper")
    rows, columns = x.shape[-2:]
    if xp is np and (num_lower > rows or num_upper > columns):
        raise InvalidArgumentError(
            f"MatrixBandPart: a band of {num_lower} below and {num_upper} above exceeds the matrix "
            f"{[rows, columns]}"
        )
    offset = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = ((num_lower < 0) | (-offset <= num_lower)) & ((num_upper < 0) | (offset <= num_upper))
    return xp.where(kept, x, xp.zeros((), x.dtype))


@gradient("MatrixBandPart")
def matrix_band_part_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Take the same band of the gradient."""
    _, lower, upper = op.inputs
    return [apply_op("MatrixBandPart", grad, lower, upper), None, None]


@export("matrix_band_part", "linalg.band_part")
def matrix_band_part(
    input: TensorLike, num_lower: TensorLike, num_upper: TensorLike, name: str | None = None
) -> Tensor:
    """Return matrices with zeros outside a band of diagonals; negative numbers keep all.

    Args:
      input: [..., M, N], of any type.
      num_lower, num_upper: how many diagonals below and above the main one stay, int32 or int64
        scalars.
    Returns: a tensor of the shape and type of input.
    Raises: InvalidArgumentError for numbers beyond the matrix.
    """
    made: Tensor = apply_op("MatrixBandPart", input, num_lower, num_upper, name=name)
    return made


# ---- where the elements of diagonals stand


def _bounds(k: Any, rows: int, columns: int) -> tuple[int, int]:
    """Return the lowest and the highest diagonal that k names.  Raises: InvalidArgumentError."""
    numbers = k.reshape(-1).tolist()
    low, high = numbers[0] if numbers else 1, numbers[-1] if numbers else 0
    within = -rows < low <= high < columns or (low == high == 0)
    if len(numbers) not in (1, 2) or k.ndim > 1 or not within:
        raise InvalidArgumentError(
            f"k {numbers} names no diagonals of a matrix {[rows, columns]}, lowest first"
        )
    return low, high


def diagonal_length(rows: int, columns: int, low: int, high: int) -> int:
    """Return the length of the longest diagonal from low to high."""
    return min(rows + min(high, 0), columns - max(low, 0))


def _places(rows: int, columns: int, bounds: tuple[int, int], align: str) -> tuple[Any, Any, Any]:
    """Return for each place [diagonal, position] of a stored band its row and column in the matrix,
    and whether it stands for an element at all."""
    low, high = bounds
    length = diagonal_length(rows, columns, low, high)
    numbers = np.arange(high, low - 1, -1)[:, None]
    own = np.minimum(rows + np.minimum(numbers, 0), columns - np.maximum(numbers, 0))
    upper_right, lower_right = (part == "RIGHT" for part in align.split("_"))
    # As in TensorFlow, the main diagonal counts as one of the upper ones.
    at_right = np.where(numbers >= 0, upper_right, lower_right)
    position = np.arange(length)[None, :] - np.where(at_right, length - own, 0)
    valid = (position >= 0) & (position < own)
    row = np.where(valid, position - np.minimum(numbers, 0), 0)
    column = np.where(valid, position + np.maximum(numbers, 0), 0)
    return row, column, valid


# ---- MatrixDiagPartV3


def _diag_part_shape(c: ShapeContext) -> list[Dims]:
    given, k = c.inputs[0], c.value(1)
    if given is None:
        return [None]
    if len(given) < 2:
        raise ValueError(f"input must have rank 2 or more; its shape is {format_dims(given)}")
    if k is None:
        return [None]
    rows, columns = given[-2:]
    numbers = k.reshape(-1).tolist()
    low, high = numbers[0], numbers[-1]
    count = high - low + 1
    length = None
    if rows is not None and columns is not None:
        length = diagonal_length(rows, columns, low, high)
    band: tuple[int | None, ...] = (length,) if count == 1 else (count, length)
    return [(*given[:-2], *band)]


@op(
    """
    MatrixDiagPartV3(input: T, k: int32, padding_value: T) -> diagonal: T
    T: type
    align: string in {LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT, RIGHT_RIGHT} = 'RIGHT_LEFT'
    """,
    shape=_diag_part_shape,
    static=("k",),
)
def matrix_diag_part_v3_kernel(
    xp: ArrayNamespace, x: Array, k: Array, padding: Array, *, align: str
) -> Any:
    """Return diagonals low to high (k) of matrices; one alone is given without a dimension."""
    if np.ndim(x) < 2:
        raise InvalidArgumentError(f"MatrixDiagPartV3 wants matrices; found {list(np.shape(x))}")
    bounds = _bounds(k, x.shape[-2], x.shape[-1])
    row, column, valid = _places(x.shape[-2], x.shape[-1], bounds, align)
    taken = x[..., row, column]
    if not valid.all():
        taken = xp.where(valid, taken, padding)
    return taken[..., 0, :] if bounds[0] == bounds[1] else taken


@gradient("MatrixDiagPartV3")
def matrix_diag_part_v3_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Put the gradient on the diagonals of zeros."""
    given, k, _ = op.inputs
    zeros = apply_op("ZerosLike", given)
    return [apply_op("MatrixSetDiagV3", zeros, grad, k, align=op.attrs["align"]), None, None]


# ---- MatrixDiagV3


def _matrix_size(
    diagonal: tuple[int, ...], k: Any, num_rows: int, num_cols: int
) -> tuple[int, int, int, int]:
    """Return rows, columns, lowest and highest diagonal of the matrix to be made.

    Raises: InvalidArgumentError for sizes into which the diagonals do not fit.
    """
    numbers = k.reshape(-1).tolist()
    if k.ndim > 1 or len(numbers) not in (1, 2):
        raise InvalidArgumentError(f"k must be one or two diagonals; found {k.tolist()}")
    low, high = numbers[0], numbers[-1]
    length = diagonal[-1]
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if num_rows == -1 and num_cols == -1:
        rows = columns = max(least_rows, least_columns)
    elif num_rows == -1:
        rows, columns = least_rows, num_cols
    elif num_cols == -1:
        rows, columns = num_rows, least_columns
    else:
        rows, columns = num_rows, num_cols
    fits = rows >= least_rows and columns >= least_columns and low <= high
    if not fits or (rows != least_rows and columns != least_columns):
        raise InvalidArgumentError(
            f"diagonals {numbers} of length {length} do not fit a matrix {[num_rows, num_cols]}"
        )
    if low != high and (len(diagonal) < 2 or diagonal[-2] != high - low + 1):
        raise InvalidArgumentError(
            f"{high - low + 1} diagonals are wanted; the input has shape {list(diagonal)}"
        )
    return rows, columns, low, high


def _diag_shape(c: ShapeContext) -> list[Dims]:
    given, k, rows, columns = c.inputs[0], c.value(1), c.value(2), c.value(3)
    if given is None:
        return [None]
    if not given:
        raise ValueError("diagonal must have rank 1 or more")
    if k is None or rows is None or columns is None:
        return [None]
    head = given[:-1] if k.reshape(-1)[0] == k.reshape(-1)[-1] else given[:-2]
    if given[-1] is None:
        wanted = [None if n == -1 else int(n) for n in (rows.reshape(()), columns.reshape(()))]
        return [(*head, *wanted)]
    try:
        found = _matrix_size(
            tuple(-1 if n is None else n for n in (*head, *given[len(head) :])),
            k,
            int(rows.reshape(())),
            int(columns.reshape(())),
        )
    except InvalidArgumentError as error:
        raise ValueError(error.message) from None
    return [(*head, *found[:2])]


@op(
    """
    MatrixDiagV3(diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T) \
-> output: T
    T: type
    align: string in {LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT, RIGHT_RIGHT} = 'RIGHT_LEFT'
    """,
    shape=_diag_shape,
    static=("k", "num_rows", "num_cols"),
)
def matrix_diag_v3_kernel(
    xp: ArrayNamespace,
    diagonal: Array,
    k: Array,
    num_rows: Array,
    num_cols: Array,
    padding: Array,
    *,
    align: str,
) -> Any:
    """Return matrices with the diagonals given and padding elsewhere."""
    if np.ndim(diagonal) < 1:
        raise InvalidArgumentError("MatrixDiagV3 wants diagonals; found a scalar")
    for value, what in ((num_rows, "num_rows"), (num_cols, "num_cols"), (padding, "padding_value")):
        check_scalar(value, f"MatrixDiagV3: {what}")
    rows, columns, low, high = _matrix_size(
        diagonal.shape, k, int(num_rows.item()), int(num_cols.item())
    )
    head = diagonal.shape[:-1] if low == high else diagonal.shape[:-2]
    whole = xp.full((*head, rows, columns), padding, diagonal.dtype)
    return _with_diagonals(xp, whole, diagonal, (low, high), align)


def _with_diagonals(
    xp: ArrayNamespace, whole: Any, diagonal: Any, bounds: tuple[int, int], align: str
) -> Any:
    """Return matrices with their diagonals replaced."""
    if bounds[0] == bounds[1]:
        diagonal = diagonal[..., None, :]
    row, column, valid = _places(whole.shape[-2], whole.shape[-1], bounds, align)
    at = (..., row[valid], column[valid])
    values = diagonal[(..., *np.nonzero(valid))]
    if xp is not np:
        return whole.at[at].set(values)
    made = np.array(whole)
    made[at] = values
    return made


@gradient("MatrixDiagV3")
def matrix_diag_v3_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Take the diagonals of the gradient."""
    k = op.inputs[1]
    zero = np.zeros((), grad.dtype.as_numpy_dtype)
    part = apply_op("MatrixDiagPartV3", grad, k, zero, align=op.attrs["align"])
    return [part, None, None, None, None]


# ---- MatrixSetDiagV3


@op(
    """
    MatrixSetDiagV3(input: T, diagonal: T, k: int32) -> output: T
    T: type
    align: string in {LEFT_RIGHT, RIGHT_LEFT, LEFT_LEFT, RIGHT_RIGHT} = 'RIGHT_LEFT'
    """,
    shape=same_as(0),
    static=("k",),
)
def matrix_set_diag_v3_kernel(
    xp: ArrayNamespace, x: Array, diagonal: Array, k: Array, *, align: str
) -> Any:
    """Return matrices with diagonals low to high (k) replaced."""
    if np.ndim(x) < 2:
        raise InvalidArgumentError(f"MatrixSetDiagV3 wants matrices; found {list(np.shape(x))}")
    rows, columns = x.shape[-2:]
    low, high = _bounds(k, rows, columns)
    length = diagonal_length(rows, columns, low, high)
    band = (length,) if low == high else (high - low + 1, length)
    if np.shape(diagonal) != (*x.shape[:-2], *band):
        raise InvalidArgumentError(
            f"MatrixSetDiagV3: the diagonals have shape {list(np.shape(diagonal))}, expected "
            f"{[*x.shape[:-2], *band]}"
        )
    return _with_diagonals(xp, x, diagonal, (low, high), align)


@gradient("MatrixSetDiagV3")
def matrix_set_diag_v3_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Clear the gradient on the diagonals; give it to what replaced them."""
    _, diagonal, k = op.inputs
    align = op.attrs["align"]
    zero = np.zeros((), grad.dtype.as_numpy_dtype)
    part = apply_op("MatrixDiagPartV3", grad, k, zero, align=align)
    cleared = apply_op("MatrixSetDiagV3", grad, apply_op("ZerosLike", diagonal), k, align=align)
    return [cleared, part, None]


# ---- public functions


def _padding(value: TensorLike, tensor: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if tensor.dtype.base_dtype is dtypes.bool_:
        value = bool(value)
    return convert_to_tensor(value, tensor.dtype.base_dtype)


@export("matrix_diag", "linalg.diag")
def matrix_diag(
    diagonal: object,
    name: str = "diag",
    k: TensorLike = 0,
    num_rows: TensorLike = -1,
    num_cols: TensorLike = -1,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return matrices with the diagonals k (one, or lowest and highest) and padding elsewhere.

    Args:
      diagonal: [..., length] for one diagonal, [..., count, length] for several; of any type.
      k: one number, or the lowest and the highest; 0 is the main one, above it they are positive.
      num_rows, num_cols: sizes of the matrices; by default the least in which the diagonals fit.
      padding_value: a scalar of the type of diagonal.
      align: on which side shorter ones are padded: superdiagonals, then subdiagonals.
    Returns: [..., num_rows, num_cols].
    Raises: InvalidArgumentError for sizes in which the diagonals do not fit.
    """
    given = convert_to_tensor(diagonal)
    padding = _padding(padding_value, given)
    made: Tensor = apply_op(
        "MatrixDiagV3", given, k, num_rows, num_cols, padding, align=align, name=name
    )
    return made


@export("matrix_diag_part", "linalg.diag_part")
def matrix_diag_part(
    input: TensorLike,
    name: str = "diag_part",
    k: TensorLike = 0,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return the diagonals k (one, or lowest and highest) of matrices.

    Args:
      input: [..., M, N], of any type.
      k: one number, or the lowest and the highest; 0 is the main one, above it they are positive.
      padding_value: fills up shorter diagonals; a scalar of the type of input.
      align: on which side they are padded: superdiagonals, then subdiagonals.
    Returns: [..., length] for one diagonal, [..., count, length] for several.
    Raises: InvalidArgumentError for diagonals that the matrices lack.
    """
    given = convert_to_tensor(input)
    padding = _padding(padding_value, given)
    made: Tensor = apply_op("MatrixDiagPartV3", given, k, padding, align=align, name=name)
    return made


@export("matrix_set_diag", "linalg.set_diag")
def matrix_set_diag(
    input: TensorLike,
    diagonal: TensorLike,
    name: str = "set_diag",
    k: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return matrices with their diagonals k (one, or lowest and highest) replaced."""
    made: Tensor = apply_op("MatrixSetDiagV3", input, diagonal, k, align=align, name=name)
    return made


@export("eye", "linalg.eye")
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return identity matrices [*batch_shape, num_rows, num_columns].

    Args:
      num_rows, num_columns: numbers or scalars; as many columns as rows if None.
      batch_shape: sizes in front.
      dtype: the element type, float32 by default.
    """
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or "eye"):
        sizes = [num_rows, num_rows if num_columns is None else num_columns]
        known = [_known_size(size) for size in sizes]
        batch = [] if batch_shape is None else batch_shape
        if not isinstance(batch, Tensor) and any(isinstance(size, Tensor) for size in batch):
            batch = convert_to_tensor(batch, dtypes.int32)
        if None not in known and not isinstance(batch, Tensor):
            head = [int(size) for size in batch]
            matrix = np.eye(known[0] or 0, known[1], dtype=wanted.as_numpy_dtype)
            whole = np.broadcast_to(matrix, (*head, *matrix.shape))
            is_square = known[0] == known[1]
            return convert_to_tensor(np.array(whole), wanted, "diag" if is_square else "set_diag")
        rows, columns = (convert_to_tensor(size, dtypes.int32) for size in sizes)
        one, zero = (np.full((), v, wanted.as_numpy_dtype) for v in (1, 0))
        shortest = apply_op("Reshape", apply_op("Minimum", rows, columns), [1])
        head_shape = convert_to_tensor(batch, None if isinstance(batch, Tensor) else dtypes.int32)
        if head_shape.dtype is not dtypes.int32:
            head_shape = apply_op("Cast", head_shape, DstT=dtypes.int32)
        ones = apply_op("Fill", apply_op("ConcatV2", [head_shape, shortest], 0), one)
        made: Tensor = apply_op("MatrixDiagV3", ones, 0, rows, columns, zero, name="diag")
        return made


def _known_size(size: Any) -> int | None:
    if not isinstance(size, Tensor):
        return int(size)
    found = static_value(*size.edge)
    return None if found is None or isinstance(found, tuple) else int(found)


# ---- diagonals of whole tensors


def _diag_tensor_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    return [None if given is None else given * 2]


_DIAG_TYPES = "{bfloat16, half, float, double, int32, int64, complex64, complex128}"


@op(
    f"""
    Diag(diagonal: T) -> output: T
    T: type in {_DIAG_TYPES}
    """,
    shape=_diag_tensor_shape,
)
def diag_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return a tensor [*s, *s] that is x where both halves of the index agree, zero elsewhere."""
    sizes = np.shape(x)
    if not sizes:
        raise InvalidArgumentError("Diag wants rank 1 or more; found a scalar")
    return xp.diag(x.reshape(-1)).reshape(sizes + sizes)


def _diag_part_tensor_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is None:
        return [None]
    half = len(given) // 2
    if len(given) % 2 or not given or not _halves_agree(given, half):
        raise ValueError(f"shape {format_dims(given)} is not two equal halves")
    return [given[:half]]


def _halves_agree(sizes: tuple[int | None, ...], half: int) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(sizes[:half], sizes[half:]))


@op(
    f"""
    DiagPart(input: T) -> diagonal: T
    T: type in {_DIAG_TYPES}
    """,
    shape=_diag_part_tensor_shape,
)
def diag_part_kernel(xp: ArrayNamespace, x: Array) -> Any:
    """Return the elements of x where both halves of the index agree."""
    sizes = np.shape(x)
    half = sizes[: len(sizes) // 2]
    if half * 2 != sizes:
        raise InvalidArgumentError(f"DiagPart: shape {list(sizes)} is not two equal halves")
    count = int(np.prod(half, dtype=np.int64))
    return xp.diagonal(x.reshape(count, count)).reshape(half)


@gradient("Diag")
def diag_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Take the diagonal of the gradient."""
    return [apply_op("DiagPart", grad)]


@gradient("DiagPart")
def diag_part_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Put the gradient on a diagonal."""
    return [apply_op("Diag", grad)]


@export("diag", "linalg.tensor_diag")
def diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor with the values given where both halves of the index agree."""
    made: Tensor = apply_op("Diag", diagonal, name=name)
    return made


@export("diag_part", "linalg.tensor_diag_part")
def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the elements of a tensor where both halves of the index agree."""
    made: Tensor = apply_op("DiagPart", input, name=name)
    return made
