"""tf.data.experimental: what datasets' methods do, as functions, most of them for Dataset.apply.

Source: tensorflow/python/data/experimental/ops/*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.data.functions_api import AUTOTUNE, Dataset
from tideflow.ops.export import export, export_v2
from tideflow.wire import dtypes

Transformation = Callable[[Any], Any]


@export("data.experimental.ignore_errors")
def ignore_errors(log_warning: bool = False) -> Transformation:
    """Return the transformation that leaves out elements whose making fails.

    Args:
      log_warning: accepted; nothing is written.
    Returns: a function for Dataset.apply; see Dataset.ignore_errors.
    Example:
      >>> inverses = tf.data.Dataset.from_tensor_slices([1.0, 0.0, 2.0]).map(
      ...     lambda x: tf.debugging.check_numerics(1.0 / x, "no inverse"))
      >>> [float(x) for x in inverses.apply(tf.data.experimental.ignore_errors())]
      [1.0, 0.5]
    """
    return lambda dataset: dataset.ignore_errors(log_warning)


@export("data.experimental.unique")
def unique() -> Transformation:
    """Return the transformation that keeps the first of equal elements.

    Returns: a function for Dataset.apply; see Dataset.unique.
    Example:
      >>> found = tf.data.Dataset.from_tensor_slices([1, 7, 1]).apply(tf.data.experimental.unique())
      >>> [int(x) for x in found]
      [1, 7]
    """
    return lambda dataset: dataset.unique()


@export("data.experimental.unbatch")
def unbatch() -> Transformation:
    """Return the transformation that splits elements along their first dimension.

    Returns: a function for Dataset.apply; see Dataset.unbatch.
    Raises: ValueError, when applied, for elements with a scalar.
    Example:
      >>> rows = tf.data.Dataset.from_tensors([[1, 2], [3, 4]])
      >>> [row.numpy().tolist() for row in rows.apply(tf.data.experimental.unbatch())]
      [[1, 2], [3, 4]]
    """
    return lambda dataset: dataset.unbatch()


@export("data.experimental.enumerate_dataset")
def enumerate_dataset(start: int = 0) -> Transformation:
    """Return the transformation that puts a number before each element.

    Args:
      start: the first number; numbers are int64 scalars.
    Returns: a function for Dataset.apply; see Dataset.enumerate.
    Example:
      >>> words = tf.data.Dataset.from_tensor_slices(["a", "b"])
      >>> numbered = words.apply(tf.data.experimental.enumerate_dataset(start=5))
      >>> [(int(i), word.numpy()) for i, word in numbered]
      [(5, b'a'), (6, b'b')]
    """
    return lambda dataset: dataset.enumerate(start)


@export("data.experimental.take_while")
def take_while(predicate: Callable[..., Any]) -> Transformation:
    """Return the transformation that ends a dataset at the first element that fails a test.

    Args:
      predicate: called with the parts of an element; gives a bool scalar.
    Returns: a function for Dataset.apply; see Dataset.take_while.
    Raises: ValueError, when applied, for a predicate that gives something else.
    Example:
      >>> small = tf.data.Dataset.range(9).apply(tf.data.experimental.take_while(lambda x: x < 3))
      >>> [int(x) for x in small]
      [0, 1, 2]
    """
    return lambda dataset: dataset.take_while(predicate)


@export("data.experimental.scan")
def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Transformation:
    """Return the transformation that maps elements with a state that goes from one to the next.

    Args:
      initial_state: a structure of tensors.
      scan_func: called with the state and the parts of an element; gives (next state, new element).
    Returns: a function for Dataset.apply; see Dataset.scan.
    Raises: TypeError, when applied, where scan_func gives something else.
    Example:
      >>> sums = tf.data.experimental.scan(
      ...     tf.constant(0, tf.int64), lambda total, x: (total + x, total + x))
      >>> [int(x) for x in tf.data.Dataset.range(5).apply(sums)]
      [0, 1, 3, 6, 10]
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


