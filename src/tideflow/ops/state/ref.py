"""Reference variables: the classic v1 kind, for graphs and scripts that ask for it."""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import identity
from tideflow.ops.state.base import Variable, kinds
from tideflow.ops.state.batches import in_batches
from tideflow.wire.dtypes import DType


class RefVariable(Variable):
    """A variable whose tensor is a reference to its value (see Variable).

    Source: tensorflow/python/ops/ref_variable.py
    """

    def _build(
        self, graph: Graph, initial_value: object, name: str, dtype: DType | None, shape: Any
    ) -> None:
        with graph.name_scope(name) as scope:
            with graph.in_force.giving_attrs(_class=[f"loc:@{scope[:-1]}"]):
                if callable(initial_value) and not isinstance(initial_value, Variable):
                    with graph.name_scope("Initializer"):
                        initial = self._initial_tensor(graph, initial_value, dtype)
                else:
                    initial = self._initial_tensor(graph, initial_value, dtype)
                self._node = apply_op(
                    "VariableV2",
                    shape=self._declared_shape(initial, shape),
                    dtype=initial.dtype.base_dtype,
                    name=scope,
                )
            self._initial_value = initial
            with graph.colocate_with(self._node.op):
                with graph.name_scope("Assign") as assign_name:
                    assigned = apply_op(
                        "Assign",
                        self,
                        initial,
                        validate_shape=self._validate_shape,
                        name=assign_name,
                    )
                self._initializer = assigned.op
                self._snapshot = identity(self._node, name="read")

    def _ref(self) -> Tensor:
        return self._node

    def _as_graph_element(self) -> Tensor:
        # Who feeds the variable feeds every read of it.
        return self._node

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return a bool tensor: whether there is a value."""
        made: Tensor = apply_op("IsVariableInitialized", self, name=name)
        return made

    # ---- reading

    def value(self) -> Tensor:
        """Return the tensor that reads the variable, one for all uses."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """Return a tensor that reads the variable where it is called."""
        return identity(self._node, name="read")

    def __bool__(self) -> bool:
        # Programs ask in this way whether there is one; a resource variable refuses.
        return True

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows that indices name."""
        made: Tensor = apply_op("GatherV2", self, indices, 0, name=name)
        return made

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the slices that index tuples name."""
        made: Tensor = apply_op("GatherNd", self, indices, name=name)
        return made

    def count_up_to(self, limit: int) -> Tensor:
        """Add one and return what the value was; OutOfRangeError at the limit."""
        made: Tensor = apply_op("CountUpTo", self, limit=limit)
        return made

    # ---- changing

    def assign(
        self,
        value: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Give the variable a value.

        Returns: with read_value the reference, which reads as the new value; otherwise the
        operation.
        """
        made = apply_op(
            "Assign",
            self,
            value,
            validate_shape=self._validate_shape,
            use_locking=use_locking,
            name=name,
        )
        return made if read_value else made.op

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the variable; returns as assign does."""
        made = apply_op("AssignAdd", self, delta, use_locking=use_locking, name=name)
        return made if read_value else made.op

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the variable; returns as assign does."""
        made = apply_op("AssignSub", self, delta, use_locking=use_locking, name=name)
        return made if read_value else made.op

    def _scatter(self, suffix: str, slices: Any, use_locking: bool, name: str | None) -> Tensor:
        if not hasattr(slices, "indices"):
            raise TypeError(f"IndexedSlices are wanted, found {slices!r}")
        made: Tensor = apply_op(
            f"Scatter{suffix}",
            self,
            slices.indices,
            convert_to_tensor(slices.values, self.dtype.base_dtype),
            use_locking=use_locking,
            name=name,
        )
        return made

    def scatter_add(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Add IndexedSlices; repeated indices add up."""
        return self._scatter("Add", sparse_delta, use_locking, name)

    def scatter_sub(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Subtract IndexedSlices."""
        return self._scatter("Sub", sparse_delta, use_locking, name)

    def scatter_mul(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Multiply by IndexedSlices."""
        return self._scatter("Mul", sparse_delta, use_locking, name)

    def scatter_div(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Divide by IndexedSlices."""
        return self._scatter("Div", sparse_delta, use_locking, name)

    def scatter_min(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Take the minimum with IndexedSlices."""
        return self._scatter("Min", sparse_delta, use_locking, name)

    def scatter_max(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Take the maximum with IndexedSlices."""
        return self._scatter("Max", sparse_delta, use_locking, name)

    def scatter_update(
        self, sparse_delta: TensorLike, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Assign IndexedSlices."""
        return self._scatter("Update", sparse_delta, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Assign the rows of IndexedSlices in each batch."""
        if not hasattr(sparse_delta, "indices"):
            raise TypeError(f"IndexedSlices are wanted, found {sparse_delta!r}")
        at = in_batches(sparse_delta.indices)
        return self.scatter_nd_update(at, sparse_delta.values, name)

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Add slices at index tuples."""
        return apply_op("ScatterNdAdd", self, indices, updates, use_locking=True, name=name)

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Subtract slices at index tuples."""
        return apply_op("ScatterNdSub", self, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Assign slices at index tuples."""
        return apply_op("ScatterNdUpdate", self, indices, updates, use_locking=True, name=name)


kinds.classes[False] = RefVariable
