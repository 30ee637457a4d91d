"""Functions that carry a state over a dataset, and what is made of a whole dataset in one step.

Source: tensorflow/core/kernels/data/{dataset_ops,iterator_ops}.cc,
kernels/data/experimental/scan_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.blocking import Turns
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function, enter_scope
from tideflow.ops.data.values import (
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    as_dataset,
    check_structure,
    component_shapes,
    dims_of,
    fail,
    owned,
)
from tideflow.wire.dtypes import DType


class _Scanned:
    """Gives what a function makes; given: how many components that has beside the state."""

    __slots__ = ("_ended", "_function", "_given", "_preserves", "_source", "_state")

    def __init__(
        self,
        source: Iterator,
        state: Sequence[Any],
        function: Function,
        preserves: bool,
        given: int,
    ) -> None:
        self._given = given
        self._source = source
        self._state = tuple(state)
        self._function = function
        self._preserves = preserves
        self._ended = False

    async def next(self) -> Element | None:
        if self._ended:
            return None
        element = await self._source.next()
        found = None
        if element is not None:
            found = await self._function.element(
                *self._state, *element, preserves_cardinality=self._preserves
            )
        if found is None:
            self._ended = True
            return None
        if len(found) != len(self._state) + self._given:
            raise fail(
                "Incorrect number of components returned from function body. Expected at least "
                f"{len(self._state) + self._given}, got {len(found)}."
            )
        self._state, element = found[: len(self._state)], found[len(self._state) :]
        return element


@dataset_op(
    """
    ScanDataset(
        input_dataset: variant, initial_state: *Tstate, other_arguments: *Targuments
    )
    f: func
    Tstate: list(type) >= 1
    preserve_cardinality: bool = false
    use_default_device: bool = true
    """
)
def scan_dataset(
    input_dataset: Dataset,
    initial_state: list[Any],
    f: CapturedFunction,
    preserve_cardinality: bool,
    output_types: list[DType],
) -> Elements:
    """Return what a function makes of each element and of a state, which it also renews."""
    state = [owned(value) for value in initial_state]
    keeps, given = preserve_cardinality, len(output_types)
    return Elements(
        lambda: _Scanned(input_dataset.iterator(), state, f.instantiate(), keeps, given),
        input_dataset.cardinality if preserve_cardinality else UNKNOWN,
    )


declare_like("ExperimentalScanDataset", "ScanDataset", without=("use_default_device", "metadata"))


@op(
    """
    ReduceDataset(
        input_dataset: variant, initial_state: *Tstate, other_arguments: *Targuments
    ) -> components: *output_types
    f: func
    Tstate: list(type) >= 1
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    use_inter_op_parallelism: bool = true
    metadata: string = ''
    """,
    shape=component_shapes,
    stateful=True,
)
async def reduce_dataset(
    ctx: KernelContext,
    input_dataset: object,
    initial_state: list[Any],
    other_arguments: list[Any],
    *,
    f: FunctionRef,
) -> Any:
    """Return the last state that a function makes of the state before and an element."""
    enter_scope({})
    function = Function(ctx, f, other_arguments)
    iterator = as_dataset(input_dataset).iterator()
    state = list(initial_state)
    turns = Turns()
    while (element := await iterator.next()) is not None:
        found = await function(*state, *element)
        if len(found) != len(state):
            raise fail(
                "The number of components of the initial state and the reduce function output "
                f"does not match. (initial_state={len(state)}, output={len(found)})."
            )
        state = found
        await turns.pause()
    return state


@op(
    """
    DatasetToSingleElement(dataset: variant) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=component_shapes,
    stateful=True,
)
async def dataset_to_single_element(
    ctx: KernelContext,
    dataset: object,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the one element of a dataset.

    Raises: InvalidArgumentError where it has none, or several.
    """
    source = as_dataset(dataset)
    check_structure(output_types, dims_of(output_shapes), source.types, source.shapes)
    enter_scope({})
    iterator = source.iterator()
    element = await iterator.next()
    if element is None:
        raise fail("Dataset was empty.")
    if await iterator.next() is not None:
        raise fail("Dataset had more than one element.")
    return element


not_differentiable("ReduceDataset")
