"""Transformations that group elements by a function, mix datasets, or carry a state along.

Source: tensorflow/python/data/ops/{group_by_window,scan,directed_interleave}_op.py,
python/data/experimental/ops/grouping.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.data.batching_api import BatchTransformations
from tideflow.ops.data.padding import flat_shapes
from tideflow.ops.data.structure import (
    StructuredVariant,
    flat_tensors,
    int64,
    relaxed,
    specs_of,
    tensors,
)
from tideflow.ops.data.traced import Traced, traced_state
from tideflow.ops.data.type_specs import DatasetSpec
from tideflow.ops.framework import Assert, get_seed, nest
from tideflow.wire import dtypes


class GroupingTransformations(BatchTransformations):
    """A dataset, with the transformations that group, mix and scan."""

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Return the elements before the first one for which a function gives false.

        Args:
          predicate: called with the parts of an element; gives a bool scalar.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError for a function that gives no bool scalar.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).take_while(lambda x: x < 2)]
          [0, 1]
        """
        traced = Traced(predicate, self._element, "Dataset_take_while")
        traced.require_truth()
        return self._like("TakeWhileDataset", traced.captured, predicate=traced.ref)

    def scan(
        self,
        initial_state: Any,
        scan_func: Callable[..., Any],
        name: str | None = None,
    ) -> Self:
        """Return what a function gives of each element and the state that it gave before.

        Args:
          initial_state: a structure of tensors, and of what elements may be.
          scan_func: called with the state and the element; gives the next state and an output.
          name: accepted for programs that give it.
        Returns: a dataset of the outputs.
        Raises: TypeError for a function that gives something else.
        Example:
          >>> add = lambda total, x: (total + x, total + x)
          >>> [int(x) for x in tf.data.Dataset.range(4).scan(tf.constant(0, tf.int64), add)]
          [0, 1, 3, 6]
        """
        state = tensors(initial_state)

        def call(*args: Any) -> Any:
            found = scan_func(*args)
            if not isinstance(found, (tuple, list)) or len(found) != 2:
                raise TypeError(
                    "Invalid `scan_func`. `scan_func` should return a pair consisting of new state "
                    f"and the output value but it gives {found!r}."
                )
            return tuple(found)

        traced, _ = traced_state(
            call, specs_of(state), self._element, "Dataset_scan", lambda found: found[0]
        )
        inputs = [self, flat_tensors(state), traced.captured]
        attrs: dict[str, Any] = {"f": traced.ref, "preserve_cardinality": True}
        return self._make("ScanDataset", inputs, traced.element[1], **attrs)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Return what a function makes of windows of elements that have the same key.

        Args:
          key_func: called with the parts of an element; gives an int64 scalar.
          reduce_func: called with the key and a dataset of the window's elements; gives a dataset.
          window_size: how many elements a window has.
          window_size_func: called with the key; gives that number.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError unless one of the two sizes is given.
        Example:
          >>> pairs = tf.data.Dataset.range(5).group_by_window(
          ...     lambda x: x % 2, lambda key, window: window.batch(2), window_size=2)
          >>> [x.tolist() for x in pairs.as_numpy_iterator()]
          [[0, 2], [1, 3], [4]]
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError(
                "Either the `window_size` argument or the `window_size_func` argument must be "
                "specified."
            )
        size = window_size_func or (lambda key: int64(window_size))  # type: ignore[arg-type]
        number = TensorSpec((), dtypes.int64)
        keys = Traced(
            lambda *parts: convert_to_tensor(key_func(*parts), dtypes.int64),
            self._element,
            "group_key",
        )
        if keys.element != number:
            raise ValueError(
                "Invalid `key_func`. Expected `key_func` to return a scalar tf.int64 tensor, but "
                f"it gives {keys.element!r}."
            )
        made = Traced(
            reduce_func, (number, DatasetSpec._of(self._element, self._kind)), "group_reduce"
        )
        if made.dataset is None:
            raise TypeError(f"`reduce_func` must return a dataset; it gave {made.result!r}")
        sizes = Traced(lambda key: convert_to_tensor(size(key), dtypes.int64), number, "group_size")
        return self._make(
            "GroupByWindowDataset",
            [self, keys.captured, made.captured, sizes.captured],
            made.dataset._element,
            key_func=keys.ref,
            reduce_func=made.ref,
            window_size_func=sizes.ref,
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Return padded batches of elements of about the same length.

        Args:
          element_length_func: called with the parts of an element; gives its length.
          bucket_boundaries: the lengths at which buckets begin, after the first one.
          bucket_batch_sizes: of each bucket, one more than boundaries.
          padded_shapes, padding_values: as of `padded_batch`.
          pad_to_bucket_boundary: whether sizes that are not known are padded to the boundary less
            one; then no element may be in the last bucket.
          no_padding: whether batches are not padded.
          drop_remainder: whether a last batch that is smaller is left out.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError for another number of sizes; when walked over, InvalidArgumentError for
          an element that is longer than what its batch is padded to.
        Example:
          >>> rows = tf.data.Dataset.range(1, 4).map(lambda n: tf.fill([n], n))
          >>> batches = rows.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3], [2, 2])
          >>> [x.tolist() for x in batches.as_numpy_iterator()]
          [[[1, 0], [2, 2]], [[3, 3, 3]]]
        """
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                f"`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but "
                f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and "
                f"`len(bucket_boundaries)={len(bucket_boundaries)}`."
            )
        sizes = np.array(bucket_batch_sizes, np.int64)

        def bucket(*parts: Any) -> Any:
            length = apply_op("Cast", element_length_func(*parts), DstT=dtypes.int64)
            passed = apply_op("GreaterEqual", length, np.array(bucket_boundaries, np.int64))
            return apply_op("Sum", apply_op("Cast", passed, DstT=dtypes.int64), 0)

        def batches(key: Any, window: Any) -> Any:
            size = apply_op("GatherV2", sizes, key, 0)
            if no_padding:
                return window.batch(size, drop_remainder=drop_remainder)
            shapes = padded_shapes
            if shapes is None:
                shapes = nest.map_structure(lambda leaf: leaf.shape, self._element)
            if pad_to_bucket_boundary:
                fits = Assert(
                    apply_op("Less", key, np.int64(len(bucket_boundaries))),
                    [
                        "When pad_to_bucket_boundary=True, elements must have length < "
                        "max(bucket_boundaries)."
                    ],
                )
                if fits is not None:
                    key = with_dependencies([fits], key)
                limits = np.array([*bucket_boundaries, 0], np.int64) - 1
                most = apply_op("GatherV2", limits, key, 0)
                shapes = self._filled(shapes, most)
            return window.padded_batch(size, shapes, padding_values, drop_remainder)

        return self.group_by_window(
            bucket, batches, window_size_func=lambda key: apply_op("GatherV2", sizes, key, 0)
        )

    def _filled(self, shapes: Any, size: Any) -> Any:
        """Return shapes in which a size stands where none is known, as tensors."""
        flat = flat_shapes(shapes, 1)
        known = [
            [size if n is None else int64(n) for n in TensorShape(one).sizes or ()] for one in flat
        ]
        # There is nothing to pack for a scalar.
        found = [apply_op("Pack", sizes) if sizes else np.zeros(0, np.int64) for sizes in known]
        return nest.pack_sequence_as(self._element, found)

    @classmethod
    def sample_from_datasets(
        cls,
        datasets: Sequence[Any],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Self:
        """Return elements of datasets, each time of one that is drawn at random.

        Args:
          datasets: datasets with elements of the same structure.
          weights: how likely each is drawn: numbers, a float tensor [n], or a dataset of such,
            one for each draw; None for all alike.
          seed: an integer, for the same draws in each run of the program.
          stop_on_empty_dataset: whether the end of one ends all.
          rerandomize_each_iteration: whether each walk makes draws of its own; None for no.
        Returns: a dataset.
        Raises: ValueError for no datasets, or another number of weights; TypeError for weights
          that are not floating.
        Example:
          >>> both = [tf.data.Dataset.range(2), tf.data.Dataset.range(2)]
          >>> sorted([int(x) for x in tf.data.Dataset.sample_from_datasets(both, seed=1)])
          [0, 0, 1, 1]
        """
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        if isinstance(weights, StructuredVariant):
            pairs = cls._seed_pairs(seed, rerandomize_each_iteration)
            both = weights._element, pairs._element
            numbers = cls._make("ZipDataset", [[weights, pairs]], both)
            traced = Traced(
                lambda found, seeds: _drawn(apply_op("Log", _row(found)), seeds),
                numbers._element,
                "sample",
            )
        else:
            datasets, shares = _weighted(datasets, weights)
            if len(datasets) == 1:
                only: Self = datasets[0]
                return only
            numbers = cls._seed_pairs(seed, rerandomize_each_iteration)
            logits = apply_op("ExpandDims", apply_op("Log", shares), 0)
            traced = Traced(lambda seeds: _drawn(logits, seeds), numbers._element, "sample")
        inputs = [numbers, traced.captured]
        selector = cls._make("MapDataset", inputs, traced.element, f=traced.ref)
        return cls._directed(selector, datasets, stop_on_empty_dataset)

    @classmethod
    def _seed_pairs(cls, seed: int | None, rerandomize_each_iteration: bool | None) -> Self:
        return cls.random(seed, rerandomize_each_iteration).batch(2, drop_remainder=True)

    @classmethod
    def choose_from_datasets(
        cls, datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> Self:
        """Return elements of datasets, each time of the one that another dataset names.

        Args:
          datasets: datasets with elements of the same structure.
          choice_dataset: int64 scalars in [0, len(datasets)).
          stop_on_empty_dataset: whether the end of one ends all.
        Returns: a dataset.
        Raises: ValueError for no datasets; TypeError for other choices.
        Example:
          >>> both = [tf.data.Dataset.range(2), tf.data.Dataset.range(8, 10)]
          >>> choices = tf.data.Dataset.from_tensor_slices(tf.constant([1, 0], tf.int64))
          >>> [int(x) for x in tf.data.Dataset.choose_from_datasets(both, choices)]
          [8, 0]
        """
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        choice = choice_dataset._element
        if (
            not isinstance(choice, TensorSpec)
            or choice.dtype is not dtypes.int64
            or choice.dims != ()
        ):
            raise TypeError(
                "Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar `tf.int64` "
                "tensors."
            )
        return cls._directed(choice_dataset, datasets, stop_on_empty_dataset)

    @classmethod
    def random(
        cls,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Return random numbers without end.

        Args:
          seed: an integer, for the same numbers in each run of the program.
          rerandomize_each_iteration: whether each walk has numbers of its own; None for no.
          name: accepted for programs that give it.
        Returns: a dataset of int64 scalars.
        Example:
          >>> numbers = tf.data.Dataset.random(seed=4).take(2)
          >>> list(numbers.as_numpy_iterator()) == list(numbers.as_numpy_iterator())
          True
        """
        first, second = (0 if one is None else one for one in get_seed(seed))
        inputs: list[Any] = [int64(first, "seed"), int64(second, "seed2")]
        spec = TensorSpec((), dtypes.int64)
        if not rerandomize_each_iteration:
            return cls._make("RandomDataset", inputs, spec)
        inputs.append(apply_op("DummySeedGenerator"))
        return cls._make("RandomDatasetV2", inputs, spec, rerandomize_each_iteration=True)

    @classmethod
    def _directed(cls, selector: Any, datasets: Sequence[Any], stop_on_empty: bool) -> Self:
        element = datasets[0]._element
        for other in datasets[1:]:
            element = relaxed(element, other._element)
        inputs = [selector, list(datasets)]
        attrs: dict[str, Any] = {"stop_on_empty_dataset": stop_on_empty}
        return cls._make("DirectedInterleaveDataset", inputs, element, **attrs)


