"""Run one region: with NumPy until its executable is there, then with the faster of the two.

Variables stay with the compiler between runs and are donated, so a step that trains allocates
nothing for them.
"""

from __future__ import annotations

import logging
import math
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.kernel import Resources
from tideflow.graph.node import Node
from tideflow.graph.op_traits import Rows
from tideflow.graph.update_rule import are_inside
from tideflow.ops.state import VariableState
from tideflow.platform import clock
from tideflow.runtime import jit_compile, jit_thread
from tideflow.runtime.drawn_numbers import DrawnNumbers, places
from tideflow.runtime.jaxlib_internals import Signature
from tideflow.runtime.jit_compile import Executable, signature_of
from tideflow.runtime.jit_memory import aligned, as_own
from tideflow.runtime.jit_trials import Choice, Trial
from tideflow.runtime.loop import on_loop
from tideflow.runtime.nested_trace import bounds_of
from tideflow.runtime.program import Program
from tideflow.runtime.region_cells import (
    HeldCells,
    RegionCells,
    drain,
    release_later,
    store_later,
    take_all,
)
from tideflow.runtime.region_plan import NotCompiledError, RegionPlan

_LOGGER = logging.getLogger(__name__)

_aval = operator.attrgetter("aval")

_MOST_SIGNATURES = 8
# Of larger variables straight code takes and changes no more than some rows; compiled code goes
# through all, as it keeps the old values where a check fails.
_MOST_TABLE_BYTES = 4 << 20
# So many more times may checks fail than hold before the region is left to straight code.
_MOST_REFUSED = 20


