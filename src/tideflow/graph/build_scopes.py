"""The scopes under which operations are made: devices, control inputs, colocation, attrs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow.graph.elements import GraphElements
from tideflow.graph.name_scopes import NameScopes
from tideflow.graph.operation import ControlFlowContext, Operation, Tensor, operation_of
from tideflow.wire.device_name import DeviceSpec


class _ControlScope:
    """Operations after which those that a scope makes run.

    What takes the output of an operation of the scope runs after them anyway, and gets no edge of
    its own; as in TensorFlow, where a fed output ends the wait, too.

    Attributes:
      made: ids of the operations that the scope made.
    """

    __slots__ = ("made", "ops")

    def __init__(self, ops: list[Operation]) -> None:
        self.ops = ops
        self.made: set[int] = set()


class BuildScopes(GraphElements, NameScopes):
    """A graph's elements, with the scopes in force for those that are made next.

    Attributes:
      control_flow_context: the branch or loop inside which operations are made; None outside.
      container_name: under which stateful operations keep their state; "" for the default one.
    """

    def __init__(self) -> None:
        GraphElements.__init__(self)
        NameScopes.__init__(self)
        self.control_flow_context: ControlFlowContext | None = None
        self.container_name = ""
        self._devices: list[str | Callable[[Operation], Any] | None] = []
        self._controls: list[_ControlScope] = []
        self._colocation: list[str] = []
        self._gradient_overrides: dict[str, str] = {}
        self._extra_attrs: dict[str, Any] = {}

    def scopes(self) -> tuple[Any, ...]:
        """Return the scopes in force, for whoever lets several threads build in turn."""
        return (
            self._scope,
            self._devices,
            self._controls,
            self._colocation,
            self._gradient_overrides,
            self._extra_attrs,
            self.control_flow_context,
        )

    def copied_scopes(self) -> tuple[Any, ...]:
        """Return the scopes in force, to go on from them without changing them."""
        return tuple(list(part) if isinstance(part, list) else part for part in self.scopes())

    def restore_scopes(self, scopes: tuple[Any, ...]) -> None:
        """Put scopes in force."""
        (
            self._scope,
            self._devices,
            self._controls,
            self._colocation,
            self._gradient_overrides,
            self._extra_attrs,
            self.control_flow_context,
        ) = scopes

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Ask for a device: a (partial) name, a DeviceSpec, a function of an Operation, or None.

        Scopes merge, inner parts before outer ones; None clears what is outside.
        """
        entry = device_name_or_function
        if entry is not None and not callable(entry):
            entry = _device_string(entry)
        self._devices.append(entry)
        try:
            yield
        finally:
            self._devices.pop()

    def _apply_devices(self, made: Operation) -> None:
        for entry in reversed(self._devices):
            if entry is None:
                return
            if callable(entry):
                wanted = entry(made)
                if wanted is None:
                    continue
                # A function sees what is inside it and decides over it, as in TensorFlow.
                made.device = _device_string(wanted)
            else:
                made.device = _merge_device(entry, made.device)

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Put the state of stateful operations made inside into a container."""
        previous, self.container_name = self.container_name, container_name
        try:
            yield container_name
        finally:
            self.container_name = previous

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Let new operations run only after others; None clears what is outside."""
        saved = self._controls
        context = self.control_flow_context
        if control_inputs is None:
            self._controls = []
            self.control_flow_context = None
        else:
            ops: list[Operation] = []
            for item in control_inputs:
                found = self.as_graph_element(operation_of(item))
                ops.append(found if isinstance(found, Operation) else found.op)
            self._controls = [*saved, _ControlScope(ops)]
        try:
            yield
        finally:
            self._controls = saved
            if control_inputs is None:
                self.control_flow_context = context

    def controls_in_force(self) -> list[Operation]:
        """Return the operations after which new ones run."""
        return self._current_controls([])

    def _current_controls(self, inputs: Sequence[Tensor]) -> list[Operation]:
        if not self._controls:
            return []
        direct = {id(t.op) for t in inputs}
        found: dict[int, Operation] = {}
        for scope in self._controls:
            if scope.made.isdisjoint(direct):
                found.update((id(op), op) for op in scope.ops if id(op) not in direct)
        return list(found.values())

    def _note_in_control_scopes(self, made: Operation) -> None:
        for scope in self._controls:
            scope.made.add(id(made))

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Place new operations where another one is; None with ignore_existing clears."""
        saved, devices = self._colocation, self._devices
        groups: list[str] = []
        # Device scopes around do not count inside, also when there is nothing to go with.
        self._devices = []
        if op is not None:
            target = self.as_graph_element(operation_of(op))
            target = target if isinstance(target, Operation) else target.op
            groups = target.colocation_names()
            self._devices = [target.device] if target.device else []
        self._colocation = groups if ignore_existing else [*saved, *groups]
        try:
            yield
        finally:
            self._colocation, self._devices = saved, devices

    def _apply_colocation(self, made: Operation) -> None:
        if self._colocation:
            own = made.attrs.get("_class", [])
            made.attrs = {**made.attrs, "_class": sorted({*own, *self._colocation})}

    @contextlib.contextmanager
    def attr_scope(self, **attrs: Any) -> Iterator[None]:
        """Give new operations further attrs (names that begin with an underscore)."""
        saved = self._extra_attrs
        self._extra_attrs = {**saved, **attrs}
        try:
            yield
        finally:
            self._extra_attrs = saved

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Use other registered gradients for op types made inside."""
        saved = self._gradient_overrides
        self._gradient_overrides = {**saved, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = saved


def with_slash(device: str) -> str:
    """Return a device's name as users may abbreviate it, `CPU:0`, as the protocol spells it."""
    return device if device.startswith("/") else f"/{device}"


def _device_string(device: Any) -> str:
    if isinstance(device, str):
        return _spelled_out(device) if device else ""
    if not hasattr(device, "to_string"):
        raise ValueError(f"Expected a device name, a DeviceSpec or None; found {device!r:.80}")
    text: str = device.to_string()
    return text


@functools.lru_cache(maxsize=1024)
def _spelled_out(device: str) -> str:
    return DeviceSpec.from_string(with_slash(device)).to_string()


def _merge_device(outer: str, inner: str) -> str:
    if not inner or not outer:
        return inner or outer
    merged = DeviceSpec.from_string(outer).make_merged_spec(DeviceSpec.from_string(inner))
    return merged.to_string()
