"""tf.data.experimental: transformations for Dataset.apply, single elements, and files of records.

Source: tensorflow/python/data/experimental/ops/*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.batching_api import known_size
from tideflow.ops.data.functions_api import AUTOTUNE, Dataset
from tideflow.ops.data.structure import attrs_of, int64, make, packed
from tideflow.ops.data.traced import Traced, traced_state
from tideflow.ops.data.transformations import SHARD_HINT
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.framework import nest
from tideflow.wire import dtypes

Transformation = Callable[[Any], Any]

for _prefix in ("data", "data.experimental"):
    export_value(f"{_prefix}.INFINITE_CARDINALITY", -1)
    export_value(f"{_prefix}.UNKNOWN_CARDINALITY", -2)
export_value("data.experimental.SHARD_HINT", SHARD_HINT)


@export("data.experimental.map_and_batch", "data.experimental.map_and_batch_with_legacy_function")
def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: TensorLike,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> Transformation:
    """Return the transformation that maps and batches at once.

    Args:
      map_func: called with the parts of an element; gives the new element.
      batch_size: how many elements a batch has, an int64 scalar.
      num_parallel_batches: how many batches are made at a time.
      drop_remainder: whether a last batch that is not full is left out.
      num_parallel_calls: how many elements are mapped at a time, instead of num_parallel_batches;
        tuned where neither is given.
    Returns: a function for Dataset.apply.
    Raises: ValueError where both kinds of parallelism are given.
    Example:
      >>> squares = tf.data.experimental.map_and_batch(lambda x: x * x, batch_size=2)
      >>> [x.numpy().tolist() for x in tf.data.Dataset.range(3).apply(squares)]
      [[0, 1], [4]]
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch` allows only one of `num_parallel_batches` and `num_parallel_calls`."
        )
    calls: Any = num_parallel_calls
    if calls is None:
        calls = AUTOTUNE if num_parallel_batches is None else num_parallel_batches * batch_size  # type: ignore[operator]

    def transform(dataset: Dataset) -> Dataset:
        traced = Traced(map_func, dataset._element, "Dataset_map_and_batch")
        size = int64(batch_size, "batch_size")
        remainder = convert_to_tensor(drop_remainder, name="drop_remainder")
        known = known_size(size, remainder)
        element = nest.map_structure(lambda leaf: leaf.batched(known), traced.element)
        inputs = [
            dataset,
            traced.captured,
            size,
            int64(calls, "num_parallel_calls"),
            remainder,
        ]
        attrs: dict[str, Any] = {"f": traced.ref, "preserve_cardinality": True}
        return dataset._make("MapAndBatchDataset", inputs, element, **attrs)

    return transform


@export("data.experimental.assert_cardinality")
def assert_cardinality(expected_cardinality: TensorLike) -> Transformation:
    """Return the transformation that checks, at the end, how many elements there were.

    Args:
      expected_cardinality: how many there must be, an int64 scalar.  The dataset's cardinality is
        then this number.
    Returns: a function for Dataset.apply.  When walked over, raises: FailedPreconditionError for
      fewer or more elements.
    Example:
      >>> even = tf.data.Dataset.range(9).filter(lambda x: x % 2 == 0)
      >>> checked = even.apply(tf.data.experimental.assert_cardinality(5))
      >>> int(even.cardinality()), int(checked.cardinality())
      (-2, 5)
    """
    return lambda dataset: dataset._like("AssertCardinalityDataset", int64(expected_cardinality))


@export_v2("data.experimental.at")
def at(dataset: Dataset, index: TensorLike) -> Any:
    """Return the element of a dataset that has an index.

    Args:
      dataset: a dataset whose elements can be made one by one, such as a map of from_tensor_slices.
      index: an int64 scalar; the first element has 0.
    Raises: OutOfRangeError for one that is not there; FailedPreconditionError and
      UnimplementedError for datasets that are only walked over.
    Example:
      >>> squares = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda x: x * x)
      >>> int(tf.data.experimental.at(squares, 2))
      9
    """
    found = apply_op(
        "GetElementAtIndex", dataset._variant, int64(index), **attrs_of(dataset._element)
    )
    return packed(dataset._element, found)


@export("data.experimental.get_single_element")
def get_single_element(dataset: Dataset) -> Any:
    """Return the element of a dataset that has one.

    Args:
      dataset: the dataset; see Dataset.get_single_element.
    Raises: TypeError for what is no dataset; InvalidArgumentError for any other number of elements.
    Example:
      >>> int(tf.data.experimental.get_single_element(tf.data.Dataset.from_tensors(7)))
      7
    """
    return _require_dataset(dataset).get_single_element()


@export("data.experimental.pad_to_cardinality")
def pad_to_cardinality(cardinality: TensorLike, mask_key: str = "valid") -> Transformation:
    """Return the transformation that adds elements of zeros until there are so many.

    Args:
      cardinality: how many elements there are to be; the dataset has as many or fewer, dicts.
      mask_key: under which each element says whether it is one of the dataset's own.
    When applied, raises: ValueError for elements that are no dicts, or of shapes that are not
      known; eagerly also for a dataset that has more elements, no end, or an unknown number.
    Example:
      >>> rows = tf.data.Dataset.from_tensor_slices({"a": [1, 2]})
      >>> padded = rows.apply(tf.data.experimental.pad_to_cardinality(3))
      >>> [(int(row["a"]), bool(row["valid"])) for row in padded]
      [(1, True), (2, True), (0, False)]
    """

    def transform(dataset: Dataset) -> Dataset:
        if get_default_graph().is_eager:
            _check_room(int(dataset.cardinality()), cardinality)  # type: ignore[call-overload]
        spec = dataset.element_spec
        if not isinstance(spec, Mapping):
            raise ValueError("`pad_to_cardinality` requires its input dataset to be a dictionary.")

        def masked(element: Any) -> Any:
            element[mask_key] = True
            return element

        filler = nest.map_structure(_zeros, spec)
        filler[mask_key] = False
        missing = apply_op("Sub", int64(cardinality), dataset.cardinality())
        padding = type(dataset).from_tensors(filler).repeat(missing)
        return dataset.map(masked).concatenate(padding)

    return transform


def _check_room(there: int, wanted: Any) -> None:
    if there < 0:
        raise ValueError(
            "The dataset passed into `pad_to_cardinality` must have a known cardinalty, but has "
            f"cardinality {there}"
        )
    if there > wanted:
        raise ValueError(
            "The dataset passed into `pad_to_cardinality` must have a cardinalty less than the "
            f"target cardinality ({wanted}), but has cardinality {there}"
        )


def _zeros(spec: Any) -> Any:
    sizes = spec.shape.sizes
    if sizes is None or None in sizes:
        raise ValueError(f"Cannot convert a partially known TensorShape {spec.shape} to a Tensor.")
    if spec.dtype is dtypes.string:
        return convert_to_tensor(np.full(sizes, b"", object), dtypes.string)
    return convert_to_tensor(np.zeros(sizes, spec.dtype.as_numpy_dtype), spec.dtype)


# ---- groups that are reduced


@export("data.experimental.Reducer")
class Reducer:
    """Hold the functions that reduce a group of elements; see `group_by_reducer`.

    Args:
      init_func: called with a key, an int64 scalar; gives the first state, a structure of tensors.
      reduce_func: called with the state and an element; gives the next state.
      finalize_func: called with the parts of the last state; gives what the group becomes.
    Example:
      >>> mean = tf.data.experimental.Reducer(
      ...     lambda key: (0.0, 0.0),
      ...     lambda state, x: (state[0] + tf.cast(x, tf.float32), state[1] + 1.0),
      ...     lambda total, count: total / count)
      >>> means = tf.data.experimental.group_by_reducer(lambda x: x % 2, mean)
      >>> [float(x) for x in tf.data.Dataset.range(4).apply(means)]
      [1.0, 2.0]
    """

    def __init__(
        self,
        init_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        self._init_func = init_func
        self._reduce_func = reduce_func
        self._finalize_func = finalize_func

    @property
    def init_func(self) -> Callable[..., Any]:
        """The function that gives the first state."""
        return self._init_func

    @property
    def reduce_func(self) -> Callable[..., Any]:
        """The function that gives the next state."""
        return self._reduce_func

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """The function that gives the result."""
        return self._finalize_func


@export("data.experimental.group_by_reducer")
def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Return the transformation that reduces the elements of each key to one, in the keys' order.

    Args:
      key_func: called with the parts of an element; gives an int64 scalar.
      reducer: what is done with the elements of a key.
    When applied, raises: ValueError for a key_func that gives something else; TypeError for a state
      of other types than the first.
    Example:
      >>> add = tf.data.experimental.Reducer(
      ...     lambda key: tf.constant(0, tf.int64), lambda total, x: total + x, lambda total: total)
      >>> sums = tf.data.experimental.group_by_reducer(lambda x: x % 2, add)
      >>> [int(x) for x in tf.data.Dataset.range(5).apply(sums)]
      [6, 4]
    """

    def transform(dataset: Dataset) -> Dataset:
        element, number = dataset._element, TensorSpec((), dtypes.int64)
        keys = Traced(key_func, element, "reducer_key")
        if not number.is_compatible_with(keys.element):
            raise ValueError(
                "Invalid `key_func`. Expected `key_func` to return a scalar tf.int64 tensor, but "
                f"it gives {keys.element!r}."
            )
        begin = Traced(reducer.init_func, number, "reducer_init")
        reduce, state = traced_state(
            reducer.reduce_func, begin.element, element, "reducer_reduce", lambda found: found
        )
        final = Traced(reducer.finalize_func, state, "reducer_finalize")
        functions = (keys, begin, reduce, final)
        return dataset._make(
            "GroupByReducerDataset",
            [dataset, *(one.captured for one in functions)],
            final.element,
            key_func=keys.ref,
            init_func=begin.ref,
            reduce_func=reduce.ref,
            finalize_func=final.ref,
        )

    return transform


# ---- files


@export("data.experimental.TFRecordWriter")
class TFRecordWriter:
    """Writes datasets of strings to a file of records.

    Args:
      filename: the file, a string scalar.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     words = tf.data.Dataset.from_tensor_slices(["one", "two"])
      ...     tf.data.experimental.TFRecordWriter(path).write(words)
      ...     [record.numpy() for record in tf.data.TFRecordDataset(path)]
      [b'one', b'two']
    """

    def __init__(self, filename: TensorLike, compression_type: TensorLike | None = None) -> None:
        self._filename = convert_to_tensor(filename, dtypes.string, name="filename")
        kind = "" if compression_type is None else compression_type
        self._compression = convert_to_tensor(kind, dtypes.string, name="compression_type")

    def write(self, dataset: Dataset) -> Any:
        """Write the elements of a dataset; a file that is there is written anew.

        Args:
          dataset: of string scalars.
        Returns: in a graph, the operation that writes.
        Raises: TypeError for what is no dataset of string scalars.
        Example:
          >>> import os, tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = os.path.join(folder, "a.tfrecord")
          ...     one = tf.data.Dataset.from_tensors("one")
          ...     tf.data.experimental.TFRecordWriter(path).write(one)
          ...     os.path.getsize(path)
          19
        """
        spec = _require_dataset(dataset).element_spec
        strings = TensorSpec((), dtypes.string)
        if not isinstance(spec, TensorSpec) or not spec.is_compatible_with(strings):
            raise TypeError(
                "Invalid `dataset`. Expected a `dataset` that produces scalar `tf.string` "
                f"elements, but got a dataset which produces elements of {spec!r}."
            )
        inputs = [dataset._variant, self._filename, self._compression]
        made = make("DatasetToTFRecord", inputs)
        return None if get_default_graph().is_eager else made


def _require_dataset(dataset: Dataset) -> Any:
    """Return a dataset.  Raises: TypeError for anything else."""
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"Invalid `dataset`. Expected a `tf.data.Dataset` object but got {type(dataset)}."
        )
    return dataset


@export("data.experimental.get_model_proto")
def get_model_proto(iterator: Any) -> Any:
    """Refuse: iterators of sessions have no model by which they are tuned.

    Args:
      iterator: anything.
    Raises: ValueError, as in TensorFlow.
    Example:
      >>> tf.data.experimental.get_model_proto(None)
      Traceback (most recent call last):
      ValueError: Only supports `tf.data.Iterator`-typed `iterator`.
    """
    raise ValueError("Only supports `tf.data.Iterator`-typed `iterator`.")
