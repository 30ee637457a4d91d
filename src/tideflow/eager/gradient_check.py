"""tf.test: gradients beside differences, and what the library was made for."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.backprop import GradientTape
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export, export_v2


@export_v2("test.compute_gradient")
def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[Any, Any]:
    """Return the Jacobians of a function to its arguments twice: by a tape, and by differences.

    Args:
      f: gives one tensor of floats or complex numbers for as many tensors as x has.
      x: the arguments at which to differentiate.
      delta: how far to go to both sides for a difference (1 / 1024).
    Returns: two tuples of arrays [elements of the result, elements of the argument]; the real and
    the imaginary part of a complex number count as two.
    Raises: ValueError for an x that is no list.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(f"x must be a list or tuple of the arguments; found {type(x).__name__}")
    arguments = [convert_to_tensor(value) for value in x]
    step = 1.0 / 1024 if delta is None else delta
    by_tape = tuple(_by_tape(f, arguments, at) for at in range(len(arguments)))
    return by_tape, tuple(_by_differences(f, arguments, at, step) for at in range(len(arguments)))


def _real(array: Any) -> Any:
    """Return the elements of an array in a row; of complex numbers both parts, as a view."""
    return array.reshape(-1).view(array.real.dtype)


def _by_tape(f: Callable[..., Any], arguments: list[Tensor], at: int) -> Any:
    x = arguments[at]
    with GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = convert_to_tensor(f(*arguments))
    seed = np.zeros_like(np.array(y))
    rows = _real(seed)
    count = _real(np.array(x)).size
    found = np.zeros((rows.size, count), x.dtype.real_dtype.as_numpy_dtype)
    for row in range(rows.size):
        rows[row] = 1
        grad = tape.gradient(y, x, output_gradients=convert_to_tensor(seed.copy()))
        if grad is not None:
            found[row] = _real(np.array(convert_to_tensor(grad)))
        rows[row] = 0
    return found


def _by_differences(f: Callable[..., Any], arguments: list[Tensor], at: int, step: float) -> Any:
    given = [np.array(x) for x in arguments]
    moved = _real(given[at])

    def result() -> Any:
        return np.array(convert_to_tensor(f(*map(convert_to_tensor, given))))

    columns = []
    for column in range(moved.size):
        before = moved[column]
        moved[column] = before + step
        above = result()
        moved[column] = before - step
        below = result()
        moved[column] = before
        columns.append(_real((above - below) / above.real.dtype.type(2 * step)))
    empty = np.zeros((0, _real(result()).size))
    return np.array(columns or empty, moved.dtype).T


@export("test.is_built_with_xla")
def is_built_with_xla() -> bool:
    """Return True: XLA compiles for all devices."""
    return True


_KNOWN_TARGETS = ("aarch64", "arm", "ppc", "s390x", "x86")
# What LLVM calls the kinds of machines that Python names otherwise.
_TARGETS = {"x86_64": "x86", "amd64": "x86", "arm64": "aarch64"}


@export("test.is_cpu_target_available")
def is_cpu_target_available(target: str) -> bool:
    """Return whether code is compiled for a kind of machine, such as "x86": this one's alone.

    Raises: AssertionError for a kind that is not known.
    """
    if target not in _KNOWN_TARGETS:
        raise AssertionError(f"Unknown CPU target: {target}")
    machine = platform.machine().lower()
    return target == _TARGETS.get(machine, machine)
