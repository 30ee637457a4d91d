"""Run one region: with NumPy until its executable is there, then with the faster of the two.

Variables stay with the compiler between runs and are donated, so a step that trains allocates
nothing for them.
"""

from __future__ import annotations

import enum
import logging
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import StopFlag
from tideflow.graph.kernel import Resources
from tideflow.ops.state import VariableState
from tideflow.platform import clock
from tideflow.runtime import jit_compile, jit_thread
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jit_compile import Executable, Signature, signature_of
from tideflow.runtime.jit_memory import aligned, as_own
from tideflow.runtime.program import Program
from tideflow.runtime.region_cells import (
    HeldCells,
    RegionCells,
    drain,
    release_later,
    store_later,
    take_all,
)
from tideflow.runtime.region_trace import NotCompiledError, RegionPlan

_LOGGER = logging.getLogger(__name__)

_aval = operator.attrgetter("aval")

# Each tier is timed so often before the faster one is chosen.
_TRIALS = 9
# Compiled code that takes so much less than NumPy's first run is chosen after so many runs.
_CLEARLY_FASTER = 0.6
_TRIALS_IF_CLEAR = 3
_MOST_SIGNATURES = 8
# From so long a run on, the next one waits for the compiler, which is done sooner when steps leave
# it the cores and the interpreter: at most so long, and as long as so many runs take.
_LONG_RUN_S = 3e-3
_MOST_WAIT_S = 3.0
_MOST_WAIT_RUNS = 200
# How often one who waits looks whether its step goes on.
_LOOK_S = 0.02


class Choice(enum.Enum):
    """What runs a region for one set of shapes."""

    COMPILING = "compiling"
    TRYING = "trying"
    COMPILED = "compiled"
    NUMPY = "numpy"


class _Entry:
    """What is known of a region for one set of shapes."""

    __slots__ = (
        "choice", "compiled_s", "executable", "first_s", "is_done", "may_wait", "numpy_s",
        "signature",
    )  # fmt: skip

    def __init__(self, signature: Signature | None = None) -> None:
        self.choice = Choice.COMPILING
        # What is to be compiled still.
        self.signature = signature
        # What NumPy took before the compiler had a core; None until it has run.
        self.first_s: float | None = None
        self.is_done = threading.Event()
        self.may_wait = False
        self.executable: Executable | None = None
        self.compiled_s: list[float] = []
        self.numpy_s: list[float] = []


