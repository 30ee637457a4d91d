"""How mutated calls end on TensorFlow, and whether they end alike here.

TensorFlow runs in a process of its own, because some of its kernels end it on bad input (see
tensorflow_process.py).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import tideflow.v1 as ours
from ops import compared
from ops.bad_inputs.known_differences import known_differences
from ops.bad_inputs.programs import Program
from ops.outcomes import ABORTED, REFUSED, Call, Outcome, outcome

# How long TensorFlow may take for a call.  Those of the known differences that never end there need
# not be waited for so long.
LIMIT_S = 10
LIMIT_OF_KNOWN_S = 2

# Memory is filled when it is allotted: what a kernel of TensorFlow leaves as it was is then always
# the same, and never what the answer should be by chance.
_FILLED_MEMORY = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"


# How often TensorFlow is asked again, each time in a new process, about what is not as listed.
_MORE_TRIES = 2


class Ask(Protocol):
    """Tells how calls or programs end on TensorFlow.

    is_fresh: whether in a process in which nothing has run before.
    """

    def __call__(
        self, calls: Sequence[Any], limit_s: int = LIMIT_S, *, is_fresh: bool = False
    ) -> list[Any]: ...


@contextmanager
def asking_tensorflow(*, has_onednn: bool = False) -> Iterator[Ask]:
    """Give a function that tells how calls end on TensorFlow, with kernels of oneDNN or without.

    These answer bad input with ABORTED, or end the process.
    """
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("tensorflow_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TF_ENABLE_ONEDNN_OPTS": str(int(has_onednn)),
            "GLIBC_TUNABLES": _FILLED_MEMORY,
        },
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(
            calls: Sequence[Any], limit_s: int = LIMIT_S, *, is_fresh: bool = False
        ) -> list[Any]:
            pickle.dump((list(calls), limit_s, is_fresh), process.stdin)
            process.stdin.flush()
            found: list[Any] = pickle.load(process.stdout)
            return found

        yield ask
        process.kill()


def check_ends_alike(ask: Ask, name: str, mutations: Sequence[tuple[str, Call | Program]]) -> None:
    """Check that the mutations of a call or program end as on TensorFlow, but for those known.

    Those of the known differences run too, and must end otherwise here than there.  What ends now
    so, now otherwise on TensorFlow, whose kernel then reads memory of others, is not judged.
    """
    known = known_differences(name)
    made = dict(mutations)
    gone = [what for what in known if what not in made]
    assert not gone, f"{name} has no such mutations: take them from the list: {gone}"
    unknown = [what for what in made if what not in known]
    ends = {
        **dict(zip(unknown, ask([made[what] for what in unknown]), strict=True)),
        **dict(zip(known, ask([made[what] for what in known], LIMIT_OF_KNOWN_S), strict=True)),
    }
    different = {}
    for what, theirs in ends.items():
        text = _difference(made[what], theirs)
        if text and not (theirs == ABORTED and what not in known):
            different[what] = text
    surprising = [what for what in ends if (what in different) != (what in known)]
    settled = [what for what in surprising if _is_settled(ask, made[what], ends[what])]
    new = {what: different[what] for what in settled if what in different}
    assert not new, f"{name} ends otherwise than on TensorFlow: {new}"
    alike = [what for what in settled if what in known]
    assert not alike, f"{name} ends alike by now: take these from the list: {alike}"


def _is_settled(ask: Ask, made: Call | Program, theirs: Any) -> bool:
    """Whether a call or program ends in the same way on TensorFlow each time."""
    again = (ask([made], LIMIT_OF_KNOWN_S, is_fresh=True)[0] for _ in range(_MORE_TRIES))
    return all(_ends_same(theirs, other) for other in again)


def _ends_same(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list):
        return bool(one == other)
    values = [[x for x in ended if not isinstance(x, str)] for ended in (one, other)]
    return (
        _failure(one) == _failure(other)
        and len(values[0]) == len(values[1])
        and _same(values[0], values[1])
    )


def _difference(made: Call | Program, theirs: Any) -> str:
    """Run a call or program, and return how its end differs from TensorFlow's, if it does.

    What agrees is recorded.  What TensorFlow's client could not be given, or what was too much for
    its memory, is not compared; what ended its process must end here with an answer or an error.
    """
    if theirs is None or theirs == "ResourceExhaustedError":
        return ""
    with np.errstate(all="ignore"):
        if isinstance(made, Program):
            return _program_difference(made, made.end(ours), theirs)
        return _call_difference(made, outcome(ours, made), theirs)


def _call_difference(call: Call, mine: Any, theirs: Any) -> str:
    if _code(mine) != _code(theirs):
        return f"{_code(mine)}, TensorFlow: {_code(theirs)}"
    if isinstance(mine, str):
        compared.refused(call.op)
    elif not _same(mine, theirs):
        return f"{mine}, TensorFlow: {theirs}"
    return ""


def _program_difference(program: Program, mine: list[Any], theirs: Any) -> str:
    text = f"{mine}, TensorFlow: {theirs}"
    if theirs == ABORTED:
        return text
    failures = _failure(mine), _failure(theirs)
    if failures[0] != failures[1] or len(mine) != len(theirs):
        return text
    if not _same(*(x[:-1] if _failure(x) else x for x in (mine, theirs))):
        return text
    if failures[0] not in ("", "OutOfRangeError"):
        compared.refused(program.op)
    return ""


def _failure(ended: list[Any]) -> str:
    """Return the name of the error that a program ended with, or nothing."""
    return ended[-1] if ended and isinstance(ended[-1], str) else ""


def _code(ended: Outcome) -> str:
    if not isinstance(ended, str):
        return "answered"
    return "InvalidArgumentError" if ended == REFUSED else ended


def _same(mine: list[Any], theirs: list[Any]) -> bool:
    for x, y in zip(mine, theirs, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.dtype.kind in "OSU":
            if x.tolist() != y.tolist():
                return False
        elif not _close(x, y).all():
            return False
    return True


def _close(x: Any, y: Any) -> Any:
    """Return where numbers agree; of complex ones, an infinite part does not hide the other."""
    found = _is_near(x, y)
    if x.dtype.kind == "c":
        found |= _is_near(x.real, y.real) & _is_near(x.imag, y.imag)
    return found


def _is_near(x: Any, y: Any) -> Any:
    return np.isclose(x.astype(complex), y.astype(complex), rtol=1e-2, atol=1e-3, equal_nan=True)
