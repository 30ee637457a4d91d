"""What a worker keeps for one eager client: tensors by number, functions, and the cluster it sees.

The client numbers its operations; a tensor is known by that number and which output it is.  What
is enqueued runs in order.  Named state is the worker's own; what is anonymous goes with its last
handle.
Source: runtime facts on EagerService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from tideflow.blocking import GRAPHS, run_blocking, spawn
from tideflow.cluster.eager.spanning import SpanningFunction, place_of, remove_function
from tideflow.cluster.services import EagerService
from tideflow.cluster.worker import StepTable, WorkerSession
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.graph.attr_value import decode_attr
from tideflow.graph.functions import FunctionDefinition, library_lookup
from tideflow.graph.node import FunctionRef, Node
from tideflow.graph.op_def import OpDef, get_op_def, is_registered
from tideflow.platform import clock
from tideflow.runtime.bound_op import BoundOp, keeps_nothing
from tideflow.runtime.context import Function, Step
from tideflow.runtime.device import Device
from tideflow.runtime.functions import FunctionRuntime
from tideflow.runtime.jit_mode import jit_mode
from tideflow.transport import stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.graph_contents import GraphContents
from tideflow.wire.tensor_codec import Value, value_dtype

# What clients are told of an error besides its text: ErrorSourceProto {error_source: 5}.
_ERROR_SOURCE = "type.googleapis.com/tensorflow.core.platform.ErrorSourceProto"
_EAGER_REMOTE_MANAGER = b"\x08\x05"

# An attr of `_Send`, and of functions, with which tideflow's clients ask for tensors in the answer,
# as far as they are small; `_Send` sends nothing then.
ANSWERED = "_tideflow_answered"
# The number of a call whose results no client asks for.
_NO_OPERATION = -1


class EagerContext:
    """One client's context on this worker.  Use it on the loop.

    Args:
      context_id: the client's number for it, the same on all tasks.
      view_id: which version of the cluster it sees.
      session: devices, named state and the workers of the cluster.
      keep_alive_s: how long it stays unused; None for ever.
      cluster_devices: incarnations of all devices of the cluster, this task's first, by name.
      steps: of this task.
      library: functions by name, where the context is the client's own.

    Attributes:
      tensors: what the client's operations gave, by (operation, output).
    """

    def __init__(
        self,
        context_id: int,
        view_id: int,
        session: WorkerSession,
        keep_alive_s: float | None,
        cluster_devices: dict[str, int],
        steps: StepTable,
        library: MutableMapping[str, FunctionDefinition] | None = None,
    ) -> None:
        self.context_id = context_id
        self.view_id = view_id
        self.session = session
        self.keep_alive_s = keep_alive_s
        self.tensors: dict[tuple[int, int], Value] = {}
        self.library = {} if library is None else library
        self.function_runtime = FunctionRuntime(
            self.library,
            session.devices,
            session.state,
            session.resources,
            jit_mode(None, session.workers.settings),
            self._elsewhere,
        )
        self.functions = self.function_runtime.get
        self.cluster_devices = cluster_devices
        self.steps = steps
        self._bound: dict[Any, BoundOp] = {}
        self._spanning: dict[Any, SpanningFunction] = {}
        # By the name of a function: the tasks that have it for their parts of others.
        self._given: dict[str, set[str]] = {}
        self._cutting = asyncio.Lock()
        self._peers: dict[str, EagerService] = {}
        self._used_s = clock.monotonic_s()

    # ---- its life

    def touch(self) -> None:
        """Note that the client is there."""
        self._used_s = clock.monotonic_s()

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has been silent for longer than it said it would be."""
        if self.keep_alive_s is None:
            return False
        return clock.monotonic_s() - self._used_s > self.keep_alive_s

    def see(self, view_id: int, cluster_devices: dict[str, int]) -> None:
        """See another version of the cluster; functions are cut and registered anew."""
        self.view_id = view_id
        self.cluster_devices = cluster_devices
        self._spanning.clear()
        self._given.clear()

    async def change_cluster(self, workers: WorkerCache) -> None:
        """Reach the tasks of another version of the cluster from now on."""
        before, self.session.workers = self.session.workers, workers
        self._peers.clear()
        await before.close()

    # ---- tensors

    def find(self, handle_pb: pb.RemoteTensorHandle) -> Value:
        """Return a tensor that is here.  Raises: InvalidArgumentError for one that is not."""
        try:
            return self.tensors[handle_pb.op_id, handle_pb.output_num]
        except KeyError:
            error = errors.InvalidArgumentError(
                "Unable to find the relevant tensor remote_handle: Op ID: "
                f"{handle_pb.op_id}, Output num: {handle_pb.output_num}"
            )
            error.payloads[_ERROR_SOURCE] = _EAGER_REMOTE_MANAGER
            raise error from None

    def keep(self, op_id: int, values: Sequence[Value]) -> None:
        """Keep the outputs of an operation."""
        for number, value in enumerate(values):
            self.tensors[op_id, number] = value

    def drop(self, handle_pb: pb.RemoteTensorHandle) -> None:
        """Let a tensor go.  Raises: InvalidArgumentError for one that is not here."""
        self.find(handle_pb)
        del self.tensors[handle_pb.op_id, handle_pb.output_num]

    # ---- operations

    def device(self, name: str) -> Device:
        """Return a device of this task; the first one for no name."""
        devices = self.session.devices
        return devices.get(name) if name else devices.client_device

    def op_def(self, name: str) -> OpDef:
        """Return the definition of an op or function.  Raises: NotFoundError."""
        found = self.library.get(name)
        if found is not None:
            return found.op_def
        if is_registered(name):
            return get_op_def(name)
        raise errors.NotFoundError(
            f"'{name}' is neither a type of a primitive operation nor a name of a function "
            f"registered in binary running on {self.session.workers.own_task}"
        )

    def bind(self, name: str, device: Device, attrs_pb: Mapping[str, pb.AttrValue]) -> BoundOp:
        """Return an op ready to be called with attrs; those left out have their defaults."""
        op_def = self.op_def(name)
        key = (name, device.name, *sorted((k, v.SerializeToString()) for k, v in attrs_pb.items()))
        found = self._bound.get(key)
        if found is not None:
            return found
        attrs = self.attrs(op_def, attrs_pb)
        made = BoundOp(
            f"{name}_{len(self._bound)}",
            op_def,
            attrs,
            device,
            self.session.state,
            self.functions,
        )
        if keeps_nothing(op_def):
            self._bound[key] = made
        return made

    def attrs(self, op_def: OpDef, attrs_pb: Mapping[str, pb.AttrValue]) -> dict[str, Any]:
        """Return all attrs of an op as Python values.

        Raises: InvalidArgumentError for one that is missing and has no default.
        """
        attrs: dict[str, Any] = {}
        for attr in op_def.attrs.values():
            if attr.name in attrs_pb:
                attrs[attr.name] = decode_attr(attrs_pb[attr.name])
            elif attr.required:
                raise errors.InvalidArgumentError(
                    f"operation {op_def.name} lacks attr {attr.name!r} ({attr.kind})"
                )
            else:
                attrs[attr.name] = attr.default
        return attrs

    # ---- functions

    def register_function(
        self, register_pb: pb.RegisterFunctionOp, contents: GraphContents
    ) -> None:
        """Enter a function, and those that a component brings along; their constants may refer to
        contents, which are kept."""
        for function_pb in register_pb.library.function:
            self._enter(function_pb, contents)
        self._enter(register_pb.function_def, contents)

    def _enter(self, function_pb: pb.FunctionDef, contents: GraphContents) -> None:
        made = FunctionDefinition(function_pb, library_lookup(self.library), contents)
        self.library.setdefault(made.name, made)

    def remove_function(self, name: str) -> None:
        """Drop a function, and what other tasks have of it.  One that is not there is dropped
        already."""
        self.library.pop(name, None)
        for key in [key for key in self._spanning if key[0] == name]:
            self._spanning.pop(key).drop()
        for task in self._given.pop(name, ()):
            remove_function(self, task, name)

    def note_given(self, task: str, names: Iterable[str]) -> None:
        """Note which functions a task was given beside its part of another one."""
        for name in names:
            self._given.setdefault(name, set()).add(task)

    @property
    def given(self) -> list[str]:
        """Names of the functions that other tasks were given for their parts."""
        return list(self._given)

    def _elsewhere(
        self, ref: FunctionRef, nodes: Sequence[Node], device: Device
    ) -> Function | None:
        """Return how to call a function that calls Python functions of another task, its client;
        None for any other one."""
        own = self.session.workers.own_task
        if all(is_on(node.device, own) for node in nodes if node.op_def.blocks == "functions"):
            return None
        return _CallOverTasks(self, ref, device.name)

    async def spanning(
        self, ref: FunctionRef, default_device: str, arg_devices: Sequence[str]
    ) -> SpanningFunction:
        """Return a function ready to be called with arguments that lie on the devices given."""
        key = (ref.name, repr(sorted(ref.attrs.items())), default_device, *arg_devices)
        found = self._spanning.get(key)
        if found is None:
            async with self._cutting:
                found = self._spanning.get(key) or await self._cut(ref, key, default_device)
        return found

    async def _cut(
        self, ref: FunctionRef, key: tuple[str, ...], default_device: str
    ) -> SpanningFunction:
        """Return a function, cut in a thread for the cluster as it is then."""
        _, _, _, *arg_devices = key
        while True:
            view_id = self.view_id
            made = await run_blocking(
                GRAPHS, lambda _: SpanningFunction(self, ref, default_device, arg_devices)
            )
            if self.view_id == view_id:
                break
        if ref.name in self.library:
            self._spanning[key] = made
        return made

    def eager_service(self, task: str) -> EagerService:
        """Return the eager service of another task."""
        found = self._peers.get(task)
        if found is None:
            found = stub(EagerService, self.session.workers.channel(task))
            self._peers[task] = found
        return found

    def function(self, name: str, attrs_pb: Mapping[str, pb.AttrValue]) -> FunctionRef:
        """Return a reference to a function with the attrs that instantiate it."""
        op_def = self.op_def(name)
        return FunctionRef(
            name,
            {n: decode_attr(attrs_pb[n]) for n in op_def.attrs if n in attrs_pb},
        )


