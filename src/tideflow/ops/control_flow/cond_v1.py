"""Branches: cond, case and switch_case, made of Switch and Merge.

Both branches are built; at run time the ops of one of them get dead inputs and do not run.  What
a branch takes from outside goes through a Switch on the predicate; what it gives meets the other
branch's result in a Merge.

Source: tensorflow/python/ops/control_flow/primitives.py and cond.py for names and rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import functional_v2 as functional
from tideflow.ops.control_flow.contexts import CondContext
from tideflow.ops.control_flow.ordering import group, with_dependencies
from tideflow.ops.control_flow.primitives import merge, switch
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import identity, nest
from tideflow.wire import dtypes

Branch = Callable[[], Any]


@export("cond")
def cond(
    pred: TensorLike,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """Return what true_fn gives where pred holds, else what false_fn gives.

    Args:
      pred: a bool scalar.
      true_fn, false_fn: functions that build the branches; their results must be alike in
        structure and types.  An operation in a result stands for having run; None for None.
      strict: keep a list of one as a list instead of returning its only member.
    Raises: TypeError for a predicate that is no tensor, a branch that is no function;
    ValueError for results of different types or structure, or none.
    """
    true_fn, false_fn = _either(true_fn, fn1, "true_fn"), _either(false_fn, fn2, "false_fn")
    if functional.is_functional():
        return functional.cond(pred, true_fn, false_fn, name)
    if isinstance(pred, bool):
        raise TypeError("pred is a Python bool; cond is for tensors, write a plain `if`")
    if isinstance(pred, Tensor) and not pred.dtype.base_dtype.is_bool:
        raise TypeError(f"pred must be a bool; {pred!r} is {pred.dtype.name}")
    graph = get_default_graph()
    with graph.name_scope(name or "cond"):
        given = convert_to_tensor(pred, dtypes.bool_)
        off, on = switch(given, given)
        pivots = [identity(on, name="switch_t"), identity(off, name="switch_f")]
        shared = identity(given, name="pred_id")
        context_name = graph.unique_name("cond_text")
        true = _Branch(context_name, shared, pivots[0], 1, strict)
        false = _Branch(graph.unique_name("cond_text"), shared, pivots[1], 0, strict)
        true.context.sibling, false.context.sibling = false.context, true.context
        true.build(true_fn)
        false.build(false_fn)
        return _join(true, false)


@export_v2("cond")
def cond_v2(
    pred: TensorLike,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    name: str | None = None,
) -> Any:
    """Return what true_fn gives where pred holds, else what false_fn gives.

    Both give the same structure of tensors.  Where operations are called at once, only one of the
    functions is called; in a graph both are built.
    Raises: as the TF1 form (cond).
    """
    return cond(pred, true_fn, false_fn, strict=True, name=name)


def _either(function: Branch | None, old: Branch | None, name: str) -> Branch:
    if function is not None and old is not None:
        raise TypeError(f"give {name} by its new name only")
    found = function if function is not None else old
    if found is None:
        raise TypeError(f"cond needs {name}")
    if not callable(found):
        raise TypeError(
            f"'{name}' must be callable, a function without arguments, not {found!r:.60}"
        )
    return found


class _Branch:
    """One branch while it is built: its structure, and its leaves as tensors or None."""

    def __init__(self, name: str, pred: Tensor, pivot: Tensor, branch: int, strict: bool) -> None:
        self.strict = strict
        self.graph = get_default_graph()
        self.context = CondContext(self.graph, name, pred, pivot, branch)
        self.result: Any = None
        self.leaves: list[Tensor | None] = []

    def build(self, function: Branch) -> None:
        outer = self.graph.in_force.control_flow
        self.graph.in_force.control_flow = self.context
        try:
            self.result = function()
            if self.result is None:
                raise ValueError(
                    f"the {'true' if self.context.branch else 'false'} branch of cond gives None; "
                    "return a tensor or an operation, or what is built in it will never run"
                )
            if not self.strict and isinstance(self.result, (list, tuple)) and len(self.result) == 1:
                self.result = self.result[0]
            self.leaves = [
                self._leaf(item) for item in nest.flatten(self.result, expand_composites=True)
            ]
        finally:
            self.graph.in_force.control_flow = outer

    def _leaf(self, value: object) -> Tensor | None:
        if value is None:
            return None
        if isinstance(value, Operation):
            passed: Tensor = with_dependencies([value], self.context.pivot)
            return passed
        return self.context.resolve(convert_to_tensor(value))


def _join(true: _Branch, false: _Branch) -> Any:
    try:
        nest.assert_same_structure(true.result, false.result, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the branches of cond give different structures: {error}") from None
    merged: list[Tensor | None] = []
    for on_true, on_false in zip(true.leaves, false.leaves, strict=True):
        if on_true is None or on_false is None:
            if on_true is not on_false:
                raise TypeError("a result of cond is None in one branch only")
            merged.append(None)
            continue
        if on_true.dtype.base_dtype is not on_false.dtype.base_dtype:
            raise ValueError(
                "the branches of cond give different types: "
                f"true_fn {on_true.dtype.name} ({on_true.name!r}), "
                f"false_fn {on_false.dtype.name} ({on_false.name!r})"
            )
        merged.append(merge([on_false, on_true])[0])
    return nest.pack_sequence_as(true.result, merged, expand_composites=True)


# ---- several branches


@export("case")
def case(
    pred_fn_pairs: object,
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return what the function of the first predicate that holds gives.

    Args:
      pred_fn_pairs: a list of (bool scalar, function), or a dict when exclusive.
      default: used where no predicate holds; without it, that is an error.
      exclusive: fail when more than one predicate holds.
    Raises: TypeError for malformed pairs; when run, InvalidArgumentError where no predicate (or
    more than one, when exclusive) holds.
    """
    pairs = _checked_pairs(pred_fn_pairs, exclusive)
    graph = get_default_graph()
    with graph.name_scope(name or "case"):
        if not pairs:
            if default is None:
                raise ValueError("case has no pairs and no default")
            return default()
        preds = [convert_to_tensor(pred, dtypes.bool_) for pred, _ in pairs]
        assertions = []
        if exclusive and len(pairs) > 1:
            assertions.append(_assert_at_most_one(preds))
        if default is None:
            holding = apply_op("Any", apply_op("Pack", preds, axis=0), 0)
            message = f"none of the {len(preds)} predicates of {name} holds, and it has no default"
            assertions.append(apply_op("Assert", holding, [message]))
            *pairs, (_, default) = pairs
            preds.pop()
        chain = default
        for pred, (_, function) in zip(reversed(preds), reversed(pairs)):
            chain = functools.partial(cond, pred, function, chain, strict=strict)
        with graph.control_dependencies([group(*assertions)] if assertions else []):
            return chain()


