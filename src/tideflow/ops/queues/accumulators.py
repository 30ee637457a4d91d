"""Accumulators of gradients: what they promise, without ops or kernels around them.

1. A gradient whose local step is below the accumulator's step is stale, and is dropped.
2. A take waits until as many gradients as it asks for have come, gives their sum or mean, and adds
   one to the step.  Takes are served in the order in which they came.
3. Any thread may add; takes wait on the event loop.

Source: tensorflow/core/kernels/conditional_accumulator_base.cc, conditional_accumulator.h,
sparse_conditional_accumulator.h.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


class _Take:
    """A take that waits.  `result` is set, under the lock, before `arrived` is told."""

    __slots__ = ("arrived", "loop", "required", "result")

    def __init__(self, required: int) -> None:
        self.required = required
        self.loop = asyncio.get_running_loop()
        self.arrived: asyncio.Future[None] = self.loop.create_future()
        self.result: Any = None

    def tell(self) -> None:
        """Wake up who waits; called in the loop."""
        if not self.arrived.done():
            self.arrived.set_result(None)


class Accumulator(ABC):
    """Adds up gradients of one kind; subclasses say how.

    Attributes:
      count: gradients added since the last take.
      step: gradients of older steps are dropped.
    """

    kind = "ConditionalAccumulator"

    def __init__(self, name: str, dtype: DType, dims: Dims, is_mean: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.is_mean = is_mean
        self.count = 0
        self.step = 0
        self._lock = threading.Lock()
        self._takes: deque[_Take] = deque()

    def describe(self) -> tuple[str, str, int]:
        """Return element type, shape and bytes, for status reports."""
        return self.dtype.name, shapes.format_dims(self.dims), self._size_bytes()

    def set_step(self, step: int) -> None:
        """Drop, from now on, gradients of steps before this one."""
        with self._lock:
            self.step = step

    def add(self, local_step: int, *gradient: Any) -> None:
        """Add a gradient, unless it is stale.

        Raises: InvalidArgumentError for one of another shape.
        """
        with self._lock:
            if local_step < self.step:
                return
            self._check(*gradient)
            self._add(*gradient)
            self.count += 1
            while self._takes and self.count >= self._takes[0].required:
                take = self._takes.popleft()
                take.result = self._take_now()
                take.loop.call_soon_threadsafe(take.tell)

    async def take(self, required: int) -> Any:
        """Return the mean or sum of the gradients once enough are there, and begin anew.

        Raises: InvalidArgumentError when none are required.
        """
        if required <= 0:
            raise errors.InvalidArgumentError(
                f"num_required must be positive; it is {required} for {self._label}"
            )
        with self._lock:
            if not self._takes and self.count >= required:
                return self._take_now()
            take = _Take(required)
            self._takes.append(take)
        try:
            await take.arrived
        except asyncio.CancelledError:
            with self._lock:
                if take in self._takes:
                    self._takes.remove(take)
            raise
        return take.result

    def _take_now(self) -> Any:
        self.step += 1
        result = self._result()
        self.count = 0
        return result

    @property
    def _label(self) -> str:
        return f"{self.kind} {self.name!r}"

    def _refuse(self, what: str, expected: object, found: object) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(
            f"Shape mismatch in {self._label}: expected {what} {expected}, got {found}"
        )

    # ---- how gradients are added

    @abstractmethod
    def _size_bytes(self) -> int:
        """Return how much memory what is added takes."""

    @abstractmethod
    def _check(self, *gradient: Any) -> None:
        """Raise InvalidArgumentError for a gradient that does not fit."""

    @abstractmethod
    def _add(self, *gradient: Any) -> None:
        """Add a gradient that was checked."""

    @abstractmethod
    def _result(self) -> Any:
        """Return the sum or mean, which is the caller's from now on."""


class DenseAccumulator(Accumulator):
    """Adds up gradients that are whole tensors."""

    def __init__(self, name: str, dtype: DType, dims: Dims, is_mean: bool) -> None:
        super().__init__(name, dtype, dims, is_mean)
        self._sum: Any = None

    def _size_bytes(self) -> int:
        return 0 if self._sum is None else int(self._sum.nbytes)

    def _check(self, *gradient: Any) -> None:
        found = np.shape(gradient[0])
        expected = self.dims if self._sum is None else self._sum.shape
        if not shapes.compatible(expected, found):
            raise self._refuse("shape", shapes.format_dims(expected), shapes.format_dims(found))

    def _add(self, *gradient: Any) -> None:
        if self._sum is None:
            self._sum = np.array(gradient[0])
        else:
            np.add(self._sum, gradient[0], out=self._sum)

    def _result(self) -> Any:
        total, self._sum = self._sum, None
        if self.is_mean:
            np.divide(total, np.asarray(self.count).astype(total.dtype), out=total)
        return total


