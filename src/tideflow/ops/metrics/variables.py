"""What metrics are made of: local variables, weights, and pairs of a value and its update.

Source: tensorflow/python/ops/metrics_impl.py, weights_broadcast_ops.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.math import cast
from tideflow.ops.state.api import Variable
from tideflow.ops.state.scopes import variable_scope
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

Metric = tuple[Any, Any]
# A collection, or several.
Collections = str | Sequence[str] | None


def metric_variable(
    name: str, dims: Sequence[int | None] = (), dtype: DType = dtypes.float32
) -> Any:
    """Return a local variable of zeros, which a step of its own resets."""
    return Variable(
        initial_value=lambda: apply_op("Fill", list(dims), convert_to_tensor(0, dtype)),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        name=name,
        dtype=dtype,
    )


@contextmanager
def metric_scope(name: str | None, default_name: str) -> Iterator[str]:
    """Put variables and operations of a metric below its name; yields the name scope."""
    with variable_scope(name, default_name=default_name) as scope:
        yield scope.original_name_scope


def as_float(x: TensorLike) -> Tensor:
    """Return a tensor as float32."""
    made: Tensor = cast(convert_to_tensor(x), dtypes.float32)
    return made


def total(x: Any, axis: Any = None) -> Any:
    """Return the sum over an axis, over all by default."""
    if axis is None:
        return apply_op("Sum", apply_op("Reshape", x, [-1]), 0)
    return apply_op("Sum", x, axis)


def collected(value: Any, update: Any, values_in: Collections, updates_in: Collections) -> Metric:
    """Return a value and its update, entered into collections."""
    graph = get_default_graph()
    if values_in:
        graph.add_to_collections(values_in, value)
    if updates_in:
        graph.add_to_collections(updates_in, update)
    return value, update


def after(operations: Sequence[Any]) -> Any:
    """Return a context whose operations wait for assignments."""
    return get_default_graph().control_dependencies([getattr(a, "op", a) for a in operations])


def added(pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Add to variables, and return their values after all additions, so that they belong together.

    pairs: variables, and what is added to each.
    """
    operations = [variable.assign_add(amount) for variable, amount in pairs]
    with after(operations):
        return [variable.read_value() for variable, _ in pairs]


def without_last(x: Any, other: Any) -> tuple[Tensor, Tensor]:
    """Return two tensors; one that has a last axis of size 1 more than the other loses it."""
    x, other = convert_to_tensor(x), convert_to_tensor(other)
    if x.dims is not None and other.dims is not None:
        if len(x.dims) == len(other.dims) + 1 and x.dims[-1] in (1, None):
            x = apply_op("Squeeze", x, squeeze_dims=[-1])
        elif len(other.dims or ()) == len(x.dims) + 1 and other.dims[-1] in (1, None):
            other = apply_op("Squeeze", other, squeeze_dims=[-1])
    return x, other


def aligned(
    predictions: TensorLike, labels: TensorLike, weights: TensorLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return predictions, labels and weights of one shape as far as last axes of size 1 go.

    Raises: ValueError for predictions and labels of shapes that differ.
    """
    guess, truth = without_last(predictions, labels)
    if not guess.shape.is_compatible_with(truth.shape):
        raise ValueError(
            f"labels {truth.shape} and predictions {guess.shape} must have the same shape"
        )
    if weights is None:
        return guess, truth, None
    factors = convert_to_tensor(weights)
    if factors.dims is not None and guess.dims is not None:
        rank = len(factors.dims)
        if rank == len(guess.dims) + 1 and factors.dims[-1] in (1, None):
            factors = apply_op("Squeeze", factors, squeeze_dims=[-1])
        elif 0 < rank == len(guess.dims) - 1:
            factors = apply_op("ExpandDims", factors, -1)
    return guess, truth, factors


def spread(weights: TensorLike, values: Tensor) -> Any:
    """Return weights in the shape and type of values.

    Raises: ValueError for weights that are neither a scalar nor of the values' rank, with the
    values' sizes or 1.
    """
    factors = cast(convert_to_tensor(weights), values.dtype.base_dtype)
    found, wanted = factors.dims, values.dims
    if found and wanted is not None:
        fits = len(found) == len(wanted) and all(
            a in (1, None) or b is None or a == b for a, b in zip(found, wanted)
        )
        if not fits:
            raise ValueError(
                f"weights can not be broadcast to values. values.shape={wanted}. "
                f"weights.shape={found}."
            )
    return apply_op("Mul", factors, apply_op("OnesLike", values))


def ratio(part: Any, whole: Any, name: str | None = None) -> Any:
    """Return part / whole, 0 where whole is 0."""
    return apply_op("DivNoNan", part, whole, name=name)


def updated_ratio(part: tuple[Any, Any], whole: tuple[Any, Any], name: str) -> Any:
    """Add to two variables, and return the first by the second.

    part, whole: a variable, and what is added to it.
    """
    sums = added([part, whole])
    return ratio(sums[0], sums[1], name)
