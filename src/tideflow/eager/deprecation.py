"""Decorators for what a library means to take away: calls of it log a warning.

Source: tensorflow/python/util/deprecation.py.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tideflow import logging

_Any = TypeVar("_Any", bound=Callable[..., Any])


class _State:
    """What was said already, and whether anything is said at all."""

    said: set[Any] = set()  # noqa: RUF012 (there is one)
    is_silent = False


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Log no such warnings for a while."""
    before, _State.is_silent = _State.is_silent, True
    try:
        yield
    finally:
        _State.is_silent = before


def _warn(what: Any, text: str, date: str | None, instructions: str, warn_once: bool) -> None:
    """Log a warning; what: by which it is known that it was logged before."""
    if _State.is_silent or (warn_once and what in _State.said):
        return
    _State.said.add(what)
    when = "in a future version" if date is None else f"after {date}"
    logging.warning(
        "%s is deprecated and will be removed %s.\nInstructions for updating:\n%s",
        text,
        when,
        instructions,
    )


def deprecated(
    date: str | None, instructions: str, warn_once: bool = True
) -> Callable[[_Any], _Any]:
    """Decorate a function or class, whose calls log a warning from now on.

    Args:
      date: after which it goes, YYYY-MM-DD; None for some future release.
      instructions: what to use in its place.
    """

    def decorate(thing: Any) -> Any:
        name = getattr(thing, "__qualname__", repr(thing))
        # By its name, a class need not have one of its own.
        function = getattr(thing, "__init__") if isinstance(thing, type) else thing  # noqa: B009

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            _warn(thing, name, date, instructions, warn_once)
            return function(*args, **kwargs)

        if not isinstance(thing, type):
            return call
        thing.__init__ = call  # type: ignore[misc]
        return thing

    return decorate


def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[[_Any], _Any]:
    """Decorate a function that logs a warning where it is given some of its arguments.

    Args:
      deprecated_arg_names_or_tuples: names; or each with a value that is still welcome.
      warn_once: whether one warning for each argument is enough.
    Raises: ValueError for an argument that the function does not have.
    """
    warn_once = kwargs.pop("warn_once", True)
    pairs = [one if isinstance(one, tuple) else (one,) for one in deprecated_arg_names_or_tuples]
    welcome = {name: values for name, *values in pairs}

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)
        missing = sorted(welcome.keys() - signature.parameters.keys())
        if missing:
            raise ValueError(
                "The following deprecated arguments are not present in the function signature: "
                f"{missing}. Expected arguments from the following list: "
                f"{list(signature.parameters)}."
            )

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name, value in _given(signature, args, kwargs).items():
                if name in welcome and not any(_same(value, one) for one in welcome[name]):
                    text = f"calling {function.__qualname__} with {name}"
                    _warn((function, name), text, date, instructions, warn_once)
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_arg_values(
    date: str | None,
    instructions: str,
    warn_once: bool = True,
    **deprecated_kwargs: Any,
) -> Callable[[_Any], _Any]:
    """Decorate a function that logs a warning where arguments have some values, defaults too."""

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            defaults = {name: one.default for name, one in signature.parameters.items()}
            for name, value in {**defaults, **_given(signature, args, kwargs)}.items():
                if name in deprecated_kwargs and _same(value, deprecated_kwargs[name]):
                    text = f"calling {function.__qualname__} with {name}={value!r}"
                    _warn((function, name), text, date, instructions, warn_once)
            return function(*args, **kwargs)

        return call

    return decorate


def _given(signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    try:
        return dict(signature.bind_partial(*args, **kwargs).arguments)
    except TypeError:
        # The function itself says best what is wrong.
        return {}


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        type(one) is type(other) and isinstance(one == other, bool) and one == other
    )


def deprecated_alias(
    deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True
) -> Any:
    """Return a function or class under an earlier name, whose calls log a warning.

    Args:
      deprecated_name, name: the earlier name, and what is to be used in its place.
    """
    instructions = f"Please use {name} instead."

    def warn() -> None:
        _warn(deprecated_name, f"The name {deprecated_name}", None, instructions, warn_once)

    if isinstance(func_or_class, type):

        def begin(self: Any, *args: Any, **kwargs: Any) -> None:
            warn()
            func_or_class.__init__(self, *args, **kwargs)  # type: ignore[misc]

        members = {"__init__": begin, "__doc__": func_or_class.__doc__}
        return type(func_or_class)(func_or_class.__name__, (func_or_class,), members)

    @functools.wraps(func_or_class)
    def call(*args: Any, **kwargs: Any) -> Any:
        warn()
        return func_or_class(*args, **kwargs)

    return call


def deprecated_endpoints(*args: str) -> Callable[[_Any], _Any]:
    """Decorate what has earlier names, too: its attribute `_tf_deprecated_api_names` lists them."""

    def decorate(thing: Any) -> Any:
        thing._tf_deprecated_api_names = args
        return thing

    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """Return the one of two arguments that was given, None for neither.

    Raises: ValueError where both were.
    """
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old_value
