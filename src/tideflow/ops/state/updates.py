"""Ops that change variables: a pure rule from old values to new, kept apart from storage.

An update op's kernel is its rule: `rule(xp, *old values, *other inputs, **attrs)` gives a tuple of
new values, the same code for NumPy and jax.numpy.  The variables are its first inputs.  The
executor runs such a node through `bind_update`; a compiler traces the rule instead, with the
variables donated.

How bind_update keeps memory traffic low, by the kind of rule:
  elementwise  a large array is worked through in blocks that fit the cache, its result written
               over the old value where nobody else holds that
  rows         only the rows named by indices are read and written
  in place     the op brings its own function that changes an array
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph import op_def
from tideflow.graph.kernel import KernelContext, with_arrays
from tideflow.graph.node import Node
from tideflow.graph.types import ArrayNamespace
from tideflow.graph.update_rule import SHAPE_CHECKS, Update
from tideflow.ops.state.cells import (
    ResourceVariableState,
    VariableState,
    as_numpy,
    held_only_here,
    in_lock_order,
    uninitialized,
    wrong_dtype,
)
from tideflow.ops.state.rows import distinct_parts, occurrences, put_rows
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

# Elements for one block: with a few operands it stays in the second-level cache.
_BLOCK = 16384
# The same for rows, for each block of which indices are looked up, too.
_ROWS_BLOCK = 2 * _BLOCK


def declare_update(
    signature: str,
    kernel: Callable[..., Any],
    update: Update,
    shape: Any,
    static: Sequence[str] = (),
) -> None:
    """Register an update op: its rule as the kernel, and how it is stored.

    static: inputs that must be known when the rule is traced.
    """
    op_def.declare(
        signature,
        kernel,
        shape_rule=shape,
        is_stateful=not update.is_ref,
        static_inputs=tuple(static),
        update=update,
    )


def bind_update(node: Node, ctx: KernelContext) -> Callable[..., Any]:
    """Return a callable over a node's flat inputs that updates its variables.

    Inputs are VariableStates (reference ops) or handles (resource ops), then plain values; the
    result is the first VariableState for a reference op, None for a resource op.  It may run on
    any thread.
    Raises: UnimplementedError for an op that is no update; the callable raises NotFoundError,
    FailedPreconditionError or InvalidArgumentError and then has changed nothing.
    """
    update = node.op_def.update
    if update is None:
        raise errors.UnimplementedError(f"op {node.op} (node {node.name!r}) updates no variable")
    return with_arrays(_BoundUpdate(update, node, ctx), node)


class _BoundUpdate:
    """One node's update, ready to be called.

    Small elementwise updates are what a training step of a small model mostly consists of, so
    their way through here is kept short.
    """

    __slots__ = ("attrs", "check", "count", "dtype", "is_small_kind", "lookup", "rule", "update")

    def __init__(self, update: Update, node: Node, ctx: KernelContext) -> None:
        self.update = update
        self.count = update.variables
        self.rule = update.rule
        self.is_small_kind = update.kind == "elementwise"
        self.lookup = ctx.resources.lookup
        self.attrs = {name: node.attrs[name] for name in node.op_def.kernel_attrs}
        self.dtype = node.attrs.get("T") or node.attrs["dtype"]
        self.check = SHAPE_CHECKS[update.kind]

    def __call__(self, *args: Any) -> Any:
        count = self.count
        others = [x if type(x) is np.ndarray else as_numpy(x) for x in args[count:]]
        if self.update.is_ref:
            self.locked(args[:count], others)
            return args[0]
        try:
            states = [self.lookup(handle, ResourceVariableState) for handle in args[:count]]
        except errors.NotFoundError as error:
            missing = self.update.missing
            raise missing(f"{error.message}; initialize the variable before updating it") from None
        self.locked(states, others)
        return None

    def locked(self, states: Sequence[VariableState], others: list[Any]) -> None:
        """Apply the update under the locks of its variables."""
        if self.count == 1:
            with states[0].lock:
                self.apply(states, others)
            return
        taken = in_lock_order(states)
        for state in taken:
            state.lock.acquire()
        try:
            self.apply(states, others)
        finally:
            for state in taken:
                state.lock.release()

    def apply(self, states: Sequence[VariableState], others: list[Any]) -> None:
        """Bring the values up to date; the locks are held."""
        values = _values(states, self.dtype)
        self.check(self.update, values, others)
        if self.is_small_kind and values[0].size <= _BLOCK:
            news = self.rule(np, *values, *others, **self.attrs)
            for state, new in zip(states, news):
                state.value = new
            return
        for state in states:
            state.value = None
        results = values
        try:
            results = self.changed(values, others)
        finally:
            for state, value in zip(states, results):
                state.value = value

    def changed(self, values: list[Any], others: list[Any]) -> list[Any]:
        """Return the new values, in the old arrays where nobody else holds these.

        The list is all that may hold the arrays here: the caller has taken them from the cells.
        """
        free = held_only_here(values)
        update = self.update
        if update.kind == "elementwise":
            outs = [
                value if ok and value.flags.c_contiguous else np.empty(value.shape, value.dtype)
                for value, ok in zip(values, free)
            ]
            _run_in_blocks(update, values, outs, others, self.attrs)
            return outs
        outs = [value if ok else np.array(value) for value, ok in zip(values, free)]
        if update.kind == "rows":
            change_rows(update, outs, others, self.attrs)
        else:
            assert update.change is not None
            update.change(outs, others, **self.attrs)
        return outs


def _values(states: Sequence[VariableState], dtype: DType) -> list[Any]:
    """Return the variables' values; the list is all that keeps them besides the cells."""
    values = []
    for state in states:
        if state.value is None:
            raise uninitialized(state.name, state.container)
        if state.dtype is not dtype:
            raise wrong_dtype(state, dtype)
        values.append(as_numpy(state.value))
    return values


