"""Loops: while_loop, made of Enter, Merge, Switch, NextIteration and Exit.

Each loop variable goes round: Enter and NextIteration meet in a Merge; while the condition holds
a Switch passes the value to the body, afterwards to the Exit.

Source: tensorflow/python/ops/while_loop.py and control_flow_ops.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Tensor, get_default_graph
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import functional_v2 as functional
from tideflow.ops.control_flow.contexts import WhileContext
from tideflow.ops.control_flow.loops import LoopBuilder
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import identity, nest


@export("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat body while cond holds.

    Args:
      cond: function of the loop variables, gives a bool scalar.
      body: function of the loop variables, gives their next values in the same structure.
      loop_vars: a (nested) list or tuple of tensors, TensorArrays and the like: first values.
      shape_invariants: a TensorShape for each loop variable, for those whose shape changes.
      parallel_iterations: how many iterations may run at once.
      back_prop: whether gradients may flow through the loop.
      swap_memory: accepted as TensorFlow does; values saved for gradients stay in memory.
      maximum_iterations: an int scalar that ends the loop though cond holds.
      return_same_structure: return a list even for a single variable.
    Returns: the variables' values after the loop; the only one by itself.
    Raises: TypeError for cond or body that are no functions, or types that change; ValueError for
    no loop variables, another structure, or a shape that breaks its invariant.
    """
    if not callable(cond):
        raise TypeError(
            f"'cond' must be callable, a function of the loop variables, not {cond!r:.60}"
        )
    if not callable(body):
        raise TypeError(
            f"'body' must be callable, a function of the loop variables, not {body!r:.60}"
        )
    if parallel_iterations < 1:
        raise ValueError(f"parallel_iterations must be at least 1, not {parallel_iterations}")
    if not loop_vars:
        raise ValueError("while_loop needs at least one loop variable")
    if not isinstance(loop_vars, (list, tuple)):
        loop_vars = [loop_vars]
    graph = get_default_graph()
    if functional.is_functional():
        found = functional.while_loop(
            cond, body, loop_vars, shape_invariants, parallel_iterations, maximum_iterations, name
        )
        if not back_prop and not graph.is_eager:
            found = nest.map_structure(_stopped, found, expand_composites=True)
        return _unpacked(found, loop_vars, return_same_structure)
    with graph.name_scope(name or "while"):
        if maximum_iterations is not None:
            counted = _Counted(cond, body, loop_vars, shape_invariants, maximum_iterations)
            found = _build(
                graph,
                counted.cond,
                counted.body,
                counted.loop_vars,
                counted.shape_invariants,
                parallel_iterations,
                back_prop,
            )[1]
        else:
            found = _build(
                graph, cond, body, loop_vars, shape_invariants, parallel_iterations, back_prop
            )
    return _unpacked(found, loop_vars, return_same_structure)


def _stopped(value: Tensor) -> Any:
    return apply_op("StopGradient", value)


@export_v2("while_loop")
def while_loop_v2(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: object,
    shape_invariants: object | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """Repeat body while cond holds; returns the variables in the structure of loop_vars.

    Arguments and errors as in the TF1 form (while_loop).
    """
    return while_loop(
        cond,
        body,
        loop_vars,
        shape_invariants,
        parallel_iterations,
        back_prop,
        swap_memory,
        name,
        maximum_iterations,
        return_same_structure=True,
    )


def _unpacked(found: Any, loop_vars: object, same_structure: bool) -> Any:
    if not same_structure and len(nest.flatten(loop_vars, expand_composites=True)) == 1:
        return found[0]
    return found


class _Counted:
    """A loop with one more variable in front that counts iterations."""

    def __init__(
        self,
        cond: Callable[..., Any],
        body: Callable[..., Any],
        loop_vars: object,
        invariants: object,
        limit: Tensor,
    ) -> None:
        self.user_cond = cond
        self.user_body = body
        self.limit = convert_to_tensor(limit, name="maximum_iterations")
        if shapes.merge(self.limit.dims, ()) != ():
            raise ValueError(f"maximum_iterations must be a scalar, not {self.limit.shape}")
        zero = convert_to_tensor(0, self.limit.dtype, name="iteration_counter")
        self.loop_vars = (zero, loop_vars)
        self.shape_invariants = None if invariants is None else (TensorShape(()), invariants)

    def cond(self, count: Tensor, values: Any) -> Any:
        holds = self.user_cond(*values)
        return apply_op("LogicalAnd", apply_op("Less", count, self.limit), holds)

    def body(self, count: Tensor, values: Any) -> Any:
        found = self.user_body(*values)
        members = list(found) if isinstance(found, (list, tuple)) else [found]
        # A list for a tuple, or the reverse, is as good here as without a limit.
        packed = members if isinstance(self.loop_vars[1], list) else tuple(members)
        return apply_op("AddV2", count, 1), packed


def _build(
    graph: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: object,
    shape_invariants: object,
    parallel_iterations: int,
    back_prop: bool,
) -> Any:
    first = [_loop_value(item) for item in nest.flatten(loop_vars, expand_composites=True)]
    invariants = _invariants(loop_vars, shape_invariants)
    name = graph.unique_name("while_context")
    context = WhileContext(graph, name, parallel_iterations, back_prop)
    loop = LoopBuilder(graph, context)
    loop.start(first, invariants)
    packed = nest.pack_sequence_as(
        loop_vars, [v.merge for v in context.variables], expand_composites=True
    )
    with loop.inside():
        loop.set_condition(cond(*packed))
        packed = nest.pack_sequence_as(
            loop_vars, [v.body for v in context.variables], expand_composites=True
        )
        result = body(*packed)
        if not nest.is_nested(result):
            result = [result]
        _require_same_structure(loop_vars, result)
        values = nest.flatten(result, expand_composites=True)
        loop.close([convert_to_tensor(value) for value in values])
    exits = loop.finish()
    return nest.pack_sequence_as(result, exits, expand_composites=True)


def _loop_value(value: Tensor) -> Tensor:
    tensor = convert_to_tensor(value)
    # The loop carries values; a reference could not be replaced by the body's result.
    return identity(tensor) if tensor.dtype.is_ref_dtype else tensor


def _require_same_structure(loop_vars: Any, result: Any) -> None:
    try:
        nest.assert_same_structure(list(loop_vars), list(result), expand_composites=True)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"the body of while_loop must give as many things, in the same structure, as there "
            f"are loop variables: {error}"
        ) from None


def _invariants(loop_vars: Any, given: object) -> list[Dims] | None:
    """Return one shape invariant for each tensor of the loop variables."""
    if given is None:
        return None
    leaves = nest.flatten(loop_vars)
    shapes_given = nest.flatten(given)
    if len(leaves) != len(shapes_given):
        raise ValueError(
            f"{len(shapes_given)} shape_invariants for {len(leaves)} loop variables; give a "
            "tf.TensorShape for each"
        )
    found: list[Dims] = []
    for leaf, invariant in zip(leaves, shapes_given):
        parts = nest.flatten(leaf, expand_composites=True)
        if parts == [leaf]:
            found.append(TensorShape(invariant).sizes)
        else:
            # The parts of a composite may all change, save for a TensorArray's scalar flow.
            found.extend(() if len(parts) == 1 else None for _ in parts)
    return found
