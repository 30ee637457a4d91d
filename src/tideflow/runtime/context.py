"""What kernels see of the runtime: the context of a node, and the step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from tideflow.blocking import GRAPHS, StopFlag, run_blocking
from tideflow.graph.kernel import KernelFunction, Resources
from tideflow.graph.node import FunctionRef, Node, OwnFunctionRef
from tideflow.ops.collectives import Collectives
from tideflow.ops.state import SessionTensors
from tideflow.runtime.device import Device
from tideflow.runtime.program import Observer
from tideflow.runtime.rendezvous import Rendezvous, RendezvousLike
from tideflow.wire import errors

T = TypeVar("T")

Function: TypeAlias = KernelFunction

# Finds a function for a device: what the second string names from there, where it names anything.
FindFunction: TypeAlias = Callable[[FunctionRef, Device, str], Function]


class KernelState:
    """What stateful kernels keep between steps: one entry for each device and node name.

    It belongs to a session and is shared by all its graphs, so that a node which occurs in the
    graphs of two signatures has one state.

    Args:
      collectives: the other devices that its collective ops compute with.
      session_tensors: what the session keeps of tensors between its steps; None where it is no
        session's.
    """

    def __init__(
        self,
        collectives: Collectives | None = None,
        session_tensors: SessionTensors | None = None,
    ) -> None:
        self.collectives = collectives
        self.session_tensors = session_tensors
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Any] = {}
        self._random: set[tuple[str, str]] = set()

    def memo(self, device: str, name: str, make: Callable[[], T], is_random: bool = False) -> T:
        """Return the entry, made on first use.

        is_random: `restart_random` drops it.
        """
        key = (device, name)
        try:
            return self._entries[key]  # type: ignore[no-any-return]
        except KeyError:
            with self._lock:
                if key not in self._entries:
                    self._entries[key] = make()
                    if is_random:
                        self._random.add(key)
                return self._entries[key]  # type: ignore[no-any-return]

    def restart_random(self) -> None:
        """Have all random sequences begin again."""
        with self._lock:
            for key in self._random:
                self._entries.pop(key, None)
            self._random.clear()

    def close(self) -> None:
        """Drop everything; private queues and the like go with their sessions."""
        with self._lock:
            self._entries.clear()
        if self.session_tensors is not None:
            self.session_tensors.clear()

    def of_a_call(self) -> KernelState:
        """Return state of its own for functions that are called in the same session."""
        return KernelState(self.collectives, self.session_tensors)


class NodeContext:
    """The KernelContext of one node of a plan."""

    __slots__ = ("_functions", "_ready", "_state", "device", "node", "resources")

    def __init__(
        self,
        node: Node,
        device: str,
        resources: Resources,
        state: KernelState,
        functions: Callable[[FunctionRef, str], Function] | None,
    ) -> None:
        self.node = node
        self.device = device
        self.resources = resources
        self._state = state
        self._functions = functions
        self._ready: dict[tuple[str, str, str], Function] = {}

    def memo(self, make: Callable[[], T], is_random: bool = False) -> T:
        """Return the node's own state, made on first use."""
        return self._state.memo(self.device, self.node.name, make, is_random)

    @property
    def collectives(self) -> Collectives:
        """The other devices that collective ops compute with.

        Raises: FailedPreconditionError where there are none.
        """
        found = self._state.collectives
        if found is None:
            raise errors.FailedPreconditionError(
                f"{self.node.op} {self.node.name!r} cannot run here: there are no other devices"
            )
        return found

    @property
    def session_tensors(self) -> SessionTensors | None:
        """The tensors that the session keeps between its steps, None where there is no session."""
        return self._state.session_tensors

    def function(self, ref: FunctionRef, device: str = "") -> Function:
        """Return a function of the library, ready to be awaited with the step and its arguments.

        Args:
          device: where it runs, by as much of a name as tells it from the node's own.
        Raises: NotFoundError for a function that the library lacks; as FunctionRuntime.get for a
        device.
        """
        if self._functions is None:
            raise errors.NotFoundError(f"there is no function library; {ref.name!r} is unknown")
        return self._functions(ref, device)

    async def ready(self, ref: FunctionRef, device: str = "") -> KernelFunction:
        """Return what `function` does; one that is called first is made ready in a thread."""
        if isinstance(ref, OwnFunctionRef):  # another one each time
            return await run_blocking(GRAPHS, lambda _: self.function(ref, device))
        key = ref.name, repr(sorted(ref.attrs.items())) if ref.attrs else "", device
        found = self._ready.get(key)
        if found is None:
            found = await run_blocking(GRAPHS, lambda _: self.function(ref, device))
            self._ready[key] = found
        return found

    def detached_step(self) -> Step:
        """Return a step that belongs to no run."""
        return Step(0, Rendezvous())


class Step(StopFlag):
    """One run of a graph; who is cancelled while it runs stops it.

    Attributes:
      step_id: the same on all tasks.
      rendezvous: where the step's tensors meet.
      objects: tensor arrays, stacks and the like, by handle name; dropped with the step.
      observer: takes note of each node that runs, or None.
    """

    __slots__ = ("objects", "observer", "rendezvous", "step_id")

    def __init__(
        self, step_id: int, rendezvous: RendezvousLike, observer: Observer | None = None
    ) -> None:
        self.is_stopped = False
        self.may_wait_s = 0.0
        self.step_id = step_id
        self.rendezvous = rendezvous
        self.objects: dict[str, Any] = {}
        self.observer = observer
