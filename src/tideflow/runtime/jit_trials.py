"""Which of the two tiers runs a region for one set of shapes: what was timed, and what follows.

Nothing here runs or compiles anything; regions tell what they took.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Sequence

from tideflow.blocking import StopFlag
from tideflow.platform import clock
from tideflow.runtime import jit_thread
from tideflow.runtime.jaxlib_internals import Signature
from tideflow.runtime.jit_compile import Executable

# NumPy is timed so often before the compiler is asked; once where a run is long.
_EARLY_RUNS = 2
# Each tier is timed so often before the faster one is chosen.
_TRIALS = 9
# Compiled code that takes so much less than NumPy is chosen after so many runs.
_CLEARLY_FASTER = 0.6
_TRIALS_IF_CLEAR = 3
# Runs beside the compiler are timed after all when there have been so many.
_MOST_DISTURBED = 100
# From so long a run on, one step waits for the compiler, which is done sooner when steps leave it
# the cores and the interpreter: for as long as so many runs take.
LONG_RUN_S = 3e-3
_MOST_WAIT_RUNS = 200
# How often who waits looks whether the step goes on.
_LOOK_S = 0.02


class Choice(enum.Enum):
    """What runs a region for one set of shapes."""

    COMPILING = "compiling"
    TRYING = "trying"
    COMPILED = "compiled"
    NUMPY = "numpy"


class Trial:
    """What is known of a region for one set of shapes; any thread may use it.

    Attributes:
      signature: the shapes; None for shapes that are not compiled.
      choice: what runs the region.
      executable: the compiled code, once it is there.
      may_wait: whether a step is to wait until it is there.
      is_awaited: whether a step of its program waits, or may.
      bounds: how often loops of the code may go round.
    """

    __slots__ = (
        "_disturbed", "_early_s", "_has_run_enough", "_is_asked", "_is_done", "_lock", "_ran_s",
        "bounds", "choice", "compiled_s", "executable", "is_awaited", "may_wait", "numpy_s",
        "signature",
    )  # fmt: skip

    def __init__(self, signature: Signature | None = None) -> None:
        self.choice = Choice.COMPILING
        self.signature = signature
        self.executable: Executable | None = None
        self.may_wait = False
        self.is_awaited = False
        self.bounds: tuple[int, ...] = ()
        self.compiled_s: list[float] = []
        self.numpy_s: list[float] = []
        # Of runs before the compiler was asked for this.
        self._early_s: list[float] = []
        self._is_asked = False
        # Runs that were not timed, as the compiler worked beside them.
        self._disturbed = 0
        # Of runs of code that may be improved.
        self._ran_s = 0.0
        self._has_run_enough = False
        self._is_done = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_untried(self) -> bool:
        """Whether the next run may take longer than those before tell."""
        is_new = self.choice is Choice.TRYING and not self.compiled_s
        return is_new or self.may_wait or (self.is_due and self._is_long)

    @property
    def is_due(self) -> bool:
        """Whether the next run is to ask the compiler.  Who never runs again asks for nothing."""
        if self.signature is None or self.choice is not Choice.COMPILING or self._is_asked:
            return False
        enough = 1 if self._is_long else _EARLY_RUNS
        return len(self._early_s) >= enough

    @property
    def wants_numpy(self) -> bool:
        """Whether NumPy is to be timed before compiled code, or more of it."""
        if self.choice is not Choice.TRYING or len(self.numpy_s) >= _TRIALS:
            return False
        # Long runs are tried first, as that may be all there is to know.
        return not self._is_long or len(self.compiled_s) >= _TRIALS_IF_CLEAR

    @property
    def _is_long(self) -> bool:
        return bool(self._early_s) and min(self._early_s) >= LONG_RUN_S

    def claim(self) -> bool:
        """Whether who calls is the first one that may ask the compiler."""
        with self._lock:
            if self.signature is None or self._is_asked:
                return False
            self._is_asked = True
            return True

    def note_asked(self, *, can_wait: bool) -> None:
        """Take note that the compiler is asked by a step; it waits if it can, and is long."""
        self.may_wait = can_wait and self._is_long

    def note_numpy(self, took_s: float, *, is_disturbed: bool = False) -> None:
        """Take note of a run with NumPy.  is_disturbed: the compiler worked beside it."""
        if len(self.numpy_s) < _TRIALS and not self._leaves_out(is_disturbed):
            self.numpy_s.append(took_s)
        if self.choice is Choice.COMPILING and not self._is_asked:
            self._early_s.append(took_s)

    def note_made(self, executable: Executable, *, is_forced: bool) -> None:
        """Take note of compiled code.  is_forced: it is not compared with NumPy."""
        # Those noted while the compiler had a core of its own are no measure.
        self.numpy_s.clear()
        self._disturbed = 0
        self.executable = executable
        self.choice = Choice.COMPILED if is_forced else Choice.TRYING

    def note_improved(self, executable: Executable) -> None:
        """Take note of better code in the place of what ran, and try both tiers anew."""
        with self._lock:
            self.compiled_s.clear()
            self.note_made(executable, is_forced=False)

    def leave_to_numpy(self) -> None:
        """Choose NumPy for good."""
        self.choice = Choice.NUMPY
        self.executable = None

    def note_done(self) -> None:
        """End the waits: there is compiled code, or there will be none."""
        self._is_done.set()

    def note_compiled(self, took_s: float, *, is_disturbed: bool = False) -> Choice | None:
        """Take note of a run of compiled code; return the choice where one has been made.

        is_disturbed: the compiler worked beside it, for other code.
        """
        with self._lock:
            # The first one tells that the code has been called.
            if self.compiled_s and self._leaves_out(is_disturbed):
                return None
            self.compiled_s.append(took_s)
            if len(self.compiled_s) == _TRIALS_IF_CLEAR and self._is_clearly_faster:
                self.choice = Choice.COMPILED
            elif len(self.compiled_s) >= _TRIALS:
                self.choice = Choice.COMPILED if self._is_faster else Choice.NUMPY
            else:
                return None
            return self.choice

    def _leaves_out(self, is_disturbed: bool) -> bool:
        """Whether a run is not to be timed: NumPy's would be compared with one that had the
        processors for itself, or the other way round."""
        if not is_disturbed or self._disturbed >= _MOST_DISTURBED:
            return False
        self._disturbed += 1
        return True

    def note_run(self, took_s: float, enough_s: float) -> bool:
        """Take note of a run of compiled code; return whether this one makes it enough in all."""
        with self._lock:
            self._ran_s += took_s
            if self._has_run_enough or self._ran_s < enough_s:
                return False
            self._has_run_enough = True
            return True

    @property
    def _is_faster(self) -> bool:
        # Of code to begin with it says little that NumPy is faster: better code comes.
        begins = self.executable is not None and self.executable.is_interim
        return begins or _usual(self.compiled_s) < _usual(self.numpy_s)

    @property
    def _is_clearly_faster(self) -> bool:
        numpy_s = [*self._early_s, *self.numpy_s]
        return bool(numpy_s) and min(self.compiled_s) <= _CLEARLY_FASTER * min(numpy_s)

    def wait(self, step: StopFlag) -> None:
        """Wait until there is compiled code, for as long as the step may; only one step does.

        Raises: Stopped.
        """
        with self._lock:
            if not self.may_wait:
                return
            self.may_wait = False
        started = clock.monotonic_s()
        most_s = min(step.may_wait_s, _MOST_WAIT_RUNS * min(self._early_s))
        until = started + most_s
        try:
            while clock.monotonic_s() < until and not self._is_done.wait(_LOOK_S):
                step.check()
                if jit_thread.is_leaving():
                    return
        finally:
            step.may_wait_s -= clock.monotonic_s() - started


def _usual(times: Sequence[float]) -> float:
    """Return what a run takes that nothing disturbs much: the first ones find cold caches."""
    return sorted(times)[len(times) // 3]
