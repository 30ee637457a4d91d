"""A worker's record of the tensors it received, for traces that a master asks for.

Source: runtime facts on Logging; tensorflow/core/distributed_runtime/worker_cache_logger.cc
"""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.platform import clock
from tideflow.wire import messages as pb
from tideflow.wire.rendezvous_key import RendezvousKey
from tideflow.wire.tensor_codec import Value

# Traces are fetched step by step; what nobody fetched goes first.
_MOST_STEPS = 100


class RpcLog:
    """Transfers by step; off until `set_enabled`."""

    def __init__(self) -> None:
        self.enabled = False
        self._steps: dict[int, pb.StepStats] = {}

    def set_enabled(self, enabled: bool) -> None:
        """Begin to record, or stop and forget."""
        self.enabled = enabled
        if not enabled:
            self._steps.clear()

    def clear(self) -> None:
        """Forget all records."""
        self._steps.clear()

    def record(self, step_id: int, key: str, started_ns: int, value: Value) -> None:
        """Note the arrival, now, of a value that was asked for at started_ns."""
        stats_pb = self._steps.get(step_id)
        if stats_pb is None:
            while len(self._steps) >= _MOST_STEPS:
                del self._steps[next(iter(self._steps))]
            stats_pb = self._steps[step_id] = pb.StepStats()
        parsed = RendezvousKey.parse(key)
        device_pb = _device_stats(stats_pb, parsed.dst_device)
        elapsed_ns = clock.wall_ns() - started_ns
        size_bytes = int(getattr(value, "nbytes", 0))
        device_pb.node_stats.add(
            node_name="RecvTensor",
            all_start_micros=started_ns // 1000,
            all_start_nanos=started_ns,
            op_end_rel_micros=elapsed_ns // 1000,
            op_end_rel_nanos=elapsed_ns,
            all_end_rel_micros=elapsed_ns // 1000,
            all_end_rel_nanos=elapsed_ns,
            timeline_label=(
                f"[{size_bytes}B] {parsed.name} from {parsed.src_device} to {parsed.dst_device}"
            ),
        )

    def fetch(self, step_ids: Iterable[int]) -> list[pb.LabeledStepStats]:
        """Return and forget the records of some steps; steps without any are left out."""
        found = []
        for step_id in step_ids:
            stats_pb = self._steps.pop(step_id, None)
            if stats_pb is not None:
                found.append(pb.LabeledStepStats(step_id=step_id, step_stats=stats_pb))
        return found


def _device_stats(stats_pb: pb.StepStats, device: str) -> pb.DeviceStepStats:
    for device_pb in stats_pb.dev_stats:
        if device_pb.device == device:
            return device_pb
    return stats_pb.dev_stats.add(device=device)
