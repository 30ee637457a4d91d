"""What all metrics are made of: sums in local variables, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.math.casts import as_float
from tideflow.ops.state import Variable
from tideflow.wire import dtypes

Metric = tuple[Tensor, Tensor]


def local_sum(name: str, shape: tuple[int, ...], dtype: dtypes.DType = dtypes.float32) -> Any:
    """Return a local variable of zeros that a metric keeps."""
    return Variable(
        initial_value=np.zeros(shape, dtype.as_numpy_dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        name=name,
        dtype=dtype,
    )


def total(x: Tensor) -> Tensor:
    """Return the sum of all elements."""
    made: Tensor = apply_op("Sum", apply_op("Reshape", x, [-1]), 0)
    return made


def weighted(x: Tensor, weights: TensorLike | None) -> Tensor:
    """Return x times weights, which are broadcast to it; x itself without any."""
    if weights is None:
        return x
    made: Tensor = apply_op("Mul", x, as_float(weights))
    return made


def run_over(
    sums: Mapping[str, Tensor],
    compute: Callable[..., Tensor],
    values_in: object,
    updates_in: object,
    prefix: str = "",
) -> Metric:
    """Return what is computed from sums over all batches, and the operation that adds a batch.

    Args:
      sums: by the name of its variable, what a batch adds, of a known shape.
      compute: takes the sums, in their order, and the name of its last operation.
      values_in, updates_in: collections for the two results.
      prefix: what the names of the two results begin with.
    Raises: ValueError for a sum whose shape is not known.
    """
    variables = {name: local_sum(name, _known(one)) for name, one in sums.items()}
    value = compute(*[one.value() for one in variables.values()], name=f"{prefix}value")
    # All sums are read after all additions, so that they belong together.
    added = [variables[name].assign_add(one) for name, one in sums.items()]
    with get_default_graph().control_dependencies([getattr(a, "op", a) for a in added]):
        read = [one.read_value() for one in variables.values()]
        update = compute(*read, name=f"{prefix}update_op")
    return collected(value, update, values_in, updates_in)


def count_over(name: str, added: Tensor, values_in: object, updates_in: object) -> Metric:
    """Return the sum of what batches add, and the operation that adds a batch."""
    variable = local_sum(name, _known(added))
    value = apply_op("Identity", variable.value())
    return collected(value, variable.assign_add(added), values_in, updates_in)


def _known(sum_: Tensor) -> tuple[int, ...]:
    dims = sum_.dims
    if dims is None or None in dims:
        raise ValueError(f"a metric keeps sums of a known shape, not {sum_.shape}")
    return tuple(int(size or 0) for size in dims)


def collected(value: Tensor, update: Tensor, values_in: object, updates_in: object) -> Metric:
    """Return a metric's value and update, added to collections."""
    graph = get_default_graph()
    if values_in:
        graph.add_to_collections(values_in, value)
    if updates_in:
        graph.add_to_collections(updates_in, update)
    return value, update
