"""Datasets of the rows of files of comma-separated values, for both shapes of the API.

Source: tensorflow/python/data/experimental/ops/readers.py (CsvDataset, make_csv_dataset).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data import Dataset, DatasetV1, DatasetV1Adapter
from tideflow.ops.data.options_api import Options
from tideflow.ops.export import export, export_v2
from tideflow.ops.io import gfile
from tideflow.ops.io.csv_columns import CsvText
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype

_AUTOTUNE = -1
_BUFFER_BYTES = 4 << 20
_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)


def _default(value: TensorLike) -> Tensor:
    """Return what stands for a missing value; an empty vector for a type, which must have one."""
    if not isinstance(value, Tensor | np.ndarray | list | tuple) and value is not None:
        try:
            dtype = as_dtype(value)
        except (TypeError, ValueError):
            dtype = dtypes.bool_
        if dtype in _TYPES:
            return convert_to_tensor([], dtype)
    made: Tensor = convert_to_tensor(value, name="record_defaults")
    return made


@export_v2("data.experimental.CsvDataset")
class CsvDatasetV2(Dataset):
    """The rows of files of comma-separated values.

    Args:
      filenames: names of files, a string tensor or a list.
      record_defaults: for each column, a type, where there must be a value, or what stands for a
        missing one, a tensor [1] or a scalar.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None for 4 MiB.
      header: whether the files' first rows are left out.
      field_delim: what parts the fields of a row, one character.
      use_quote_delim: whether fields may stand in double quotes.
      na_value: what means, beside an empty field, that there is no value.
      select_cols, exclude_cols: the numbers of the columns that are wanted, or are not, in
        increasing order; None for all.
    Elements: tuples of scalars.
    Raises: InvalidArgumentError, when walked over, for a row that does not fit.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("7,a", file=file, flush=True)
      ...     rows = tf.data.experimental.CsvDataset(file.name, [tf.int32, tf.string])
      ...     [(int(number), text.numpy()) for number, text in rows]
      [(7, b'a')]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        header: TensorLike = False,
        field_delim: TensorLike = ",",
        use_quote_delim: TensorLike = True,
        na_value: TensorLike = "",
        select_cols: TensorLike | None = None,
        exclude_cols: TensorLike | None = None,
    ) -> None:
        defaults = [_default(one) for one in record_defaults]
        inputs = [
            convert_to_tensor(filenames, dtypes.string, name="filenames"),
            convert_to_tensor("" if compression_type is None else compression_type, dtypes.string),
            convert_to_tensor(_BUFFER_BYTES if buffer_size is None else buffer_size, dtypes.int64),
            convert_to_tensor(header, dtypes.bool_, name="header"),
            convert_to_tensor(field_delim, dtypes.string, name="field_delim"),
            convert_to_tensor(use_quote_delim, dtypes.bool_, name="use_quote_delim"),
            convert_to_tensor(na_value, dtypes.string, name="na_value"),
            convert_to_tensor([] if select_cols is None else select_cols, dtypes.int64),
            defaults,
            convert_to_tensor([] if exclude_cols is None else exclude_cols, dtypes.int64),
        ]
        element = tuple(TensorSpec((), one.dtype) for one in defaults)
        self._stand_for(Dataset._make("CSVDatasetV2", inputs, element))


@export("data.experimental.CsvDataset")
class CsvDatasetV1(DatasetV1Adapter):
    """The rows of files of comma-separated values.

    Args: as of the class of the TF2 shape.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file, tf.Session() as session:
      ...     print("7,a", file=file, flush=True)
      ...     rows = tf.data.experimental.CsvDataset(file.name, [tf.int32, tf.string])
      ...     number, text = tf.data.make_one_shot_iterator(rows).get_next()
      ...     print(*session.run([number, text]))
      7 b'a'
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        header: TensorLike = False,
        field_delim: TensorLike = ",",
        use_quote_delim: TensorLike = True,
        na_value: TensorLike = "",
        select_cols: TensorLike | None = None,
    ) -> None:
        super().__init__(
            CsvDatasetV2(
                filenames, record_defaults, compression_type, buffer_size, header, field_delim,
                use_quote_delim, na_value, select_cols,
            )
        )  # fmt: skip


def _files(file_pattern: Any) -> list[str]:
    """Return the files that match patterns, sorted.  Raises: ValueError for none."""
    if isinstance(file_pattern, list) and not file_pattern:
        raise ValueError("Argument `file_pattern` should not be empty.")
    found = gfile.glob(file_pattern)
    if not found:
        raise ValueError(f"No files match `file_pattern` {file_pattern}.")
    return sorted(os.fsdecode(name) for name in found)


def _repeated(names: Sequence[Any]) -> set[Any]:
    return {name for name in names if names.count(name) > 1}


def _chosen_columns(wanted: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Return which columns are wanted, in their order.

    Raises: ValueError for one that is not there, or named twice.
    """
    found = []
    for one in wanted:
        if isinstance(one, int):
            if not 0 <= one < len(names):
                raise ValueError(
                    f"Column index {one} specified in `select_columns` should be > 0  and <= "
                    f"{len(names)}, which is the number of columns."
                )
            found.append(one)
        elif one in names:
            found.append(names.index(one))
        else:
            raise ValueError(
                f"Column {one} specified in `select_columns` must be of one of the columns: "
                f"{list(names)}."
            )
    if len(set(found)) != len(found):
        raise ValueError(
            f"The `select_columns` argument contains duplicate columns: {_repeated(found)}."
        )
    return sorted(found)


