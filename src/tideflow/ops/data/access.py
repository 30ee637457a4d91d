"""What is done with whole datasets: elements by their index, the choice among datasets, records.

Source: tensorflow/core/kernels/data/experimental/{random_access_ops,choose_fastest_dataset_op,
choose_fastest_branch_dataset_op,to_tf_record_op}.cc.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np

from tideflow.blocking import Turns
from tideflow.formats import WINDOW_BITS, RecordWriter
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, enter_scope
from tideflow.ops.data.nested import MadeOf
from tideflow.ops.data.readers import compression_of
from tideflow.ops.data.record_stream import in_file_thread
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    as_dataset,
    check_positive,
    check_structure,
    component_shapes,
    dims_of,
    fail,
    scalar,
)
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

# Those of which TensorFlow gives an element by its index; the others refuse.
_KINDS = """
    Batch Cache Concatenate Finalize List Map Model Options ParallelMap Prefetch Range Repeat Shard
    Shuffle Skip Take Tensor TensorSlice Zip
"""
_BY_INDEX = frozenset(_KINDS.split())


def _check_access(dataset: Dataset) -> None:
    """Check that a dataset gives elements by their index.

    Raises: UnimplementedError for a dataset that does not; FailedPreconditionError for one whose
      size is not known, or that has no end.
    """
    if dataset.kind not in _BY_INDEX:
        raise errors.UnimplementedError(
            f"Random access is not implemented for dataset {dataset.kind}"
        )
    size = dataset.cardinality()
    if size in (INFINITE, UNKNOWN):
        kind = "infinite" if size == INFINITE else "unknown"
        raise errors.FailedPreconditionError(
            f"Dataset of type {dataset.kind} has {kind} cardinality, which does not support random "
            "access."
        )
    for source in dataset.inputs:
        _check_access(source)


@op(
    """
    GetElementAtIndex(dataset: variant, index: int64) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=component_shapes,
)
async def get_element_at_index(
    ctx: KernelContext,
    dataset: object,
    index: Array,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return an element of a dataset, which is walked over up to it."""
    source, wanted = as_dataset(dataset), int(scalar(index, "index"))
    _check_access(source)
    if not 0 <= wanted < source.cardinality():
        raise errors.OutOfRangeError(f"Index out of range [0, {source.cardinality()}):{wanted}")
    enter_scope({})
    iterator, turns = source.iterator(), Turns()
    for _ in range(wanted):
        await iterator.next()
        await turns.pause()
    element = await iterator.next()
    if element is None:
        raise errors.OutOfRangeError(f"Index out of range: {wanted}")
    check_structure(output_types, dims_of(output_shapes), source.types, source.shapes)
    return element


@dataset_op(
    """
    ChooseFastestDataset(input_datasets: N * variant)
    N: int >= 2
    num_experiments: int
    """,
    metadata=False,
)
def choose_fastest_dataset(input_datasets: list[Dataset]) -> Elements:
    """Return the elements of the first of datasets that give the same ones."""
    first = input_datasets[0]
    for other in input_datasets[1:]:
        check_structure(first.types, first.shapes, other.types, other.shapes)
    counts = {dataset.cardinality() for dataset in input_datasets}
    if len(counts) > 1:
        raise fail(f"the datasets have {sorted(counts)} elements; all must have as many")
    return Elements(first.iterator, first.cardinality)


declare_like("ExperimentalChooseFastestDataset", "ChooseFastestDataset")


@dataset_op(
    """
    ChooseFastestBranchDataset(
        input_dataset: variant, ratio_numerator: int64, ratio_denominator: int64,
        other_arguments: *Targuments
    )
    num_elements_per_branch: int >= 1
    branches: list(func) >= 1
    other_arguments_lengths: list(int) >= 1
    """,
    metadata=False,
)
def choose_fastest_branch_dataset(
    ctx: KernelContext,
    input_dataset: Dataset,
    ratio_numerator: int,
    ratio_denominator: int,
    other_arguments: list[Any],
    num_elements_per_branch: int,
    branches: list[FunctionRef],
    other_arguments_lengths: list[int],
) -> Elements:
    """Return the elements of what the first of functions that do the same makes of a dataset.

    ratio_numerator, ratio_denominator: how many elements of the dataset become how many.
    """
    check_positive(ratio_numerator, "`ratio_numerator`")
    check_positive(ratio_denominator, "`ratio_denominator`")
    if num_elements_per_branch % ratio_denominator:
        raise fail("`num_elements_per_branch` must be divisible by `ratio_denominator`.")
    if len(other_arguments_lengths) != len(branches):
        raise fail(
            "branches and other_arguments_lengths must have the same length; they have "
            f"{len(branches)} and {len(other_arguments_lengths)}"
        )
    captured = other_arguments[: other_arguments_lengths[0]]
    branch = CapturedFunction(ctx, branches[0], captured)
    known = input_dataset.cardinality()
    count = known if known < 0 else known * ratio_numerator // ratio_denominator
    return Elements(lambda: MadeOf(branch.instantiate(), input_dataset), count)


@op(
    """
    DatasetToTFRecord(input_dataset: variant, filename: string, compression_type: string)
    """,
    shape=no_outputs,
    stateful=True,
)
async def dataset_to_tf_record(
    ctx: KernelContext, input_dataset: object, filename: Array | bytes, compression: Array | bytes
) -> None:
    """Write the elements of a dataset of strings to a file of records."""
    source = as_dataset(input_dataset)
    path = os.fsdecode(scalar(filename, "filename"))
    kind = compression_of(scalar(compression, "compression_type"))
    if source.types != (dtypes.string,) or source.shapes[0] not in (None, ()):
        raise fail("the elements of the dataset must be scalars of type string")
    enter_scope({})
    iterator = source.iterator()
    bits = WINDOW_BITS.get(kind)
    packed = None if bits is None else zlib.compressobj(wbits=bits)
    writer = await in_file_thread(lambda: RecordWriter(path, packed))
    try:
        while (element := await iterator.next()) is not None:
            record = np.asarray(element[0], object).item()
            await in_file_thread(lambda record=record: writer.write(record))  # type: ignore[misc]
    finally:
        await in_file_thread(writer.close)


declare_like("ExperimentalDatasetToTFRecord", "DatasetToTFRecord")