def _weighted(datasets: Sequence[Any], weights: Any) -> tuple[Sequence[Any], Any]:
    """Return the datasets that may be drawn, with their weights, a tensor.

    Raises: ValueError for another number of weights; TypeError for those that are not floating.
    """
    count = len(datasets)
    if weights is None:
        return datasets, convert_to_tensor(np.ones(count, np.float32))
    if isinstance(weights, Tensor):
        if not weights.shape.is_compatible_with([count]):
            raise ValueError(
                "Invalid `weights`. The shape of `weights` should be compatible with "
                f"`[len(datasets)]` but is {weights.shape}."
            )
    elif len(weights) != count:
        raise ValueError(
            "Invalid `weights`. `weights` should have the same length as `datasets` but got "
            f"`len(weights)={len(weights)}` vs. `len(datasets)={count}`."
        )
    else:
        # Not drawn, so that its elements are not waited for.
        kept = [(one, weight) for one, weight in zip(datasets, weights) if weight > 0]
        datasets = [one for one, _ in kept] or [datasets[0].take(0)]
        weights = [weight for _, weight in kept] or [1.0]
    made = convert_to_tensor(weights, name="weights")
    if made.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(
            "Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but is "
            f"{made.dtype}."
        )
    return datasets, made


def _row(weights: Any) -> Any:
    """Return the weights of one draw as one row, whatever structure they come in."""
    return apply_op("Reshape", convert_to_tensor(weights), [1, -1])


def _drawn(logits: Any, seeds: Any) -> Any:
    found = apply_op("StatelessMultinomial", logits, 1, seeds, output_dtype=dtypes.int64)
    return apply_op("Reshape", found, [])
