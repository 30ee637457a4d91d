"""Lists, arrays of a step and stacks in compiled code.

While a region is traced, a list of tensors is an array with one row for each element, and a count.
A loop that a compiler runs carries both, so rows are set in place.  A TensorArray or a stack is an
object known while tracing; what it holds is a list among the states of the trace.

What straight code would refuse is noted as a check of the trace: compiled code cannot raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from tideflow.graph import shapes, tracing
from tideflow.graph.shapes import Dims
from tideflow.graph.tracing import bounds_of, is_known, refuse
from tideflow.ops.tensor_arrays.list_arguments import as_dims
from tideflow.wire.dtypes import DType


class Trace(tracing.Trace, Protocol):
    """What rules for arrays and stacks see, besides.

    Attributes:
      states: what each array and stack holds.
      gradients: the arrays for gradients of arrays, by array and source.
    """

    states: dict[TracedObject, ArrayState]
    gradients: dict[tuple[TracedObject, str], TracedObject]


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """How many elements there are: `base` and `offset` together.

    Attributes:
      base: a computed number, or None for a count that is known.
      low, high: the least and the greatest value of the base.
    """

    base: Any
    offset: int
    low: int = 0
    high: int = 0

    def plus(self, more: int) -> Count:
        """Return the count of more elements."""
        return replace(self, offset=self.offset + more)

    @property
    def value(self) -> Any:
        """The number, computed or not."""
        return np.int32(self.offset) if self.base is None else self.base + np.int32(self.offset)

    @property
    def most(self) -> int:
        """The greatest number that it may be."""
        return self.high + self.offset

    @property
    def least(self) -> int:
        """The least number that it may be."""
        return self.low + self.offset

    def is_same(self, other: Count) -> bool:
        """Whether this is known to be another count, too."""
        return self.base is other.base and self.offset == other.offset


@dataclass(frozen=True, slots=True, eq=False)
class TracedList:
    """A list of tensors of one shape.

    Attributes:
      dtype, dims: type of the elements, and what is known of their shape.
      rows: an array whose rows are the elements; None while their shape is not known.
      count: how many of the rows are elements.
      most: how many there may be; below 0 for no limit.
    """

    dtype: DType
    dims: Dims
    rows: Any
    count: Count
    most: int = -1

    def with_rows(self, jnp: Any, element: Sequence[int], capacity: int) -> TracedList:
        """Return the list with rows for so many elements of a shape at least."""
        if self.rows is None:
            dims = shapes.merge(self.dims, tuple(element))
            rows = jnp.zeros((capacity, *element), self.dtype.as_numpy_dtype)
            return replace(self, rows=rows, dims=dims)
        missing = capacity - self.rows.shape[0]
        if missing <= 0:
            return self
        more = jnp.zeros((missing, *self.rows.shape[1:]), self.rows.dtype)
        return replace(self, rows=jnp.concatenate([self.rows, more]))

    def fitting(self, jnp: Any, element: Any, capacity: int) -> TracedList:
        """Return the list with rows that an element fits in.  Raises: UnimplementedError."""
        shape = tuple(element.shape)
        if not shapes.compatible(self.dims, shape):
            raise refuse(f"an element {shape} for a list of {self.dims}")
        if self.rows is not None and tuple(self.rows.shape[1:]) != shape:
            raise refuse("elements of several shapes")
        if element.dtype != self.dtype.as_numpy_dtype:
            raise refuse(f"an element of type {element.dtype}")
        return self.with_rows(jnp, shape, capacity)

    def shaped(self, jnp: Any, given: Any) -> TracedList:
        """Return the list with rows; given: what an op says of the elements' shape."""
        if self.rows is not None:
            if not shapes.compatible(as_dims(given), tuple(self.rows.shape[1:])):
                raise refuse("elements of another shape than the op expects")
            return self
        dims = shapes.merge(self.dims, as_dims(given))
        if dims is None or None in dims:
            raise refuse("elements of unknown shape")
        return self.with_rows(jnp, [size for size in dims if size is not None], self.count.most)

    def known_count(self) -> int:
        """Return the count.  Raises: UnimplementedError for one that is computed."""
        if self.count.base is not None:
            raise refuse("a list of a computed length")
        return self.count.offset

    def zeros_like(self) -> TracedList:
        """Return a list of zeros like the elements."""
        return self if self.rows is None else replace(self, rows=self.rows.at[...].set(0))

    def __add__(self, other: object) -> TracedList:
        if not isinstance(other, TracedList):
            return NotImplemented
        if self.known_count() != other.known_count():
            raise refuse("lists of different lengths are added")
        if self.rows is None or other.rows is None:
            return self if other.rows is None else other
        if self.rows.shape != other.rows.shape:
            raise refuse("lists with different elements are added")
        return replace(self, rows=self.rows + other.rows)


