"""Values of objects that say themselves what tensors they have, as libraries' variables do.

Source: tensorflow/python/trackable/base.py, checkpoint/save_util.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.framework import SavedPart, Trackable
from tideflow.ops.state import Variable


class SerializedPart(SavedPart):
    """One tensor of an object that gives its own tensors.

    Args:
      source: what stands for the tensor: one, a function that gives one, or a variable.
      received: the values that all parts of the object have got so far, by name.
      wanted: how many there are.
    """

    def __init__(
        self, owner: Any, attribute: str, source: Any, received: dict[str, Any], wanted: int
    ) -> None:
        held = source if _is_variable(source) else _reading(source)()
        super().__init__(owner, attribute, "", held.dtype, _reading(source))
        if _is_variable(source):
            self.shape = source.shape
        self.device = getattr(held, "device", "")
        self._whole = owner
        self._source = source
        self._received = received
        self._wanted = wanted

    @property
    def is_sharded_variable(self) -> bool:
        """Whether it is a variable in parts."""
        return bool(getattr(self._source, "is_sharded_variable", False))

    @property
    def variables(self) -> list[Any]:
        """The parts of a variable in parts."""
        return list(self._source.variables)

    @property
    def name(self) -> str:
        """The name without checkpoints of objects: that of the variable within, if there is one."""
        named = getattr(self._source, "name", None) if _is_variable(self._source) else None
        return str(named or self.attribute)

    def assign(self, value: Any) -> None:
        """Take the value; the object takes those of all its parts together."""
        self._received[self.attribute] = value
        if len(self._received) == self._wanted:
            self._whole._restore_from_tensors(dict(self._received))
            self._received.clear()


def serialized_parts(thing: Trackable) -> list[SavedPart]:
    """Return the tensors that an object says to have; none where it says nothing."""
    if type(thing)._serialize_to_tensors is Trackable._serialize_to_tensors:
        return []
    try:
        given = thing._serialize_to_tensors()
    except NotImplementedError:
        return []
    received: dict[str, Any] = {}
    return [SerializedPart(thing, name, one, received, len(given)) for name, one in given.items()]


def _is_variable(source: Any) -> bool:
    return isinstance(source, Variable) or getattr(source, "is_sharded_variable", False)


def _reading(source: Any) -> Callable[[], Tensor]:
    if isinstance(source, Variable):
        read: Callable[[], Tensor] = source.read_value
        return read
    return lambda: convert_to_tensor(source() if callable(source) else source)
