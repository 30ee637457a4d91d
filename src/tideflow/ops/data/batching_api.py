"""Transformations that put elements together to batches, and take batches apart.

Source: tensorflow/python/data/ops/{batch,padded_batch,ragged_batch,rebatch,unbatch}_op.py,
python/data/experimental/ops/batching.py.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.static_value import static_value
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.padding import (
    padded_dims,
    padded_sizes,
    paddings,
    static_dims,
    tensor_leaves,
)
from tideflow.ops.data.structure import flat_rows, int64, spec_of
from tideflow.ops.data.traced import Traced
from tideflow.ops.data.transformations_api import Transformations, order_text
from tideflow.ops.data.type_specs import NoneTensorSpec
from tideflow.ops.framework import nest
from tideflow.ops.ragged import RaggedTensorSpec, from_tensor
from tideflow.ops.sparse import SparseTensorSpec
from tideflow.wire import dtypes


def known_size(size: Tensor, drop_remainder: Tensor) -> int | None:
    """Return the size of all batches where it is known and none is smaller; else None."""
    drops, found = static_value(*drop_remainder.edge), static_value(*size.edge)
    return None if found is None or not drops else int(found)


class BatchTransformations(Transformations):
    """A dataset, with the transformations that make and take apart batches."""

    def batch(
        self,
        batch_size: TensorLike,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Return batches of elements.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          drop_remainder: whether a last batch that is smaller is left out.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          name: accepted for programs that give it.
        Returns: a dataset whose elements have one dimension more, the first.
        Raises: InvalidArgumentError, when walked over, for tensors of different shapes.  Sparse
          and ragged tensors may be of any size.
        Example:
          >>> [x.tolist() for x in tf.data.Dataset.range(5).batch(2).as_numpy_iterator()]
          [[0, 1], [2, 3], [4]]
        """
        size = int64(batch_size, "batch_size")
        remainder = convert_to_tensor(drop_remainder, name="drop_remainder")
        known = known_size(size, remainder)
        element = nest.map_structure(lambda leaf: leaf.batched(known), self._element)
        inputs: list[Any] = [self, size]
        if num_parallel_calls is None or debug_mode.is_on:
            return self._make("BatchDatasetV2", [*inputs, remainder], element)
        inputs += [int64(num_parallel_calls, "num_parallel_calls"), remainder]
        order = order_text(deterministic)
        return self._make("ParallelBatchDataset", inputs, element, deterministic=order)

    def unbatch(self, name: str | None = None) -> Self:
        """Return the rows of each element.

        Args:
          name: accepted for programs that give it.
        Returns: a dataset whose elements lack the first dimension.
        Raises: ValueError for scalars, or components that are known to have different sizes.
        Example:
          >>> [int(x) for x in tf.data.Dataset.from_tensors([1, 2]).unbatch()]
          [1, 2]
        """
        self._check_first_sizes()
        element = nest.map_structure(lambda leaf: leaf.unbatched(), self._element)
        return self._make("UnbatchDataset", [self._as_rows()], element)

    def rebatch(
        self, batch_size: TensorLike, drop_remainder: bool = False, name: str | None = None
    ) -> Self:
        """Return the rows of batches in batches of other sizes.

        Args:
          batch_size: how many rows a batch has, an integer scalar; or a vector of numbers that take
            turns, of which zeros give empty batches.
          drop_remainder: whether a last batch that is smaller is left out.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError for scalars as components.
        Example:
          >>> batches = tf.data.Dataset.range(6).batch(4).rebatch(3)
          >>> [x.tolist() for x in batches.as_numpy_iterator()]
          [[0, 1, 2], [3, 4, 5]]
        """
        sizes = int64(batch_size, "batch_sizes")
        given = static_value(*sizes.edge)
        numbers = [] if given is None else np.reshape(given, -1).tolist()
        size = numbers[0] if len(set(numbers)) == 1 else None

        def rows(leaf: TypeSpec) -> TypeSpec:
            sizes = None if isinstance(leaf, NoneTensorSpec) else leaf.shape.sizes
            if sizes == ():
                raise ValueError(
                    "Invalid `batch_sizes`. Expected dataset with rank of >= 1 but found a dataset "
                    "with scalar elements. Fix the issue by adding the `batch` transformation to "
                    "the dataset."
                )
            before = sizes[0] if sizes else None
            is_known = size and (drop_remainder or (before is not None and before % size == 0))
            return leaf.unbatched().batched(size if is_known else None)

        element = nest.map_structure(rows, self._element)
        remainder = convert_to_tensor(drop_remainder, name="drop_remainder")
        inputs = [self._as_rows(), sizes, remainder]
        return self._make("RebatchDatasetV2", inputs, element)

    def padded_batch(
        self,
        batch_size: TensorLike,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Return batches of elements, padded to one shape.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          padded_shapes: a structure of shapes for an element's parts; None in a shape for the
            largest size
            in the batch, and for all of it by default.
          padding_values: a structure of scalars; 0 and "" by default.
          drop_remainder: whether a last batch that is smaller is left out.
          name: accepted for programs that give it.
        Returns: a dataset whose elements have one dimension more, the first.
        Raises: DataLossError or InvalidArgumentError, when walked over, for an element larger than
          its padded shape; ValueError for shapes of unknown rank and none given, or
          shapes that cannot hold the elements; TypeError for sparse and ragged elements.
        Example:
          >>> ones = tf.data.Dataset.range(1, 3).map(lambda n: tf.fill([n], 1))
          >>> [x.tolist() for x in ones.padded_batch(2).as_numpy_iterator()]
          [[[1, 0], [1, 1]]]
        """
        leaves = tensor_leaves(self._element)
        shapes = padded_dims(self._element, padded_shapes)
        sizes = [padded_sizes(given) for given in shapes]
        size = int64(batch_size, "batch_size")
        remainder = convert_to_tensor(drop_remainder, name="drop_remainder")
        known = known_size(size, remainder)
        element = nest.pack_sequence_as(
            self._element,
            [
                TensorSpec(None if dims is None else (known, *dims), leaf.dtype)
                for leaf, dims in zip(leaves, map(static_dims, shapes))
            ],
        )
        inputs = [
            self,
            size,
            sizes,
            paddings(self._element, padding_values),
            remainder,
        ]
        return self._make("PaddedBatchDatasetV2", inputs, element, "Toutput_types")

    def ragged_batch(
        self,
        batch_size: TensorLike,
        drop_remainder: bool = False,
        row_splits_dtype: DTypeLike = dtypes.int64,
        name: str | None = None,
    ) -> Self:
        """Return batches of elements; tensors whose shape is not known in full become ragged.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          drop_remainder: whether a last batch that is smaller is left out.
          row_splits_dtype: the type of the row splits.
          name: accepted for programs that give it.
        Returns: a dataset whose elements have one dimension more, the first.
        Example:
          >>> rows = tf.data.Dataset.range(1, 3).map(lambda n: tf.fill([n], n))
          >>> [x.to_list() for x in rows.ragged_batch(2)]
          [[[1], [2, 2]]]
        """

        def as_ragged(leaf: TypeSpec) -> TypeSpec:
            sizes = leaf.dims if isinstance(leaf, TensorSpec) else ()
            if not sizes or None not in sizes:
                return leaf
            rank = max(axis for axis, size in enumerate(sizes) if size is None)
            return RaggedTensorSpec(sizes, leaf.dtype, rank, row_splits_dtype)  # type: ignore[attr-defined]

        element = nest.map_structure(as_ragged, self._element)

        def encoded(*parts: Any) -> Any:
            given = nest.flatten(parts[0] if len(parts) == 1 else parts)
            flat = []
            for value, spec in zip(given, nest.flatten(element), strict=True):
                is_tensor = isinstance(spec_of(value), TensorSpec)
                if is_tensor and isinstance(spec, RaggedTensorSpec) and spec.ragged_rank:
                    kind = spec.row_splits_dtype
                    value = from_tensor(value, ragged_rank=spec.ragged_rank, row_splits_dtype=kind)
                flat += spec.to_tensors(value)
            return tuple(flat)

        traced = Traced(encoded, self._element, "Dataset_ragged_batch")
        inputs = [self, traced.captured]
        made = self._make("MapDataset", inputs, element, f=traced.ref, preserve_cardinality=True)
        return made.batch(batch_size, drop_remainder)

    def sparse_batch(
        self, batch_size: TensorLike, row_shape: ShapeLike, name: str | None = None
    ) -> Self:
        """Return batches of tensors of different sizes as sparse tensors.

        Args:
          batch_size: how many elements a batch has, an integer scalar.
          row_shape: the shape that all elements fit in, of their rank.
          name: accepted for programs that give it.
        Returns: a dataset of sparse tensors [batch_size, *row_shape].
        Raises: TypeError for elements of several components; when walked over, DataLossError for
          an element that is larger, InvalidArgumentError for one of another rank.
        Example:
          >>> rows = tf.data.Dataset.range(1, 3).map(lambda n: tf.fill([n], n))
          >>> [x.values.numpy().tolist() for x in rows.sparse_batch(2, [4])]
          [[1, 2, 2]]
        """
        if not isinstance(self._element, TensorSpec):
            raise TypeError(
                "`dense_to_sparse_batch` requires an input dataset whose elements have a single "
                "component, but the given dataset has the following component types: "
                f"{self._element!r}."
            )
        dims = static_dims(row_shape)
        shape = None if dims is None else (None, *dims)
        inputs = [self, int64(batch_size, "batch_size"), padded_sizes(row_shape)]
        element = SparseTensorSpec(shape, self._element.dtype)
        return self._make("DenseToSparseBatchDataset", inputs, element)

    def _as_rows(self) -> Self:
        """Return the dataset with tensors whose rows stand for the rows of components."""
        leaves = nest.flatten(self._element)
        if all(isinstance(leaf, (TensorSpec, NoneTensorSpec)) for leaf in leaves):
            return self

        def rows(*parts: Any) -> Any:
            return tuple(flat_rows(parts))

        traced = Traced(rows, self._element, "Dataset_rows")
        inputs = [self, traced.captured]
        attrs: dict[str, Any] = {"f": traced.ref, "preserve_cardinality": True}
        return self._make("MapDataset", inputs, traced.element, **attrs)

    def _check_first_sizes(self) -> None:
        """Check that components have rows, as many where that is known.  Raises: ValueError."""
        sizes = []
        for leaf in nest.flatten(self._element):
            dims = None if isinstance(leaf, NoneTensorSpec) else leaf.flat[0].dims
            if dims == ():
                raise ValueError("Cannot unbatch an input with scalar components.")
            sizes += [] if not dims or dims[0] is None else [dims[0]]
        for other in sizes[1:]:
            if other != sizes[0]:
                raise ValueError(
                    "`unbatch()` is only supported for datasets of elements whose components have "
                    f"a matching leading dimension. Encountered both {sizes[0]} and {other}."
                )
