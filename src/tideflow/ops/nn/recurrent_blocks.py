"""Steps and whole sequences of LSTM and GRU cells, each in one op, with their gradients.

Source: tensorflow/core/kernels/rnn/lstm_ops.cc, gru_ops.cc; python/ops/rnn_grad.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_vector
from tideflow.wire.errors import InvalidArgumentError

# In which order the columns of the weights are those of the gates.
_ICFO, _IFCO = "icfo", "ifco"


def _sigmoid(x: Array) -> Any:
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-x.astype(np.float32)))).astype(x.dtype)


def _demand(what: str, given: Any, wanted: tuple[int, ...]) -> None:
    if np.shape(given) != wanted:
        raise InvalidArgumentError(
            f"{what} must have shape {list(wanted)}; it has {list(np.shape(given))}"
        )


class _Cell(NamedTuple):
    """The weights of an LSTM cell, and how its gates lie in them.

    Attributes:
      w: [inputs + units, 4 * units]; b: [4 * units].
      peepholes: for i, f and o [units], or None where gates do not see the cell.
    """

    w: Array
    b: Array
    peepholes: tuple[Array, Array, Array] | None
    layout: str
    forget_bias: float = 0.0
    cell_clip: float = 0.0

    def gates(self, whole: Any) -> tuple[Any, ...]:
        """Return the parts i, c, f and o of [batch, 4 * units]."""
        parts = dict(zip(self.layout, np.split(whole, 4, axis=1), strict=True))
        return tuple(parts[name] for name in _ICFO)

    def joined(self, i: Any, c: Any, f: Any, o: Any) -> Any:
        """Return the parts as [batch, 4 * units]."""
        parts = {"i": i, "c": c, "f": f, "o": o}
        return np.concatenate([parts[name] for name in self.layout], axis=1)


def _step(cell: _Cell, x: Array, cs_prev: Any, h_prev: Any) -> tuple[Any, ...]:
    """Return i, cs, f, o, ci, co and h, each [batch, units]."""
    kind = x.dtype.type
    i, ci, f, o = cell.gates(np.concatenate([x, h_prev], axis=1) @ cell.w + cell.b)
    f = f + kind(cell.forget_bias)
    if cell.peepholes is not None:
        i, f = i + cs_prev * cell.peepholes[0], f + cs_prev * cell.peepholes[1]
    i, f, ci = _sigmoid(i), _sigmoid(f), np.tanh(ci)
    cs = ci * i + cs_prev * f
    if cell.cell_clip > 0:
        cs = np.clip(cs, kind(-cell.cell_clip), kind(cell.cell_clip))
    if cell.peepholes is not None:
        o = o + cs * cell.peepholes[2]
    o, co = _sigmoid(o), np.tanh(cs)
    return i, cs, f, o, ci, co, co * o


class _Slopes(NamedTuple):
    """What one step passes back: to the cell before it, its gates, and the peepholes there are."""

    cs_prev: Any
    gates: Any
    peepholes: tuple[Any, ...]


def _step_back(
    cell: _Cell, cs_prev: Any, made: tuple[Any, ...], cs_grad: Any, h_grad: Any
) -> _Slopes:
    i, cs, f, o, ci, co = made[:6]
    one = cs.dtype.type(1)
    do = o * (one - o) * h_grad * co
    dcs = (one - co * co) * h_grad * o + cs_grad
    if cell.peepholes is not None:
        dcs = dcs + do * cell.peepholes[2]
    dci, df, di = (one - ci * ci) * dcs * i, f * (one - f) * dcs * cs_prev, i * (one - i) * dcs * ci
    before = dcs * f
    if cell.peepholes is None:
        return _Slopes(before, cell.joined(di, dci, df, do), ())
    before = before + di * cell.peepholes[0] + df * cell.peepholes[1]
    seen = tuple(np.sum(d * c, axis=0) for d, c in ((di, cs_prev), (df, cs_prev), (do, cs)))
    return _Slopes(before, cell.joined(di, dci, df, do), seen)


def _cell(
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    peepholes: tuple[Array, Array, Array],
    b: Array,
    layout: str,
    use_peephole: bool,
    limits: tuple[float, float] = (0.0, 0.0),
) -> _Cell:
    """Check one step's inputs and return its cell.  Raises: InvalidArgumentError.

    limits: the bias of the forget gate, and what the cell is clipped to.
    """
    if x.ndim != 2 or cs_prev.ndim != 2:
        raise InvalidArgumentError("x and cs_prev must hold vectors for each of a batch")
    (batch, inputs), units = x.shape, cs_prev.shape[1]
    _demand("cs_prev", cs_prev, (batch, units))
    _demand("h_prev", h_prev, (batch, units))
    _demand("w", w, (inputs + units, 4 * units))
    _demand("b", b, (4 * units,))
    for what, one in zip(("wci", "wcf", "wco"), peepholes):
        if use_peephole:
            _demand(what, one, (units,))
        check_vector(one, what)
    return _Cell(w, b, peepholes if use_peephole else None, layout, *limits)


# ---- one step


def _cell_shape(c: ShapeContext) -> list[Dims]:
    x, cs_prev = with_rank(c.shape("x"), 2, "x"), with_rank(c.shape("cs_prev"), 2, "cs_prev")
    return [(x[0], cs_prev[1])] * 7


@op(
    """
    LSTMBlockCell(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T)
      -> i: T, cs: T, f: T, o: T, ci: T, co: T, h: T
    forget_bias: float = 1.0
    cell_clip: float = 3.0
    use_peephole: bool = false
    T: type in {half, float}
    """,
    shape=_cell_shape,
)
def lstm_block_cell_kernel(
    ctx: KernelContext,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """Return the gates, the cell before and after tanh, and the output of one step."""
    limits = (forget_bias, cell_clip)
    cell = _cell(x, cs_prev, h_prev, w, (wci, wcf, wco), b, _ICFO, use_peephole, limits)
    return _step(cell, x, cs_prev, h_prev)


def _cell_grad_shape(c: ShapeContext) -> list[Dims]:
    x, cs_prev = with_rank(c.shape("x"), 2, "x"), with_rank(c.shape("cs_prev"), 2, "cs_prev")
    units = cs_prev[1]
    gates = None if units is None else 4 * units
    return [(x[0], units), (x[0], gates), *[(units,)] * 3]


@op(
    """
    LSTMBlockCellGrad(x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T, i: T, cs: T,
      f: T, o: T, ci: T, co: T, cs_grad: T, h_grad: T)
      -> cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T
    use_peephole: bool
    T: type in {half, float}
    """,
    shape=_cell_grad_shape,
)
def lstm_block_cell_grad_kernel(
    ctx: KernelContext,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    i: Array,
    cs: Array,
    f: Array,
    o: Array,
    ci: Array,
    co: Array,
    cs_grad: Array,
    h_grad: Array,
    *,
    use_peephole: bool,
) -> Any:
    """Return what one step passes back to the cell before it, its gates and its peepholes."""
    cell = _cell(x, cs_prev, h_prev, w, (wci, wcf, wco), b, _ICFO, use_peephole)
    made = {"i": i, "cs": cs, "f": f, "o": o, "ci": ci, "co": co}
    for what, one in {**made, "cs_grad": cs_grad, "h_grad": h_grad}.items():
        _demand(what, one, cs_prev.shape)
    found = _step_back(cell, cs_prev, tuple(made.values()), cs_grad, h_grad)
    seen = found.peepholes or tuple(map(np.zeros_like, (wci, wcf, wco)))
    return found.cs_prev, found.gates, *seen


# ---- whole sequences


def _steps_of(seq_len_max: Array, x: Array) -> int:
    if np.ndim(seq_len_max):
        raise InvalidArgumentError(f"seq_len_max must be a scalar; found {seq_len_max}")
    if x.ndim != 3 or not 0 <= seq_len_max <= len(x):
        raise InvalidArgumentError(
            f"x must be [time, batch, inputs], with {seq_len_max} steps; found {list(x.shape)}"
        )
    return int(seq_len_max)


def _run(seq_len_max: Array, x: Array, cs_prev: Array, h_prev: Array, cell: _Cell) -> list[Any]:
    """Return the seven outputs of all steps [time, batch, units]; zeros after the last."""
    made = [np.zeros((len(x), *cs_prev.shape), x.dtype) for _ in range(7)]
    for at in range(int(seq_len_max)):
        found = _step(cell, x[at], cs_prev, h_prev)
        for whole, one in zip(made, found, strict=True):
            whole[at] = one
        cs_prev, h_prev = found[1], found[6]
    return made


def _sequence_shape(c: ShapeContext) -> list[Dims]:
    x, b = with_rank(c.shape("x"), 3, "x"), with_rank(c.shape("b"), 1, "b")
    return [(x[0], x[1], None if b[0] is None else b[0] // 4)] * 7


_SEQUENCE = """
    (seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T)
      -> i: T, cs: T, f: T, o: T, ci: T, co: T, h: T
    cell_clip: float = {cell_clip}
    use_peephole: bool = false
    T: type in {{half, float}}
