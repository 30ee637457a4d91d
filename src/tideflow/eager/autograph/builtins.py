"""Python's built-in functions, where converted code calls them on tensors of a graph or datasets.

Source: tensorflow/python/autograph/operators/py_builtins.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.eager.autograph.branches import is_staged
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.control_flow.mapping import map_fn
from tideflow.ops.data import Dataset
from tideflow.ops.math.sorting import argsort, sort
from tideflow.wire import dtypes


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a built-in function, or what stands for it on tensors of a graph and on datasets."""
    if any(isinstance(value, Dataset) for value in args):
        found = _of_datasets(function, args)
    else:
        found = _FOR_TENSORS.get(function) if any(map(is_staged, args)) else None
    return function(*args, **kwargs) if found is None else found(*args, **kwargs)


def _of_datasets(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return what stands for a built-in function where all that it goes over are datasets."""
    over = args[1:] if function in (map, filter) else args if function is zip else args[:1]
    if not all(isinstance(value, Dataset) for value in over):
        return None
    return _FOR_DATASETS.get(function)


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


def _sorted(value: Any, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> Any:
    tensor = convert_to_tensor(value)
    if tensor.dims is not None and len(tensor.dims) != 1:
        raise ValueError(f"sorted() takes a vector; found {tensor!r}")
    direction = "DESCENDING" if reverse else "ASCENDING"
    if key is None:
        return sort(tensor, direction=direction)
    order = argsort(map_fn(key, tensor), direction=direction, stable=True)
    return apply_op("GatherV2", tensor, order, 0)


def _map(function: Callable[..., Any], *datasets: Any) -> Any:
    return type(datasets[0]).zip(datasets).map(function)


def _zip(*datasets: Any, strict: bool = False) -> Any:
    if strict:
        raise ValueError("zip() of datasets ends with the shortest; strict is not supported")
    return type(datasets[0]).zip(datasets)


def _count(dataset: Dataset) -> Any:
    """Return how many elements a dataset has, which must be known when it runs."""
    count = convert_to_tensor(dataset.cardinality())
    words = "len requires dataset with definitive cardinality, got"
    known = apply_op("GreaterEqual", count, convert_to_tensor(0, dtypes.int64))
    check = apply_op("Assert", known, [convert_to_tensor(words), count])
    with get_default_graph().control_dependencies([check]):
        return apply_op("Identity", count)


def _reduced(op_name: str, first: bool) -> Callable[[Any], Any]:
    def reduced(dataset: Dataset) -> Any:
        return dataset.reduce(convert_to_tensor(first), lambda a, b: apply_op(op_name, a, b))

    return reduced


_FOR_TENSORS: dict[Any, Callable[..., Any]] = {
    len: _len,
    range: _range,
    int: lambda value: _cast(value, dtypes.int32),
    float: lambda value: _cast(value, dtypes.float32),
    sorted: _sorted,
}
_FOR_DATASETS: dict[Any, Callable[..., Any]] = {
    len: _count,
    enumerate: lambda dataset, start=0: dataset.enumerate(start),
    zip: _zip,
    map: _map,
    filter: lambda function, dataset: dataset.filter(function),
    any: _reduced("LogicalOr", False),
    all: _reduced("LogicalAnd", True),
    abs: lambda dataset: dataset.map(lambda value: apply_op("Abs", value)),
}
