"""Functions of a library, made ready to run on a device.

A function's body is a graph with `_Arg` and `_Retval` nodes.  It is made ready once for each
device and set of attrs, on first use.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias, TypeVar

from tideflow.blocking import GRAPHS, KERNELS, held_place, in_place, run_blocking
from tideflow.compile.device_types import runs_on_accelerator
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.kernel import Resources
from tideflow.graph.node import FunctionRef, Node, OwnFunctionRef
from tideflow.ops.gradients import GRADIENT
from tideflow.ops.gradients.symbolic import gradient_function
from tideflow.platform import threads
from tideflow.runtime.context import Function, KernelState, Step
from tideflow.runtime.device import Device, DeviceManager
from tideflow.runtime.device_kernels import fetch_conditions
from tideflow.runtime.graph_runner import GraphRunner
from tideflow.runtime.jit_mode import JitMode
from tideflow.runtime.straight_calls import FunctionCode
from tideflow.wire import dtypes, errors
from tideflow.wire.device_name import merge, task_name

T = TypeVar("T")

# So many functions call each other on one thread, one inside the other, and so many are made ready
# there: Python has room for a thousand calls.
_MOST_LEVELS = 40
_MOST_UNFINISHED = 16


class ReadyFunction:
    """A function that is ready to run: `await function(step, *args)` gives its list of results.

    Attributes:
      is_synchronous: whether it never waits; then `run` serves, on any thread.
      is_straight: whether it is synchronous, and nothing but loops of its own may keep it long.
      blocks: whether it may take any time, so that `run` must not be called on the event loop.
      levels: how many functions call each other in it, one inside the other.
      library: the functions that its names stand for, its own among them.
    """

    __slots__ = (
        "_anew", "_compiles", "_on_device", "_runner", "blocks", "is_straight", "is_synchronous",
        "levels", "library",
    )  # fmt: skip

    def __init__(
        self,
        runner: GraphRunner,
        on_device: bool,
        library: Mapping[str, FunctionDefinition],
        anew: Callable[[FunctionScope], Function] | None = None,
    ) -> None:
        self._runner = runner
        self._anew = anew
        self.is_synchronous = runner.is_synchronous
        self.is_straight = runner.is_synchronous and not runner.blocks
        self.blocks = runner.blocks or runner.has_loops
        self.levels = runner.levels
        self.library = library
        self._on_device = on_device
        self._compiles = on_device

    def anew(self, scope: FunctionScope) -> Function:
        """Return the function with the scope's kernel state in place of the session's.

        A function that keeps no state is the same in every scope.
        """
        return self if self._anew is None else self._anew(scope)

    @property
    def code(self) -> FunctionCode | None:
        """The function's instructions, where it is straight."""
        return self._runner.code()

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        """Run a function whose `is_synchronous` holds, on the calling thread."""
        return self._runner.run(step, args)

    async def __call__(self, step: Step, *args: Any) -> list[Any]:
        if self._on_device:
            return await fetch_conditions(await self._run_on_device(step, args))
        found = self._runner.run_at_once(step, args)
        return await self._runner.run_async(step, args) if found is None else found

    async def _run_on_device(self, step: Step, args: Sequence[Any]) -> list[Any]:
        if not self.is_synchronous:
            return await self._runner.run_async(step, args)
        if self._compiles:
            found = await run_blocking(KERNELS, lambda _: self._runner.run(step, args), step)
            self._compiles = False
            return found
        return self._runner.run(step, args)


class _DeepFunction(ReadyFunction):
    """One that calls others so deeply that Python's stack may not suffice for all of them."""

    __slots__ = ()

    def run(self, step: Step, args: Sequence[Any]) -> list[Any]:
        return threads.call_in_thread(
            in_place, held_place(), super().run, step, args, stop=step.stop
        )


def _ready(
    runner: GraphRunner,
    on_device: bool,
    library: Mapping[str, FunctionDefinition],
    anew: Callable[[FunctionScope], Function] | None = None,
) -> ReadyFunction:
    is_deep = runner.levels and not runner.levels % _MOST_LEVELS
    return (_DeepFunction if is_deep else ReadyFunction)(runner, on_device, library, anew)


