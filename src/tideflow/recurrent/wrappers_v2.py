"""Cells made of cells in the TF2 shape: those of TF1, whose state may begin by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export_v2
from tideflow.recurrent import wrappers


class _StartsItself:
    """Asks the cell inside how its state begins."""

    cell: Any

    def call(self, inputs: Any, state: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the output and the next state."""
        made: tuple[Any, Any] = self(inputs, state, **kwargs)  # type: ignore[operator]
        return made

    def build(self, inputs_shape: Any) -> None:
        """Make the variables of the cell inside for inputs of a shape."""
        self.cell.build(inputs_shape)
        self.built = True

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """Return the wrapper of a config, in which `cell` is the cell or its class and config.

        custom_objects: classes of cells by name.
        Raises: ValueError for a class that is not among them.
        """
        given = dict(config)
        inner = given.pop("cell")
        if isinstance(inner, Mapping):
            kind = (custom_objects or {}).get(inner["class_name"])
            if kind is None:
                raise ValueError(f"custom_objects has no class {inner['class_name']!r}")
            inner = kind.from_config(inner["config"])
        return cls(inner, **given)  # type: ignore[call-arg]

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: DTypeLike | None = None
    ) -> Any:
        """Return the state before the first step, as the cell inside says."""
        return self.cell.get_initial_state(inputs=inputs, batch_size=batch_size, dtype=dtype)


@export_v2("nn.RNNCellDropoutWrapper")
class RNNCellDropoutWrapper(_StartsItself, wrappers.DropoutWrapper):
    """A cell whose inputs, outputs and states lose a random share of their elements."""


@export_v2("nn.RNNCellResidualWrapper")
class RNNCellResidualWrapper(_StartsItself, wrappers.ResidualWrapper):
    """A cell whose inputs are added to its outputs."""


@export_v2("nn.RNNCellDeviceWrapper")
class RNNCellDeviceWrapper(_StartsItself, wrappers.DeviceWrapper):
    """A cell that runs on a device."""