class _CallOverTasks:
    """A function that kernels of this task call, and that other tasks run a part of."""

    is_synchronous = False
    is_straight = False
    levels = 0
    code = None
    blocks = False

    def __init__(self, home: EagerContext, ref: FunctionRef, device: str) -> None:
        self.library: Mapping[str, Any] = home.library
        self._home = home
        self._ref = ref
        self._device = device

    def anew(self, scope: Any) -> Function:
        """Return the same: its kernel state is with the tasks that run it."""
        return self

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """It waits for other tasks, so it is to be awaited."""
        raise errors.InternalError(f"{self._ref.name} cannot run on one thread")

    async def __call__(self, step: Step, *args: Any) -> list[Any]:
        """Return its results; the error of the part that failed first is raised."""
        places = [place_of(value, self._device) for value in args]
        ready = await self._home.spanning(self._ref, self._device, places)
        # As a task of its own: the end of a step cancels whoever runs it.
        found: list[Any] = await spawn(ready.run(self._home.steps, _NO_OPERATION, args))
        return found


def is_on(device: str, task: str) -> bool:
    """Whether a device belongs to a task."""
    return not device or device == task or device.startswith(task + "/")


def shape_of(value: Value) -> pb.TensorShapeProto:
    """Return the shape of a value as a message."""
    shape_pb = pb.TensorShapeProto()
    for size in getattr(value, "shape", ()):
        shape_pb.dim.add(size=size)
    return shape_pb


def dtype_number(value: Value) -> int:
    """Return the protocol's number of a value's element type."""
    return value_dtype(value).number
