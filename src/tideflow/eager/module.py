"""tf.Module: an object that knows the variables and modules in its attributes.

Source: tensorflow/python/module/module.py.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from tideflow.eager.tracking import AutoTrackable
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.framework import OWN_ATTRIBUTES, snake_case
from tideflow.ops.framework.nest_prefixes import Path, flatten_with_tuple_paths
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
    _untracked = frozenset({"_name", "_name_scope"})

    def __init__(self, name: str | None = None) -> None:
        name = snake_case(type(self).__name__) if name is None else name
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid module name: it must be an identifier")
        self._name = name
        with get_default_graph().name_scope(name) as path:
            self._name_scope = _Scope(path)

    @property
    def name(self) -> str:
        """The name, without scopes."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """The scope of the module's names, for `with`; it can be entered many times."""
        return self._name_scope

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables of the module and of those it holds: attributes in order of name."""
        return tuple(self._flatten(predicate=_is_variable, expand_composites=True))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are trained."""
        return tuple(self._flatten(predicate=_is_trainable, expand_composites=True))

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        """The variables that are not trained."""
        return tuple(self._flatten(predicate=_is_fixed, expand_composites=True))

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
        """Yield the leaves of attributes for which the predicate is true.

        Args:
          recursive: whether to go on into modules.
          attribute_traversal_key: by which the names of attributes are sorted.
          with_path: give each leaf after its path: names, keys and places.  Without paths each
            leaf comes once, with paths as often as there are ways to it.
        """
        walk = _Walk(
            recursive,
            predicate or (lambda leaf: True),
            attribute_traversal_key,
            expand_composites,
            None if with_path else {id(self)},
        )
        found = walk.leaves(self, (), ())
        return found if with_path else (leaf for _, leaf in found)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Have a method run in its module's name scope.  A decorator."""

        @functools.wraps(method)
        def call(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return call


@dataclasses.dataclass(frozen=True)
class _Walk:
    """How to look for the leaves of modules.

    Attributes:
      seen: the ids of the leaves that need not be looked at again; None where all ways count.
    """

    recursive: bool
    chosen: Callable[[Any], bool]
    order: Callable[[str], Any] | None
    expand: bool
    seen: set[int] | None

    def leaves(
        self, module: Module, path: Path, above: tuple[Module, ...]
    ) -> Iterator[tuple[Path, Any]]:
        """Yield the leaves of a module, each after its path; those of modules below come last."""
        below: list[tuple[Path, Module]] = []
        for way, leaf in self._own(module, path):
            if self.seen is not None and id(leaf) in self.seen:
                continue
            is_chosen, is_module = self.chosen(leaf), isinstance(leaf, Module)
            if self.seen is not None and (is_chosen or is_module):
                self.seen.add(id(leaf))
            if is_chosen:
                yield way, leaf
            if self.recursive and is_module:
                below.append((way, leaf))
        if any(module is one for one in above):
            return
        for way, each in below:
            yield from self.leaves(each, way, (*above, module))

    def _own(self, module: Module, path: Path) -> Iterator[tuple[Path, Any]]:
        ignored = frozenset(module._TF_MODULE_IGNORED_PROPERTIES)
        hidden = OWN_ATTRIBUTES | module._untracked | ignored
        for name in sorted(vars(module), key=self.order):
            if name in hidden:
                continue
            value = vars(module)[name]
            try:
                found = flatten_with_tuple_paths(value, self.expand)
            except Exception as error:
                raise ValueError(f"Error processing property {name!r} of {value!r}") from error
            yield from (((*path, name, *way), leaf) for way, leaf in found)


def _is_trainable(leaf: Any) -> bool:
    return _is_variable(leaf) and bool(leaf.trainable)


def _is_fixed(leaf: Any) -> bool:
    return _is_variable(leaf) and not leaf.trainable


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Variable) or getattr(leaf, "is_sharded_variable", False)


def _is_module(leaf: Any) -> bool:
    return isinstance(leaf, Module)
