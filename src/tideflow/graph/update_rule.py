"""How an op that changes variables is carried out: a record beside its kernel, the pure rule.

Kinds of rules, which tell how little memory an update has to touch (tideflow.ops.state.updates):
  elementwise  each element of the new values follows from those at its place
  rows         only the rows named by indices change
  in_place     the op brings its own function that changes an array
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.wire import errors


@dataclass(frozen=True, slots=True)
class Update:
    """How the values of an update op's variables are brought up to date.

    Attributes:
      op: the op's name.
      variables: how many of its first inputs are variables.
      is_ref: whether these are references; otherwise they are resource handles.
      rule: the pure rule on whole values; for kind "rows" the one on the selected rows.
      kind: "elementwise", "rows" or "in_place" (see the module's text).
      full: positions, among the other inputs, of those that are as large as the variable (for
        "rows": that have one row for each index); the rest are scalars.
      indices: position, among the other inputs, of indices that name whole rows; -1 without.
      change: change(arrays, others, **attrs) works on arrays in place, for kind "in_place".
      missing: the error class when a resource is not there.
    """

    op: str
    variables: int
    is_ref: bool
    rule: Callable[..., Any]
    kind: str = "elementwise"
    full: tuple[int, ...] = ()
    indices: int = -1
    change: Callable[..., None] | None = None
    missing: type[errors.OpError] = errors.NotFoundError

    def require_shapes(self, values: Sequence[Any], others: Sequence[Any]) -> None:
        """Raise InvalidArgumentError where shapes do not fit; values may be traced."""
        SHAPE_CHECKS[self.kind](self, list(values), list(others))


def _check_elementwise(update: Update, values: list[Any], others: list[Any]) -> None:
    shape = values[0].shape
    if len(values) > 1:
        for value in values:
            if value.shape != shape:
                raise _mismatch(update, "the variables have shapes", shape, value.shape)
    full = update.full
    for i, other in enumerate(others):
        if i in full:
            if other.shape != shape:
                raise _mismatch(update, "variable and update have shapes", shape, other.shape)
        elif other.ndim:
            raise errors.InvalidArgumentError(
                f"{update.op}: input {i + update.variables} must be a scalar; its shape is "
                f"{shapes.format_dims(other.shape)}"
            )


def _check_rows(update: Update, values: list[Any], others: list[Any]) -> None:
    shape = values[0].shape
    indices = others[update.indices]
    if not shape or indices.ndim != 1:
        raise _mismatch(
            update,
            "the variable needs rows and indices must be a vector: shapes",
            shape,
            indices.shape,
        )
    for value in values:
        if value.shape != shape:
            raise _mismatch(update, "the variables have shapes", shape, value.shape)
    for i, other in enumerate(others):
        if i in update.full and other.shape != (*indices.shape, *shape[1:]):
            raise _mismatch(
                update,
                "the rows to apply must have one row for each index: expected and found",
                (*indices.shape, *shape[1:]),
                other.shape,
            )
        if i not in update.full and i != update.indices and other.shape:
            raise errors.InvalidArgumentError(
                f"{update.op}: input {i + update.variables} must be a scalar; its shape is "
                f"{shapes.format_dims(other.shape)}"
            )
    # Accelerators skip rows outside: what is traced has no values yet.
    if isinstance(indices, np.ndarray):
        check_rows_inside(update.op, indices, shape[0])


def are_inside(indices: Any, size: int) -> bool:
    """Whether all of some integers lie in [0, size)."""
    if not indices.size:
        return True
    # One reduction finds both bounds: a negative number is huge without its sign.
    unsigned = indices.view(_UNSIGNED[indices.itemsize])
    return bool(np.maximum.reduce(unsigned, axis=None) < size)


_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def check_rows_inside(op_name: str, indices: Any, size: int) -> None:
    """Raise InvalidArgumentError for an index outside [0, size)."""
    if not are_inside(indices, size):
        outside = np.flatnonzero((indices.reshape(-1) < 0) | (indices.reshape(-1) >= size))[0]
        at = tuple(int(i) for i in np.unravel_index(outside, indices.shape))
        raise errors.InvalidArgumentError(
            f"{op_name}: indices{list(at)} = {indices.reshape(-1)[outside]} is not in [0, {size})"
        )


def _mismatch(update: Update, what: str, a: Any, b: Any) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"{update.op}: {what} {shapes.format_dims(a)} and {shapes.format_dims(b)}"
    )


def _check_nothing(update: Update, values: list[Any], others: list[Any]) -> None:
    """The op's own function checks before it changes anything."""


# By the kind of rule: check(update, values, others).
SHAPE_CHECKS: dict[str, Callable[[Update, list[Any], list[Any]], None]] = {
    "elementwise": _check_elementwise,
    "rows": _check_rows,
    "in_place": _check_nothing,
}