@export("data.experimental.snapshot")
@export_v2("data.experimental.snapshot")
def snapshot(
    path: str,
    compression: str | None = "AUTO",
    reader_func: Callable[[Any], Any] | None = None,
    shard_func: Callable[..., Any] | None = None,
) -> Transformation:
    """Return the transformation that writes elements to files once, and reads them from then on.

    Args:
      path: the directory of the files, a string.
      compression: "AUTO" or "SNAPPY", "GZIP", or None.
      reader_func: called with a dataset of datasets, one for each shard; gives the dataset of
        elements.
      shard_func: called with the parts of an element; gives its shard, an int64 scalar.
    Returns: a function for Dataset.apply; see Dataset.snapshot.
    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     kept = tf.data.Dataset.range(3).apply(tf.data.experimental.snapshot(folder))
      ...     [int(x) for x in kept]
      [0, 1, 2]
    """
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


@export("data.experimental.shuffle_and_repeat")
def shuffle_and_repeat(
    buffer_size: TensorLike, count: TensorLike | None = None, seed: int | None = None
) -> Transformation:
    """Return the transformation that shuffles, anew in each repetition, and repeats.

    Args:
      buffer_size: from how many elements the next one is drawn, an int64 scalar of 1 or more.
      count: how often the elements come, an int64 scalar; None or -1 for no end.
      seed: an int, for the same order in each run of the program.
    Returns: a function for Dataset.apply.
    Example:
      >>> twice = tf.data.experimental.shuffle_and_repeat(buffer_size=3, count=2, seed=1)
      >>> sorted(int(x) for x in tf.data.Dataset.range(3).apply(twice))
      [0, 0, 1, 1, 2, 2]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


@export("data.experimental.group_by_window")
def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """Return the transformation that collects elements of a key and makes a dataset of each window.

    Args:
      key_func: called with the parts of an element; gives its key, an int64 scalar.
      reduce_func: called with a key and a dataset of its elements; gives a dataset, whose elements
        come next.
      window_size: how many elements a window has, an int; the last ones of a key may have fewer.
      window_size_func: called with a key; gives the size of its windows, an int64 scalar.
    Returns: a function for Dataset.apply; see Dataset.group_by_window.
    Raises: ValueError unless one of the two sizes is given.
    Example:
      >>> pairs = tf.data.experimental.group_by_window(
      ...     lambda x: x % 2, lambda key, window: window.batch(2), window_size=2)
      >>> [x.numpy().tolist() for x in tf.data.Dataset.range(5).apply(pairs)]
      [[0, 2], [1, 3], [4]]
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func.")
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


@export("data.experimental.bucket_by_sequence_length")
def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Return the transformation that batches elements of similar length together.

    Args:
      element_length_func: called with the parts of an element; gives its length, an integer scalar.
      bucket_boundaries: rising lengths, at each of which a new bucket begins.
      bucket_batch_sizes: the batch size of each bucket, one more than there are boundaries.
      padded_shapes: the shapes to which elements are padded; by default those of the longest of a
        batch.
      padding_values: what is padded with, zeros or empty strings by default.
      pad_to_bucket_boundary: whether to pad to the bucket's boundary less one instead; no element
        may then be in the last bucket.
      no_padding: whether elements of a batch have the same shape already.
      drop_remainder: whether batches that are not full at the end are left out.
    Returns: a function for Dataset.apply; see Dataset.bucket_by_sequence_length.
    Raises: ValueError, when applied, for another number of batch sizes; when walked over,
      InvalidArgumentError for an element that is longer than what its batch is padded to.
    Example:
      >>> ragged = tf.ragged.constant([[1], [2, 3, 4], [5, 6]])
      >>> rows = tf.data.Dataset.from_tensor_slices(ragged).map(tf.identity)
      >>> buckets = tf.data.experimental.bucket_by_sequence_length(
      ...     tf.size, bucket_boundaries=[3], bucket_batch_sizes=[2, 2])
      >>> [batch.numpy().tolist() for batch in rows.apply(buckets)]
      [[[1, 0], [5, 6]], [[2, 3, 4]]]
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )


