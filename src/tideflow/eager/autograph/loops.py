"""What `while` and `for` become where they ask, or go over, tensors and datasets.

The body is a function that changes variables of the user's function.  Where the condition is a
tensor of a graph, these variables become the variables of a While op.  A loop that begins in plain
Python goes on as a While op from the iteration at which its condition becomes a tensor.

Source: tensorflow/python/autograph/operators/control_flow.py for rules and messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.autograph.branches import (
    GetState,
    SetState,
    State,
    condition,
    if_stmt,
    is_literal,
    is_staged,
    is_undefined,
    zeros,
)
from tideflow.eager.autograph.datasets import Elements, LastingElements, elements_of
from tideflow.eager.autograph.scope import in_loop
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.functions import new_body
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import Dims, TensorShape, relax
from tideflow.ops.control_flow import cond, narrows, while_op
from tideflow.ops.framework import nest
from tideflow.wire import dtypes

_uids = itertools.count()


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    get_state: GetState,
    set_state: SetState,
    symbol_names: Sequence[str],
    opts: dict[str, Any],
) -> None:
    """Repeat body while test holds.

    Raises: ValueError or TypeError where a variable changes its type, shape or structure.
    """
    while True:
        holds = _ask(test)
        if is_staged(holds):
            _Loop(test, body, get_state, set_state, symbol_names, opts).build()
            return
        if not holds:
            return
        body()


def _ask(test: Callable[[], Any]) -> Any:
    """Return what a condition gives, without leaving operations of it in the graph."""
    graph = get_default_graph()
    if graph.is_eager or graph.body_class is None:
        return test()
    aside = new_body(f"while_ask_{next(_uids)}", graph)
    with aside.as_default():
        return test()


class _Wider(Exception):
    """A variable has another shape after one iteration: the loop is built anew for both.

    Args:
      at: which of the tensors that go round.
      dims: the shapes that it may have.
    """

    def __init__(self, at: int, dims: Dims) -> None:
        self.at, self.dims = at, dims


class _Loop:
    """A loop that becomes a While op.

    Attributes:
      widens: whether variables may come to have other shapes than before it.
    """

    widens = False

    def __init__(
        self,
        test: Callable[[], Any],
        body: Callable[[], None],
        get_state: GetState,
        set_state: SetState,
        names: Sequence[str],
        opts: dict[str, Any],
    ) -> None:
        self.test = test
        self.body = body
        self.get_state = get_state
        self.set_state = set_state
        self.names = names
        self.opts = opts
        self.first = list(get_state())
        for at, value in enumerate(self.first):
            if value is None or is_undefined(value):
                self.first[at] = self._stand_in(at)
        # Which leaves of each variable are tensors that go round; the others stay the same objects.
        self.rounds = [
            [is_literal(leaf) for leaf in nest.flatten(value, expand_composites=True)]
            for value in self.first
        ]

    def build(self) -> None:
        """Build the loop, and give the variables its results."""
        if self.widens:
            self._refuse_lists()
        flat = self._tensors(self.first, "before the loop")
        kept = [self._invariant(t, original) for t, original in zip(flat, self._originals())]
        while True:
            try:
                made = self._made(flat, kept)
                break
            except _Wider as wider:
                kept[wider.at] = wider.dims
                self.set_state(tuple(self.first))
        self.set_state(self._packed(made))

    def _refuse_lists(self) -> None:
        """Refuse lists of tensors, of which a state of `Dataset.reduce` makes one tensor."""
        for name, value, rounds in zip(self.names, self.get_state(), self.rounds):
            if isinstance(value, list) and any(rounds):
                raise TypeError(
                    f"{name!r} does not have the same nested structure before and after one "
                    "iteration: a loop over a dataset makes one tensor of a list. Use a tuple, or "
                    "tf.stack."
                )

    def _made(self, flat: list[Tensor], kept: list[Dims]) -> Sequence[Tensor]:
        """Return what the tensors that go round are after the loop."""
        limit = self.opts.get("maximum_iterations")

        def holds(*values: Tensor) -> Tensor:
            self.set_state(self._packed(values))
            asked = condition(self.test(), "while statement")
            if limit is None:
                return asked
            counted: Tensor = apply_op("LogicalAnd", apply_op("Less", values[-1], limit), asked)
            return counted

        def advance(*values: Tensor) -> list[Tensor]:
            self.set_state(self._packed(values))
            with in_loop():
                self.body()
            found = self._after(flat, kept)
            return found if limit is None else [*found, apply_op("AddV2", values[-1], 1)]

        first = list(flat)
        if limit is not None:
            first.append(convert_to_tensor(0, dtypes.int32))
            kept = [*kept, ()]
        made: Sequence[Tensor] = while_op(
            holds, advance, first, self.opts.get("parallel_iterations", 10), invariants=kept
        )
        return made

    def _originals(self) -> list[Any]:
        return [
            leaf
            for value, rounds in zip(self.first, self.rounds)
            for leaf, goes in zip(nest.flatten(value, expand_composites=True), rounds)
            if goes
        ]

    def _tensors(self, state: Sequence[Any], when: str) -> list[Tensor]:
        """Return the tensors of the variables, flat."""
        found = []
        for name, value, rounds in zip(self.names, state, self.rounds):
            for leaf, goes in zip(nest.flatten(value, expand_composites=True), rounds):
                if not goes:
                    continue
                if not is_literal(leaf):
                    shown = "None" if leaf is None else f"a {type(leaf).__name__}"
                    raise TypeError(f"{name!r} is {shown} {when}; a tensor goes round in this loop")
                found.append(convert_to_tensor(leaf))
        return found

    def _packed(self, values: Sequence[Tensor]) -> State:
        """Return the variables with tensors in the place of those that go round."""
        given = iter(values)
        state = []
        for value, rounds in zip(self.first, self.rounds):
            leaves = [
                next(given) if goes else leaf
                for leaf, goes in zip(nest.flatten(value, expand_composites=True), rounds)
            ]
            state.append(nest.pack_sequence_as(value, leaves, expand_composites=True))
        return tuple(state)

    def _after(self, flat: Sequence[Tensor], kept: Sequence[Dims]) -> list[Tensor]:
        """Return what an iteration left in the variables, checked against what they were."""
        state = self.get_state()
        for name, before, after, rounds in zip(self.names, self.first, state, self.rounds):
            self._compare(name, before, after, rounds)
        found = self._tensors(state, "after one iteration")
        names = [name for name, rounds in zip(self.names, self.rounds) for goes in rounds if goes]
        for at, (name, before, after, dims) in enumerate(zip(names, flat, found, kept)):
            if before.dtype.base_dtype is not after.dtype.base_dtype:
                raise TypeError(
                    f"{name!r} has dtype {before.dtype.name} before the loop, but dtype "
                    f"{after.dtype.name} after one iteration"
                )
            if not narrows(dims, after.dims):
                if self.widens:
                    raise _Wider(at, relax(dims, after.dims))
                raise ValueError(
                    f"{name!r} has shape {_shown(before.dims)} before the loop, but shape "
                    f"{_shown(after.dims)} after one iteration. Use "
                    "tf.autograph.experimental.set_loop_options to set shape invariants."
                )
        return found

    def _compare(self, name: str, before: Any, after: Any, rounds: Sequence[bool]) -> None:
        if is_undefined(after):
            raise ValueError(f"{name!r} has no value after one iteration of the loop")
        try:
            nest.assert_same_structure(before, after, check_types=False, expand_composites=True)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name!r} does not have the same nested structure before and after one "
                f"iteration.\n\n{error}"
            ) from None
        leaves = zip(
            nest.flatten(before, expand_composites=True),
            nest.flatten(after, expand_composites=True),
            rounds,
        )
        for one, other, goes in leaves:
            if not goes and one is not other:
                if one is None:
                    raise ValueError(
                        f"{name!r} may not be None before the loop: it becomes a "
                        f"{type(other).__name__} in it, so give it a first value of that kind"
                    )
                raise TypeError(
                    f"{name!r} is a {type(one).__name__} before the loop and another object after "
                    "one iteration; only tensors can change in a loop over tensors"
                )

    def _invariant(self, tensor: Tensor, original: Any) -> Dims:
        for value, shape in self.opts.get("shape_invariants") or ():
            if value is original or value is tensor:
                return TensorShape(getattr(shape, "shape", shape)).sizes
        return tensor.dims if tensor.dtype.base_dtype is not dtypes.variant else ()

    def _stand_in(self, at: int) -> Any:
        """Return a first value for a variable that only the body gives one: zeros of its kind."""
        name = self.names[at]
        before = self.get_state()
        aside = new_body(f"while_ask_{next(_uids)}", get_default_graph())
        with aside.as_default(), in_loop():
            self.body()
        after = self.get_state()[at]
        self.set_state(before)
        if after is None or is_undefined(after):
            return after
        leaves = nest.flatten(after, expand_composites=True)
        if not all(is_literal(leaf) for leaf in leaves):
            raise ValueError(
                f"{name!r} must be defined before the loop: it becomes a "
                f"{type(after).__name__} in it"
            )
        with aside.as_default():
            found = [convert_to_tensor(leaf) for leaf in leaves]
        try:
            first = [zeros(tensor) for tensor in found]
        except ValueError as error:
            raise ValueError(f"{name!r} must be defined before the loop: {error}") from None
        return nest.pack_sequence_as(after, first, expand_composites=True)


def _shown(dims: Dims) -> str:
    return "<unknown>" if dims is None else str(tuple(dims))


# ---- for


def for_stmt(
    iter_: Any,
    extra_test: Callable[[], Any] | None,
    body: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    symbol_names: Sequence[str],
    opts: dict[str, Any],
) -> None:
    """Run body for each element.

    Args:
      extra_test: whether to go on, for loops with `break` or `return`.
    Raises: as while_stmt.
    """
    elements = None if get_default_graph().is_eager else elements_of(iter_)
    if elements is not None:
        _Over(elements, extra_test, body, get_state, set_state, symbol_names, opts).build()
        return
    for element in iter_:
        if extra_test is not None:
            holds = extra_test()
            if is_staged(holds):
                _guarded(holds, element, body, get_state, set_state, symbol_names)
                continue
            if not holds:
                break
        body(element)


def _guarded(
    holds: Any,
    element: Any,
    body: Callable[[Any], None],
    get_state: GetState,
    set_state: SetState,
    names: Sequence[str],
) -> None:
    """Run one iteration of a Python loop that a tensor may have ended."""
    if_stmt(holds, lambda: body(element), lambda: None, get_state, set_state, names, len(names))


class _Over:
    """A loop over the elements of something in a graph: a loop with a position of its own."""

    def __init__(
        self,
        elements: Elements,
        extra_test: Callable[[], Any] | None,
        body: Callable[[Any], None],
        get_state: GetState,
        set_state: SetState,
        names: Sequence[str],
        opts: dict[str, Any],
    ) -> None:
        self.elements = elements
        self.extra_test = extra_test
        self.run = body
        self.position = elements.first

        def get_all() -> State:
            return (self.position, *get_state())

        def set_all(state: State) -> None:
            self.position = state[0]
            set_state(state[1:])

        self.loop = _Loop(self._test, self._body, get_all, set_all, ["the position", *names], opts)
        self.loop.widens = elements.widens

    def build(self) -> None:
        """Build the loop."""
        self.loop.build()

    def _test(self) -> Any:
        goes_on = self.elements.holds(self.position)
        if self.extra_test is None:
            return goes_on
        further = self.extra_test()
        if is_staged(further):
            return apply_op("LogicalAnd", goes_on, condition(further, "break"))
        return goes_on if further else convert_to_tensor(False)

    def _body(self) -> None:
        position = self.position
        self.run(self.elements.element(position))
        self.position = self._following(position)

    def _following(self, position: Any) -> Any:
        """Return the next position; one without an element where the loop ends before it."""
        elements = self.elements
        if self.extra_test is None or not isinstance(elements, LastingElements):
            return elements.following(position)
        further = self.extra_test()
        if not is_staged(further):
            return elements.following(position) if further else elements.ended(position)
        parts = cond(
            condition(further, "break"),
            lambda: nest.flatten([elements.following(position)], expand_composites=True),
            lambda: nest.flatten([elements.ended(position)], expand_composites=True),
        )
        return nest.pack_sequence_as([position], parts, expand_composites=True)[0]
