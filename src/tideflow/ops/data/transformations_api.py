"""Transformations of datasets that need no functions, and what datasets say of themselves.

Source: tensorflow/python/data/ops/dataset_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.options_api import Options
from tideflow.ops.data.structure import StructuredVariant, int64, relaxed
from tideflow.ops.data.type_specs import DatasetSpec
from tideflow.ops.data.walked import Walked
from tideflow.ops.framework import get_seed, nest
from tideflow.wire import dtypes


def order_text(value: bool | None) -> str:
    """Return whether order is kept, as attrs say it."""
    return "default" if value is None else "true" if value else "false"


class Transformations(Walked):
    """A dataset, with the transformations that need no functions."""

    def concatenate(self, dataset: StructuredVariant, name: str | None = None) -> Self:
        """Return these elements, then those of another dataset.

        Args:
          dataset: the other one, with elements of the same structure and types.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for elements of another structure or of other types.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).concatenate(tf.data.Dataset.range(2))]
          [0, 1, 0, 1]
        """
        element = relaxed(self._element, dataset._element)
        return self._make("ConcatenateDataset", [self, dataset], element)

    def take(self, count: TensorLike, name: str | None = None) -> Self:
        """Return the first elements.

        Args:
          count: how many, an integer scalar; -1 for all.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).take(2)]
          [0, 1]
        """
        return self._like("TakeDataset", int64(count, "count"))

    def skip(self, count: TensorLike, name: str | None = None) -> Self:
        """Return the elements after the first ones.

        Args:
          count: how many are left out, an integer scalar; -1 for all.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).skip(3)]
          [3, 4]
        """
        return self._like("SkipDataset", int64(count, "count"))

    def shard(self, num_shards: TensorLike, index: TensorLike, name: str | None = None) -> Self:
        """Return every n-th element.

        Args:
          num_shards: n, an integer scalar.
          index: the place of the first one, an integer scalar in [0, num_shards).
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: InvalidArgumentError for an index outside the range.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).shard(2, 1)]
          [1, 3]
        """
        places = int64(num_shards, "num_shards"), int64(index, "index")
        return self._like("ShardDataset", *places)

    def repeat(self, count: TensorLike | None = None, name: str | None = None) -> Self:
        """Return the elements several times.

        Args:
          count: how many times, an integer scalar; None or -1 for without end.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).repeat(2)]
          [0, 1, 0, 1]
        """
        times = int64(-1 if count is None else count, "count")
        return self._like("RepeatDataset", times)

    def prefetch(self, buffer_size: TensorLike, name: str | None = None) -> Self:
        """Return the elements, some of them made ahead in the background.

        Args:
          buffer_size: how many, an integer scalar; -1 (tf.data.AUTOTUNE) leaves it to the runtime.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).prefetch(2)]
          [0, 1, 2, 3, 4]
        """
        if debug_mode.is_on:
            return self
        return self._like("PrefetchDataset", int64(buffer_size, "buffer_size"))

    def cache(self, filename: TensorLike = "", name: str | None = None) -> Self:
        """Return the elements, kept once they were made.

        The first complete walk fills the cache; later ones read it.

        Args:
          filename: the prefix of files to keep them in, a string scalar; "" for memory.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).cache().repeat(2)]
          [0, 1, 0, 1]
        """
        prefix = convert_to_tensor(filename, dtypes.string, name="filename")
        return self._like("CacheDataset", prefix)

    def fingerprint(self) -> Tensor:
        """Return a number that is equal for datasets that are made in the same way.

        Returns: a uint64 scalar.
        Raises: UnimplementedError for a dataset that uses a resource other than variables, which
          count with their values, and hash tables.
        Example:
          >>> made = [tf.data.Dataset.range(2).map(lambda x: x + 1) for _ in range(2)]
          >>> bool(made[0].fingerprint() == made[1].fingerprint())
          True
        """
        made: Tensor = apply_op("DatasetFingerprint", self._variant)
        return made

    def shuffle(
        self,
        buffer_size: TensorLike,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Self:
        """Return the elements in random order, drawn from a buffer.

        Args:
          buffer_size: how many elements the buffer holds, an integer scalar; for a uniform order at
            least
            the number of elements.
          seed: an integer, for the same order in each run of the program.
          reshuffle_each_iteration: whether each walk has an order of its own.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> sorted([int(x) for x in tf.data.Dataset.range(5).shuffle(5, seed=1)])
          [0, 1, 2, 3, 4]
        """
        first, second = (0 if one is None else one for one in get_seed(seed))
        if seed is not None and not (first or second):
            second = 2**31 - 1
        return self._like(
            "ShuffleDataset",
            int64(buffer_size, "buffer_size"),
            int64(first, "seed"),
            int64(second, "seed2"),
            reshuffle_each_iteration=reshuffle_each_iteration is not False,
        )

    def window(
        self,
        size: TensorLike,
        shift: TensorLike | None = None,
        stride: TensorLike = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Return windows over the elements, each a dataset (a structure of them, for structures).

        Args:
          size: how many elements a window has, an integer scalar.
          shift: by how many elements windows are apart; None for `size`.
          stride: by how many elements those of a window are apart.
          drop_remainder: whether the last windows, which are smaller, are left out.
          name: accepted for programs that give it.
        Returns: a dataset of datasets.
        Example:
          >>> windows = tf.data.Dataset.range(5).window(3, shift=2)
          >>> [[int(x) for x in window] for window in windows]
          [[0, 1, 2], [2, 3, 4], [4]]
        """
        element = nest.map_structure(lambda leaf: DatasetSpec._of(leaf, self._kind), self._element)
        inputs = [
            self,
            int64(size, "size"),
            int64(size if shift is None else shift, "shift"),
            int64(stride, "stride"),
            convert_to_tensor(drop_remainder, name="drop_remainder"),
        ]
        return self._make("WindowDataset", inputs, element)

    def unique(self, name: str | None = None) -> Self:
        """Return each element once, where it comes first.

        Args:
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.from_tensor_slices([1, 3, 1]).unique()]
          [1, 3]
        """
        return self._like("UniqueDataset")

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Self:
        """Return the elements that can be made, without those that fail.

        Args:
          log_warning: accepted; nothing is written.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> checked = tf.data.Dataset.from_tensor_slices([1.0, 0.0]).map(
          ...     lambda x: tf.debugging.check_numerics(1.0 / x, "division"))
          >>> [float(x) for x in checked.ignore_errors()]
          [1.0]
        """
        return self._like("IgnoreErrorsDataset", log_warning=log_warning)

    # ---- what is said of them

    def apply(self, transformation_func: Callable[[Any], Any]) -> Any:
        """Return what a function makes of the dataset.

        Args:
          transformation_func: called with the dataset; gives one.
        Returns: what the function gives.
        Raises: TypeError where it gives no dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).apply(lambda dataset: dataset.take(2))]
          [0, 1]
        """
        made = transformation_func(self)
        if not isinstance(made, StructuredVariant):
            raise TypeError(
                f"`transformation_func` must return a `tf.data.Dataset`; it gave {made!r}"
            )
        return made

    def with_options(self, options: Options, name: str | None = None) -> Self:
        """Return the dataset with options, which say how it is made, never what it gives.

        Args:
          options: what they set comes before what was set earlier.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: AttributeError for what are no options.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).with_options(tf.data.Options())]
          [0, 1]
        """
        if not isinstance(options, Options):
            raise AttributeError(f"{options!r} is no tf.data.Options")
        made = self._held(self._variant, self._element)
        made._made_of = self._made_of
        made._shown_as = "_OptionsDataset"
        made._options = self.options().merge(options)
        return made

    def options(self) -> Options:
        """Return the options of the dataset and of those that it was made of.

        Example:
          >>> options = tf.data.Options()
          >>> options.deterministic = False
          >>> tf.data.Dataset.range(2).with_options(options).take(1).options().deterministic
          False
        """
        if self._options is not None:
            found: Options = self._options
            return found
        found = Options()
        for source in self._inputs():
            found = found.merge(source.options())
        return found

    def _inputs(self) -> list[Any]:
        """Return the datasets that this one was made of; classes that programs derive say it."""
        parts = nest.flatten(list(self._made_of[1]) if self._made_of else [])
        return [part for part in parts if isinstance(part, Transformations)]

    def cardinality(self) -> Tensor:
        """Return how many elements there are.

        Returns: an int64 scalar; -1 for no end, -2 where that is not known.
        Example:
          >>> int(tf.data.Dataset.range(3).cardinality())
          3
        """
        found: Tensor = apply_op("DatasetCardinality", self._variant)
        return found
