"""Where every eager call passes: an operation is bound once and called at once.

The public functions build a graph through `apply_op`; the eager graph is a Graph that calls the
operation instead.  What was bound is kept by op, types and attrs, so that a call costs a lookup
and the kernel.  Each thread has an eager graph of its own, since scopes belong to a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.eager.context import Context, context
from tideflow.eager.device_policy import check_places
from tideflow.eager.operation import EagerOperation
from tideflow.eager.remote import Cluster, RemoteTensor
from tideflow.eager.tensor import EagerTensor
from tideflow.graph import defaults, roles
from tideflow.graph.behavior import behavior
from tideflow.graph.building import convert_inputs
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.node import arg_sizes, grouped
from tideflow.graph.op_def import OpDef, get_op_def
from tideflow.runtime.bound_op import BoundOp, keeps_nothing
from tideflow.runtime.context import KernelState
from tideflow.runtime.device import Device
from tideflow.runtime.jit_memory import aligned_copy
from tideflow.runtime.loop import run_sync
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


class EagerGraph(Graph):
    """The graph of a thread in which operations are called at once."""

    is_eager: ClassVar[bool] = True

    def __init__(self, home: Context) -> None:
        super().__init__()
        self.context = home
        # Whoever names a function holds it.
        self.functions = home.library.known
        self._bound: dict[Any, BoundOp] = {}

    @property
    def compares_elementwise(self) -> bool:  # type: ignore[override]
        """Whether == compares the elements of tensors."""
        return behavior.tensor_equality

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

    def next_op_seed(self) -> int:
        """Return the seed of the next random operation that gives none of its own."""
        return self.context.next_op_seed()

    @property
    def default_device(self) -> str:
        """Full name of the device of operations that ask for none."""
        return self.context.default_device.name

    @property
    def program_task(self) -> str:
        """The task that the program is of the cluster that it is connected to; "" for none."""
        cluster = self.context.cluster
        return "" if cluster is None else cluster.own_task

    def forget_bound(self) -> None:
        """Bind operations anew when they are called again."""
        self._bound.clear()

    # ---- calling

    def call_op(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], name: str | None
    ) -> Any:
        """Call an op and return its results as apply_op does."""
        # With a policy, inputs are looked at one by one.
        is_free = self.context.device_policy is None
        if is_free and not self.in_force.devices:
            types: list[Any] = [op_name]
            for value in args:
                if type(value) is not EagerTensor:
                    break
                dtype = value._dtype
                if dtype is dtypes.resource and not self._is_own(value):
                    break
                types.append(dtype)
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
        elif is_free and not local.tapes and self.context.cluster is not None:
            found = self._call_far(self.context.cluster, op_name, args, attrs)
            if found is not None:
                return found
        op_def = get_op_def(op_name)
        inputs, known = convert_inputs(op_def, args, attrs)
        return shape_results(self._call(op_def, inputs, known))

    def _is_own(self, handle: EagerTensor) -> bool:
        """Whether a resource is on the device where operations run that are sent nowhere."""
        return bool(handle.held.device == self.context.default_device.name)

    def _call_far(
        self, cluster: Cluster, op_name: str, args: Sequence[Any], attrs: dict[str, Any]
    ) -> Any:
        """Call an op on another task as it was called before; None where it was not.

        Only for plain tensors in and one out, and where the device scopes in force are names.
        """
        types: list[Any] = [op_name, *self.in_force.devices]
        for value in args:
            if not isinstance(value, EagerTensor) or value._dtype is dtypes.resource:
                return None
            types.append(value._dtype)
        types.extend(attrs.items())
        try:
            plan = cluster.plans.get(tuple(types))
        except TypeError:  # an attr without a hash
            return None
        if plan is None:
            op_def = get_op_def(op_name)
            if any(callable(entry) for entry in self.in_force.devices):
                return None
            if any(arg.is_list for arg in (*op_def.inputs, *op_def.outputs)):
                return None
            inputs, known = convert_inputs(op_def, args, attrs)
            device = self._choose_device(inputs)
            if len(op_def.outputs) != 1 or not isinstance(device, str):
                return None
            plan = cluster.plans[tuple(types)] = (op_def, known, device)
        op_def, known, device = plan
        return cluster.operations.call(op_def, args, known, device)[0]

    def _bind_plain(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], key: Any
    ) -> BoundOp | None:
        """Bind an op whose inputs are single tensors, for calls of the same types and attrs."""
        op_def = get_op_def(op_name)
        if self._is_shared(op_def, attrs) and not any(arg.is_list for arg in op_def.inputs):
            _, known = convert_inputs(op_def, args, attrs)
            made = self._bind(op_def, known, self.context.default_device)
            self._bound[key] = made
            return made
        return None

    def _call_bound(self, bound: BoundOp, inputs: Sequence[Any]) -> Any:
        if bound.single is not None:
            found = EagerTensor(self._run(bound, inputs), bound.single)
            if local.tapes:
                record(bound, inputs, [found])
            return found
        return shape_results(self._finish(bound, inputs))

    def _call(self, op_def: OpDef, inputs: list[Any], attrs: dict[str, Any]) -> EagerOperation:
        for tensor in inputs:
            if not isinstance(tensor, EagerTensor):
                self.capture(tensor)  # which says what is wrong with it
        device = self._choose_device(inputs)
        if self.context.device_policy is not None:
            name = device if isinstance(device, str) else device.name
            check_places(self.context.device_policy, op_def, inputs, name)
        if isinstance(device, str):
            return self._call_remotely(op_def, inputs, attrs, device)
        return self._finish(self._bound_for(op_def, inputs, attrs, device), inputs)

    def _call_remotely(
        self, op_def: OpDef, inputs: list[Any], attrs: dict[str, Any], device: str
    ) -> EagerOperation:
        """Have an operation run by another task."""
        cluster = self.context.cluster
        assert cluster is not None
        outputs = cluster.operations.call(op_def, inputs, attrs, device)
        made = EagerOperation(self, op_def, attrs, inputs, outputs, device)
        for tape in local.tapes:
            tape.record(made, inputs)
        return made

    def _finish(self, bound: BoundOp, inputs: Sequence[Any]) -> EagerOperation:
        flat = bound.flat(self._run(bound, inputs))
        device = bound.device.name if bound.device is not self.context.default_device else ""
        outputs: list[Tensor] = [
            EagerTensor(v, t, device) for v, t in zip(flat, bound.output_types)
        ]
        made = EagerOperation(self, bound.op_def, bound.attrs, inputs, outputs, bound.device.name)
        for tape in local.tapes:
            tape.record(made, inputs)
        return made

    def _bound_for(
        self, op_def: OpDef, inputs: Sequence[Any], attrs: dict[str, Any], device: Device
    ) -> BoundOp:
        if not self._is_shared(op_def, attrs):
            return self._bind(op_def, attrs, device)
        key = (op_def.name, device.name, *(t.dtype for t in inputs), *_hashable(attrs))
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = self._bind(op_def, attrs, device)
        return found

    def _is_shared(self, op_def: OpDef, attrs: dict[str, Any]) -> bool:
        """Whether calls of an op share one bound kernel.

        Not a random one whose seed was drawn for it: it would be kept for nothing.
        """
        if not keeps_nothing(op_def):
            return False
        return "seed2" not in op_def.attrs or not self._has_drawn_seed(attrs)

    def _has_drawn_seed(self, attrs: dict[str, Any]) -> bool:
        return self.context.seed is not None and self.context.is_drawn_seed(attrs.get("seed2", 0))

    def _bind(self, op_def: OpDef, attrs: dict[str, Any], device: Device) -> BoundOp:
        home = self.context
        state = home.state
        name = f"{op_def.name}_{home.unique_id()}"
        if "seed2" in op_def.attrs:
            if self._has_drawn_seed(attrs):
                state = KernelState()
            else:
                # By this name all threads that give the same seed go on in one sequence.
                parts = (f"{key}={value}" for key, value in sorted(_hashable(attrs)))
                name = f"{op_def.name}_{'_'.join(parts)}"
        return BoundOp(name, op_def, attrs, device, state, home.functions.get)

    def _run(self, bound: BoundOp, inputs: Sequence[Any]) -> Any:
        values = [t._value for t in inputs]
        if bound.is_async:
            found = run_sync(bound.run_async(values))
            return found[0] if len(found) == 1 else found
        return bound.run(values)

    def _choose_device(self, inputs: Sequence[Any]) -> Device | str:
        """Return where an operation runs: where its resources are, else where it is asked for.

        A name is that of another task's device.
        Raises: InvalidArgumentError for a device that is nowhere.
        """
        home = self.context
        for tensor in inputs:
            if tensor.dtype is dtypes.resource:
                if isinstance(tensor, RemoteTensor):
                    return tensor.device
                if tensor.held.device in home.devices:
                    return home.devices.get(tensor.held.device)
        wanted = self.wanted_device()
        if not wanted:
            return home.default_device
        found = None if home.cluster is None else home.cluster.devices.find(wanted)
        if found is not None and home.cluster is not None and home.cluster.devices.is_remote(found):
            return found
        return home.placed(found or wanted)

    def _constant_device(self) -> str:
        """Return which device a constant is on, "" for the own first one.

        One that is on another task goes there with the first operation that uses it.
        """
        wanted = self.wanted_device()
        if not wanted:
            return ""
        home = self.context
        found = None if home.cluster is None else home.cluster.devices.find(wanted)
        if found is not None and home.cluster is not None and home.cluster.devices.is_remote(found):
            return found
        return home.placed(found or wanted).name

    def wanted_device(self) -> str:
        """Return what the device scopes in force ask for, "" for nothing."""
        if not self.in_force.devices:
            return ""
        asking = EagerOperation(self, get_op_def("NoOp"), {}, (), [], "")
        self.in_force.device_for(asking)
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
        if op_def.role is roles.CONST:
            return EagerTensor(_own(attrs["value"]), attrs["dtype"], self._constant_device()).op
        return self._call(op_def, list(inputs), attrs)

    def capture(self, tensor: Tensor) -> Tensor:
        """Return an eager tensor as it is: all threads share them.

        Raises: TypeError for a tensor of a graph, which has no value here.
        """
        if isinstance(tensor, EagerTensor):
            return tensor
        owner = getattr(tensor.graph, "name", "") or "a graph that is being built"
        file, line = tensor.op.made_at
        raise TypeError(
            f"tensor {tensor.name!r} is out of scope: it belongs to {owner} (made at "
            f"{file}:{line}) and has no value outside; return it from the function"
        )

    # ---- scopes, which cost a call each

    def name_scope(self, name: str | None) -> Any:
        """Put the names of variables made inside below a scope; yields the prefix."""
        return _NameScope(self, name)

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Do nothing: what was called before has run."""
        return contextlib.nullcontext()

    def colocate_with(self, op: Operation, ignore_existing: bool = False) -> Any:
        """Run what is called inside where an operation or tensor is."""
        wanted = "" if op is None else op.device
        if not wanted or (not self.in_force.devices and wanted == self.default_device):
            return contextlib.nullcontext()
        return self.device(wanted)


