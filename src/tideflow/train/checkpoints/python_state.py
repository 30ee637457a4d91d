"""Objects of Python among those of a checkpoint."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.ops.export import export
from tideflow.ops.framework import SavedPart, Trackable
from tideflow.wire import dtypes


@export("train.experimental.PythonState")
class PythonState(Trackable, abc.ABC):
    """What a checkpoint saves and restores of an object of Python: bytes, by two methods."""

    # What it is called in messages.
    name = "py_state"

    @abc.abstractmethod
    def serialize(self) -> bytes | str:
        """Return the state."""

    @abc.abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Take over a state that serialize() returned."""

    @cached_property
    def saved_parts(self) -> Sequence[SavedPart]:
        """Its one tensor."""
        return [SavedPart(self, self.name, "", dtypes.string, self._read)]

    def _read(self) -> Any:
        return convert_to_tensor(self.serialize(), dtypes.string)

    def restore_parts(self, values: Sequence[Any]) -> None:
        """Take over the state of a checkpoint."""
        self.deserialize(np.asarray(values[0]).item())
