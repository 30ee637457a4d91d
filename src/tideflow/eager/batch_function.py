"""Functions of batches that may come together from several calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.functions import function
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.wire import errors

Function = Callable[..., Any]


@export("nondifferentiable_batch_function")
def nondifferentiable_batch_function(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Sequence[int] | None = None,
    max_enqueued_batches: int = 10,
    autograph: bool = True,
    enable_large_batch_splitting: bool = True,
) -> Callable[[Function], Function]:
    """Return a decorator for functions of tensors whose rows come from one or more calls.

    How calls come together is left to the runtime; here each call is a batch of its own, and is not
    waited for.
    Args:
      num_batch_threads, batch_timeout_micros, max_enqueued_batches, enable_large_batch_splitting:
        accepted, see above.
      max_batch_size: how many rows a batch has at most.
      allowed_batch_sizes: sizes, in order, up to the next of which a batch is filled with copies of
        its first row; the last one is max_batch_size.
    Raises: ValueError for sizes that do not grow up to max_batch_size, and, in a call, for
      arguments that are no tensors; InvalidArgumentError, in a call, for more rows.
    """
    sizes = [*(allowed_batch_sizes or [])]
    if sizes and (sizes != sorted({*sizes}) or sizes[-1] != max_batch_size):
        raise ValueError(f"{sizes} must grow up to max_batch_size, {max_batch_size}")

    def decorate(fn: Function) -> Function:
        traced = function(fn, autograph=autograph)

        @functools.wraps(fn)
        def call_in_batches(*args: Any) -> Any:
            for value in args:
                if not isinstance(value, Tensor):
                    raise ValueError(f"a batch is of tensors; found {value!r}")
            rows = args[0].dims[0] if args[0].dims else None
            if rows is not None and rows > max_batch_size:
                raise errors.InvalidArgumentError(
                    f"Task size {rows} is larger than maximum input batch size {max_batch_size}"
                )
            with get_default_graph().name_scope("batch"):
                return _filled(traced, args, rows, sizes)

        return call_in_batches

    return decorate


def _filled(traced: Any, args: Sequence[Any], rows: int | None, sizes: Sequence[int]) -> Any:
    """Call a function with as many rows as the next allowed size, and leave out what was added."""
    whole = next((size for size in sizes if rows is not None and size >= rows), rows)
    if rows is None or whole == rows:
        return traced.get_concrete_function(*map(_spec, args))(*args)
    lacking = (whole or rows) - rows
    full = [apply_op("ConcatV2", [value, *[value[:1]] * lacking], 0) for value in args]
    found = traced.get_concrete_function(*map(_spec, full))(*full)
    return nest.map_structure(lambda value: value[:rows], found)


def _spec(value: Tensor) -> TensorSpec:
    return TensorSpec(value.shape, value.dtype)
