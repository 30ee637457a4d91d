"""Building and calling functions, and branches and loops made of them.

A function's body is traced into a FuncGraph; what it uses from outside is passed as further
arguments.  These forms travel as one op each, where tf.cond and tf.while_loop become many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple

from tideflow.graph.building import convert_to_tensor, make_op, shape_outputs
from tideflow.graph.functions import FuncGraph, FunctionDefinition, define_function, new_body
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import get_op_def
from tideflow.graph.op_traits import Runs
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow.ordering import with_dependencies
from tideflow.ops.framework import nest
from tideflow.platform.recursion import room_for_calls
from tideflow.wire import dtypes

_uids = itertools.count()


class Body(NamedTuple):
    """What a function is made of: a traced graph, and which of its tensors are the results."""

    graph: FuncGraph
    outputs: list[Tensor]


class _Tracing:
    """How functions of users are traced.

    Attributes:
      convert: gives the function to be called in place of the user's (see eager.autograph).
    """

    def __init__(self) -> None:
        self.convert: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function


tracing = _Tracing()


def trace(
    function: Callable[..., Any], inputs: Sequence[Tensor | TensorSpec | Like], name: str
) -> tuple[FuncGraph, Any]:
    """Build the body of a function.

    Args:
      inputs: arguments are made like these tensors.
      name: made unique in the process.
    Returns: the body, and the function's result in its own structure, over tensors of the body.
    """
    graph = new_body(f"{name}_{next(_uids)}", get_default_graph())
    with graph.as_default(), room_for_calls():
        args = [graph.add_input(t.dtype, t.dims, f"args_{i}") for i, t in enumerate(inputs)]
        result = function(*args)
        flat = nest.flatten(result, expand_composites=True)
        graph.outputs = [_output(graph, value) for value in flat if value is not None]
    return graph, result


def _output(graph: FuncGraph, value: TensorLike) -> Tensor:
    if isinstance(value, Operation):
        value = with_dependencies([value], convert_to_tensor(True))
    tensor = convert_to_tensor(value)
    return tensor if tensor.graph is graph else graph.capture(tensor)


def finish(
    graph: FuncGraph, library: MutableMapping[str, FunctionDefinition] | None = None
) -> FunctionDefinition:
    """Enter a traced body into a library, that of the graph around it by default."""
    return define_body(Body(graph, graph.outputs), graph.name, library)


def define_body(
    body: Body, name: str, library: MutableMapping[str, FunctionDefinition] | None = None
) -> FunctionDefinition:
    """Enter a body under a name, to be found by it for gradients, too."""
    made = define_function(body.graph, name, body.outputs, library)
    made.body = body
    return made


class Function:
    """A function that has been built; calling it adds one op to the graph."""

    def __init__(self, graph: FuncGraph, result: Tensor) -> None:
        self.graph = graph
        self.result = result
        self.definition = finish(graph)

    @property
    def name(self) -> str:
        """The name in the library."""
        return self.definition.name

    def __call__(self, *args: Any, name: str | None = None) -> Any:
        """Call the function.  Raises: TypeError for another number of arguments."""
        own = len(self.graph.inputs) - len(self.graph.captures)
        if len(args) != own:
            raise TypeError(f"function {self.name!r} takes {own} arguments, not {len(args)}")
        tensors = [convert_to_tensor(v, t.dtype) for v, t in zip(args, self.graph.inputs)]
        op = call_op(self.graph, [*tensors, *self.graph.captured_inputs], name)
        flat = iter(op.outputs)
        leaves = nest.flatten(self.result, expand_composites=True)
        packed = [None if leaf is None else next(flat) for leaf in leaves]
        return nest.pack_sequence_as(self.result, packed, expand_composites=True)


def defun(function: Callable[..., Any], inputs: Sequence[Any], name: str = "function") -> Function:
    """Return a function built from a Python function.

    Args:
      inputs: element types, or tensors to which the arguments are alike.
    """
    return Function(*trace(function, [_example(item) for item in inputs], name))


class Like:
    """The dtype and shape of an argument."""

    def __init__(self, dtype: dtypes.DType, dims: object) -> None:
        self.dtype = dtype
        self.dims = dims


def _example(item: object) -> Any:
    return item if isinstance(item, Tensor) else Like(dtypes.as_dtype(item), None)


def call_op(graph: FuncGraph, inputs: Sequence[Tensor], name: str | None = None) -> Operation:
    """Make the op that calls a function with all its arguments, captures included."""
    stateful = is_stateful(graph)
    return _functional_op(
        "StatefulPartitionedCall" if stateful else "PartitionedCall",
        [list(inputs)],
        {
            "Tin": [t.dtype.base_dtype for t in graph.inputs],
            "Tout": [t.dtype.base_dtype for t in graph.outputs],
            "f": FunctionRef(graph.name, definition=graph.definition),
        },
        [graph],
        name,
    )


def is_stateful(graph: FuncGraph) -> bool:
    """Whether a body has effects, or different results at different times."""
    return any(op.op_def.is_stateful for op in graph.body_operations)


def _functional_op(
    op_name: str,
    args: list[Any],
    attrs: dict[str, Any],
    branches: Sequence[FuncGraph],
    name: str | None,
) -> Operation:
    with _after_what_they_follow(branches):
        op = make_op(get_op_def(op_name), args, attrs, name)
    # Who differentiates at once has given it further outputs already.
    for i, output in enumerate(op.outputs[: len(branches[0].outputs)]):
        dims = {branch.outputs[i].dims for branch in branches}
        if len(dims) == 1:
            output.set_shape(dims.pop())
    return op


def _after_what_they_follow(bodies: Sequence[FuncGraph]) -> Any:
    """Let an operation that runs bodies run after what is outside of them and comes before them."""
    graph = get_default_graph()
    before = {id(op): op for body in bodies for op in body.control_captures}
    # A function may be called in another graph than the one that it was traced in.
    known = [op for op in before.values() if op.graph is graph or isinstance(graph, FuncGraph)]
    return graph.control_dependencies(known)


# ---- branches


def share_captures(branches: Sequence[FuncGraph]) -> list[Tensor]:
    """Give several bodies the same captures in the same order; returns the outer tensors."""
    common = {id(outer): outer for branch in branches for outer in branch.captured_inputs}
    for branch in branches:
        for outer in common.values():
            branch.capture(outer)
        own = branch.inputs[: len(branch.inputs) - len(branch.captures)]
        by_outer = {id(outer): (outer, inner) for outer, inner in branch.captures}
        branch.captures = [by_outer[key] for key in common]
        branch.inputs = [*own, *(inner for _, inner in branch.captures)]
    return list(common.values())


def if_op(
    pred: TensorLike,
    then_fn: Callable[[], Any],
    else_fn: Callable[[], Any],
    name: str | None = None,
) -> Any:
    """Return what one of two functions gives, as an If op (StatelessIf where nothing has effects).

    Raises: TypeError where the results differ in structure or types; AssertionError where they
    differ in number, ValueError where only one is None.
    """
    return _branch_op(convert_to_tensor(pred), [then_fn, else_fn], "If", name)


def case_op(
    index: TensorLike, functions: Sequence[Callable[[], Any]], name: str | None = None
) -> Any:
    """Return what the function at an index gives, as a Case op; the last for other indices.

    Raises: TypeError where the results differ in structure or types; AssertionError where they
    differ in number, ValueError where only one is None.
    """
    return _branch_op(convert_to_tensor(index, dtypes.int32), functions, "Case", name)


def _branch_op(
    selector: Tensor, functions: Sequence[Callable[[], Any]], kind: str, name: str | None
) -> Any:
    traced = [
        trace(function, [], f"{kind.lower()}_branch{i}") for i, function in enumerate(functions)
    ]
    branches = [graph for graph, _ in traced]
    first = traced[0][1]
    for graph, result in traced[1:]:
        _require_same_results(first, result)
        if len(branches[0].outputs) != len(graph.outputs):
            raise ValueError(
                f"the branches give {len(branches[0].outputs)} and {len(graph.outputs)} tensors; "
                "where one gives None, the others must"
            )
        for one, other in zip(branches[0].outputs, graph.outputs, strict=True):
            if one.dtype.base_dtype is not other.dtype.base_dtype:
                raise TypeError(
                    f"the branches give different types: {one.dtype.name} and {other.dtype.name}"
                )
    op = make_branch_op(selector, branches, share_captures(branches), kind, name)
    flat = iter(op.outputs)
    leaves = nest.flatten(first, expand_composites=True)
    packed = [None if leaf is None else next(flat) for leaf in leaves]
    return nest.pack_sequence_as(first, packed, expand_composites=True)


def _require_same_results(first: Any, other: Any) -> None:
    """Raise AssertionError for another number of results, TypeError for another structure."""
    counts = [len(nest.flatten(result, expand_composites=True)) for result in (first, other)]
    if counts[0] != counts[1]:
        raise AssertionError(f"the branches give {counts[0]} and {counts[1]} results: {counts}")
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the branches give different structures: {error}") from None


def make_branch_op(
    selector: Tensor,
    branches: Sequence[FuncGraph],
    inputs: Sequence[Tensor],
    kind: str,
    name: str | None = None,
) -> Operation:
    """Make an If or Case op of bodies that take the same inputs."""
    refs = [finish(branch).ref() for branch in branches]
    attrs: dict[str, Any] = {
        "Tin": [t.dtype.base_dtype for t in inputs],
        "Tout": [t.dtype.base_dtype for t in branches[0].outputs],
        "output_shapes": [
            TensorShape(_common(branches, i)) for i in range(len(branches[0].outputs))
        ],
    }
    if get_op_def(kind).runs is Runs.BRANCH:
        attrs["then_branch"], attrs["else_branch"] = refs
    else:
        attrs["branches"] = refs
    stateless = "" if any(is_stateful(b) for b in branches) else "Stateless"
    return _functional_op(f"{stateless}{kind}", [selector, list(inputs)], attrs, branches, name)


def _common(branches: Sequence[FuncGraph], index: int) -> Any:
    dims = {branch.outputs[index].dims for branch in branches}
    return dims.pop() if len(dims) == 1 else None


# ---- loops


def while_op(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    parallel_iterations: int = 10,
    name: str | None = None,
    invariants: Sequence[Dims] | None = None,
) -> list[Tensor]:
    """Repeat body while cond holds, as a While op (StatelessWhile where nothing has effects).

    Args:
      invariants: what of the shapes of loop variables holds in all iterations.
    Raises: ValueError where the body gives another number of values, TypeError of other types.
    """
    first = [convert_to_tensor(value) for value in loop_vars]
    kept = [t.dims for t in first] if invariants is None else invariants
    like = [Like(t.dtype, dims) for t, dims in zip(first, kept, strict=True)]
    cond_graph, _ = trace(cond, like, "while_cond")
    body_graph, _ = trace(body, like, "while_body")
    if [t.dtype for t in body_graph.outputs] != [t.dtype.base_dtype for t in first]:
        raise TypeError(
            f"the body gives {[t.dtype.name for t in body_graph.outputs]}; the loop variables are "
            f"{[t.dtype.name for t in first]}"
        )
    captured = share_captures([cond_graph, body_graph])
    # What is captured goes round unchanged.
    body_graph.outputs.extend(inner for _, inner in body_graph.captures)
    inputs = [*first, *captured]
    attrs = {
        "T": [t.dtype.base_dtype for t in inputs],
        "cond": finish(cond_graph).ref(),
        "body": finish(body_graph).ref(),
        "output_shapes": [
            TensorShape(_kept(t, out)) for t, out in zip(body_graph.inputs, body_graph.outputs)
        ],
        "parallel_iterations": parallel_iterations,
    }
    stateless = "" if is_stateful(cond_graph) or is_stateful(body_graph) else "Stateless"
    with _after_what_they_follow([cond_graph, body_graph]):
        op = make_op(get_op_def(f"{stateless}While"), [inputs], attrs, name)
    found: list[Tensor] = shape_outputs(op)
    return found[: len(first)]


def _kept(before: Tensor, after: Tensor) -> Any:
    return before.dims if before.dims == after.dims else None
