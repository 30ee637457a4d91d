"""What a program chose between the behaviours of TensorFlow 1 and 2, for the whole process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

# How operands of different types may come to one (tideflow.eager.numpy.behavior).
CONVERSIONS = ("off", "legacy", "safe", "all")


@dataclass
class Behavior:
    """What is as in TensorFlow 2.

    Attributes:
      tensorshape: sizes of a TensorShape are numbers and None, and no Dimension objects.
      tensor_equality: == compares eager tensors and variables by their elements.
      resource_variables: variables are resources where the caller does not say.
      control_flow: branches and loops of plain graphs are functions, as they always are inside of
        functions.
      dtype_conversion: how operands of different types come to one, of CONVERSIONS.
      prefers_float32: Python's floats count as float32 in tf.experimental.numpy.
      index: what `tensor[key]` is instead of slices alone: index(tensor, key).
      operate: what a binary operator does instead of giving its operands one type:
        operate(name, apply, x, y), in which `apply` takes tensors of one type.
      is_deterministic: random operations without any seed are refused.
    """

    tensorshape: bool = True
    tensor_equality: bool = True
    resource_variables: bool = True
    control_flow: bool = False
    dtype_conversion: str = "off"
    prefers_float32: bool = False
    index: Callable[[Any, Any], Any] | None = None
    operate: Callable[[str, Callable[[Any, Any], Any], Any, Any], Any] | None = None
    is_deterministic: bool = False

    @property
    def converts_weakly(self) -> bool:
        """Whether types of Python's numbers give way to those of tensors."""
        return self.dtype_conversion in ("safe", "all")


behavior = Behavior()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let choices made inside end with it."""
    before = replace(behavior)
    try:
        yield
    finally:
        vars(behavior).update(vars(before))
