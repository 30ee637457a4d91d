"""SymbolicGradient: the gradient of a function of the library, which whoever runs it works out.

Clients that define functions by `Defun` leave their gradients to the runtime.
Source: tensorflow/core/common_runtime/function.cc (SymbolicGradientHelper).
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from tideflow.graph import roles
from tideflow.graph.building import apply_op
from tideflow.graph.function_bodies import body_graph
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.graph import Graph
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.ops.control_flow import Body, define_body
from tideflow.ops.gradients.api import UnconnectedGradients, gradients, is_trainable
from tideflow.wire import errors

# The name under which the gradient of the function in attr f is asked for.
GRADIENT = "SymbolicGradient"


def _shapes_of_arguments(c: ShapeContext) -> list[Dims]:
    return list(c.inputs[: len(c.node.output_types)])


@op(
    """
    SymbolicGradient(input: *Tin) -> output: *Tout
    Tin: list(type) >= 1
    Tout: list(type) >= 1
    f: func
    """,
    shape=_shapes_of_arguments,
    role=roles.HIGHER_ORDER,
    any_device=False,
)
async def symbolic_gradient(
    ctx: KernelContext, step: StepContext, inputs: list[Any], *, f: FunctionRef
) -> Any:
    """Return the gradients of a function's arguments.

    inputs: the arguments, then the gradients of the function's results.
    """
    function = await ctx.ready(FunctionRef(GRADIENT, {"f": f}))
    return await function(step, *inputs)


def gradient_function(
    library: MutableMapping[str, FunctionDefinition], f: FunctionRef
) -> FunctionDefinition:
    """Return what gives the gradients of a function's arguments, from them and the gradients of its
    results; the functions that it calls are entered into the library.

    Raises: NotFoundError for a function that the library lacks, and for one of whose ops no
    gradient is known.
    """
    definition = library.get(f.name)
    if definition is None:
        raise errors.NotFoundError(
            f"SymbolicGradient: function {f.name!r} is not in the graph's library"
        )
    if definition.gradient:
        return library[definition.gradient]
    around = Graph()
    around.functions = dict(library)
    try:
        body = body_graph(definition, around)
        with body.as_default():
            ys = list(body.outputs)
            arguments = list(body.inputs)
            given = [body.add_input(y.dtype, y.dims, "grad") for y in ys]
            pairs = [(y, dy) for y, dy in zip(ys, given) if is_trainable(y)]
            xs = [x for x in arguments if is_trainable(x)]
            found = gradients(
                [y for y, _ in pairs],
                xs,
                [dy for _, dy in pairs],
                unconnected_gradients=UnconnectedGradients.ZERO,
            )
            by_argument = dict(zip(map(id, xs), found))
            results = [
                apply_op("Identity", by_argument[id(x)])
                if id(x) in by_argument
                else apply_op("ZerosLike", x)
                for x in arguments
            ]
        made = define_body(Body(body, results), f"{f.name}_symbolic_gradient")
    except LookupError as error:
        raise errors.NotFoundError(f"SymbolicGradient of function {f.name!r}: {error}") from error
    for name, function in around.functions.items():
        library.setdefault(name, function)
    return made