def _run_in_blocks(
    update: Update, values: list[Any], outs: list[Any], others: list[Any], attrs: dict[str, Any]
) -> None:
    flat_values = [value.reshape(-1) for value in values]
    flat_outs = [out.reshape(-1) for out in outs]
    blocked = [
        (i in update.full, o.reshape(-1) if i in update.full else o) for i, o in enumerate(others)
    ]
    for start in range(0, flat_outs[0].size, _BLOCK):
        part = slice(start, start + _BLOCK)
        news = update.rule(
            np,
            *[value[part] for value in flat_values],
            *[other[part] if full else other for full, other in blocked],
            **attrs,
        )
        for out, new in zip(flat_outs, news):
            out[part] = new


# ---- rows


def change_rows(
    update: Update, arrays: list[Any], others: list[Any], attrs: dict[str, Any]
) -> None:
    """Apply a rule to the rows that indices name, in order where an index comes again."""
    indices = others[update.indices]
    rest = [(i in update.full, o) for i, o in enumerate(others) if i != update.indices]
    count = max(_ROWS_BLOCK // max(math.prod(arrays[0].shape[1:]), 1), 1)
    for part in distinct_parts(indices, count):
        chosen = indices[part]
        news = update.rule(
            np,
            *[array.take(chosen, axis=0) for array in arrays],
            *[other[part] if full else other for full, other in rest],
            **attrs,
        )
        for array, new in zip(arrays, news):
            put_rows(array, chosen, new)


def rows_kernel(update: Update, attr_names: Sequence[str]) -> Callable[..., Any]:
    """Return the pure kernel on whole values of a rule on rows."""

    def kernel(xp: ArrayNamespace, *args: Any, **attrs: Any) -> Any:
        arrays = list(args[: update.variables])
        others = list(args[update.variables :])
        if xp is np:
            arrays = [np.array(array) for array in arrays]
            update.require_shapes(arrays, others)
            change_rows(update, arrays, others, attrs)
            return tuple(arrays)
        return _trace_rows(xp, update, arrays, others, attrs)

    return op_def.with_attrs(kernel, attr_names)


def _trace_rows(
    xp: ArrayNamespace, update: Update, arrays: list[Any], others: list[Any], attrs: dict[str, Any]
) -> Any:
    """Trace a rule on rows: one pass for each time that the commonest index comes.

    Indices that lie outside are left out here: a traced kernel cannot raise.
    """
    import jax  # noqa: PLC0415 - only a traced kernel needs it

    indices = others[update.indices]
    rest = [(i in update.full, o) for i, o in enumerate(others) if i != update.indices]
    if indices.shape[0] == 0:
        return tuple(arrays)
    ranks = occurrences(xp, indices)
    size = arrays[0].shape[0]

    def one_round(carry: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
        k, held = carry
        news = update.rule(
            xp, *[array[indices] for array in held], *[other for _, other in rest], **attrs
        )
        inside = (ranks == k) & (indices >= 0)
        target = xp.where(inside, indices, size)
        return k + 1, tuple(
            array.at[target].set(new, mode="drop") for array, new in zip(held, news)
        )

    last = ranks.max()
    _, result = jax.lax.while_loop(
        lambda carry: carry[0] <= last, one_round, (xp.zeros((), ranks.dtype), tuple(arrays))
    )
    return result
