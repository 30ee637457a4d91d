"""Run regions on an accelerator: values and variables stay there, calls return at once.

Rule 1: there is no other way to run a region here.  One that does not compile as a whole, since a
        tensor decides the shape of another, is cut at that tensor, which is copied to the host.
Rule 2: variables that a region changes are donated, so their old memory is free again (unless
        somebody still reads it); their new values are there for whoever asks next.
"""

from __future__ import annotations

import logging
import operator
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.kernel import Resources
from tideflow.graph.node import Node
from tideflow.ops.state import ResourceVariableState, VariableState, uninitialized, wrong_dtype
from tideflow.platform import clock
from tideflow.runtime.accelerator import Accelerator
from tideflow.runtime.device_trace import (
    DeviceExecutable,
    Signature,
    compile_for,
    known_slots,
)
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jit_compile import call_unbroken
from tideflow.runtime.program import Instruction, Observer, explain
from tideflow.runtime.region_cells import (
    HeldCells,
    RegionCells,
    drain,
    release_later,
    store_later,
    take_all,
)
from tideflow.runtime.region_plan import Cell, RegionPlan
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

# A caller's array is copied up to this size; with a larger one the step waits for its transfer.
COPIED_BYTES = 1 << 18
# Executables that a region keeps at hand; the shapes of a program's batches.
_MOST_SIGNATURES = 64


class TwiceError(Exception):
    """Two handles of a region name the same variable: its nodes must run one by one."""


class _Ready:
    """A region compiled for certain inputs, and the types of the variables it was last called
    with."""

    __slots__ = ("avals", "executable")

    def __init__(self, executable: DeviceExecutable, avals: list[Any]) -> None:
        self.executable = executable
        self.avals = avals


