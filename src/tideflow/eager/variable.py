"""Variables of the eager side: state behind a handle, changed at once.

The operations are those of resource variables, so the same object serves in functions: there its
handle becomes an argument of the function.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from tideflow.eager.tensor import EagerTensor
from tideflow.graph.behavior import behavior
from tideflow.graph.building import apply_op
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import slice_bounds
from tideflow.ops.math import equal, not_equal
from tideflow.ops.state import ANONYMOUS_NAME, VariableAggregation, VariableSynchronization, kinds
from tideflow.ops.state.assign_slice import assign_slice
from tideflow.ops.state.base import Variable, create_variable
from tideflow.ops.state.resource import ResourceVariable
from tideflow.wire.dtypes import DType


class VariableSlice(EagerTensor):
    """Part of a variable's value, which can be assigned to."""

    __slots__ = ()

    def assign(self, value: TensorLike, name: str | None = None) -> Any:
        """Assign to this part of the variable; returns the variable.

        Raises: InvalidArgumentError for a value of another shape than the slice.
        """
        variable, key = self._part_of
        return assign_slice(variable, *slice_bounds(key), value, name)


_unique_ids = itertools.count()

# The variable of each handle, for whoever has only the handle: functions and tapes.
_owners: weakref.WeakValueDictionary[int, EagerVariable] = weakref.WeakValueDictionary()


def variable_of(handle: Tensor) -> EagerVariable | None:
    """Return the variable that a handle belongs to, if it is still there."""
    found = _owners.get(id(handle))
    return found if found is not None and found._node is handle else None


class EagerVariable(ResourceVariable):
    """A variable that has its value from the start.

    Made by `tf.Variable(initial_value, trainable=True, validate_shape=True, caching_device=None,
    name=None, variable_def=None, dtype=None, import_scope=None, constraint=None,
    synchronization=..., aggregation=..., shape=None)`.
    """

    _eager_name: str

    def _build(
        self, graph: Graph, initial_value: Any, name: str, dtype: DType | None, shape: ShapeLike
    ) -> None:
        with graph.name_scope(name) as scope:
            self._eager_name = scope[:-1]
        initial = self._initial_tensor(graph, initial_value, dtype)
        declared = self._declared_shape(initial, shape)
        if not declared.is_compatible_with(initial.shape):
            raise ValueError(
                f"In this `tf.Variable` creation, the initial value's shape ({initial.shape}) is "
                f"not compatible with the explicitly supplied `shape` argument ({declared})."
            )
        self._hold(initial.dtype.base_dtype, declared)
        apply_op("AssignVariableOp", self._node, initial)

    def _hold(self, dtype: DType, declared: TensorShape) -> None:
        """Make the handle."""
        self._dtype = dtype
        self._declared = declared
        self._initializer = None
        self._initial_value = None
        self._node = apply_op(
            "VarHandleOp",
            shared_name=ANONYMOUS_NAME,
            debug_name=self._eager_name,
            dtype=dtype,
            shape=declared,
        )
        _owners[id(self._node)] = self
        self._unique_id = next(_unique_ids)

    # ---- what it is

    @property
    def name(self) -> str:
        """The name, such as "w:0"; others may have the same."""
        return self._eager_name + ":0"

    @property
    def _shared_name(self) -> str:
        return self._eager_name

    @property
    def handle(self) -> Tensor:
        """The tensor that names the variable; tapes in force watch it from now on."""
        if self._trainable:
            for tape in local.tapes:
                tape.watch_accessed(self)
        return self._node

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        assert self._declared is not None
        return self._declared

    @property
    def initial_value(self) -> Tensor | None:
        """Nothing: an eager variable keeps no other value than its present one.

        Raises: RuntimeError.
        """
        raise RuntimeError("This property is not supported when eager execution is enabled.")

    def set_shape(self, shape: ShapeLike) -> None:
        """Add what is known of the static shape."""
        self._declared = self.shape.merge_with(shape)

    # ---- its value

    def value(self) -> Tensor:
        """Return the present value."""
        return self._read()

    def _read(self, name: str | None = None) -> Tensor:
        made: Tensor = apply_op("ReadVariableOp", self.handle, dtype=self._dtype, name=name)
        if made.dims is None:
            made.set_shape(self._declared)
        return made

    def read_value(self) -> Tensor:
        """Return the present value."""
        return self._read()

    def initialized_value(self) -> Tensor:
        """Return the present value."""
        return self._read()

    def numpy(self) -> Any:
        """Return the present value as an array that belongs to the caller."""
        found = self._read()
        if not isinstance(found, EagerTensor):
            raise NotImplementedError(
                f"numpy() of variable {self.name!r} inside a function, where it has no value yet"
            )
        return found.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.numpy(), dtype=dtype)

    def eval(self, session: Any = None) -> Any:
        """Refuse: there is no session.  Raises: RuntimeError."""
        raise RuntimeError("Trying to eval in EAGER mode; numpy() gives the value")

    def load(self, value: Any, session: Any = None) -> None:
        """Assign a value."""
        self.assign(value)

    def _as_graph_element(self) -> Tensor:
        return self._read()

    def _afterwards(self, op: Operation) -> Any:
        # Eagerly the change is made; in a function, later reads are ordered behind it.
        return self

    # ---- as an object

    def __bool__(self) -> bool:
        return bool(self.value())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __index__(self) -> int:
        return int(self.numpy().__index__())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read_value())

    def __getitem__(self, key: Any) -> Tensor:
        """Return part of the value; `v[key].assign(x)` assigns to that part."""
        made = self.value()[key]
        if not isinstance(made, EagerTensor):
            return super().__getitem__(key)
        if type(made) is EagerTensor:
            made.__class__ = VariableSlice
            made._part_of = (self, key)
        return made

    def __eq__(self, other: object) -> Any:
        if not behavior.tensor_equality:
            return self is other
        return False if other is None else equal(self.value(), other)

    def __ne__(self, other: object) -> Any:
        if not behavior.tensor_equality:
            return self is not other
        return True if other is None else not_equal(self.value(), other)

    def __hash__(self) -> int:
        if not behavior.tensor_equality:
            return id(self)
        raise TypeError("a variable is unhashable; use variable.ref() as the key")

    def __deepcopy__(self, memo: dict[int, Any]) -> EagerVariable:
        made = EagerVariable(
            self.read_value(),
            trainable=self._trainable,
            name=self._eager_name.rpartition("/")[2],
            dtype=self._dtype,
            constraint=self._constraint,
            synchronization=self._synchronization,
            aggregation=self._aggregation,
            shape=self._declared,
        )
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        found = self._read()
        shown = f", numpy={found._show(repr)}" if isinstance(found, EagerTensor) else ""
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}{shown}>"


