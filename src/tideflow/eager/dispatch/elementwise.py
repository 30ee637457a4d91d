"""Functions of users for all public ones that work element by element.

`elementwise.txt` says which these are: TensorFlow's.

Source: tensorflow/python/util/dispatch.py.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from tideflow.eager.dispatch.apis import api_of
from tideflow.eager.dispatch.by_type import (
    call_in_scope,
    dispatch_for_api,
    unregister_dispatch_for,
    unregister_together,
    without_name,
)
from tideflow.ops.export import export, exports, exports_v2
from tideflow.ops.later import V1, V2, load, names_later

Handler = TypeVar("Handler", bound=Callable[..., Any])

_UNARY, _BINARY, _ASSERT = "unary", "binary", "binary assert"
_handlers: dict[Hashable, Callable[..., Any]] = {}


@export("experimental.dispatch_for_unary_elementwise_apis")
def dispatch_for_unary_elementwise_apis(x_type: Any) -> Callable[[Handler], Handler]:
    """Return a decorator for `handler(api_func, x)`, for all functions of one tensor.

    The handler is called where the first argument is an `x_type`; other arguments are given when it
    calls `api_func`.

    Raises: ValueError for a type that has a handler.
    """
    return _decorator(_UNARY, (x_type,))


@export("experimental.dispatch_for_binary_elementwise_apis")
def dispatch_for_binary_elementwise_apis(x_type: Any, y_type: Any) -> Callable[[Handler], Handler]:
    """Return a decorator for `handler(api_func, x, y)`, for all functions of two tensors.

    The handler is called where the first arguments are an `x_type` and a `y_type`.

    Raises: ValueError for types that have a handler.
    """
    return _decorator(_BINARY, (x_type, y_type))


@export("experimental.dispatch_for_binary_elementwise_assert_apis")
def dispatch_for_binary_elementwise_assert_apis(
    x_type: Any, y_type: Any
) -> Callable[[Handler], Handler]:
    """Return a decorator for `handler(assert_func, x, y)`, for all that compare two tensors.

    Raises: ValueError for types that have a handler.
    """
    return _decorator(_ASSERT, (x_type, y_type))


def _decorator(form: str, kinds: tuple[Any, ...]) -> Callable[[Handler], Handler]:
    key = form, kinds

    def register(handler: Handler) -> Handler:
        if key in _handlers:
            shown = ", ".join(map(str, kinds))
            raise ValueError(
                f"A {form.replace('binary assert', 'binary elementwise assert')}"
                f"{'' if form == _ASSERT else ' elementwise'} dispatch handler ({_handlers[key]}) "
                f"has already been registered for {shown if len(kinds) == 1 else f'({shown})'}."
            )
        _handlers[key] = handler
        targets = [_register(api, kinds, handler) for api in _functions(form)]

        def undo() -> None:
            del _handlers[key]
            for target in targets:
                unregister_dispatch_for(target)

        unregister_together(handler, undo)
        return handler

    return register


def _register(
    api: Callable[..., Any], kinds: tuple[Any, ...], handler: Callable[..., Any]
) -> Callable[..., Any]:
    """Let a handler take calls of one function; returns what was registered for it."""
    names = list(api_of(api).signature.parameters)
    first, at = names[: len(kinds)], names.index("name") if "name" in names else -1
    is_plain = names == [*first, "name"]

    def target(*args: Any, **kwargs: Any) -> Any:
        name, args, kwargs = without_name(at, args, kwargs)
        values = dict(zip(first, args))
        rest = args[len(values) :]
        values.update((key, kwargs.pop(key, None)) for key in first if key not in values)
        function = api if is_plain else lambda *given: api(*given, *rest, **kwargs)
        return call_in_scope(name, handler, function, *values.values())

    target.__name__ = target.__qualname__ = f"elementwise_dispatch_target_for_{api.__name__}"
    registered: Callable[..., Any] = dispatch_for_api(api, dict(zip(first, kinds)))(target)
    return registered


def _functions(form: str) -> list[Callable[..., Any]]:
    """Return the functions of a form, of both shapes of the API."""
    text = importlib.resources.files(__package__).joinpath("elementwise.txt").read_text()
    paths: list[str] = []
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif section == form and not line.startswith("#"):
            paths += line.split()
    later = {shape: names_later(shape) for shape in (V1, V2)}
    loaded = {(s, path): load(s, path) for s in later for path in paths if path in later[s]}
    tables = {V1: exports(), V2: {**exports(), **exports_v2()}}
    found = [
        loaded.get((shape, path), table.get(path))
        for path in paths
        for shape, table in tables.items()
    ]
    return [one for one in dict.fromkeys(found) if one is not None]
