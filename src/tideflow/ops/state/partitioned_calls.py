"""Variables in parts that one call makes.

Source: tensorflow/python/ops/partitioned_variables.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export
from tideflow.ops.state.scopes import get_partitioned_variable, variable_scope
from tideflow.wire import dtypes


@export("create_partitioned_variables")
def create_partitioned_variables(
    shape: Sequence[int],
    slicing: Sequence[int],
    initializer: Callable[..., Any] | Any,
    dtype: DTypeLike = dtypes.float32,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    name: str | None = None,
    reuse: bool | None = None,
) -> list[Any]:
    """Return the parts of one variable, cut along one dimension.

    Args:
      shape: of the whole.
      slicing: into how many parts each dimension is cut; at most one number is above 1.
      name: "PartitionedVariable" by default; the parts are `name/part_0` and so on.
    Raises: ValueError for a slicing that does not fit.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: "
            f"{shape}, slicing: {slicing}"
        )
    if not shape:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        return list(
            get_partitioned_variable(
                scope, shape, list(slicing), initializer, dtype, trainable, collections
            )
        )
