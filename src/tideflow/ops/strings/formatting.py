"""Values written out as text.

Source: tensorflow/core/kernels/string_format_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import element_text
from tideflow.wire.errors import InvalidArgumentError


@op(
    """
    StringFormat(inputs: *T) -> output: string
    T: list(type) >= 0
    template: string = '%s'
    placeholder: string = '%s'
    summarize: int = 3
    """,
    shape=scalar,
)
def string_format_kernel(
    ctx: KernelContext, inputs: list[Any], *, template: str, placeholder: str, summarize: int
) -> Any:
    """Return the template with each placeholder replaced by an input, written out.

    Raises: InvalidArgumentError when their numbers differ.
    """
    parts = template.split(placeholder)
    if len(parts) != len(inputs) + 1:
        raise InvalidArgumentError(
            f"StringFormat: {len(parts) - 1} placeholders for {len(inputs)} inputs"
        )
    texts = [format_tensor(x, summarize) for x in inputs]
    joined = parts[0] + "".join(text + part for text, part in zip(texts, parts[1:]))
    return np.array(joined.encode("utf-8", "surrogateescape"), object)


def format_tensor(x: Array, summarize: int) -> str:
    """Return a value written out: of each dimension the first and last `summarize` elements, all
    if that is negative."""
    array: Any = np.asarray(x)
    if array.ndim == 0:
        return _format_element(array.item(), array.dtype)
    return _format_rows(array, summarize, 1)


def _format_rows(array: Any, summarize: int, depth: int) -> str:
    size = len(array)
    if summarize < 0 or size <= 2 * summarize:
        shown: list[int | None] = list(range(size))
    else:
        shown = [*range(summarize), None, *range(size - summarize, size)]
    if array.ndim == 1:
        values = array.tolist()
        texts = ["..." if i is None else _format_element(values[i], array.dtype) for i in shown]
        return f"[{' '.join(texts)}]"
    gap = "\n" * (array.ndim - 1) + " " * depth
    rows = ["..." if i is None else _format_rows(array[i], summarize, depth + 1) for i in shown]
    return f"[{gap.join(rows)}]"


def _format_element(value: object, dtype: Any) -> str:
    text = element_text(value, dtype)
    return f'"{text}"' if isinstance(value, bytes) else text


@export("strings.format")
def string_format(
    template: str,
    inputs: TensorLike,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Tensor:
    """Return the template with each placeholder replaced by a tensor, written out.

    Args:
      template: a Python string.
      inputs: a tensor, or a list of them; of any shape and type.
      placeholder: what stands for each of inputs, in their order.
      summarize: how many elements are written from each end of each dimension; -1 for all.
    Returns: a string scalar.
    Raises: ValueError for another number of placeholders than of inputs.
    """
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    made: Tensor = apply_op(
        "StringFormat",
        values,
        template=template,
        placeholder=placeholder,
        summarize=summarize,
        name=name,
    )
    return made


not_differentiable("StringFormat")
