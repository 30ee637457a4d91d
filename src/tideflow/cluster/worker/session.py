"""What a worker keeps for one master session: its graphs, its kernels' state, its view of things.

A session sees the worker's devices and their named state, or, when it is isolated or brought a
cluster of its own (propagation), state of its own that goes with it.
Source: runtime facts on CreateWorkerSession and RegisterGraph.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tideflow.blocking import StopFlag
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.graph.collection import collection_paused
from tideflow.graph.functions import FunctionDefinition, add_to_library, library_lookup
from tideflow.graph.graph_def import nodes_to_graph_def, read_nodes
from tideflow.graph.node import Node
from tideflow.ops.collectives import Collectives
from tideflow.ops.state import SessionTensors
from tideflow.runtime.context import KernelState
from tideflow.runtime.device import Device, DeviceManager
from tideflow.runtime.functions import FunctionRuntime
from tideflow.runtime.graph_runner import GraphRunner
from tideflow.runtime.jit_mode import jit_mode
from tideflow.runtime.resources import ResourceManager
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import full_name, parse_device_name
from tideflow.wire.graph_contents import GraphContents, kept


class RegisteredGraph:
    """A graph that is ready to run; an empty one has no runner."""

    __slots__ = ("node_count", "runner")

    def __init__(self, runner: GraphRunner | None, node_count: int) -> None:
        self.runner = runner
        self.node_count = node_count

    def partition_graphs(self) -> list[pb.GraphDef]:
        """Return the graph of each device as a message."""
        return [nodes_to_graph_def([])] if self.runner is None else self.runner.partition_graphs()


class WorkerSession:
    """The worker's side of one master session.

    Args:
      handle: the master session's; "" for the worker's own (legacy) session.
      devices: as the session names them.
      workers: the workers of the session's cluster.
      isolated: whether the session has named state of its own.
      master_task, master_incarnation: who made it.
      owns_workers: whether the connections go with the session.
      collectives: the other devices that its collective ops compute with.
    """

    def __init__(
        self,
        handle: str,
        devices: DeviceManager,
        workers: WorkerCache,
        *,
        isolated: bool = False,
        master_task: str = "",
        master_incarnation: int = 0,
        owns_workers: bool = False,
        collectives: Collectives | None = None,
    ) -> None:
        self.handle = handle
        self.devices = devices
        self.workers = workers
        self.isolated = isolated
        self.master_task = master_task
        self.master_incarnation = master_incarnation
        self.state = KernelState(collectives, SessionTensors())
        self.graphs: dict[str, RegisteredGraph] = {}
        self.run_count = 0
        self._owns_workers = owns_workers
        self._numbers = itertools.count()
        self._resources = {
            device.name: _own_resources(device) if isolated else device.resources
            for device in devices.devices
        }

    def resources(self, device: Device) -> ResourceManager:
        """Return a device's named state as this session sees it."""
        return self._resources[device.name]

    @collection_paused()
    def prepare(
        self,
        graph_pb: pb.GraphDef,
        contents: GraphContents,
        options: pb.GraphOptions | None = None,
        flag: StopFlag | None = None,
    ) -> RegisteredGraph:
        """Make a graph ready to run; called on a thread, since it takes long for large graphs.

        contents: to which constants of the graph refer; they are copied.
        options: the session's; their global_jit_level says what is compiled.
        flag: looked at between the stages; nothing is kept of a graph before it is added.
        Raises: InvalidArgumentError for a device that is missing or not here, or a graph that does
        not fit together; NotFoundError for an unknown op.
        """
        library: dict[str, FunctionDefinition] = {}
        of_functions = kept(graph_pb.library.function, contents)
        add_to_library(library, graph_pb.library, of_functions)
        flag = flag or StopFlag()
        flag.check()
        made = read_nodes(
            graph_pb, lookup=library_lookup(library), contents=kept(graph_pb.node, contents)
        )
        nodes = list(made.values())
        flag.check()
        self._check_devices(nodes)
        if not nodes:
            return RegisteredGraph(None, 0)
        jit = jit_mode(options, self.workers.settings)
        functions = FunctionRuntime(library, self.devices, self.state, self.resources, jit)
        runner = GraphRunner(nodes, self.devices, self.state, self.resources, functions.get, jit)
        return RegisteredGraph(runner, len(nodes))

    def _check_devices(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if not node.device:
                raise errors.InvalidArgumentError(
                    f"{node.op} {node.name!r} of the graph has no device; each node of a "
                    f"registered graph must be on one of {', '.join(self._resources)}",
                    node=node.name,
                )
            try:
                self.devices.get(node.device)
            except errors.InvalidArgumentError as error:
                raise error.with_message(
                    f"{node.op} {node.name!r} is placed on {node.device!r}: {error.message}",
                    node=node.name,
                ) from None

    def add(self, graph: RegisteredGraph) -> str:
        """Keep a graph; return its handle."""
        handle = f"{next(self._numbers):016x}"
        self.graphs[handle] = graph
        return handle

    def graph(self, handle: str) -> RegisteredGraph:
        """Return a graph.  Raises: AbortedError for a handle that is not there."""
        found = self.graphs.get(handle)
        if found is None:
            raise errors.AbortedError(
                f"{self.workers.own_task} has no graph {handle!r} in session {self.handle!r}; it "
                "was never registered, or went with a restart. Make a new session"
            )
        return found

    def remove(self, handle: str) -> None:
        """Drop a graph.  Raises: AbortedError for a handle that is not there."""
        self.graph(handle)
        del self.graphs[handle]

    async def close(self) -> None:
        """Drop everything that the session kept."""
        self.graphs.clear()
        self.state.close()
        if self._owns_workers:
            await self.workers.close()


def _own_resources(device: Device) -> ResourceManager:
    return ResourceManager(device.name, device.resources.default_container)


def renamed_devices(devices: DeviceManager, job: str, task: int) -> DeviceManager:
    """Return the devices under the names of another job and task, in the same incarnation."""
    made = []
    for device in devices.devices:
        spec = parse_device_name(device.name)
        assert spec.device_index is not None
        twin = Device(
            full_name(job, task, device.device_type, spec.device_index),
            device.device_type,
            job,
            device.accelerator,
        )
        twin.incarnation = device.incarnation
        made.append(twin)
    return DeviceManager(made)
