"""Gradients of While ops.

The forward loop gets further variables: a count of its iterations, and a list for each value of the
body that the gradient needs, to which each iteration adds.  The gradient is a loop that runs the
body's gradient as often, and takes the values off the lists.  What goes round unchanged is passed
to it as it is.

Source: tensorflow/python/ops/while_v2.py for the form that graphs have.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.node import FunctionRef
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.control_flow import Body, call_op, define_body, finish, while_op
from tideflow.ops.gradients.functional import Backward, dense, forward_body
from tideflow.ops.gradients.walk import is_trainable
from tideflow.ops.gradients.zeros import zeros_for
from tideflow.ops.tensor_arrays import element_shape_tensor
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_uids = itertools.count()


class _Like:
    """Type and shape of a gradient, which may change its shape from turn to turn."""

    def __init__(self, dtype: DType, dims: Dims) -> None:
        self.dtype = dtype
        self.dims = dims


@gradient("While", "StatelessWhile")
def while_grad(op: Operation, *grads: Tensor) -> list[Any]:
    """Run the gradient of the body as often as the body ran, last iteration first."""
    forward = forward_body(op.attrs["body"])
    count = len(forward.outputs)
    given = dense(grads[:count])
    own = [
        i
        for i, y in enumerate(forward.outputs)
        if is_trainable(y) and y.dtype.base_dtype is not dtypes.resource
    ]
    seeds = [_seed(op, i, given[i]) for i in own]
    like: list[Any] = [None] * count
    for i in own:
        like[i] = _Like(op.outputs[i].dtype.base_dtype, op.outputs[i].dims)
    backward = Backward(forward, like)
    handles = [i for i in range(count) if i not in own and backward.grads[i] is not None]
    if not own and not handles:
        return [None] * len(op.edges)
    _refuse_changing_handles(op, forward, handles)
    with backward.graph.as_default():
        backward.graph.outputs = [
            *(_result(backward, i) for i in own),
            *(_in_body(backward, convert_to_tensor(backward.grads[i])) for i in handles),
        ]
    backward.graph.outer_graph = get_default_graph()
    finish(backward.graph)
    loop = _Extended(op, forward, backward.graph.captured_inputs)
    sums = [_zero_sum(op, i, backward.grads[i]) for i in handles]
    found = _backward_loop(op, backward, loop, seeds, sums)
    results: list[Any] = [None] * len(op.edges)
    for i, grad in zip([*own, *handles], found):
        results[i] = grad
    return results


def _seed(op: Operation, index: int, grad: Tensor | None) -> Tensor:
    if grad is not None:
        return grad
    zeros: Tensor = apply_op("ZerosLike", op.outputs[index])
    return zeros


def _refuse_changing_handles(op: Operation, forward: Body, handles: Sequence[int]) -> None:
    for i in handles:
        if forward.outputs[i] is not forward.graph.inputs[i]:
            raise errors.UnimplementedError(
                f"{op.type} {op.name!r} changes the variable that loop variable {i} stands for; "
                "its gradient cannot be told"
            )


def _zero_sum(op: Operation, index: int, grad: Any) -> Tensor:
    found: Tensor = zeros_for(op.inputs[index], convert_to_tensor(grad))
    return found


def _in_body(backward: Backward, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is backward.graph else backward.graph.capture(tensor)


def _result(backward: Backward, index: int) -> Tensor:
    """Return the gradient of the body's input, zeros where the body does not use it."""
    found = backward.grads[index]
    if found is None:
        found = apply_op("ZerosLike", backward.forward.graph.inputs[index])
    return _in_body(backward, convert_to_tensor(found))


class _Extended:
    """The forward loop, once it keeps what its gradient needs.

    Attributes:
      count: how many iterations ran, a scalar.
      wanted: the values of the forward body that the gradient takes.
      lists: for each of these the list of its values, or None for one that goes round unchanged.
      unchanged: for each of these the value outside, or None.
    """

    def __init__(self, op: Operation, forward: Body, wanted: Sequence[Tensor]) -> None:
        self.wanted = wanted
        inputs = {id(t): i for i, t in enumerate(forward.graph.inputs)}
        self.unchanged: list[Tensor | None] = []
        for tensor in wanted:
            at = inputs.get(id(tensor))
            same = at is not None and forward.outputs[at] is tensor
            self.unchanged.append(op.inputs[at] if same and at is not None else None)
        kept = [t for t, outer in zip(wanted, self.unchanged) if outer is None]
        for tensor in kept:
            if tensor.dtype.base_dtype is dtypes.resource:
                raise errors.UnimplementedError(
                    f"the gradient of {op.type} {op.name!r} needs the handle {tensor.name!r}, "
                    "which changes from turn to turn"
                )
        outputs = _extend(op, forward, kept)
        self.count = outputs[0]
        lists = iter(outputs[1:])
        self.lists = [next(lists) if outer is None else None for outer in self.unchanged]


