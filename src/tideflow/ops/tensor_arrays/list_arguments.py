"""Reading the arguments of the TensorList ops.

Raises: InvalidArgumentError, everywhere, for what a list cannot do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.tensor_arrays.list_values import UNSET, TensorList, merge_shapes, zeros
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import Variant


def fail(what: str) -> errors.InvalidArgumentError:
    """Return the error for an op that was asked for what its list cannot do."""
    return errors.InvalidArgumentError(what)


def as_list(value: object, dtype: DType | None = None) -> TensorList:
    """Return the list that an input is, of the element type that the op names."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, TensorList):
        kind = value.type_name if isinstance(value, Variant) else type(value).__name__
        raise fail(f"the input handle is no TensorList but {kind or 'an empty variant'}")
    if dtype is not None and value.element_dtype is not dtype:
        raise fail(f"the list holds {value.element_dtype.name}; the op is for {dtype.name}")
    return value


def as_scalar(value: Array, what: str) -> int:
    """Return a number that must be a scalar."""
    if np.ndim(value):
        found = shapes.format_dims(np.shape(value))
        raise fail(f"{what} must be a scalar; its shape is {found}")
    return int(value)


def as_vector(value: Array, what: str) -> list[int]:
    """Return the numbers of a vector."""
    if np.ndim(value) != 1:
        found = shapes.format_dims(np.shape(value))
        raise fail(f"{what} must be a vector; its shape is {found}")
    found_list: list[int] = np.asarray(value).tolist()
    return found_list


def as_dims(value: Array) -> Dims:
    """Return the shape that an element_shape input stands for: a vector, or -1 for any."""
    if np.ndim(value) == 0:
        if int(value) != -1:
            raise fail(f"a scalar element_shape must be -1, for any shape; it is {int(value)}")
        return None
    sizes = as_vector(value, "element_shape")
    for size in sizes:
        if size < -1:
            raise fail(f"element_shape {sizes} has size {size}; a size is at least -1")
    return tuple(None if size < 0 else size for size in sizes)


def check_fits(dims: Dims, value: Any, what: str) -> None:
    """Require a value that elements of a shape allow."""
    if not shapes.compatible(dims, np.shape(value)):
        raise fail(
            f"{what} has shape {shapes.format_dims(np.shape(value))}; the list's elements have "
            f"{shapes.format_dims(dims)}"
        )


def rows_of(value: Any, dims: Dims) -> list[Any]:
    """Return the rows of a tensor as elements of a shape."""
    if not np.ndim(value):
        raise fail("the tensor must have at least one axis, along which it is cut; it is a scalar")
    if not shapes.compatible(dims, np.shape(value)[1:]):
        raise fail(
            f"a list of elements {shapes.format_dims(dims)} cannot be made of a tensor of shape "
            f"{shapes.format_dims(np.shape(value))}"
        )
    return list(value)


def element_dims(dims: Dims, items: Sequence[Any]) -> Dims:
    """Return an element's shape as far as dims and the elements that are set tell."""
    if dims is None or None in dims:
        for item in items:
            if item is not UNSET:
                dims = merge_shapes(dims, np.shape(item), "the list's elements")
    return dims


def full_dims(dims: Dims, what: str) -> tuple[int, ...]:
    """Require a shape that is known in full."""
    if dims is None or None in dims:
        raise fail(
            f"{what}, and the elements' shape {shapes.format_dims(dims)} is not known in full; "
            "give element_shape"
        )
    return tuple(size for size in dims if size is not None)


def unset_value(source: TensorList, dims: Dims) -> Any:
    """Return what an unset element reads as."""
    found = full_dims(element_dims(dims, source.items()), "an element that was never set is read")
    return zeros(found, source.element_dtype)


def stacked(items: Sequence[Any], dims: tuple[int, ...], dtype: DType) -> Any:
    """Return elements of one shape as one array; unset ones are zeros."""
    made = np.empty((len(items), *dims), dtype.as_numpy_dtype)
    zero: Any = UNSET
    for i, item in enumerate(items):
        if item is UNSET:
            zero = zeros(dims, dtype) if zero is UNSET else zero
            item = zero
        elif np.shape(item) != dims:
            raise fail(
                f"element {i} has shape {shapes.format_dims(np.shape(item))}; elements of shape "
                f"{shapes.format_dims(dims)} are stacked"
            )
        # A scalar object may come as an array of rank 0, which must not become an element.
        made[i] = item if dims or not isinstance(item, np.ndarray) else item[()]
    return made
