"""Gets into the calls of public functions, whoever calls them, under whatever name.

A function that somebody waits for has other code in it, which hands its arguments on; all others
are as they were, so that calls cost nothing more.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.ops.export import before_overload, exports, exports_v2

# How calls are taken: handle(original, args, kwargs), where `original` does what was done before.
Handle = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_Hand = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def _entry(*args: Any, _hand_on: _Hand, **kwargs: Any) -> Any:
    return _hand_on(args, kwargs)


class Interception:
    """The calls of one function, in the hands of another one until it is taken back.

    The function itself stays: what has imported it before calls it in the same way.
    """

    def __init__(self, function: types.FunctionType, handle: Handle) -> None:
        self._function = function
        self._signature = vars(function).get("__signature__")
        self._original = _copy(function)
        original = self._original
        signature = inspect.signature(function)
        code = _entry.__code__
        # The code of a closure must have as many free variables, used or not.
        function.__code__ = code.replace(co_freevars=function.__code__.co_freevars)
        function.__defaults__ = None
        function.__kwdefaults__ = {"_hand_on": lambda args, kwargs: handle(original, args, kwargs)}
        function.__signature__ = signature  # type: ignore[attr-defined]

    def undo(self) -> None:
        """Let the function do again what it did."""
        function, original = self._function, self._original
        function.__code__ = original.__code__
        function.__defaults__ = original.__defaults__
        function.__kwdefaults__ = original.__kwdefaults__
        del function.__signature__  # type: ignore[attr-defined]
        if self._signature is not None:
            function.__signature__ = self._signature  # type: ignore[attr-defined]


def _copy(function: types.FunctionType) -> types.FunctionType:
    made = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def functions_of(api: Callable[..., Any]) -> list[types.FunctionType]:
    """Return the functions in which the calls of a public one can be taken: itself and, where it
    has an overload, the one that operators and other functions of this library call.
    """
    found = [api, before_overload(api)]
    return [one for one in dict.fromkeys(found) if isinstance(one, types.FunctionType)]


_public: set[int] = set()


def public_functions() -> list[types.FunctionType]:
    """Return all functions that have public names and are loaded.

    That which converts the arguments of all others is none of them: what they do not take must not
    pass for a tensor.
    """
    known = {id(one): one for table in (exports(), exports_v2()) for one in table.values()}
    known.pop(id(convert_to_tensor), None)
    return [one for one in known.values() if isinstance(one, types.FunctionType)]


def is_public(api: Any) -> bool:
    """Whether something is a function with a public name."""
    if id(api) not in _public and isinstance(api, types.FunctionType):
        _public.update(map(id, public_functions()))
    return id(api) in _public
