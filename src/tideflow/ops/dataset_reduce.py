"""What is made of a whole dataset within one step.

Source: tensorflow/core/kernels/data/{reduce,single_element}_... in dataset_ops.cc and
iterator_ops.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shapes import TensorShape
from tideflow.ops.dataset_functions import Function, Turns
from tideflow.ops.dataset_values import as_dataset, check_structure, component_shapes, dims_of, fail
from tideflow.wire.dtypes import DType


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
    ctx: Any,
    input_dataset: Any,
    initial_state: list[Any],
    other_arguments: list[Any],
    *,
    f: FunctionRef,
) -> Any:
    """Return the last state that a function makes of the state before and an element."""
    function = Function(ctx, f, other_arguments)
    iterator = as_dataset(input_dataset).iterator()
    state = list(initial_state)
    turns = Turns()
    while (element := await iterator.next()) is not None:
        state = await function(*state, *element)
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
    ctx: Any, dataset: Any, *, output_types: list[DType], output_shapes: list[TensorShape]
) -> Any:
    """Return the one element of a dataset.

    Raises: InvalidArgumentError where it has none, or several.
    """
    source = as_dataset(dataset)
    check_structure(output_types, dims_of(output_shapes), source.types, source.shapes)
    iterator = source.iterator()
    element = await iterator.next()
    if element is None:
        raise fail("Dataset was empty.")
    if await iterator.next() is not None:
        raise fail("Dataset had more than one element.")
    return element
