"""A call that was made, as gradient functions see it: the operation with its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.eager.tensor import fill_operation
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.node import Edge
from tideflow.graph.op_def import OpDef
from tideflow.graph.operation import OperationGraph


class EagerOperation(Operation):
    """One call of an op.

    Attributes:
      outputs: its results, flat.
    """

    __slots__ = ("_inputs",)

    def __init__(
        self,
        graph: OperationGraph,
        op_def: OpDef,
        attrs: dict[str, Any],
        inputs: Sequence[Tensor],
        outputs: list[Tensor],
        device: str,
    ) -> None:
        fill_operation(self, graph, op_def, attrs, device)
        self._inputs = list(inputs)
        self.outputs = outputs

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors that it was called on."""
        return list(self._inputs)

    @property
    def edges(self) -> list[Edge]:  # type: ignore[override]
        """The inputs as (producer, output index)."""
        return [tensor.edge for tensor in self._inputs]
