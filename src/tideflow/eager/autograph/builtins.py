"""Python's built-in functions, where converted code calls them on tensors of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.eager.autograph.branches import is_staged
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.wire import dtypes


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a built-in function, or what stands for it where an argument is a tensor of a graph."""
    found = _FOR_TENSORS.get(function) if any(map(is_staged, args)) else None
    return function(*args, **kwargs) if found is None else found(*args, **kwargs)


def _len(value: Any) -> Any:
    tensor = convert_to_tensor(value)
    if tensor.dims == ():
        raise ValueError(f"len() of the scalar {tensor!r}; it has no rows")
    if tensor.dims is not None and tensor.dims[0] is not None:
        return tensor.dims[0]
    sizes = apply_op("Shape", tensor)
    return apply_op("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)


def _range(start: Any, stop: Any = None, step: Any = 1) -> Any:
    if stop is None:
        start, stop = 0, start
    given = next(t for t in (start, stop, step) if isinstance(t, Tensor))
    numbers = [convert_to_tensor(v, given.dtype.base_dtype) for v in (start, stop, step)]
    return apply_op("Range", *numbers)


def _cast(value: Any, dtype: dtypes.DType) -> Any:
    tensor = convert_to_tensor(value)
    if tensor.dtype.base_dtype is dtypes.string:
        return apply_op("StringToNumber", tensor, out_type=dtype)
    return apply_op("Cast", tensor, DstT=dtype)


_FOR_TENSORS: dict[Any, Callable[..., Any]] = {
    len: _len,
    range: _range,
    int: lambda value: _cast(value, dtypes.int32),
    float: lambda value: _cast(value, dtypes.float32),
}
