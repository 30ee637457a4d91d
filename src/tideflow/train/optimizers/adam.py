"""Adam: steps scaled by running averages of the gradient and of its square.

Source: Kingma and Ba, 2015; tensorflow/python/training/adam.py for names and the sparse form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.types import Hyperparameter
from tideflow.ops.control_flow import group_here
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.math import cast
from tideflow.ops.state import ResourceVariable
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.optimizer import Optimizer, as_operation
from tideflow.train.optimizers.slots import is_resource, placed_with


@export("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam: momentum, and steps divided by the root of averaged squared gradients.

    m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
    w -= learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon),
    where g is the gradient and t the number of the step, from 1.

    The powers of the betas are variables, shared by all variables of a graph.  Sparse gradients
    decay
    m and v everywhere, so the result is that of the dense gradient.

    Args:
      learning_rate: a number, a scalar tensor, or a function without arguments that gives one.
      beta1, beta2: the shares of m and v that stay, given in the same ways.
      epsilon: keeps the divisor above 0.
      use_locking: whether updates of a reference variable hold its lock.
      name: the name scope, and the prefix of slots.
    Source: D. P. Kingma and J. Ba, Adam: A Method for Stochastic Optimization, 2014.
    Example:
      >>> w = tf.get_variable("w", initializer=[1.0, 2.0])
      >>> train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(w)))
      >>> with tf.Session() as session:
      ...     session.run(tf.global_variables_initializer())
      ...     session.run(train)
      ...     print(session.run(w).round(4))
      [0.9 1.9]
    """

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        beta1: Hyperparameter = 0.9,
        beta2: Hyperparameter = 0.999,
        epsilon: Hyperparameter = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._hyper = {
            "learning_rate": learning_rate,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
        }
        self._tensors: dict[str, Any] = {}

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        """Return the variables that hold beta1^t and beta2^t."""
        return (
            self._get_non_slot_variable("beta1_power"),
            self._get_non_slot_variable("beta2_power"),
        )

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        # All tasks of between-graph training must choose the same place for the powers.
        first = min(var_list, key=lambda v: str(v.name))
        for power in ("beta1", "beta2"):
            initial = self._call_if_callable(self._hyper[power])
            self._create_non_slot_variable(initial, f"{power}_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._tensors = {
            name: convert_to_tensor(self._call_if_callable(value), name=name)
            for name, value in self._hyper.items()
        }

    def _values(self, var: Variable) -> dict[str, Any]:
        """Return hyperparameters and powers as tensors of the variable's type."""
        dtype = var.dtype.base_dtype
        found = {name: cast(tensor, dtype) for name, tensor in self._tensors.items()}
        beta1_power, beta2_power = self._get_beta_accumulators()
        found["beta1_power"] = cast(convert_to_tensor(beta1_power), dtype)
        found["beta2_power"] = cast(convert_to_tensor(beta2_power), dtype)
        return found

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        return self._apply_rule(grad, var)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        return self._apply_rule(grad, handle)

    def _apply_rule(self, grad: Tensor, var: Variable) -> Any:
        targets = [var, self.get_slot(var, "m"), self.get_slot(var, "v")]
        resource = is_resource(var)
        values = self._values(var)
        order = ("beta1_power", "beta2_power", "learning_rate", "beta1", "beta2", "epsilon")
        return apply_op(
            "ResourceApplyAdam" if resource else "ApplyAdam",
            *([target.handle for target in targets] if resource else targets),
            *(values[name] for name in order),
            grad,
            use_locking=self._use_locking,
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        return self._apply_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        return self._apply_rows(grad, handle, indices)

    def _apply_rows(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation | None:
        values = self._values(var)
        one = convert_to_tensor(1, var.dtype.base_dtype)
        correction = apply_op("Sqrt", apply_op("Sub", one, values["beta2_power"]))
        rate = apply_op(
            "RealDiv",
            apply_op("Mul", values["learning_rate"], correction),
            apply_op("Sub", one, values["beta1_power"]),
        )
        new_m = self._averaged(self.get_slot(var, "m"), values["beta1"], grad, indices)
        square = apply_op("Mul", grad, grad)
        new_v = self._averaged(self.get_slot(var, "v"), values["beta2"], square, indices)
        root = apply_op("AddV2", apply_op("Sqrt", new_v), values["epsilon"])
        step = apply_op("RealDiv", apply_op("Mul", rate, new_m), root)
        if is_resource(var):
            update = apply_op("AssignSubVariableOp", var.handle, step)
        else:
            update = apply_op("AssignSub", var, step, use_locking=self._use_locking)
        return group_here(update, new_m, new_v)

    def _averaged(self, slot: Any, beta: Any, rows: Any, indices: Tensor) -> Any:
        """Decay a slot as a whole, add rows to it, and return its new value."""
        graph = get_default_graph()
        one = convert_to_tensor(1, slot.dtype.base_dtype)
        decayed = apply_op("Mul", convert_to_tensor(slot), beta)
        scaled = apply_op("Mul", rows, apply_op("Sub", one, beta))
        if not is_resource(slot):
            assigned = apply_op("Assign", slot, decayed, use_locking=self._use_locking)
            with graph.control_dependencies([assigned]):
                return apply_op("ScatterAdd", slot, indices, scaled, use_locking=self._use_locking)
        with graph.control_dependencies([apply_op("AssignVariableOp", slot.handle, decayed)]):
            added = apply_op("ResourceScatterAdd", slot.handle, indices, scaled)
        with graph.control_dependencies([added]):
            return apply_op("ReadVariableOp", slot.handle, dtype=slot.dtype.base_dtype)

    def _finish(self, update_ops: list[Operation | None], name_scope: str) -> Any:
        ending = list(update_ops)
        waits = [op for op in update_ops if op is not None]
        with get_default_graph().control_dependencies(waits):
            powers = zip(self._get_beta_accumulators(), ("beta1", "beta2"))
            for power, beta in powers:
                with placed_with(power):
                    value = convert_to_tensor(power)
                    factor = cast(self._tensors[beta], value.dtype.base_dtype)
                    changed = power.assign(apply_op("Mul", value, factor, name="mul"))
                    ending.append(as_operation(changed))
        return group_here(*ending, name=name_scope)
