"""What a Session needs from whoever runs its steps: a local runner or a remote master."""

from __future__ import annotations

from typing import Any, Protocol

from tideflow.compile.prune import Signature
from tideflow.graph.graph import Graph
from tideflow.ops.state import SessionTensors
from tideflow.wire import messages as pb


class Backend(Protocol):
    """Runs the steps of one session.  All methods may be called from any user thread.

    Attributes:
      is_remote: whether values go to other tasks.
      session_tensors: what the session keeps between its steps, where that is in this process.
    """

    is_remote: bool
    session_tensors: SessionTensors | None

    def run(
        self,
        graph: Graph,
        signature: Signature,
        feeds: list[Any],
        options: pb.RunOptions | None,
        metadata: pb.RunMetadata | None,
    ) -> list[Any]:
        """Run one step; return the fetched values in the signature's order."""

    def partial_run_setup(self, graph: Graph, signature: Signature) -> str:
        """Begin a partial run; return its handle."""

    def partial_run(self, handle: str, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
        """Go on with a partial run; return the fetched values in order."""

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """Return the devices that the session may use."""

    def close(self) -> None:
        """End the session: running steps fail with CancelledError."""


def step_timeout_s(config: pb.ConfigProto, options: pb.RunOptions | None) -> float | None:
    """Return how long a step may take by its options, else by its session's; None for ever."""
    given = options.timeout_in_ms if options is not None else 0
    timeout_ms = given or config.operation_timeout_in_ms
    return timeout_ms / 1000 if timeout_ms > 0 else None
