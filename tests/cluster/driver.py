"""A plain master for tests of workers: splits a graph, registers the parts, runs steps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tideflow.cluster.services import WorkerService
from tideflow.cluster.status import StatusService
from tideflow.compile.feeds import endpoint_key, through_rendezvous
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.compile.prune import Signature, prune
from tideflow.graph.graph import Graph
from tideflow.graph.graph_def import nodes_to_graph_def
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.parted import MaybeParted, take_apart
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor


class Driver:
    """Speaks to the workers at some addresses over real connections.

    Use as `async with Driver({"/job:ps/replica:0/task:0": "host:port"}) as driver`.
    The first task is the one whose first device holds feeds and fetches.
    """

    def __init__(self, addresses: Mapping[str, str], handle: str = "session") -> None:
        self.handle = handle
        self.channels = {task: make_channel(a) for task, a in addresses.items()}
        self.workers = {task: stub(WorkerService, c) for task, c in self.channels.items()}
        self.incarnations: dict[str, int] = {}
        self.step_ids = itertools.count(1000)

    async def __aenter__(self) -> Driver:
        for worker in self.workers.values():
            status = await worker.GetStatus(pb.GetStatusRequest())
            for device in status.device_attributes:
                self.incarnations[device.name] = device.incarnation
            if self.handle:
                await worker.CreateWorkerSession(
                    pb.CreateWorkerSessionRequest(session_handle=self.handle)
                )
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self.channels.values():
            await channel.close()

    def key(self, name: str) -> str:
        device = next(iter(self.incarnations))
        return endpoint_key(device, self.incarnations[device], name)

    async def register(self, graph: Graph, signature: Signature) -> Registered:
        client_graph = prune(graph.operations_by_name, signature)
        place(client_graph.nodes, list(self.incarnations), False)
        device = next(iter(self.incarnations))
        through_rendezvous(client_graph, device, self.incarnations[device])
        parts = partition(
            client_graph.nodes,
            location=lambda node: task_name(node.device),
            incarnation=self.incarnations.__getitem__,
        )
        handles = {}
        for task, nodes in parts.items():
            response = await self.workers[task].RegisterGraph(
                pb.RegisterGraphRequest(
                    session_handle=self.handle,
                    create_worker_session_called=bool(self.handle),
                    graph_def=nodes_to_graph_def(
                        nodes, graph.functions.values(), strip_defaults=True
                    ),
                )
            )
            handles[task] = response.graph_handle
        return Registered(self, signature, handles)


class Registered:
    """A graph that the workers know."""

    def __init__(self, driver: Driver, signature: Signature, handles: dict[str, str]) -> None:
        self.driver = driver
        self.signature = signature
        self.handles = handles

    def request(self, task: str, step_id: int, **fields: Any) -> pb.RunGraphRequest:
        return pb.RunGraphRequest(
            session_handle=self.driver.handle,
            create_worker_session_called=bool(self.driver.handle),
            graph_handle=self.handles[task],
            step_id=step_id,
            **fields,
        )

    async def start(
        self,
        task: str,
        step_id: int,
        feeds: Mapping[str, Any] | None = None,
        fetches: Sequence[str] = (),
        **fields: Any,
    ) -> MaybeParted[pb.RunGraphResponse]:
        """Run one task's part."""
        request = self.request(task, step_id, **fields)
        for name, value in (feeds or {}).items():
            request.send.add(name=self.driver.key(name)).tensor.CopyFrom(encode_tensor(value))
        request.recv_key.extend(self.driver.key(name) for name in fetches)
        return await self.driver.workers[task].RunGraph(request)

    async def run(self, feeds: Mapping[str, Any] | None = None) -> list[Any]:
        """Run a step on all tasks, clean up, and return the fetched values."""
        step_id = next(self.driver.step_ids)
        first = next(iter(self.driver.workers))
        calls = [
            self.start(
                task, step_id,
                feeds if task == first else None,
                self.signature.fetches if task == first else (),
            )
            for task in self.handles
        ]  # fmt: skip
        try:
            responses = await asyncio.gather(*calls)
        finally:
            await self.clean_up(step_id)
        found = {}
        for response in responses:
            message, contents = take_apart(response)
            for position, named in enumerate(message.recv):
                found[named.name] = decode_tensor(named.tensor, contents.get(position))
        return [found[self.driver.key(name)] for name in self.signature.fetches]

    async def clean_up(self, step_id: int) -> None:
        for task in self.handles:
            await self.driver.workers[task].CleanupGraph(pb.CleanupGraphRequest(step_id=step_id))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition, asked again and again, holds; the test's own deadline ends it."""
    while not await condition():
        await asyncio.sleep(0.002)


async def until_in_flight(
    driver: Driver, task: str, method: str, count: int, run: asyncio.Future[Any] | None = None
) -> None:
    """Wait until a task has so many calls of a method in progress.

    `run` is what is to make the calls: its error is raised if it ends before.
    """
    page = stub(StatusService, driver.channels[task])

    async def reached() -> bool:
        response = await page.GetServerStatus(pb.ServerStatusRequest())
        # Rows with a peer are of calls that the task makes itself.
        answered = [row for row in response.method if not row.peer]
        rows = {row.path.rpartition("/")[2]: row.in_flight for row in answered}
        if run is not None and run.done():
            raise AssertionError(f"the run ended early with {run.exception() or run.result()}")
        return rows.get(method, 0) == count

    await until(reached)
