"""The sizes that gradients of convolutions are given, of inputs and filters, and their checks.

Source: tensorflow/core/kernels/conv_grad_shape_utils.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.ops.nn.conv_geometry import Window, check_attrs
from tideflow.wire import errors

_AXES = {4: "(batch, height, width, channels)", 5: "(batch, depth, height, width, channels)"}


def shape_of_sizes(
    index: int, what: str, rank: int, check: Callable[[dict[str, Any]], object] = check_attrs
) -> Callable[[ShapeContext], list[Dims]]:
    """Return the shape rule of a gradient whose shape is the value of an input.

    Args:
      index: of the input.
      what: its name, for errors.
      check: raises for attrs that no convolution has.
    """

    def rule(c: ShapeContext) -> list[Dims]:
        check(c.attrs)
        return [with_rank(c.value_as_shape(index), rank, what)]

    return rule


def read_sizes(values: Any, what: str, *counts: int) -> tuple[int, ...]:
    """Return a vector of sizes as integers.

    Args:
      counts: how many sizes there may be; the first is named in errors.
    Raises: InvalidArgumentError for another number of them, or a negative one.
    """
    sizes = tuple(int(size) for size in values.reshape(-1))
    if values.ndim != 1 or len(sizes) not in counts or min(sizes) < 0:
        raise errors.InvalidArgumentError(
            f"{what} must be {counts[0]} sizes; found {values.tolist()}"
        )
    return sizes


def check_out_backprop(dy: Any, batch: int, along: Sequence[Window], channels: int) -> None:
    """Check the shape of a gradient of outputs, whose channels come last.

    along: the windows of the spatial axes.
    Raises: InvalidArgumentError.
    """
    wanted = (batch, *(w.out for w in along), channels)
    if dy.shape != wanted:
        raise errors.InvalidArgumentError(
            f"out_backprop is {list(dy.shape)}; the sizes given make it {list(wanted)} "
            f"{_AXES[len(wanted)]}"
        )
