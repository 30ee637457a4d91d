"""The reverse walk behind gradients().

1. Forwards from xs, mark what depends on them; backwards from ys, keep what is marked and count,
   for each unit, how many of its consumers must be differentiated first.
2. Visit units whose count is zero: sum the gradients that arrived at each output, ask for those
   of the inputs, and pass them on.
Both are loops over queues, linear in the number of edges.

A unit is an operation, or a whole loop of v1 control flow: a loop takes the gradients of all its
results at once and answers with a loop that runs backwards.  What a gradient of an op in a branch
or loop must be built in, ControlFlow says (see tideflow.ops.gradients.control_flow).

In the body of a function the ys may depend on xs of a graph around it.  An argument that stands for
what the body captured is then a unit that passes its gradient on to that.

Source: tensorflow/python/ops/gradients_util.py.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from tideflow.graph import gradient_registry, shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.functions import FuncGraph
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import tuple_
from tideflow.ops.framework import IndexedSlices
from tideflow.wire import dtypes, errors

_TRAINABLE = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.resource,
        dtypes.variant,
    }
)


class Loop(Protocol):
    """A loop as one unit of the walk."""

    @property
    def name(self) -> str:
        """What to call it in names and messages."""

    @property
    def outputs(self) -> list[Tensor]:
        """Its results, outside of it."""

    @property
    def inputs(self) -> list[Tensor]:
        """What it takes from outside: first values, then invariants."""

    def differentiate(self, grads: list[Any], options: WalkOptions) -> list[Any]:
        """Return a gradient or None for each input, from one for each output."""


Unit: TypeAlias = "Operation | Loop"


class ControlFlow(Protocol):
    """What the walk asks about branches and loops."""

    def unit(self, op: Operation) -> Unit:
        """Return the loop that an op belongs to, seen from where gradients are built, or the op."""

    def inputs(self, unit: Unit) -> list[Tensor]:
        """Return the inputs of a unit to which gradients may flow."""

    def outputs(self, unit: Unit) -> list[Tensor]:
        """Return the outputs of a unit from which gradients may come."""

    def inside(self, op: Operation) -> contextlib.AbstractContextManager[None]:
        """Build in the branch or loop where the gradient of an op belongs."""

    def gradient_function(self, op: Operation) -> Callable[..., Any] | None:
        """Return the gradient of a control flow op; None for any other."""


class WalkOptions:
    """How gradients are built.

    Attributes:
      colocate: place the gradient of an op where the op is.
      gate: let the gradients of one op's inputs be used only when all are computed.
    """

    __slots__ = ("colocate", "gate")

    def __init__(self, colocate: bool = False, gate: bool = False) -> None:
        self.colocate = colocate
        self.gate = gate


def is_trainable(tensor: Tensor) -> bool:
    """Whether gradients flow through tensors of this element type."""
    return tensor.dtype.base_dtype in _TRAINABLE


def zeros_like_output(tensor: Tensor) -> Tensor | None:
    """Return zeros of a tensor's shape and type; None for a handle, which has no zeros."""
    dtype = tensor.dtype.base_dtype
    if dtype in (dtypes.resource, dtypes.variant):
        return None
    if shapes.num_elements(tensor.dims) is not None:
        zero = convert_to_tensor(0, dtype)
        filled: Tensor = apply_op("Fill", list(tensor.dims or ()), zero, name="zeros_like")
        return filled
    zeros: Tensor = apply_op("ZerosLike", tensor)
    return zeros


