"""What `if`, `and`, `or`, `not`, `x if c else y` become where they ask tensors.

A branch of an `if` is a function that changes variables of the user's function.  Where the
condition is a tensor of a graph, both branches are traced from the same first values, and what they
leave in the variables becomes the results of an If op.

Source: tensorflow/python/autograph/operators/control_flow.py, logical.py for rules and messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.autograph.malt_library import Undefined, UndefinedReturnValue
from tideflow.eager.autograph.scope import scopes
from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.functions import FuncGraph, new_body
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.control_flow import make_branch_op, share_captures
from tideflow.ops.control_flow.functional_v2 import cond as tensor_cond
from tideflow.ops.framework import nest
from tideflow.ops.state.base import Variable
from tideflow.wire import dtypes

State = tuple[Any, ...]
GetState = Callable[[], State]
SetState = Callable[[State], None]

_uids = itertools.count()
_LITERALS = (bool, int, float, complex, str, bytes, np.ndarray, np.generic)
# The names that the conversion gives to what a user writes as `return`.
RETURNED, DID_RETURN = "retval_", "do_return"


def is_staged(value: Any) -> bool:
    """Whether what a value holds is known only when a graph runs."""
    if isinstance(value, Variable):
        return not get_default_graph().is_eager
    return isinstance(value, Tensor) and not value.graph.is_eager


def is_undefined(value: Any) -> bool:
    """Whether a variable has no value yet."""
    return isinstance(value, (Undefined, UndefinedReturnValue))


def is_literal(value: Any) -> bool:
    """Whether a value can become a tensor."""
    return isinstance(value, (Tensor, Variable, *_LITERALS))


def condition(value: Any, what: str) -> Tensor:
    """Return the condition of a statement as a bool scalar.

    Raises: ValueError for a tensor of another kind.
    """
    tensor = convert_to_tensor(value)
    if tensor.dtype.base_dtype is not dtypes.bool_ or tensor.dims not in ((), None):
        raise ValueError(
            f"condition of {what} expected to be `tf.bool` scalar, got {tensor!r}; to check for "
            "None, use `is not None`; to ask all or some elements, tf.reduce_all or tf.reduce_any"
        )
    return tensor


def if_stmt(
    cond: Any,
    body: Callable[[], None],
    orelse: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    symbol_names: Sequence[str],
    nouts: int,
) -> None:
    """Run one branch; where the condition is a tensor of a graph, build both.

    Args:
      get_state, set_state: the variables that a branch changes.
      nouts: how many of them, the first ones, are used afterwards.
    Raises: ValueError or TypeError where the branches leave different things.
    """
    if not is_staged(cond):
        body() if cond else orelse()
        return
    pred = condition(cond, "if statement")
    first = get_state()
    main = _Traced("main", body, first, get_state, set_state)
    other = _Traced("else", orelse, first, get_state, set_state)
    set_state(first)
    packed = [
        _join(name, main, other, main.state[i], other.state[i])
        for i, name in enumerate(symbol_names[:nouts])
    ]
    branches = [main.graph, other.graph]
    made = make_branch_op(pred, branches, share_captures(branches), "If")
    results = iter(made.outputs)
    found = [joined.result(results) for joined in packed]
    set_state((*found, *first[nouts:]))


class _Traced:
    """One branch, and what it left in the variables."""

    def __init__(
        self,
        label: str,
        run: Callable[[], None],
        first: State,
        get_state: GetState,
        set_state: SetState,
    ) -> None:
        self.label = label
        self.graph: FuncGraph = new_body(f"if_{label}_{next(_uids)}", get_default_graph())
        set_state(first)
        with self.graph.as_default():
            run()
        self.state = get_state()

    def output(self, value: Any) -> Tensor:
        """Return a value as a tensor of the branch."""
        with self.graph.as_default():
            tensor = convert_to_tensor(value)
        return tensor if tensor.graph is self.graph else self.graph.capture(tensor)


class _Joined:
    """A variable after both branches: a structure whose leaves are objects, or come of the op."""

    def __init__(self, structure: Any, leaves: Sequence[Any], from_op: Sequence[bool]) -> None:
        self._structure = structure
        self._leaves = leaves
        self._from_op = from_op

    def result(self, outputs: Any) -> Any:
        """Return the variable's value, its tensors taken from the op's outputs."""
        leaves = [
            next(outputs) if staged else leaf for leaf, staged in zip(self._leaves, self._from_op)
        ]
        return nest.pack_sequence_as(self._structure, leaves, expand_composites=True)


def _join(name: str, main: _Traced, other: _Traced, one: Any, two: Any) -> _Joined:
    """Add what both branches left in a variable to their results."""
    if is_undefined(one) and is_undefined(two):
        return _Joined(one, [one], [False])
    if is_undefined(one):
        one = _stand_in(name, main, other, two)
    if is_undefined(two):
        two = _stand_in(name, other, main, one)
    try:
        nest.assert_same_structure(one, two, check_types=False, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name!r} does not have the same nested structure in the main and else branches.\n\n"
            f"{error}"
        ) from None
    leaves = nest.flatten(one, expand_composites=True)
    others = nest.flatten(two, expand_composites=True)
    from_op = [_join_leaf(name, main, other, a, b) for a, b in zip(leaves, others)]
    return _Joined(one, leaves, from_op)


def _stand_in(name: str, lacking: _Traced, having: _Traced, value: Any) -> Any:
    """Return what a branch of a loop leaves that does not return: nobody will use it.

    Raises: ValueError for anything but a `return` in a loop.
    """
    if name != RETURNED or not scopes.loops:
        raise _missing(name, lacking.label)
    leaves = nest.flatten(value, expand_composites=True)
    if not all(map(is_literal, leaves)):
        raise _missing(name, lacking.label)
    found = [having.output(leaf) for leaf in leaves]
    with lacking.graph.as_default():
        return nest.pack_sequence_as(value, [zeros(t) for t in found], expand_composites=True)


def zeros(like: Tensor) -> Tensor:
    """Return zeros like a tensor of another graph.  Raises: ValueError for an unknown shape."""
    dtype = like.dtype.base_dtype
    if shapes.num_elements(like.dims) is None:
        raise ValueError(
            f"no first value can be made for it: its shape, {shapes.format_dims(like.dims)}, is "
            "not known"
        )
    zero = convert_to_tensor("" if dtype is dtypes.string else 0, dtype)
    found: Tensor = apply_op("Fill", list(like.dims or ()), zero)
    return found


def _missing(name: str, label: str) -> ValueError:
    if name in (RETURNED, DID_RETURN):
        return ValueError(
            f"the {label} branch must also have a return statement: where a condition is a tensor, "
            "both branches return something, or neither does"
        )
    return ValueError(
        f"{name!r} must also be initialized in the {label} branch: the condition is a tensor, so "
        "both branches must give it a value, or it must have one before the `if`"
    )


def _join_leaf(name: str, main: _Traced, other: _Traced, one: Any, two: Any) -> bool:
    """Make one leaf a result of both branches; False where it is the same object in both."""
    if one is two and not isinstance(one, (Tensor, *_LITERALS)):
        return False
    if isinstance(one, bool) and isinstance(two, bool) and one == two:
        return False
    for value, here, there in ((one, main, other), (two, other, main)):
        if value is None:
            shown = "return a value" if name == RETURNED else f"give {name!r} a value"
            raise ValueError(
                f"{name!r} is None at the end of the {here.label} branch, but not at the end of "
                f"the {there.label} branch; {shown} in both"
            )
        if not is_literal(value):
            raise TypeError(
                f"{name!r} is a {type(value).__name__} at the end of the {here.label} branch; "
                "which of two Python objects it is cannot depend on a tensor"
            )
    a, b = main.output(one), other.output(two)
    if a.dtype.base_dtype is not b.dtype.base_dtype:
        raise TypeError(
            f"{name!r} has dtype {a.dtype.name} in the main branch, but dtype {b.dtype.name} in "
            "the else branch"
        )
    main.graph.outputs.append(a)
    other.graph.outputs.append(b)
    return True


# ---- expressions


def if_exp(
    cond: Any, if_true: Callable[[], Any], if_false: Callable[[], Any], expr_repr: str
) -> Any:
    """Return one of two expressions; both are built where the condition is a tensor of a graph."""
    if not is_staged(cond):
        return if_true() if cond else if_false()
    return tensor_cond(condition(cond, f"`{expr_repr}`"), if_true, if_false)


def and_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return `a and b`; b is asked only where a holds."""
    first = a()
    if not is_staged(first):
        return first and b()
    return tensor_cond(condition(first, "`and`"), lambda: _truth(b(), "`and`"), lambda: first)


def or_(a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """Return `a or b`; b is asked only where a does not hold."""
    first = a()
    if not is_staged(first):
        return first or b()
    return tensor_cond(condition(first, "`or`"), lambda: first, lambda: _truth(b(), "`or`"))


def _truth(value: Any, what: str) -> Any:
    return condition(value, what) if is_staged(value) else convert_to_tensor(bool(value))


def not_(a: Any) -> Any:
    """Return `not a`."""
    return apply_op("LogicalNot", condition(a, "`not`")) if is_staged(a) else not a
