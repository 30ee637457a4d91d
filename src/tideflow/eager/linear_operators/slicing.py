"""Parts of a batch of operators: operator[2:, ..., 0] takes them from all that it is made of.

Source: tensorflow/python/ops/linalg/slicing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.eager.linear_operators.tensors import concatenated, dynamic_batch
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.array import getitem, shape
from tideflow.ops.linalg import MatrixLike


def batch_slice(operator: Any, key: Any) -> Any:
    """Return the part of an operator's batch that a key, as for tensors, takes.

    Raises: ValueError for a key with more than one `...`, or that is too long.
    """
    keys = key if isinstance(key, tuple) else (key,)
    batch = operator.batch_shape_tensor()
    arguments = operator.parameters
    for name, inner in operator._experimental_parameter_ndims_to_matrix_ndims.items():
        value = getattr(operator, name)
        if value is not None and keys != (...,):
            arguments[name] = _sliced(value, inner, keys, batch)
    return type(operator)(**arguments)


def _sliced(value: Any, inner: Any, keys: tuple[Any, ...], batch: Tensor) -> Any:
    """Return the part of a parameter, or of a list of them.

    inner: how many of its dimensions are no part of the batch.
    """
    if isinstance(inner, (list, tuple)):
        return [_sliced(one, few, keys, batch) for one, few in zip(value, inner)]
    whole = _stretched(value, inner, batch)
    if isinstance(whole, MatrixLike):
        operator: Any = whole
        # What is made of no tensors stands for all members of a batch without having one.
        is_for_all = operator.batch_shape.rank == 0 and batch.dims != (0,)
        return operator if is_for_all else operator[keys]
    taken = keys if ... in _plain(keys) else (*keys, ...)
    return getitem(whole, (*taken, *[slice(None)] * inner))


def _plain(keys: Sequence[Any]) -> list[Any]:
    return [key for key in keys if not isinstance(key, Tensor)]


def _stretched(value: Any, inner: Any, batch: Tensor) -> Any:
    """Return a parameter that has the whole batch."""
    if isinstance(inner, (list, tuple)):
        return [_stretched(one, few, batch) for one, few in zip(value, inner)]
    if isinstance(value, MatrixLike):
        operator: Any = value
        arguments = operator.parameters
        for name, few in operator._experimental_parameter_ndims_to_matrix_ndims.items():
            part = getattr(operator, name)
            if part is not None:
                arguments[name] = _stretched(part, few, batch)
        return type(operator)(**arguments)
    given = convert_to_tensor(value)
    sizes = shape(given)
    split = apply_op("Sub", apply_op("Size", sizes), inner)
    return apply_op(
        "BroadcastTo",
        given,
        concatenated(dynamic_batch(batch, sizes[:split]), sizes[split:]),
    )
