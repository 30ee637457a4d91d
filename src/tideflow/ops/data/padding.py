"""Arguments of padded batches: to which shapes, and with what.

Source: tensorflow/python/data/ops/padded_batch_op.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import Dims, TensorShape, format_dims
from tideflow.graph.static_value import static_value
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


def flat_shapes(shapes: Any, count: int) -> list[Any]:
    """Return a structure of shapes as a list of so many; a list of numbers is a shape."""
    if isinstance(shapes, dict):
        return [one for key in sorted(shapes) for one in flat_shapes(shapes[key], 1)]
    if isinstance(shapes, (tuple, list)) and not is_shape(shapes):
        return [one for item in shapes for one in flat_shapes(item, 1)]
    return [shapes] * count


def is_shape(value: Any) -> bool:
    """Whether a tuple or list is a shape rather than a structure of shapes."""
    return isinstance(value, (tuple, list)) and all(
        size is None or isinstance(getattr(size, "value", size), int | None) for size in value
    )


def tensor_leaves(element: Any) -> list[TensorSpec]:
    """Return the specs of an element's components.  Raises: TypeError for what are no tensors."""
    leaves = nest.flatten(element)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                "`padded_batch` is only supported for datasets that produce tensor elements but "
                "type spec of elements in the input dataset is not a subclass of TensorSpec: "
                f"`{leaf!r}`."
            )
    return leaves


def padded_dims(element: Any, shapes: Any) -> list[Any]:
    """Return the shape, or the tensor that says it, to which each component is padded.

    Raises: ValueError for components of unknown rank where no shapes are given, another number of
    shapes, or shapes that cannot hold what is padded.
    """
    leaves = nest.flatten(element)
    if shapes is None:
        for i, leaf in enumerate(leaves):
            if leaf.dims is None:
                raise ValueError(
                    f"You must provide `padded_shapes` argument because component {i} has unknown "
                    "rank."
                )
        return [TensorShape(leaf.dims) for leaf in leaves]
    flat = flat_shapes(shapes, len(leaves) if not isinstance(shapes, (tuple, dict)) else 1)
    if len(flat) != len(leaves):
        raise ValueError(
            f"the elements have {len(leaves)} components; {len(flat)} shapes are given"
        )
    for leaf, shape in zip(leaves, flat):
        _check_fit(leaf.dims, shape)
    return flat


def _check_fit(dims: Dims, shape: Any) -> None:
    if isinstance(shape, Tensor):
        if not shape.dtype.is_integer:
            raise TypeError(
                f"Padded shape {shape} must be a `tf.int64` vector tensor, but its type was "
                f"{shape.dtype}."
            )
        if shape.dims == ():
            raise ValueError(f"Padded shape {shape} must be a vector, but it is a scalar.")
    wanted = static_dims(shape)
    if dims is None or wanted is None:
        return
    if len(dims) != len(wanted) or any(
        most is not None and size is not None and most < size for most, size in zip(wanted, dims)
    ):
        raise ValueError(
            f"The padded shape {format_dims(wanted)} is not compatible with the shape "
            f"{format_dims(dims)} of the corresponding input component."
        )


def padded_sizes(shape: Any) -> Tensor:
    """Return a shape as a tensor with -1 for sizes that are not known."""
    if isinstance(shape, Tensor):
        return convert_to_tensor(shape, dtypes.int64)
    dims: Sequence[Any] = TensorShape(shape).sizes or ()
    return convert_to_tensor([-1 if size is None else size for size in dims], dtypes.int64)


def static_dims(shape: Any) -> Dims:
    """Return what is known of a shape: -1 stands for a size that is not."""
    if isinstance(shape, Tensor):
        known = static_value(*shape.edge)
        if known is not None:
            # Of some sizes nothing may be known.
            sizes = list(np.reshape(np.asarray(known, object), -1))
            return tuple(None if size is None or size == -1 else int(size) for size in sizes)
        rank = None if shape.dims is None else shape.dims[0]
        return None if rank is None else (None,) * rank
    dims = TensorShape(
        [None if size == -1 else size for size in shape] if is_shape(shape) else shape
    ).sizes
    return dims if dims is not None else ()


def paddings(element: Any, values: Any) -> list[Tensor]:
    """Return the scalar with which each component is padded: 0 or "" where none is given."""
    leaves = nest.flatten(element)
    flat = [None] * len(leaves) if values is None else nest.flatten(values)
    if not nest.is_nested(values):
        flat = flat[:1] * len(leaves)
    return [_padding(value, leaf.dtype) for value, leaf in zip(flat, leaves)]


def _padding(value: Any, dtype: Any) -> Tensor:
    if value is not None:
        return convert_to_tensor(value, dtype, name="padding_value")
    filler = "" if dtype is dtypes.string else 0
    return convert_to_tensor(filler, dtype, name="padding_value")
