"""Sources of tf.data.experimental that both shapes of the API make, each of its own class.

Source: tensorflow/python/data/experimental/ops/{from_list,random_ops}.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.types import DTypeLike
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.session_iterators import DatasetV1
from tideflow.ops.data.structure import flat_tensors, relaxed, specs_of
from tideflow.ops.data.structure import tensors as as_tensors
from tideflow.ops.export import export
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


def random_numbers(kind: type[Dataset]) -> Callable[..., Any]:
    """Return `RandomDataset` for a class of datasets."""

    def RandomDataset(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Any:
        """Return random numbers without end, as `Dataset.random` does.

        Args:
          seed: an integer, for the same numbers in each run of the program.
          rerandomize_each_iteration: whether each walk has numbers of its own; None for no.
          name: accepted for programs that give it.
        Returns: a dataset of int64 scalars.
        Example:
          >>> numbers = tf.data.experimental.RandomDataset(seed=4).take(2)
          >>> [int(x) for x in numbers] == [int(x) for x in numbers]
          True
        """
        return kind.random(seed, rerandomize_each_iteration)

    return RandomDataset


export("data.experimental.from_list")(elements_of_lists(DatasetV1))


@export("data.experimental.RandomDataset")
def random_dataset(seed: int | None = None) -> DatasetV1:
    """Return random numbers without end, as `Dataset.random` does.

    Args:
      seed: an integer, for the same numbers in each run of the program.
    Returns: a dataset of int64 scalars.
    Example:
      >>> numbers = tf.data.experimental.RandomDataset(seed=4).take(2)
      >>> following = tf.data.make_one_shot_iterator(numbers).get_next()
      >>> with tf.Session() as session:
      ...     bool(session.run(following) >= 0)
      True
    """
    return DatasetV1.random(seed)


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
