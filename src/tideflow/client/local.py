"""Steps that run in this process, without a master.

For each signature the graph is pruned, rewritten, placed and made ready once.  A step on one device
that never waits then runs on the caller's thread.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import numpy as np

from tideflow.client.backend import step_timeout_s
from tideflow.compile.device_types import is_accelerator
from tideflow.compile.feeds import PartialRun, endpoint_key, through_rendezvous
from tideflow.compile.place import place
from tideflow.compile.placed_graph import PlacedGraph, tell_placement
from tideflow.compile.prune import ClientGraph, Signature, prune
from tideflow.compile.prune_loops import prune_loops
from tideflow.compile.rewrite import Rewrites, rewrite
from tideflow.graph.collection import collection_paused
from tideflow.graph.graph import Graph
from tideflow.ops.state import SessionTensors, held_only_here
from tideflow.platform.interrupts import interrupts_given_to
from tideflow.platform.settings import Settings
from tideflow.runtime.collectives import CollectiveEngine, NoRemoteMembers
from tideflow.runtime.context import KernelState, Step
from tideflow.runtime.device import DeviceManager, make_devices
from tideflow.runtime.device_kernels import to_host
from tideflow.runtime.functions import FunctionRuntime
from tideflow.runtime.graph_runner import GraphRunner, local_step
from tideflow.runtime.jit_mode import jit_mode
from tideflow.runtime.loop import run_sync
from tideflow.runtime.step_stats import StepStatsCollector
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.ids import new_step_id

_CUT_SHORT = "Session::Close: the step was cancelled because its session was closed"


class LocalBackend:
    """Runs the steps of one local session (see tideflow.client.backend.Backend).

    Args:
      config: device_count["CPU"], allow_soft_placement, operation_timeout_in_ms, the
        optimizer's global_jit_level and what turns rewrites off have a meaning.
      settings: of the session.
    Attributes:
      devices: those of the session.
      runners: the graphs that were made ready, by signature.
      session_tensors: what the session keeps between its steps.
    """

    is_remote = False

    def __init__(self, config: pb.ConfigProto, settings: Settings) -> None:
        self._config = config
        self.devices = DeviceManager(make_devices("localhost", 0, config, settings))
        kept = SessionTensors()
        self.session_tensors: SessionTensors | None = kept
        self._state = KernelState(
            CollectiveEngine(
                task_name(self.devices.client_device.name),
                lambda name: self.devices.get(name).attributes(),
                NoRemoteMembers(),
            ),
            kept,
        )
        self._library: dict[str, Any] = {}
        self._rewrites = Rewrites.asked(config.graph_options)
        self._jit = jit_mode(config.graph_options, settings)
        self._functions = FunctionRuntime(
            self._library, self.devices, self._state, lambda device: device.resources, self._jit
        )
        names = [device.name for device in self.devices.devices]
        self._placed = (
            PlacedGraph(names, config.allow_soft_placement)
            if any(map(is_accelerator, names))
            else None
        )
        self.runners: dict[Signature, GraphRunner] = {}
        self._lock = threading.Lock()
        self._steps = itertools.count(1)
        self._running: set[asyncio.Task[Any]] = set()
        # Steps with loops that run on their callers' threads.
        self._looping: set[Step] = set()
        self._partial: dict[str, _OpenRun] = {}
        self._partial_handles = itertools.count()
        self._closed = False

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """Return the devices of this session."""
        return [device.attributes() for device in self.devices.devices]

    # ---- ordinary steps

    def run(
        self,
        graph: Graph,
        signature: Signature,
        feeds: list[Any],
        options: pb.RunOptions | None,
        metadata: pb.RunMetadata | None,
    ) -> list[Any]:
        """Run one step."""
        # A signature's part of the graph cannot change once it was run, so the version of the
        # graph is no part of the key: graphs only grow.
        runner = self.runners.get(signature)
        if runner is None:
            runner = self._prepare(graph, signature)
        timeout_s = step_timeout_s(self._config, options)
        step = local_step(next(self._steps), may_wait=timeout_s is None)
        collector = _collector(options)
        step.observer = collector
        feeds = lent(feeds)
        if runner.is_synchronous and timeout_s is None:
            run = self._run_loops if runner.has_loops else GraphRunner.run
            found = run(runner, step, feeds)
        else:  # the caller's own thread could not be stopped
            found = run_sync(self._run_async(runner, step, feeds), timeout_s)
        if metadata is not None and options is not None:
            _fill_metadata(metadata, options, collector, runner)
        if self._placed is not None:
            found = to_host(found)
        give_away(found)
        return found

    @collection_paused()
    def _prepare(self, graph: Graph, signature: Signature) -> GraphRunner:
        with self._lock, graph.lock:
            self._check_open()
            client_graph = self._client_graph(graph, signature)
            runner = self.runners[signature] = self._make_runner(client_graph)
            return runner

    def _client_graph(self, graph: Graph, signature: Signature) -> ClientGraph:
        self._library.update(graph.functions)
        client_graph = prune(graph.operations_by_name, signature)
        prune_loops(client_graph, self._library.get)
        names = [device.name for device in self.devices.devices]
        if self._placed is None:
            client_graph.nodes = rewrite(client_graph.nodes, self._rewrites)
            place(client_graph.nodes, names, self._config.allow_soft_placement)
            if self._config.log_device_placement:
                tell_placement(client_graph.nodes)
            return client_graph
        placed = self._placed.extend(graph.operations_by_name)
        if self._config.log_device_placement:
            tell_placement(placed.values())
        self._placed.assign(client_graph.nodes)
        client_graph.nodes = rewrite(client_graph.nodes, self._rewrites)
        return client_graph

    def _make_runner(self, client_graph: ClientGraph) -> GraphRunner:
        return GraphRunner(
            client_graph.nodes,
            self.devices,
            self._state,
            lambda device: device.resources,
            self._functions.get,
            self._jit,
        )

    def _run_loops(self, runner: GraphRunner, step: Step, feeds: list[Any]) -> list[Any]:
        """Run a graph with loops on the caller's thread; `close` stops it."""
        self._looping.add(step)
        try:
            # Whoever closes the session from now on finds the step.
            self._check_open()
            # A loop ends between two turns: what a turn changes is changed as a whole.
            with interrupts_given_to(step.stop):
                return runner.run(step, feeds)
        except errors.CancelledError:
            if not step.is_stopped:
                raise
            raise errors.CancelledError(_CUT_SHORT) from None
        finally:
            self._looping.discard(step)

    async def _run_async(self, runner: GraphRunner, step: Step, feeds: list[Any]) -> list[Any]:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            if self._closed:
                raise errors.CancelledError("Session::Close: the session is closed")
            return await runner.run_async(step, feeds)
        except asyncio.CancelledError:
            if self._closed:
                raise errors.CancelledError(_CUT_SHORT) from None
            raise
        finally:
            self._running.discard(task)

    # ---- partial runs

    def partial_run_setup(self, graph: Graph, signature: Signature) -> str:
        """Begin a partial run; its nodes start and wait for feeds."""
        with self._lock, graph.lock:
            self._check_open()
            client_graph = self._client_graph(graph, signature)
            state = PartialRun.of(client_graph)
            device = self.devices.client_device
            through_rendezvous(client_graph, device.name, device.incarnation)
            runner = self._make_runner(client_graph)
        handle = str(next(self._partial_handles))
        self._partial[handle] = run_sync(self._begin_partial(runner, state))
        return handle

    async def _begin_partial(self, runner: GraphRunner, state: PartialRun) -> _OpenRun:
        step = local_step(new_step_id())
        task = asyncio.get_running_loop().create_task(self._run_async(runner, step, []))
        # Its failure reaches the user through the rendezvous.
        task.add_done_callback(lambda t: None if t.cancelled() else t.exception())
        return _OpenRun(state, step, task)

    def partial_run(self, handle: str, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
        """Feed and fetch more of a partial run."""
        found = self._partial.get(handle)
        if found is None:
            raise errors.InvalidArgumentError(
                f"partial run {handle!r} is not there: it was never set up, or has ended"
            )
        found.state.check(list(feeds), fetches)
        found.state.advance(list(feeds), fetches)
        try:
            values = run_sync(self._exchange(found.step, feeds, fetches))
        except errors.OpError:
            self._partial.pop(handle, None)
            raise
        if found.state.is_finished:
            self._partial.pop(handle, None)
            run_sync(_settled(found.task))
        return values

    async def _exchange(self, step: Step, feeds: dict[str, Any], fetches: list[str]) -> list[Any]:
        device = self.devices.client_device
        for name, value in feeds.items():
            step.rendezvous.put(endpoint_key(device.name, device.incarnation, name), value)
        values = []
        for name in fetches:
            key = endpoint_key(device.name, device.incarnation, name)
            values.append((await step.rendezvous.take(key, device.name)).value)
        return values

    # ---- life

    def _check_open(self) -> None:
        if self._closed:
            raise errors.CancelledError("Session::Close: the session is closed")

    def close(self) -> None:
        """End the session; running steps fail with CancelledError."""
        self._closed = True
        for step in list(self._looping):
            step.stop()
        if self._running or self._partial:
            run_sync(self._cancel_all())
        self._partial.clear()
        self.runners.clear()
        self._state.close()

    async def _cancel_all(self) -> None:
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _OpenRun:
    """A partial run that goes on."""

    __slots__ = ("state", "step", "task")

    def __init__(self, state: PartialRun, step: Step, task: asyncio.Task[list[Any]]) -> None:
        self.state = state
        self.step = step
        self.task = task


def lent(feeds: list[Any]) -> list[Any]:
    """Return the caller's arrays as views: who keeps one beyond the step copies it."""
    return [value.view() if type(value) is np.ndarray else value for value in feeds]


def give_away(found: list[Any]) -> None:
    """Let results belong to the caller: copy what a variable or a constant holds, too."""
    for i, is_free in enumerate(held_only_here(found)):
        if not is_free and type(found[i]) is np.ndarray:
            found[i] = np.array(found[i])


async def _settled(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        error = task.exception()
        if error is not None:
            raise error


def _collector(options: pb.RunOptions | None) -> StepStatsCollector | None:
    if options is None:
        return None
    # As in TensorFlow, whoever wants to hear of allocations gets the times, too.
    collects = options.report_tensor_allocations_upon_oom
    if options.trace_level == pb.RunOptions.NO_TRACE and not collects:
        return None
    return StepStatsCollector()


def _fill_metadata(
    metadata: pb.RunMetadata,
    options: pb.RunOptions,
    collector: StepStatsCollector | None,
    runner: GraphRunner,
) -> None:
    metadata.Clear()
    if collector is not None:
        metadata.step_stats.CopyFrom(collector.to_proto())
    if options.output_partition_graphs:
        metadata.partition_graphs.extend(runner.partition_graphs())
