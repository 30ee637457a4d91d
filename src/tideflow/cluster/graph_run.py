"""A worker's part of a step as values: what RunGraph asks and answers, without its messages.

A master in the worker's own process calls `Worker.run_graph` with these and saves the encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import Value


@dataclass(slots=True)
class GraphRun:
    """One run of a registered graph.

    Attributes:
      session_handle: "" means the worker's own (legacy) session.
      step_id: the same on all workers of the step.
      sends: values by full rendezvous key, put in before the graph starts.
      recv_keys: full rendezvous keys whose values are to be returned.
      args: the arguments of a graph that takes its feeds so; then it returns its results, and
        sends and recv_keys are empty.
      request_id: refused when it was seen before; 0 is never checked.
      is_partial, is_last_partial_run: as in RunGraphRequest.
    """

    session_handle: str
    graph_handle: str
    step_id: int
    sends: Mapping[str, Value] = field(default_factory=dict)
    recv_keys: Sequence[str] = ()
    record_timeline: bool = False
    record_partition_graphs: bool = False
    request_id: int = 0
    is_partial: bool = False
    is_last_partial_run: bool = False
    args: Sequence[Value] | None = None
    record_costs: bool = False


@dataclass(slots=True)
class ComponentRun:
    """One run of a component function.

    Attributes:
      request: a serialized RunComponentFunctionRequest, the same in many steps.
      op_id: the client's number of the call, under which results are kept.
    """

    request: bytes
    step_id: int
    op_id: int


@dataclass(slots=True)
class GraphResult:
    """What a run gives: the values of `recv_keys` in their order (or the graph's results), and
    records if asked for."""

    values: list[Value]
    step_stats: pb.StepStats | None = None
    partition_graphs: list[pb.GraphDef] = field(default_factory=list)
    cost_graph: pb.CostGraphDef | None = None
