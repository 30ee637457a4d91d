"""EagerService: what an eager client asks of a worker, without a session.

Each RPC decodes, asks the context, encodes.  Items run in order; an error ends the stream with its
status, and the tensors made before stay.
Source: runtime facts on EagerService.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.decoding import decoded, encoded
from tideflow.cluster.eager.context import ANSWERED, EagerContext, is_on, shape_of
from tideflow.cluster.eager.spanning import Remote, place_of
from tideflow.cluster.graph_run import ComponentRun
from tideflow.cluster.owned import Owned
from tideflow.cluster.reach import require_reachable
from tideflow.cluster.services import EagerService
from tideflow.cluster.worker import Worker, WorkerSession
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.graph import roles
from tideflow.graph.op_def import role_of
from tideflow.runtime.binding import transfer_prefix
from tideflow.runtime.collectives import CollectiveEngine
from tideflow.runtime.context import Step
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.graph_contents import GraphContents, kept
from tideflow.wire.ids import signed64
from tideflow.wire.parted import MaybeParted, graph_contents, of_items, take_apart
from tideflow.wire.tensor_codec import (
    Value,
    decode_tensor,
    decode_to_keep,
    encode_tensor,
    value_dtype,
)

_SWEEP_S = 1.0
# Larger tensors are to be sent by the rendezvous, which copies less.
_MOST_ANSWERED_BYTES = 64 << 10
# Nobody has asked for the results of a function; small ones come with its answer all the same.
_MOST_WITH_ANSWER_BYTES = 1 << 10


class EagerWorker(EagerService):
    """Implements EagerService on a worker's devices.  Use it on the loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.contexts: Owned[int, EagerContext] = Owned(self._end, self._abandoned, _SWEEP_S)
        worker.serve_components(self._run_for_peer)

    # ---- contexts

    async def CreateContext(self, request: pb.CreateContextRequest) -> pb.CreateContextResponse:
        if request.clear_existing_contexts:
            await self.contexts.close_all()
        # Another call may make one while an older one ends.
        while (known := self.contexts.get(request.context_id)) is not None:
            if request.context_view_id <= known.view_id:
                raise errors.InvalidArgumentError(
                    f"EagerService:CreateContext failed. Context id: <{request.context_id}> "
                    f"already exists with view id {known.view_id}."
                )
            await self.contexts.close(request.context_id)
        session = self._make_session(request)
        keep_alive_s = float(request.keep_alive_secs) or None
        incarnations = self._incarnations(request.cluster_device_attributes)
        made = EagerContext(
            request.context_id,
            request.context_view_id,
            session,
            keep_alive_s,
            incarnations,
            self._worker.steps,
        )
        self.add(made)
        return pb.CreateContextResponse(device_attributes=self._device_attributes(made))

    def add(self, context: EagerContext) -> None:
        """Keep a context."""
        self.contexts.add(context.context_id, context)
        self._worker.adopt(context.session)

    def _make_session(self, request: pb.CreateContextRequest) -> WorkerSession:
        """Return the session of a context: the worker's devices, the client's cluster."""
        server_pb = request.server_def
        workers = self._workers(server_pb)
        return WorkerSession(
            f"eager_{request.context_id}",
            self._worker.devices,
            workers,
            isolated=server_pb.default_session_config.isolate_session_state,
            owns_workers=True,
            collectives=self._collectives(server_pb, workers),
        )

    def _collectives(self, server_pb: pb.ServerDef, workers: WorkerCache) -> CollectiveEngine:
        return self._worker.collectives.eager_engine(server_pb, workers, self._worker.devices)

    def _workers(self, server_pb: pb.ServerDef) -> WorkerCache:
        """Return what finds the workers of a client's cluster.

        Raises: InvalidArgumentError for a cluster that makes no sense.
        """
        try:
            cluster = ClusterSpec(server_pb.cluster)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"the context's server_def: {error}") from None
        require_reachable(cluster, self._worker.workers.cluster)
        return WorkerCache(self._worker.task, self._worker, cluster, self._worker.settings)

    def _incarnations(self, listed: Iterable[pb.DeviceAttributes]) -> dict[str, int]:
        """Return the incarnations of all devices that a context sees, this task's first."""
        return {
            **{d.name: d.incarnation for d in self._worker.devices.devices},
            **{d.name: d.incarnation for d in listed},
        }

    def _device_attributes(self, context: EagerContext) -> list[pb.DeviceAttributes]:
        return [device.attributes() for device in context.session.devices.devices]

    async def UpdateContext(self, request: pb.UpdateContextRequest) -> pb.UpdateContextResponse:
        context = self._context(request.context_id)
        if request.context_view_id != context.view_id + 1:
            raise errors.InvalidArgumentError(
                f"EagerService:UpdateContext failed. Context id: <{request.context_id}> currently "
                f"at view {context.view_id}, so that view {request.context_view_id} cannot be next"
            )
        if request.server_def.cluster.job:
            workers = self._workers(request.server_def)
            # Where only a process is new, steps of the others go on with the channels they have.
            if workers.cluster != context.session.workers.cluster:
                state = context.session.state
                self._worker.collectives.drop(state.collectives)
                state.collectives = self._collectives(request.server_def, workers)
                await context.change_cluster(workers)
                self._worker.adopt(context.session)
            devices = self._incarnations(request.cluster_device_attributes)
            context.see(request.context_view_id, devices)
        context.view_id = request.context_view_id
        return pb.UpdateContextResponse(device_attributes=self._device_attributes(context))

    async def KeepAlive(self, request: pb.KeepAliveRequest) -> pb.KeepAliveResponse:
        return pb.KeepAliveResponse(context_view_id=self._context(request.context_id).view_id)

    async def CloseContext(self, request: pb.CloseContextRequest) -> pb.CloseContextResponse:
        known = self.contexts.get(request.context_id)
        if known is not None and request.context_view_id >= known.view_id:
            await self.contexts.close(request.context_id)
        return pb.CloseContextResponse()

    def _context(self, context_id: int) -> EagerContext:
        """Return a context, and keep it alive.  Raises: AbortedError for one that is not here."""
        found = self.contexts.get(context_id)
        if found is None:
            raise errors.AbortedError(
                "Unable to find a context_id matching the specified one "
                f"({context_id}). Perhaps the worker was restarted, or the context was GC'd?"
            )
        found.touch()
        return found

    def _abandoned(self, contexts: Mapping[int, EagerContext]) -> list[tuple[int, str]]:
        """Return the contexts whose clients are gone."""
        return [
            (context_id, "its client has not been heard of")
            for context_id, context in contexts.items()
            if context.is_abandoned
        ]

    async def _end(self, context: EagerContext) -> None:
        self._worker.steps.fail_where(
            lambda record: record.owner is context.session,
            errors.CancelledError(f"context {context.context_id} was closed"),
        )
        context.tensors.clear()
        self._worker.release(context.session)
        await context.session.close()

    async def close(self) -> None:
        """Close all contexts."""
        await self.contexts.stop()

    # ---- the queue

    async def Enqueue(self, request: MaybeParted[pb.EnqueueRequest]) -> pb.EnqueueResponse:
        message, contents = take_apart(request)
        of_graphs = graph_contents(request)
        context = self._context(message.context_id)
        response = pb.EnqueueResponse()
        for item, apart in of_items(message.queue, contents):
            response.queue_response.append(await self._do(context, item, apart, of_graphs))
        return response

    async def StreamingEnqueue(
        self, requests: AsyncIterator[MaybeParted[pb.EnqueueRequest]]
    ) -> AsyncIterator[pb.EnqueueResponse]:
        async for request in requests:
            message, contents = take_apart(request)
            of_graphs = graph_contents(request)
            context = self._context(message.context_id)
            response = pb.EnqueueResponse()
            try:
                for item, apart in of_items(message.queue, contents):
                    done = await self._do(context, item, apart, of_graphs)
                    response.queue_response.append(done)
            except errors.OpError:
                if response.queue_response:
                    yield response
                raise
            yield response

    async def WaitQueueDone(self, request: pb.WaitQueueDoneRequest) -> pb.WaitQueueDoneResponse:
        self._context(request.context_id)
        if request.op_id:
            raise errors.UnimplementedError("EagerService:WaitQueueDone waits for all operations")
        return pb.WaitQueueDoneResponse()

    async def _do(
        self,
        context: EagerContext,
        item: pb.EagerQueueItem,
        apart: Mapping[int, memoryview],
        of_graphs: GraphContents,
    ) -> pb.EagerQueueResponse:
        """Do what an item says; `apart` are large contents of its tensors, by position, and
        `of_graphs` those to which its functions may refer."""
        kind = item.WhichOneof("item")
        if kind == "operation":
            return await self._call(context, item.operation, apart)
        if kind == "send_tensor":
            sent = item.send_tensor

            def decode() -> list[Value]:
                return [decode_to_keep(one, apart.get(at)) for at, one in enumerate(sent.tensors)]

            context.keep(sent.op_id, await decoded(sent.tensors, decode, apart, is_kept=True))
        elif kind == "send_packed_handle":
            context.keep(item.send_packed_handle.op_id, [self._unpacked(context, item)])
        elif kind == "handle_to_decref":
            context.drop(item.handle_to_decref)
        elif kind == "register_function":
            registered = item.register_function
            if of_graphs:
                functions = (registered.function_def, *registered.library.function)
                of_graphs = await run_blocking(GRAPHS, lambda _: kept(functions, of_graphs))
            context.register_function(registered, of_graphs)
        elif kind == "remove_function":
            context.remove_function(item.remove_function.function_name)
        elif kind == "cleanup_function":
            self._worker.steps.clean_up(item.cleanup_function.step_id)
        elif kind != "sync_remote_executor_for_stream":
            raise errors.UnimplementedError(f"EagerService: queue item {kind!r} is not known here")
        return pb.EagerQueueResponse()

    def _unpacked(self, context: EagerContext, item: pb.EagerQueueItem) -> Value:
        """Return the copy of a packed handle that is here."""
        task = context.session.workers.own_task
        for given in item.send_packed_handle.handles:
            if given.WhichOneof("item") == "remote_handle" and is_on(
                given.remote_handle.op_device or given.remote_handle.device, task
            ):
                return context.find(given.remote_handle)
            if given.WhichOneof("item") == "local_handle" and is_on(
                given.local_handle.device, task
            ):
                return decode_tensor(given.local_handle.tensor)
        raise errors.InvalidArgumentError(
            f"packed handle {item.send_packed_handle.op_id} has no copy on {task}"
        )

    # ---- operations

    async def _call(
        self,
        context: EagerContext,
        operation: pb.EagerOperation,
        apart: Mapping[int, memoryview],
    ) -> pb.EagerQueueResponse:
        if operation.is_function:
            return await self._call_function(context, operation, apart)
        inputs = await self._inputs(context, operation, apart)
        if ANSWERED in operation.attrs:
            if _size_of(inputs[0]) > _MOST_ANSWERED_BYTES:
                return pb.EagerQueueResponse()
            dtype = dtypes.as_dtype(operation.attrs["T"].type)
            return pb.EagerQueueResponse(tensor=[encode_tensor(inputs[0], dtype)])
        if role_of(operation.name) in (roles.SEND, roles.RECEIVE):
            values = await self._transfer(context, operation, inputs)
        else:
            bound = context.bind(operation.name, context.device(operation.device), operation.attrs)
            bound.require_types(inputs)
            values = await bound.run_async(inputs)
        context.keep(operation.id, values)
        response = pb.EagerQueueResponse()
        response.shape.extend(map(shape_of, values))
        return response

    async def _call_function(
        self,
        context: EagerContext,
        operation: pb.EagerOperation,
        apart: Mapping[int, memoryview],
    ) -> pb.EagerQueueResponse:
        """Call a function, whose nodes may be on other tasks, too."""
        args = await self._arguments(context, operation, apart)
        own = operation.device or context.device("").name
        ref = context.function(operation.name, operation.attrs)
        ready = await context.spanning(ref, own, [place_of(a, own) for a in args])
        with _telling_function(operation.name):
            found = await ready.run(self._worker.steps, operation.id, args)
        response = pb.EagerQueueResponse(device=ready.result_devices)
        with_values = ANSWERED in operation.attrs
        for number, value in enumerate(found):
            if isinstance(value, Remote):
                response.shape.add()
            else:
                context.tensors[operation.id, number] = value
                response.shape.append(shape_of(value))
            if with_values:
                response.tensor.append(_if_small(value))
        return response

    async def RunComponentFunction(
        self, request: pb.RunComponentFunctionRequest
    ) -> MaybeParted[pb.RunComponentFunctionResponse]:
        operation = request.operation
        values = await self._run_component(request, operation.func_step_id, operation.id)
        response = pb.RunComponentFunctionResponse(shape=map(shape_of, values))
        if operation.id >= 0:
            return response
        # Nobody is to ask for the results: they are the answer.
        return await encoded(response, [("", value) for value in values])

    async def _run_for_peer(self, run: ComponentRun) -> None:
        await self._run_component(_component_request(run.request), run.step_id, run.op_id)

    async def _run_component(
        self, request: pb.RunComponentFunctionRequest, step_id: int, op_id: int
    ) -> list[Value]:
        """Run a part of a function in a step; keep its results, if the operation has an id."""
        context = self._context(request.context_id)
        operation = request.operation
        if not operation.is_component_function:
            raise errors.InternalError("RunComponentFunction is for component functions only")
        args = await self._inputs(context, operation, {})
        ref = context.function(operation.name, operation.attrs)
        function = await context.function_runtime.ready(ref, context.device(operation.device))
        record = self._worker.steps.start(step_id, context.session)
        async with self._worker.steps.running(record):
            assert record.rendezvous is not None
            with _telling_function(operation.name):
                values = await function(Step(step_id, record.rendezvous), *args)
        if op_id >= 0:
            numbers = request.output_num or range(len(values))
            for number, value in zip(numbers, values):
                context.tensors[op_id, number] = value
        return values

    async def _inputs(
        self,
        context: EagerContext,
        operation: pb.EagerOperation,
        apart: Mapping[int, memoryview],
    ) -> list[Value]:
        """Return inputs that must be here.  Raises: InvalidArgumentError where one is not."""
        found = await self._arguments(context, operation, apart)
        for one in found:
            if isinstance(one, Remote):
                raise errors.InvalidArgumentError(
                    f"input {one.op_id}:{one.output_num} lies on {one.device}; this is "
                    f"{context.session.workers.own_task}"
                )
        return found

    async def _arguments(
        self,
        context: EagerContext,
        operation: pb.EagerOperation,
        apart: Mapping[int, memoryview],
    ) -> list[Value | Remote]:
        """Return inputs, or where they are."""
        given = operation.op_inputs
        return await decoded(
            (one.tensor for one in given),
            lambda: [self._argument(context, one, apart.get(at)) for at, one in enumerate(given)],
            apart,
            is_kept=True,
        )

    def _argument(
        self,
        context: EagerContext,
        given: pb.EagerOperation.Input,
        content: memoryview | None,
    ) -> Value | Remote:
        """Return an input, or where it is."""
        if given.WhichOneof("item") == "tensor":
            return decode_to_keep(given.tensor, content)
        handle_pb = given.remote_handle
        task = context.session.workers.own_task
        if is_on(handle_pb.op_device, task) or is_on(handle_pb.device, task):
            return context.find(handle_pb)
        return Remote(
            task_name(handle_pb.device), handle_pb.device, handle_pb.op_id, handle_pb.output_num
        )

    async def _transfer(
        self, context: EagerContext, operation: pb.EagerOperation, inputs: list[Value]
    ) -> list[Value]:
        """Carry out a _Send or _Recv in the rendezvous of the context."""
        step = self._step(context)
        attrs = context.attrs(context.op_def(operation.name), operation.attrs)
        key = transfer_prefix(attrs) + "0:0"
        if role_of(operation.name) is roles.SEND:
            step.rendezvous.put(key, inputs[0])
            return []
        received = await step.rendezvous.take(key, attrs["send_device"])
        return [received.value]

    def _step(self, context: EagerContext) -> Step:
        """Return the step in which a context's tensors travel: the one of its own number."""
        step_id = context.context_id
        signed = signed64(step_id)
        record = self._worker.steps.start(signed, context.session)
        assert record.rendezvous is not None
        return Step(signed, record.rendezvous)


@functools.lru_cache(maxsize=4096)
def _component_request(data: bytes) -> pb.RunComponentFunctionRequest:
    """Return the request that bytes hold, to be read only.  Peers say the same in many steps."""
    try:
        return pb.RunComponentFunctionRequest.FromString(data)
    except DecodeError:
        raise errors.InvalidArgumentError("a peer's component run holds no request") from None


@contextlib.contextmanager
def _telling_function(name: str) -> Iterator[None]:
    """Begin what an error of a function says with the function's name, as TensorFlow does."""
    try:
        yield
    except errors.OpError as error:
        if error.message.startswith("{{function_node"):
            raise
        raise error.with_message(f"{{{{function_node {name}}}}} {error.message}") from error


def _size_of(value: Value) -> int:
    """Return how many bytes a tensor of numbers takes; all else counts as large."""
    is_numbers = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O"
    return value.nbytes if is_numbers else sys.maxsize


def _if_small(value: Value | Remote) -> pb.TensorProto:
    """Return a result that can come with the answer; an empty message for any other."""
    if isinstance(value, Remote) or _size_of(value) > _MOST_WITH_ANSWER_BYTES:
        return pb.TensorProto()
    return encode_tensor(value, value_dtype(value))