class _VariableMeta(type(Variable)):  # type: ignore[misc]
    """Sends `tf.Variable(...)` to the class at hand, and counts all variables as its instances."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not VariableV2:
            return super().__call__(*args, **kwargs)
        # Creators are given all arguments, as they see them with TensorFlow.
        given = _SIGNATURE.bind(None, *args, **kwargs)
        given.apply_defaults()
        arguments = dict(given.arguments)
        del arguments["self"]
        lifting = "experimental_enable_variable_lifting"
        arguments[lifting] = kwargs.get(lifting)
        return create_variable(**arguments)

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Variable)
            if cls is VariableV2
            else type.__instancecheck__(cls, instance)
        )

    def __subclasscheck__(cls, subclass: type) -> bool:
        return (
            issubclass(subclass, Variable)
            if cls is VariableV2
            else type.__subclasscheck__(cls, subclass)
        )


class VariableV2(Variable, metaclass=_VariableMeta):
    """A tensor that keeps its value from one call to the next; `tf.Variable` in the TF2 shape.

    Args:
      initial_value: a value, or a function that gives one (called outside of any control flow).
      shape: the static shape, where it is wider than that of the initial value.
      experimental_enable_variable_lifting: accepted; in functions a variable is always lifted.
    Raises: ValueError without an initial value, or for one whose shape is not known.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: DTypeLike | None = None,
        import_scope: str | None = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: ShapeLike | None = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> None:
        raise TypeError(
            "tf.Variable has no subclasses that it makes; it makes one of its own kinds"
        )


_SIGNATURE = inspect.signature(VariableV2.__init__)
kinds.eager = EagerVariable
