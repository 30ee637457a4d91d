"""`tf.name_scope` of the TF2 shape: an object that knows its name and can be entered again."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2


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
