"""The optimizer's skeleton: gradients of a loss, slots beside variables, one update for each.

A subclass says how one variable is updated (the `_apply_*` methods), which variables it keeps
beside each (`_create_slots`) and what happens once at the beginning and the end of a step.

Source: tensorflow/python/training/optimizer.py for names, order and collections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import unique
from tideflow.ops.control_flow import group_here, tuple_
from tideflow.ops.export import export
from tideflow.ops.framework import (
    IndexedSlices,
    Trackable,
    convert_to_tensor_or_indexed_slices,
    resume_restoring,
)
from tideflow.ops.gradients import gradients
from tideflow.ops.state import ResourceVariable, init_scope, outermost_graph, trainable_variables
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.slots import (
    graph_variable,
    is_eager,
    is_resource,
    own_name,
    placed_with,
    slot_variable,
    zeros_for,
)
from tideflow.wire import dtypes

# What a loss is differentiated to: all of a variable, or some of its rows.
Gradient: TypeAlias = Tensor | IndexedSlices

_VALID_TYPES = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.complex64,
        dtypes.complex128,
    }
)


@export("train.Optimizer")
class Optimizer(Trackable):
    """Base of all optimizers.

    To change gradients before they are applied, use compute_gradients and apply_gradients.

    Args:
      use_locking: whether updates of a variable wait for each other.
      name: of the operations and slots that it makes.
    Raises: ValueError for an empty name.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0])
      >>> optimizer = tf.train.GradientDescentOptimizer(0.25)
      >>> step = tf.train.get_or_create_global_step()
      >>> train = optimizer.minimize(tf.reduce_sum(w * w), global_step=step)
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w), session.run(step))
      [0.5] 1
    """

    GATE_NONE: ClassVar[int] = 0
    GATE_OP: ClassVar[int] = 1
    GATE_GRAPH: ClassVar[int] = 2
    # The class of tapes, where there is an eager side.
    tapes: ClassVar[Any] = None

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("an optimizer needs a name")
        self._use_locking = use_locking
        self._name = name
        # Slots by slot name, then by variable (see _key).
        self._slots: dict[str, dict[tuple[Graph | None, Any], Any]] = {}
        # By name and graph, None outside of any.
        self._non_slots: dict[tuple[str, Graph | None], Any] = {}

    def get_name(self) -> str:
        """Return the optimizer's name."""
        return self._name

    # ---- what users call

    def minimize(
        self,
        loss: TensorLike,
        global_step: TensorLike | None = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: TensorLike | None = None,
    ) -> Any:
        """Return an operation that takes one step against the gradient of loss.

        Where there is no graph, the step is taken, and None is returned.

        Args:
          loss: the tensor to make smaller; without a graph, a function that gives it.
          global_step: a variable that is incremented after all others are updated.
          var_list: what to change; all trainable variables if left out.
        Raises: ValueError where loss depends on none of the variables, or there are none.
        """
        grads_and_vars = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if not any(grad is not None for grad, _ in grads_and_vars):
            names = ", ".join(str(v.name) for _, v in grads_and_vars)
            raise ValueError(
                f"No gradients provided for any variable: {loss!r} does not depend on {names} "
                "through operations that can be differentiated"
            )
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: TensorLike | None = None,
    ) -> list[tuple[Any, Any]]:
        """Return pairs (gradient or None, variable) for the variables.

        gate_gradients: GATE_NONE, GATE_OP (the gradients of one op wait for each other) or
        GATE_GRAPH (all gradients wait for each other).
        Raises: ValueError for no variables, a wrong type of loss or gate.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                f"gate_gradients is {gate_gradients!r}; use Optimizer.GATE_NONE, GATE_OP or "
                "GATE_GRAPH"
            )
        if self.tapes is not None and outermost_graph().is_eager:
            if callable(loss):
                return self._taped(loss, var_list, grad_loss)
            if get_default_graph().is_eager:
                raise RuntimeError(
                    "`loss` passed to Optimizer.compute_gradients should be a function when eager "
                    "execution is enabled."
                )
        if callable(loss):
            loss = loss()
        loss = convert_to_tensor(loss)
        self._check_types([loss])
        if grad_loss is not None:
            self._check_types([convert_to_tensor(grad_loss)])
        variables = _flat_variables(var_list)
        found = gradients(
            loss,
            variables,
            grad_ys=grad_loss,
            aggregation_method=aggregation_method,
            gate_gradients=gate_gradients == self.GATE_OP,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            found = tuple_(found)
        self._check_types([g for g in found if g is not None])
        return list(zip(found, variables))

    def _taped(self, loss: Any, var_list: Any, grad_loss: Any) -> list[tuple[Any, Any]]:
        """Return pairs (gradient or None, variable) of a function, by calling it."""
        assert self.tapes is not None
        with self.tapes() as tape:
            if var_list is not None:
                var_list = _flatten(var_list)
                tape.watch(var_list)
            value = loss()
        variables = list(tape.watched_variables()) if var_list is None else var_list
        grads = tape.gradient(value, variables, grad_loss)
        self._check_types([g for g in grads if g is not None])
        return list(zip(grads, variables))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return an operation that applies gradients to variables; None where that is done at once.

        With a global_step it is incremented once all variables are updated.
        Raises: ValueError for no variables or no gradients; TypeError for what is no gradient.
        """
        pairs = [(_as_gradient(grad), variable) for grad, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided: there is nothing to apply gradients to")
        live = [(grad, variable) for grad, variable in pairs if grad is not None]
        if not live:
            names = ", ".join(str(v.name) for _, v in pairs)
            raise ValueError(f"No gradients provided for any variable: {names}")
        graph = get_default_graph()
        with init_scope():
            self._create_slots([variable for _, variable in live])
        resume_restoring(self)
        with graph.name_scope(name or self._name) as scope:
            self._prepare()
            updates = [self._update(grad, variable) for grad, variable in live]
            train_op = self._ending(updates, global_step, scope)
        collection = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op is not None and train_op not in collection:
            collection.append(train_op)
        return train_op

    def get_slot(self, var: Variable, name: str) -> Any:
        """Return the variable kept beside var under a slot name, or None."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots made so far, sorted."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Return the optimizer's own variables in the default graph, sorted by name."""
        graph = _graph_of_state()
        found = [v for (_, owner), v in self._non_slots.items() if owner is graph]
        for slots in self._slots.values():
            found.extend(v for (owner, _), v in slots.items() if owner is graph)
        return sorted(found, key=lambda v: str(v.name))

    # ---- in checkpoints of objects

    def _checkpoint_children(self) -> dict[str, Any]:
        """Return the variables that belong to no other one."""
        graph = _graph_of_state()
        own = {name: v for (name, owner), v in self._non_slots.items() if owner is graph}
        return dict(sorted(own.items()))

    def make_slot_to_restore(self, var: Variable, slot_name: str) -> None:
        """Make a slot whose value a checkpoint has, before a step makes it."""
        self._zeros_slot(var, slot_name, self._name)

    # ---- one step

    def _update(self, grad: Gradient, variable: Any) -> Operation | None:
        graph = get_default_graph()
        with graph.name_scope("update_" + own_name(variable)), placed_with(variable):
            made = as_operation(self._apply(grad, variable))
            constraint = getattr(variable, "constraint", None)
            if constraint is None:
                return made
            if isinstance(grad, IndexedSlices):
                raise RuntimeError(
                    f"the constraint of {variable.name!r} cannot be kept for sparse gradients"
                )
            with graph.control_dependencies([made]):
                return as_operation(variable.assign(constraint(variable)))

    def _apply(self, grad: Gradient, variable: Variable) -> Any:
        if not isinstance(grad, IndexedSlices):
            if is_resource(variable):
                return self._resource_apply_dense(grad, variable)
            return self._apply_dense(grad, variable)
        if is_resource(variable):
            return self._resource_apply_sparse_duplicate_indices(
                grad.values, variable, grad.indices
            )
        return self._apply_sparse_duplicate_indices(grad, variable)

    def _ending(
        self, updates: list[Operation | None], global_step: Any, scope: str
    ) -> Operation | None:
        if global_step is None:
            return as_operation(self._finish(updates, scope))
        graph = get_default_graph()
        finished = self._finish(updates, "update")
        waits = [] if finished is None else [finished]
        with graph.control_dependencies(waits), placed_with(global_step):
            if is_resource(global_step):
                one = convert_to_tensor(1, global_step.dtype.base_dtype)
                made: Any = apply_op("AssignAddVariableOp", global_step.handle, one, name=scope)
            else:
                made = apply_op("AssignAdd", global_step, 1, name=scope)
        return as_operation(made)

    # ---- what subclasses override

    def _valid_dtypes(self) -> frozenset[dtypes.DType]:
        """Element types of losses, variables and gradients that the optimizer can work with."""
        return _VALID_TYPES

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Make the variables that are kept beside those in var_list, where they are missing."""

    def _prepare(self) -> None:
        """Make the tensors that all updates of a step share."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        """Return an operation that updates a reference variable by a tensor."""
        raise TypeError(f"{type(self).__name__} has no rule for reference variables")

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        """Return an operation that updates a resource variable by a tensor."""
        raise TypeError(f"{type(self).__name__} has no rule for resource variables")

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        """Return an operation that updates a reference variable by slices, no index twice."""
        raise TypeError(f"{type(self).__name__} has no rule for sparse gradients")

    def _resource_apply_sparse(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        """Return an operation that updates a resource variable by slices, no index twice."""
        raise TypeError(f"{type(self).__name__} has no rule for sparse gradients")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        """Apply slices with repeated indices: summed first, unless a subclass can do without."""
        values, indices = deduplicated(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        """Apply slices with repeated indices to a resource variable."""
        values, distinct = deduplicated(grad, indices)
        return self._resource_apply_sparse(values, handle, distinct)

    def _finish(self, update_ops: list[Operation | None], name_scope: str) -> Any:
        """Return the operation that ends a step, given those that update the variables."""
        return group_here(*update_ops, name=name_scope)

    # ---- helpers for subclasses

    def _call_if_callable(self, param: Any) -> Any:
        """Return a hyperparameter, called if it is a function."""
        return param() if callable(param) else param

    def _slot_dict(self, slot_name: str) -> dict[tuple[Graph | None, Any], Any]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Variable, val: Any, slot_name: str, op_name: str) -> Any:
        """Return a slot, made with the initial value val if it is missing."""
        return self._slot(var, slot_name, op_name, lambda: val)

    def _get_or_make_slot_with_initializer(
        self,
        var: Variable,
        initializer: Callable[..., Any],
        shape: ShapeLike,
        dtype: DTypeLike,
        slot_name: str,
        op_name: str,
    ) -> Any:
        """Return a slot, made by initializer(shape, dtype) if it is missing."""
        return self._slot(var, slot_name, op_name, lambda: initializer(shape, dtype=dtype))

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Any:
        """Return a slot, made of zeros in the variable's shape if it is missing."""
        return self._slot(var, slot_name, op_name, lambda: zeros_for(var))

    def _slot(self, var: Variable, slot_name: str, op_name: str, value: Callable[[], Any]) -> Any:
        named = self._slot_dict(slot_name)
        key = _key(var)
        if key not in named:
            named[key] = slot_variable(var, value, op_name)
        return named[key]

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """Return a variable that belongs to no other, made beside one if it is missing."""
        key = (name, _key(colocate_with)[0])
        if key not in self._non_slots:
            self._non_slots[key] = graph_variable(initial_value, name, colocate_with)
        return self._non_slots[key]

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Any:
        """Return a variable that belongs to no other, or None."""
        return self._non_slots.get((name, graph or _graph_of_state()))

    def _check_types(self, tensors: Sequence[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base_dtype
            if dtype not in valid:
                allowed = ", ".join(sorted(t.name for t in valid))
                raise ValueError(
                    f"{tensor!r:.80} has type {dtype.name}; an optimizer works with {allowed}"
                )


def deduplicated(values: Any, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return slices summed by index, and the indices without repetition.

    Shapes: values [n, ...], indices [n]; results [m, ...] and [m], m <= n.
    """
    distinct, positions = unique(indices)
    count = apply_op("Size", distinct)
    summed: Tensor = apply_op("UnsortedSegmentSum", values, positions, count)
    return summed, distinct


def _key(var: Any) -> tuple[Graph | None, Any]:
    """Return a variable's graph, and what tells it apart there: outside, names say little."""
    return (None, var._unique_id) if is_eager(var) else (var.op.graph, var.op.name)


def _graph_of_state() -> Graph | None:
    """Return the graph that variables which are made here belong to, None outside of any."""
    graph = outermost_graph()
    return None if graph.is_eager else get_default_graph()


def as_operation(made: Any) -> Operation | None:
    """Return the operation that changed a variable, None where it was called at once."""
    if made is None or is_eager(made) or get_default_graph().is_eager:
        return None
    found = made if isinstance(made, Operation) else made.op
    assert isinstance(found, Operation)
    return found


def _as_gradient(grad: Any) -> Any:
    if grad is None:
        return None
    try:
        return convert_to_tensor_or_indexed_slices(grad)
    except TypeError:
        raise TypeError(
            f"a gradient must be a tensor, IndexedSlices or None; found {grad!r}"
        ) from None


def _flat_variables(var_list: Any) -> list[Any]:
    """Return the variables to change; partitioned ones by their parts."""
    graph = get_default_graph()
    if var_list is None:
        given = [
            *trainable_variables(),
            *graph.get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES),
        ]
    else:
        given = _flatten(var_list)
    flat = [part for v in given for part in _parts(v)]
    if not flat:
        raise ValueError("No variables to optimize; make some, or give var_list")
    for v in flat:
        if not hasattr(v, "op"):
            raise TypeError(f"var_list holds {v!r}, which is no variable")
    return flat


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _flatten(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flatten(item)]
    return [value]


def _parts(variable: Any) -> list[Any]:
    if hasattr(variable, "_get_variable_list"):
        return list(variable._get_variable_list())
    return [variable]
