"""The translation of a region into one traced function.

A region's instructions are traced in their order.  A kernel whose inputs are all known runs with
NumPy while tracing, so that arithmetic on shapes stays concrete; any other runs with jax.numpy.
The values of variables are carried along: a read gives what the last update before it stored.

This module does not import jax: who traces passes jax.numpy in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tideflow.compile.region_selection import (
    divides,
    label_guard,
    needs_known_inputs,
)
from tideflow.graph.kernel import bind
from tideflow.graph.node import Node
from tideflow.graph.op_traits import Rows
from tideflow.ops.tensor_arrays.traced import TracedList, TracedObject
from tideflow.runtime.device_rows import PaddedRows, padded_unique
from tideflow.runtime.nested_trace import trace_functions
from tideflow.runtime.region_plan import (
    NO_SLOT,
    Action,
    Nested,
    NotCompiledError,
    RegionPlan,
)
from tideflow.runtime.trace_state import TraceState
from tideflow.wire import errors


@dataclass(slots=True)
class Traced:
    """What tracing finds out besides the code.

    Attributes:
      constants: outputs that are known, by slot.
      outputs: slots of the computed outputs, in order.
      guards: (position among the inputs, bound): labels that must lie in [0, bound).
      is_checked: whether the last result says if the others hold; where they do not, the variables
        keep their values.
      counters: how many counters each draw of random numbers wants.
    """

    constants: dict[int, Any] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)
    guards: list[tuple[int, int]] = field(default_factory=list)
    is_checked: bool = False
    counters: list[int] = field(default_factory=list)


def make_traceable(
    plan: RegionPlan, jax: Any, found: Traced, must_end: Callable[[], bool]
) -> Callable[..., list[Any]]:
    """Return the region as a function to trace.

    It takes the values of the cells, of the inputs, keys and counters of random numbers if it draws
    any, and the large constants; it gives the new values of the changed cells, then the outputs.
    Tracing it fills `found`.
    Raises (when traced): NotCompiledError that names the nodes to leave out; CancelledError once
    `must_end` says so.
    """

    def region(*args: Any) -> list[Any]:
        tracer = Tracer(plan, jax, args)
        for action in plan.actions:
            if must_end():
                raise errors.CancelledError("the program ends; nothing is compiled any more")
            tracer.run(action)
        tracer.raise_failed()
        return tracer.finish(found)

    return region


class MissingError(Exception):
    """An input comes from a node that failed."""


class Tracer:
    """One tracing of a region, or of a function within one.

    Args:
      args: what the function of `make_traceable` takes.
      trace: that of the region; None for a region, which gets one of its own.
    """

    def __init__(
        self, plan: RegionPlan, jax: Any, args: Sequence[Any], trace: TraceState | None = None
    ) -> None:
        self.is_nested = trace is not None
        self.trace = TraceState(jax) if trace is None else trace
        self.plan = plan
        self.jax = jax
        self.jnp = jax.numpy
        count = len(plan.cells)
        self.cells = list(args[:count])
        rest = list(args[count:])
        self.drawn = rest.pop(len(plan.inputs)) if plan.draws else None
        self.counters: list[int] = []
        self.values: dict[int, Any] = dict(plan.constants)
        self.values.update(zip([*plan.inputs, *plan.large], rest))
        self.values[NO_SLOT] = None
        self.position = {slot: i for i, slot in enumerate(plan.inputs)}
        self.guards: dict[tuple[int, int], None] = {}
        self.failed: dict[int, tuple[Node, Exception]] = {}
        self.arguments = {id(arg) for arg in args}
        self.given_cells = list(args[:count])
        self.rows = PaddedRows()

    def run(self, action: Action) -> None:
        """Trace one action."""
        try:
            self._run(action)
        except MissingError:
            self.forget(action)
        except NotCompiledError as error:
            # Of a function that it runs, the nodes are none of this trace.
            nodes = [action.node] if action.nested else error.nodes
            self.failed.update((id(node), (node, error)) for node in nodes)
            self.forget(action)
        except Exception as error:  # whatever a kernel raises: it then runs with NumPy
            self.failed[id(action.node)] = (action.node, error)
            self.forget(action)

    def raise_failed(self) -> None:
        """Raise NotCompiledError that names the nodes that could not be traced, if any."""
        if self.failed:
            node, error = next(iter(self.failed.values()))
            raise NotCompiledError(
                [node for node, _ in self.failed.values()],
                f"{node.op} {node.name!r}: {type(error).__name__}: {error}",
                is_lasting=all(self._is_lasting(error) for _, error in self.failed.values()),
            )

    def _is_lasting(self, error: Exception) -> bool:
        """Whether an error follows from the node alone, and not from what the process has set."""
        if isinstance(error, NotCompiledError):
            return error.is_lasting
        found = self.jax.errors
        of_values = found.ConcretizationTypeError, found.TracerArrayConversionError
        of_indices = found.TracerIntegerConversionError, found.NonConcreteBooleanIndexError
        return isinstance(error, (errors.OpError, *of_values, *of_indices))

    def run_function(self, nested: Nested, args: Sequence[Any], cells: list[Any]) -> list[Any]:
        """Return the results of a function.

        cells: the values of the variables of the action, which are replaced where it changes them.
        """
        plan = nested.plan
        given = [cells[i] for i in nested.cells]
        given += [args[i] for i in nested.takes]
        given += [plan.constants[slot] for slot in plan.large]
        child = Tracer(plan, self.jax, given, self.trace)
        for action in plan.actions:
            child.run(action)
        child.raise_failed()
        child.rows.require_none(one.slot for one in nested.results if one.slot is not None)
        for i, value in zip(nested.cells, child.cells):
            cells[i] = value
        found = []
        for result in nested.results:
            if result.argument is not None:
                found.append(args[result.argument])
            else:
                found.append(result.value if result.slot is None else child.values[result.slot])
        return found

    def forget(self, action: Action) -> None:
        """Note that an action gave nothing."""
        for slot in action.outputs:
            self.values[slot] = MissingError
        if action.kind in ("assign", "update", "functions"):
            for cell in action.cells:
                self.cells[cell] = MissingError

    def _run(self, action: Action) -> None:
        inputs = [self.values[slot] for slot in action.inputs]
        olds = [self.cells[cell] for cell in action.cells]
        if any(value is MissingError for value in (*inputs, *olds)):
            raise MissingError
        self.rows.follow(action, self.values)
        if action.kind == "read":
            self.values[action.outputs[0]] = olds[0]
        elif action.kind == "shape":
            wanted = action.node.attrs["out_type"].as_numpy_dtype
            self.values[action.outputs[0]] = np.array(olds[0].shape, wanted)
        elif action.kind == "gather":
            self._gather(action, olds[0], inputs[0])
        elif action.kind == "assign":
            self._store(action, [inputs[0]])
        elif action.kind == "update":
            self._update(action, olds, inputs)
        elif action.kind == "functions":
            found = trace_functions(self, action, inputs, olds)
            for cell, new in zip(action.cells, olds):
                self.cells[cell] = new
            self.values.update(zip(action.outputs, found, strict=True))
        elif action.kind == "objects":
            self._run_objects(action, inputs)
        elif action.kind == "draw":
            self._draw(action, inputs)
        else:
            self._compute(action, inputs)

    def _store(self, action: Action, news: Sequence[Any]) -> None:
        for cell, new in zip(action.cells, news):
            wanted = self.plan.cells[cell].dtype.as_numpy_dtype
            _require(new.dtype == wanted, f"a new value of type {new.dtype}, not {wanted}")
            # Memory of another size could not be given back, and the next step would be compiled
            # anew.
            _require(new.shape == self.cells[cell].shape, "another shape than the variable's")
        for cell, new in zip(action.cells, news):
            self.cells[cell] = new

    def _update(self, action: Action, olds: list[Any], others: list[Any]) -> None:
        update = action.node.op_def.update
        assert update is not None
        node = action.node
        update.require_shapes(olds, others)
        attrs = {name: node.attrs[name] for name in node.op_def.kernel_attrs}
        rule = update.rule
        if update.indices >= 0:
            self._check_rows(olds[0], others, update.indices)
            # The kernel is the rule for whole values, also where the update's own is one for rows.
            assert node.op_def.kernel is not None
            rule = node.op_def.kernel
        self._store(action, rule(self.jnp, *olds, *others, **attrs))

    def _check_rows(self, value: Any, others: Sequence[Any], at: int) -> None:
        """Have distinct indices be checked that name rows to update; negative ones name none."""
        indices = others[at]
        _require(bool(value.shape) and indices.ndim == 1, "no rows to update")
        shapes = ((), (*indices.shape, *value.shape[1:]))
        fit = all(one.shape in shapes for i, one in enumerate(others) if i != at)
        _require(fit, "not a row for each index")
        self.trace.check((indices < value.shape[0]).all())

    def _gather(self, action: Action, value: Any, indices: Any) -> None:
        node = action.node
        batch = node.attrs["batch_dims"]
        batch += indices.ndim if batch < 0 else 0
        _require(0 <= batch < value.ndim, "no rows to give")
        inside = indices < value.shape[batch]
        if not self.rows.holds(action.inputs[0]):
            inside &= indices >= 0
        self.trace.check(inside.all())
        self._take(action, value, indices)

    def _take(self, action: Action, value: Any, indices: Any) -> None:
        """Give the rows of a variable that indices name; zeros for those that name none."""
        gather = action.node.op_def.gather
        assert gather is not None
        found = gather(self.jnp, value, self.jnp.asarray(indices), action.node.attrs)
        self.values[action.outputs[0]] = found

    def _unique(self, action: Action, given: Any) -> None:
        """Give distinct indices, which are checked not to be negative, as those added are."""
        _require(given.ndim == 1, "no vector")
        self.trace.check((given >= 0).all())
        self._tell_apart(action, given)

    def _tell_apart(self, action: Action, given: Any) -> None:
        number_type = action.node.attrs["out_idx"].as_numpy_dtype
        found = padded_unique(self.jnp, self.jnp.asarray(given), number_type)
        self.values.update(zip(action.outputs, found))

    def _run_objects(self, action: Action, inputs: list[Any]) -> None:
        node = action.node
        assert node.op_def.traced is not None
        result = node.op_def.traced(self.trace, inputs, node.attrs)
        outputs = [result] if len(action.outputs) == 1 else list(result)
        self.values.update(zip(action.outputs, outputs, strict=True))

    def _draw(self, action: Action, inputs: list[Any]) -> None:
        node = action.node
        draws = node.op_def.draws
        assert draws is not None
        attrs = {name: node.attrs[name] for name in node.op_def.kernel_attrs}
        value = draws.rule(self.jnp, self._reserve, *inputs, **attrs)
        _require(value.dtype == node.output_types[0].as_numpy_dtype, f"drawn as {value.dtype}")
        self.values[action.outputs[0]] = value

    def _reserve(self, counters: int) -> tuple[Any, Any]:
        """Return the key and the first counter of the next draw."""
        assert self.drawn is not None
        words = self.drawn[len(self.counters)]
        self.counters.append(counters)
        return words[:1], words[1:]

    def _compute(self, action: Action, inputs: list[Any]) -> None:
        node = action.node
        if node.op_def.rows is Rows.DISTINCT:
            self._unique(action, inputs[0])
            return
        if any(isinstance(value, (TracedList, TracedObject)) for value in inputs):
            # Lists add up, and give zeros like themselves, by their own methods.
            self.values[action.outputs[0]] = action.call(*inputs)
            return
        is_traced = any(self._is_traced(value) for value in inputs)
        if is_traced and self._follows_rule(action, inputs):
            return
        self._require_safe(action, inputs, is_traced)
        if is_traced and divides(node) and not self._is_traced(inputs[1]):
            # XLA multiplies by the inverse of a known divisor: x / x is then not always 1.
            inputs[1] = self.jax.lax.optimization_barrier(self.jnp.asarray(inputs[1]))
        result = bind(node, self.jnp if is_traced else np)(*inputs)
        outputs = [result] if len(action.outputs) == 1 else list(result)
        for slot, value, dtype in zip(action.outputs, outputs, node.output_types, strict=True):
            _require(value.dtype == dtype.as_numpy_dtype, f"a result of type {value.dtype}")
            self.values[slot] = value

    def _follows_rule(self, action: Action, inputs: list[Any]) -> bool:
        """Whether an op's own rule gave the results."""
        rule = action.node.op_def.traced
        result = NotImplemented if rule is None else rule(self.trace, inputs, action.node.attrs)
        if result is NotImplemented:
            return False
        self.values[action.outputs[0]] = result
        return True

    def _require_safe(self, action: Action, inputs: list[Any], is_traced: bool) -> None:
        """Raise for what could fail on values that are not known yet; note what to check then."""
        if label_guard(action.node):
            self._guard(action, inputs)
        is_ruled = action.node.op_def.traced is not None
        known = not is_traced or is_ruled or not needs_known_inputs(action.node)
        _require(known, "its values would go unchecked")

    def _is_traced(self, value: Any) -> bool:
        return isinstance(value, (self.jax.core.Tracer, self.jax.Array))

    def _guard(self, action: Action, inputs: list[Any]) -> None:
        features, labels = inputs
        bound = features.shape[-1]
        if not self._is_traced(labels):
            _require(bool(((labels >= 0) & (labels < bound)).all()), "labels out of range")
            return
        at = self.position.get(action.inputs[1])
        if self.is_nested or at is None:
            self.trace.check(((labels >= 0) & (labels < bound)).all())
        else:
            self.guards[at, bound] = None

    def finish(self, found: Traced) -> list[Any]:
        """Return the results; no two of them, and no argument, share memory."""
        self.rows.require_none(self.plan.outputs)
        given = set(self.arguments)
        holds = self.trace.all_checks()
        news = self.cells[: self.plan.changed]
        if holds is not None:
            news = [self.jnp.where(holds, new, old) for new, old in zip(news, self.given_cells)]
        results = [self._own(value, given) for value in news]
        for slot in self.plan.outputs:
            value = self.values[slot]
            if value is None or isinstance(value, (TracedList, TracedObject)):
                raise NotCompiledError(self._makers(slot), "no array, and wanted outside")
            if self._is_traced(value):
                found.outputs.append(slot)
                results.append(self._own(value, given))
            else:
                found.constants[slot] = value
        found.guards.extend(self.guards)
        found.counters.extend(self.counters)
        if holds is not None:
            found.is_checked = True
            results.append(self._own(holds, given))
        return results

    def _makers(self, slot: int) -> list[Node]:
        return [action.node for action in self.plan.actions if slot in action.outputs]

    def _own(self, value: Any, given: set[int]) -> Any:
        if id(value) in given or not self._is_traced(value):
            value = self.jnp.array(value, copy=True)
        given.add(id(value))
        return value


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise errors.InvalidArgumentError(what)
