"""Sources of tf.data.experimental that both shapes of the API make, each of its own class.

Source: tensorflow/python/data/experimental/ops/{from_list,counter}.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.types import DTypeLike
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.session_iterators import DatasetV1
from tideflow.ops.data.structure import flat_tensors, relaxed, specs_of
from tideflow.ops.data.structure import tensors as as_tensors
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


def elements_of_lists(kind: type[Dataset]) -> Callable[..., Any]:
    """Return `from_list` for a class of datasets."""

    def from_list(elements: Any, name: str | None = None) -> Any:
        """Return a dataset of the elements of a list.

        Args:
          elements: structures of tensors, all alike but for their shapes; a list among them is one
            tensor.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError for what is no list, or an empty one, and for elements of several
          structures; TypeError for components of several types.
        Example:
          >>> rows = tf.data.experimental.from_list([(1, "a"), (2, "b")])
          >>> [(int(number), text.numpy()) for number, text in rows]
          [(1, b'a'), (2, b'b')]
        """
        if not elements:
            raise ValueError(
                "Invalid `elements`. `elements` should not be empty. If you want an empty dataset, "
                "use `tf.data.Dataset.range(0)`."
            )
        if not isinstance(elements, list):
            raise ValueError("Invalid `elements`. `elements` must be a list.")
        made = [as_tensors(element) for element in elements]
        specs = [specs_of(element) for element in made]
        common = specs[0]
        for spec in specs[1:]:
            nest.assert_same_structure(specs[0], spec)
            common = relaxed(common, spec)
        flat = [tensor for element in made for tensor in flat_tensors(element)]
        return kind._make("ListDataset", [flat], common)

    return from_list


export("data.experimental.from_list")(elements_of_lists(DatasetV1))
export_v2("data.experimental.from_list")(elements_of_lists(Dataset))


@export("data.experimental.Counter")
def counter(start: Any = 0, step: Any = 1, dtype: DTypeLike = dtypes.int64) -> DatasetV1:
    """Return numbers without end, as `Dataset.counter` does.

    Args:
      start, step: the first number, and how far numbers are apart.
      dtype: of the numbers.
    Returns: a dataset of scalars.
    Example:
      >>> following = tf.data.make_one_shot_iterator(tf.data.experimental.Counter(3)).get_next()
      >>> with tf.Session() as session:
      ...     int(session.run(following))
      3
    """
    return DatasetV1.counter(start, step, dtype)


@export_v2("data.experimental.Counter")
def counter_v2(start: Any = 0, step: Any = 1, dtype: DTypeLike = dtypes.int64) -> Dataset:
    """Return numbers without end, as `Dataset.counter` does.

    Args:
      start, step: the first number, and how far numbers are apart.
      dtype: of the numbers.
    Returns: a dataset of scalars.
    Example:
      >>> [int(x) for x in tf.data.experimental.Counter().take(2)]
      [0, 1]
    """
    return Dataset.counter(start, step, dtype)
