"""Variables by name: get_variable, and the scopes that give names and defaults.

Source: tensorflow/python/ops/state/scopes.py
"""

from __future__ import annotations

import contextlib
import enum
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow.graph.graph import Graph, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_value
from tideflow.ops.state.api import VariableAggregation, VariableSynchronization
from tideflow.ops.state.base import kinds
from tideflow.ops.state.store import VariableStore, is_value
from tideflow.wire import dtypes


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
export_value("AUTO_REUSE", AUTO_REUSE)


@export("VariableScope")
class VariableScope:
    """A scope's name, and what get_variable takes from it where the caller says nothing."""

    def __init__(
        self,
        reuse: object,
        name: str = "",
        initializer: Callable[..., Any] | None = None,
        regularizer: Callable[..., Any] | None = None,
        caching_device: str | Callable[..., Any] | None = None,
        partitioner: Callable[..., Any] | None = None,
        custom_getter: Callable[..., Any] | None = None,
        name_scope: str = "",
        dtype: DTypeLike = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Callable[..., Any] | None = None,
    ) -> None:
        self._reuse = reuse
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    name = property(lambda self: self._name, doc="The names of the scopes, joined.")
    original_name_scope = property(
        lambda self: self._name_scope, doc="The name scope in force when the scope was made."
    )
    reuse = property(lambda self: self._reuse, doc="True, False or AUTO_REUSE.")
    initializer = property(lambda self: self._initializer, doc="The default initializer.")
    regularizer = property(lambda self: self._regularizer, doc="The default regularizer.")
    caching_device = property(lambda self: self._caching_device, doc="Kept; without effect.")
    partitioner = property(lambda self: self._partitioner, doc="The default partitioner.")
    custom_getter = property(lambda self: self._custom_getter, doc="The getter in force.")
    dtype = property(lambda self: self._dtype, doc="The default element type.")
    use_resource = property(lambda self: self._use_resource, doc="Which kind of variable.")
    constraint = property(lambda self: self._constraint, doc="The default constraint.")

    def reuse_variables(self) -> None:
        """Make get_variable return existing variables only."""
        self._reuse = True

    def set_initializer(self, initializer: Callable[..., Any]) -> None:
        """Set the default initializer."""
        self._initializer = initializer

    def set_regularizer(self, regularizer: Callable[..., Any]) -> None:
        """Set the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: str | Callable[..., Any]) -> None:
        """Keep a caching device; without effect."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Callable[..., Any]) -> None:
        """Set the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Callable[..., Any]) -> None:
        """Set the getter."""
        self._custom_getter = custom_getter

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the default element type."""
        self._dtype = dtype

    def set_use_resource(self, use_resource: bool) -> None:
        """Set which kind of variable is made."""
        self._use_resource = use_resource

    def set_constraint(self, constraint: Callable[..., Any]) -> None:
        """Set the default constraint."""
        self._constraint = constraint

    def get_collection(self, name: str) -> list[Any]:
        """Return the members of a collection below this scope."""
        scope = f"{self._name}/" if self._name else self._name
        return get_default_graph().get_collection(name, scope)

    def global_variables(self) -> list[Any]:
        """Return the global variables below this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """Return the local variables below this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        """Return the trainable variables below this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def get_variable(
        self,
        store: VariableStore,
        name: str,
        dtype: DTypeLike | None = None,
        initializer: Callable[..., Any] | None = None,
        regularizer: Callable[..., Any] | None = None,
        constraint: Callable[..., Any] | None = None,
        partitioner: Callable[..., Any] | None = None,
        reuse: bool | None = None,
        use_resource: bool | None = None,
        custom_getter: Callable[..., Any] | None = None,
        **rest: Any,
    ) -> Any:
        """Return a variable of the store, with this scope's name and defaults (see
        tf.get_variable)."""
        settled = {
            "name": f"{self._name}/{name}" if self._name else name,
            "initializer": self._initializer if initializer is None else initializer,
            "regularizer": self._regularizer if regularizer is None else regularizer,
            "constraint": self._constraint if constraint is None else constraint,
            "partitioner": self._partitioner if partitioner is None else partitioner,
            "reuse": self._reuse if reuse is None else reuse,
            "use_resource": self._use_resource if use_resource is None else use_resource,
            "dtype": self._dtype if dtype is None else dtype,
            **rest,
        }
        if initializer is not None and is_value(initializer) and dtype is None:
            settled["dtype"] = None
        getter = self._custom_getter if custom_getter is None else custom_getter
        with get_default_graph().name_scope(None):
            if getter is None:
                return store.get(**settled)
            return getter(store.get, **settled)


# ---- the scope in force


class _Current(threading.local):
    """The scope in force in one thread, and how often scopes of a name were opened."""

    def __init__(self) -> None:
        self.scope = VariableScope(False)
        self.opened: dict[str, int] = {}

    def open(self, name: str) -> None:
        """Count a scope as opened."""
        self.opened[name] = self.opened.get(name, 0) + 1

    def close_below(self, name: str) -> None:
        """Forget the scopes opened below one: their names may be taken again."""
        for other in list(self.opened):
            if not name or other.startswith(name + "/"):
                self.opened[other] = 0

    def unique(self, prefix: str) -> str:
        """Return prefix, numbered if a scope of that name was opened here before."""
        base = f"{self.scope.name}/{prefix}" if self.scope.name else prefix
        if not self.opened.get(base):
            return prefix
        number = 1
        while self.opened.get(f"{base}_{number}"):
            number += 1
        return f"{prefix}_{number}"


class _GraphState:
    """What variable scopes keep for one graph."""

    def __init__(self) -> None:
        self.store = VariableStore()
        self.current = _Current()


# The name under which a graph keeps its state, so that both go together.
_KEY = "_variable_scopes"


def _state() -> _GraphState:
    graph = get_default_graph()
    while graph.building_function and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph  # type: ignore[attr-defined]
    found = vars(graph).get(_KEY)
    if found is None:
        found = vars(graph).setdefault(_KEY, _GraphState())
    assert isinstance(found, _GraphState)
    return found


@contextlib.contextmanager
def variable_store(store: VariableStore) -> Iterator[None]:
    """Have get_variable make and find variables of a store of the caller's, inside `with`."""
    state = _state()
    before, state.store = state.store, store
    try:
        yield
    finally:
        state.store = before


