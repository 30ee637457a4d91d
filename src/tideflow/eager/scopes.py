"""`tf.name_scope` and `tf.device` of the TF2 shape."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2

_SHORT = re.compile("/?(cpu|gpu|tpu)(:[0-9]+)?", re.IGNORECASE)


def device_of(name: Any) -> Any:
    """Return a device as graphs take it: `cpu` alone stands for the first one."""
    short = _SHORT.fullmatch(name) if isinstance(name, str) else None
    return name if short is None else f"/device:{short[1].upper()}{short[2] or ':0'}"


@export_v2("device")
def device(device_name: Any) -> AbstractContextManager[Any]:
    """Ask for a device for operations made inside `with`; see Graph.device.

    Where the task has none of that name, the first one serves; see
    tf.config.set_soft_device_placement.
    """
    return get_default_graph().device(device_of(device_name))


@export_v2("name_scope")
class NameScope:
    """Puts the names of operations and variables made inside `with` below a scope.

    `with` gives the full prefix, such as "outer/inner/".
    Raises: ValueError for a name that is no string.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError(f"the name of a name scope must be a string; found {name!r}")
        self._name = name
        self._entered: list[AbstractContextManager[Any]] = []

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    def __enter__(self) -> str:
        scope = get_default_graph().name_scope(self._name)
        found: str = scope.__enter__()
        self._entered.append(scope)
        return found

    def __exit__(self, *exc: Any) -> bool | None:
        return self._entered.pop().__exit__(*exc)
