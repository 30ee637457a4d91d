"""The values of a TensorArray while a step runs.

Each element may be written once; a gradient array adds up what is written to an element.  An
element that nobody wrote reads as zeros if its shape is known.

Source: tensorflow/core/kernels/tensor_array.h, tensor_array_ops.cc.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_UNWRITTEN = object()
_CLEARED = object()


class TensorArrayStore:
    """The elements of one TensorArray.  Any thread may read and write.

    Attributes:
      name: unique in the step.
      dtype: element type of the elements.
      element_shape: what is known of their shape.
      clear_after_read: an element can be read once only.
      adds_up: a gradient array: writes to one element are summed.
    """

    def __init__(
        self,
        name: str,
        dtype: DType,
        size: int,
        element_shape: Dims,
        *,
        dynamic_size: bool,
        clear_after_read: bool,
        identical_element_shapes: bool,
        adds_up: bool = False,
        written_shapes: Sequence[Dims] = (),
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.element_shape = element_shape
        self.dynamic_size = dynamic_size
        self.clear_after_read = clear_after_read
        self.identical_element_shapes = identical_element_shapes
        self.adds_up = adds_up
        self.lock = threading.RLock()
        self._values: list[Any] = [_UNWRITTEN] * size
        # Shapes that outlive the values: zeros of these stand for gradients that never came.
        self._shapes: list[Dims] = [*written_shapes, *[None] * (size - len(written_shapes))]

    def __len__(self) -> int:
        return len(self._values)

    def _fail(self, what: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"TensorArray {self.name!r}: {what}")

    # ---- one element

    def write(self, index: int, value: Array) -> None:
        """Set an element, or add to it in a gradient array.

        Raises: InvalidArgumentError for an index outside an array of fixed size, an element that
        was written or read already, or another shape than the array's.
        """
        with self.lock:
            if index < 0 or (index >= len(self._values) and not self.dynamic_size):
                raise self._fail(
                    f"cannot write to index {index}; the size is {len(self._values)} and "
                    f"{'grows for' if self.dynamic_size else 'fixed, for'} indices from 0"
                )
            self._grow(index + 1)
            self._check_shape(index, np.shape(value))
            known = self._values[index]
            if known is _CLEARED:
                raise self._fail(f"cannot write to index {index}: it has been read already")
            if known is _UNWRITTEN:
                self._values[index] = value
            elif self.adds_up:
                self._values[index] = known + value
            else:
                raise self._fail(f"cannot write to index {index}: it has been written already")

    def _grow(self, size: int) -> None:
        missing = size - len(self._values)
        if missing > 0:
            self._values.extend([_UNWRITTEN] * missing)
            self._shapes.extend([None] * missing)

    def _check_shape(self, index: int, found: tuple[int, ...]) -> None:
        wanted = self._shapes[index] if self.adds_up else None
        for dims in (self.element_shape, wanted):
            if not shapes.compatible(dims, found):
                raise self._fail(
                    f"the value for index {index} has shape {shapes.format_dims(found)}; the "
                    f"elements' shape is {shapes.format_dims(dims)}"
                )
        self._shapes[index] = found
        if self.identical_element_shapes:
            self.element_shape = found

    def read(self, index: int) -> Any:
        """Return an element; clear it if the array is to be read once.

        Raises: InvalidArgumentError for an index outside, an element that was cleared, or one
        that was never written and whose shape is not known.
        """
        with self.lock:
            if not 0 <= index < len(self._values):
                raise self._fail(f"cannot read index {index}; the size is {len(self._values)}")
            value = self._values[index]
            if value is _CLEARED:
                raise self._fail(
                    f"cannot read index {index} again: it was cleared by the first read (make the "
                    "array with clear_after_read=False)"
                )
            if value is _UNWRITTEN:
                value = self._zeros(index)
                self._values[index] = value
            if self.clear_after_read:
                self._values[index] = _CLEARED
            return value

    def _zeros(self, index: int) -> Any:
        dims = shapes.merge(self.element_shape, self._shapes[index])
        if dims is None or None in dims:
            raise self._fail(
                f"index {index} was never written, and its shape {shapes.format_dims(dims)} is not "
                "known in full, so it cannot be zeros either; write it, or give element_shape"
            )
        if self.dtype is dtypes.string:
            return np.full(dims, b"", object)
        return np.zeros(dims, self.dtype.as_numpy_dtype)

    # ---- several elements

    def gather(self, indices: Sequence[int], element_shape: Dims) -> Any:
        """Return elements stacked along a new first axis.

        Raises: UnimplementedError for no indices and a shape that is not known;
        InvalidArgumentError for elements of different shapes; as read().
        """
        with self.lock:
            if not indices:
                dims = shapes.merge(self.element_shape, element_shape)
                if dims is None or None in dims:
                    raise errors.UnimplementedError(
                        f"TensorArray {self.name!r}: no elements, and their shape "
                        f"{shapes.format_dims(dims)} is not known in full, so there is nothing to "
                        "stack; give element_shape"
                    )
                return np.zeros((0, *dims), self.dtype.as_numpy_dtype)
            values = [self.read(index) for index in indices]
        first = np.shape(values[0])
        for index, value in zip(indices, values):
            if np.shape(value) != first:
                raise self._fail(
                    "elements of different shapes cannot be stacked: index "
                    f"{indices[0]} has {shapes.format_dims(first)}, "
                    f"index {index} has {shapes.format_dims(np.shape(value))}"
                )
        return self._stacked(values, first)

    def _stacked(self, values: list[Any], dims: tuple[int, ...]) -> Any:
        stacked = np.empty((len(values), *dims), self.dtype.as_numpy_dtype)
        for i, value in enumerate(values):
            # A string scalar may come as an array of rank 0, which must not become an element.
            stacked[i] = value if dims or not isinstance(value, np.ndarray) else value[()]
        return stacked

    def scatter(self, indices: Sequence[int], value: Array) -> None:
        """Write value[i] to element indices[i].  Raises: as write()."""
        if len(np.shape(value)) < 1 or len(value) != len(indices):
            raise self._fail(
                f"{len(indices)} indices for a value of shape {shapes.format_dims(np.shape(value))}"
            )
        with self.lock:
            for i, index in enumerate(indices):
                self.write(index, value[i])

    def concat(self, element_shape_except_0: Dims) -> tuple[Any, Any]:
        """Return all elements joined along their first axis, and their lengths (int64).

        Raises: UnimplementedError for no elements and a shape that is not known;
        InvalidArgumentError for scalars or elements that do not fit together; as read().
        """
        with self.lock:
            values = [self.read(index) for index in range(len(self._values))]
            if not values:
                tail = element_shape_except_0
                if tail is None or None in tail:
                    raise errors.UnimplementedError(
                        f"TensorArray {self.name!r}: no elements, and their shape is not known in "
                        "full, so there is nothing to join; give element_shape"
                    )
                return np.zeros((0, *tail), self.dtype.as_numpy_dtype), np.zeros(0, np.int64)
        for index, value in enumerate(values):
            if not np.shape(value) or np.shape(value)[1:] != np.shape(values[0])[1:]:
                raise self._fail(
                    "elements can be joined where all sizes but the first agree: index 0 has shape "
                    f"{shapes.format_dims(np.shape(values[0]))}, index {index} "
                    f"{shapes.format_dims(np.shape(value))}"
                )
        lengths = np.array([len(value) for value in values], np.int64)
        return np.concatenate(values), lengths

    def split(self, value: Any, lengths: Sequence[int]) -> None:
        """Write parts of a value, of the given lengths along its first axis, to elements 0, 1...

        Raises: InvalidArgumentError where the lengths do not add up or are not as many as the
        elements; as write().
        """
        if not np.shape(value) or sum(lengths) != len(value):
            raise self._fail(
                f"lengths {list(lengths)[:10]} add up to {sum(lengths)}; the value to split has "
                f"shape {shapes.format_dims(np.shape(value))}"
            )
        with self.lock:
            if not self.dynamic_size and len(lengths) != len(self._values):
                raise self._fail(f"{len(lengths)} lengths for {len(self._values)} elements")
            start = 0
            for index, length in enumerate(lengths):
                self.write(index, value[start : start + length])
                start += length

    def for_gradient(self, name: str, prepend: tuple[int, ...]) -> TensorArrayStore:
        """Return an array for the gradients of this one's elements.

        From now on this array keeps its size.
        Args:
          prepend: sizes in front of each element's own.
        """
        with self.lock:
            self.dynamic_size = False
            known = self.element_shape
            return TensorArrayStore(
                name,
                self.dtype,
                len(self._values),
                None if known is None else (*prepend, *known),
                dynamic_size=False,
                clear_after_read=self.clear_after_read,
                identical_element_shapes=self.identical_element_shapes,
                adds_up=True,
                written_shapes=[None if d is None else (*prepend, *d) for d in self._shapes],
            )