class Region:
    """A region of a program.

    Args:
      plan: what it takes and gives.
      fallback: the same as straight NumPy code.
      resources: where its variables are found.
      is_forced: compile at once and ask for no measurements.
      takes_long: whether it is part of a program that takes long, in which steps may wait.
      failed: called with the nodes that turn out not to compile.
      settled: called when the region is left to NumPy for good.
      tried: called when `is_untried` has changed.

    Attributes:
      is_untried: whether there is compiled code that was never called.  Its first call takes longer
        than what NumPy needed tells.
    """

    def __init__(
        self,
        plan: RegionPlan,
        fallback: Program,
        resources: Resources,
        is_forced: bool,
        takes_long: Callable[[], bool],
        failed: Callable[[NotCompiledError], None],
        settled: Callable[[], None],
        tried: Callable[[], None],
    ) -> None:
        self.plan = plan
        self.fallback = fallback
        self.resources = resources
        self._cells = RegionCells(plan, resources)
        self._draws = plan.draws
        self._tables = plan.tables
        self.is_forced = is_forced
        self._takes_long = takes_long
        self.entries: dict[Signature, Trial] = {}
        self.is_off = False
        # The types of the last step, and their entry.
        self._last: tuple[list[Any], Signature, Trial] | None = None
        self._failed = failed
        self._settled = settled
        self._tried = tried
        self.is_untried = False
        self._has_warned = False
        self._refused = 0
        self._generation = jit_thread.generation()

    def run(self, slots: list[Any]) -> None:
        """Run the region over the slots of a step."""
        if self.is_off:
            self.fallback.run(slots)
            return
        if self._generation != jit_thread.generation():
            self._begin_anew()
        inputs = [slots[slot] for slot in self.plan.inputs]
        if self._draws:
            inputs.append(places(self._draws))
        held = self._held(slots)
        if held is None or not all(isinstance(v, (np.ndarray, np.generic)) for v in inputs):
            self._leave_out_takers(inputs)
            inputs.clear()
            self.fallback.run(slots)
            return
        entry = self._run_compiled(slots, held, inputs)
        if entry is not None and self.is_forced and entry.claim():
            # Compiling takes long, so it is done while no variable is locked.
            self.compile(entry)
            entry = self._run_compiled(slots, held, inputs)
        elif entry is not None:
            can_wait = slots[0].may_wait_s > 0 and not on_loop()
            if entry.is_due and entry.claim():
                self._ask(entry, can_wait=can_wait)
            if entry.may_wait and can_wait:
                entry.wait(slots[0])
                entry = self._run_compiled(slots, held, inputs)
        if entry is not None:
            inputs.clear()  # straight code frees what is used up
            self._run_timed(slots, entry)

    def _begin_anew(self) -> None:
        """Forget compiled code in a forked process, which lacks the threads that it runs on; find
        the variables anew, whose values may be arrays of its device."""
        jit_compile.keep_for_good(self.entries)
        self.entries = {}
        self._last = None
        self._cells = RegionCells(self.plan, self.resources)
        self._generation = jit_thread.generation()

    def _leave_out_takers(self, inputs: Sequence[Any]) -> None:
        """Leave out nodes that take other things than arrays, such as lists, from outside."""
        taken = [
            slot
            for slot, value in zip(self.plan.inputs, inputs)
            if not isinstance(value, (np.ndarray, np.generic))
        ]
        if taken:
            actions = self.plan.actions
            nodes = [one.node for one in actions if not set(taken).isdisjoint(one.inputs)]
            self._leave_out(nodes, "they take things that are no arrays")

    def _leave_out_tables(self, signature: Signature) -> bool:
        """Leave out what takes or changes rows of large variables; return whether there is such."""
        large = [at for at in self._tables if _bytes_of(*signature[at]) > _MOST_TABLE_BYTES]
        if large:
            nodes = [node for at in large for node in self._tables[at]]
            distinct = [a.node for a in self.plan.actions if a.node.op_def.rows is Rows.DISTINCT]
            self._leave_out([*nodes, *distinct], "their variables are large")
        return bool(large)

    def _leave_out(self, nodes: Sequence[Node], why: str) -> None:
        """Have nodes left to straight code; until then all of the region is."""
        if not self.is_off:
            self.is_off = True
            itself = weakref.ref(self)
            jit_thread.submit(lambda: _leave_out_if_alive(itself, NotCompiledError(nodes, why)))

    def leave_out(self, error: NotCompiledError) -> None:
        """Have nodes left out."""
        self._failed(error)

    def _run_timed(self, slots: list[Any], entry: Trial) -> None:
        started = clock.monotonic_s()
        self.fallback.run(slots)
        if not self.is_forced:
            took_s = clock.monotonic_s() - started
            entry.note_numpy(took_s, is_disturbed=jit_thread.is_compiling())
            if entry.is_due:
                self._note_tried()

    def _ask(self, entry: Trial, *, can_wait: bool) -> None:
        """Have the compiler's thread compile for the shapes of an entry."""
        entry.note_asked(can_wait=can_wait)
        entry.is_awaited = can_wait and self._takes_long()
        itself = weakref.ref(self)
        jit_thread.submit(lambda: _compile_if_alive(itself, entry))

    # ---- variables

    def _held(self, slots: list[Any]) -> HeldCells | None:
        """Return the variables, or None when they are not there or not as expected: the straight
        code then says so, with the node's name."""
        held = self._cells.find(slots)
        if held is None or held.are_distinct:
            return held
        self.is_off = True  # two handles of one variable: only straight code sees the order
        return None

    # ---- the compiled tier

    def _run_compiled(self, slots: list[Any], held: HeldCells, inputs: list[Any]) -> Trial | None:
        """Run the executable if there is one to run; else return the entry to run for."""
        states = held.states
        locks_back = release_later(held.locks)
        take_all(held.locks)
        try:
            values = [state.value for state in states]
            entry = self._entry_for(values, inputs)
            executable = entry.executable
            if executable is None or entry.choice is Choice.NUMPY:
                return entry
            if not _holds(executable, inputs):
                return Trial()
            if entry.wants_numpy:
                return entry
            started = clock.monotonic_s()
            drawn = None
            if self._draws:
                drawn = DrawnNumbers(self._draws, executable.counters, inputs[-1])
            results = self._call(executable, states, values, inputs)
            if results is None:
                _give_back(drawn)
                return Trial()
            if results:
                # A caller may change the arrays that he fed once the step is over, and another
                # step give away the variables once they are free.
                results[0].block_until_ready()
        finally:
            drain(locks_back)
        if executable.is_checked and not results.pop():
            _give_back(drawn)
            self._note_refused(entry)
            return Trial()
        if self._refused:
            self._refused -= 1
        self._finish(slots, executable, results)
        if entry.choice is Choice.TRYING:
            self._note_trial(entry, clock.monotonic_s() - started)
        if executable.improved_after_s is not None and not self.is_forced:
            self._note_run(entry, clock.monotonic_s() - started, executable.improved_after_s)
        if self.is_untried:
            self._note_tried()
        return None

    def _note_refused(self, entry: Trial) -> None:
        """Take note of a run whose checks did not hold; straight code runs in its place.

        A loop that went round more often than ever gets a greater bound when it is compiled anew.
        """
        self._refused += 1
        if self._refused >= _MOST_REFUSED:
            self._leave_to_numpy(entry)
        elif entry.signature is not None and entry.bounds != bounds_of(self.plan):
            self._last = None
            self.entries.pop(entry.signature, None)

    def _note_tried(self) -> None:
        """See whether the next run may take longer than those before tell."""
        self.is_untried = not self.is_off and any(e.is_untried for e in [*self.entries.values()])
        self._tried()

    def _entry_for(self, values: list[Any], inputs: list[Any]) -> Trial:
        """Return the entry for these types; an empty one when a variable has no value."""
        given = signature_of(inputs)
        try:
            avals = list(map(_aval, values))
        except AttributeError:  # None, or an array of NumPy
            avals = None
            if any(value is None for value in values):
                return Trial()
        if avals is not None and self._last is not None:
            last_avals, last_given, entry = self._last
            if last_avals == avals and last_given == given:
                return entry
        signature = (*signature_of(values), *given)
        entry = self.entries.get(signature) or self._new_entry(signature)
        if avals is not None:
            self._last = (avals, given, entry)
        return entry

    def _call(
        self,
        executable: Executable,
        states: list[VariableState],
        values: list[Any],
        inputs: list[Any],
    ) -> list[Any] | None:
        """Run the executable and store the variables' new values; the locks are held.

        Returns: the results, or None after a failure, which leaves the region to NumPy.
        """
        count = self.plan.changed
        results: list[Any] = []
        has_failed = False
        changed = states[:count]
        stored, put_back = store_later(changed, results), store_later(changed, values)
        try:
            for state in changed:
                state.value = None
            _make_donatable(values, count)
            for i in range(count, len(values)):
                if isinstance(values[i], (np.ndarray, np.generic)):
                    values[i] = _keep(states[i], values[i])
            arguments = (*values, *map(aligned, inputs), *executable.large)
            executable.call(arguments, results)
        except Exception:
            _LOGGER.debug("compiled code failed; its region goes back to NumPy", exc_info=True)
            self.is_off = has_failed = True
            self._note_tried()
        finally:
            drain(stored if results else put_back)
        return None if has_failed else results

    def _finish(self, slots: list[Any], executable: Executable, results: list[Any]) -> None:
        plan = self.plan
        for at, value in executable.constants:
            slots[plan.outputs[at]] = value
        for at, result in zip(executable.outputs, results[plan.changed :]):
            slots[plan.outputs[at]] = as_own(result)
        for slot, source in plan.forwarded:
            slots[slot] = slots[source]

    def _note_trial(self, entry: Trial, took: float) -> None:
        if entry.note_compiled(took, is_disturbed=jit_thread.is_compiling()) is Choice.NUMPY:
            self._leave_to_numpy(entry)

    def _note_run(self, entry: Trial, took_s: float, enough_s: float) -> None:
        """Have code improved once it has run for so long in all that this pays."""
        if entry.note_run(took_s, enough_s):
            itself = weakref.ref(self)
            jit_thread.submit_request(lambda: _improve_if_alive(itself, entry))

    def _leave_to_numpy(self, entry: Trial) -> None:
        entry.leave_to_numpy()
        if all(other.choice is Choice.NUMPY for other in [*self.entries.values()]):
            self.is_off = True
            self._note_tried()
            self._settled()

    # ---- compiling

    def _new_entry(self, signature: Signature) -> Trial:
        """Note shapes that are new, and have the region compiled for them."""
        if self._leave_out_tables(signature):
            return Trial()
        if len(self.entries) >= _MOST_SIGNATURES:
            self._warn_of_shapes(signature)
            return Trial()
        return self.entries.setdefault(signature, Trial(signature))

    def compile(self, entry: Trial) -> None:
        """Compile for the shapes of an entry, or have another process do so."""
        assert entry.signature is not None
        # A process that starts takes longer than jax to import, and a step that waits leaves the
        # compiler the cores.  Where none waits, steps would have to wait for the interpreter.
        if (
            self.is_forced
            or entry.is_awaited
            or not jit_compile.is_for_server(self.plan, entry.signature)
        ):
            self.make(entry)
            return
        itself = weakref.ref(self)
        jit_thread.submit_request(lambda: _have_made_if_alive(itself, entry))

    def make(self, entry: Trial) -> None:
        """Compile for the shapes of an entry; what goes wrong leaves the region to NumPy."""
        assert entry.signature is not None
        try:
            entry.bounds = bounds_of(self.plan)
            executable = jit_compile.compile_region(
                self.plan, entry.signature, is_final=self.is_forced
            )
        except NotCompiledError as error:
            entry.leave_to_numpy()
            if len(self.entries) == 1:
                self._failed(error)
        except Exception:
            _LOGGER.debug("a region stays with NumPy", exc_info=True)
            self._leave_to_numpy(entry)
        else:
            entry.note_made(executable, is_forced=self.is_forced)
        finally:
            entry.may_wait = False
            entry.note_done()
            self._note_tried()

    def take_better(self, entry: Trial, before: Executable, better: Executable) -> None:
        """Go on with better code than what ran before, unless that runs no more."""
        if entry.executable is before:
            entry.note_improved(better)
            self._note_tried()

    def _warn_of_shapes(self, signature: Signature) -> None:
        """Name the tensor whose shape keeps changing, once for all regions that take it."""
        if self._has_warned:
            return
        self._has_warned = True
        names = [cell.name for cell in self.plan.cells] + self.plan.input_names
        for name, *found in zip(names, signature, *self.entries):
            shapes = dict.fromkeys(shape for _, shape in found)
            warned = _warned.setdefault(self.resources, set())
            if len(shapes) > 1 and name not in warned:
                warned.add(name)
                _LOGGER.warning(
                    "compiled code was made for %d shapes of %s (%s, ...); further shapes run "
                    "uncompiled. Feed batches of one size to keep it fast",
                    len(self.entries), name, ", ".join(str(list(s)) for s in list(shapes)[:3]),
                )  # fmt: skip
            if len(shapes) > 1:
                return


