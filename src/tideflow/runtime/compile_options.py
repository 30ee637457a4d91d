"""What XLA is asked for when it compiles a module for the CPU.

Handing a part of an operation to another thread takes some microseconds on an idle machine, and
many milliseconds where other programs keep the processors busy: the thread has to be scheduled
first.  A loop of small operations does so at each turn.  So a module whose operations are all small
runs on the thread that calls it.
"""

from __future__ import annotations

import math
from typing import Any

# XLA's own choice hands convolutions to a library (YNNPACK) that computes them on one thread.  With
# this option it computes only products and reductions; Eigen, or oneDNN, computes convolutions.
CPU_OPTIONS: dict[str, str | bool] = {
    "xla_cpu_experimental_ynn_fusion_type": (
        "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"
    )
}
ONE_THREAD: dict[str, str | bool] = {"xla_cpu_multi_thread_eigen": False}

# An operation of so many floating-point operations or elements takes a core less than 0.1 ms.
_SMALL_PRODUCT = 4_000_000
_SMALL_ARRAY = 1 << 16
_PRODUCTS = {"stablehlo.dot_general", "stablehlo.dot"}
# What computes nothing: its results are its operands or fill memory with them, or what it holds
# computes them.
_PASSING = {
    "builtin.module", "func.func", "func.call", "func.return", "stablehlo.while", "stablehlo.if",
    "stablehlo.case", "stablehlo.return", "stablehlo.tuple", "stablehlo.get_tuple_element",
    "stablehlo.optimization_barrier", "stablehlo.constant", "stablehlo.reshape",
    "stablehlo.broadcast_in_dim", "stablehlo.iota",
}  # fmt: skip
# These read a part of an array, and write one in place: the second operand.
_SLICES = {"stablehlo.dynamic_slice", "stablehlo.slice"}
_UPDATE = "stablehlo.dynamic_update_slice"
# Operations whose work the sizes of their arrays do not bound.
_UNBOUNDED = {
    "stablehlo.convolution", "stablehlo.custom_call", "stablehlo.reduce_window",
    "stablehlo.select_and_scatter", "stablehlo.sort", "stablehlo.fft", "stablehlo.cholesky",
    "stablehlo.triangular_solve",
}  # fmt: skip


def options_for(module: Any) -> dict[str, str | bool]:
    """Return the options for a module, an operation of MLIR in the StableHLO dialect."""
    return CPU_OPTIONS | (ONE_THREAD if is_small(module) else {})


def is_small(module: Any) -> bool:
    """Whether no operation of a module has enough work for two threads."""
    from jaxlib.mlir import ir  # noqa: PLC0415 - only where jax compiles

    is_all_small = True

    def look(one: Any) -> Any:
        nonlocal is_all_small
        is_all_small = _is_small(one)
        return ir.WalkResult.ADVANCE if is_all_small else ir.WalkResult.INTERRUPT

    module.operation.walk(look)
    return is_all_small


def _is_small(one: Any) -> bool:
    name = one.name
    if name in _PASSING:
        return True
    if name in _UNBOUNDED:
        return False
    given, made = ([_elements(value.type) for value in all] for all in (one.operands, one.results))
    if name in _PRODUCTS:
        # The sizes of both matrices and of their product are mk, kn and mn.
        return 2 * math.sqrt(math.prod(given + made)) <= _SMALL_PRODUCT
    if name in _SLICES:
        return max(made) <= _SMALL_ARRAY
    if name == _UPDATE:
        return given[1] <= _SMALL_ARRAY
    return max(given + made, default=0) <= _SMALL_ARRAY


def _elements(kind: Any) -> int:
    """Return how many elements an array has; 1 for what is none, such as a token."""
    shape = getattr(kind, "shape", ())
    return math.prod(shape)
