"""The TensorList ops on batches of lists.

Source: tensorflow/core/ops/list_ops.cc (shapes), core/kernels/list_kernels.{h,cc}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.tensor_arrays.list_arguments import as_list, fail
from tideflow.ops.tensor_arrays.list_ops import pushed
from tideflow.ops.tensor_arrays.list_values import TensorList
from tideflow.wire.dtypes import DType


def _batch_shape(c: ShapeContext) -> list[Dims]:
    return [c.shape(0)]


def _each(first: Any, second: Any, function: Any) -> Any:
    """Return function of each list of a batch and what stands beside it."""
    if not isinstance(first, np.ndarray):
        return function(first, second)
    made = np.empty(first.shape, object)
    for at in np.ndindex(*first.shape):
        made[at] = function(first[at], second[at])
    return made


@op(
    """
    TensorListPushBackBatch(input_handles: variant, tensor: element_dtype)
    -> output_handles: variant
    element_dtype: type
    """,
    shape=_batch_shape,
    any_device=True,
)
def tensor_list_push_back_batch(
    ctx: KernelContext, handles: Any, tensor: Array, *, element_dtype: DType
) -> Any:
    """Return the lists of a batch, each with one more element: a row of the tensor."""
    batch = np.shape(handles)
    if len(batch) > np.ndim(tensor) or np.shape(tensor)[: len(batch)] != batch:
        raise fail(
            f"the lists have shape {shapes.format_dims(batch)}; the tensor's shape "
            f"{shapes.format_dims(np.shape(tensor))} must begin so"
        )
    return _each(handles, tensor, lambda one, row: pushed(as_list(one, element_dtype), row))


@op(
    """
    TensorListConcatLists(input_a: variant, input_b: variant) -> output: variant
    element_dtype: type
    """,
    shape=_batch_shape,
    any_device=True,
)
def tensor_list_concat_lists(ctx: KernelContext, a: Any, b: Any, *, element_dtype: DType) -> Any:
    """Return the elements of one list and then those of another, for each pair of a batch."""
    if np.shape(a) != np.shape(b):
        raise fail(
            f"lists of shapes {shapes.format_dims(np.shape(a))} and "
            f"{shapes.format_dims(np.shape(b))} cannot be joined in pairs"
        )

    def join(one: TensorLike, other: TensorLike) -> TensorList:
        first, second = as_list(one, element_dtype), as_list(other, element_dtype)
        dims = first.element_shape
        if dims != second.element_shape:
            raise fail(
                f"lists of elements of shapes {shapes.format_dims(dims)} and "
                f"{shapes.format_dims(second.element_shape)} cannot be joined"
            )
        return TensorList(element_dtype, dims, [*first.items(), *second.items()], first.most)

    return _each(a, b, join)