def _checked_pairs(given: object, exclusive: bool) -> list[tuple[Any, Branch]]:
    if isinstance(given, dict):
        if not exclusive:
            raise TypeError("a dict of predicates has no order; give a list, or exclusive=True")
        pairs = list(given.items())
        pairs = [(getattr(pred, "deref", lambda p=pred: p)(), fn) for pred, fn in pairs]
    elif isinstance(given, (list, tuple)):
        pairs = list(given)
    else:
        raise TypeError(f"pred_fn_pairs must be a list or dict of pairs, not {given!r:.60}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"each of pred_fn_pairs must be a pair; found {pair!r:.60}")
        if not callable(pair[1]):
            raise TypeError(f"the second of each pair must be a function; found {pair[1]!r:.60}")
    return pairs


def _assert_at_most_one(preds: list[Tensor]) -> Operation:
    ones = apply_op("Cast", apply_op("Pack", preds, axis=0), DstT=dtypes.int32)
    count = apply_op("Sum", ones, 0)
    message = "more than one predicate of an exclusive case holds; how many:"
    checked: Operation = apply_op("Assert", apply_op("Less", count, 2), [message, count])
    return checked


@export_v2("case")
def case_v2(
    pred_fn_pairs: object,
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return what the function of the first predicate that holds gives (see the TF1 form)."""
    return case(pred_fn_pairs, default, exclusive, True, name)


@export("switch_case")
def switch_case(
    branch_index: TensorLike,
    branch_fns: object,
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """Return what the function at a position gives.

    Args:
      branch_index: an int32 scalar.
      branch_fns: functions, or a dict or pairs of (int, function).
      default: used for other positions; without it the last (highest) function is.
    Raises: TypeError for an index that is no tensor; that or ValueError for malformed branches.
    """
    pairs = _indexed(branch_fns)
    if not isinstance(branch_index, Tensor):
        raise TypeError(f"'branch_index' must be a Tensor, got {type(branch_index)}")
    with get_default_graph().name_scope(name or "switch_case"):
        index = convert_to_tensor(branch_index, dtypes.int32, name="branch_index")
        if shapes.merge(index.dims, ()) != ():
            raise ValueError("branch_index must be a scalar")
        chain = pairs[-1][1] if default is None else default
        if functional.is_functional():
            return functional.switch_case(index, pairs, chain, name)
        for at, function in reversed(pairs):
            chain = functools.partial(cond, apply_op("Equal", index, at), function, chain)
        return chain()


def _indexed(branch_fns: object) -> list[tuple[int, Branch]]:
    if isinstance(branch_fns, dict):
        pairs = sorted(branch_fns.items())
    elif isinstance(branch_fns, (list, tuple)):
        numbered = enumerate(branch_fns)
        pairs = [pair if isinstance(pair, tuple) else (i, pair) for i, pair in numbered]
    else:
        raise TypeError(f"branch_fns must be a list or dict, not {branch_fns!r:.60}")
    if not pairs:
        raise ValueError("switch_case needs at least one branch")
    for at, function in pairs:
        if not isinstance(at, int) or not callable(function):
            raise TypeError(f"a branch must be an int and a function; found {(at, function)!r:.80}")
    if isinstance(branch_fns, dict) and sorted(branch_fns) != list(range(len(pairs))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(pairs)}) but found "
            f"{sorted(branch_fns)}"
        )
    if len({at for at, _ in pairs}) != len(pairs):
        raise ValueError(f"branch_fns has an index twice: {sorted(at for at, _ in pairs)}")
    return sorted(pairs, key=lambda pair: pair[0])
