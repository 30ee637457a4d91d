"""The list of tutorials, what they are given, and how what they find is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

TUTORIALS: dict[str, Callable[[Any, Place], Any]] = {}

# A step that takes longer has hung.
STEP_TIMEOUT_MS = 20_000


def tutorial(run: Callable[[Any, Place], Any]) -> Callable[[Any, Place], Any]:
    """Add a function to the tutorials."""
    TUTORIALS[run.__name__] = run
    return run


class Place:
    """Where a tutorial runs.

    Attributes:
      target: of its sessions; "" for the process.
    """

    def __init__(self, tf: Any, target: str) -> None:
        self.tf = tf
        self.target = target

    def config(self, **options: Any) -> Any:
        """Return a ConfigProto under which no step hangs, and state is the session's own."""
        options.setdefault("operation_timeout_in_ms", STEP_TIMEOUT_MS)
        if self.target:
            options.setdefault("isolate_session_state", True)
        return self.tf.ConfigProto(**options)

    def session(self, **options: Any) -> Any:
        return self.tf.Session(self.target, config=self.config(**options))

    def interactive(self) -> Any:
        return self.tf.InteractiveSession(self.target, config=self.config())


def refused(call: Callable[[], Any]) -> Any:
    """Return the class of the error that a call raises, with the op and node that it names; or,
    marked as such, what it returns."""
    try:
        found = call()
    except Exception as error:
        op = getattr(error, "op", None)
        node = getattr(error, "node_def", None)
        names = [None if one is None else one.name for one in (op, node)]
        return [type(error).__name__, *names] if any(names) else type(error).__name__
    return ("returned", shown(found))


def shown(value: Any) -> Any:
    """Return a value as text, numbers and lists that say all that users see of it."""
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        dtype = "bytes" if value.dtype.kind in "OS" else value.dtype.name
        return {kind: dtype, "shape": list(value.shape), "value": _plain(value.tolist())}
    names = getattr(value, "__match_args__", None)
    if isinstance(value, tuple) and names:
        return {"tuple": type(value).__name__, **{k: shown(v) for k, v in zip(names, value)}}
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, tuple):
        return tuple(shown(one) for one in value)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    return repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str | bytes) else repr(value)
