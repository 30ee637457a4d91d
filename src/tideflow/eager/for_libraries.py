"""What libraries ask for below TensorFlow's public API: kinds of values, modes, decorators.

Source: tensorflow/python/types/core.py, framework/smart_cond.py, util/tf_decorator.py.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.array import reshape
from tideflow.ops.control_flow import cond_v2
from tideflow.ops.framework import get_static_value
from tideflow.ops.state import Variable
from tideflow.wire import dtypes

_PACKAGE = __name__.partition(".")[0] + "."


class TensorType(abc.ABC):  # noqa: B024 (a kind to ask for)
    """What counts as one tensor: tensors, variables, and classes of libraries that derive from it.

    Such a class has a method `__tf_tensor__(dtype=None, name=None)`.
    """

    def _as_graph_element(self) -> Tensor:
        return convert_to_tensor(self)


TensorType.register(Tensor)
TensorType.register(Variable)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return what one of two functions gives; the other one is not called where pred is known.

    Args:
      pred: a scalar bool: a Python value or a tensor.
    Raises: TypeError for what is neither, and for functions that cannot be called.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError("smart_cond needs two functions, `true_fn` and `false_fn`")
    known = smart_constant_value(pred)
    if known is None:
        return cond_v2(pred, true_fn, false_fn, name)
    return true_fn() if known else false_fn()


def smart_constant_value(pred: Any) -> bool | None:
    """Return a bool that is known before anything runs; None for a tensor whose value is not.

    Raises: TypeError for what is neither a bool, 0, 1 (of Python or NumPy) nor a tensor.
    """
    if isinstance(pred, (int, np.bool_, np.integer)) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, (Tensor, Variable)):
        value = get_static_value(convert_to_tensor(pred))
        return None if value is None else bool(value)
    raise TypeError(f"`pred` must be a Tensor, a Python bool, or 1 or 0, not {pred!r}")


def tf2_enabled() -> bool:
    """Whether the TF2 behaviour is in force: it is, as far as this library has both."""
    return True


def unwrap_decorators(maybe_wrapped: Any) -> tuple[list[Any], Any]:
    """Return the decorators around a function, the outermost first, and the function itself."""
    decorators = []
    inner = maybe_wrapped
    while hasattr(inner, "__wrapped__"):
        decorators.append(inner)
        inner = inner.__wrapped__
    return decorators, inner


def make_decorator(
    target: Callable[..., Any],
    decorator_func: Callable[..., Any],
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Callable[..., Any]:
    """Let a wrapper bear the name and signature of what it wraps; returns the wrapper."""
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        if hasattr(target, attribute):
            setattr(decorator_func, attribute, getattr(target, attribute))
    decorator_func.__wrapped__ = target  # type: ignore[attr-defined]
    return decorator_func


def getfullargspec(function: Any) -> inspect.FullArgSpec:
    """Return what arguments the function behind all decorators takes."""
    inner = function
    while hasattr(inner, "__wrapped__") and not hasattr(inner, "__signature__"):
        inner = inner.__wrapped__
    found = inspect.getfullargspec(inner)
    # Libraries compare their functions with TensorFlow's, which have no annotations.
    is_own = str(getattr(inner, "__module__", "")).startswith(_PACKAGE)
    return found._replace(annotations={}) if is_own else found


def dynamic_update_slice(x: Any, updates: Any, start_indices: Any) -> Tensor:
    """Return a tensor with a block of it replaced, moved inwards where it would not fit.

    Args:
      x: the tensor, [n_1, ..., n_k].
      updates: the block, of the same rank and type.
      start_indices: [k], integers: where the block begins.
    Source: the XLA operation DynamicUpdateSlice.
    """
    x, updates = convert_to_tensor(x), convert_to_tensor(updates)
    if x.dims == ():
        return convert_to_tensor(updates)
    sizes, block = (apply_op("Shape", one, out_type=dtypes.int64) for one in (x, updates))
    wanted = apply_op("Cast", convert_to_tensor(start_indices), DstT=dtypes.int64)
    most = apply_op("Sub", sizes, block)
    start = apply_op("Minimum", apply_op("Maximum", wanted, np.int64(0)), most)
    places = apply_op("AddV2", _places(updates, block), start)
    replaced: Tensor = apply_op("TensorScatterUpdate", x, places, reshape(updates, [-1]))
    return replaced


def _places(block: Tensor, sizes: Tensor) -> Tensor:
    """Return the indices of all elements, [elements, rank]."""
    known = [size for size in block.dims or () if size is not None]
    if not known or len(known) < len(block.dims or ()):
        found: Tensor = apply_op("Where", apply_op("Fill", sizes, True))
        return found
    indices = np.indices(known).reshape(len(known), -1).astype(np.int64)
    return convert_to_tensor(np.ascontiguousarray(indices.T))


# Whether branches and loops are functions inside of functions: they are.
ENABLE_CONTROL_FLOW_V2 = True


def in_xla_context(graph: Any) -> bool:
    """Whether what is built goes to XLA as a whole, so that it must not branch: it never does."""
    return False


def compute_batch_size(dataset: Any) -> Tensor:
    """Return the size of a dataset's batches, an int64 scalar; -1 where it cannot be told."""
    found: Tensor = apply_op("ComputeBatchSize", dataset._variant)
    return found
