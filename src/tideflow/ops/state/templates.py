"""Templates: functions that make their variables once, and use them again in later calls.

Source: tensorflow/python/ops/template.py for names and rules.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from tideflow.graph.graph import get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.state.scopes import VariableScope, variable_scope


@export("make_template")
def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Template:
    """Return a function whose calls share the variables that the first one made.

    Args:
      name_: of the scope; made unique.
      func_: the function; its variables come from get_variable.
      create_scope_now_: settle the scope's name here instead of in the first call.
      unique_name_: the scope's exact name.
      custom_getter_: of the scope.
      kwargs: arguments of func_.
    Raises: ValueError, when called again, where that makes variables.
    """
    function = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function with variables of its own."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool,
        unique_name: str | None,
        custom_getter: Callable[..., Any] | None,
    ) -> None:
        if name is None:
            raise ValueError("a template needs a name")
        self._name = name
        self._func = func
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._scope: VariableScope | None = None
        self._was_called = False
        if create_scope_now:
            with self._new_scope() as scope:
                self._scope = scope

    def _new_scope(self) -> contextlib.AbstractContextManager[VariableScope]:
        return variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._scope is None:
            with self._new_scope() as scope:
                self._scope = scope
                return self._first(args, kwargs)
        if not self._was_called:
            with variable_scope(self._scope):
                return self._first(args, kwargs)
        with variable_scope(self._scope, reuse=True):
            graph = get_default_graph()
            before = len(graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES))
            result = self._func(*args, **kwargs)
            made = graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)[before:]
        if made:
            raise ValueError(
                f"template {self._name!r} made variables when it was called again: "
                f"{', '.join(variable.name for variable in made)}; get_variable makes them once"
            )
        return result

    def _first(self, args: Any, kwargs: Any) -> Any:
        result = self._func(*args, **kwargs)
        self._was_called = True
        return result

    @property
    def name(self) -> str:
        """The name that was given."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope, None before the first call."""
        return self._scope

    var_scope = variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The scope's name with a slash, None before the first call."""
        return None if self._scope is None else f"{self._scope.name}/"

    def _collected(self, key: str) -> list[Any]:
        return [] if self._scope is None else self._scope.get_collection(key)

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that are trained."""
        return self._collected(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def global_variables(self) -> list[Any]:
        """The global variables of the scope."""
        return self._collected(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Any]:
        """The local variables of the scope."""
        return self._collected(GraphKeys.LOCAL_VARIABLES)

    @property
    def variables(self) -> list[Any]:
        """The global and the local variables."""
        return self.global_variables + self.local_variables

    weights = variables

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained."""
        return self.trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that are not trained."""
        trained = {id(variable) for variable in self.trainable_variables}
        return [variable for variable in self.variables if id(variable) not in trained]

    non_trainable_weights = non_trainable_variables
