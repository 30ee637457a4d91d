"""tf.map_fn over rows of ragged tensors, or with ragged results: rows travel as variants.

Source: tensorflow/python/ops/map_fn.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.export import overload_each
from tideflow.ops.framework import nest
from tideflow.ops.ragged.spec import RaggedTensorSpec
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes


def _packed_rows(flat: list[Any]) -> Any:
    """Return splits and values as a ragged tensor; values alone as they are."""
    *splits, values = flat
    for each in reversed(splits):
        values = rows_of(values, each)
    return values


def _encoded(value: Any, is_batch: bool) -> Any:
    """Return a tensor as a variant, or a variant for each of its rows."""
    if isinstance(value, RaggedTensor):
        return apply_op(
            "RaggedTensorToVariant",
            list(value.nested_row_splits),
            value.flat_values,
            batched_input=is_batch,
        )
    return apply_op("RaggedTensorToVariant", [], value, batched_input=False, Tsplits="int64")


def _decoded(variant: Any, rank: int, depth: int, like: RaggedTensorSpec) -> Any:
    splits, values = apply_op(
        "RaggedTensorFromVariant",
        variant,
        input_ragged_rank=rank,
        output_ragged_rank=depth,
        Tvalues=like.dtype,
        Tsplits=like.row_splits_dtype,
    )
    shape = like.shape.sizes
    if shape is not None:
        inner = shape[like.ragged_rank + 1 :]
        values.set_shape((None, *inner) if like.ragged_rank >= 0 else shape)
    return _packed_rows([*splits, values])


def _row_spec(value: RaggedTensor) -> RaggedTensorSpec:
    dims = value.shape.sizes
    return RaggedTensorSpec(
        None if dims is None else dims[1:],
        value.dtype,
        value.ragged_rank - 1,
        value.row_splits.dtype,
    )


def map_rows(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what `function`, tf.map_fn, gives for these arguments, some of them ragged."""
    named = dict(zip(("fn", "elems", "dtype"), args), **kwargs)
    fn, elems = named.pop("fn"), named.pop("elems")
    dtype, signature = named.pop("dtype", None), named.pop("fn_output_signature", None)
    leaves = nest.flatten(elems)
    specs = [_row_spec(leaf) if isinstance(leaf, RaggedTensor) else None for leaf in leaves]
    flat = [
        convert_to_tensor(leaf) if spec is None else _encoded(leaf, True)
        for leaf, spec in zip(leaves, specs)
    ]
    wanted = signature if signature is not None else dtype
    if wanted is None:
        defaults = [
            leaf.dtype if spec is None else spec for leaf, spec in zip(flat, specs, strict=True)
        ]
        wanted = nest.pack_sequence_as(elems, defaults)
    results = nest.flatten(wanted)

    def of_row(*rows: Any) -> Any:
        row = rows[0] if len(rows) == 1 else rows
        parts = [
            part if spec is None else _decoded(part, spec.ragged_rank, spec.ragged_rank, spec)
            for part, spec in zip(nest.flatten(row), specs, strict=True)
        ]
        found = fn(nest.pack_sequence_as(elems, parts))
        nest.assert_same_structure(wanted, found, check_types=False)
        return [
            _encoded(_tensor(each), False) if isinstance(spec, RaggedTensorSpec) else each
            for each, spec in zip(nest.flatten(found), results, strict=True)
        ]

    types = [
        TensorSpec((), dtypes.variant) if isinstance(spec, RaggedTensorSpec) else spec
        for spec in results
    ]
    made = function(of_row, flat, fn_output_signature=types, **named)
    whole = [
        _decoded(each, spec.ragged_rank, spec.ragged_rank + 1, spec)
        if isinstance(spec, RaggedTensorSpec)
        else each
        for each, spec in zip(made, results, strict=True)
    ]
    return nest.pack_sequence_as(wanted, whole)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, RaggedTensor) else convert_to_tensor(value)


overload_each("map_fn", map_rows)