class Walk:
    """One reverse walk.

    Attributes:
      arrived: for each unit, one entry for each output: the gradients not yet summed, as a list;
        or what their sum is.
      pending: for each unit between xs and ys, how many edges to consumers are to be done.
    """

    def __init__(
        self,
        graph: Graph,
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        stops: Iterable[Tensor],
        options: WalkOptions,
        control_flow: ControlFlow,
    ) -> None:
        self.graph = graph
        self.ys = ys
        self.options = options
        self.control_flow = control_flow
        self.arrived: dict[Unit, list[Any]] = {}
        # Between graphs: what an argument stands for, and the arguments that stand for a tensor.
        self._captured: dict[Unit, Tensor] = {}
        self._arguments: dict[int, list[Operation]] = {}
        for outer, argument in _captures(ys, xs):
            self._captured[argument.op] = outer
            self._arguments.setdefault(id(outer), []).append(argument.op)
        y_units = self._units(ys)
        x_units = self._units(xs)
        self.pending = self._count_pending(self._between(y_units, x_units))
        self.stopped: set[Unit] = set(self._units(stops))
        self.stopped.update(unit for unit in x_units if not self._has_live_input(unit))
        self.queue = deque(unit for unit in y_units if self.pending.get(unit) == 0)

    def _units(self, tensors: Iterable[Tensor]) -> list[Unit]:
        unit = self.control_flow.unit
        return list(dict.fromkeys(unit(tensor.op) for tensor in tensors))

    # ---- which units there are

    def _inputs(self, unit: Unit) -> list[Tensor]:
        captured = self._captured.get(unit)
        return self.control_flow.inputs(unit) if captured is None else [captured]

    def _consumers(self, tensor: Tensor) -> Iterable[Operation]:
        arguments = self._arguments.get(id(tensor))
        return [*tensor.consumers_list, *arguments] if arguments else tensor.consumers_list

    def _between(self, y_units: list[Unit], x_units: list[Unit]) -> list[Unit]:
        """Return the units that depend on xs and that ys depend on, ys first."""
        unit = self.control_flow.unit
        reached: set[Unit] = set(x_units)
        queue = deque(x_units)
        while queue:
            for output in self.control_flow.outputs(queue.popleft()):
                if is_trainable(output):
                    for op in self._consumers(output):
                        consumer = unit(op)
                        if consumer not in reached:
                            reached.add(consumer)
                            queue.append(consumer)
        found: dict[Unit, None] = {y: None for y in y_units if y in reached}
        queue = deque(found)
        while queue:
            for tensor in self._inputs(queue.popleft()):
                source = unit(tensor.op)
                if source in reached and source not in found:
                    found[source] = None
                    queue.append(source)
        return list(found)

    def _count_pending(self, between: list[Unit]) -> dict[Unit, int]:
        unit = self.control_flow.unit
        pending: dict[Unit, int] = dict.fromkeys(between, 0)
        for consumer in between:
            for tensor in self._inputs(consumer):
                source = unit(tensor.op)
                if source in pending:
                    pending[source] += 1
        return pending

    def _has_live_input(self, unit: Unit) -> bool:
        of = self.control_flow.unit
        return any(of(t.op) in self.pending for t in self._inputs(unit))

    # ---- gradients at tensors

    def _place(self, tensor: Tensor) -> tuple[Unit, int]:
        """Return the unit that gives a tensor, and as which output; -1 for one inside a loop."""
        unit = self.control_flow.unit(tensor.op)
        if unit is tensor.op:
            return unit, tensor.value_index
        return unit, next((i for i, t in enumerate(unit.outputs) if t is tensor), -1)

    def add(self, tensor: Tensor, grad: Tensor) -> None:
        """Let a gradient arrive at a tensor.

        Raises: ValueError for a tensor inside a loop, where there is one for each iteration.
        """
        unit, index = self._place(tensor)
        if index < 0:
            raise ValueError(
                f"tensor {tensor.name!r} is made inside the loop {unit.name!r}; outside of it only "
                "the loop's results have gradients"
            )
        outputs = self.arrived.get(unit)
        if outputs is None:
            outputs = self.arrived[unit] = [[] for _ in unit.outputs]
        outputs[index].append(grad)

    def gradient_of(self, tensor: Tensor) -> Any:
        """Return the sum of what arrived at a tensor, or None."""
        unit, index = self._place(tensor)
        outputs = self.arrived.get(unit)
        if outputs is None or index < 0:
            return None
        with self._placed(unit), self.control_flow.inside(tensor.op):
            return _summed(outputs)[index]

    # ---- the walk

    def seed(self, grad_ys: Sequence[Any]) -> None:
        """Let the first gradients arrive: those given, ones for the rest."""
        if len(grad_ys) != len(self.ys):
            raise ValueError(f"{len(grad_ys)} grad_ys for {len(self.ys)} ys; give one for each")
        for i, (y, given) in enumerate(zip(self.ys, grad_ys)):
            with self._placed(y.op), self.control_flow.inside(y.op):
                grad = (
                    ones_like_output(y, f"grad_ys_{i}") if given is None else _checked(y, given, i)
                )
            self.add(y, grad)

    def run(self) -> None:
        """Visit all units between ys and xs."""
        unit_of = self.control_flow.unit
        while self.queue:
            unit = self.queue.popleft()
            self._visit(unit)
            for tensor in self._inputs(unit):
                source = unit_of(tensor.op)
                count = self.pending.get(source)
                if count is not None:
                    self.pending[source] = count - 1
                    if count == 1:
                        self.queue.append(source)

    def _visit(self, unit: Unit) -> None:
        outputs = self.arrived.get(unit)
        if outputs is None:
            return
        if unit in self._captured:
            (grad,) = _summed(outputs)
            if unit not in self.stopped:
                self.add(self._captured[unit], grad)
            return
        op = unit if isinstance(unit, Operation) else unit.outputs[0].op
        with self._placed(unit), self.control_flow.inside(op):
            grads = list(_summed(outputs))
            if unit in self.stopped or not any(g is not None for g in grads):
                return
            with self.graph.name_scope(f"{unit.name}_grad"):
                if isinstance(unit, Operation):
                    self._differentiate(unit, grads)
                else:
                    self._pass_on(unit, unit.differentiate(grads, self.options))

    def _differentiate(self, op: Operation, grads: list[Any]) -> None:
        function = self.control_flow.gradient_function(op)
        if function is None:
            function = gradient_function(op)
            if function is None:
                return
            for i, grad in enumerate(grads):
                if grad is None and is_trainable(op.outputs[i]):
                    grads[i] = zeros_like_output(op.outputs[i])
        results = function(op, *grads)
        result_list = list(results) if isinstance(results, (list, tuple)) else [results]
        if len(result_list) != len(op.edges):
            raise ValueError(
                f"the gradient of {op.type} ({op.name!r}) gave {len(result_list)} gradients for "
                f"{len(op.edges)} inputs"
            )
        self._pass_on(op, _gated(result_list) if self.options.gate else result_list)

    def _pass_on(self, unit: Unit, grads: list[Any]) -> None:
        for tensor, grad in zip(unit.inputs, grads):
            # Lists of integers have gradients as other lists do; their elements have none.
            if grad is not None and is_trainable(tensor):
                _match_shape(unit, tensor, grad)
                self.add(tensor, grad)

    @contextlib.contextmanager
    def _placed(self, unit: Unit) -> Iterator[None]:
        if not self.options.colocate or not isinstance(unit, Operation):
            yield
            return
        with self.graph.colocate_with(unit, ignore_existing=True):
            yield


