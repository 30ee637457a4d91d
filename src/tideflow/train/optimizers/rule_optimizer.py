"""The base of optimizers that are one op for each variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.math import cast
from tideflow.ops.state import ResourceVariable
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.optimizer import Optimizer
from tideflow.train.optimizers.slots import filled_like, is_resource


class RuleOptimizer(Optimizer):
    """An optimizer whose update is one op: [Resource][Sparse]Apply<rule>.

    Attributes:
      rule: the op's name without its prefixes.
      slots: slot names, in the op's order.
      arguments: the op's inputs after variable and slots; "grad" stands for the gradient, which
        its indices follow in the sparse form.
    """

    rule: str
    slots: tuple[str, ...] = ()
    arguments: tuple[str, ...]

    def __init__(self, use_locking: bool, name: str, **hyper: Any) -> None:
        super().__init__(use_locking, name)
        self._hyper = hyper
        self._hyper_tensors: dict[str, Any] = {}
        self._attrs: dict[str, Any] = {}

    def _initial(self, slot: str, var: Variable) -> Any:
        """Return the initial value of a slot of var."""
        return filled_like(var, 0)

    def _slot_op_name(self, slot: str) -> str:
        """Return what is put after the variable's name in the slot's."""
        return self._name

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            for slot in self.slots:
                self._make_slot(var, slot)

    def _make_slot(self, var: Variable, slot: str) -> None:
        self._slot(var, slot, self._slot_op_name(slot), lambda: self._initial(slot, var))

    def _prepare(self) -> None:
        self._hyper_tensors = {
            name: convert_to_tensor(self._call_if_callable(value), name=name)
            for name, value in self._hyper.items()
        }

    def _hyper_value(self, name: str, var: Variable) -> Any:
        """Return a hyperparameter as a tensor of the variable's type."""
        return cast(self._hyper_tensors[name], var.dtype.base_dtype)

    def _apply_rule(self, var: Variable, grad: Tensor, indices: Tensor | None = None) -> Any:
        targets = [var, *(self.get_slot(var, slot) for slot in self.slots)]
        resource = is_resource(var)
        if resource:
            targets = [target.handle for target in targets]
        inputs: list[Any] = []
        for argument in self.arguments:
            if argument == "grad":
                inputs.extend([grad] if indices is None else [grad, indices])
            else:
                inputs.append(self._hyper_value(argument, var))
        prefix = ("Resource" if resource else "") + ("" if indices is None else "Sparse")
        return apply_op(
            f"{prefix}Apply{self.rule}",
            *targets,
            *inputs,
            use_locking=self._use_locking,
            **self._attrs,
        )

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        return self._apply_rule(var, grad)

    def _resource_apply_dense(self, grad: Tensor, handle: ResourceVariable) -> Any:
        return self._apply_rule(handle, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        return self._apply_rule(var, grad.values, grad.indices)

    def _resource_apply_sparse(
        self, grad: Tensor, handle: ResourceVariable, indices: Tensor
    ) -> Any:
        return self._apply_rule(handle, grad, indices)