class Region:
    """A region of a program.

    Args:
      plan: what it takes and gives.
      fallback: the same as straight NumPy code.
      resources: where its variables are found.
      is_forced: compile at once and ask for no measurements.
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
        failed: Callable[[NotCompiledError], None],
        settled: Callable[[], None],
        tried: Callable[[], None],
    ) -> None:
        self.plan = plan
        self.fallback = fallback
        self.resources = resources
        self._cells = RegionCells(plan, resources)
        self.is_forced = is_forced
        self.entries: dict[Signature, _Entry] = {}
        self.is_off = False
        # The types of the last step, and their entry.
        self._last: tuple[list[Any], Signature, _Entry] | None = None
        self._failed = failed
        self._settled = settled
        self._tried = tried
        self.is_untried = False
        self._has_warned = False

    def run(self, slots: list[Any]) -> None:
        """Run the region over the slots of a step."""
        if self.is_off:
            self.fallback.run(slots)
            return
        inputs = [slots[slot] for slot in self.plan.inputs]
        held = self._held(slots)
        if held is None or not all(isinstance(v, (np.ndarray, np.generic)) for v in inputs):
            self.fallback.run(slots)
            return
        entry = self._run_compiled(slots, held, inputs)
        if entry is not None and self.is_forced and entry.signature is not None:
            # Compiling takes long, so it is done while no variable is locked.
            self.compile(entry.signature, entry)
            entry = self._run_compiled(slots, held, inputs)
        elif entry is not None and entry.may_wait and not slots[0].has_deadline:
            self._wait(entry, slots[0])
            entry = self._run_compiled(slots, held, inputs)
        if entry is not None:
            self._run_timed(slots, entry)

    def _run_timed(self, slots: list[Any], entry: _Entry) -> None:
        started = clock.monotonic_s()
        self.fallback.run(slots)
        took = clock.monotonic_s() - started
        if len(entry.numpy_s) < _TRIALS:
            entry.numpy_s.append(took)
        signature = entry.signature
        if signature is not None and entry.first_s is None:
            entry.first_s = took
            if took >= _LONG_RUN_S:
                entry.may_wait = True
                self._set_untried(True)
            itself = weakref.ref(self)
            jit_thread.submit(lambda: _compile_if_alive(itself, signature, entry))

    def _wait(self, entry: _Entry, step: StopFlag) -> None:
        """Wait until an entry is compiled, for a while.  Raises: Stopped."""
        assert entry.first_s is not None
        until = clock.monotonic_s() + min(_MOST_WAIT_S, _MOST_WAIT_RUNS * entry.first_s)
        while not entry.is_done.wait(_LOOK_S):
            step.check()
            if clock.monotonic_s() >= until:
                break
        entry.may_wait = False

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

    def _run_compiled(self, slots: list[Any], held: HeldCells, inputs: list[Any]) -> _Entry | None:
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
                return _Entry()
            if entry.choice is Choice.TRYING and _wants_numpy(entry):
                return entry
            started = clock.monotonic_s()
            results = self._call(executable, states, values, inputs)
            if results is None:
                return _Entry()
            if results:
                # A caller may change the arrays that he fed once the step is over, and another
                # step give away the variables once they are free.
                results[0].block_until_ready()
        finally:
            drain(locks_back)
        self._finish(slots, executable, results)
        if entry.choice is Choice.TRYING:
            self._note_trial(entry, clock.monotonic_s() - started)
        if self.is_untried:
            self._set_untried(False)
        return None

    def _set_untried(self, is_untried: bool) -> None:
        self.is_untried = is_untried
        self._tried()

    def _entry_for(self, values: list[Any], inputs: list[Any]) -> _Entry:
        """Return the entry for these types; an empty one when a variable has no value."""
        given = signature_of(inputs)
        try:
            avals = list(map(_aval, values))
        except AttributeError:  # None, or an array of NumPy
            avals = None
            if any(value is None for value in values):
                return _Entry()
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
            if executable.is_wide:
                with load_jax().enable_x64(True):
                    jit_compile.call_unbroken(executable.call, arguments, results)
            else:
                jit_compile.call_unbroken(executable.call, arguments, results)
        except Exception:
            _LOGGER.debug("compiled code failed; its region goes back to NumPy", exc_info=True)
            self.is_off = has_failed = True
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

    def _note_trial(self, entry: _Entry, took: float) -> None:
        entry.compiled_s.append(took)
        if len(entry.compiled_s) == _TRIALS_IF_CLEAR and _is_clearly_faster(entry):
            entry.choice = Choice.COMPILED
        elif len(entry.compiled_s) >= _TRIALS:
            if _usual(entry.compiled_s) < _usual(entry.numpy_s):
                entry.choice = Choice.COMPILED
            else:
                self._leave_to_numpy(entry)

    def _leave_to_numpy(self, entry: _Entry) -> None:
        entry.choice = Choice.NUMPY
        entry.executable = None
        if all(other.choice is Choice.NUMPY for other in self.entries.values()):
            self.is_off = True
            self._set_untried(False)
            self._settled()

    # ---- compiling

    def _new_entry(self, signature: Signature) -> _Entry:
        """Note shapes that are new, and have the region compiled for them."""
        if len(self.entries) >= _MOST_SIGNATURES:
            self._warn_of_shapes(signature)
            return _Entry()
        entry = self.entries[signature] = _Entry(signature)
        return entry

    def compile(self, signature: Signature, entry: _Entry) -> None:
        """Compile for some shapes; what goes wrong leaves the region to NumPy."""
        entry.signature = None
        try:
            executable = jit_compile.compile_region(self.plan, signature)
        except NotCompiledError as error:
            entry.choice = Choice.NUMPY
            if len(self.entries) == 1:
                self._failed(error)
        except Exception:
            _LOGGER.debug("a region stays with NumPy", exc_info=True)
            self._leave_to_numpy(entry)
        else:
            # Those noted while the compiler had a core of its own are no measure.
            entry.numpy_s.clear()
            entry.executable = executable
            entry.choice = Choice.COMPILED if self.is_forced else Choice.TRYING
            self._set_untried(True)
        finally:
            entry.is_done.set()

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


def _compile_if_alive(region: weakref.ref[Region], signature: Signature, entry: _Entry) -> None:
    found = region()
    if found is not None:
        found.compile(signature, entry)


def _holds(executable: Executable, inputs: Sequence[Any]) -> bool:
    """Whether all labels lie in range; otherwise the straight code raises the error."""
    for at, bound in executable.guards:
        labels = inputs[at]
        if labels.size:
            # One reduction finds both bounds: a negative label is huge without its sign.
            unsigned = labels.view(np.uint32 if labels.itemsize == 4 else np.uint64)
            if np.maximum.reduce(unsigned, axis=None) >= bound:
                return False
    return True


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


def _wants_numpy(entry: _Entry) -> bool:
    """Whether NumPy is to be timed before compiled code, or more of it."""
    if len(entry.numpy_s) >= _TRIALS:
        return False
    # Long runs are tried first, as that may be all there is to know.
    is_long = entry.first_s is not None and entry.first_s >= _LONG_RUN_S
    return not is_long or len(entry.compiled_s) >= _TRIALS_IF_CLEAR


def _is_clearly_faster(entry: _Entry) -> bool:
    return entry.first_s is not None and min(entry.compiled_s) <= _CLEARLY_FASTER * entry.first_s


def _usual(times: Sequence[float]) -> float:
    """Return what a run takes that nothing disturbs much: the first ones find cold caches."""
    return sorted(times)[len(times) // 3]
