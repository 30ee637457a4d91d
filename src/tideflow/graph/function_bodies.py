"""Bodies of functions that came as messages: graphs that can be built on, and differentiated."""

from __future__ import annotations

from collections.abc import Callable

from tideflow.graph import roles
from tideflow.graph.functions import FuncGraph, FunctionDefinition
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.node import topological_order


def body_graph(definition: FunctionDefinition, outer_graph: Graph) -> FuncGraph:
    """Return a function of a library as a body that can be built on.

    Raises: InvalidArgumentError for a body with a loop of Switch and Merge ops in it.
    """
    graph = FuncGraph(definition.name, outer_graph)
    fill_body(graph, definition, lambda index, argument: None)
    return graph


def fill_body(
    graph: FuncGraph, definition: FunctionDefinition, tell: Callable[[int, Tensor], None]
) -> None:
    """Put a function of a library into an empty graph.

    tell: is given each argument with its number, to say its shape before others are inferred.
    Raises: InvalidArgumentError for a body with a loop of Switch and Merge ops in it.
    """
    made: dict[int, Operation] = {}
    results: dict[int, Tensor] = {}
    nodes = definition.instantiate({})
    is_argument = {id(node): node.op_def.role is roles.ARGUMENT for node in nodes}
    arguments = [node for node in nodes if is_argument[id(node)]]
    for node in sorted(arguments, key=lambda node: int(node.attrs["index"])):
        argument = graph.add_input(node.attrs["T"], None, node.name + "/")
        argument.op.attrs |= {key: node.attrs[key] for key in node.attrs if key.startswith("_")}
        tell(len(graph.inputs) - 1, argument)
        made[id(node)] = argument.op
    for node in topological_order(nodes):
        if is_argument[id(node)]:
            continue
        inputs = [made[id(source)].outputs[port] for source, port in node.edges]
        if node.op_def.role is roles.RESULT:
            results[node.attrs["index"]] = inputs[0]
            continue
        op = graph.create_op(node.op_def, inputs, dict(node.attrs), node.name + "/")
        op.device = node.device
        for control in node.controls:
            op.add_control_input(made[id(control)])
        made[id(node)] = op
    graph.outputs = [results[index] for index in sorted(results)]
