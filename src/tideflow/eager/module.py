"""tf.Module: an object that knows the variables and modules in its attributes.

Source: tensorflow/python/module/module.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from tideflow.eager.tracking import AutoTrackable
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.framework import OWN_ATTRIBUTES, nest, snake_case
from tideflow.ops.state.base import Variable


class _Scope:
    """A name scope that can be entered again and again."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._entered: list[Any] = []

    def __enter__(self) -> str:
        scope = get_default_graph().name_scope(self.name)
        self._entered.append(scope)
        entered: str = scope.__enter__()
        return entered

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


@export_v2("Module")
class Module(AutoTrackable):
    """Base of models: finds variables and modules in attributes, and in lists, tuples and dicts.

    Example:
      class Dense(tf.Module):
          def __init__(self, inputs, outputs, name=None):
              super().__init__(name=name)
              self.w = tf.Variable(tf.zeros([inputs, outputs]), name="w")

    Args:
      name: an identifier; the class's name in snake case by default.
    Raises: ValueError for a name that is no identifier.
    """

    # Attributes that hold no variables of the module.
    _TF_MODULE_IGNORED_PROPERTIES: ClassVar[frozenset[str]] = OWN_ATTRIBUTES
    _untracked = frozenset({"_name", "_scope"})

    def __init__(self, name: str | None = None) -> None:
        name = snake_case(type(self).__name__) if name is None else name
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid module name: it must be an identifier")
        self._name = name
        with get_default_graph().name_scope(name) as path:
            self._scope = _Scope(path)

    @property
    def name(self) -> str:
        """The name, without scopes."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """The scope of the module's names, for `with`; it can be entered many times."""
        return self._scope

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables of the module and of those it holds: attributes in order of name."""
        return tuple(self._flatten(predicate=_is_variable, expand_composites=True))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are trained."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are not trained."""
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules below this one, the near ones first."""
        return tuple(self._flatten(predicate=_is_module))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] | None = None,
        attribute_traversal_key: Callable[[str], Any] | None = None,
        with_path: bool = False,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """Yield the leaves of attributes for which the predicate is true, each once."""
        del with_path
        chosen = predicate or (lambda leaf: True)
        return _walk(
            self, recursive, chosen, attribute_traversal_key, expand_composites, {id(self)}
        )

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Have a method run in its module's name scope.  A decorator."""

        @functools.wraps(method)
        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return call


def _walk(
    module: Module,
    recursive: bool,
    chosen: Callable[[Any], bool],
    order: Callable[[str], Any] | None,
    expand: bool,
    seen: set[int],
) -> Iterator[Any]:
    below: list[Module] = []
    hidden = OWN_ATTRIBUTES | module._untracked | frozenset(module._TF_MODULE_IGNORED_PROPERTIES)
    for name in sorted(vars(module), key=order):
        if name in hidden:
            continue
        for leaf in nest.flatten(vars(module)[name], expand_composites=expand):
            if id(leaf) in seen:
                continue
            if chosen(leaf):
                seen.add(id(leaf))
                yield leaf
            if recursive and isinstance(leaf, Module):
                # Seen, but only as something to walk through where it is not chosen.
                seen.add(id(leaf))
                below.append(leaf)
    for each in below:
        yield from _walk(each, recursive, chosen, order, expand, seen)


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Variable) or getattr(leaf, "is_sharded_variable", False)


def _is_module(leaf: Any) -> bool:
    return isinstance(leaf, Module)