class _NameScope:
    """One name scope of an eager thread."""

    __slots__ = ("_graph", "_name", "_previous")

    def __init__(self, graph: EagerGraph, name: str | None) -> None:
        self._graph = graph
        self._name = name

    def __enter__(self) -> str:
        scopes, name = self._graph.in_force, self._name
        self._previous = scopes.name
        if not name:
            scopes.name = ""
            return ""
        if name[-1] == "/":
            scopes.name = name[:-1]
            return name
        scopes.name = f"{scopes.name}/{name}" if scopes.name else name
        return scopes.name + "/"

    def __exit__(self, *exc: object) -> None:
        self._graph.in_force.name = self._previous


def record(bound: BoundOp, inputs: Sequence[Any], outputs: list[Tensor]) -> None:
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
    return grouped(outputs, sizes)


def _hashable(attrs: dict[str, Any]) -> list[Any]:
    return [(name, _hashable_value(value)) for name, value in attrs.items()]


def _hashable_value(value: Any) -> Any:
    if type(value) in (int, bool, str, float, DType):
        return value
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return repr(value)


def _own(value: Any) -> Any:
    """Return a value that nobody else can change; scalars as NumPy's scalars."""
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 0 and value.dtype != object:
        return value[()]
    return aligned_copy(value)


def enable_eager_execution() -> None:
    """Call operations at once in every thread that has no graph of its own."""
    defaults.eager.is_on = True


def disable_eager_execution() -> None:
    """Put operations into graphs again."""
    defaults.eager.is_on = False
    local.eager_graph = None


defaults.eager.make = lambda: EagerGraph(context())


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Call operations at once inside `with`, also where a graph is being built, or where eager
    execution is off."""
    local.eager_levels += 1
    try:
        with defaults.eager_graph().as_default():
            yield
    finally:
        local.eager_levels -= 1
