"""What all loops over time share: sizes of inputs, first states, ended sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike
from tideflow.ops.control_flow import control_dependencies
from tideflow.ops.framework import Assert, identity, nest
from tideflow.ops.tensor_arrays import TensorArray
from tideflow.wire import dtypes


def known_size(tensors: Sequence[Tensor], axis: int, what: str) -> int | None:
    """Return the size of an axis that tensors share, as far as it is known.

    Raises: ValueError where they differ.
    """
    found = None
    for tensor in tensors:
        size = tensor.dims[axis] if tensor.dims is not None else None
        if found is not None and size not in (None, found):
            raise ValueError(
                f"{what} is not the same for all the elements in the input. Received "
                f"{what.lower()}={size} for input={tensor}."
            )
        found = size if found is None else found
    return found


def size_of(tensors: Sequence[Tensor], axis: int, what: str) -> Any:
    """Return the size of an axis that tensors share: a number, or an int32 scalar."""
    known = known_size(tensors, axis, what)
    if known is not None:
        return known
    sizes = apply_op("Shape", tensors[0])
    return apply_op("StridedSlice", sizes, [axis], [axis + 1], [1], shrink_axis_mask=1)


def first_state(cell: Any, given: Any, batch_size: Any, dtype: DTypeLike | None) -> Any:
    """Return the state before the first step: what is given, else what the cell begins with.

    Raises: ValueError for neither a state nor a type.
    """
    if given is not None:
        return nest.map_structure(as_value, given)
    if not dtype:
        raise ValueError("If no initial_state is provided, argument `dtype` must be specified")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def as_value(given: Any) -> Any:
    """Return a part of a state as a tensor, or as the TensorArray that it is."""
    return given if isinstance(given, TensorArray) else convert_to_tensor(given)


def lengths_of(given: Any, batch_size: Any) -> Tensor:
    """Return the lengths of sequences as int32 [batch].

    Raises: ValueError for another shape; where that is not known, InvalidArgumentError in a step.
    """
    lengths = apply_op("Cast", convert_to_tensor(given), DstT=dtypes.int32)
    if lengths.dims is not None and len(lengths.dims) != 1:
        raise ValueError(
            "Argument sequence_length must be a vector of length batch_size. Received "
            f"sequence_length={given} of shape: {lengths.shape}"
        )
    known = lengths.dims[0] if lengths.dims else None
    if known is not None and isinstance(batch_size, int):
        if known != batch_size:
            raise ValueError(
                f"Argument `sequence_length` must be a vector of length {batch_size}. Received "
                f"sequence_length={given}."
            )
        return identity(lengths, name="sequence_length")
    wanted = apply_op("ExpandDims", convert_to_tensor(batch_size, dtypes.int32), 0)
    found = apply_op("Shape", lengths)
    fits = apply_op("All", apply_op("Equal", found, wanted), [0])
    text = "Expected shape for sequence_length is "
    with control_dependencies([Assert(fits, [text, wanted, " but saw shape: ", found])]):
        return identity(lengths, name="CheckSeqLen")


def kept_after_end(has_ended: Tensor, before: Any, after: Any) -> Any:
    """Return a structure with the rows of ended sequences from before, the others from after.

    has_ended: bool [batch].  Scalars and TensorArrays are those from after.
    """

    def chosen(old: Any, new: Any) -> Any:
        if isinstance(new, TensorArray):
            return new
        new = convert_to_tensor(new)
        if new.dims is not None and len(new.dims) == 0:
            return new
        made: Tensor = apply_op("Select", has_ended, old, new)
        made.set_shape(new.shape)
        return made

    olds, news = nest.flatten(before), nest.flatten(after)
    return nest.pack_sequence_as(after, [chosen(*pair) for pair in zip(olds, news, strict=True)])
