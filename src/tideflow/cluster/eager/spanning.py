"""Functions whose nodes lie on several tasks: cut into parts, registered, run together.

Whoever holds such a call (an eager client, or a worker that was given it) places the body on the
devices of the cluster, keeps its own part, and gives every other task its part as a component
function.  A call is a step: all parts run in it, and pass tensors by its rendezvous.
Source: runtime facts on component functions.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tideflow.blocking import GRAPHS, run_blocking, spawn
from tideflow.cluster.graph_run import ComponentRun
from tideflow.cluster.services import EagerService
from tideflow.cluster.worker import StepRecord, StepTable, WorkerSession
from tideflow.compile.inline import inline_calls
from tideflow.compile.partition import partition
from tideflow.compile.place import place
from tideflow.graph import roles
from tideflow.graph.function_writer import function_of_nodes
from tideflow.graph.functions import FunctionDefinition, functions_needed, names_in
from tideflow.graph.node import FunctionRef, Node
from tideflow.graph.roles import Role
from tideflow.runtime.context import FindFunction, Step
from tideflow.runtime.graph_runner import GraphRunner
from tideflow.runtime.jit_mode import jit_mode
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.fields import Buffer
from tideflow.wire.handles import ResourceHandle
from tideflow.wire.ids import new_step_id
from tideflow.wire.parted import MaybeParted, with_graphs
from tideflow.wire.tensor_codec import Value, encode_tensor

_RUN = "/tensorflow.eager.EagerService/RunComponentFunction"


class Home(Protocol):
    """Who holds the calls: a context of a worker, or of a client."""

    @property
    def context_id(self) -> int:
        """The client's number of the context, the same on all tasks."""

    @property
    def session(self) -> WorkerSession:
        """This task's devices and the workers of the cluster."""

    @property
    def library(self) -> Mapping[str, FunctionDefinition]:
        """Functions by name."""

    @property
    def cluster_devices(self) -> Mapping[str, int]:
        """Incarnations of all devices of the cluster, this task's first, by full name."""

    @property
    def functions(self) -> FindFunction:
        """Finds functions that are called within this task's part."""

    def eager_service(self, task: str) -> EagerService:
        """Return the eager service of another task."""

    def note_given(self, task: str, names: Iterable[str]) -> None:
        """Note which functions a task was given beside its part of another one."""


@dataclass(slots=True)
class FunctionPart:
    """One task's part of a function.

    Attributes:
      args, results: positions among those of the whole function.
      name: of the component function.
      function_pb: the function, to whose constants `contents` belong.
      library: the functions that it calls.
    """

    task: str
    name: str
    args: list[int]
    results: list[int]
    function_pb: pb.FunctionDef = field(default_factory=pb.FunctionDef)
    contents: dict[bytes, Buffer] = field(default_factory=dict)
    library: list[FunctionDefinition] = field(default_factory=list)
    _request: tuple[list[Any], bytes] = ([], b"")

    def request_for(self, home: Home, args: list[Any]) -> bytes:
        """Return the call of the part with arguments that its task has, without a step and an id.

        Calls often have the same arguments: the last request is kept.
        """
        known, request = self._request
        if request and known == args:
            return request
        operation = pb.EagerOperation(
            name=self.name,
            is_component_function=True,
            is_function=True,
            device=next(d for d in home.cluster_devices if task_name(d) == self.task),
        )
        for given in args:
            input_pb = operation.op_inputs.add()
            if isinstance(given, Remote):
                handle_pb = input_pb.remote_handle
                handle_pb.op_id, handle_pb.output_num = given.op_id, given.output_num
                handle_pb.device = handle_pb.op_device = given.device
            else:  # what a client of TensorFlow sends as a value: the handle of its own variable
                input_pb.tensor.CopyFrom(encode_tensor(given))
        request = pb.RunComponentFunctionRequest(
            context_id=home.context_id, operation=operation, output_num=self.results
        ).SerializeToString()
        self._request = args, request
        return request


@dataclass(slots=True)
class Remote:
    """A tensor that stays with another task: which one, and by which name it knows it."""

    task: str
    device: str
    op_id: int
    output_num: int


def place_of(value: Value | Remote, default: str) -> str:
    """Return where an argument lies: a handle counts as being where its resource is."""
    if isinstance(value, Remote):
        return value.device
    return value.device if isinstance(value, ResourceHandle) and value.device else default