@export("data.experimental.dense_to_ragged_batch")
@export_v2("data.experimental.dense_to_ragged_batch")
def dense_to_ragged_batch(
    batch_size: TensorLike,
    drop_remainder: bool = False,
    row_splits_dtype: DTypeLike = dtypes.int64,
) -> Transformation:
    """Return the transformation that batches elements of different shapes to ragged tensors.

    Args:
      batch_size: an int64 scalar.
      drop_remainder: whether a last batch that is not full is left out.
      row_splits_dtype: the type of row splits, int32 or int64.
    Returns: a function for Dataset.apply; see Dataset.ragged_batch.
    Example:
      >>> rows = tf.data.Dataset.range(3).map(tf.range)
      >>> batched = rows.apply(tf.data.experimental.dense_to_ragged_batch(batch_size=3))
      >>> [batch.to_list() for batch in batched]
      [[[], [0], [0, 1]]]
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


@export("data.experimental.dense_to_sparse_batch")
@export_v2("data.experimental.dense_to_sparse_batch")
def dense_to_sparse_batch(batch_size: TensorLike, row_shape: ShapeLike) -> Transformation:
    """Return the transformation that batches elements of different shapes to sparse tensors.

    Args:
      batch_size: an int64 scalar.
      row_shape: a shape of the elements' rank in which each of them fits; None for a size that the
        largest of a batch decides.
    Returns: a function for Dataset.apply; see Dataset.sparse_batch.
    Raises: TypeError, when applied, for elements of more than one tensor; when walked over,
      DataLossError for an element that is larger, InvalidArgumentError for one of another rank.
    Example:
      >>> rows = tf.data.Dataset.range(1, 3).map(tf.range)
      >>> batched = rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [3]))
      >>> [tf.sparse.to_dense(batch).numpy().tolist() for batch in batched]
      [[[0, 0, 0], [0, 1, 0]]]
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


@export("data.experimental.parallel_interleave")
def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: TensorLike,
    block_length: TensorLike = 1,
    sloppy: bool | None = False,
    buffer_output_elements: TensorLike | None = None,
    prefetch_input_elements: TensorLike | None = None,
) -> Transformation:
    """Return the transformation that takes turns at the elements of several datasets.

    Args:
      map_func: called with the parts of an element; gives a dataset.
      cycle_length: how many of these datasets are open at a time, an int64 scalar.
      block_length: how many elements are taken from one before it is the next one's turn.
      sloppy: accepted; elements keep their order, as without it.
      buffer_output_elements, prefetch_input_elements: accepted; they change no element.
    Returns: a function for Dataset.apply; see Dataset.interleave.
    Example:
      >>> twice = lambda x: tf.data.Dataset.from_tensors(x).repeat(2)
      >>> turns = tf.data.experimental.parallel_interleave(twice, cycle_length=2)
      >>> [int(x) for x in tf.data.Dataset.range(2).apply(turns)]
      [0, 1, 0, 1]
    """
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length)


@export("data.experimental.cardinality")
def cardinality(dataset: Dataset) -> Tensor:
    """Return how many elements a dataset has: -1 for no end, -2 where that is not known.

    Args:
      dataset: the dataset.
    Returns: an int64 scalar; see Dataset.cardinality.
    Example:
      >>> int(tf.data.experimental.cardinality(tf.data.Dataset.range(42)))
      42
      >>> int(tf.data.experimental.cardinality(tf.data.Dataset.range(42).repeat()))
      -1
    """
    return dataset.cardinality()


@export("data.experimental.prefetch_to_device")
def prefetch_to_device(device: str, buffer_size: TensorLike | None = None) -> Transformation:
    """Return the transformation that makes elements ahead; they are moved where they are used.

    Args:
      device: accepted; what uses an element moves it.
      buffer_size: how many elements are made ahead, an int64 scalar; None for a number that is
        tuned.
    Returns: a function for Dataset.apply; see Dataset.prefetch.
    Example:
      >>> ahead = tf.data.Dataset.range(3).apply(tf.data.experimental.prefetch_to_device("/cpu:0"))
      >>> [int(x) for x in ahead]
      [0, 1, 2]
    """
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


