"""Datasets made of the graphs in which they travel, in a server that has no session."""

from __future__ import annotations

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.ops.data import RuntimeDataset, as_dataset, function_of_graph
from tideflow.runtime.context import KernelState
from tideflow.runtime.device import DeviceManager, make_cpu_devices
from tideflow.runtime.functions import FunctionRuntime
from tideflow.runtime.graph_runner import local_step
from tideflow.wire import messages as pb


async def dataset_of(definition: pb.DatasetDef) -> RuntimeDataset:
    """Return a new dataset; what it shares with others of its graph is its own.

    Raises: NotFoundError for a graph without a dataset, or with an op that is not known; what its
    ops raise.
    """
    devices = DeviceManager(make_cpu_devices("localhost", 0))
    runtime = FunctionRuntime({}, devices, KernelState(), lambda device: device.resources)
    graph_pb = definition.graph

    def ready(_: object) -> object:
        return runtime.get(function_of_graph(graph_pb), devices.client_device)

    make = await run_blocking(GRAPHS, ready)
    [found] = await make(local_step(0))  # type: ignore[operator]
    return as_dataset(found)