"""


@op(
    "BlockLSTM" + _SEQUENCE.format(cell_clip=3.0).lstrip() + "    forget_bias: float = 1.0\n",
    shape=_sequence_shape,
)
def block_lstm_kernel(
    ctx: KernelContext,
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """Return what LSTMBlockCell gives for each step of a sequence."""
    _steps_of(seq_len_max, x)
    for what, one in (("wci", wci), ("wcf", wcf), ("wco", wco)):
        _demand(what, one, cs_prev.shape[1:])
    first, limits = np.zeros(x.shape[1:], x.dtype), (forget_bias, cell_clip)
    cell = _cell(first, cs_prev, h_prev, w, (wci, wcf, wco), b, _ICFO, use_peephole, limits)
    return tuple(_run(seq_len_max, x, cs_prev, h_prev, cell))


@op("BlockLSTMV2" + _SEQUENCE.format(cell_clip=0.0).lstrip(), shape=_sequence_shape)
def block_lstm_v2_kernel(
    ctx: KernelContext,
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """Return what BlockLSTM gives; gates lie as i, f, c, o, and the bias holds that of f."""
    _steps_of(seq_len_max, x)
    for what, one in (("wci", wci), ("wcf", wcf), ("wco", wco)):
        _demand(what, one, cs_prev.shape[1:])
    first, limits = np.zeros(x.shape[1:], x.dtype), (0.0, cell_clip)
    cell = _cell(first, cs_prev, h_prev, w, (wci, wcf, wco), b, _IFCO, use_peephole, limits)
    return tuple(_run(seq_len_max, x, cs_prev, h_prev, cell))


def _same_as_inputs(c: ShapeContext) -> list[Dims]:
    wanted = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    return [c.shape(name) for name in wanted]


def _define_sequence_grad(name: str, layout: str) -> None:
    @op(
        f"""
        {name}(seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T,
          i: T, cs: T, f: T, o: T, ci: T, co: T, h: T, cs_grad: T, h_grad: T)
          -> x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T
        use_peephole: bool
        T: type in {{half, float}}
        """,  # noqa: E501 - one list of outputs
        shape=_same_as_inputs,
    )
    def kernel(
        ctx: KernelContext,
        seq_len_max: Array,
        x: Array,
        cs_prev: Array,
        h_prev: Array,
        w: Array,
        wci: Array,
        wcf: Array,
        wco: Array,
        b: Array,
        i: Array,
        cs: Array,
        f: Array,
        o: Array,
        ci: Array,
        co: Array,
        h: Array,
        cs_grad: Array,
        h_grad: Array,
        *,
        use_peephole: bool,
    ) -> Any:
        steps = _steps_of(seq_len_max, x)
        first = np.zeros(x.shape[1:], x.dtype)
        cell = _cell(first, cs_prev, h_prev, w, (wci, wcf, wco), b, layout, use_peephole)
        made = (i, cs, f, o, ci, co, h)
        for one in (*made, cs_grad, h_grad):
            _demand("what a sequence made and its gradients", one, (len(x), *cs_prev.shape))
        peepholes = [np.zeros_like(one) for one in (wci, wcf, wco)]
        grads = (cs_grad, h_grad)
        return _run_back(cell, (x, cs_prev, h_prev), made, grads, steps, peepholes)


def _run_back(
    cell: _Cell,
    given: tuple[Array, Array, Array],
    made: tuple[Array, ...],
    grads: tuple[Array, Array],
    steps: int,
    seen: list[Any],
) -> tuple[Any, ...]:
    x, cs_first, h_first = given
    inputs = x.shape[2]
    x_grad, w_grad, b_grad = np.zeros_like(x), np.zeros_like(cell.w), np.zeros_like(cell.b)
    by_cs, by_h = np.zeros_like(cs_first), np.zeros_like(h_first)
    for at in reversed(range(steps)):
        cs_prev, h_prev = (made[1][at - 1], made[6][at - 1]) if at else (cs_first, h_first)
        now = tuple(one[at] for one in made[:6])
        found = _step_back(cell, cs_prev, now, grads[0][at] + by_cs, grads[1][at] + by_h)
        by_both = found.gates @ cell.w.T
        x_grad[at], by_h, by_cs = by_both[:, :inputs], by_both[:, inputs:], found.cs_prev
        w_grad += np.concatenate([x[at], h_prev], axis=1).T @ found.gates
        b_grad += np.sum(found.gates, axis=0)
        for total, one in zip(seen, found.peepholes):
            total += one
    return (x_grad, by_cs, by_h, w_grad, *seen, b_grad)


_define_sequence_grad("BlockLSTMGrad", _ICFO)
_define_sequence_grad("BlockLSTMGradV2", _IFCO)


@gradient("BlockLSTM", "BlockLSTMV2")
def block_lstm_gradient(op: Operation, *grads: Tensor) -> list[Any]:
    """Pass back what the cells and outputs were given.

    TensorFlow takes the first version's op for both, whose gates lie otherwise than the second's.
    """
    name = op.type.replace("LSTM", "LSTMGrad")
    made = apply_op(
        name, *op.inputs, *op.outputs, grads[1], grads[6], use_peephole=op.attrs["use_peephole"]
    )
    return [None, *made]
