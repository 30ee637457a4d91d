"""NumPy's methods, indices and operators for tensors, where a program asks for them."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.eager.numpy.arranging import flatten, ravel, reshape, transpose
from tideflow.eager.numpy.binary import clip
from tideflow.eager.numpy.conversions import WeakTensor, as_kind, converted, result_type
from tideflow.eager.numpy.elementwise import around
from tideflow.eager.numpy.indexing import getitem
from tideflow.eager.numpy.products import matmul
from tideflow.eager.numpy.promotion import common_type
from tideflow.eager.numpy.reductions import amax, amin, mean
from tideflow.eager.numpy.weakening import weaken_functions
from tideflow.graph.behavior import CONVERSIONS, behavior
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.math.casts import cast
from tideflow.ops.operators import install_operators

_log = logging.getLogger("tideflow")


@export_v2("experimental.numpy.experimental_enable_numpy_behavior")
def experimental_enable_numpy_behavior(
    prefer_float32: bool = False, dtype_conversion_mode: str = "legacy"
) -> None:
    """Give tensors NumPy's methods and indices, and their operators a rule for types.

    Args:
      prefer_float32: whether Python's floats count as float32, and not as float64.
      dtype_conversion_mode: "legacy" brings operands to one type by NumPy's rules; "safe" where no
        bits are lost, and "all" always, by rules in which Python's numbers give way; "off" never.
    Raises: ValueError for another mode.
    """
    if dtype_conversion_mode not in CONVERSIONS:
        raise ValueError(
            f"dtype_conversion_mode must be one of {CONVERSIONS}; found {dtype_conversion_mode!r}"
        )
    behavior.dtype_conversion = dtype_conversion_mode
    behavior.prefers_float32 = prefer_float32
    behavior.index = getitem
    behavior.operate = {"off": None, "legacy": _by_numpy}.get(dtype_conversion_mode, _weakly)
    if behavior.converts_weakly:
        _log.warning("types convert by other rules from now on, but for what is made already")
        weaken_functions()
    for kind in (Tensor, WeakTensor):
        for name, method in _METHODS.items():
            setattr(kind, name, method)


# ---- methods


def _reshape(x: Any, *newshape: Any, **kwargs: Any) -> Any:
    order = kwargs.pop("order", "C")
    if kwargs:
        raise ValueError(f"reshape takes order alone; found {sorted(kwargs)}")
    is_one = len(newshape) == 1 and not isinstance(newshape[0], int)
    return reshape(x, newshape[0] if is_one else newshape, order=order)


def _size(x: Any) -> Any:
    return np.prod(x.dims) if x.shape.is_fully_defined() else None


def _tolist(x: Any) -> Any:
    if not x.graph.is_eager:
        raise ValueError("a tensor of a graph has no value yet, and no tolist()")
    return x.numpy().tolist()


_METHODS: dict[str, Any] = {
    "T": property(lambda x: x.transpose()),
    "data": property(lambda x: x),
    "size": property(_size),
    "__pos__": lambda x: x,
    "__round__": around,
    "astype": cast,
    "clip": clip,
    "flatten": flatten,
    "max": amax,
    "mean": mean,
    "min": amin,
    "ravel": ravel,
    "reshape": _reshape,
    "tolist": _tolist,
    "transpose": transpose,
}


# ---- operators


def _by_numpy(name: str, apply: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Apply an operator to operands of the type that NumPy's rules give them."""
    if isinstance(x, IndexedSlices) or isinstance(y, IndexedSlices):
        return apply(x, y)
    if name == "matmul":
        return matmul(x, y)
    dtype = common_type(
        nest.flatten([np.int32 if isinstance(v, TensorShape) else v for v in (x, y)])
    )
    return apply(converted(x, dtype), converted(y, dtype))


# Operators whose results are bools, or not of the operands' kind.
_NEVER_WEAK = frozenset({"eq", "ne"})
# Operators that leave their operands' types alone.
_NOT_CONVERTED = frozenset({"lt", "le", "gt", "ge", "and", "or", "xor"})


def _weakly(name: str, apply: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Apply an operator to operands of one type, by the rules in which some of them give way."""
    if name in _NOT_CONVERTED:
        return apply(*(v.tensor if isinstance(v, WeakTensor) else v for v in (x, y)))
    try:
        dtype, is_weak = result_type(x, y)
    except NotImplementedError:
        return apply(x, y)
    found = apply(converted(x, dtype), converted(y, dtype))
    return as_kind(found, is_weak and name not in _NEVER_WEAK)


install_operators(WeakTensor)
for _name, _method in {
    "__neg__": lambda x: WeakTensor(-x.tensor),
    "__abs__": lambda x: WeakTensor(abs(x.tensor)),
    "__eq__": lambda x, other: _weakly("eq", operator.eq, x, other),
    "__ne__": lambda x, other: _weakly("ne", operator.ne, x, other),
}.items():
    setattr(WeakTensor, _name, _method)
