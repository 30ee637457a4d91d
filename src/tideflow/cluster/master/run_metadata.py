"""What a step records for its client: times of nodes and transfers, what nodes cost, and the graphs
of the parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tideflow.cluster.graph_run import GraphResult
from tideflow.cluster.master.step_runner import StepOptions, StepPart
from tideflow.wire import errors
from tideflow.wire import messages as pb


def step_options(options: pb.RunOptions | None, config: pb.ConfigProto) -> StepOptions:
    """Return what the workers are to record for a client's options."""
    build_cost_model = config.graph_options.build_cost_model
    if options is None:
        return StepOptions(record_costs=build_cost_model > 0)
    return StepOptions(
        record_timeline=options.trace_level == pb.RunOptions.FULL_TRACE,
        record_partition_graphs=options.output_partition_graphs,
        record_costs=build_cost_model > 0,
        log_transfers=options.trace_level == pb.RunOptions.FULL_TRACE,
    )


async def start_transfer_log(parts: Sequence[StepPart]) -> None:
    """Have the workers note what they receive from each other."""
    await _log_everywhere(parts, pb.LoggingRequest(enable_rpc_logging=True))


async def take_transfer_log(parts: Sequence[StepPart], step_id: int) -> list[pb.StepStats]:
    """Return the transfers of a step, and stop noting them."""
    request = pb.LoggingRequest(fetch_step_id=[step_id], disable_rpc_logging=True, clear=True)
    answers = await _log_everywhere(parts, request)
    return [step_pb.step_stats for answer in answers for step_pb in answer.step]


async def _log_everywhere(
    parts: Sequence[StepPart], request: pb.LoggingRequest
) -> list[pb.LoggingResponse]:
    found = []
    for part in parts:
        try:
            found.append(await part.worker.Logging(request))
        except errors.OpError:
            # Records are a courtesy; a worker that is gone makes the step itself fail.
            continue
    return found


def make_metadata(
    results: Mapping[str, GraphResult], transfers: Iterable[pb.StepStats]
) -> pb.RunMetadata:
    """Return the records of all parts as one message."""
    metadata = pb.RunMetadata()
    stats = [r.step_stats for r in results.values() if r.step_stats is not None]
    by_device: dict[str, pb.DeviceStepStats] = {}
    for stats_pb in (*stats, *transfers):
        for device_pb in stats_pb.dev_stats:
            merged = by_device.get(device_pb.device)
            if merged is None:
                merged = by_device[device_pb.device] = metadata.step_stats.dev_stats.add()
            merged.MergeFrom(device_pb)
    for result in results.values():
        metadata.partition_graphs.extend(result.partition_graphs)
        if result.cost_graph is not None:
            metadata.cost_graph.node.extend(result.cost_graph.node)
    return metadata
