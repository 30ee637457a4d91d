"""Names of operations: scopes for them, and names that nobody has yet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

_VALID_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class NameScopes:
    """The names that are taken in a graph, and the name scope in force."""

    def __init__(self) -> None:
        self._used_names: dict[str, int] = {}
        self._scope = ""

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name under the scope in force that no operation has yet."""
        if not (_VALID_SCOPE if self._scope else _VALID_NAME).match(name):
            raise ValueError(
                f"{name!r} is no valid operation name; use letters, digits and . _ / - and begin "
                "with a letter, digit or ."
            )
        return self._unique(f"{self._scope}/{name}" if self._scope else name, mark_as_used)

    def _unique(self, full: str, mark_as_used: bool = True) -> str:
        key = full.lower()
        count = self._used_names.get(key, 0)
        if mark_as_used:
            self._used_names[key] = count + 1
        if not count:
            return full
        while True:
            candidate = f"{full}_{count}"
            if candidate.lower() not in self._used_names:
                break
            count += 1
        if mark_as_used:
            self._used_names[key] = count + 1
            self._used_names[candidate.lower()] = 1
        return candidate

    def mark_name_used(self, name: str) -> None:
        """Keep later operations from taking a name (of an imported operation, say)."""
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            self._used_names.setdefault("/".join(parts[:end]).lower(), 1)

    @property
    def current_name_scope(self) -> str:
        """Full name of the name scope in force, "" outside of any."""
        return self._scope

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put new names below a scope; yields the scope's prefix with its slash.

        A name that ends in "/" is the full scope to (re-)enter; None or "" is the root.
        """
        if name and not (_VALID_SCOPE if self._scope else _VALID_NAME).match(name):
            raise ValueError(f"{name!r} is no valid scope name")
        previous = self._scope
        if not name:
            self._scope = ""
        elif name.endswith("/"):
            self._scope = name[:-1]
        else:
            self._scope = self.unique_name(name)
        try:
            yield self._scope + "/" if self._scope else ""
        finally:
            self._scope = previous

    def get_name_scope(self) -> str:
        """Return the scope in force, without its slash."""
        return self._scope
