"""Translate regions for accelerators, and compile them there.

As for the CPU (`region_trace`), but nothing is left to NumPy: ops that may fail for some values
do on an accelerator what TensorFlow's kernels for GPUs do (rows outside are zeros or are
skipped), and what must be known while tracing is copied to the host and made part of the code.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tideflow.graph.node import Node, arg_sizes
from tideflow.runtime.accelerator import Accelerator
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jit_compile import signature_of
from tideflow.runtime.program import explain
from tideflow.runtime.region_plan import Action, NotCompiledError, RegionPlan
from tideflow.runtime.region_trace import MissingError, Traced, Tracer
from tideflow.wire.errors import InvalidArgumentError

# Of a cell or input: element type and shape; of a known input also its bytes.
Signature: TypeAlias = "tuple[tuple[Any, ...], ...]"

_MOST_CACHED = 1024


@dataclass(slots=True)
class DeviceExecutable:
    """A region compiled for an accelerator and certain shapes.

    Attributes:
      call: takes cells, inputs and `large`; gives new values of the changed cells and outputs.
        None when everything is known.
      constants: values of outputs that are known, by position among the outputs.
      outputs: positions, among the plan's outputs, of the computed ones.
      is_wide: whether 64-bit types are handed over.
    """

    call: Any
    constants: tuple[tuple[int, Any], ...]
    outputs: tuple[int, ...]
    is_wide: bool


def static_positions(node: Node) -> list[int]:
    """Return which of a node's flat inputs must be known when it is traced."""
    names = node.op_def.static_inputs
    if not names:
        return []
    found: list[int] = []
    at = 0
    for arg, size in zip(node.op_def.inputs, arg_sizes(node.op_def.inputs, node.attrs)):
        width = 1 if size is None else size
        if arg.name in names:
            found.extend(range(at, at + width))
        at += width
    return found


def known_slots(plan: RegionPlan) -> set[int]:
    """Return the slots among a region's inputs whose values must be known when it is traced."""
    inputs = set(plan.inputs)
    found = set()
    for action in plan.actions:
        # Of an update, the first inputs are variables and no part of the action's inputs.
        skipped = len(action.node.edges) - len(action.inputs)
        for at in static_positions(action.node):
            if at >= skipped and action.inputs[at - skipped] in inputs:
                found.add(action.inputs[at - skipped])
    return found


class DeviceTracer(Tracer):
    """Traces what an accelerator runs.

    Raises (from `run`): OpError that names the node whose inputs do not fit; NotCompiledError.
    """

    def run(self, action: Action) -> None:
        """Trace one action; one whose inputs would have to be known is noted in `failed`."""
        found = self.jax.errors
        try:
            self._run(action)
        except MissingError:
            self.forget(action)
        except NotCompiledError:
            raise
        except (
            found.ConcretizationTypeError,
            found.TracerArrayConversionError,
            found.TracerIntegerConversionError,
            found.NonConcreteBooleanIndexError,
        ) as error:
            self.failed[id(action.node)] = (action.node, error)
            self.forget(action)
        except Exception as error:
            values = [self.values.get(slot) for slot in action.inputs]
            raise explain(error, action.node, values) from error

    def _gather(self, action: Action, value: Any, indices: Any) -> None:
        self._take(action, value, indices)

    def _unique(self, action: Action, given: Any) -> None:
        if given.ndim != 1:
            raise NotCompiledError([action.node], f"{action.node.op} wants a vector")
        self._tell_apart(action, given)

    def _store(self, action: Action, news: Sequence[Any]) -> None:
        try:
            super()._store(action, news)
        except InvalidArgumentError as error:
            if action.kind != "assign":
                raise
            # Straight code lets the shape change, or says why not.
            raise NotCompiledError([action.node], str(error)) from None

    def _update(self, action: Action, olds: list[Any], others: list[Any]) -> None:
        node = action.node
        update = node.op_def.update
        assert update is not None
        assert node.op_def.kernel is not None
        update.require_shapes(olds, others)
        attrs = {name: node.attrs[name] for name in node.op_def.kernel_attrs}
        # The kernel is the rule for whole values, also where the update's own is one for rows.
        self._store(action, node.op_def.kernel(self.jnp, *olds, *others, **attrs))

    def _follows_rule(self, action: Action, inputs: list[Any]) -> bool:
        return False

    def _require_safe(self, action: Action, inputs: list[Any], is_traced: bool) -> None:
        """An accelerator gives something for all values."""


_lock = threading.Lock()
_compiled: OrderedDict[Any, DeviceExecutable] = OrderedDict()


def compile_for(
    plan: RegionPlan,
    accelerator: Accelerator,
    signature: Signature,
    known: Sequence[Any],
    large: Sequence[Any],
) -> DeviceExecutable:
    """Compile a region, or return what was compiled before for the same content and shapes.

    Args:
      signature: of cells and inputs.
      known: for each input its value if it is to be part of the code, else None.
      large: the region's constants that are handed over.
    Raises: NotCompiledError that names nodes some of whose inputs would have to be known; OpError
    that names a node whose inputs do not fit; ResourceExhaustedError and the like.
    """
    key = (accelerator.device, plan.digest, signature, signature_of(large))
    with _lock:
        found = _compiled.get(key)
        if found is not None:
            _compiled.move_to_end(key)
            return found
    made = _compile(plan, accelerator, signature, known, large)
    with _lock:
        _compiled[key] = made
        while len(_compiled) > _MOST_CACHED:
            _compiled.popitem(last=False)
    return made


def _compile(
    plan: RegionPlan,
    accelerator: Accelerator,
    signature: Signature,
    known: Sequence[Any],
    large: Sequence[Any],
) -> DeviceExecutable:
    jax = load_jax()
    traced = Traced()
    count = len(plan.cells)
    positions = [
        *range(count),
        *(count + i for i, value in enumerate(known) if value is None),
        *(count + len(known) + i for i in range(len(large))),
    ]
    types = [*signature, *signature_of(large)]
    fixed = [*[None] * count, *known, *large]

    def region(*args: Any) -> list[Any]:
        values = list(fixed)
        for at, arg in zip(positions, args):
            values[at] = arg
        tracer = DeviceTracer(plan, jax, values)
        for action in plan.actions:
            tracer.run(action)
        if tracer.failed:
            raise NotCompiledError(
                [node for node, _ in tracer.failed.values()],
                "; ".join(f"{n.op} {n.name!r}: {e}" for n, e in tracer.failed.values()),
            )
        return tracer.finish(traced)

    with jax.enable_x64(True):
        arguments = [
            jax.ShapeDtypeStruct(types[at][1], types[at][0], sharding=accelerator.sharding)
            for at in positions
        ]
        made = jax.jit(region, donate_argnums=tuple(range(plan.changed))).lower(*arguments)
        # What is all known needs no code.
        call = made.compile() if traced.outputs or plan.changed else None
    place = {slot: i for i, slot in enumerate(plan.outputs)}
    return DeviceExecutable(
        call,
        tuple((place[slot], value) for slot, value in traced.constants.items()),
        tuple(place[slot] for slot in traced.outputs),
        any(_is_wide(types[at][0]) for at in positions),
    )


def _is_wide(dtype: Any) -> bool:
    return dtype.itemsize > 8 or (dtype.itemsize == 8 and dtype.kind in "iuf")


def _after_fork() -> None:
    # A thread that does not exist in the child may have held the lock.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
