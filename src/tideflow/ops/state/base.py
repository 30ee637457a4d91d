"""What resource and reference variables of the v1 API have in common.

`Variable(...)` makes one of the two concrete classes: through the creators that
variable_creator_scope has put in force, then by `use_resource`.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

from tideflow.graph.behavior import behavior
from tideflow.graph.building import convert_to_tensor, register_tensor_conversion
from tideflow.graph.defaults import local
from tideflow.graph.graph import (
    Graph,
    Operation,
    Tensor,
    TensorReference,
    get_default_graph,
    get_default_session,
)
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.operation import OperationGraph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.control_flow import cond
from tideflow.ops.export import export
from tideflow.ops.framework import Trackable
from tideflow.ops.state.slices import SaveSliceInfo, without_scope
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype


@export("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """When the copies of a distributed variable are made equal."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export("VariableAggregation")
class VariableAggregation(enum.Enum):
    """How the updates of a distributed variable's copies become one."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def outermost_graph() -> Graph:
    """Return the graph around all functions that are being built."""
    graph = get_default_graph()
    while graph.building_function and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph  # type: ignore[attr-defined]
    return graph


@contextlib.contextmanager
def _init_scope() -> Iterator[Graph]:
    scope = get_default_graph().get_name_scope()
    graph = outermost_graph()
    tapes, local.tapes = local.tapes, ()
    try:
        with (
            graph.as_default(),
            graph.name_scope(f"{scope}/" if scope else None),
            graph.control_dependencies(None),
        ):
            yield graph
    finally:
        local.tapes = tapes


@export("init_scope")
def init_scope() -> contextlib.AbstractContextManager[Graph]:
    """Build outside of control dependencies, branches, loops, functions and tapes; yields the
    graph."""
    return _init_scope()


# ---- making variables

Creator = Callable[..., Any]


class _Local(threading.local):
    """The creators in force in one thread, innermost last."""

    def __init__(self) -> None:
        self.creators: list[Creator] = []


_making = _Local()


@export("variable_creator_scope")
@contextlib.contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Let a function make the variables inside: variable_creator(next_creator, **kwargs)."""
    _making.creators.append(variable_creator)
    try:
        yield
    finally:
        _making.creators.pop()


def creators_in_force() -> list[Creator]:
    """Return the creators of the calling thread, for another thread to go on with."""
    return list(_making.creators)


@contextlib.contextmanager
def with_creators(creators: list[Creator]) -> Iterator[None]:
    """Let these be the creators of the calling thread."""
    before, _making.creators = _making.creators, list(creators)
    try:
        yield
    finally:
        _making.creators = before


class _KindChoice:
    """Which class a new variable gets when the caller does not say."""

    def __init__(self) -> None:
        self.classes: dict[bool, type[Variable]] = {}
        # The class of variables made outside of any graph, where there is an eager side.
        self.eager: type[Variable] | None = None
        # Set by tideflow.ops.state.scopes, which knows of scopes.
        self.of_scope: Callable[[], bool | None] = lambda: None


kinds = _KindChoice()


@export("enable_resource_variables")
def enable_resource_variables() -> None:
    """Make resource variables unless the caller asks for others (the default)."""
    behavior.resource_variables = True


@export("disable_resource_variables")
def disable_resource_variables() -> None:
    """Make reference variables unless the caller asks for others."""
    behavior.resource_variables = False


@export("resource_variables_enabled")
def resource_variables_enabled() -> bool:
    """Whether new variables are resource variables by default."""
    return behavior.resource_variables


def _make(**kwargs: Any) -> Any:
    kwargs.pop("experimental_enable_variable_lifting", None)  # they are always lifted
    if kinds.eager is not None and outermost_graph().is_eager:
        return kinds.eager(**kwargs)
    use_resource = kwargs.get("use_resource")
    if use_resource is None:
        use_resource = kinds.of_scope()
    if use_resource is None:
        use_resource = behavior.resource_variables
    return kinds.classes[bool(use_resource)](**kwargs)


