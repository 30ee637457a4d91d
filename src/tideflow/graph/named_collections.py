"""Named collections of a graph: lists of whatever programs put there, such as variables."""

from __future__ import annotations

import re
from typing import Any


class NamedCollections:
    """Lists of values by name."""

    def __init__(self) -> None:
        self._collections: dict[str, list[Any]] = {}

    def add_to_collection(self, name: str, value: Any) -> None:
        """Append a value to a named collection."""
        self._collections.setdefault(name, []).append(value)

    @property
    def collections(self) -> list[str]:
        """The names of the collections, empty ones too."""
        return list(self._collections)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append a value to several named collections."""
        for name in [names] if isinstance(names, str) else set(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: str) -> list[Any]:
        """Return the collection itself, to be changed in place."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Return a copy of a collection, or its members whose names match a scope."""
        members = self._collections.get(name, [])
        if scope is None:
            return list(members)
        pattern = re.compile(scope)
        return [m for m in members if hasattr(m, "name") and pattern.match(m.name)]

    def get_all_collection_keys(self) -> list[str]:
        """Return the names of collections that have members."""
        return [name for name, members in self._collections.items() if members]

    def clear_collection(self, name: str) -> None:
        """Empty a collection."""
        self._collections.pop(name, None)