class SpanningFunction:
    """A function made ready to run on the tasks that its nodes need.

    Args:
      home: who holds it.
      ref: the function and its attrs.
      default_device: of nodes that ask for none.
      arg_devices: where each argument lies.

    Attributes:
      result_devices: where each result lies.
    """

    def __init__(
        self, home: Home, ref: FunctionRef, default_device: str, arg_devices: Sequence[str]
    ) -> None:
        self._home = home
        self._name = ref.name
        nodes = inline_calls(home.library[ref.name].instantiate(ref.attrs), home.library.get)
        for node in nodes:
            if node.op_def.role is roles.ARGUMENT:
                node.device = arg_devices[node.attrs["index"]]
        names = [default_device, *(n for n in home.cluster_devices if n != default_device)]
        place(nodes, names, allow_soft_placement=True)
        self.result_devices = _result_devices(nodes, default_device)
        parts = partition(
            nodes,
            location=lambda node: task_name(node.device),
            incarnation=home.cluster_devices.__getitem__,
            suffix="F",
        )
        own = home.session.workers.own_task
        self._own = self._make_own(parts.pop(own, []))
        # Every task that holds calls names parts of its own.
        stem = f"{ref.name}_partitioned_{secrets.randbits(63)}"
        self._parts = [
            self._describe(f"{stem}_{i}", task, nodes)
            for i, (task, nodes) in enumerate(parts.items())
        ]
        self._is_registered = False
        self._registering = asyncio.Lock()

    @property
    def is_local(self) -> bool:
        """Whether all of it runs on this task."""
        return not self._parts

    @property
    def tasks(self) -> list[str]:
        """The other tasks that have parts."""
        return [part.task for part in self._parts]

    def _make_own(self, nodes: list[Node]) -> tuple[GraphRunner | None, FunctionPart]:
        session = self._home.session
        part = FunctionPart(
            session.workers.own_task, self._name, _indices(nodes, roles.ARGUMENT), []
        )
        part.results = _indices(nodes, roles.RESULT)
        _number_from_zero(nodes)
        if not nodes:
            return None, part
        runner = GraphRunner(
            nodes,
            session.devices,
            session.state,
            session.resources,
            self._home.functions,
            jit_mode(None, session.workers.settings),
        )
        return runner, part

    def _describe(self, name: str, task: str, nodes: list[Node]) -> FunctionPart:
        part = FunctionPart(
            task, name, _indices(nodes, roles.ARGUMENT), _indices(nodes, roles.RESULT)
        )
        part.function_pb = function_of_nodes(name, nodes, part.contents)
        part.library = functions_needed(names_in(part.function_pb.node_def), self._home.library)
        return part

    # ---- running

    async def run(
        self, steps: StepTable, op_id: int, args: Sequence[Value | Remote]
    ) -> list[Value | Remote]:
        """Run all parts in a step of their own.

        The first part that fails ends the others; its error is raised.

        Args:
          op_id: the client's number of the call, under which other tasks keep their results.
          args: values of this task's arguments; for the others, where they are.
        """
        if not self._is_registered:
            await self._register()
        step_id = new_step_id()
        record = steps.start(step_id, self._home.session)
        found: list[Any] = [None] * len(self.result_devices)
        try:
            async with steps.running(record):
                await self._run_parts(record, op_id, args, found)
        finally:
            steps.clean_up(step_id)
            self._clean_up_elsewhere(step_id)
        for part in self._parts:
            for at in part.results:
                found[at] = Remote(part.task, self.result_devices[at], op_id, at)
        return found

    async def _run_parts(
        self, record: StepRecord, op_id: int, args: Sequence[Value | Remote], found: list[Any]
    ) -> None:
        """Run all parts; the failure of another task's ends the step, and so this one's."""
        # Others first: they are asked at once, before anything is computed here.
        others = [self._start(part, record.step_id, op_id, args) for part in self._parts]
        for part, other in zip(self._parts, others):
            other.add_done_callback(functools.partial(_fail_step, record, part.task))
        try:
            assert record.rendezvous is not None
            await self._run_own(Step(record.step_id, record.rendezvous), args, found)
            for other in others:
                await other
        finally:
            left = [other for other in others if not other.done()]
            for other in left:
                other.cancel()
            if left:
                await asyncio.wait(left)

    async def _run_own(self, step: Step, args: Sequence[Value | Remote], found: list[Any]) -> None:
        runner, part = self._own
        if runner is not None:
            values = await runner.run_async(step, [args[i] for i in part.args])
            for at, value in zip(part.results, values):
                found[at] = value

    def _start(
        self, part: FunctionPart, step_id: int, op_id: int, args: Sequence[Value | Remote]
    ) -> asyncio.Future[Any]:
        """Have another task run its part; cancelling what is returned ends that."""
        request = part.request_for(self._home, [args[i] for i in part.args])
        peers = self._home.session.workers.peers
        stream = None if peers is None else peers.stream(part.task)
        if stream is not None:
            return stream.ask_component(ComponentRun(request, step_id, op_id))
        call = pb.RunComponentFunctionRequest.FromString(request)
        call.operation.id, call.operation.func_step_id = op_id, step_id
        service = self._home.eager_service(part.task)
        return asyncio.ensure_future(service.RunComponentFunction(call))

    async def _register(self) -> None:
        """Give every other task its part, once."""
        if self._is_registered:
            return
        async with self._registering:
            if not self._is_registered:
                await asyncio.gather(*(self._register_part(part) for part in self._parts))
                self._is_registered = True

    def _registration(self, part: FunctionPart) -> MaybeParted[pb.EnqueueRequest]:
        """Return what gives a task its part."""
        request = pb.EnqueueRequest(context_id=self._home.context_id)
        contents = dict(part.contents)
        registered = request.queue.add().register_function
        registered.function_def.CopyFrom(part.function_pb)
        registered.is_component_function = True
        registered.library.function.extend(one.to_proto(contents) for one in part.library)
        return with_graphs(request, contents)

    async def _register_part(self, part: FunctionPart) -> None:
        request = await run_blocking(GRAPHS, lambda _: self._registration(part))
        await self._home.eager_service(part.task).Enqueue(request)
        self._home.note_given(part.task, [definition.name for definition in part.library])

    def drop(self) -> None:
        """Have all tasks forget their parts.  Call it on the loop, when nobody runs it any more."""
        if self._is_registered:
            for part in self._parts:
                remove_function(self._home, part.task, part.name)

    def _clean_up_elsewhere(self, step_id: int) -> None:
        item = pb.EagerQueueItem(cleanup_function=pb.CleanupFunctionOp(step_id=step_id))
        peers = self._home.session.workers.peers
        for part in self._parts:
            stream = None if peers is None else peers.stream(part.task)
            if stream is not None:
                stream.clean_up(step_id)
                continue
            spawn(_tell(self._home, part.task, item))


