"""Names of operations and scopes: which are valid, and which nobody has yet."""

from __future__ import annotations

import re

_VALID_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


def require_name(name: str, is_inside: bool) -> None:
    """Refuse what is no name of an operation.

    is_inside: a scope of names, where more may begin a name.
    Raises: ValueError.
    """
    if not (_VALID_SCOPE if is_inside else _VALID_NAME).match(name):
        raise ValueError(
            f"{name!r} is no valid operation name; use letters, digits and . _ / - and begin "
            "with a letter, digit or ."
        )


def require_scope_name(name: str, is_inside: bool) -> None:
    """Refuse what is no name of a scope; as of require_name."""
    if not (_VALID_SCOPE if is_inside else _VALID_NAME).match(name):
        raise ValueError(f"{name!r} is no valid scope name")


class TakenNames:
    """The names that are taken in a graph, whatever their case."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def unique(self, full: str, mark_as_used: bool = True) -> str:
        """Return a name, or one like it with a number behind it, that is not taken yet."""
        key = full.lower()
        count = self._used.get(key, 0)
        if mark_as_used:
            self._used[key] = count + 1
        if not count:
            return full
        while True:
            candidate = f"{full}_{count}"
            if candidate.lower() not in self._used:
                break
            count += 1
        if mark_as_used:
            self._used[key] = count + 1
            self._used[candidate.lower()] = 1
        return candidate

    def take(self, name: str) -> None:
        """Keep later operations from taking a name (of an imported operation, say)."""
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            self._used.setdefault("/".join(parts[:end]).lower(), 1)