class DeviceRegion:
    """A region of a program on an accelerator.

    Args:
      plan: what it takes and gives.
      accelerator: where it runs.
      resources: where its variables are found.
      instructions: what the plan was made of.
    """

    def __init__(
        self,
        plan: RegionPlan,
        accelerator: Accelerator,
        resources: Resources,
        instructions: Sequence[Instruction] = (),
    ) -> None:
        self.plan = plan
        self.instructions = instructions
        self.accelerator = accelerator
        self._lookup = resources.lookup
        self._cells = RegionCells(plan, resources)
        known = known_slots(plan)
        self._known = [at for at, slot in enumerate(plan.inputs) if slot in known]
        self._free = [at for at, slot in enumerate(plan.inputs) if slot not in known]
        self._large = tuple(accelerator.put(np.array(plan.constants[s])) for s in plan.large)
        self._ready: OrderedDict[Any, _Ready] = OrderedDict()
        self._has_warned = False

    @property
    def compiled_forms(self) -> int:
        """For how many kinds of inputs the region is compiled."""
        return len(self._ready)

    def run(self, slots: list[Any]) -> None:
        """Run the region over the slots of a step.

        Raises: NotCompiledError when it must be cut; TwiceError; OpError that names the node.
        """
        plan = self.plan
        inputs = [slots[slot] for slot in plan.inputs]
        key, given, waits = self._prepare(inputs)
        if plan.cells:
            results, executable = self._run_with_cells(slots, key, inputs, given)
        else:
            ready = self._ready.get(key)
            if ready is None:
                ready = self._compile(key, [], inputs)
            executable = ready.executable
            results = []
            self._call(executable, given, results)
        for at, value in executable.constants:
            slots[plan.outputs[at]] = value
        for at, result in zip(executable.outputs, results[plan.changed :]):
            slots[plan.outputs[at]] = result
        for slot, source in plan.forwarded:
            slots[slot] = slots[source]
        for array in waits:
            array.block_until_ready()

    def run_observed(self, slots: list[Any], observer: Observer) -> None:
        """Run the region to its end, and report it as its last node."""
        started_ns = clock.wall_ns()
        self.run(slots)
        outputs = [slots[slot] for slot in self.plan.outputs]
        load_jax().block_until_ready(outputs)
        observer.ran(self.plan.actions[-1].node, started_ns, clock.wall_ns(), outputs)

    # ---- inputs

    def _prepare(self, inputs: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        """Return a key for the inputs' types, what is handed over, and what must have arrived
        before the caller may change its arrays."""
        for at in self._known:
            value = inputs[at]
            if not isinstance(value, (np.ndarray, np.generic)):
                inputs[at] = np.asarray(value)
        given = []
        waits: list[Any] = []
        for at in self._free:
            value = inputs[at]
            if type(value) is np.ndarray and value.base is not None:
                # A view may belong to a caller, who changes it after the step.
                if value.nbytes <= COPIED_BYTES or self.accelerator.shares_host_memory:
                    value = value.copy()
                else:
                    value = self.accelerator.put(value)
                    waits.append(value)
            given.append(value)
        key = tuple([(value.dtype, value.shape) for value in given])
        if self._known:
            key += tuple(_known_signature(inputs[at]) for at in self._known)
        return key, given, waits

    # ---- variables

    def _run_with_cells(
        self, slots: list[Any], key: Any, inputs: list[Any], given: list[Any]
    ) -> tuple[Sequence[Any], DeviceExecutable]:
        while True:
            held = self._cells.find(slots)
            if held is None:
                states = [self._state(cell, slots) for cell in self.plan.cells]
            elif not held.are_distinct:
                raise TwiceError
            else:
                states = held.states
                found = self._run_locked(held, key, given)
                if found is not None:
                    return found
            # Compiling takes long, so it is done while no variable is locked.
            avals = [self._type_of(state) for state in states]
            ready = self._ready.get(key)
            if ready is None or ready.avals != avals:
                self._compile(key, avals, inputs)

    def _run_locked(
        self, held: HeldCells, key: Any, given: list[Any]
    ) -> tuple[Sequence[Any], DeviceExecutable] | None:
        """Run the executable; None when there is none for these types yet, or when a variable has
        no value on this device at present."""
        count = self.plan.changed
        ready = self._ready.get(key)
        if ready is None:
            return None
        states = held.states
        changed = states[:count]
        locks_back = release_later(held.locks)
        take_all(held.locks)
        try:
            values = [state.value for state in states]
            try:
                avals = list(map(_aval, values))
            except AttributeError:  # None, or an array of NumPy
                return None
            if avals != ready.avals:
                return None
            results: list[Any] = []
            stored, put_back = store_later(changed, results), store_later(changed, values)
            try:
                for state in changed:
                    state.value = None
                self._make_donatable(values, count)
                self._call(ready.executable, [*values, *given], results)
            finally:
                drain(stored if results else put_back)
        finally:
            drain(locks_back)
        return results, ready.executable

    def _state(self, cell: Cell, slots: list[Any]) -> VariableState:
        found = slots[cell.slot]
        if cell.is_ref:
            state: VariableState = found
        else:
            try:
                state = self._lookup(found, ResourceVariableState)
            except errors.NotFoundError:
                raise self._explain(uninitialized(found.name, found.container), cell) from None
            except errors.OpError as error:
                raise self._explain(error, cell) from error
        if state.dtype is not cell.dtype:
            raise self._explain(wrong_dtype(state, cell.dtype), cell)
        return state

    def _explain(self, error: errors.OpError, cell: Cell) -> errors.OpError:
        at = next(i for i, other in enumerate(self.plan.cells) if other is cell)
        return explain(error, next(a.node for a in self.plan.actions if at in a.cells), [])

    def _present(self, state: VariableState) -> Any:
        """Return a variable's value on this device, where it then stays."""
        if state.value is None:
            with state.lock:
                return self._held(state)
        return self._held(state)

    def _held(self, state: VariableState) -> Any:
        value = state.value
        if value is None:
            error = uninitialized(state.name, state.container)
            for action in self.plan.actions:
                names = {self.plan.cells[at].name for at in action.cells}
                if state.name in names:
                    raise explain(error, action.node, [])
            raise error
        if isinstance(value, (np.ndarray, np.generic)):
            # A copy: on a device that shares the host's memory, others may hold the array.
            value = self.accelerator.put(np.array(value))
            state.value = value
        return value

    def _type_of(self, state: VariableState) -> Any:
        return _aval(self._present(state))

    def _make_donatable(self, values: list[Any], count: int) -> None:
        """Replace arrays that somebody else holds by copies; the list must be all that holds them
        here."""
        held = [sys.getrefcount(value) for value in values]
        for i in range(count):
            if held[i] != _REFS_WHEN_ALONE:
                values[i] = values[i].copy()

    # ---- the executable

    def _compile(self, key: Any, avals: list[Any], inputs: list[Any]) -> _Ready:
        known: list[Any] = [None] * len(inputs)
        for at in self._known:
            known[at] = inputs[at]
        signature: Signature = (
            *((aval.dtype, aval.shape) for aval in avals),
            *(
                (v.dtype, v.shape) if known[i] is None else _known_signature(v)
                for i, v in enumerate(inputs)
            ),
        )
        try:
            executable = compile_for(self.plan, self.accelerator, signature, known, self._large)
        except load_jax().errors.JaxRuntimeError as error:
            raise device_error(error, self.plan.actions[-1].node) from error
        if key not in self._ready and len(self._ready) >= _MOST_SIGNATURES:
            self._ready.popitem(last=False)
            self._warn()
        made = self._ready[key] = _Ready(executable, avals)
        return made

    def _call(
        self, executable: DeviceExecutable, arguments: Sequence[Any], results: list[Any]
    ) -> None:
        """Run the executable and put its results into a list."""
        if executable.call is None:
            return
        try:
            if executable.is_wide:
                with load_jax().enable_x64(True):
                    call_unbroken(executable.call, (*arguments, *self._large), results)
            else:
                call_unbroken(executable.call, (*arguments, *self._large), results)
        except load_jax().errors.JaxRuntimeError as error:
            raise device_error(error, self.plan.actions[-1].node) from error

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning(
                "the code of %s was compiled for more than %d shapes or sizes of its inputs (%s); "
                "feed batches of one size to keep it fast",
                self.plan.actions[-1].node.name, _MOST_SIGNATURES, ", ".join(self.plan.input_names),
            )  # fmt: skip


def device_error(error: Exception, node: Node) -> errors.OpError:
    """Return what the compiler or the device raised as an error of the protocol."""
    text = str(error)
    found: errors.OpError = errors.InternalError(text)
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text or "out of memory" in text:
        found = errors.ResourceExhaustedError(text)
    return explain(found, node, [])


def _known_signature(value: Any) -> tuple[Any, ...]:
    return value.dtype, value.shape, value.tobytes()


_aval = operator.attrgetter("aval")


def _count_when_alone() -> int:
    """Return what sys.getrefcount gives in _make_donatable for an array held by a list."""
    counts = [sys.getrefcount(value) for value in [np.empty(1)]]
    return counts[0]


_REFS_WHEN_ALONE = _count_when_alone()
