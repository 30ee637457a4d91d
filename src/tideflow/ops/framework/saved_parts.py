"""Values of objects that are no variables, such as tables, as checkpoints hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tideflow.graph.shapes import TensorShape
from tideflow.wire.dtypes import DType


class Saved(Protocol):
    """An object whose value is several tensors.

    Attributes: name; saved_parts, in a fixed order.
    """

    name: str

    @property
    def saved_parts(self) -> Sequence[SavedPart]:
        """Its tensors."""

    def restore_parts(self, values: Sequence[Any]) -> Any:
        """Take values for all parts, in their order; in a graph, return the operation for it."""


class SavedPart:
    """One tensor of an object.

    Args:
      owner: the object.
      attribute: its name in checkpoints of objects.
      suffix: what follows the object's name in checkpoints of names.
      read: gives the tensor.
    """

    def __init__(
        self, owner: Saved, attribute: str, suffix: str, dtype: DType, read: Callable[[], Any]
    ) -> None:
        self.owner = owner
        self.attribute = attribute
        self.suffix = suffix
        self.dtype = dtype
        self.shape = TensorShape(None)
        self.device = ""
        self.read_value = read
        self._given: Any = None

    @property
    def name(self) -> str:
        """The key in a checkpoint of names."""
        return f"{self.owner.name}{self.suffix}"

    def assign(self, value: Any) -> None:
        """Take the value; the object takes those of all its parts together."""
        self._given = value
        parts = self.owner.saved_parts
        if all(part._given is not None for part in parts):
            values = [part._given for part in parts]
            for part in parts:
                part._given = None
            self.owner.restore_parts(values)
