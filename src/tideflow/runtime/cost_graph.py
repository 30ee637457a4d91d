"""What each node of a step costs, as CostGraphDef messages: for tools that place and schedule."""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.graph.graph_def import split_input
from tideflow.wire import messages as pb

# Of an output that is no reuse of an input's buffer.
_OWN_BUFFER = -1


def cost_graph(graphs: Iterable[pb.GraphDef], stats_pb: pb.StepStats) -> pb.CostGraphDef:
    """Return the nodes of a task's graphs, with the sizes of their outputs and the time that each
    took, in microseconds; the longest one for a node that ran more than once.

    Source: tensorflow/core/graph/costmodel.cc (AddToCostGraphDef).
    """
    costs_pb = pb.CostGraphDef()
    runs = {
        (device_pb.device, run_pb.node_name): run_pb
        for device_pb in stats_pb.dev_stats
        for run_pb in sorted(device_pb.node_stats, key=lambda one: one.op_end_rel_nanos)
    }
    for graph_pb in graphs:
        first = len(costs_pb.node)
        ids = {node_pb.name: first + i for i, node_pb in enumerate(graph_pb.node)}
        read: set[int] = set()
        for node_pb in graph_pb.node:
            cost_pb = costs_pb.node.add(
                name=node_pb.name, device=node_pb.device, id=ids[node_pb.name]
            )
            for text in node_pb.input:
                source, port = split_input(text)
                read.add(ids[source])
                if port < 0:
                    cost_pb.control_input.append(ids[source])
                else:
                    cost_pb.input_info.add(preceding_node=ids[source], preceding_port=port)
            run_pb = runs.get((node_pb.device, node_pb.name))
            if run_pb is not None:
                _add_measured(cost_pb, run_pb)
        for cost_pb in costs_pb.node[first:]:
            cost_pb.is_final = cost_pb.id not in read
    return costs_pb


def _add_measured(cost_pb: pb.CostGraphDef.Node, run_pb: pb.NodeExecStats) -> None:
    cost_pb.compute_cost = cost_pb.compute_time = run_pb.op_end_rel_micros
    for output_pb in run_pb.output:
        tensor_pb = output_pb.tensor_description
        cost_pb.output_info.add(
            size=tensor_pb.allocation_description.requested_bytes,
            alias_input_port=_OWN_BUFFER,
            shape=tensor_pb.shape,
            dtype=tensor_pb.dtype,
        )