@export("get_variable_scope")
def get_variable_scope() -> VariableScope:
    """Return the variable scope in force."""
    return _state().current.scope


kinds.of_scope = lambda: get_variable_scope().use_resource


@export("get_variable")
def get_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: Callable[..., Any] | None = None,
    regularizer: Callable[..., Any] | None = None,
    trainable: bool | None = None,
    collections: str | Sequence[str] | None = None,
    caching_device: str | Callable[..., Any] | None = None,
    partitioner: Callable[..., Any] | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Callable[..., Any] | None = None,
    constraint: Callable[..., Any] | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """Return the variable of that name in the scope in force, making it if it is not there.

    Args:
      initializer: a value, or a function of (shape, dtype); by default glorot_uniform for floats
        and zeros for integers.
      regularizer: a function of the variable; its loss goes into REGULARIZATION_LOSSES.
    Raises: ValueError as the scope's reuse demands: for a variable that exists or lacks; for one
    that exists with another shape or type.
    """
    state = _state()
    return state.current.scope.get_variable(
        state.store,
        name,
        dtype,
        initializer,
        regularizer,
        constraint,
        partitioner,
        use_resource=use_resource,
        custom_getter=custom_getter,
        shape=shape,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        validate_shape=validate_shape,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def get_partitioned_variable(
    scope: VariableScope,
    shape: ShapeLike,
    slicing: list[int],
    initializer: Callable[..., Any] | None,
    dtype: DTypeLike,
    trainable: bool,
    collections: Sequence[str] | None,
) -> Any:
    """Return the partitioned variable that has a scope's own name.

    slicing: into how many parts each dimension is cut.
    """
    options = {"trainable": trainable, "collections": collections}
    with get_default_graph().name_scope(None):
        return _state().store.get_partitioned(
            scope.name,
            TensorShape(shape),
            dtypes.as_dtype(dtype),
            initializer,
            None,
            scope.reuse,
            slicing,
            options,
        )


@export("get_local_variable")
def get_local_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return a variable as get_variable does, local to the process and not trainable."""
    kwargs["trainable"] = False
    kwargs["collections"] = [*(kwargs.get("collections") or []), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, *args, **kwargs)


@export("variable_scope")
@contextlib.contextmanager
def variable_scope(
    name_or_scope: object,
    default_name: str | None = None,
    values: TensorLike | None = None,
    initializer: Callable[..., Any] | None = None,
    regularizer: Callable[..., Any] | None = None,
    caching_device: str | Callable[..., Any] | None = None,
    partitioner: Callable[..., Any] | None = None,
    custom_getter: Callable[..., Any] | None = None,
    reuse: bool | None = None,
    dtype: DTypeLike | None = None,
    use_resource: bool | None = None,
    constraint: Callable[..., Any] | None = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Enter a variable scope, new by name or again by object; yields the VariableScope.

    A name scope is entered along with it, unless auxiliary_name_scope is False.
    Raises: TypeError for neither name nor default_name, or another kind of name; ValueError for
    reuse with a default_name.
    """
    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if not isinstance(name_or_scope, (str, VariableScope, type(None))):
        raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
    if reuse is not None and not isinstance(reuse, (bool, _ReuseMode)):
        raise ValueError("The reuse parameter must be True or False or None or AUTO_REUSE")
    graph = get_default_graph()
    current = _state().current
    with contextlib.ExitStack() as stack:
        if values:
            stack.enter_context(_graph_of(values).as_default())
        if name_or_scope is None:
            if reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            scope_name = current.unique(str(default_name))
        elif isinstance(name_or_scope, VariableScope):
            scope_name = name_or_scope.name.split("/")[-1]
        else:
            scope_name = name_or_scope
        prefix = graph.get_name_scope()
        prefix = f"{prefix}/" if prefix else ""
        if auxiliary_name_scope and scope_name:
            opened = default_name if name_or_scope is None else scope_name
            prefix = stack.enter_context(graph.name_scope(opened))
        overrides = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "dtype": dtype,
            "use_resource": use_resource,
            "constraint": constraint,
        }
        given = name_or_scope if isinstance(name_or_scope, VariableScope) else None
        made = _derived(current, scope_name, given, prefix, overrides, custom_getter, reuse)
        yield stack.enter_context(_entered(current, made, given))


