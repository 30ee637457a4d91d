"""Ops as functions in small letters that take arguments by position, as TensorFlow's modules do.

`sparse_matrix_sparse_mat_mul` is the op SparseMatrixSparseMatMul: its inputs, then the attrs that
these do not tell, then a name.  Libraries call ops so that have no public function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tideflow.graph.op_def import registered_ops
from tideflow.ops.raw_ops import find_op


def __getattr__(name: str) -> Callable[..., Any]:
    op_name = _op_names().get(name.replace("_", "")) if not name.startswith("_") else None
    if op_name is None:
        raise AttributeError(f"there is no op {name!r}")
    return _by_position(op_name, name)


def _by_position(op_name: str, name: str) -> Callable[..., Any]:
    call = find_op(op_name)
    names = list(inspect.signature(call).parameters)

    def positional(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{name} takes {len(names)} arguments, not {len(args)}")
        return call(**dict(zip(names, args)), **kwargs)

    positional.__name__ = name
    positional.__doc__ = f"Call {op_name} with {', '.join(names)}."
    return positional


@functools.cache
def _op_names() -> dict[str, str]:
    return {name.lower(): name for name in registered_ops()}
