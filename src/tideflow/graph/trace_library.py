"""Libraries of functions that end with what uses them.

A program traces functions without end, so its library must not hold them.  All are known by name;
what was traced holds the functions that it names, and each of these the trace that it is of.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any


class TraceLibrary(MutableMapping[str, Any]):
    """The functions of one trace (or, without `outer`, of the whole program), by name.

    A library keeps the functions that are set.  A trace's library also keeps the functions that are
    looked up, and iterates over these only.  The program's library finds every function that
    something in the program keeps alive.

    Args:
      outer: the library of the graph that is being built around the trace; it outlives the trace.

    Attributes:
      known: all functions of the program, none of them held.
    """

    def __init__(self, outer: TraceLibrary | None = None) -> None:
        self._outer = outer
        self._held: dict[str, Any] = {}
        self.known: weakref.WeakValueDictionary[str, Any] = (
            weakref.WeakValueDictionary() if outer is None else outer.known
        )

    def __getitem__(self, name: str) -> Any:
        found = self._held.get(name)
        if found is None:
            found = self.known[name]
            if self._outer is not None:
                self._held[name] = found
        return found

    def __setitem__(self, name: str, function: Any) -> None:
        self._held[name] = self.known[name] = function

    def __delitem__(self, name: str) -> None:
        del self.known[name]
        self._held.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.known if self._outer is None else self._held))

    def __len__(self) -> int:
        return len(self.known if self._outer is None else self._held)

    def keep(self, name: str) -> None:
        """Hold a function in `outer`, too, for a caller that may outlive the trace."""
        if self._outer is not None:
            self._outer[name] = self[name]
