"""Another task of the cluster, as an eager client calls it."""

from __future__ import annotations

from tideflow.cluster.services import EagerService, WorkerService
from tideflow.eager.remote.queue import RemoteQueue
from tideflow.wire import messages as pb


class RemoteTask:
    """Another task.

    Attributes:
      devices: incarnations by full name.
      has_context: whether one was made on it.
      view_id: the version of the cluster that its context is known to have.
      queue: what it is to do.
      first_op_id: what operations before it have made went with an earlier life of the task.
      functions: names of those that its context knows.
    """

    def __init__(self, name: str, worker: WorkerService, service: EagerService) -> None:
        self.name = name
        self.worker = worker
        self.service = service
        self.devices: dict[str, int] = {}
        self.attributes: list[pb.DeviceAttributes] = []
        self.queue: RemoteQueue
        self.has_context = False
        self.view_id = 0
        self.first_op_id = 0
        self.functions: set[str] = set()