@export("data.experimental.copy_to_device")
def copy_to_device(target_device: str, source_device: str = "/cpu:0") -> Transformation:
    """Return the transformation that changes nothing; elements are moved where they are used.

    Args:
      target_device, source_device: accepted; what uses an element moves it.
    Returns: a function for Dataset.apply.
    Example:
      >>> there = tf.data.Dataset.range(3).apply(tf.data.experimental.copy_to_device("/cpu:0"))
      >>> [int(x) for x in there]
      [0, 1, 2]
    """
    return lambda dataset: dataset


@export("data.experimental.get_structure")
def get_structure(dataset_or_iterator: Any) -> Any:
    """Return the structure of TypeSpecs of an element.

    Args:
      dataset_or_iterator: a dataset or an iterator.
    Returns: TypeSpecs in the structure of an element; the same as its element_spec.
    Example:
      >>> tf.data.experimental.get_structure(tf.data.Dataset.range(3))
      TensorSpec(shape=(), dtype=tf.int64, name=None)
    """
    return dataset_or_iterator.element_spec


@export("data.experimental.sample_from_datasets")
def sample_from_datasets(
    datasets: Sequence[Any],
    weights: TensorLike | None = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
) -> Any:
    """Return a dataset that draws for each element from which of several datasets it comes.

    Args:
      datasets: a list of datasets of one structure.
      weights: how likely each dataset is, floating numbers [datasets], or a dataset of such
        vectors; None for equally likely ones.
      seed: an int, for the same draws in each run of the program.
      stop_on_empty_dataset: whether the result ends with the first dataset that ends; otherwise the
        others go on.
    Returns: a dataset; see Dataset.sample_from_datasets.
    Raises: ValueError for no datasets, or another number of weights; TypeError for weights that are
      not floating.
    Example:
      >>> both = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)]
      >>> mixed = tf.data.experimental.sample_from_datasets(both, weights=[0.5, 0.5], seed=1)
      >>> sorted(int(x) for x in mixed)
      [0, 1, 10, 11]
    """
    return type(datasets[0]).sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


@export("data.experimental.choose_from_datasets")
def choose_from_datasets(
    datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = False
) -> Any:
    """Return a dataset whose elements come from those of several datasets that another one names.

    Args:
      datasets: a list of datasets of one structure.
      choice_dataset: a dataset of int64 scalars, each the index of a dataset.
      stop_on_empty_dataset: whether the result ends when a dataset that is chosen has ended;
        otherwise such choices are passed over.
    Returns: a dataset; see Dataset.choose_from_datasets.
    Raises: ValueError for no datasets; TypeError for choices that are no int64 scalars.
    Example:
      >>> both = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 12)]
      >>> choices = tf.data.Dataset.from_tensor_slices(tf.constant([1, 0, 1], tf.int64))
      >>> [int(x) for x in tf.data.experimental.choose_from_datasets(both, choices)]
      [10, 0, 11]
    """
    kind = datasets[0]._kind
    return kind.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


@export("data.experimental.rejection_resample")
def rejection_resample(
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any = None,
    seed: int | None = None,
) -> Transformation:
    """Return the transformation that leaves out elements until classes are as frequent as wanted.

    Args:
      class_func: called with the parts of an element; gives its class, an int32 scalar.
      target_dist: how frequent each class is to be, floating numbers [classes] with sum 1.
      initial_dist: how frequent each class is, [classes]; None to count while elements pass.
      seed: an int, for the same draws in each run of the program.
    Returns: a function for Dataset.apply, which gives a dataset of pairs (class, element); see
      Dataset.rejection_resample.
    Example:
      >>> ones = tf.data.experimental.rejection_resample(
      ...     lambda x: tf.cast(x % 2, tf.int32), [0.1, 0.9], initial_dist=[0.5, 0.5], seed=1)
      >>> {int(found) for found, _ in tf.data.Dataset.range(40).apply(ones)}
      {0, 1}
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)