@dataclass(eq=False, slots=True)
class TracedObject:
    """A TensorArray or a stack, which the handles of a trace are.

    Attributes:
      dtype: type of the elements.
      clears: whether an element can be read once only.
      adds_up: whether what is written to an element is added to it.
    """

    dtype: DType
    clears: bool = False
    adds_up: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ArrayState:
    """What an array or a stack holds.

    Attributes:
      items: its elements.
      marks: for an array, of each element whether it was written (1) or read for good (2).
    """

    items: TracedList
    marks: Any = field(default=None)


Rule: TypeAlias = "Callable[[Trace, Sequence[Any], Mapping[str, Any]], Any]"


# ---- lists


def empty(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """EmptyTensorList."""
    dims, most = as_dims(_known(inputs[0])), _known(inputs[1])
    if most.size != 1:
        raise refuse("a size that is no scalar")
    return TracedList(attrs["element_dtype"], dims, None, Count(None, 0), int(most))


def reserved(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListReserve."""
    count = _known_size(inputs[1])
    return TracedList(attrs["element_dtype"], as_dims(_known(inputs[0])), None, Count(None, count))


def from_tensor(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListFromTensor."""
    rows = trace.jnp.asarray(inputs[0])
    dims = as_dims(_known(inputs[1]))
    if not rows.ndim or not shapes.compatible(dims, rows.shape[1:]):
        raise refuse("rows of another shape than the list's")
    return TracedList(attrs["element_dtype"], dims, rows, Count(None, rows.shape[0]))


def length(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListLength."""
    return _list(inputs[0]).count.value


def element_shape(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListElementShape."""
    dims = _list(inputs[0]).dims
    sizes = -1 if dims is None else [-1 if size is None else size for size in dims]
    return np.array(sizes, attrs["shape_type"].as_numpy_dtype)


def push_back(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListPushBack."""
    return pushed(trace, _list(inputs[0]), inputs[1])


def pushed(trace: Trace, source: TracedList, element: Any) -> TracedList:
    """Return a list with one more element."""
    count = source.count
    if 0 <= source.most <= count.most:
        trace.check(count.value < source.most)
    roomy = source.fitting(trace.jnp, element, count.most + 1)
    rows = trace.lax.dynamic_update_index_in_dim(roomy.rows, element, count.value, 0)
    return replace(roomy, rows=rows, count=count.plus(1))


def pop_back(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListPopBack."""
    return popped(trace, _list(inputs[0]))


def popped(trace: Trace, source: TracedList) -> tuple[TracedList, Any]:
    """Return a list without its last element, and that element."""
    if source.rows is None or source.count.most <= 0:
        raise refuse("an element of an empty list")
    count = source.count.plus(-1)
    if count.least < 0:
        trace.check(trace.jnp.asarray(count.value) >= 0)
    return replace(source, count=count), _row(trace, source.rows, count.value)


def get_item(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListGetItem."""
    source = _list(inputs[0]).shaped(trace.jnp, _known(inputs[2]))
    _require_index(trace, inputs[1], source.count)
    return _row(trace, source.rows, inputs[1])


def set_item(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListSetItem."""
    source, index, element = _list(inputs[0]), inputs[1], inputs[2]
    roomy = source.fitting(trace.jnp, element, source.count.most)
    _require_index(trace, index, source.count)
    return replace(roomy, rows=trace.lax.dynamic_update_index_in_dim(roomy.rows, element, index, 0))


def stack(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListStack."""
    source = _list(inputs[0])
    count = source.known_count()
    if attrs["num_elements"] not in (-1, count):
        raise refuse("another number of elements than the op expects")
    return source.shaped(trace.jnp, _known(inputs[1])).rows[:count]


def gather(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorListGather."""
    source = _list(inputs[0]).shaped(trace.jnp, _known(inputs[2]))
    return _rows(trace, source, inputs[1])


# ---- arrays of a step


def new_array(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayV3."""
    made = TracedObject(attrs["dtype"], clears=attrs["clear_after_read"])
    size = _known_size(inputs[0])
    dims = attrs["element_shape"].sizes
    items = TracedList(attrs["dtype"], dims, None, Count(None, size))
    trace.states[made] = ArrayState(items, trace.jnp.zeros(size, np.int8))
    return made, np.float32(0)


def gradient_array(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayGradV3."""
    forward = _object(inputs[0])
    key = forward, attrs["source"]
    made = trace.gradients.get(key)
    if made is None:
        made = trace.gradients[key] = TracedObject(
            forward.dtype, clears=forward.clears, adds_up=True
        )
    if made not in trace.states:
        items = trace.states[forward].items
        size = items.known_count()
        empty_items = TracedList(forward.dtype, items.dims, None, Count(None, size))
        if items.rows is not None:
            empty_items = empty_items.with_rows(trace.jnp, items.rows.shape[1:], size)
        trace.states[made] = ArrayState(empty_items, trace.jnp.zeros(size, np.int8))
    return made, inputs[1]


def write(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayWriteV3."""
    array, index, element, flow = inputs
    state = trace.states[_object(array)]
    items = state.items.fitting(trace.jnp, element, state.items.known_count())
    _require_index(trace, index, items.count)
    mark = trace.lax.dynamic_index_in_dim(state.marks, index, 0, keepdims=False)
    if array.adds_up:
        trace.check(mark < 2)
        element = element + _row(trace, items.rows, index)
    else:
        trace.check(mark == 0)
    rows = trace.lax.dynamic_update_index_in_dim(items.rows, element, index, 0)
    marks = trace.lax.dynamic_update_index_in_dim(state.marks, np.int8(1), index, 0)
    trace.states[array] = ArrayState(replace(items, rows=rows), marks)
    return flow


def read(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayReadV3."""
    array, index = _object(inputs[0]), inputs[1]
    state = trace.states[array]
    items = state.items.shaped(trace.jnp, -1)
    _require_index(trace, index, items.count)
    mark = trace.lax.dynamic_index_in_dim(state.marks, index, 0, keepdims=False)
    if not array.adds_up:
        trace.check(mark == 1)
    marks = state.marks
    if array.clears:
        marks = trace.lax.dynamic_update_index_in_dim(marks, np.int8(2), index, 0)
    trace.states[array] = ArrayState(items, marks)
    return _row(trace, items.rows, index)


def array_gather(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayGatherV3."""
    array, indices = _object(inputs[0]), inputs[1]
    state = trace.states[array]
    given = attrs["element_shape"].sizes
    items = state.items
    if items.rows is None:
        dims = shapes.merge(items.dims, given)
        if dims is None or None in dims:
            raise refuse("elements of unknown shape")
        items = items.with_rows(trace.jnp, [s for s in dims if s is not None], items.count.most)
    elif not shapes.compatible(given, tuple(items.rows.shape[1:])):
        raise refuse("elements of another shape than the op expects")
    if not array.adds_up:
        trace.check((trace.jnp.asarray(state.marks)[indices] == 1).all())
    marks = state.marks
    if array.clears:
        marks = trace.jnp.asarray(marks).at[indices].set(np.int8(2))
    trace.states[array] = ArrayState(items, marks)
    return _rows(trace, items, indices)


def array_scatter(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayScatterV3."""
    array, indices, value, flow = inputs
    state = trace.states[_object(array)]
    count = state.items.known_count()
    value = trace.jnp.asarray(value)
    known = _known(indices)
    if value.ndim == 0 or known.shape != value.shape[:1]:
        raise refuse("not one index for each row")
    if known.size and (known.min() < 0 or known.max() >= count or len(set(known)) < len(known)):
        raise refuse("indices outside, or twice the same")
    element = np.empty(value.shape[1:], value.dtype)  # for its shape and type
    items = state.items.fitting(trace.jnp, element, count)
    marks = trace.jnp.asarray(state.marks)
    trace.check((marks[known] == 0).all() if not array.adds_up else (marks[known] < 2).all())
    if array.adds_up:
        rows = items.rows.at[known].add(value)
    elif known.size == count and (known == np.arange(count)).all():
        rows = value
    else:
        rows = items.rows.at[known].set(value)
    trace.states[array] = ArrayState(replace(items, rows=rows), marks.at[known].set(np.int8(1)))
    return flow


def array_size(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArraySizeV3."""
    return np.int32(trace.states[_object(inputs[0])].items.known_count())


def closed(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """TensorArrayCloseV3 and StackCloseV2."""
    trace.states.pop(_object(inputs[0]), None)
    return ()


# ---- stacks


def new_stack(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """StackV2."""
    most = _known(inputs[0])
    if most.size != 1:
        raise refuse("a size that is no scalar")
    made = TracedObject(attrs["elem_type"])
    items = TracedList(attrs["elem_type"], None, None, Count(None, 0), int(most))
    trace.states[made] = ArrayState(items)
    return made


def stack_push(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """StackPushV2."""
    stack, element = _object(inputs[0]), inputs[1]
    trace.states[stack] = ArrayState(pushed(trace, trace.states[stack].items, element))
    return element


def stack_pop(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """StackPopV2."""
    stack = _object(inputs[0])
    items, element = popped(trace, trace.states[stack].items)
    trace.states[stack] = ArrayState(items)
    return element


# ---- arguments


def _list(value: Any) -> TracedList:
    if not isinstance(value, TracedList):
        raise refuse("a list from outside")
    return value


def _object(value: Any) -> TracedObject:
    if not isinstance(value, TracedObject):
        raise refuse("an array or a stack from outside")
    return value


def _known(value: Any) -> Any:
    if not is_known(value):
        raise refuse("a shape or size that is computed")
    return np.asarray(value)


def _known_size(value: Any) -> int:
    size = _known(value)
    if size.size != 1 or int(size) < 0:
        raise refuse("a size below 0, or that is no scalar")
    return int(size)


def _require_index(trace: Trace, index: Any, count: Count) -> None:
    """Have straight code run unless an index lies in a list."""
    if getattr(index, "ndim", 0):
        raise refuse("an index that is no scalar")
    bounds = bounds_of(trace, index)
    if bounds is not None and bounds[0] >= 0 and bounds[1] < count.least:
        return
    trace.check((index >= 0) & (trace.jnp.asarray(index) < count.value))


def _row(trace: Trace, rows: Any, index: Any) -> Any:
    return trace.lax.dynamic_index_in_dim(rows, index, 0, keepdims=False)


def _rows(trace: Trace, source: TracedList, indices: Any) -> Any:
    count = source.known_count()
    rows = source.rows[:count]
    if is_known(indices):
        known = np.ravel(indices)
        if known.size and (known.min() < 0 or known.max() >= count):
            raise refuse("an index outside")
        if known.size == count and (known == np.arange(count)).all():
            return rows
    else:
        indices = trace.jnp.ravel(indices)
        trace.check(((indices >= 0) & (indices < count)).all())
    return rows[indices]
