"""Where converted code is: in which function, and in how many loops of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tideflow.eager.autograph.malt_library import LibraryScope
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor


class _Scopes(threading.local):
    """What this thread builds.

    Attributes:
      loops: how many While ops around are being built for the innermost function.
    """

    def __init__(self) -> None:
        self.loops = 0


scopes = _Scopes()


@contextmanager
def in_loop() -> Iterator[None]:
    """Build the body of a While op."""
    scopes.loops += 1
    try:
        yield
    finally:
        scopes.loops -= 1


class FunctionScope(LibraryScope):  # type: ignore[misc]
    """One converted function while it is built."""

    def __enter__(self) -> Any:
        self._loops, scopes.loops = scopes.loops, 0
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        scopes.loops = self._loops

    def ret(self, value: Any, did_return: Any) -> Any:
        """Return the function's result.

        Where a loop decided whether it returns, it is an error when run that it did not.
        """
        if isinstance(did_return, Tensor) and not did_return.graph.is_eager:
            message = f"{self.function_name!r} returned in no iteration, and not behind its loop"
            apply_op("Assert", did_return, [message])
        return super().ret(value, did_return)

    def __init__(self, function_name: str, scope_name: str, options: Any) -> None:
        super().__init__(function_name, scope_name, options)
        self.function_name = function_name
