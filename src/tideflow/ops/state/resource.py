"""Resource variables: read where they are used, in the order that control edges say."""

from __future__ import annotations

from typing import Any, ClassVar

from tideflow.graph import roles
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import identity
from tideflow.ops.state.base import Variable, kinds
from tideflow.ops.state.batches import in_batches
from tideflow.wire.dtypes import DType


class ResourceVariable(Variable):
    """A variable that is known by a handle (see Variable).

    Source: tensorflow/python/ops/resource_variable_ops.py
    """

    _is_resource: ClassVar[bool] = True
    _declared: TensorShape | None = None

    def _build(
        self, graph: Graph, initial_value: object, name: str, dtype: DType | None, shape: Any
    ) -> None:
        with graph.name_scope(name) as scope:
            node_name = scope[:-1]
            with graph.in_force.giving_attrs(_class=[f"loc:@{node_name}"]):
                with graph.name_scope("Initializer"):
                    initial = self._initial_tensor(graph, initial_value, dtype)
                declared = self._declared_shape(initial, shape)
                self._node = apply_op(
                    "VarHandleOp",
                    shared_name=node_name,
                    debug_name=scope,
                    dtype=initial.dtype.base_dtype,
                    shape=declared,
                    name=scope,
                )
            self._declared = declared
            self._initial_value = initial
            with graph.name_scope("IsInitialized"):
                self._is_initialized = apply_op("VarIsInitializedOp", self._node)
            with graph.colocate_with(None, ignore_existing=True), graph.device(self.device):
                with graph.name_scope("Assign") as assign_name:
                    self._initializer = apply_op(
                        "AssignVariableOp", self._node, initial, name=assign_name
                    )
                with graph.name_scope("Read"):
                    self._snapshot = self._read()

    def _read(self, name: str | None = None) -> Tensor:
        is_here = self.op.op_def.role is roles.VARIABLE_HANDLE
        dtype = self.op.attrs["dtype"] if is_here else self._snapshot.dtype
        made: Tensor = apply_op("ReadVariableOp", self.handle, dtype=dtype, name=name)
        if made.dims is None and self._declared is not None:
            made.set_shape(self._declared)
        return made

    def _take_from_proto(self, variable_def: object, import_scope: str | None) -> None:
        super()._take_from_proto(variable_def, import_scope)
        graph = self.graph
        name = self._node.op.name + "/IsInitialized/VarIsInitializedOp"
        self._declared = self._snapshot.shape
        known = graph.operations_by_name.get(name)
        self._is_initialized = None if known is None else known.outputs[0]

    # ---- what it is

    @property
    def handle(self) -> Tensor:
        """The tensor that names the variable."""
        return self._node

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._snapshot.dtype

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return a bool tensor: whether there is a value."""
        made: Tensor = apply_op("VarIsInitializedOp", self.handle, name=name)
        return made

    # ---- reading

    def value(self) -> Tensor:
        """Return a tensor that reads the variable, after the control dependencies in force."""
        graph = get_default_graph()
        with (
            graph.colocate_with(None, ignore_existing=True),
            graph.device(self.handle.device),
        ):
            return self._read()

    def read_value(self) -> Tensor:
        """Return a tensor that reads the variable where it is called."""
        with get_default_graph().name_scope("Read"):
            read = self.value()
        return identity(read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise NotImplementedError("numpy() is only available when eager execution is enabled.")

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows that indices name, without reading the others."""
        with get_default_graph().name_scope("Gather" if name is None else name) as scope:
            made: Tensor = apply_op(
                "ResourceGather", self.handle, indices, dtype=self.dtype, name=scope
            )
            return made

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the slices that index tuples name, without reading the others."""
        with get_default_graph().name_scope("GatherNd" if name is None else name) as scope:
            found = apply_op("ResourceGatherNd", self.handle, indices, dtype=self.dtype, name=scope)
            return identity(found)

    def count_up_to(self, limit: int) -> Tensor:
        """Add one and return what the value was; OutOfRangeError at the limit."""
        made: Tensor = apply_op("ResourceCountUpTo", self.handle, limit=limit, T=self.dtype)
        return made

    # ---- changing

    def assign(
        self,
        value: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Give the variable a value.

        Returns: with read_value, the variable as it is afterwards (it can be used and fetched
        like a tensor); otherwise the operation.
        Raises: ValueError for a shape that cannot fit.
        """
        tensor = convert_to_tensor(value, self.dtype)
        if not self.shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"variable {self.name!r} has shape {self.shape}; a value of shape {tensor.shape} "
                f"({tensor.shown_name!r}) cannot be assigned"
            )
        validate = self._validate_shape and self.shape.is_fully_defined()
        op = apply_op("AssignVariableOp", self.handle, tensor, validate_shape=validate, name=name)
        return self._afterwards(op) if read_value else op

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the variable; returns as assign does."""
        op = self._update("AssignAddVariableOp", convert_to_tensor(delta, self.dtype), name=name)
        return self._afterwards(op) if read_value else op

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the variable; returns as assign does."""
        op = self._update("AssignSubVariableOp", convert_to_tensor(delta, self.dtype), name=name)
        return self._afterwards(op) if read_value else op

    def _update(self, op_name: str, *inputs: Any, name: str | None) -> Operation:
        made: Operation = apply_op(op_name, self.handle, *inputs, name=name)
        return made

    def _scatter(self, suffix: str, slices: Any, name: str | None) -> Any:
        if not hasattr(slices, "indices"):
            raise TypeError(f"IndexedSlices are wanted, found {slices!r}")
        values = convert_to_tensor(slices.values, self.dtype)
        op = self._update(f"ResourceScatter{suffix}", slices.indices, values, name=name)
        return self._afterwards(op)

    def scatter_add(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Add IndexedSlices; repeated indices add up.  Returns the variable afterwards."""
        return self._scatter("Add", sparse_delta, name)

    def scatter_sub(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Subtract IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Sub", sparse_delta, name)

    def scatter_mul(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Multiply by IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Mul", sparse_delta, name)

    def scatter_div(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Divide by IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Div", sparse_delta, name)

    def scatter_min(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Take the minimum with IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Min", sparse_delta, name)

    def scatter_max(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Take the maximum with IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Max", sparse_delta, name)

    def scatter_update(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Assign IndexedSlices.  Returns the variable afterwards."""
        return self._scatter("Update", sparse_delta, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Assign the rows of IndexedSlices in each batch.  Returns the variable afterwards."""
        if not hasattr(sparse_delta, "indices"):
            raise TypeError(f"IndexedSlices are wanted, found {sparse_delta!r}")
        at = in_batches(sparse_delta.indices)
        return self.scatter_nd_update(at, sparse_delta.values, name)

    def _scatter_nd(
        self, suffix: str, indices: TensorLike, updates: TensorLike, name: str | None
    ) -> Any:
        values = convert_to_tensor(updates, self.dtype)
        return self._afterwards(
            self._update(f"ResourceScatterNd{suffix}", indices, values, name=name)
        )

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Add slices at index tuples.  Returns the variable afterwards."""
        return self._scatter_nd("Add", indices, updates, name)

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Subtract slices at index tuples.  Returns the variable afterwards."""
        return self._scatter_nd("Sub", indices, updates, name)

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Assign slices at index tuples.  Returns the variable afterwards."""
        return self._scatter_nd("Update", indices, updates, name)

    def scatter_nd_min(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Take the minimum with slices at index tuples.  Returns the variable afterwards."""
        return self._scatter_nd("Min", indices, updates, name)

    def scatter_nd_max(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Take the maximum with slices at index tuples.  Returns the variable afterwards."""
        return self._scatter_nd("Max", indices, updates, name)

    def _afterwards(self, op: Operation) -> AssignedVariable:
        return AssignedVariable(self, op)


class AssignedVariable(ResourceVariable):
    """A variable as it is once an operation has changed it: a read of its value waits for that.

    `sparse_read` and `gather_nd` do not, as in TensorFlow: tf.gather(v.assign_add(x), i) changes
    nothing.
    """

    def __init__(self, variable: ResourceVariable, parent: Operation) -> None:
        self.__dict__.update(variable.__dict__)
        self._parent = parent
        # Made now: the graph may be finalized when somebody fetches the result.
        self._snapshot = self.value()

    @property
    def name(self) -> str:
        """The name of the operation that changes the variable."""
        return self._parent.name

    @property
    def op(self) -> Operation:
        """The operation that changes the variable."""
        return self._parent

    def value(self) -> Tensor:
        """Return a tensor that reads the variable after the change."""
        with get_default_graph().control_dependencies([self._parent]):
            return super().value()

    def _update(self, op_name: str, *inputs: Any, name: str | None) -> Operation:
        with get_default_graph().control_dependencies([self._parent]):
            return super()._update(op_name, *inputs, name=name)

    def assign(
        self,
        value: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Give the variable a value after the change."""
        with get_default_graph().control_dependencies([self._parent]):
            return super().assign(value, use_locking, name, read_value)


kinds.classes[True] = ResourceVariable