def csv_batches(kind: type[Dataset]) -> Callable[..., Any]:
    """Return `make_csv_dataset` for a class of datasets."""

    def make_csv_dataset(
        file_pattern: Any,
        batch_size: int,
        column_names: Sequence[str] | None = None,
        column_defaults: Sequence[Any] | None = None,
        label_name: str | None = None,
        select_columns: Sequence[int | str] | None = None,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        header: bool = True,
        num_epochs: int | None = None,
        shuffle: bool = True,
        shuffle_buffer_size: int = 10000,
        shuffle_seed: int | None = None,
        prefetch_buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        sloppy: bool = False,
        num_rows_for_inference: int | None = 100,
        compression_type: str | None = None,
        ignore_errors: bool = False,
        encoding: str = "utf-8",
    ) -> Any:
        r"""Return a dataset of batches of rows of files of comma-separated values, by column.

        Args:
          file_pattern: a glob pattern, or a list of them.
          batch_size: how many rows a batch has; the last one may have fewer.
          column_names: the columns' names; None for what the files' first rows say.
          column_defaults: for each column, or each that is chosen, a type, where there must be a
            value, or what stands for a missing one; None to have types inferred, and zeros and
            empty strings for missing values.
          label_name: the column that is given beside the others, as the second part of an element.
          select_columns: names or numbers of the columns that are wanted; None for all.
          field_delim: what parts the fields of a row, one character.
          use_quote_delim: whether fields may stand in double quotes.
          na_value: what means, beside an empty field, that there is no value.
          header: whether the files' first rows are names.
          num_epochs: how often the files are read; None for without end.
          shuffle, shuffle_buffer_size, shuffle_seed: whether files and rows come in random order,
            how many rows are held for that, and a seed for the same order each time.
          prefetch_buffer_size: how many batches are made ahead; None leaves it to the runtime.
          num_parallel_reads: how many files take turns; None for one.
          sloppy: whether files need not keep to their turns.
          num_rows_for_inference: how many rows say which types columns have; None for all.
          compression_type: None, "", "GZIP", or "ZLIB", with which names and types must be given.
          ignore_errors: whether rows that cannot be read are left out.
          encoding: of the files, for names and types.
        Returns: a dataset of dicts of vectors, by column; with label_name of pairs of a dict and a
          vector.
        Raises: ValueError where no file matches, for names that are missing or there twice, for
          a label or a chosen column that is not there, and for a row with another number of fields
          among those that say the types.
        Example:
          >>> import os, tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     path = os.path.join(folder, "a.csv")
          ...     with open(path, "w") as file:
          ...         print("age,name", "7,a", "9,b", sep="\n", file=file)
          ...     rows = tf.data.experimental.make_csv_dataset(
          ...         path, 2, label_name="name", num_epochs=1, shuffle=False)
          ...     [(features["age"].numpy().tolist(), names.numpy().tolist())
          ...      for features, names in rows]
          [([7, 9], [b'a', b'b'])]
        """
        paths = _files(file_pattern)
        text = None
        if column_names is None or column_defaults is None:
            text = CsvText(paths, field_delim, use_quote_delim, header, compression_type, encoding)
        if column_names is None:
            if not header or text is None:
                raise ValueError(
                    "Expected `column_names` or `header` arguments. Neither is provided."
                )
            column_names = text.names()
        names = list(column_names)
        if _repeated(names):
            raise ValueError(
                "Either `column_names` argument or CSV header row contains duplicate column names: "
                f"{_repeated(names)}."
            )
        chosen = None if select_columns is None else _chosen_columns(select_columns, names)
        if text is not None and column_defaults is None:
            column_defaults = text.defaults(len(names), na_value, num_rows_for_inference, chosen)
        defaults = [_default(one) for one in column_defaults or ()]
        if chosen is not None:
            if len(defaults) != len(chosen):
                raise ValueError(
                    "If specified, `column_defaults` and `select_columns` must have the same "
                    f"length: `column_defaults` has length {len(defaults)}, `select_columns` has "
                    f"length {len(chosen)}."
                )
            names = [names[at] for at in chosen]
        if label_name is not None and label_name not in names:
            raise ValueError(
                "`label_name` provided must be one of the columns: "
                f"{names}. Received: {label_name}."
            )

        def read(name: Any) -> Any:
            rows = CsvDatasetV2(
                name, defaults, compression_type, None, header, field_delim,
                use_quote_delim, na_value, chosen,
            )  # fmt: skip
            return rows.ignore_errors() if ignore_errors else rows

        def by_name(*columns: Any) -> Any:
            features = OrderedDict(zip(names, columns))
            return features if label_name is None else (features, features.pop(label_name))

        made: Any = kind.from_tensor_slices(paths)
        if shuffle:
            made = made.shuffle(len(paths), shuffle_seed)
        made = _in_turns(made, read, num_parallel_reads, sloppy)
        if shuffle:
            made = made.shuffle(shuffle_buffer_size, shuffle_seed)
        if num_epochs != 1:
            made = made.repeat(num_epochs)
        made = made.batch(batch_size, drop_remainder=num_epochs is None).map(by_name)
        return made.prefetch(_AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)

    return make_csv_dataset


def _in_turns(
    names: Any, read: Callable[[Any], Any], num_parallel_reads: int | None, sloppy: bool
) -> Any:
    """Return the rows of files that take turns."""
    if num_parallel_reads != _AUTOTUNE:
        return names.interleave(read, cycle_length=num_parallel_reads or 1, block_length=1)
    options = Options()
    options.deterministic = not sloppy
    return names.interleave(read, num_parallel_calls=_AUTOTUNE).with_options(options)


export("data.experimental.make_csv_dataset")(csv_batches(DatasetV1))
export_v2("data.experimental.make_csv_dataset")(csv_batches(Dataset))