class _Lock:
    """A lock that its holder may take again, and lend to a thread for which it waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._holder != me:
            self._lock.acquire()
            self._holder = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = 0
            self._lock.release()

    def call_in_thread(self, work: Callable[[], T]) -> T:
        """Return what work gives, called in a thread of its own, which holds the lock meanwhile."""
        lender = self._holder

        def call() -> T:
            self._holder = threading.get_ident()
            try:
                return work()
            finally:
                self._holder = lender

        return threads.call_in_thread(call)


# What has kernel state of its own, such as an iterator: its runtimes by those of the sessions.
FunctionScope: TypeAlias = "dict[FunctionRuntime, FunctionRuntime]"

Elsewhere: TypeAlias = Callable[[FunctionRef, Sequence[Node], Device], Function | None]


class FunctionRuntime:
    """The functions of one session on one task.

    Args:
      library: functions by name; it may grow.
      devices: the task's devices.
      state: the session's kernel state.
      resources: gives a device's named state as the session sees it.
      jit: when regions of pure nodes are compiled; None for what the environment asks for.
      elsewhere: given a function, its nodes and a device, returns how to call one that other tasks
        have to run a part of; None for one that this task runs alone.
    """

    def __init__(
        self,
        library: MutableMapping[str, FunctionDefinition],
        devices: DeviceManager,
        state: KernelState,
        resources: Callable[[Device], Resources],
        jit: JitMode | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._library = library
        self._devices = devices
        self._state = state
        self._resources = resources
        self._jit = jit
        self._elsewhere = elsewhere
        # With the definition that it is of, which it does not hold.
        self._ready: dict[Any, tuple[weakref.ref[FunctionDefinition], Function]] = {}
        self._lock = _Lock()
        # What is being made ready, by the thread that holds the lock.
        self._unfinished: set[Any] = set()

    def get(self, ref: FunctionRef, device: Device, target: str = "") -> Function:
        """Return a function, to be awaited with the step and its arguments.

        Args:
          target: another device of the task, by what its name has other than that of `device`.
        Raises: NotFoundError for a function that the library lacks; InvalidArgumentError for a
        target that is no device's name, InternalError where the task has no such device;
        UnimplementedError for the devices of other tasks, and for accelerators;
        FailedPreconditionError while the function itself is being made ready.
        """
        if target:
            device = self._target(target, device)
        if isinstance(ref, OwnFunctionRef):
            return self._with(ref.library).get(FunctionRef(ref.name, ref.attrs), device)
        key = _key(ref, device)
        with self._lock:
            found = self._ready.get(key)
            if found is None:
                if key in self._unfinished:
                    raise errors.FailedPreconditionError(f"function {ref.name!r} calls itself")
                self._forget_gone()
                self._unfinished.add(key)
                try:
                    definition, function = self._instantiate_nested(ref, device)
                finally:
                    self._unfinished.discard(key)
                found = self._ready[key] = weakref.ref(definition), function
            return found[1]

    async def ready(self, ref: FunctionRef, device: Device) -> Function:
        """Return what `get` does; a function that is called first is made ready in a thread."""
        found = self._ready.get(_key(ref, device))
        if found is not None:
            return found[1]
        return await run_blocking(GRAPHS, lambda _: self.get(ref, device))

    def _forget_gone(self) -> None:
        self._ready = {key: one for key, one in self._ready.items() if one[0]() is not None}

    def _target(self, target: str, device: Device) -> Device:
        name = merge(device.name, target, override=True).to_string()
        if task_name(name) != task_name(device.name):
            raise errors.UnimplementedError(
                f"a function called on {device.name} cannot run on {name}, which belongs to "
                "another task; put the op that calls it there"
            )
        if name not in self._devices:
            known = ", ".join(one.name for one in self._devices.devices)
            raise errors.InternalError(
                f"a function cannot run on {name}, which is not there; the devices are {known}"
            )
        found = self._devices.get(name)
        if found is not device and (found.accelerator or device.accelerator):
            raise errors.UnimplementedError(
                f"a function called on {device.name} cannot run on {name}: values stay on an "
                "accelerator; put the op that calls it there"
            )
        return found

    def _instantiate_nested(
        self, ref: FunctionRef, device: Device
    ) -> tuple[FunctionDefinition, Function]:
        """Do what `_instantiate` does, for one that others need that are being made ready."""
        if len(self._unfinished) % _MOST_UNFINISHED:
            return self._instantiate(ref, device)
        return self._lock.call_in_thread(lambda: self._instantiate(ref, device))

    def _instantiate(self, ref: FunctionRef, device: Device) -> tuple[FunctionDefinition, Function]:
        """Return a function with the definition that it lives as long as."""
        definition = ref.definition or self._library.get(ref.name)
        if ref.name == GRADIENT:
            definition = gradient_function(self._library, ref.attrs["f"])
            ref = FunctionRef(GRADIENT)
        if definition is None:
            known = ", ".join(sorted(self._library)) or "none"
            raise errors.NotFoundError(
                f"function {ref.name!r} is not in the graph's library; it has {known}"
            )
        nodes = definition.instantiate(ref.attrs)
        found = None if self._elsewhere is None else self._elsewhere(ref, nodes, device)
        if found is not None:
            return definition, found
        for node in nodes:
            if node.device not in self._devices:
                away = device.accelerator is not None and not runs_on_accelerator(node)
                node.device = self._devices.client_device.name if away else device.name
        runner = GraphRunner(
            nodes, self._devices, self._state, self._resources, self.get, self._jit
        )

        on_device = device.accelerator is not None
        if not any(_keeps_state(node) for node in nodes):
            return definition, _ready(runner, on_device, self._library)
        # It must not hold the definition: what has the function does.
        name = FunctionRef(ref.name, ref.attrs)
        anew = lambda scope: self._in(scope).get(name, device)  # noqa: E731
        return definition, _ready(runner, on_device, self._library, anew)

    def with_state(self, state: KernelState) -> FunctionRuntime:
        """Return a runtime of the same functions that keeps another kernel state."""
        return self._beside(self._library, state)

    def _in(self, scope: FunctionScope) -> FunctionRuntime:
        """Return the runtime of the same functions in a scope."""
        found = scope.get(self)
        if found is None:
            found = self._with(self._library)
            scope[self] = scope[found] = found
        return found

    def _with(self, library: MutableMapping[str, FunctionDefinition]) -> FunctionRuntime:
        """Return a runtime of other functions, or of the same, with kernel state of its own."""
        return self._beside(library, self._state.of_a_call())

    def _beside(
        self, library: MutableMapping[str, FunctionDefinition], state: KernelState
    ) -> FunctionRuntime:
        return FunctionRuntime(
            library, self._devices, state, self._resources, self._jit, self._elsewhere
        )


def _key(ref: FunctionRef, device: Device) -> tuple[str, str, str]:
    return ref.name, repr(sorted(ref.attrs.items())) if ref.attrs else "", device.name


def _keeps_state(node: Node) -> bool:
    """Whether what a node gives may depend on how often it ran, such as a random number.

    What has named state is found through a handle.
    """
    if not node.op_def.keeps_state:
        return False
    return not any(source.output_types[port] is dtypes.resource for source, port in node.edges)