def remove_function(home: Home, task: str, name: str) -> None:
    """Have a task forget a function; call it on the loop, which goes on meanwhile."""
    item = pb.EagerQueueItem(remove_function=pb.RemoveFunctionOp(function_name=name))
    spawn(_tell(home, task, item))


async def _enqueue(home: Home, task: str, item: pb.EagerQueueItem) -> None:
    request = pb.EnqueueRequest(context_id=home.context_id, queue=[item])
    await home.eager_service(task).Enqueue(request)


async def _tell(home: Home, task: str, item: pb.EagerQueueItem) -> None:
    """Enqueue what no caller waits for: a task that is away has nothing left to clean up."""
    with contextlib.suppress(errors.OpError):
        await _enqueue(home, task, item)


def with_origin(error: errors.OpError, task: str, method: str) -> errors.OpError:
    """Return an error of another task with what TensorFlow's RPC clients add to it; whoever
    classifies errors by their text looks for this."""
    return error.with_message(
        f"{error.message}\nAdditional GRPC error information from remote target {task} while "
        f"calling {method}:\n:UNKNOWN:Error received from peer {{grpc_status:{error.error_code}}}"
    )


def _fail_step(record: StepRecord, task: str, part: asyncio.Future[Any]) -> None:
    """End a step when another task's part is the first to fail."""
    error = None if part.cancelled() else part.exception()
    if record.error is not None:
        return
    if isinstance(error, errors.OpError):
        record.fail(with_origin(error, task, _RUN))
    elif error is not None:
        record.fail(errors.InternalError(f"{type(error).__name__}: {error}"))


def _indices(nodes: Sequence[Node], role: Role) -> list[int]:
    return sorted(node.attrs["index"] for node in nodes if node.op_def.role is role)


def _number_from_zero(nodes: Sequence[Node]) -> None:
    """Let the arguments of a part be its first, second and so on."""
    for role in (roles.ARGUMENT, roles.RESULT):
        for at, node in enumerate(
            sorted((n for n in nodes if n.op_def.role is role), key=lambda n: n.attrs["index"])
        ):
            node.attrs = {**node.attrs, "index": at}


def _result_devices(nodes: Sequence[Node], default_device: str) -> list[str]:
    """Let handles stay where they were made, and all other results come to the caller."""
    found: dict[int, str] = {}
    for node in nodes:
        if node.op_def.role is roles.RESULT:
            source, port = node.edges[0]
            stays = source.output_types[port] in (dtypes.resource, dtypes.variant)
            node.device = source.device if stays else default_device
            found[node.attrs["index"]] = node.device
    return [found[index] for index in sorted(found)]
