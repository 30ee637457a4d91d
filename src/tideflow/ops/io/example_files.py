"""Batches of features out of files of tf.train.Example records.

Source: tensorflow/python/data/experimental/ops/readers.py (make_batched_features_dataset).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tideflow.ops.data import Dataset, DatasetV1, TFRecordDatasetV1, TFRecordDatasetV2
from tideflow.ops.export import export, export_v2
from tideflow.ops.io.reader_classes import ReaderBase
from tideflow.ops.parsing import parse_example_v2
from tideflow.wire import dtypes

_AUTOTUNE = -1


def batched_features(datasets: Any, default_reader: Callable[..., Any]) -> Callable[..., Any]:
    """Return `make_batched_features_dataset` for a class of datasets.

    default_reader: makes the dataset of a file's records.
    """

    def make_batched_features_dataset(
        file_pattern: Any,
        batch_size: int,
        features: Mapping[str, Any],
        reader: Callable[..., Any] | None = None,
        label_key: str | None = None,
        reader_args: Any = None,
        num_epochs: int | None = None,
        shuffle: bool = True,
        shuffle_buffer_size: int = 10000,
        shuffle_seed: int | None = None,
        prefetch_buffer_size: int | None = None,
        reader_num_threads: int | None = None,
        parser_num_threads: int | None = None,
        sloppy_ordering: bool = False,
        drop_final_batch: bool = False,
    ) -> Any:
        """Return a dataset of batches of features, out of files of tf.train.Example records.

        Args:
          file_pattern: a glob pattern, or a list of them.
          batch_size: how many records a batch has; the last one may have fewer.
          features: by name what is parsed (see tf.io.parse_example).
          reader: called with a file's name, a string scalar, and reader_args; returns a dataset of
            records, string scalars, or of keys and records.  None for tf.data.TFRecordDataset.
          label_key: the feature that is given beside the others, as the second part of an element.
          reader_args: further arguments of reader.
          num_epochs: how often the files are read; None for without end.
          shuffle, shuffle_buffer_size, shuffle_seed: whether files and records come in random
            order, how many records are held for that, and a seed for the same order each time.
          prefetch_buffer_size: how many batches are made ahead; None leaves it to the runtime.
          reader_num_threads: how many files take turns; None for one.
          parser_num_threads: how many batches are parsed at once; None for two.
          sloppy_ordering: whether files need not keep to their turns.
          drop_final_batch: whether a last batch with fewer records is left out, as it is where
            there are repetitions without end.
        Returns: a dataset of dicts of tensors; with label_key of pairs of a dict and a tensor.
        Raises: InvalidArgumentError where no file matches; ValueError for a label_key that is none
          of the features; TypeError for a class of readers of TF1.
        Example:
          >>> import os, tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = os.path.join(folder, "a.tfrecord")
          ...     feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
          ...     features = tf.train.Features(feature={"age": feature})
          ...     with tf.io.TFRecordWriter(path) as writer:
          ...         writer.write(tf.train.Example(features=features).SerializeToString())
          ...     age = {"age": tf.io.FixedLenFeature([], tf.int64)}
          ...     rows = tf.data.experimental.make_batched_features_dataset(
          ...         path, 1, age, num_epochs=1
          ...     )
          >>> rows.element_spec["age"]
          TensorSpec(shape=(None,), dtype=tf.int64, name=None)
        """
        if isinstance(reader, type) and issubclass(reader, ReaderBase):
            raise TypeError("The `reader` argument must return a `Dataset` object.")
        if label_key is not None and label_key not in features:
            raise ValueError(
                f"The `label_key` provided ({label_key}) must be one of the `features` keys: "
                f"{features.keys()}."
            )
        made = datasets.list_files(file_pattern, shuffle, shuffle_seed)
        read: Any = reader or default_reader
        more = reader_args or ()
        cycle = reader_num_threads or 1
        made = made.interleave(
            lambda name: read(name, *more),
            cycle_length=cycle,
            num_parallel_calls=cycle,
            deterministic=not sloppy_ordering,
        )
        if _has_keys(made.element_spec):
            made = made.map(lambda _, record: record)
        if shuffle:
            made = made.shuffle(shuffle_buffer_size, shuffle_seed)
        if num_epochs != 1:
            made = made.repeat(num_epochs)
        made = made.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
        made = made.map(
            lambda records: parse_example_v2(records, features),
            num_parallel_calls=parser_num_threads or 2,
        )
        if label_key is not None:
            made = made.map(lambda parsed: (parsed, parsed.pop(label_key)))
        ahead = _AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size
        return made.prefetch(ahead)

    return make_batched_features_dataset


def _has_keys(spec: Any) -> bool:
    """Whether elements are pairs of strings."""
    if not isinstance(spec, tuple) or len(spec) != 2:
        return False
    return all(getattr(one, "dtype", None) == dtypes.string for one in spec)


export("data.experimental.make_batched_features_dataset")(
    batched_features(DatasetV1, TFRecordDatasetV1)
)
export_v2("data.experimental.make_batched_features_dataset")(
    batched_features(Dataset, TFRecordDatasetV2)
)
