"""Classes that are shown under names of another library, and where they really are."""

from __future__ import annotations

_own: dict[type, tuple[str, str]] = {}


def show_as(kind: type, module: str, name: str) -> None:
    """Let a class give another module and name as its own."""
    _own.setdefault(kind, (kind.__module__, kind.__qualname__))
    kind.__module__ = module
    kind.__name__ = kind.__qualname__ = name


def own_name(kind: type) -> str | None:
    """Return where a class that is shown elsewhere is, as `module:name`; None for other classes."""
    return ":".join(_own[kind]) if kind in _own else None
