"""Gradients of function calls and of If and Case.

The gradient of a body is built in a body of its own, inside which the forward body counts as the
graph around it: what it uses of the forward body becomes a capture.  Captured arguments are passed
again; captured intermediates become further results of the forward op.

Take gradients before a session has run the forward op: one that has keeps the op as it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.function_bodies import body_graph
from tideflow.graph.functions import FuncGraph
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.node import FunctionRef
from tideflow.graph.shapes import TensorShape
from tideflow.ops.control_flow import Body, call_op, define_body, finish, make_branch_op
from tideflow.ops.gradients.control_flow import ControlFlowGradients
from tideflow.ops.gradients.walk import Walk, WalkOptions, is_trainable
from tideflow.ops.gradients.zeros import zeros_for
from tideflow.wire import dtypes, errors

_uids = itertools.count()


def forward_body(ref: FunctionRef) -> Body:
    """Return the body of a function: the one that was traced, or one rebuilt from its message."""
    graph = get_default_graph()
    definition = graph.functions.get(ref.name)
    if definition is None:
        raise LookupError(f"function {ref.name!r} is not in the graph's library")
    if definition.body is None:
        rebuilt = body_graph(definition, graph)
        definition.body = Body(rebuilt, rebuilt.outputs)
    found: Body = definition.body
    return found


class Backward:
    """The gradient of one forward body, while it is built.

    Attributes:
      graph: its body.  Inputs: gradients of the forward results, then what it captures.
      grads: for each forward input its gradient in the body, or None.
    """

    def __init__(self, body: Body, given: Sequence[Any]) -> None:
        forward = body.graph
        for op in forward.get_operations():
            if op.control_flow_context is not None and any(is_trainable(t) for t in op.outputs):
                raise errors.UnimplementedError(
                    f"function {forward.name!r} holds the loop or branch of {op.name!r}, made of "
                    "Switch and Merge; its gradient cannot be built from outside: take the "
                    "gradient inside the function, or use If and While ops there"
                )
        self.forward = body
        self.graph = FuncGraph(f"{forward.name}_grad_{next(_uids)}", forward)
        ys = [y for y, g in zip(body.outputs, given) if g is not None]
        xs = [x for x in forward.inputs if is_trainable(x)]
        with self.graph.as_default():
            seeds = [self.graph.add_input(g.dtype, g.dims, "grad") for g in given if g is not None]
            flow = ControlFlowGradients.here(self.graph)
            walk = Walk(self.graph, ys, xs, xs, WalkOptions(), flow)
            walk.seed(seeds)
            walk.run()
            found = {id(x): walk.gradient_of(x) for x in xs}
            self.grads = [
                None if found.get(id(x)) is None else convert_to_tensor(found[id(x)])
                for x in forward.inputs
            ]

    def zeros(self, index: int, like: Tensor) -> Tensor:
        """Return zeros for a forward input, whose gradient another branch gives."""
        with self.graph.as_default():
            found = zeros_for(self.forward.graph.inputs[index], like)
            assert isinstance(found, Tensor)
            return found


def _intermediates(backward: Backward) -> list[Tensor]:
    """Return the tensors of the forward body, neither arguments nor results, that its gradient
    uses."""
    known = {id(t) for t in (*backward.forward.graph.inputs, *backward.forward.outputs)}
    return [t for t in backward.graph.captured_inputs if id(t) not in known]


def _with_results(body: Body, more: Sequence[Tensor]) -> FunctionRef:
    """Return a function of the same body with further results."""
    name = f"{body.graph.name}_saving_{next(_uids)}"
    extended = Body(body.graph, [*body.outputs, *more])
    return define_body(extended, name, get_default_graph().functions).ref()


def _extend(op: Operation, attrs: dict[str, Any], more: Sequence[Tensor]) -> list[Tensor]:
    """Give an op further outputs, like the tensors given; returns them."""
    types = [t.dtype.base_dtype for t in more]
    changed = {**op.attrs, **attrs, "Tout": [*op.attrs["Tout"], *types]}
    if op.attrs.get("output_shapes"):
        known = [TensorShape(t.dims) for t in more]
        changed["output_shapes"] = [*op.attrs["output_shapes"], *known]
    return op.add_outputs(changed, [t.dims for t in more])


def dense(grads: Sequence[Any]) -> list[Tensor | None]:
    return [None if g is None else convert_to_tensor(g) for g in grads]


@gradient("PartitionedCall", "StatefulPartitionedCall")
def call_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Call the gradient of the body."""
    forward = forward_body(op.attrs["f"])
    count = len(forward.outputs)
    given = _trainable_only(forward.outputs, dense(grads[:count]))
    backward = Backward(forward, given)
    saved = _intermediates(backward)
    outer = dict(zip(map(id, forward.outputs), op.outputs))
    outer.update(zip(map(id, forward.graph.inputs), op.inputs))
    if saved:
        saving = _with_results(forward, saved)
        outer.update(zip(map(id, saved), _extend(op, {"f": saving}, saved)))
    live = [i for i, g in enumerate(backward.grads) if g is not None]
    if not live:
        return [None] * len(op.edges)
    backward.graph.outputs = [_own(backward, g) for g in backward.grads if g is not None]
    backward.graph.outer_graph = get_default_graph()
    finish(backward.graph)
    captured = [outer[id(t)] for t in backward.graph.captured_inputs]
    called = call_op(backward.graph, [*(g for g in given if g is not None), *captured])
    return _spread(called.outputs, live, len(op.edges))


