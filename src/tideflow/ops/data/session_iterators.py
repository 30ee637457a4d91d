"""Iterators of the v1 API, which give the elements of datasets to steps of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import make_op
from tideflow.graph.graph import Operation
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.export import export
from tideflow.ops.framework import nest


def _make(op: str, inputs: Sequence[Any], name: str | None = None, **attrs: Any) -> Operation:
    return make_op(get_op_def(op), inputs, attrs, name or op)


@export("data.Iterator")
class Iterator:
    """Gives the elements of a dataset to steps of sessions.

    Args:
      dataset: whose elements it gives.
      shared_name: sessions that name the same one share the iterator.
    Attributes:
      initializer: the operation that begins a walk.
    Example:
      >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
      >>> following = iterator.get_next()
      >>> with tf.Session() as session:
      ...     session.run(iterator.initializer)
      ...     [int(session.run(following)) for _ in range(3)]
      [0, 1, 2]
    """

    def __init__(self, dataset: Dataset, shared_name: str | None = None) -> None:
        self._element = dataset._element
        leaves = nest.flatten(self._element)
        self._attrs: dict[str, Any] = {
            "output_types": [leaf.dtype for leaf in leaves],
            "output_shapes": [TensorShape(leaf.dims) for leaf in leaves],
        }
        made = _make("IteratorV2", [], shared_name=shared_name or "", container="", **self._attrs)
        self._handle = made.outputs[0]
        self.initializer = _make("MakeIterator", [dataset._variant, self._handle])

    def get_next(self, name: str | None = None) -> Any:
        """Return tensors for the next element.

        Args:
          name: the name of the operation.
        Returns: a structure of tensors.
        Raises: OutOfRangeError, in the step that asks after the last element.
        Example:
          >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
          >>> with tf.Session() as session:
          ...     session.run(iterator.initializer)
          ...     int(session.run(iterator.get_next()))
          0
        """
        op = _make("IteratorGetNext", [self._handle], name, **self._attrs)
        return nest.pack_sequence_as(self._element, op.outputs)


@export("data.make_initializable_iterator")
def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """Return an iterator; run its `initializer` to begin.

    Args:
      dataset: whose elements it gives.
      shared_name: sessions that name the same one share the iterator.
    Returns: an Iterator.
    Example:
      >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(3))
      >>> with tf.Session() as session:
      ...     session.run(iterator.initializer)
      ...     int(session.run(iterator.get_next()))
      0
    """
    return Iterator(dataset, shared_name)
