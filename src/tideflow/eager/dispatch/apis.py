"""Public functions that users dispatch on, and who takes their calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tideflow.eager.dispatch.interception import Interception, functions_of, is_public
from tideflow.eager.extension_types.composites import CompositeTensor

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What a target or dispatcher gives for arguments that it leaves to others.
NOT_SUPPORTED = object()


class Chooses(Protocol):
    """What says whether the arguments of a call, by name, are for a target."""

    def __call__(self, values: Mapping[str, Any]) -> bool: ...


Fallback = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Api:
    """A public function, with what takes some of its calls.

    Attributes:
      signature: of the function.
      targets: what is called in its place, each with what chooses it.
      fallbacks: what is asked, in this order, when the function does not take its arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        self.targets: list[tuple[Chooses, Callable[..., Any]]] = []
        self.fallbacks: list[Fallback] = []
        self._interceptions: list[Interception] = []

    def update(self) -> None:
        """Take the function's calls if anybody waits for them, and none otherwise."""
        is_wanted = bool(self.targets or self.fallbacks)
        if is_wanted and not self._interceptions:
            functions = functions_of(self.function)
            self._interceptions = [Interception(one, self._handle) for one in functions]
        elif not is_wanted:
            while self._interceptions:
                self._interceptions.pop().undo()

    def _handle(
        self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        target = self._target(args, kwargs)
        if target is not None:
            return target(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        except (TypeError, ValueError):
            for fallback in self.fallbacks:
                found = fallback(self.function, args, kwargs)
                if found is not NOT_SUPPORTED:
                    return found
            raise

    def _target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """Return what takes a call.  Raises: ValueError where two do."""
        if not self.targets or not any(map(_may_decide, (*args, *kwargs.values()))):
            return None
        parameters = self.signature.parameters
        defaults = {p.name: p.default for p in parameters.values() if p.default is not p.empty}
        values = {**defaults, **dict(zip(parameters, args)), **kwargs}
        found = list(dict.fromkeys(target for fits, target in self.targets if fits(values)))
        if len(found) > 1:
            raise ValueError(
                "Multiple dispatch targets that were registered with tf.dispatch_for "
                f"({found[0]} and {found[1]}) match the arguments to "
                f"{self.function.__name__}"
            )
        return found[0] if found else None


_dispatchable: tuple[type, ...] = (CompositeTensor,)


def register_dispatchable_type(cls: type) -> type:
    """Let values of a class decide by themselves that a call is dispatched; a decorator."""
    global _dispatchable
    _dispatchable = (*_dispatchable, cls)
    return cls


def decides(value: Any) -> bool:
    """Whether a value is of a class that calls are dispatched for: it is made of tensors."""
    return isinstance(value, _dispatchable)


def _may_decide(value: Any) -> bool:
    return any(map(decides, value)) if isinstance(value, (list, tuple)) else decides(value)


_apis: dict[Callable[..., Any], Api] = {}


def api_of(function: Any, named: bool = True) -> Api:
    """Return a public function as one that can be dispatched on.

    Args:
      named: whether arguments are told by the names of parameters, so that there must be such.
    Raises: ValueError for what is no public function, or takes any arguments.
    """
    known = _apis.get(function) if callable(function) else None
    if known is None:
        if not is_public(function):
            raise ValueError(f"{function} does not support dispatch.")
        known = _apis[function] = Api(function)
    if named and any(p.kind in _VARIADIC for p in known.signature.parameters.values()):
        raise ValueError(f"{function} does not support dispatch.")
    return known


def support_dispatch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of a library be dispatched on, as public ones are; a decorator."""
    _apis[function] = Api(function)
    return function


def apis() -> list[Api]:
    """Return the functions that have been dispatched on."""
    return list(_apis.values())