def _graph_of(values: Any) -> Graph:
    for value in values:
        graph = getattr(value, "graph", None)
        if isinstance(graph, Graph):
            return graph
    return get_default_graph()


def _derived(
    current: _Current,
    scope_name: str,
    given: VariableScope | None,
    prefix: str,
    overrides: dict[str, Any],
    custom_getter: object,
    reuse: object,
) -> VariableScope:
    """Return the scope to enter: what it inherits, and what the caller overrides."""
    outer = current.scope
    source = outer if given is None else given
    if given is not None:
        name, name_scope = given.name, given.original_name_scope
    else:
        name, name_scope = (f"{outer.name}/{scope_name}" if outer.name else scope_name), prefix
    settled = {
        key: getattr(source, key) if value is None else value for key, value in overrides.items()
    }
    return VariableScope(
        reuse or source.reuse,
        name=name,
        name_scope=name_scope,
        custom_getter=_wrapped(custom_getter, source.custom_getter),
        **settled,
    )


def _wrapped(inner: Any, outer: Any) -> Any:
    """Return a getter that calls inner with outer as what it may call in turn."""
    if inner is None or outer is None:
        return inner or outer

    def getter(true_getter: Any, *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, true_getter), *args, **kwargs)

    return getter


@contextlib.contextmanager
def _entered(
    current: _Current, scope: VariableScope, given: VariableScope | None
) -> Iterator[VariableScope]:
    outer, opened = current.scope, dict(current.opened)
    current.scope = scope
    current.open(scope.name)
    try:
        yield scope
    finally:
        current.close_below(scope.name)
        if given is not None:
            current.opened = opened
        current.scope = outer


@export("variable_op_scope")
@contextlib.contextmanager
def variable_op_scope(
    values: TensorLike, name_or_scope: object, default_name: str | None = None, **kwargs: Any
) -> Iterator[VariableScope]:
    """Enter a variable scope, with the arguments in their old order."""
    with variable_scope(name_or_scope, default_name, values, **kwargs) as scope:
        yield scope
