"""What `for` goes over in a graph: rows of tensors, ranges, elements of datasets and iterators."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from tideflow.eager.autograph.branches import is_staged
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.static_value import static_value
from tideflow.ops.data import Dataset, attrs_of, packed
from tideflow.ops.framework import nest
from tideflow.ops.math import is_range
from tideflow.wire import dtypes


class Elements(Protocol):
    """Elements that are taken one after the other, by a position that goes round in the loop.

    Attributes:
      first: the position of the first one.
      widens: whether variables of a loop over them may come to have other shapes than before it.
    """

    first: Any
    widens: bool

    def holds(self, position: Any) -> Tensor:
        """Return whether there is an element at a position."""

    def element(self, position: Any) -> Any:
        """Return the element there."""

    def following(self, position: Any) -> Any:
        """Return the next position."""


@runtime_checkable
class LastingElements(Elements, Protocol):
    """Elements of what is still there after the loop: none may be taken that the loop leaves."""

    def ended(self, position: Any) -> Any:
        """Return a position without an element, of the same kind as another one."""


@runtime_checkable
class _HasNext(Protocol):
    """An iterator."""

    def get_next_as_optional(self) -> Any:
        """Return the next element, if there is one."""


def elements_of(value: Any) -> Elements | None:
    """Return the elements of what a loop in a graph goes over; None for a Python iterable.

    Raises: ValueError for a tensor without rows.
    """
    if isinstance(value, Tensor) or is_staged(value):
        tensor = convert_to_tensor(value)
        if tensor.graph.is_eager:
            return None
        if tensor.dims == ():
            raise ValueError(f"`for` goes over the rows of tensors; {tensor!r} is a scalar")
        if is_range(tensor) and static_value(*tensor.op.inputs[2].edge) is not None:
            return _Range(tensor)
        return _Rows(tensor)
    if isinstance(value, Dataset):
        return _DatasetElements(value)
    own = getattr(value, "elements_in_graph", None)
    if own is not None:  # a strategy's dataset
        found: Elements = own()
        return found
    if isinstance(value, _HasNext):
        return _IteratorElements(value)
    return None


class _Rows:
    """The rows of a tensor."""

    widens = False

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.first = convert_to_tensor(0, dtypes.int32)
        count = None if tensor.dims is None else tensor.dims[0]
        if count is not None:
            self.count = convert_to_tensor(count, dtypes.int32)
        else:
            sizes = apply_op("Shape", tensor)
            self.count = apply_op("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)

    def holds(self, position: Any) -> Tensor:
        found: Tensor = apply_op("Less", position, self.count)
        return found

    def element(self, position: Any) -> Any:
        return apply_op("GatherV2", self.tensor, position, 0)

    def following(self, position: Any) -> Any:
        return apply_op("AddV2", position, 1)


class _Range:
    """The numbers of a tf.range with a known step: they are positions themselves."""

    widens = False

    def __init__(self, tensor: Tensor) -> None:
        self.first, self.limit, self.delta = tensor.op.inputs
        step = static_value(*self.delta.edge)
        self.test = "Less" if step is not None and step > 0 else "Greater"

    def holds(self, position: Any) -> Tensor:
        found: Tensor = apply_op(self.test, position, self.limit)
        return found

    def element(self, position: Any) -> Any:
        return position

    def following(self, position: Any) -> Any:
        return apply_op("AddV2", position, self.delta)


class _DatasetElements:
    """The elements of a dataset, by an iterator; a position is the next element, if any."""

    # As the state of `Dataset.reduce`, by which TensorFlow goes over them.
    widens = True

    def __init__(self, dataset: Dataset) -> None:
        self.like = dataset._element
        self.attrs = attrs_of(self.like)
        self.iterator = apply_op("AnonymousIteratorV3", **self.attrs)
        apply_op("MakeIterator", dataset._variant, self.iterator)
        self.first = self.following(None)

    def holds(self, position: Any) -> Tensor:
        found: Tensor = apply_op("OptionalHasValue", position)
        return found

    def element(self, position: Any) -> Any:
        parts = apply_op("OptionalGetValue", position, **self.attrs)
        return packed(self.like, list(parts))

    def following(self, position: Any) -> Any:
        return apply_op("IteratorGetNextAsOptional", self.iterator, **self.attrs)


class _IteratorElements:
    """The elements that are left in an iterator; a position is an optional of the next one."""

    widens = False

    def __init__(self, iterator: _HasNext) -> None:
        self.iterator = iterator
        self.first = iterator.get_next_as_optional()

    def holds(self, position: Any) -> Tensor:
        found: Tensor = position.has_value()
        return found

    def element(self, position: Any) -> Any:
        return position.get_value()

    def following(self, position: Any) -> Any:
        return self.iterator.get_next_as_optional()

    def ended(self, position: Any) -> Any:
        parts = [apply_op("OptionalNone") for _ in nest.flatten(position, expand_composites=True)]
        return nest.pack_sequence_as(position, parts, expand_composites=True)
