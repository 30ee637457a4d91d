"""Where every eager call passes: an operation is bound once and called at once.

The public functions build a graph through `apply_op`; the eager graph is a Graph that calls the
operation instead.  What was bound is kept by op, types and attrs, so that a call costs a lookup
and the kernel.  Each thread has an eager graph of its own, since scopes belong to a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.eager.context import Context, context
from tideflow.eager.operation import EagerOperation
from tideflow.eager.tensor import EagerTensor
from tideflow.graph import defaults
from tideflow.graph.building import convert_inputs
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.kernel import bind
from tideflow.graph.node import FunctionRef, Node, arg_sizes, arg_types
from tideflow.graph.op_def import OpDef, get_op_def
from tideflow.ops.updates import bind_update
from tideflow.runtime.context import NodeContext
from tideflow.runtime.device import Device
from tideflow.runtime.graph_runner import local_step
from tideflow.runtime.loop import run_sync
from tideflow.runtime.program import explain
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


class Bound:
    """An operation bound to its types, attrs and device: what a call needs.

    Attributes:
      call: the kernel over flat inputs.
      output_types: of the flat outputs.
      single: the type of the only output, where there is exactly one; else None.
      sizes: how many tensors each declared output holds, None for a single one.
    """

    __slots__ = (
        "attrs",
        "call",
        "device",
        "is_async",
        "node",
        "op_def",
        "output_types",
        "single",
        "sizes",
        "takes_step",
    )

    def __init__(self, home: Context, op_def: OpDef, attrs: dict[str, Any], device: Device) -> None:
        self.op_def = op_def
        self.attrs = attrs
        self.device = device
        self.node = Node(f"{op_def.name}_{home.unique_id()}", op_def, [], [], attrs, device.name)
        self.output_types = arg_types(op_def.outputs, attrs)
        self.sizes = arg_sizes(op_def.outputs, attrs)
        self.single = self.output_types[0] if self.sizes == [None] else None
        self.is_async = op_def.is_async
        self.takes_step = op_def.takes_step
        self.call = self._bind(home)

    def _bind(self, home: Context) -> Callable[..., Any]:
        if self.op_def.is_pure:
            return bind(self.node, np)

        def function(ref: FunctionRef) -> Any:
            return home.functions.get(ref, self.device)

        ctx = NodeContext(self.node, self.device.name, self.device.resources, home.state, function)
        return bind_update(self.node, ctx) if self.op_def.updates else bind(self.node, ctx)

    def run(self, values: Sequence[Any]) -> Any:
        """Return what the kernel gives for flat inputs.

        Raises: OpError that names the operation.
        """
        try:
            with np.errstate(all="ignore"):
                if self.takes_step:
                    values = (local_step(0), *values)
                found = self.call(*values)
                return run_sync(found) if self.is_async else found
        except Exception as error:
            raise explain(error, self.node, values) from error


class EagerGraph(Graph):
    """The graph of a thread in which operations are called at once."""

    is_eager: ClassVar[bool] = True

    def __init__(self, home: Context) -> None:
        super().__init__()
        self.context = home
        self.functions = home.library
        self._bound: dict[Any, Bound] = {}

    @property
    def seed(self) -> int | None:
        """The context's seed."""
        return self.context.seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        # The parent's constructor sets None before there is a context.
        home = getattr(self, "context", None)
        if home is not None:
            home.set_seed(value)

    @property
    def default_device(self) -> str:
        """Full name of the device of operations that ask for none."""
        return self.context.default_device.name

    # ---- calling

    def call_op(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], name: str | None
    ) -> Any:
        """Call an op and return its results as apply_op does."""
        if not self._devices:
            types: list[Any] = [op_name]
            for value in args:
                if type(value) is not EagerTensor or value._dtype is dtypes.resource:
                    break
                types.append(value._dtype)
            else:
                if attrs:
                    types.extend(attrs.items())
                try:
                    bound = self._bound.get(tuple(types))
                except TypeError:  # an attr without a hash
                    bound = None
                else:
                    if bound is None:
                        bound = self._bind_plain(op_name, args, attrs, tuple(types))
                if bound is not None:
                    return self._call_bound(bound, args)
        op_def = get_op_def(op_name)
        inputs, known = convert_inputs(op_def, args, attrs)
        return shape_results(self._call(op_def, inputs, known))

    def _bind_plain(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], key: Any
    ) -> Bound | None:
        """Bind an op whose inputs are single tensors, for calls of the same types and attrs."""
        op_def = get_op_def(op_name)
        if keeps_nothing(op_def) and not any(arg.is_list for arg in op_def.inputs):
            _, known = convert_inputs(op_def, args, attrs)
            made = self._bound[key] = Bound(
                self.context, op_def, known, self.context.default_device
            )
            return made
        return None

    def _call_bound(self, bound: Bound, inputs: Sequence[Any]) -> Any:
        if bound.single is not None:
            found = EagerTensor(bound.run([t._value for t in inputs]), bound.single)
            if local.tapes:
                record(bound, inputs, [found])
            return found
        return shape_results(self._finish(bound, inputs))

    def _call(self, op_def: OpDef, inputs: list[Any], attrs: dict[str, Any]) -> EagerOperation:
        device = self._choose_device(inputs)
        return self._finish(self._bound_for(op_def, inputs, attrs, device), inputs)

    def _finish(self, bound: Bound, inputs: Sequence[Any]) -> EagerOperation:
        found = bound.run([t._value for t in inputs])
        types = bound.output_types
        flat = [found] if len(types) == 1 else found or ()
        device = bound.device.name if bound.device is not self.context.default_device else ""
        outputs: list[Tensor] = [EagerTensor(v, t, device) for v, t in zip(flat, types)]
        made = EagerOperation(self, bound.op_def, bound.attrs, inputs, outputs, bound.device.name)
        for tape in local.tapes:
            tape.record(made, inputs)
        return made

    def _bound_for(
        self, op_def: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], device: Device
    ) -> Bound:
        if not keeps_nothing(op_def):
            return Bound(self.context, op_def, attrs, device)
        key = (op_def.name, device.name, *(t.dtype for t in inputs), *_hashable(attrs))
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = Bound(self.context, op_def, attrs, device)
        return found

    def _choose_device(self, inputs: Sequence[Any]) -> Device:
        """Return where an operation runs: where its resources are, else where it is asked for."""
        home = self.context
        for tensor in inputs:
            if tensor.dtype is dtypes.resource and tensor.held.device in home.devices:
                return home.devices.get(tensor.held.device)
        wanted = self.wanted_device()
        return home.devices.get(wanted) if wanted else home.default_device

    def wanted_device(self) -> str:
        """Return what the device scopes in force ask for, "" for nothing."""
        if not self._devices:
            return ""
        asking = EagerOperation(self, get_op_def("NoOp"), {}, (), [], "")
        self._apply_devices(asking)
        return asking.device

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str | None = None,
        *,
        apply_scopes: bool = True,
    ) -> Operation:
        """Call an op whose inputs and attrs are complete; returns what it looks like to a graph."""
        op_def = get_op_def(op_type) if isinstance(op_type, str) else op_type
        if op_def.name == "Const":
            return EagerTensor(_own(attrs["value"]), attrs["dtype"]).op
        return self._call(op_def, list(inputs), attrs)

    def capture(self, tensor: Tensor) -> Tensor:
        """Return an eager tensor as it is: all threads share them.

        Raises: TypeError for a tensor of a graph, which has no value here.
        """
        if isinstance(tensor, EagerTensor):
            return tensor
        raise TypeError(
            f"tensor {tensor.name!r} is out of scope: it belongs to the function or graph "
            f"{getattr(tensor.graph, 'name', 'that is being built')!r} and has no value outside; "
            "return it from the function"
        )

    # ---- scopes, which cost a call each

    def name_scope(self, name: str | None) -> Any:
        """Put the names of variables made inside below a scope; yields the prefix."""
        return _NameScope(self, name)

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Do nothing: what was called before has run."""
        return contextlib.nullcontext()

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Any:
        """Do nothing: operations go where their resources are."""
        return contextlib.nullcontext()


class _NameScope:
    """One name scope of an eager thread."""

    __slots__ = ("_graph", "_name", "_previous")

    def __init__(self, graph: EagerGraph, name: str | None) -> None:
        self._graph = graph
        self._name = name

    def __enter__(self) -> str:
        graph, name = self._graph, self._name
        self._previous = graph._scope
        if not name:
            graph._scope = ""
            return ""
        if name[-1] == "/":
            graph._scope = name[:-1]
            return name
        graph._scope = f"{graph._scope}/{name}" if graph._scope else name
        return graph._scope + "/"

    def __exit__(self, *exc: object) -> None:
        self._graph._scope = self._previous


def keeps_nothing(op_def: OpDef) -> bool:
    """Whether calls of an op may share one bound kernel: it has no state of its own."""
    if not op_def.is_stateful:
        return True
    return "shared_name" not in op_def.attrs


def record(bound: Bound, inputs: Sequence[Any], outputs: list[Tensor]) -> None:
    """Let the tapes in force take note of a call."""
    wanting = [tape for tape in local.tapes if tape.wants(inputs)]
    if wanting:
        home = outputs[0].graph
        made = EagerOperation(home, bound.op_def, bound.attrs, inputs, outputs, bound.device.name)
        for tape in wanting:
            tape.record(made, inputs)


def shape_results(op: EagerOperation) -> Any:
    """Return an operation's outputs as apply_op does."""
    outputs = op.outputs
    sizes = arg_sizes(op.op_def.outputs, op.attrs)
    if len(sizes) == 1 and sizes[0] is None:
        return outputs[0]
    if not sizes:
        return op
    grouped: list[Any] = []
    at = 0
    for size in sizes:
        grouped.append(outputs[at] if size is None else outputs[at : at + size])
        at += 1 if size is None else size
    return grouped[0] if len(grouped) == 1 else grouped


def _hashable(attrs: dict[str, Any]) -> list[Any]:
    return [
        (name, value if type(value) in (int, bool, str, float, DType) else repr(value))
        for name, value in attrs.items()
    ]


def _own(value: Any) -> Any:
    """Return a value that nobody else can change; scalars as NumPy's scalars."""
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 0 and value.dtype != object:
        return value[()]
    return value.copy()


def enable_eager_execution() -> None:
    """Call operations at once in every thread that has no graph of its own."""
    defaults.eager.make = lambda: EagerGraph(context())


def disable_eager_execution() -> None:
    """Put operations into graphs again."""
    defaults.eager.make = None
    local.eager_graph = None
