"""Dispatchers of libraries: asked when a function does not take its arguments.

Source: tensorflow/python/util/dispatch.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tideflow.eager.dispatch.apis import NOT_SUPPORTED, api_of, support_dispatch
from tideflow.eager.dispatch.interception import public_functions

Override = TypeVar("Override", bound=Callable[..., Any])


class OpDispatcher:
    """Takes calls of one function that the function itself refuses.

    Attributes:
      NOT_SUPPORTED: what `handle` gives for arguments that it leaves to others.
    """

    NOT_SUPPORTED = NOT_SUPPORTED

    def handle(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the function gives for these arguments, or NOT_SUPPORTED."""
        return self.NOT_SUPPORTED

    def register(self, op: Callable[..., Any]) -> None:
        """Be asked for calls of a function.  Raises: ValueError for no public one."""
        api = api_of(op, named=False)
        api.fallbacks.append(lambda _, args, kwargs: self.handle(args, kwargs))
        api.update()


class GlobalOpDispatcher:
    """Takes calls of any public function that the function itself refuses.

    Attributes:
      NOT_SUPPORTED: what `handle` gives for arguments that it leaves to others.
    """

    NOT_SUPPORTED = NOT_SUPPORTED

    def handle(self, op: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a function gives for these arguments, or NOT_SUPPORTED."""
        return self.NOT_SUPPORTED

    def register(self) -> None:
        """Be asked for calls of all functions that are loaded."""
        for function in public_functions():
            api = api_of(function, named=False)
            api.fallbacks.append(self.handle)
            api.update()


class _OfTypes(OpDispatcher):
    """Calls a function where an argument, or a member of a list, is of a class."""

    def __init__(self, override: Callable[..., Any], types: tuple[type, ...]) -> None:
        self._override = override
        self._types = types

    def handle(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the function in its place gives."""
        values: Iterable[Any] = (*args, *kwargs.values())
        is_wanted = any(
            isinstance(one, self._types)
            for value in values
            for one in (value if isinstance(value, (list, tuple)) else (value,))
        )
        return self._override(*args, **kwargs) if is_wanted else self.NOT_SUPPORTED


def dispatch_for_types(op: Callable[..., Any], *types: type) -> Callable[[Override], Override]:
    """Return a decorator for what is called in the place of a function, for values of classes.

    Raises: AssertionError for a function that demands other arguments.
    """

    def register(override: Override) -> Override:
        demanded = [_demanded(op), _demanded(override)]
        if demanded[0] != demanded[1]:
            raise AssertionError(
                "The decorated function's non-default arguments must be identical to that of the "
                f"overridden op. func has {demanded[1]}. op has {demanded[0]}."
            )
        _OfTypes(override, types).register(op)
        return override

    return register


def _demanded(function: Callable[..., Any]) -> list[str]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind not in variadic and p.default is p.empty]


def add_dispatch_support(
    target: Callable[..., Any] | None = None, iterable_parameters: Any = None
) -> Any:
    """Let a function of a library be dispatched on, as public ones are; a decorator.

    iterable_parameters: names of parameters that take any iterables; they are what they are here.
    """
    return support_dispatch if target is None else support_dispatch(target)
