"""The scopes under which operations are made: devices, control inputs, colocation, attrs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow.graph.elements import GraphElements
from tideflow.graph.name_scopes import TakenNames, require_name, require_scope_name
from tideflow.graph.op_def import OpDef
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


class ScopesInForce:
    """What the scopes around say of operations that are made next.

    A graph has one such object at a time; threads that build in turn have one each.

    Attributes:
      name: the full name of the name scope, without its slash; "" for the root.
      control_flow: the branch or loop inside which operations are made; None outside.
      container: under which stateful operations keep their state; "" for the default one.
      devices: what was asked for, from the outside in: names, functions, and None, which clears.
      gradient_overrides: by op type, under which name its gradient is looked up.
      further_attrs: attrs that all operations are given.
    """

    __slots__ = (
        "colocation",
        "container",
        "control_flow",
        "controls",
        "devices",
        "further_attrs",
        "gradient_overrides",
        "name",
    )

    def __init__(self) -> None:
        self.name = ""
        self.control_flow: ControlFlowContext | None = None
        self.container = ""
        self.devices: list[str | Callable[[Operation], Any] | None] = []
        self.controls: list[_ControlScope] = []
        self.colocation: list[str] = []
        self.gradient_overrides: dict[str, str] = {}
        self.further_attrs: dict[str, Any] = {}

    def copy(self) -> ScopesInForce:
        """Return the same scopes, to go on from them without changing these."""
        made = ScopesInForce()
        for field in self.__slots__:
            found = getattr(self, field)
            setattr(made, field, list(found) if isinstance(found, list) else found)
        return made

    def device_for(self, made: Operation) -> None:
        """Put an operation where the scopes ask for, as far as it does not say itself."""
        for entry in reversed(self.devices):
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

    def run_before(self, inputs: Sequence[Tensor] = ()) -> list[Operation]:
        """Return the operations after which one with these inputs runs."""
        if not self.controls:
            return []
        direct = {id(t.op) for t in inputs}
        found: dict[int, Operation] = {}
        for scope in self.controls:
            if scope.made.isdisjoint(direct):
                found.update((id(op), op) for op in scope.ops if id(op) not in direct)
        return list(found.values())

    def note(self, made: Operation) -> None:
        """Take note that an operation was made."""
        for scope in self.controls:
            scope.made.add(id(made))

    def colocate(self, made: Operation) -> None:
        """Place an operation with those that the scopes name."""
        if self.colocation:
            own = made.attrs.get("_class", [])
            made.attrs = {**made.attrs, "_class": sorted({*own, *self.colocation})}

    def attrs_of(self, op_def: OpDef, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return an operation's attrs with those that the scopes add."""
        if self.further_attrs:
            attrs = {**attrs, **self.further_attrs}
        if op_def.name in self.gradient_overrides:
            attrs = {**attrs, "_gradient_op_type": self.gradient_overrides[op_def.name]}
        if self.container and op_def.is_stateful and attrs.get("container") == "":
            attrs = {**attrs, "container": self.container}
        return attrs

    @contextlib.contextmanager
    def giving_attrs(self, **attrs: Any) -> Iterator[None]:
        """Give operations that are made inside further attrs."""
        saved = self.further_attrs
        self.further_attrs = {**saved, **attrs}
        try:
            yield
        finally:
            self.further_attrs = saved


class BuildScopes(GraphElements):
    """A graph's elements, with the scopes in force for those that are made next.

    Attributes:
      names: those that are taken.
      in_force: the scopes around.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names = TakenNames()
        self.in_force = ScopesInForce()

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name under the scope in force that no operation has yet."""
        scope = self.in_force.name
        require_name(name, is_inside=bool(scope))
        return self.names.unique(f"{scope}/{name}" if scope else name, mark_as_used)

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put new names below a scope; yields the scope's prefix with its slash.

        A name that ends in "/" is the full scope to (re-)enter; None or "" is the root.
        """
        scopes = self.in_force
        if name:
            require_scope_name(name, is_inside=bool(scopes.name))
        previous = scopes.name
        if not name:
            scopes.name = ""
        elif name.endswith("/"):
            scopes.name = name[:-1]
        else:
            scopes.name = self.unique_name(name)
        try:
            yield scopes.name + "/" if scopes.name else ""
        finally:
            self.in_force.name = previous

    def get_name_scope(self) -> str:
        """Return the scope in force, without its slash."""
        return self.in_force.name

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Ask for a device: a (partial) name, a DeviceSpec, a function of an Operation, or None.

        Scopes merge, inner parts before outer ones; None clears what is outside.
        """
        entry = device_name_or_function
        if entry is not None and not callable(entry):
            entry = _device_string(entry)
        self.in_force.devices.append(entry)
        try:
            yield
        finally:
            self.in_force.devices.pop()

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Put the state of stateful operations made inside into a container."""
        previous, self.in_force.container = self.in_force.container, container_name
        try:
            yield container_name
        finally:
            self.in_force.container = previous

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Let new operations run only after others; None clears what is outside."""
        saved, context = self.in_force.controls, self.in_force.control_flow
        if control_inputs is None:
            self.in_force.controls = []
            self.in_force.control_flow = None
        else:
            ops: list[Operation] = []
            for item in control_inputs:
                found = self.as_graph_element(operation_of(item))
                ops.append(found if isinstance(found, Operation) else found.op)
            self.in_force.controls = [*saved, _ControlScope(ops)]
        try:
            yield
        finally:
            self.in_force.controls = saved
            if control_inputs is None:
                self.in_force.control_flow = context

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Place new operations where another one is; None with ignore_existing clears."""
        saved, devices = self.in_force.colocation, self.in_force.devices
        groups: list[str] = []
        # Device scopes around do not count inside, also when there is nothing to go with.
        self.in_force.devices = []
        if op is not None:
            target = self.as_graph_element(operation_of(op))
            target = target if isinstance(target, Operation) else target.op
            groups = target.colocation_names()
            self.in_force.devices = [target.device] if target.device else []
        self.in_force.colocation = groups if ignore_existing else [*saved, *groups]
        try:
            yield
        finally:
            self.in_force.colocation, self.in_force.devices = saved, devices

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Use other registered gradients for op types made inside."""
        saved = self.in_force.gradient_overrides
        self.in_force.gradient_overrides = {**saved, **op_type_map}
        try:
            yield
        finally:
            self.in_force.gradient_overrides = saved


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