def create_variable(**kwargs: Any) -> Any:
    """Make a variable through the creators in force."""
    create: Creator = _make
    for creator in _making.creators:
        create = _chained(creator, create)
    return create(**kwargs)


def _chained(creator: Creator, following: Creator) -> Creator:
    return lambda **kwargs: creator(following, **kwargs)


class _VariableMeta(type):
    """Sends `Variable(...)` to the concrete class; those are made as usual."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not Variable:
            return super().__call__(*args, **kwargs)
        return create_variable(**{**dict(zip(_PARAMETERS, args)), **kwargs})


_PARAMETERS = (
    "initial_value",
    "trainable",
    "collections",
    "validate_shape",
    "caching_device",
    "name",
    "variable_def",
    "dtype",
    "expected_shape",
    "import_scope",
    "constraint",
    "use_resource",
    "synchronization",
    "aggregation",
    "shape",
)


@export("Variable", "VariableV1")
class Variable(Trackable, metaclass=_VariableMeta):
    """A tensor that keeps its value from one run to the next.

    Variable(initial_value=None, trainable=None, collections=None, validate_shape=True,
    caching_device=None, name=None, variable_def=None, dtype=None, expected_shape=None,
    import_scope=None, constraint=None, use_resource=None, synchronization=..., aggregation=...,
    shape=None)

    initial_value: a value, or a function that gives one (called outside of any control flow).
    The variable has a value once its `initializer` has run.
    Raises: ValueError without an initial value, or for one whose shape is not known.
    """

    # NumPy must leave `array + variable` to the variable.
    __array_priority__ = 100

    # The value as checkpoints of objects hold it, for classes of libraries around a variable.

    def _serialize_to_tensors(self) -> dict[str, Any]:
        return {"VARIABLE_VALUE": self}

    def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
        value = restored_tensors["VARIABLE_VALUE"]
        return self.assign(value)

    def assign(
        self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Give the variable a value; the concrete class does."""
        raise NotImplementedError(f"{type(self).__name__}.assign")

    def assign_add(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the variable; the concrete class does."""
        raise NotImplementedError(f"{type(self).__name__}.assign_add")

    def assign_sub(
        self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the variable; the concrete class does."""
        raise NotImplementedError(f"{type(self).__name__}.assign_sub")

    # The tensor that names the variable in the graph: a handle or a reference.
    _node: Tensor
    _snapshot: Tensor
    _initializer: Operation | None
    _initial_value: Tensor | None
    _trainable: bool
    _validate_shape: bool = True
    _constraint: Any = None
    _synchronization = VariableSynchronization.AUTO
    _aggregation = VariableAggregation.NONE
    _save_slice_info: SaveSliceInfo | None = None
    # The strategy that made it, if one did.
    _distribute_strategy: object | None = None

    def __init__(
        self,
        initial_value: object | None = None,
        trainable: bool | None = None,
        collections: str | Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: str | Callable[..., Any] | None = None,
        name: str | None = None,
        variable_def: object | None = None,
        dtype: DTypeLike | None = None,
        expected_shape: Tensor | None = None,
        import_scope: str | None = None,
        constraint: Callable[..., Any] | None = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: ShapeLike | None = None,
        distribute_strategy: object | None = None,
    ) -> None:
        if variable_def is not None:
            self._take_from_proto(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("a variable needs an initial_value")
        if constraint is not None and not callable(constraint):
            raise ValueError("constraint must be a function of the new value")
        if not isinstance(collections, (list, tuple, set, type(None))):
            raise ValueError(f"collections must be a list, tuple or set; found {collections!r}")
        self._synchronization = synchronization
        self._aggregation = aggregation
        on_read = self._synchronization is VariableSynchronization.ON_READ
        self._trainable = not on_read if trainable is None else bool(trainable)
        self._constraint = constraint
        self._distribute_strategy = distribute_strategy
        self._validate_shape = validate_shape
        wanted = None if dtype is None else as_dtype(dtype).base_dtype
        given = shape if shape is not None else expected_shape
        with init_scope() as graph:
            self._build(graph, initial_value, name or "Variable", wanted, given)
            names = list(collections) if collections is not None else [GraphKeys.GLOBAL_VARIABLES]
            if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in names:
                names.append(GraphKeys.TRAINABLE_VARIABLES)
            graph.add_to_collections(names, self)

    def _build(
        self, graph: Graph, initial_value: object, name: str, dtype: DType | None, shape: Any
    ) -> None:
        """Make the nodes; the concrete class does."""
        raise TypeError(f"{type(self).__name__} cannot be made")

    def _initial_tensor(self, graph: Graph, given: object, dtype: DType | None) -> Tensor:
        """Return the initial value as a tensor.  Raises: ValueError from inside control flow."""
        with graph.device(None):
            value = given() if callable(given) and not isinstance(given, Variable) else given
            tensor = convert_to_tensor(value, dtype, "initial_value")
        if tensor.op.control_flow_context is not None:
            raise ValueError(
                f"the initial value {tensor.name!r} of variable {graph.get_name_scope()!r} comes "
                "from inside tf.cond or tf.while_loop; give a function that makes it instead"
            )
        return tensor

    def _declared_shape(self, initial: Tensor, given: object) -> TensorShape:
        if given is not None:
            return TensorShape(given)
        if not self._validate_shape:
            return TensorShape(None)
        if not initial.shape.is_fully_defined():
            raise ValueError(
                f"initial_value must have a shape specified: the shape {initial.shape} of "
                f"{initial.shown_name!r} is not fully known; set it, or make the variable with "
                "validate_shape=False"
            )
        return initial.shape

    # ---- what it is

    @property
    def name(self) -> str:
        """The name of the variable's tensor, such as "w:0"."""
        return self._node.name

    @property
    def _shared_name(self) -> str:
        return self._node.op.name

    @property
    def op(self) -> Operation:
        """The operation that stands for the variable."""
        return self._node.op

    @property
    def graph(self) -> OperationGraph:
        """The graph that it belongs to."""
        return self._node.graph

    @property
    def device(self) -> str:
        """The device requested for it."""
        return self._node.device

    @property
    def dtype(self) -> DType:
        """The element type; a reference type for a reference variable."""
        return self._node.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._snapshot.shape

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Add what is known of the static shape."""
        self._snapshot.set_shape(shape)

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it by default."""
        return self._trainable

    @property
    def constraint(self) -> Any:
        """The function that optimizers apply to a new value, or None."""
        return self._constraint

    @property
    def synchronization(self) -> VariableSynchronization:
        """When copies are made equal."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """How updates of copies become one."""
        return self._aggregation

    @property
    def initializer(self) -> Any:
        """The operation that gives the variable its initial value."""
        return self._initializer

    @property
    def initial_value(self) -> Tensor | None:
        """The tensor that the initializer assigns."""
        return self._initial_value

    def _set_save_slice_info(self, info: SaveSliceInfo) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> SaveSliceInfo | None:
        return self._save_slice_info

    # ---- its value

    def value(self) -> Tensor:
        """Return the value as a tensor."""
        raise TypeError(f"{type(self).__name__} has no value")

    def read_value(self) -> Tensor:
        """Return a tensor that reads the variable where it is called."""
        raise TypeError(f"{type(self).__name__} has no value")

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while the variable has none."""
        initial = self._initial_value
        if initial is None:
            raise ValueError(f"variable {self.name!r} was imported without its initial value")
        with init_scope():
            return cast(Tensor, cond(self.is_initialized(), self.read_value, lambda: initial))

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return a bool tensor: whether there is a value."""
        raise TypeError(f"{type(self).__name__} has no value")

    def eval(self, session: object | None = None) -> Any:
        """Return the present value, read in the session given or the default one."""
        return self._snapshot.eval(session=session)

    def load(self, value: object, session: Any = None) -> None:
        """Assign a value from outside, in the session given or the default one."""
        session = session if session is not None else get_default_session()
        if session is None:
            raise ValueError("there is no default session; give one to load()")
        assert self._initializer is not None
        session.run(self._initializer, {self._initializer.inputs[1]: value})

    def _as_graph_element(self) -> Tensor:
        return self._snapshot

    def ref(self) -> TensorReference:
        """Return a hashable stand-in."""
        return TensorReference(self)

    experimental_ref = ref

    # ---- as a tensor

    def __getitem__(self, key: Any) -> Tensor:
        return self.value()[key]

    def __iter__(self) -> Iterator[Tensor]:
        raise errors.OperatorNotAllowedInGraphError(
            f"Iterating over a symbolic `tf.Tensor` is not allowed: the variable {self.name!r} has "
            "no value before its graph runs; tf.unstack gives its parts"
        )

    def __bool__(self) -> bool:
        return bool(self.value())

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    # ---- as a message

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the VariableDef, None for a variable outside the scope exported."""
        name = without_scope(self.name, export_scope)
        if name is None:
            return None
        made = pb.VariableDef(
            variable_name=name,
            is_resource=self._is_resource,
            trainable=self._trainable,
            synchronization=self._synchronization.value,
            aggregation=self._aggregation.value,
            snapshot_name=without_scope(self._snapshot.name, export_scope) or "",
        )
        if self._initial_value is not None:
            made.initial_value_name = without_scope(self._initial_value.name, export_scope) or ""
        if self._initializer is not None:
            made.initializer_name = without_scope(self._initializer.name, export_scope) or ""
        if self._save_slice_info is not None:
            part = self._save_slice_info.to_proto(export_scope)
            if part is not None:
                made.save_slice_info_def.CopyFrom(part)
        return made

    _is_resource: ClassVar[bool] = False

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """Return the variable of the default graph that a VariableDef describes."""
        kind = kinds.classes[bool(variable_def.is_resource)]
        return kind(variable_def=variable_def, import_scope=import_scope)

    def _take_from_proto(self, variable_def: Any, import_scope: str | None) -> None:
        graph = get_default_graph()

        def found(name: str) -> Any:
            return graph.as_graph_element(f"{import_scope}/{name}" if import_scope else name)

        self._node = found(variable_def.variable_name)
        self._initializer = found(variable_def.initializer_name)
        self._snapshot = (
            found(variable_def.snapshot_name)
            if variable_def.snapshot_name
            else graph.get_tensor_by_name(self._node.op.name + "/Read/ReadVariableOp:0")
        )
        initial = variable_def.initial_value_name
        self._initial_value = found(initial) if initial else None
        self._trainable = getattr(variable_def, "trainable", True)
        self._synchronization = VariableSynchronization(variable_def.synchronization)
        self._aggregation = VariableAggregation(variable_def.aggregation)
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(
                save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope
            )


def _to_tensor(variable: Any, dtype: DType | None, name: str | None) -> Tensor:
    value = cast(Variable, variable).value()
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"variable {variable.name!r} has type {value.dtype.name}; {dtype.name} is wanted "
            "(tf.cast converts)"
        )
    return value


register_tensor_conversion(Variable, _to_tensor)


def _forward(operator: str) -> Callable[..., Any]:
    """Return an operator of variables that reads the value and leaves the rest to the tensor."""

    def apply(self: Variable, *args: Any) -> Any:
        return getattr(self.value(), operator)(*args)

    apply.__name__ = operator
    apply.__doc__ = f"Apply {operator} to the value."
    return apply


for _stem in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "div",
):
    for _operator in (f"__{_stem}__", f"__r{_stem}__"):
        setattr(Variable, _operator, _forward(_operator))
for _stem in ("lt", "le", "gt", "ge", "neg", "abs", "invert"):
    setattr(Variable, f"__{_stem}__", _forward(f"__{_stem}__"))

# Where TensorFlow's users look for it.
Variable.SaveSliceInfo = SaveSliceInfo  # type: ignore[attr-defined]