def _captures(ys: Iterable[Tensor], xs: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (outer tensor, argument) for what the bodies from ys out to xs have captured."""
    ends = {x.graph for x in xs if not x.graph.is_eager}
    crossed: dict[FuncGraph, None] = {}
    for graph in {y.graph for y in ys}:
        passed: list[FuncGraph] = []
        while isinstance(graph, FuncGraph):
            passed.append(graph)
            graph = graph.outer_graph
            if graph in ends:
                crossed.update(dict.fromkeys(passed))
    for body in crossed:
        yield from body.captures


def _summed(outputs: list[Any]) -> list[Any]:
    """Return one gradient for each output; the sums stay, so that they are made once."""
    for grads in outputs:
        if len(grads) > 1:
            grads[:] = [aggregate(grads)]
    return [grads[0] if grads else None for grads in outputs]


def gradient_function(op: Operation) -> Callable[..., Any] | None:
    """Return the gradient function of an operation; gradient_override_map may name another."""
    override = op.attrs.get("_gradient_op_type")
    try:
        return gradient_registry.get_gradient(override or op.type)
    except errors.NotFoundError as error:
        raise LookupError(
            f"no gradient for {op.name!r}, made at {op.made_at[0]}:{op.made_at[1]}: {error.message}"
        ) from None


def aggregate(grads: Sequence[Any]) -> Any:
    """Return the sum of gradients: None for none, slices joined, all else added."""
    found = [g for g in grads if g is not None]
    if len(found) <= 1:
        return found[0] if found else None
    if not all(isinstance(g, IndexedSlices) for g in found):
        return _add_by_device([convert_to_tensor(g) for g in found])
    first = found[0]
    return IndexedSlices(
        apply_op("ConcatV2", [g.values for g in found], 0),
        apply_op("ConcatV2", [convert_to_tensor(g.indices) for g in found], 0),
        first.dense_shape,
    )


def _add_by_device(tensors: list[Tensor]) -> Tensor:
    """Add on each device what is there, then the sums: fewer tensors travel."""
    by_device: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_device.setdefault(tensor.device, []).append(tensor)
    if len(by_device) == 1:
        return _add_n(tensors)
    sums = []
    for members in by_device.values():
        with get_default_graph().colocate_with(members[0].op, ignore_existing=True):
            sums.append(_add_n(members))
    return _add_n(sums)


def _add_n(tensors: list[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    total: Tensor = apply_op("AddN", tensors)
    return total


def ones_like_output(y: Tensor, name: str = "ones_like") -> Tensor:
    """Return ones of a tensor's shape and type.  Raises: TypeError for a complex one."""
    dtype = y.dtype.base_dtype
    if dtype.is_complex:
        raise TypeError(f"y {y.shown_name!r} is complex ({dtype.name}); its gradient needs grad_ys")
    one = convert_to_tensor(True if dtype.is_bool else 1, dtype)
    known = shapes.num_elements(y.dims) is not None
    dims = list(y.dims or ()) if known else apply_op("Shape", y)
    if known:
        dims = convert_to_tensor(dims, dtypes.int32, "Shape")
    ones: Tensor = apply_op("Fill", dims, one, name=name)
    return ones


def _checked(y: Tensor, grad: TensorLike, index: int) -> Any:
    if isinstance(grad, IndexedSlices):
        return grad
    dtype = y.dtype.base_dtype
    wanted = None if dtype in (dtypes.resource, dtypes.variant) else dtype
    given = convert_to_tensor(grad, wanted, name=f"grad_ys_{index}")
    if wanted is not None and not shapes.compatible(given.dims, y.dims):
        raise ValueError(
            f"grad_ys[{index}] has shape {given.shape}; its y {y.shown_name!r} has {y.shape}"
        )
    return apply_op("Identity", given, name=f"grad_ys_{index}")


def _match_shape(unit: Unit, tensor: Tensor, grad: Tensor) -> None:
    """Let a gradient have the static shape of what it is the gradient of."""
    if not isinstance(grad, Tensor) or tensor.dtype.base_dtype in (
        dtypes.resource,
        dtypes.variant,
    ):
        return
    try:
        grad.set_shape(tensor.dims)
    except ValueError:
        raise ValueError(
            f"the gradient of {unit.name!r} gave {grad.shape} for input "
            f"{tensor.shown_name!r} of shape {tensor.shape}"
        ) from None


def _gated(grads: list[Any]) -> list[Any]:
    """Let no gradient of an op be used before all of them are computed."""
    return tuple_(grads) if sum(g is not None for g in grads) > 1 else grads
