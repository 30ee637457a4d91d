"""The front end's graph: operations under names, and the scopes under which new ones are made.

A Graph only grows.  Building in one graph from several threads at once needs the caller's lock.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

from tideflow.graph import shapes
from tideflow.graph.attr_value import encode_attr
from tideflow.graph.collection import collection_paused
from tideflow.graph.defaults import default_sessions as default_sessions
from tideflow.graph.defaults import eager_graph, local
from tideflow.graph.defaults import get_default_session as get_default_session
from tideflow.graph.graph_def import nodes_to_graph_def
from tideflow.graph.op_def import OpDef, get_op_def
from tideflow.graph.operation import ControlFlowContext as ControlFlowContext
from tideflow.graph.operation import Operation as Operation
from tideflow.graph.operation import Tensor as Tensor
from tideflow.graph.operation import TensorReference as TensorReference
from tideflow.graph.operation import operation_of
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.static_value import static_value
from tideflow.wire.device_name import DeviceSpec

_VALID_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class Graph:
    """Operations and tensors, and the scopes under which new ones are made."""

    # Whether operations are called at once, and nothing is built.
    is_eager: ClassVar[bool] = False
    # Whether == compares what tensors hold, as in the TF2 shape, rather than which they are.
    compares_elementwise = False
    # The class of the graphs of functions traced inside; where it is set, branches and loops are
    # functions (If, While) rather than Switch and Merge.
    body_class: ClassVar[type[Any] | None] = None

    def __init__(self) -> None:
        self.operations_by_name: dict[str, Operation] = {}
        self.version = 0
        self.seed: int | None = None
        self.functions: MutableMapping[str, Any] = {}
        self.control_flow_context: ControlFlowContext | None = None
        self.lock = threading.RLock()
        self._finalized = False
        self._used_names: dict[str, int] = {}
        self._scope = ""
        self._devices: list[str | Callable[[Operation], Any] | None] = []
        self._controls: list[list[Operation]] = []
        self._colocation: list[str] = []
        self._ignores_device: list[bool] = []
        self._collections: dict[str, list[Any]] = {}
        self._gradient_overrides: dict[str, str] = {}
        self._extra_attrs: dict[str, Any] = {}
        self.building_function = False
        self.container = ""

    # ---- what is in it

    def get_operations(self) -> list[Operation]:
        """Return all operations, in the order in which they were made."""
        return list(self.operations_by_name.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """Return an operation.  Raises: KeyError when there is none of that name."""
        try:
            return self.operations_by_name[name]
        except KeyError:
            raise KeyError(f"the graph has no operation named {name!r}") from None

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor `operation:index`.

        Raises: ValueError for a name without an index; KeyError when there is no such tensor.
        """
        op_name, colon, port = name.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"{name!r} is no tensor's name; write {name + ':0'!r} for an output")
        found = self.get_operation_by_name(op_name)
        if int(port) >= len(found.outputs):
            raise KeyError(
                f"operation {op_name!r} has {len(found.outputs)} outputs; {name!r} is not one"
            )
        return found.outputs[int(port)]

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """Return the tensor or operation that obj is, names or stands for.

        Raises: TypeError for an object of another kind; ValueError for one of another graph or a
        malformed name; KeyError for a name that is not there.
        """
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, str):
            if ":" in obj and allow_tensor:
                return self.get_tensor_by_name(obj)
            if not allow_operation:
                raise ValueError(f"{obj!r} names no tensor; write {obj + ':0'!r} for an output")
            return self.get_operation_by_name(obj)
        if (isinstance(obj, Tensor) and allow_tensor) or (
            isinstance(obj, Operation) and allow_operation
        ):
            if obj.graph is not self:
                raise ValueError(f"{obj!r} belongs to another graph")
            return obj
        wanted = " or ".join(
            w for w, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok
        )
        raise TypeError(f"{obj!r} ({type(obj).__name__}) is no {wanted}, nor the name of one")

    def finalize(self) -> None:
        """Make the graph read-only."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """Whether the graph is read-only."""
        return self._finalized

    def unfinalize(self) -> None:
        """Let the graph grow again."""
        self._finalized = False

    _unsafe_unfinalize = unfinalize

    # ---- making operations

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str | None = None,
        *,
        apply_scopes: bool = True,
    ) -> Operation:
        """Make an operation under the scopes in force.

        Args:
          op_type: the op's name or definition.
          inputs: flat list of tensors; captured first when they come from an outer graph.
          attrs: all attrs, defaults included, as Python values.
          name: wish for the name, relative to the name scope; made unique.  A wish that ends in
            "/" is taken as it is (without the slash).
        Raises: ValueError for a bad name or shapes that cannot fit; RuntimeError when finalized.
        """
        if self._finalized:
            raise RuntimeError("the graph is finalized and cannot be changed")
        op_def = get_op_def(op_type) if isinstance(op_type, str) else op_type
        name = name or op_def.name
        full = name[:-1] if name.endswith("/") else self.unique_name(name)
        tensors = [t if t.graph is self else self.capture(t) for t in inputs]
        controls = self._current_controls(tensors) if apply_scopes else []
        context = self.control_flow_context
        if context is not None:
            tensors, controls = context.adopt(full, op_def, tensors, controls)
        if self._extra_attrs:
            attrs = {**attrs, **self._extra_attrs}
        if op_def.name in self._gradient_overrides:
            attrs = {**attrs, "_gradient_op_type": self._gradient_overrides[op_def.name]}
        if self.container and op_def.is_stateful and attrs.get("container") == "":
            attrs = {**attrs, "container": self.container}
        made = Operation(self, full, op_def, [t.edge for t in tensors], list(controls), attrs, "")
        if apply_scopes:
            self._apply_colocation(made)
        self._add(made, tensors)
        if apply_scopes:
            self._apply_devices(made)
        if context is not None:
            made.control_flow_context = context
            context.added(made)
        if local.tapes:
            noted = [self.origin(tensor) for tensor in inputs]
            for tape in local.tapes:
                tape.record(made, noted)
        return made

    def origin(self, tensor: Tensor) -> Tensor:
        """Return what a tensor stands for, by which tapes know it: itself, or what was captured."""
        return tensor

    def call_op(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], name: str | None
    ) -> Any:
        """Call an op at once and return its results as apply_op does; an eager graph can."""
        raise RuntimeError("operations of a graph run in a session; none is called while it grows")

    def next_op_seed(self) -> int:
        """Return the seed of the next random operation without its own; an eager graph can."""
        raise RuntimeError("random operations of a graph are numbered")

    def _add(self, made: Operation, tensors: Sequence[Tensor]) -> None:
        """Enter an operation whose edges are set: shapes, consumers, the table of names."""
        found = infer_shapes(made, [t.dims for t in tensors])
        made.outputs = [Tensor(made, i, dims) for i, dims in enumerate(found)]
        for tensor in tensors:
            tensor.consumers_list.append(made)
        self.operations_by_name[made.name] = made
        self.version += 1

    def capture(self, tensor: Tensor) -> Tensor:
        """Bring in a tensor of another graph.  A plain graph refuses; a function's graph takes it.

        Raises: ValueError.
        """
        raise ValueError(
            f"tensor {tensor.name!r} belongs to another graph; build all inputs of an operation "
            "under the same `with graph.as_default():`"
        )

    # ---- names

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name under the scope in force that no operation has yet."""
        if not (_VALID_SCOPE if self._scope else _VALID_NAME).match(name):
            raise ValueError(
                f"{name!r} is no valid operation name; use letters, digits and . _ / - and begin "
                "with a letter, digit or ."
            )
        return self._unique(f"{self._scope}/{name}" if self._scope else name, mark_as_used)

    def _unique(self, full: str, mark_as_used: bool = True) -> str:
        key = full.lower()
        count = self._used_names.get(key, 0)
        if mark_as_used:
            self._used_names[key] = count + 1
        if not count:
            return full
        while True:
            candidate = f"{full}_{count}"
            if candidate.lower() not in self._used_names:
                break
            count += 1
        if mark_as_used:
            self._used_names[key] = count + 1
            self._used_names[candidate.lower()] = 1
        return candidate

    def mark_name_used(self, name: str) -> None:
        """Keep later operations from taking a name (of an imported operation, say)."""
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            self._used_names.setdefault("/".join(parts[:end]).lower(), 1)

    @property
    def current_name_scope(self) -> str:
        """Full name of the name scope in force, "" outside of any."""
        return self._scope

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put new names below a scope; yields the scope's prefix with its slash.

        A name that ends in "/" is the full scope to (re-)enter; None or "" is the root.
        """
        if name and not (_VALID_SCOPE if self._scope else _VALID_NAME).match(name):
            raise ValueError(f"{name!r} is no valid scope name")
        previous = self._scope
        if not name:
            self._scope = ""
        elif name.endswith("/"):
            self._scope = name[:-1]
        else:
            self._scope = self.unique_name(name)
        try:
            yield self._scope + "/" if self._scope else ""
        finally:
            self._scope = previous

    def get_name_scope(self) -> str:
        """Return the scope in force, without its slash."""
        return self._scope

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

    # ---- devices, controls, colocation

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
            self._controls = [*saved, ops]
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
        for ops in self._controls:
            for op in ops:
                if id(op) not in direct:
                    found[id(op)] = op
        return list(found.values())

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
            groups = target.colocation_groups()
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

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return the graph as a GraphDef.

        Args:
          from_version: only operations with at least this index.
          add_shapes: give each node its static shapes as attr `_output_shapes`.
        """
        operations = self.get_operations()[from_version or 0 :]
        with collection_paused():
            graph_pb = nodes_to_graph_def(operations, self.functions.values())
        if add_shapes:
            for op, node_pb in zip(operations, graph_pb.node):
                found = [tensor.shape for tensor in op.outputs]
                node_pb.attr["_output_shapes"].CopyFrom(encode_attr("list(shape)", found))
        return graph_pb

    @property
    def graph_def_versions(self) -> Any:
        """The versions that as_graph_def writes."""
        return self.as_graph_def(len(self.operations_by_name)).versions

    # ---- collections

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append a value to a named collection."""
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append a value to several named collections."""
        for name in [names] if isinstance(names, str) else set(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: str) -> list[Any]:
        """Return the collection itself, to be changed in place."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Return a copy of a collection, or its members whose names match a scope."""
        members = self._collections.get(name, [])
        if scope is None:
            return list(members)
        pattern = re.compile(scope)
        return [m for m in members if hasattr(m, "name") and pattern.match(m.name)]

    def get_all_collection_keys(self) -> list[str]:
        """Return the names of collections that have members."""
        return [name for name, members in self._collections.items() if members]

    def clear_collection(self, name: str) -> None:
        """Empty a collection."""
        self._collections.pop(name, None)

    # ---- the default graph

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the graph in which the calling thread builds."""
        stack = local.graphs
        stack.append(self)
        try:
            yield self
        finally:
            stack.remove(self)


def infer_shapes(made: Operation, inputs: Sequence[Dims]) -> list[Dims]:
    """Return the static shapes of an operation's outputs by its op's rule.

    Raises: ValueError, saying which operation, when the inputs cannot fit.
    """
    rule = made.op_def.shape_rule
    count = len(made.output_types)
    if rule is None:
        return [None] * count
    context = ShapeContext(made, inputs, lambda i: _static_input(made, i))
    try:
        found: list[Dims] = rule(context)
    except ValueError as error:
        given = ", ".join(shapes.format_dims(dims) for dims in inputs)
        raise ValueError(
            f"{made.type} {made.name!r} (input shapes {given}): {error}. "
            f"Made at {made.made_at[0]}:{made.made_at[1]}."
        ) from None
    return found


def _static_input(made: Operation, index: int) -> Any:
    source, port = made.edges[index]
    return static_value(source, port)


def with_slash(device: str) -> str:
    """Return a device's name as users may abbreviate it, `CPU:0`, as the protocol spells it."""
    return device if device.startswith("/") else f"/{device}"


def _device_string(device: Any) -> str:
    if isinstance(device, str):
        return _spelled_out(device) if device else ""
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


_global_graph: Graph | None = None
_global_lock = threading.Lock()


def get_default_graph() -> Graph:
    """Return the graph in which the calling thread builds."""
    if local.graphs:
        innermost: Graph = local.graphs[-1]
        return innermost
    eager: Graph | None = eager_graph()
    if eager is not None:
        return eager
    global _global_graph
    if _global_graph is None:
        with _global_lock:
            if _global_graph is None:
                _global_graph = Graph()
    return _global_graph


def reset_default_graph() -> None:
    """Replace the process's default graph by an empty one.

    Raises: AssertionError inside `with graph.as_default()`.
    """
    if local.graphs:
        raise AssertionError("reset_default_graph() inside `with graph.as_default():`")
    global _global_graph
    _global_graph = Graph()
