"""How values of several replicas become one."""

from __future__ import annotations

import enum
from typing import Any

from tideflow.ops.export import export_v2


@export_v2("distribute.ReduceOp")
class ReduceOp(enum.Enum):
    """Sum or mean."""

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, value: Any) -> ReduceOp:
        """Return the member that a member or a string of any case names.  Raises: ValueError."""
        if isinstance(value, ReduceOp):
            return value
        name = str(getattr(value, "value", value)).upper()
        if name not in cls.__members__:
            raise ValueError(f"{value!r} is not a valid ReduceOp; use 'SUM' or 'MEAN'")
        return cls[name]
