"""Functions of tf by the rules of the modes "safe" and "all": Python's numbers give way.

Source: python/ops/weak_tensor_ops.py of TensorFlow 2.21, for the functions that follow the rules.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tideflow.eager.numpy.conversions import (
    WeakTensor,
    as_kind,
    converted,
    keeps_weak,
    result_type,
)
from tideflow.graph.behavior import behavior
from tideflow.graph.graph import Tensor

Function = Callable[..., Any]

_UNARY = (
    "abs acos acosh adjust_brightness adjust_gamma angle asin asinh atan atanh bessel_i0 "
    "bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 "
    "bessel_k1e bessel_y0 bessel_y1 ceil check_numerics clip_by_value conj cos cosh dawsn "
    "depth_to_space diag diag_part digamma erf erfc erfcinv erfinv exp expand_dims expint expm1 "
    "floor fresnel_cos fresnel_sin gelu identity imag invert leaky_relu lgamma log log1p "
    "log_sigmoid log_softmax matrix_transpose ndtri negative ones_like random_brightness real "
    "reciprocal reciprocal_no_nan reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean "
    "reduce_min reduce_prod reduce_std reduce_sum reduce_variance relu6 reshape rint round rsqrt "
    "sigmoid sign silu sin sinh softplus space_to_depth spence sqrt square squeeze "
    "stateless_random_brightness stop_gradient swish tan tanh tensor_diag_part trace transpose "
    "zeros_like"
)
_BINARY = (
    "add divide divide_no_nan floordiv floormod matmul mod multiply multiply_no_nan pow realdiv "
    "subtract truediv truncatediv truncatemod"
)
# Their results are as strong as tensors are.
_COMPARING = "equal maximum minimum"
_NAMESPACES = ("", "bitwise", "debugging", "image", "linalg", "math", "nn")


def weaken_functions() -> None:
    """Have the functions of the front doors that are open follow the rules."""
    for door in ("tideflow", "tensorflow"):
        if door in sys.modules:
            for holder, name, function in _functions(sys.modules[door]):
                setattr(holder, name, _weakened(function, name))


def _functions(door: Any) -> Iterator[tuple[Any, str, Function]]:
    """Yield the functions that follow the rules, each with what holds it and its name."""
    names = f"{_UNARY} {_BINARY} {_COMPARING} constant".split()
    for namespace in _NAMESPACES:
        holder = getattr(door, namespace) if namespace else door
        for name in names:
            function = getattr(holder, name, None)
            if function is not None and not hasattr(function, "follows_weak_rules"):
                yield holder, name, function


@functools.cache
def _weakened(function: Function, name: str) -> Function:
    if name == "constant":
        made = _weak_constant(function)
    elif name in _UNARY.split():
        made = keeps_weak(function)
    else:
        made = _of_two(function, name not in _COMPARING.split())
    made.follows_weak_rules = True  # type: ignore[attr-defined]
    return made


def _of_two(function: Function, may_be_weak: bool) -> Function:
    """Let a function of two operands bring them to one type."""
    signature = inspect.signature(function)
    first, second, *_ = signature.parameters

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        if not behavior.converts_weakly:
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        x, y = given[first], given[second]
        try:
            dtype, is_weak = result_type(x, y)
        except NotImplementedError:
            return function(**given)
        pair = {first: converted(x, dtype), second: converted(y, dtype)}
        return as_kind(function(**{**given, **pair}), is_weak and may_be_weak)

    return either


def _weak_constant(function: Function) -> Function:
    """Let a constant of Python's numbers be weak where no type is asked for."""

    @functools.wraps(function)
    def either(value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        value = value.tensor if isinstance(value, WeakTensor) and dtype is not None else value
        if not behavior.converts_weakly or dtype is not None or isinstance(value, Tensor):
            return function(value, dtype, *args, **kwargs)
        try:
            kind, is_weak = result_type(value)
        except NotImplementedError:
            return function(value, dtype, *args, **kwargs)
        value = value.tensor if isinstance(value, WeakTensor) else value
        return as_kind(function(value, kind, *args, **kwargs), is_weak)

    return either
