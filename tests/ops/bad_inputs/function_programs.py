"""Programs with one call, branch, loop or gradient each whose inputs are fed, and what loops and
branches are made of (see programs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.programs import Build, Feeds
from ops.bad_inputs.state_programs import reference
from tideflow.graph.building import apply_op
from tideflow.graph.node import FunctionRef
from tideflow.ops.control_flow.functional import defun

F = np.float32
I32 = np.int32
X = np.arange(6, dtype=F).reshape(3, 2)
Runs = Sequence[Sequence[Any]]


def _function(body: Callable[..., Any], *types: Any) -> FunctionRef:
    return FunctionRef(defun(body, types).name)


def _rows(x: Any, at: Any) -> Any:
    """Fail for some values of an index: inside of a function."""
    return tf.gather(x, at)


# ---- functions


def _call(op: str, feed: Feeds) -> Runs:
    attrs = {"Tout": [F], "f": _function(_rows, F, I32)}
    inputs = [feed(X), feed(I32(2))]
    target = [feed("/cpu:0")] if op == "RemoteCall" else []
    return [apply_op(op, *target, inputs, **attrs)]


def _gradient(op: str, feed: Feeds) -> Runs:
    f = _function(lambda x, y: [tf.sin(x) * y, tf.exp(y)], F, F)
    given = [feed(np.full(2, 0.5 * i, F)) for i in range(4)]
    return [apply_op(op, given, Tout=[F, F], f=f)]


def _if(kind: Any, op: str, feed: Feeds) -> Runs:
    branches = {
        "then_branch": _function(_rows, F, I32),
        "else_branch": _function(lambda x, at: tf.reduce_sum(x), F, I32),
    }
    return [apply_op(op, feed(kind(1)), [feed(X), feed(I32(1))], Tout=[F], **branches)]


def _case(op: str, feed: Feeds) -> Runs:
    bodies = [_rows, lambda x, at: x * 2, lambda x, at: x[1:]]
    branches = [_function(body, F, I32) for body in bodies]
    return [apply_op(op, feed(I32(0)), [feed(X), feed(I32(1))], Tout=[F], branches=branches)]


def _while(op: str, feed: Feeds) -> Runs:
    made = apply_op(
        op,
        [feed(I32(0)), feed(X)],
        cond=_function(lambda i, x: tf.reduce_any(tf.less(i, 5)), I32, F),
        body=_function(lambda i, x: [i + 1, x + x], I32, F),
    )
    return [made]


def _while_true(op: str, feed: Feeds) -> Runs:
    """Go on while a number is not zero, or a tensor has elements: at last it is the number zero."""
    made = apply_op(
        op,
        [feed(F(2)), feed(I32(0))],
        cond=_function(lambda x, i: tf.identity(x), F, I32),
        body=_function(lambda x, i: [tf.zeros(tf.shape(x)[1:]), i + 1], F, I32),
    )
    return [made]


def _for(op: str, feed: Feeds) -> Runs:
    body = _function(lambda i, x: x + tf.cast(i, F), I32, F)
    return [apply_op(op, feed(I32(0)), feed(I32(5)), feed(I32(2)), [feed(X)], body=body)]


def _to_bool(kind: Any, op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(kind))]]


# ---- what loops and branches are made of


def _switch(op: str, feed: Feeds) -> Runs:
    when_false, when_true = apply_op("Switch", feed(X), feed(np.bool_(True)))
    merged = apply_op("Merge", [when_false + 1, when_true * 2])
    return [list(merged)]


def _switch_n(op: str, feed: Feeds) -> Runs:
    outputs = apply_op(op, feed(X), feed(I32(1)), num_outs=3, name="switched")
    return [list(apply_op("Merge", [x * F(factor) for factor, x in enumerate(outputs)]))]


def _loop(op: str, feed: Feeds) -> Runs:
    """Count up in a loop whose parts are single ops."""
    entered = apply_op("Enter", feed(I32(0)), frame_name="loop")
    limit = apply_op("Enter", feed(I32(3)), frame_name="loop", is_constant=True)
    merged, _ = apply_op("Merge", [entered, entered])
    goes_on = apply_op("LoopCond", apply_op("Less", merged, limit))
    left, body = apply_op("Switch", merged, goes_on)
    one = apply_op("Enter", tf.constant(1), frame_name="loop", is_constant=True)
    merged.op.update_input(1, apply_op("NextIteration", body + one))
    return [[apply_op("Exit", left)]]


def _ref_loop(op: str, feed: Feeds) -> Runs:
    v, begin = reference(F(0))
    entered = apply_op("RefEnter", v, frame_name="loop")
    limit = apply_op("Enter", feed(F(3), most=9), frame_name="loop", is_constant=True)
    merged, _ = apply_op("RefMerge", [entered, entered])
    goes_on = apply_op("LoopCond", apply_op("Less", merged, limit))
    left, body = apply_op("RefSwitch", merged, goes_on)
    one = apply_op("Enter", tf.constant(1.0), frame_name="loop", is_constant=True)
    merged.op.update_input(1, apply_op("RefNextIteration", apply_op("AssignAdd", body, one)))
    return [[begin], [apply_op("RefExit", left)], [v]]


def _ref_identity(op: str, feed: Feeds) -> Runs:
    v, begin = reference(X)
    return [[begin], [apply_op("AssignAdd", apply_op(op, v), feed(X))], [v]]


def _ref_select(op: str, feed: Feeds) -> Runs:
    v, begin = reference(X, "v")
    w, begin_other = reference(X + 1, "w")
    chosen = apply_op(op, feed(I32(1)), [v, w])
    return [[begin, begin_other], [apply_op("AssignAdd", chosen, feed(X))], [v, w]]


def _trigger(op: str, feed: Feeds) -> Runs:
    with tf.control_dependencies([apply_op("Switch", tf.constant(1.0), feed(np.bool_(True)))[1]]):
        trigger = apply_op(op)
    with tf.control_dependencies([trigger]):
        return [[tf.identity(feed(X))]]


def _assert(op: str, feed: Feeds) -> Runs:
    checked = apply_op(op, feed(np.bool_(True)), [feed(X), feed("text")], summarize=2)
    with tf.control_dependencies([checked]):
        return [[tf.constant(1)]]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_call, "PartitionedCall StatefulPartitionedCall RemoteCall"),
    (_gradient, "SymbolicGradient"),
    (partial(_if, np.bool_), "If StatelessIf"),
    (_case, "Case StatelessCase"),
    (_while, "While StatelessWhile"),
    (_for, "For"),
    (partial(_to_bool, F(1)), "ToBool"),
    (_switch, "Switch Merge"),
    (_switch_n, "_SwitchN"),
    (_loop, "Enter Exit NextIteration LoopCond"),
    (_ref_loop, "RefEnter RefExit RefMerge RefNextIteration RefSwitch"),
    (_ref_identity, "RefIdentity"),
    (_ref_select, "RefSelect"),
    (_trigger, "ControlTrigger"),
    (_assert, "Assert"),
]

# The same ops again, with inputs of other types.
_OTHERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (partial(_if, F), "If of_numbers"),
    (_while_true, "While of_numbers"),
    (partial(_to_bool, I32(1)), "ToBool of_integers"),
    (partial(_to_bool, np.bool_(True)), "ToBool of_truth_values"),
    (partial(_to_bool, "text"), "ToBool of_text"),
]


def function_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    found: dict[str, Build] = {}
    for builder, ops in _BUILDERS:
        found |= {op: partial(builder, op) for op in ops.split()}
    return found | {name: partial(builder, name.split()[0]) for builder, name in _OTHERS}