# Tensors that were warned of, by the resources of the device that they are on.
_warned: weakref.WeakKeyDictionary[Resources, set[str]] = weakref.WeakKeyDictionary()


def _compile_if_alive(region: weakref.ref[Region], entry: Trial) -> None:
    found = region()
    if found is not None:
        found.compile(entry)


def _have_made_if_alive(region: weakref.ref[Region], entry: Trial) -> None:
    """Have another process compile; the compiler's thread takes that, or compiles by itself."""
    found = region()
    if found is None:
        return
    plan = found.plan
    del found  # whoever waits for the other process must not keep it
    assert entry.signature is not None
    jit_compile.have_compiled(plan, entry.signature)
    jit_thread.submit(lambda: _make_if_alive(region, entry))


def _make_if_alive(region: weakref.ref[Region], entry: Trial) -> None:
    found = region()
    if found is not None:
        found.make(entry)


def _improve_if_alive(region: weakref.ref[Region], entry: Trial) -> None:
    """Have better code made for the shapes of an entry, and go on with it."""
    found = region()
    before = entry.executable
    if found is None or before is None or entry.signature is None:
        return
    plan = found.plan
    del found  # whoever waits for another process must not keep it
    better = jit_compile.improve(plan, entry.signature, before)
    found = region()
    if found is not None and better is not None:
        found.take_better(entry, before, better)


