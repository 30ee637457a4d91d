"""What a program chose between the behaviours of TensorFlow 1 and 2, for the whole process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass
class Behavior:
    """What is as in TensorFlow 2.

    Attributes:
      tensorshape: sizes of a TensorShape are numbers and None, and no Dimension objects.
      tensor_equality: == compares eager tensors and variables by their elements.
      resource_variables: variables are resources where the caller does not say.
      control_flow: branches and loops of plain graphs are functions, as they always are inside of
        functions.
    """

    tensorshape: bool = True
    tensor_equality: bool = True
    resource_variables: bool = True
    control_flow: bool = False


behavior = Behavior()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let choices made inside end with it."""
    before = replace(behavior)
    try:
        yield
    finally:
        vars(behavior).update(vars(before))
