"""Datasets that a program walks over itself, where operations are called at once.

Source: tensorflow/python/data/ops/dataset_ops.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.data.structure import StructuredVariant
from tideflow.ops.data.type_specs import NoneTensorSpec
from tideflow.ops.export import export
from tideflow.ops.framework import SavedPart, Trackable, nest
from tideflow.ops.ragged import RaggedTensorSpec
from tideflow.ops.sparse import SparseTensor, SparseTensorSpec
from tideflow.wire import dtypes

_INFINITE, _UNKNOWN = -1, -2
# What becomes an array.
_SHOWN = (TensorSpec, SparseTensorSpec, RaggedTensorSpec, NoneTensorSpec)
# What follows the name of an op's first version.
_VERSION = re.compile(r"V\d+$")


class _Walks:
    """How datasets are walked over; the eager side says it.

    Attributes:
      over: takes a dataset, gives a walk over its elements.
    """

    over: Callable[[Any], Any] | None = None


walks = _Walks()


@export("data.NumpyIterator")
class NumpyIterator(Trackable):
    """A walk over a dataset whose elements are structures of NumPy arrays.

    `Dataset.as_numpy_iterator` makes it.  Sparse tensors are given as dense arrays.

    Args:
      dataset: what is walked over.
    Example:
      >>> [x.item() for x in tf.data.NumpyIterator(tf.data.Dataset.range(2))]
      [0, 1]
    """

    name = "iterator"

    def __init__(self, dataset: Any) -> None:
        self._iterator: Any = iter(dataset)

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        return nest.map_structure(_as_array, next(self._iterator))

    def next(self) -> Any:
        """Return the next element, a structure of NumPy arrays.

        Raises: StopIteration at the end.
        Example:
          >>> tf.data.Dataset.range(2).as_numpy_iterator().next().item()
          0
        """
        return self.__next__()

    def __repr__(self) -> str:
        return f"NumpyIterator(iterator={self._iterator})"

    # ---- in checkpoints

    @property
    def saved_parts(self) -> Sequence[SavedPart]:
        """Its place in the dataset."""
        found: Sequence[SavedPart] = self._iterator.saved_parts
        return found

    def restore_parts(self, values: Sequence[Any]) -> None:
        """Go to a place that was saved, as a tf.train.Checkpoint with this iterator does.

        Args:
          values: what saved_parts gave when it was saved, a list of arrays.
        Example:
          >>> import os, tempfile
          >>> walk = tf.data.Dataset.range(9).as_numpy_iterator()
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = tf.train.Checkpoint(walk=walk).write(os.path.join(folder, "place"))
          ...     first = walk.next()
          ...     _ = tf.train.Checkpoint(walk=walk).read(path)
          >>> walk.next().item()
          0
        """
        self._iterator.restore_parts(values)


def _as_array(leaf: Any) -> Any:
    if leaf is None:
        return None
    if isinstance(leaf, SparseTensor):
        nothing = convert_to_tensor("" if leaf.dtype is dtypes.string else 0, leaf.dtype)
        leaf = apply_op("SparseToDense", leaf.indices, leaf.dense_shape, leaf.values, nothing)
    return leaf.numpy()


class Walked(StructuredVariant):
    """A dataset, with what a program needs that walks over it."""

    _shown_as = ""

    # ---- as an argument of a function

    @property
    def argument_handle(self) -> Tensor:
        """The tensor by which functions take it."""
        made: Tensor = self._variant
        return made

    @property
    def argument_kind(self) -> Hashable:
        """What tells the traces of functions apart that take datasets."""
        return ("dataset", repr(self._element))

    def with_handle(self, handle: Tensor) -> Self:
        """Return a dataset of the same kind of elements that another tensor holds.

        It stands for this one in the trace of a function.

        Args:
          handle: a variant scalar that holds a dataset.

        Example:
          >>> first, second = tf.data.Dataset.range(3), tf.data.Dataset.range(5, 7)
          >>> [int(x) for x in first.with_handle(second.argument_handle)]
          [5, 6]
        """
        return self._held(handle, self._element)

    # ---- walking

    def __iter__(self) -> Any:
        graph = get_default_graph()
        if walks.over is None or not (graph.is_eager or graph.building_function):
            raise RuntimeError(
                "`tf.data.Dataset` only supports Python-style iteration in eager mode or within "
                "tf.function; or use dataset.reduce()"
            )
        return walks.over(self)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Give the elements as NumPy arrays.

        Sparse tensors are given as dense arrays.

        Returns: a tf.data.NumpyIterator over structures of arrays.
        Raises: TypeError for elements that hold datasets and others that are no arrays;
          RuntimeError where a graph is built.
        Example:
          >>> [x.item() for x in tf.data.Dataset.range(2).as_numpy_iterator()]
          [0, 1]
        """
        if not get_default_graph().is_eager:
            raise RuntimeError(
                "`tf.data.Dataset.as_numpy_iterator()` is only supported in eager mode."
            )
        for spec in nest.flatten(self._element):
            if not isinstance(spec, _SHOWN):
                raise TypeError(
                    "`tf.data.Dataset.as_numpy_iterator()` is not supported for datasets that "
                    f"produce values of type {spec.value_type}"
                )
        return NumpyIterator(self)

    def __len__(self) -> int:
        if not get_default_graph().is_eager:
            raise TypeError(
                "`tf.data.Dataset` only supports `len` in eager mode. Use "
                "`tf.data.Dataset.cardinality()` instead."
            )
        count = int(apply_op("DatasetCardinality", self._variant))
        if count == _INFINITE:
            raise TypeError("The dataset is infinite.")
        if count == _UNKNOWN:
            raise TypeError("The dataset length is unknown.")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self._shown_name()} element_spec={self._element}>"

    def _shown_name(self) -> str:
        """Return what stands for the class: TensorFlow has one for each kind of dataset."""
        if self._shown_as:
            return self._shown_as
        if type(self) is not self._kind:
            return type(self).__name__
        return "_VariantDataset" if self._made_of is None else _class_of(self._made_of[0])


def _class_of(op: str) -> str:
    """Return TensorFlow's class of the datasets that an op makes."""
    return "_" + re.sub(_VERSION, "", op)
