"""Public functions whose operations lie in a name scope of their own, as in TensorFlow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tideflow.graph.graph import get_default_graph

_P = ParamSpec("_P")
_R = TypeVar("_R")


def scoped(default: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let what a function adds to a graph lie in the scope of its argument `name`, if it has one.

    The function itself is given no name, so that its operations have those of their types.

    Args:
      default: the name of the scope where none is given.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = list(inspect.signature(function).parameters)
        at = parameters.index("name") if "name" in parameters else len(parameters)

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            graph = get_default_graph()
            if graph.is_eager:
                return function(*args, **kwargs)
            name = kwargs.pop("name", None)
            if len(args) > at:
                name, args = args[at], (*args[:at], None, *args[at + 1 :])
            with graph.name_scope(name or default):
                return function(*args, **kwargs)

        return within

    return decorate