def _leave_out_if_alive(region: weakref.ref[Region], error: NotCompiledError) -> None:
    found = region()
    if found is not None:
        found.leave_out(error)


def _bytes_of(dtype: Any, shape: tuple[int, ...]) -> int:
    return int(np.dtype(dtype).itemsize * math.prod(shape))


def _holds(executable: Executable, inputs: Sequence[Any]) -> bool:
    """Whether all labels lie in range; otherwise the straight code raises the error."""
    return all(are_inside(inputs[at], bound) for at, bound in executable.guards)


def _give_back(drawn: DrawnNumbers | None) -> None:
    """Let the straight code that runs in this step draw the same numbers."""
    if drawn is not None:
        drawn.give_back()


def _make_donatable(values: list[Any], count: int) -> None:
    """Replace arrays that somebody else holds, or that NumPy owns, by copies of our own.

    The list must be all that holds the arrays here.
    """
    held = [sys.getrefcount(value) for value in values]
    for i in range(count):
        value = values[i]
        if isinstance(value, (np.ndarray, np.generic)):
            values[i] = jit_compile.put(np.array(value))
        elif held[i] != _REFS_WHEN_ALONE:
            values[i] = jit_compile.put(np.array(np.asarray(value)))


def _count_when_alone() -> int:
    """Return what sys.getrefcount gives in _make_donatable for an array held by a list."""
    counts = [sys.getrefcount(value) for value in [np.empty(1)]]
    return counts[0]


_REFS_WHEN_ALONE = _count_when_alone()


def _keep(state: VariableState, value: Any) -> Any:
    """Let a variable that is only read hold its value as an array of the compiler.

    Other variables' locks are held, so this one's is taken only if it is free.
    """
    kept = jit_compile.put(value)
    if state.lock.acquire(blocking=False):
        try:
            if state.value is value:
                state.value = kept
        finally:
            state.lock.release()
    return kept