def _own(backward: Backward, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is backward.graph else backward.graph.capture(tensor)


def _trainable_only(outputs: Sequence[Tensor], grads: list[Tensor | None]) -> list[Tensor | None]:
    return [
        g if is_trainable(y) and y.dtype.base_dtype is not dtypes.resource else None
        for y, g in zip(outputs, grads)
    ]


def _spread(found: Sequence[Tensor], live: Sequence[int], count: int) -> list[Any]:
    results: list[Any] = [None] * count
    for index, tensor in zip(live, found):
        results[index] = tensor
    return results


@gradient("If", "StatelessIf")
def if_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Choose between the gradients of the branches by the same predicate."""
    refs = [op.attrs["then_branch"], op.attrs["else_branch"]]
    return _branch_grad(op, refs, ["then_branch", "else_branch"], "If", grads)


@gradient("Case", "StatelessCase")
def case_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Choose between the gradients of the branches by the same index."""
    return _branch_grad(op, op.attrs["branches"], None, "Case", grads)


def _branch_grad(
    op: Operation,
    refs: Sequence[FunctionRef],
    names: list[str] | None,
    kind: str,
    grads: Sequence[Any],
) -> list[Any]:
    forwards = [forward_body(ref) for ref in refs]
    first = forwards[0]
    given = _trainable_only(first.outputs, dense(grads[: len(first.outputs)]))
    backwards = [Backward(forward, given) for forward in forwards]
    live = [
        i for i in range(len(first.graph.inputs)) if any(b.grads[i] is not None for b in backwards)
    ]
    if not live:
        return [None] * len(op.edges)
    for backward in backwards:
        backward.graph.outputs = [
            _own(backward, _grad_or_zeros(backward, backwards, i)) for i in live
        ]
    saved = [_intermediates(backward) for backward in backwards]
    outer: dict[int, Tensor] = {}
    for forward in forwards:
        outer.update(zip(map(id, forward.outputs), op.outputs))
    outer.update(_save_in_branches(op, forwards, saved, names))
    for forward in forwards:
        outer.update(zip(map(id, forward.graph.inputs), op.inputs[1:]))
    inputs = _common_inputs(backwards, outer)
    called = make_branch_op(
        op.inputs[0],
        [backward.graph for backward in backwards],
        [*(g for g in given if g is not None), *inputs],
        kind,
    )
    # The first input is the predicate or index.
    return [None, *_spread(called.outputs, live, len(op.edges) - 1)]


def _grad_or_zeros(backward: Backward, backwards: Sequence[Backward], index: int) -> Tensor:
    own = backward.grads[index]
    if own is not None:
        return own
    others = (b.grads[index] for b in backwards)
    return backward.zeros(index, next(g for g in others if g is not None))


def _save_in_branches(
    op: Operation,
    forwards: Sequence[Body],
    saved: Sequence[Sequence[Tensor]],
    names: list[str] | None,
) -> dict[int, Tensor]:
    """Let the forward op give the intermediates of whichever branch ran; the others' results are
    stand-ins that nobody reads.  Returns the op's outputs by the id of the intermediate."""
    every = [tensor for tensors in saved for tensor in tensors]
    if not every:
        return {}
    refs = []
    for forward, own in zip(forwards, saved):
        mine = {id(t) for t in own}
        with forward.graph.as_default(), forward.graph.control_dependencies(None):
            more = [
                t
                if id(t) in mine
                else apply_op("FakeParam", dtype=t.dtype.base_dtype, shape=TensorShape(t.dims))
                for t in every
            ]
        refs.append(_with_results(forward, more))
    attrs: dict[str, Any] = {"branches": refs} if names is None else dict(zip(names, refs))
    return dict(zip(map(id, every), _extend(op, attrs, every)))


def _common_inputs(backwards: Sequence[Backward], outer: dict[int, Tensor]) -> list[Tensor]:
    """Give the gradient bodies the same arguments; returns what is passed for the captures."""
    passed = {}
    for backward in backwards:
        for tensor in backward.graph.captured_inputs:
            found = outer[id(tensor)]
            passed[id(found)] = found
    for backward in backwards:
        graph = backward.graph
        seeds = graph.inputs[: len(graph.inputs) - len(graph.captures)]
        by_outer = {id(outer[id(t)]): inner for t, inner in graph.captures}
        inners = []
        for key, tensor in passed.items():
            inner = by_outer.get(key)
            if inner is None:
                inner = graph.add_input(tensor.dtype, tensor.dims, "unused")
            inners.append(inner)
        graph.captures = [(t, inner) for t, inner in zip(passed.values(), inners)]
        graph.inputs = [*seeds, *inners]
        graph.outer_graph = get_default_graph()
    return list(passed.values())
