"""The value of a TensorList: an immutable list of tensors that is cheap to change a copy of.

The versions of a list share one Python list.  The newest one owns it; each older one knows the
newer one and what to undo.  So a loop that pushes, pops or sets one element at a time does work
for one element, not for the whole list; whoever reads an older version makes that one the owner.

Source: H. G. Baker, Shallow Binding Makes Functional Arrays Fast, 1991;
tensorflow/core/kernels/tensor_list.{h,cc} for what travels.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph import shapes
from tideflow.graph.shapes import Dims
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.fields import varint
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.ids import signed64
from tideflow.wire.shapes import decode_shape, encode_shape
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

TYPE_NAME = "tensorflow::TensorList"

# Stands for an element that was never set.
UNSET = None


class TensorList:
    """A list of tensors of one type.  Any thread may read it; changes give other lists.

    Attributes:
      element_dtype: type of the elements.
      element_shape: what is known of their shape.
      most: how many elements pushing may make; -1 for any number.
    """

    __slots__ = ("__weakref__", "_items", "_lock", "_newer", "_undo", "element_dtype",
                 "element_shape", "most")  # fmt: skip

    def __init__(
        self, element_dtype: DType, element_shape: Dims, items: Iterable[Any] = (), most: int = -1
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.most = most
        self._lock = threading.Lock()
        self._items: list[Any] | None = list(items)
        self._newer: TensorList | None = None
        # What makes this list of the newer one: where, how many go, what comes in their place.
        self._undo: tuple[int, int, list[Any]] = (0, 0, [])

    def _own(self) -> list[Any]:
        """Return the shared list in the state of this version.  The lock is held."""
        if self._items is not None:
            return self._items
        chain: list[TensorList] = []
        newest: TensorList = self
        while newest._items is None:
            chain.append(newest)
            assert newest._newer is not None
            newest = newest._newer
        items = newest._items
        for older in reversed(chain):
            start, count, values = older._undo
            replaced = items[start : start + count]
            items[start : start + count] = values
            newest._items, newest._newer = None, older
            newest._undo = (start, len(values), replaced)
            older._items, older._newer = items, None
            newest = older
        return items

    def changed(self, start: int, count: int, values: Sequence[Any]) -> TensorList:
        """Return the list with `count` elements from `start` replaced by `values`."""
        with self._lock:
            items = self._own()
            replaced = items[start : start + count]
            items[start : start + count] = values
            made = TensorList.__new__(TensorList)
            made.element_dtype = self.element_dtype
            made.element_shape = self.element_shape
            made.most = self.most
            made._lock = self._lock
            made._items = items
            made._newer = None
            made._undo = (0, 0, [])
            self._items, self._newer = None, made
            self._undo = (start, len(values), replaced)
        return made

    def size(self) -> int:
        """Return how many elements there are, set or not."""
        with self._lock:
            return len(self._own())

    def item(self, index: int) -> Any:
        """Return one element, UNSET if it is; the index must be inside."""
        with self._lock:
            return self._own()[index]

    def items(self) -> list[Any]:
        """Return a list of all elements."""
        with self._lock:
            return list(self._own())

    # ---- what ZerosLike and AddN ask of a variant

    def zeros_like(self) -> TensorList:
        """Return a list of zeros like the elements; those not set stay so."""
        dtype = self.element_dtype
        zeros = [UNSET if item is UNSET else _zeros_like(item, dtype) for item in self.items()]
        return TensorList(dtype, self.element_shape, zeros)

    def __add__(self, other: TensorList) -> TensorList:
        """Return the sums of the elements.

        Raises: InvalidArgumentError for lists of different types or lengths.
        """
        if not isinstance(other, TensorList):
            return NotImplemented
        mine, its = self.items(), other.items()
        if self.element_dtype is not other.element_dtype or len(mine) != len(its):
            raise errors.InvalidArgumentError(
                f"cannot add a TensorList of {len(mine)} {self.element_dtype.name} to one of "
                f"{len(its)} {other.element_dtype.name}; types and lengths must agree"
            )
        sums = [y if x is UNSET else x if y is UNSET else x + y for x, y in zip(mine, its)]
        shape = merge_shapes(self.element_shape, other.element_shape, "lists to be added")
        return TensorList(self.element_dtype, shape, sums)

    # ---- travelling

    def to_variant(self) -> Variant:
        """Return the form in which TensorFlow's tasks exchange lists."""
        items = self.items()
        unset = [index for index, item in enumerate(items) if item is UNSET]
        numbers = [len(unset), *unset, self.element_dtype.number, self.most % 2**64]
        shape = encode_shape(self.element_shape).SerializeToString()
        metadata = b"".join(varint(number) for number in numbers) + shape
        tensors = [encode_tensor(i, self.element_dtype) for i in items if i is not UNSET]
        return Variant(TYPE_NAME, metadata, tuple(tensors))

    @classmethod
    def from_variant(cls, variant: Variant) -> TensorList:
        """Return the list that arrived.  Raises: InvalidArgumentError for a malformed one."""
        try:
            count, at = _read_varint(variant.metadata, 0)
            if count > len(variant.metadata):
                raise IndexError
            unset = []
            for _ in range(count):
                index, at = _read_varint(variant.metadata, at)
                unset.append(index)
            number, at = _read_varint(variant.metadata, at)
            most, at = _read_varint(variant.metadata, at)
            shape_pb = pb.TensorShapeProto.FromString(variant.metadata[at:])
            dtype = as_dtype(number)
            if dtype.is_ref_dtype:
                raise IndexError
        except (IndexError, DecodeError, TypeError):
            raise errors.InvalidArgumentError(
                f"a variant of type {TYPE_NAME} came with metadata that does not say how many "
                f"elements are unset, their type and shape: {variant.metadata[:40]!r}"
            ) from None
        others = {t.dtype for t in variant.tensors} - {dtype.number}
        if others:
            raise errors.InvalidArgumentError(
                f"a TensorList of {dtype.name} came with elements of types {sorted(others)}"
            )
        total = len(variant.tensors) + count
        arrived = iter([decode_tensor(tensor_pb) for tensor_pb in variant.tensors])
        missing = set(unset)
        if len(missing) != count or any(index >= total for index in missing):
            raise errors.InvalidArgumentError(
                f"a TensorList of {total} elements came with unset elements {unset[:10]}"
            )
        items = [UNSET if i in missing else next(arrived) for i in range(total)]
        return cls(dtype, decode_shape(shape_pb), items, signed64(most))


register_variant(TYPE_NAME, TensorList.from_variant)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError


def merge_shapes(a: Dims, b: Dims, what: str) -> Dims:
    """Return what two shapes say together.  Raises: InvalidArgumentError where they disagree."""
    try:
        return shapes.merge(a, b)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"the shapes of {what} do not fit: {shapes.format_dims(a)} and {shapes.format_dims(b)}"
        ) from None


def zeros(dims: Sequence[int], dtype: DType) -> Any:
    """Return zeros, or empty strings.  Raises: InvalidArgumentError for a type without zeros."""
    if dtype is dtypes.string:
        return np.full(dims, b"", object)
    if dtype.as_numpy_dtype is object:
        raise errors.InvalidArgumentError(
            f"an element of type {dtype.name} was never set, and {dtype.name} has no zeros"
        )
    return np.zeros(dims, dtype.as_numpy_dtype)


def _zeros_like(item: Any, dtype: DType) -> Any:
    if dtype is dtypes.variant and not isinstance(item, np.ndarray):
        return item.zeros_like() if hasattr(item, "zeros_like") else item
    return zeros(np.shape(item), dtype)
