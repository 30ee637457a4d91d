"""What libraries of probability ask for below TensorFlow's public API.

Source: tensorflow/python/util/variable_utils.py, framework/ops.py, framework/tensor_util.py,
ops/parallel_for/control_flow_ops.py, ops/control_flow_case.py, ops/linalg/linear_operator.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from tideflow.eager.extension_types.composites import CompositeTensor
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.type_spec import Composite
from tideflow.graph.types import DTypeLike
from tideflow.ops.control_flow.mapping import vectorized_map
from tideflow.ops.framework import get_static_value, nest
from tideflow.ops.state import Variable

_Class = TypeVar("_Class", bound=type)


# ---- values


def convert_variables_to_tensors(values: Any) -> Any:
    """Return a structure with the values of variables in their place, in composites too."""
    return nest.map_structure(_without_variables, values)


def _without_variables(value: Any) -> Any:
    if isinstance(value, Variable):
        return convert_to_tensor(value)
    if isinstance(value, Composite) and hasattr(value, "_convert_variables_to_tensors"):
        return value._convert_variables_to_tensors()
    return value


def convert_to_tensor_or_composite(
    value: Any, dtype: DTypeLike | None = None, name: str | None = None
) -> Any:
    """Return a value that is made of tensors as it is, anything else as a tensor.

    Raises: ValueError where what is made of tensors has another type than dtype.
    """
    if not isinstance(value, CompositeTensor) or isinstance(value, Variable):
        return convert_to_tensor(value, dtype=dtype, name=name)
    found = getattr(value, "dtype", None)
    if dtype is not None and found is not None and found != dtype:
        raise ValueError(f"Tensor conversion requested dtype {dtype} for {value!r:.80}")
    return value


def constant_value_as_shape(tensor: Any) -> TensorShape:
    """Return the shape that a vector of sizes states, as far as it is known; -1 is unknown.

    Raises: ValueError for a scalar other than -1, and for a tensor that is no vector.
    """
    if not isinstance(tensor, Tensor):
        return TensorShape([None if size == -1 else int(size) for size in np.asarray(tensor)])
    if tensor.dims == ():
        if get_static_value(tensor) != -1:
            raise ValueError("Received a scalar with a value that is not known, or not -1")
        return TensorShape(None)
    known = get_static_value(tensor, partial=True)
    if known is None:
        return TensorShape([None] * tensor.dims[0] if tensor.dims and tensor.dims[0] else None)
    return TensorShape([None if size in (None, -1) else int(size) for size in known])


# ---- control flow


def pfor(
    loop_fn: Callable[[Any], Any],
    iters: Any,
    fallback_to_while_loop: bool = True,
    parallel_iterations: int | None = None,
    warn: bool = False,
) -> Any:
    """Return what loop_fn gives for 0, 1, ... iters - 1, stacked.

    Args:
      loop_fn: takes an int32 scalar, returns a structure of tensors.
    """
    return vectorized_map(loop_fn, apply_op("Range", 0, convert_to_tensor(iters), 1))


def case_by(
    cond_fn: Callable[..., Any],
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None,
    exclusive: bool,
    name: str,
    allow_python_preds: bool = False,
    **cond_kwargs: Any,
) -> Any:
    """Return what the function of the first predicate that holds gives, one branch in the other.

    Args:
      cond_fn: chooses between two functions: cond_fn(pred, true_fn=..., false_fn=...).
      pred_fn_pairs: pairs of a scalar bool and a function.
      default: the function for where none holds; the last one of the pairs if left out.
      exclusive, allow_python_preds: what is promised of the predicates; nothing depends on it.
    Raises: TypeError for what is no list of pairs.
    """
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError(f"'pred_fn_pairs' must be a list or tuple, not {type(pred_fn_pairs)}")
    pairs = list(pred_fn_pairs)
    chosen = pairs.pop()[1] if default is None else default
    for pred, function in reversed(pairs):
        chosen = functools.partial(cond_fn, pred, true_fn=function, false_fn=chosen, **cond_kwargs)
    with get_default_graph().name_scope(name or "case"):
        return chosen()


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """Build graphs for a while: the default one, a new one where operations ran at once."""
    with contextlib.ExitStack() as stack:
        if get_default_graph().is_eager:
            stack.enter_context(Graph().as_default())
        yield


# ---- linear operators


def make_composite_tensor(cls: _Class, module_name: str = "tf.linalg") -> _Class:
    """Return a class of linear operators as one that is made of tensors: each is."""
    return cls
