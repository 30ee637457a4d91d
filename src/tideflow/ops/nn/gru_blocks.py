"""A step of a GRU cell in one op, with its gradient.

Source: tensorflow/core/kernels/rnn/gru_ops.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire.errors import InvalidArgumentError


def _sigmoid(x: Array) -> Any:
    with np.errstate(over="ignore"):
        return np.float32(1) / (np.float32(1) + np.exp(-x))


def _check(x: Array, h_prev: Array, **others: Array) -> None:
    if x.ndim != 2 or h_prev.ndim != 2 or len(x) != len(h_prev):
        raise InvalidArgumentError(
            f"x and h_prev must be matrices of as many rows; found {list(x.shape)} and "
            f"{list(h_prev.shape)}"
        )
    inputs, units = x.shape[1], h_prev.shape[1]
    wanted = {
        "w_ru": (inputs + units, 2 * units),
        "w_c": (inputs + units, units),
        "b_ru": (2 * units,),
        "b_c": (units,),
    }
    for what, given in others.items():
        if given.shape != wanted.get(what, h_prev.shape):
            raise InvalidArgumentError(f"{what} does not fit x and h_prev; it is {given.shape}")


def _shape(c: ShapeContext) -> list[Dims]:
    x, h_prev = with_rank(c.shape("x"), 2, "x"), with_rank(c.shape("h_prev"), 2, "h_prev")
    return [(x[0], h_prev[1])] * 4


@op(
    """
    GRUBlockCell(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T) -> r: T, u: T, c: T, h: T
    T: type in {float}
    """,
    shape=_shape,
)
def gru_block_cell_kernel(
    ctx: KernelContext, x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array
) -> Any:
    """Return the gates of reset and update, the candidate and the output of one step."""
    _check(x, h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c)
    gates = _sigmoid(np.concatenate([x, h_prev], axis=1) @ w_ru + b_ru)
    r, u = np.split(gates, 2, axis=1)
    c = np.tanh(np.concatenate([x, h_prev * r], axis=1) @ w_c + b_c)
    return np.ascontiguousarray(r), np.ascontiguousarray(u), c, u * h_prev + (np.float32(1) - u) * c


def _grad_shape(c: ShapeContext) -> list[Dims]:
    x, h_prev = with_rank(c.shape("x"), 2, "x"), with_rank(c.shape("h_prev"), 2, "h_prev")
    units = h_prev[1]
    both = (x[0], None if units is None else 2 * units)
    return [x, (x[0], units), (x[0], units), both]


@op(
    """
    GRUBlockCellGrad(x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T, r: T, u: T, c: T, d_h: T)
      -> d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T
    T: type in {float}
    """,
    shape=_grad_shape,
)
def gru_block_cell_grad_kernel(
    ctx: KernelContext,
    x: Array,
    h_prev: Array,
    w_ru: Array,
    w_c: Array,
    b_ru: Array,
    b_c: Array,
    r: Array,
    u: Array,
    c: Array,
    d_h: Array,
) -> Any:
    """Return what a step passes back to its inputs, and to what its gates were made of."""
    _check(x, h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r, u=u, c=c, d_h=d_h)
    one, inputs = np.float32(1), x.shape[1]
    d_c_bar = d_h * (one - u) * (one - c * c)
    d_u_bar = d_h * (h_prev - c) * u * (one - u)
    by_candidate = d_c_bar @ w_c.T
    d_h_prev_r = by_candidate[:, inputs:]
    d_r_bar = d_h_prev_r * h_prev * r * (one - r)
    d_gates = np.concatenate([d_r_bar, d_u_bar], axis=1)
    by_gates = d_gates @ w_ru.T
    d_x = by_gates[:, :inputs] + by_candidate[:, :inputs]
    d_h_prev = by_gates[:, inputs:] + d_h_prev_r * r + d_h * u
    return d_x, d_h_prev, d_c_bar, d_gates
