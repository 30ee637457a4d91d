"""TensorArray: an array of tensors, written and read in loops.

Reads and writes are ordered by the `flow`, a float scalar that each write gives and the next op
takes.  Use the array that a write returns, or the write may not have happened.

Source: tensorflow/python/ops/tensor_arrays/ops.py, tensor_array_grad.py.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.shapes import Dims, TensorShape, as_dims
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_static_value, gradient_source, identity, nest
from tideflow.ops.tensor_arrays import ops as tensor_array_ops
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

__all__ = ["TensorArray", "tensor_array_ops"]


class SharedShape:
    """What all TensorArray objects for one array know together.

    Attributes:
      element_shape: what is known of the elements' shape.
      count: how many elements there are, where that is known and does not change.
      placed_by: the first value written; the array is kept where it is.
    """

    __slots__ = ("count", "element_shape", "placed_by")

    def __init__(self, element_shape: Dims) -> None:
        self.element_shape = element_shape
        self.count: int | None = None
        self.placed_by: Tensor | None = None


def _known_size(size: Any) -> int | None:
    """Return a number of elements that is known before anything runs, else None."""
    if isinstance(size, Tensor):
        known = static_value(size.op, size.value_index)
        return None if known is None else int(known)
    return operator.index(size) if hasattr(size, "__index__") else None


class _Kinds:
    """Which class a TensorArray is of.

    Attributes:
      choose: gives it for the class asked for and the handle of an array that exists.
    """

    def __init__(self) -> None:
        self.choose: Callable[[type[TensorArray], Any], type[TensorArray]] = lambda cls, _: cls


kinds = _Kinds()


@export("TensorArray")
class TensorArray:
    """An array of tensors that lives for one step; each element is written once.

    Args:
      dtype: type of the elements.
      size: how many there are, an int32 scalar; needed unless handle is given.
      dynamic_size: whether writes past the end make the array longer.
      clear_after_read: free an element when it is read; it can be read once then (the default).
      handle, flow: those of an array that exists.
      infer_shape: check that all elements have one shape, and use it.
      element_shape: their shape as far as it is known.
      colocate_with_first_write_call: keep the array on the device of the first value written.
    Raises: ValueError for neither or both of size and handle; TypeError for a flow without one.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TensorArray:
        """Return an instance of the class for where it is made (see tensor_array_list)."""
        return object.__new__(kinds.choose(cls, kwargs.get("handle")))

    def __init__(
        self,
        dtype: DTypeLike,
        size: Tensor | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Tensor | None = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if (size is None) == (handle is None):
            raise ValueError("a TensorArray needs either a size or the handle of an array")
        if handle is not None and flow is None:
            raise ValueError("an existing TensorArray needs its flow beside its handle")
        if handle is not None and (dynamic_size, clear_after_read) != (None, None):
            raise ValueError("dynamic_size and clear_after_read were settled with the array")
        self._dtype = as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._infer_shape = infer_shape
        self._follows_first_write = colocate_with_first_write_call and handle is None
        self._shared = SharedShape(as_dims(element_shape))
        # None where only the array itself knows.
        self._size: Any = None if dynamic_size else size
        self._handle: Tensor
        self._flow: Tensor
        if handle is not None:
            assert flow is not None
            self._handle, self._flow = handle, flow
        else:
            clears = True if clear_after_read is None else clear_after_read
            self._shared.count = None if self._dynamic_size else _known_size(size)
            self._make(size, clears, tensor_array_name, name)

    def _make(self, size: object, clears: bool, array_name: str | None, name: str | None) -> None:
        graph = get_default_graph()
        with graph.name_scope(name or "TensorArray") as scope, contextlib.ExitStack() as scopes:
            if self._follows_first_write:
                scopes.enter_context(graph.device(None))
                scopes.enter_context(graph.colocate_with(None, ignore_existing=True))
            self._handle, self._flow = apply_op(
                "TensorArrayV3",
                convert_to_tensor(size, dtypes.int32, name="size"),
                dtype=self._dtype,
                element_shape=TensorShape(self._shared.element_shape),
                dynamic_size=self._dynamic_size,
                clear_after_read=clears,
                identical_element_shapes=self._infer_shape,
                tensor_array_name=array_name or scope,
                name=scope,
            )

    # ---- what it is

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def handle(self) -> Tensor:
        """The handle of the array."""
        return self._handle

    @property
    def flow(self) -> Tensor:
        """The float scalar that stands for what has been done to the array."""
        return self._flow

    @property
    def dynamic_size(self) -> bool:
        """Whether writes past the end make the array longer."""
        return self._dynamic_size

    @property
    def element_shape(self) -> TensorShape:
        """What is known of the elements' shape."""
        return TensorShape(self._shared.element_shape)

    def with_flow(self, flow: Tensor) -> TensorArray:
        """Return the same array after more has been done to it."""
        made = TensorArray(
            self._dtype,
            handle=self._handle,
            flow=flow,
            infer_shape=self._infer_shape,
            colocate_with_first_write_call=False,
        )
        made._dynamic_size = self._dynamic_size
        made._follows_first_write = self._follows_first_write
        made._shared = self._shared
        made._size = self._size
        return made

    def identity(self) -> TensorArray:
        """Return the same array with control inputs in force applied to its flow."""
        return self.with_flow(identity(self._flow))

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements there are, int32."""
        if self._size is not None:
            return convert_to_tensor(self._size, dtypes.int32)
        with self._beside_handle():
            found: Tensor = apply_op("TensorArraySizeV3", self._handle, self._flow, name=name)
        return found

    def close(self, name: str | None = None) -> Operation:
        """Return an op that drops the array before its step ends."""
        with self._beside_handle():
            closed: Operation = apply_op("TensorArrayCloseV3", self._handle, name=name)
        return closed

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Return the array for the gradients of the elements: one for each source.

        It adds up what is written to one element.
        """
        flow = self._flow if flow is None else flow
        graph = get_default_graph()
        with graph.name_scope(name or "TensorArrayGrad") as scope, self._beside_handle():
            handle, _ = apply_op("TensorArrayGradV3", self._handle, flow, source=source, name=scope)
            with graph.control_dependencies([handle]):
                flow = identity(flow, name="gradient_flow")
        made = TensorArray(
            self._dtype,
            handle=handle,
            flow=flow,
            infer_shape=self._infer_shape,
            colocate_with_first_write_call=False,
        )
        made._shared = self._shared
        return made

    def _beside_handle(self) -> Any:
        return get_default_graph().colocate_with(self._handle.op, ignore_existing=True)

    def _beside_first_write(self, value: Tensor) -> Any:
        if not self._follows_first_write:
            return contextlib.nullcontext()
        if self._shared.placed_by is None:
            self._shared.placed_by = value
        return get_default_graph().colocate_with(self._shared.placed_by.op, ignore_existing=True)

    def _merge_element_shape(self, dims: Dims) -> None:
        known = self._shared.element_shape
        if not shapes.compatible(known, dims):
            raise ValueError(
                f"elements of shape {shapes.format_dims(dims)} in a TensorArray of "
                f"{shapes.format_dims(known)}; give infer_shape=False if they differ"
            )
        if self._infer_shape:
            self._shared.element_shape = shapes.merge(known, dims)

    # ---- one element

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """Return an element."""
        with self._beside_handle():
            value: Tensor = apply_op(
                "TensorArrayReadV3", self._handle, index, self._flow, dtype=self._dtype, name=name
            )
        value.set_shape(self._shared.element_shape)
        return value

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array after an element was set.

        Raises: ValueError for a value of another shape or type.
        """
        with get_default_graph().name_scope(name or "TensorArrayWrite"):
            given = convert_to_tensor(value, name="value", preferred_dtype=self._dtype)
            self._merge_element_shape(given.dims)
            with self._beside_first_write(given):
                flow = apply_op("TensorArrayWriteV3", self._handle, index, given, self._flow)
        return self.with_flow(flow)

    # ---- several elements

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements, stacked along a new first axis."""
        with get_default_graph().name_scope(name or "TensorArrayStack"):
            value = self.gather(apply_op("Range", 0, self.size(), 1))
        known = self._shared.element_shape
        if known is not None:
            value.set_shape((self._shared.count, *known))
        return value

    def gather(self, indices: object, name: str | None = None) -> Tensor:
        """Return some elements, stacked along a new first axis."""
        with self._beside_handle():
            value: Tensor = apply_op(
                "TensorArrayGatherV3",
                self._handle,
                indices,
                self._flow,
                dtype=self._dtype,
                element_shape=TensorShape(self._shared.element_shape),
                name=name,
            )
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements, joined along their first axis."""
        known = self._shared.element_shape
        tail = None if known is None else known[1:]
        with self._beside_handle():
            value, _ = apply_op(
                "TensorArrayConcatV3",
                self._handle,
                self._flow,
                dtype=self._dtype,
                element_shape_except0=TensorShape(tail),
                name=name,
            )
        joined: Tensor = value
        if known and self._infer_shape:
            count = get_static_value(self.size())
            rows = None if count is None or known[0] is None else count * known[0]
            joined.set_shape((rows, *known[1:]))
        return joined

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array after its elements were set to the rows of a value."""
        with get_default_graph().name_scope(name or "TensorArrayUnstack"):
            given = convert_to_tensor(value, name="value", preferred_dtype=self._dtype)
            if given.dims and given.dims[0] is not None:
                count = convert_to_tensor(given.dims[0], dtypes.int32)
            else:
                sizes = apply_op("Shape", given)
                count = apply_op("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)
            return self.scatter(apply_op("Range", 0, count, 1), given)

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """Return the array after elements were set to the rows of a value."""
        with get_default_graph().name_scope(name or "TensorArrayScatter"):
            given = convert_to_tensor(value, name="value", preferred_dtype=self._dtype)
            self._merge_element_shape(None if given.dims is None else given.dims[1:])
            with self._beside_first_write(given):
                flow = apply_op("TensorArrayScatterV3", self._handle, indices, given, self._flow)
        return self.with_flow(flow)

    def split(self, value: object, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array after its elements were set to parts of a value, of given lengths."""
        with get_default_graph().name_scope(name or "TensorArraySplit"):
            given = convert_to_tensor(value, self._dtype, name="value")
            sizes = convert_to_tensor(lengths, dtypes.int64)
            if given.dims is not None:
                self._merge_element_shape((None, *given.dims[1:]))
            with self._beside_first_write(given):
                flow = apply_op("TensorArraySplitV3", self._handle, given, sizes, self._flow)
        return self.with_flow(flow)


# What is asked for is what the constructor takes, whichever class it makes.
TensorArray.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    list(inspect.signature(TensorArray.__init__).parameters.values())[1:]
)


def _flow_of(array: TensorArray) -> list[Any]:
    return [array.flow]


def _with_flow(array: TensorArray, parts: list[Any]) -> TensorArray:
    (flow,) = parts
    return array.with_flow(flow) if isinstance(flow, Tensor) else flow


# Branches and loops carry the flow; the handle is the same all the time.
nest.register_composite(TensorArray, _flow_of, _with_flow)


# ---- gradients: what an op did to the array is done in reverse to the array of gradients


not_differentiable(
    "TensorArrayV3",
    "TensorArrayGradV3",
    "TensorArrayGradWithShape",
    "TensorArraySizeV3",
    "TensorArrayCloseV3",
)


def _gradient_array(op: Operation, dtype: DType, flow: Tensor) -> TensorArray:
    handle = op.inputs[0]
    array = TensorArray(
        dtype, handle=handle, flow=flow, infer_shape=False, colocate_with_first_write_call=False
    )
    return array.grad(gradient_source(get_default_graph()), flow)


@gradient("TensorArrayReadV3")
def _read_grad(op: Operation, grad: Tensor) -> list[Any]:
    _, index, flow = op.inputs
    array = _gradient_array(op, op.attrs["dtype"], flow)
    return [None, None, array.write(index, grad).flow]


@gradient("TensorArrayWriteV3")
def _write_grad(op: Operation, flow: Tensor) -> list[Any]:
    _, index, value, _ = op.inputs
    found = _gradient_array(op, op.attrs["T"], flow).read(index)
    found.set_shape(value.dims)
    return [None, None, found, flow]


@gradient("TensorArrayGatherV3")
def _gather_grad(op: Operation, grad: Tensor) -> list[Any]:
    _, indices, flow = op.inputs
    array = _gradient_array(op, op.attrs["dtype"], flow)
    return [None, None, array.scatter(indices, grad).flow]


@gradient("TensorArrayScatterV3")
def _scatter_grad(op: Operation, flow: Tensor) -> list[Any]:
    _, indices, value, _ = op.inputs
    found = _gradient_array(op, op.attrs["T"], flow).gather(indices)
    found.set_shape(value.dims)
    return [None, None, found, flow]


@gradient("TensorArrayConcatV3")
def _concat_grad(op: Operation, grad: Tensor, _: Tensor) -> list[Any]:
    flow = op.inputs[1]
    array = _gradient_array(op, op.attrs["dtype"], flow)
    return [None, array.split(grad, op.outputs[1]).flow]


@gradient("TensorArraySplitV3")
def _split_grad(op: Operation, flow: Tensor) -> list[Any]:
    value = op.inputs[1]
    found = _gradient_array(op, op.attrs["T"], flow).concat()
    found.set_shape(value.dims)
    return [None, found, None, flow]