def _extend(op: Operation, forward: Body, kept: Sequence[Tensor]) -> list[Tensor]:
    """Give a loop a count and lists as further variables; returns the op's outputs for them."""
    graph = op.graph
    with graph.as_default(), graph.control_dependencies(None):
        zero = convert_to_tensor(0, dtypes.int32, name="iterations")
        firsts: list[Tensor] = [zero]
        for tensor in kept:
            shape = element_shape_tensor(tensor.dims)
            dtype = tensor.dtype.base_dtype
            firsts.append(apply_op("EmptyTensorList", shape, -1, element_dtype=dtype))
    body = forward.graph
    with body.as_default(), body.control_dependencies(None):
        turn = body.add_input(dtypes.int32, (), "turn")
        more = [apply_op("AddV2", turn, 1)]
        for tensor in kept:
            given = body.add_input(dtypes.variant, (), "kept")
            more.append(apply_op("TensorListPushBack", given, tensor))
    cond = forward_body(op.attrs["cond"])
    for first in firsts:
        cond.graph.add_input(first.dtype, (), "unused")
    types = [first.dtype.base_dtype for first in firsts]
    attrs = {
        **op.attrs,
        "T": [*op.attrs["T"], *types],
        "body": _define(Body(body, [*forward.outputs, *more])),
        "cond": _define(cond),
    }
    if op.attrs.get("output_shapes"):
        attrs["output_shapes"] = [*op.attrs["output_shapes"], *[TensorShape(())] * len(firsts)]
    op.add_inputs(attrs, firsts)
    return op.add_outputs(attrs, [()] * len(firsts))


def _define(body: Body) -> FunctionRef:
    name = f"{body.graph.name}_keeping_{next(_uids)}"
    return define_body(body, name, get_default_graph().functions).ref()


def _backward_loop(
    op: Operation,
    backward: Backward,
    loop: _Extended,
    seeds: Sequence[Tensor],
    sums: Sequence[Tensor],
) -> list[Tensor]:
    """Make the loop of the gradients; returns the gradients, then the sums of those of handles."""
    lists = [tensor for tensor in loop.lists if tensor is not None]
    width = len(seeds)
    graph = get_default_graph()

    def body(left: Tensor, *values: Tensor) -> list[Tensor]:
        grads = values[:width]
        totals = values[width : width + len(sums)]
        stacks = iter(values[width + len(sums) :])
        rest: list[Tensor] = []
        captured: list[Tensor] = []
        for tensor, outer in zip(loop.wanted, loop.unchanged):
            if outer is not None:
                captured.append(outer)
                continue
            dtype = tensor.dtype.base_dtype
            shape = element_shape_tensor(() if dtype is dtypes.variant else tensor.dims)
            fewer, value = apply_op("TensorListPopBack", next(stacks), shape, element_dtype=dtype)
            rest.append(fewer)
            captured.append(value)
        inside = get_default_graph()
        args = [_bring(inside, value) for value in (*grads, *captured)]
        found = call_op(backward.graph, args).outputs
        added = [apply_op("AddV2", a, b) for a, b in zip(totals, found[width:])]
        return [apply_op("Sub", left, 1), *found[:width], *added, *rest]

    with graph.name_scope(f"{op.name.rpartition('/')[2]}_grad"):
        made = while_op(
            lambda left, *_: apply_op("Greater", left, 0),
            body,
            [loop.count, *seeds, *sums, *lists],
            op.attrs["parallel_iterations"],
        )
    return made[1 : 1 + width + len(sums)]


def _bring(graph: Any, tensor: Tensor) -> Tensor:
    found: Tensor = tensor if tensor.graph is graph else graph.capture(tensor)
    return found