class SparseAccumulator(Accumulator):
    """Adds up gradients that are slices of a tensor: (indices, values, shape or None).

    A mean is taken of each slice over the gradients that have it.  Indices should ascend, as those
    of both gradients are walked side by side; others may come out in several places.
    """

    kind = "SparseConditionalAccumulator"

    def __init__(self, name: str, dtype: DType, dims: Dims, is_mean: bool) -> None:
        super().__init__(name, dtype, dims, is_mean)
        self._indices: Any = None
        self._values: Any = None
        self._counts: Any = None

    def _size_bytes(self) -> int:
        return 0 if self._values is None else int(self._values.nbytes + self._indices.nbytes)

    def _check(self, *gradient: Any) -> None:
        indices, values, shape = gradient
        if np.ndim(indices) != 1:
            raise self._refuse("indices of rank", 1, np.ndim(indices))
        if not np.ndim(values) or len(values) != len(indices):
            raise self._refuse(
                "values of first size", len(indices), shapes.format_dims(np.shape(values))
            )
        declared = self.dims or ()
        if shape is not None:
            sizes = np.reshape(shape, -1).tolist()
            if len(declared) > len(sizes):
                raise self._refuse("a shape of rank at least", len(declared), len(sizes))
            for axis, (size, found) in enumerate(zip(declared, sizes)):
                if size is not None and size != found:
                    raise self._refuse(f"size of axis {axis}", size, found)
        limit = declared[0] if declared else None
        if limit is not None and len(indices) and indices.max() >= limit:
            raise self._refuse("indices below", limit, int(indices.max()))
        self._check_rows(declared, np.shape(values))

    def _check_rows(self, declared: tuple[int | None, ...], found: tuple[int, ...]) -> None:
        if self._values is not None:
            expected: tuple[int | None, ...] = self._values.shape
            if len(expected) != len(found):
                raise self._refuse("values of rank", len(expected), len(found))
        else:
            expected = declared
            if len(expected) > len(found):
                raise self._refuse("values of rank at least", len(expected), len(found))
        for axis, (size, other) in enumerate(zip(expected, found)):
            if axis and size is not None and size != other:
                raise self._refuse(f"values of size, on axis {axis},", size, other)

    def _add(self, *gradient: Any) -> None:
        indices, values, _ = gradient
        if self._values is None:
            self._indices = np.array(indices)
            self._values = np.array(values)
            self._counts = np.ones(len(indices), np.int64)
            return
        mine, theirs, joined = _merge(self._indices, indices)
        total = np.zeros((len(joined), *self._values.shape[1:]), self._values.dtype)
        counts = np.zeros(len(joined), np.int64)
        total[mine] = self._values
        counts[mine] = self._counts
        total[theirs] += values
        counts[theirs] += 1
        self._indices, self._values, self._counts = joined, total, counts

    def _result(self) -> Any:
        indices, values, counts = self._indices, self._values, self._counts
        self._indices = self._values = self._counts = None
        if self.is_mean:
            counts = counts.astype(values.dtype).reshape(-1, *[1] * (values.ndim - 1))
            np.divide(values, counts, out=values)
        first = -1 if not self.dims or self.dims[0] is None else self.dims[0]
        return indices, values, np.array([first, *values.shape[1:]], np.int64)


def _merge(first: Array, second: Array) -> tuple[Any, Any, Any]:
    """Walk two vectors side by side: where the entries of each go, and what stands there."""
    if _ascends(first) and _ascends(second):
        joined = np.union1d(first, second)
        return np.searchsorted(joined, first), np.searchsorted(joined, second), joined
    a, b = first.tolist(), second.tolist()
    mine: list[int] = []
    theirs: list[int] = []
    joined_list: list[int] = []
    i = j = 0
    while i < len(a) or j < len(b):
        at = len(joined_list)
        take_a = j == len(b) or (i < len(a) and a[i] <= b[j])
        take_b = i == len(a) or (j < len(b) and b[j] <= a[i])
        joined_list.append(a[i] if take_a else b[j])
        if take_a:
            mine.append(at)
            i += 1
        if take_b:
            theirs.append(at)
            j += 1
    return np.array(mine, np.int64), np.array(theirs, np.int64), np.array(joined_list, np.int64)


def _ascends(indices: Array) -> bool:
    return len(indices) < 2 or bool((np.diff(indices) > 0).all())
