"""Calls that may be bad ones: how they end on TensorFlow, and whether they end alike here.

TensorFlow runs in a process of its own, because some of its kernels end it on bad input (see
tensorflow_calls.py).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tideflow.v1 as ours
from ops import compared
from ops.outcomes import ABORTED, REFUSED, Call, Outcome, outcome
from ops.spoilt_programs import Program

Ask = Callable[[list[Call]], list[Outcome]]


@contextmanager
def asking_tensorflow() -> Iterator[Ask]:
    """Give a function that tells how calls end on TensorFlow."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("tensorflow_calls.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Kernels of oneDNN answer bad input with ABORTED, or end the process.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TF_ENABLE_ONEDNN_OPTS": "0",
        },
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(calls: list[Call]) -> list[Outcome]:
            pickle.dump(calls, process.stdin)
            process.stdin.flush()
            found: list[Outcome] = pickle.load(process.stdout)
            return found

        yield ask
        process.kill()


def differences(
    names: Sequence[str], calls: Sequence[Call], theirs: Sequence[Outcome]
) -> dict[str, str]:
    """Run calls here, and return by name those that end otherwise than on TensorFlow.

    What agrees is recorded.  Left out: calls that cannot be put to TensorFlow, or that end it.
    """
    different = {}
    for name, call, other in zip(names, calls, theirs, strict=True):
        if other is None or other == ABORTED or other == "ResourceExhaustedError":
            continue
        with np.errstate(all="ignore"):
            mine = outcome(ours, call)
        if _code(mine) != _code(other):
            different[name] = f"{_code(mine)}, TensorFlow: {_code(other)}"
        elif isinstance(mine, str):
            compared.refused(call.op)
        elif not _same(mine, other):  # type: ignore[arg-type]
            different[name] = f"{mine}, TensorFlow: {other}"
    return different


def program_differences(
    made: Sequence[tuple[str, Program]], theirs: Sequence[Any]
) -> dict[str, str]:
    """Run programs here, and return by name those that end otherwise than on TensorFlow."""
    different = {}
    for (name, program), other in zip(made, theirs, strict=True):
        if other is None or other == ABORTED:
            continue
        with np.errstate(all="ignore"):
            mine = program.end(ours)
        failures = _failure(mine), _failure(other)
        alike = failures[0] == failures[1] and len(mine) == len(other)
        if not alike or not _same(*(x[:-1] if _failure(x) else x for x in (mine, other))):
            different[name] = f"{mine}, TensorFlow: {other}"
        elif failures[0] not in ("", "OutOfRangeError"):
            compared.refused(program.op)
    return different


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
