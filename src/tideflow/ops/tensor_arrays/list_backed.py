"""TensorArrays that are values: lists of tensors that a loop or a function hands on.

This is the form of TF2.  The flow is a TensorList; a write gives another list, so the array lives
as long as somebody has it, may be written again, and gradients need nothing of their own.  What is
learnt of the elements' shape holds for all arrays that come of one, so that it outlives a loop.

Source: tensorflow/python/ops/tensor_arrays/ops.py (_GraphTensorArrayV2).
"""

from __future__ import annotations

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, builds_functional_flow, get_default_graph
from tideflow.graph.shapes import Dims
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import identity
from tideflow.ops.tensor_arrays.arrays import SharedShape, TensorArray, kinds
from tideflow.ops.tensor_arrays.lists import element_shape_tensor
from tideflow.wire import dtypes


class ListTensorArray(TensorArray):
    """A TensorArray whose flow holds its elements (see TensorArray)."""

    def _make(self, size: object, clears: bool, array_name: str | None, name: str | None) -> None:
        with get_default_graph().name_scope(name or "TensorArrayV2") as scope:
            self._flow = apply_op(
                "TensorListReserve",
                self._list_shape(),
                convert_to_tensor(size, dtypes.int32),
                element_dtype=self._dtype,
                name=scope,
            )
        self._set_flow(self._flow)

    def _set_flow(self, flow: Tensor) -> None:
        self._flow = self._handle = flow

    def _list_shape(self) -> Tensor:
        return element_shape_tensor(self._shared.element_shape if self._infer_shape else None)

    def with_flow(self, flow: Tensor) -> TensorArray:
        """Return the array that a flow is."""
        made = object.__new__(ListTensorArray)
        made._dtype = self._dtype
        made._dynamic_size = self._dynamic_size
        made._infer_shape = self._infer_shape
        made._follows_first_write = False
        made._shared = self._shared
        made._size = self._size
        made._set_flow(flow)
        return made

    def _written(self, flow: Tensor, dims: Dims) -> TensorArray:
        self._merge_element_shape(dims)
        return self.with_flow(flow)

    def identity(self) -> TensorArray:
        """Return the array as it is."""
        return self.with_flow(identity(self._flow))

    def size(self, name: str | None = None) -> Tensor:
        """Return how many elements there are, int32."""
        if self._size is not None:
            return convert_to_tensor(self._size, dtypes.int32)
        found: Tensor = apply_op("TensorListLength", self._flow, name=name)
        return found

    def close(self, name: str | None = None) -> Operation:
        """Do nothing: the array goes with whoever has it."""
        made: Operation = apply_op("NoOp", name=name)
        return made

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Refuse: gradients of these arrays are made by their operations.  Raises: TypeError."""
        raise TypeError("this TensorArray is a value: use tf.GradientTape or tf.gradients")

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """Return an element; zeros for one that was not written, where its shape is known."""
        with get_default_graph().name_scope(name or "TensorArrayV2Read"):
            value: Tensor = apply_op(
                "TensorListGetItem",
                self._flow,
                convert_to_tensor(index, dtypes.int32),
                element_shape_tensor(self._shared.element_shape),
                element_dtype=self._dtype,
            )
        value.set_shape(self._shared.element_shape)
        return value

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array with an element set.

        Raises: ValueError for a value of another shape or type.
        """
        with get_default_graph().name_scope(name or "TensorArrayV2Write"):
            given = convert_to_tensor(value, name="value", preferred_dtype=self._dtype)
            flow = apply_op(
                "TensorListSetItem",
                self._flow,
                convert_to_tensor(index, dtypes.int32),
                given,
                resize_if_index_out_of_bounds=self._dynamic_size,
            )
        return self._written(flow, given.dims)

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements, stacked along a new first axis."""
        with get_default_graph().name_scope(name or "TensorArrayV2Stack"):
            known = self._shared.element_shape
            value: Tensor = apply_op(
                "TensorListStack",
                self._flow,
                element_shape_tensor(known),
                element_dtype=self._dtype,
            )
        if known is not None:
            value.set_shape((self._shared.count, *known))
        return value

    def gather(self, indices: object, name: str | None = None) -> Tensor:
        """Return some elements, stacked along a new first axis."""
        with get_default_graph().name_scope(name or "TensorArrayV2Gather"):
            value: Tensor = apply_op(
                "TensorListGather",
                self._flow,
                convert_to_tensor(indices, dtypes.int32),
                element_shape_tensor(self._shared.element_shape),
                element_dtype=self._dtype,
            )
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements, joined along their first axis."""
        with get_default_graph().name_scope(name or "TensorArrayV2Concat"):
            known = self._shared.element_shape
            value, _ = apply_op(
                "TensorListConcatV2",
                self._flow,
                element_shape_tensor(None if known is None else (None, *known[1:])),
                convert_to_tensor([], dtypes.int64),
                element_dtype=self._dtype,
            )
        joined: Tensor = value
        return joined

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array of the rows of a value."""
        with get_default_graph().name_scope(name or "TensorArrayUnstack"):
            given = convert_to_tensor(value, self._dtype, name="value")
            row = None if given.dims is None else given.dims[1:]
            self._require_fit(row)
            flow = apply_op("TensorListFromTensor", given, element_shape_tensor(row))
        return self._written(flow, row)

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """Return the array with elements set to the rows of a value."""
        with get_default_graph().name_scope(name or "TensorArrayScatter"):
            given = convert_to_tensor(value, self._dtype, name="value")
            row = None if given.dims is None else given.dims[1:]
            self._require_fit(row)
            flow = apply_op(
                "TensorListScatterIntoExistingList",
                self._flow,
                given,
                convert_to_tensor(indices, dtypes.int32),
            )
        return self._written(flow, row)

    def split(self, value: object, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array of parts of a value, of given lengths."""
        with get_default_graph().name_scope(name or "TensorArraySplit"):
            given = convert_to_tensor(value, self._dtype, name="value")
            part = None if given.dims is None else (None, *given.dims[1:])
            flow = apply_op(
                "TensorListSplit",
                given,
                element_shape_tensor(part),
                convert_to_tensor(lengths, dtypes.int64),
            )
        made = self.with_flow(flow)
        made._shared = SharedShape(None)
        made._infer_shape = False
        made._size = None
        return made

    def _require_fit(self, dims: Dims) -> None:
        if not shapes.compatible(self._shared.element_shape, dims):
            self._merge_element_shape(dims)


def _choose(cls: type[TensorArray], handle: object) -> type[TensorArray]:
    """Return the class for an array that is made here."""
    if cls is not TensorArray:
        return cls
    if handle is None:
        is_list = builds_functional_flow()
    else:
        is_list = getattr(handle, "dtype", None) is dtypes.variant
    return ListTensorArray if is_list else cls


kinds.choose = _choose
