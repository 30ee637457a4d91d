"""Where a variable's value is kept, whichever kind of variable it is.

Rule 1: a value that someone has read never changes.  An update stores a new array, or changes the
array in place when it can prove that nobody else holds it.
Rule 2: writers hold the lock.  Readers take no lock: while an array is changed in place it is
taken out of the cell, and a reader that finds the cell empty waits for the lock and looks again.
Source: tensorflow/core/framework/resource_var.h (copy on read)
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.node_resources import Recipe
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_orders = itertools.count()

# The shared_name that asks for a new variable each time the op runs, freed with its last handle.
ANONYMOUS_NAME = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


class VariableState:
    """The cell of one variable, of either kind.

    Attributes:
      name, container: how it is found again.
      dtype: its element type.
      dims: its declared shape.
      value: the array, of NumPy or of a compiler's device (which it may take back, so hold it only
        to call `read`); None while it is uninitialised or being changed.
      lock: held by whoever changes the cell.
      order: in which several locks are taken.
    """

    __slots__ = ("__weakref__", "container", "dims", "dtype", "lock", "name", "order", "value")

    def __init__(self, name: str, dtype: DType, dims: Dims, container: str = "") -> None:
        self.name = name
        self.container = container
        self.dtype = dtype
        self.dims = dims
        self.value: Any = None
        self.lock = threading.Lock()
        self.order = next(_orders)

    def read(self) -> Any:
        """Return the value; it will never change.

        Raises: FailedPreconditionError when the variable has none yet.
        """
        value = self.value
        if value is None:
            with self.lock:
                value = self.value
            if value is None:
                raise uninitialized(self.name, self.container)
        return value if type(value) is np.ndarray else as_numpy(value)

    def is_initialized(self) -> bool:
        """Whether there is a value."""
        if self.value is not None:
            return True
        with self.lock:
            return self.value is not None

    def assign(self, value: Array) -> None:
        """Replace the value.

        A view is copied: what is behind it may belong to somebody who changes it, a caller who
        fed it or a pool of buffers.
        """
        if type(value) is np.ndarray and value.base is not None:
            value = np.array(value)
        with self.lock:
            self.value = value

    def describe(self) -> tuple[str, str, int]:
        """Return element type, shape and size in bytes, for a status report."""
        with self.lock:
            value = self.value
        if value is None:
            return self.dtype.name, shapes.format_dims(self.dims) + " uninitialized", 0
        return self.dtype.name, shapes.format_dims(np.shape(value)), getattr(value, "nbytes", 0)


class ResourceVariableState(VariableState):
    """The cell of a resource variable, found through a handle."""

    type_name: ClassVar[str] = "tensorflow::Var"

    __slots__ = ()

    def recipe(self) -> Recipe:
        """Return how to make a variable of this value elsewhere.

        Raises: FailedPreconditionError when it has none yet.
        """
        shape = TensorShape(self.dims)
        attrs = {"dtype": self.dtype, "shape": shape, "shared_name": ANONYMOUS_NAME}
        fill = {"dtype": self.dtype}
        return Recipe("VarHandleOp", attrs, "AssignVariableOp", fill, [(self.read(), self.dtype)])


class RefVariableState(VariableState):
    """The cell of a reference variable; it is itself the run-time value of a reference."""

    type_name: ClassVar[str] = "tensorflow::LegacyVar"

    __slots__ = ()


def uninitialized(name: str, container: str) -> errors.FailedPreconditionError:
    """Return the error for a use of a variable that has no value.

    TensorFlow's session managers know it by the word "uninitialized".
    """
    return errors.FailedPreconditionError(
        f"Attempting to use uninitialized value {name}: variable {name!r} (container "
        f"{container!r}) has no value; it was not initialized, or was destroyed. Run its "
        "initializer first, session.run(tf.global_variables_initializer()) for all"
    )


def read_handle(ctx: KernelContext, handle: Any, dtype: DType) -> Any:
    """Return the value of a resource variable.

    Raises: FailedPreconditionError when it has none; InvalidArgumentError for another type.
    """
    try:
        state = ctx.resources.lookup(handle, ResourceVariableState)
    except errors.NotFoundError:
        raise uninitialized(handle.name, handle.container) from None
    value = state.value
    if type(value) is not np.ndarray:
        value = state.read()
    if state.dtype is not dtype:
        raise wrong_dtype(state, dtype)
    return value


def wrong_dtype(state: VariableState, dtype: DType) -> errors.InvalidArgumentError:
    """Return the error for a use of a variable as if it had another type."""
    return errors.InvalidArgumentError(
        f"variable {state.name!r} holds {state.dtype.name}; the operation wants {dtype.name}"
    )


def in_lock_order(states: Sequence[VariableState]) -> Sequence[VariableState]:
    """Return the variables, each once, in the order in which all threads lock them."""
    last = -1
    for state in states:
        if state.order <= last:
            return sorted(set(states), key=_order)
        last = state.order
    return states


def _order(state: VariableState) -> int:
    return state.order


class OwnMemory:
    """Another library's memory that a single array of NumPy, made from this, has for its own.

    Args:
      view: an array of the memory, in rows one after the other; it keeps the memory.
      address: where it begins.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_view")

    def __init__(self, view: Any, address: int) -> None:
        self._view = view
        self.__array_interface__ = {
            "data": (address, False),
            "shape": view.shape,
            "typestr": view.dtype.str,
            "version": 3,
        }


def held_only_here(arrays: list[Any]) -> list[bool]:
    """Tell of each array whether the list is all that holds it, so that it may be changed.

    The caller must have taken the arrays out of their cells and keep no names for them.  Views,
    exported buffers and read-only arrays are never free to change.
    """
    return [
        sys.getrefcount(array) == _REFS_WHEN_ALONE
        and type(array) is np.ndarray
        and (array.base is None or isinstance(array.base, OwnMemory))
        and array.flags.writeable
        for array in arrays
    ]


def _count_when_alone() -> int:
    """Return what sys.getrefcount gives inside held_only_here for an array held by a list."""
    counts = [sys.getrefcount(array) for array in [np.empty(1)]]
    return counts[0]


_REFS_WHEN_ALONE = _count_when_alone()


def as_numpy(value: Array) -> Any:
    """Return a run-time value for use with NumPy; arrays of a device come without a copy."""
    return value if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value)
