"""The ops that compress elements of datasets, and give them back.

Source: tensorflow/core/kernels/data/experimental/compression_ops.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.formats import CompressedElement, compress_element, uncompress_element
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.values import component_shapes, fail
from tideflow.wire import errors
from tideflow.wire.dtypes import DType, as_dtype


@op(
    """
    CompressElement(components: *input_types) -> compressed: variant
    input_types: list(type) >= 1
    """,
    shape=scalar_shape,
)
def compress_element_kernel(
    ctx: KernelContext, components: list[Any], *, input_types: list[DType]
) -> CompressedElement:
    """Return the components of an element compressed, as a variant."""
    return compress_element(components, input_types)


@op(
    """
    UncompressElement(compressed: variant) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=component_shapes,
)
def uncompress_element_kernel(
    ctx: KernelContext,
    compressed: object,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the components of a compressed element.

    Raises: InvalidArgumentError for another variant; FailedPreconditionError for other types, or
      another number of components.
    """
    if np.ndim(compressed):  # type: ignore[arg-type]
        raise fail(
            "UncompressElement requires its input to be a scalar, but encountered an input with "
            f"{np.ndim(compressed)} dimensions."  # type: ignore[arg-type]
        )
    given = compressed.reshape(-1)[0] if isinstance(compressed, np.ndarray) else compressed
    if not isinstance(given, CompressedElement):
        raise fail(f"Input does not contain a compressed element. Instead got tensor {given!r}")
    found = uncompress_element(given)
    if len(found) != len(output_types):
        raise errors.FailedPreconditionError(
            f"Expected {len(output_types)} outputs from uncompress, but got {len(found)}"
        )
    for wanted, metadata in zip(output_types, given.message.component_metadata):
        if int(metadata.dtype) != wanted.number:
            raise errors.FailedPreconditionError(
                f"Expected a tensor of type {wanted.name} but got a tensor of type "
                f"{as_dtype(int(metadata.dtype)).name}"
            )
    return found
