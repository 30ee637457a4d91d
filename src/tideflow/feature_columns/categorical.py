"""Columns of categories: ids by hash, by vocabulary, as they are, with weights, and crossed.

Source: tensorflow/python/feature_column/feature_column_v2.py for names and rules.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.feature_columns.columns import (
    CategoricalColumn,
    FeatureTransformationCache,
    IdWeightPair,
    as_sparse,
    check_ids,
    check_key,
)
from tideflow.graph.building import apply_op
from tideflow.graph.types import DTypeLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.io import gfile
from tideflow.ops.lookup.classes import (
    KeyValueTensorInitializer,
    StaticHashTable,
    StaticVocabularyTable,
    TableInitializer,
    TextFileIndex,
    TextFileInitializer,
)
from tideflow.ops.parsing.examples import VarLenFeature
from tideflow.ops.sparse import SparseTensor
from tideflow.ops.sparse.calls import cross_hashed
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


class _Keyed(CategoricalColumn):
    """Base of columns of one feature, whose ids come from what it holds."""

    key: str

    @property
    def name(self) -> str:
        """The key."""
        return self.key

    @property
    def parents(self) -> list[Any]:
        """The key."""
        return [self.key]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The feature, of any length."""
        return {self.key: VarLenFeature(self.dtype)}  # type: ignore[attr-defined]

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return the ids, sparse."""
        given = as_sparse(transformation_cache.get(self.key, state_manager))
        return self._ids(given, state_manager)

    def _ids(self, given: SparseTensor, state_manager: Any) -> SparseTensor:
        raise NotImplementedError

    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return the ids, without weights."""
        return IdWeightPair(transformation_cache.get(self, state_manager), None)

    def _check_type(self, given: SparseTensor) -> None:
        dtype = self.dtype  # type: ignore[attr-defined]
        if dtype.is_integer != given.dtype.is_integer:
            raise ValueError(
                f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, column "
                f"dtype: {dtype}, tensor dtype: {given.dtype}"
            )


class HashedCategoricalColumn(
    _Keyed, namedtuple("HashedCategoricalColumn", ("key", "hash_bucket_size", "dtype"))
):
    """Ids by the hashes of strings, or of integers as text."""

    @property
    def num_buckets(self) -> int:
        """How many buckets there are."""
        return int(self.hash_bucket_size)

    def _ids(self, given: SparseTensor, state_manager: Any) -> SparseTensor:
        check_ids(given.dtype, f"column_name: {self.key} input_tensor")
        self._check_type(given)
        texts = given.values
        if self.dtype is not dtypes.string:
            texts = apply_op("AsString", texts)
        found = apply_op(
            "StringToHashBucketFast", texts, num_buckets=self.hash_bucket_size, name="lookup"
        )
        return SparseTensor(given.indices, found, given.dense_shape)


@export("feature_column.categorical_column_with_hash_bucket")
def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DTypeLike = dtypes.string
) -> HashedCategoricalColumn:
    """Return a column whose ids are hashes of a feature's strings or integers.

    Args:
      key: of the feature.
      hash_bucket_size: how many ids there are.
    Raises: ValueError for a key that is no text, no buckets, and other types.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    check_key(key)
    check_ids(as_dtype(dtype), f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, as_dtype(dtype))


class _Vocabulary(_Keyed):
    """Base of columns whose ids are places in a vocabulary."""

    num_oov_buckets: int
    default_value: int

    def _ids(self, given: SparseTensor, state_manager: Any) -> SparseTensor:
        self._check_type(given)
        if given.dtype.is_integer:
            values = apply_op("Cast", given.values, DstT=dtypes.int64)
            given = SparseTensor(given.indices, values, given.dense_shape)
        made: SparseTensor = self._table(given.dtype, state_manager).lookup(given)
        return made

    def _table(self, key_type: Any, state_manager: Any) -> Any:
        """Return the table, kept where there is somebody to keep it."""
        name = f"{self.key}_lookup"
        keeps = getattr(state_manager, "has_resource", None)
        if keeps is not None and keeps(self, name):
            return state_manager.get_resource(self, name)
        first = self._words(key_type)
        if self.num_oov_buckets:
            table: Any = StaticVocabularyTable(first, self.num_oov_buckets, key_type, name=name)
        else:
            table = StaticHashTable(first, self.default_value, name=name)
        if keeps is not None:
            state_manager.add_resource(self, name, table)
        return table

    def _words(self, key_type: Any) -> TableInitializer:
        raise NotImplementedError


class VocabularyListCategoricalColumn(
    _Vocabulary,
    namedtuple(
        "VocabularyListCategoricalColumn",
        ("key", "vocabulary_list", "dtype", "default_value", "num_oov_buckets"),
    ),
):
    """Ids by places in a list."""

    @property
    def num_buckets(self) -> int:
        """How many words and further buckets there are."""
        return len(self.vocabulary_list) + int(self.num_oov_buckets)

    def _words(self, key_type: Any) -> TableInitializer:
        words = self.vocabulary_list
        return KeyValueTensorInitializer(
            list(words), np.arange(len(words)), key_type, dtypes.int64, name="initializer"
        )


@export("feature_column.categorical_column_with_vocabulary_list")
def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any],
    dtype: DTypeLike | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Return a column whose ids are places of a feature's values in a list.

    Args:
      vocabulary_list: strings or integers, each once.
      dtype: of the feature; that of the list by default.
      default_value: the id of other values; -1 leaves them out.
      num_oov_buckets: how many ids after those of the list other values have, by their hashes.
    Raises: ValueError for lists that are empty or name something twice, for other types, and for
      both default_value and num_oov_buckets.
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    _check_others(key, default_value, num_oov_buckets)
    known = as_dtype(np.array(vocabulary_list).dtype)
    if dtype is None:
        dtype = known
    elif as_dtype(dtype).is_integer != known.is_integer:
        raise ValueError(
            f"dtype {dtype} and vocabulary dtype {known} do not match, column_name: {key}"
        )
    check_ids(as_dtype(dtype), f"column_name: {key} vocabulary")
    check_key(key)
    return VocabularyListCategoricalColumn(
        key, tuple(vocabulary_list), as_dtype(dtype), default_value, num_oov_buckets
    )


def _check_others(key: str, default_value: Any, num_oov_buckets: int) -> None:
    """Raise ValueError for two ways to treat values that are not in a vocabulary."""
    if not num_oov_buckets:
        return
    if default_value not in (None, -1):
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


class VocabularyFileCategoricalColumn(
    _Vocabulary,
    namedtuple(
        "VocabularyFileCategoricalColumn",
        ("key", "vocabulary_file", "vocabulary_size", "num_oov_buckets", "dtype", "default_value",
         "file_format"),
        defaults=(None,),
    ),
):  # fmt: skip
    """Ids by lines of a file."""

    @property
    def num_buckets(self) -> int:
        """How many lines and further buckets there are."""
        return int(self.vocabulary_size) + int(self.num_oov_buckets)

    def _words(self, key_type: Any) -> TableInitializer:
        return TextFileInitializer(
            self.vocabulary_file,
            key_type,
            TextFileIndex.WHOLE_LINE,
            dtypes.int64,
            TextFileIndex.LINE_NUMBER,
            vocab_size=self.vocabulary_size,
        )


@export("feature_column.categorical_column_with_vocabulary_file")
def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DTypeLike = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """Return a column whose ids are the numbers of lines of a file.

    Args:
      vocabulary_file: its path; each line is a word.
      vocabulary_size: how many lines count; all by default.
      num_oov_buckets, default_value: as of categorical_column_with_vocabulary_list.
    Raises: ValueError for no file, for a size below 1, for other types, and for both default_value
      and num_oov_buckets.
    """
    return categorical_column_with_vocabulary_file_v2(
        key, vocabulary_file, vocabulary_size, dtype, default_value, num_oov_buckets
    )


@export_v2("feature_column.categorical_column_with_vocabulary_file")
def categorical_column_with_vocabulary_file_v2(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    dtype: DTypeLike = dtypes.string,
    default_value: int | None = None,
    num_oov_buckets: int = 0,
    file_format: str | None = None,
) -> VocabularyFileCategoricalColumn:
    """Return a column whose ids are the numbers of lines of a file.

    Arguments and errors as in the TF1 form; file_format is None, for lines of text.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if file_format is not None:
        raise ValueError(f"file_format must be None, for lines of text; found {file_format!r}")
    if vocabulary_size is None:
        if not gfile.exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with gfile.GFile(vocabulary_file, "rb") as opened:
            vocabulary_size = sum(1 for _ in opened)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_others(key, default_value, num_oov_buckets)
    check_ids(as_dtype(dtype), f"column_name: {key} vocabulary")
    check_key(key)
    other = -1 if default_value is None else default_value
    return VocabularyFileCategoricalColumn(
        key, vocabulary_file, vocabulary_size, num_oov_buckets or 0, as_dtype(dtype), other, None
    )


class IdentityCategoricalColumn(
    _Keyed, namedtuple("IdentityCategoricalColumn", ("key", "number_buckets", "default_value"))
):
    """Ids as they are."""

    dtype = dtypes.int64

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        return int(self.number_buckets)

    def _ids(self, given: SparseTensor, state_manager: Any) -> SparseTensor:
        if not given.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {given.dtype}")
        values = apply_op("Cast", given.values, DstT=dtypes.int64)
        if self.default_value is not None:
            count = np.int64(self.num_buckets)
            below = apply_op("Less", values, np.int64(0))
            is_other = apply_op("LogicalOr", below, apply_op("GreaterEqual", values, count))
            values = apply_op("SelectV2", is_other, np.int64(self.default_value), values)
        return SparseTensor(given.indices, values, given.dense_shape)


@export("feature_column.categorical_column_with_identity")
def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return a column whose ids are a feature's integers.

    Args:
      num_buckets: how many ids there are.
      default_value: the id of integers outside of [0, num_buckets).
    Raises: ValueError for no ids, and a default that is none.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


class WeightedCategoricalColumn(
    CategoricalColumn,
    namedtuple("WeightedCategoricalColumn", ("categorical_column", "weight_feature_key", "dtype")),
):
    """The ids of another column, with weights of a feature."""

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parents(self) -> list[Any]:
        """The column of ids, and the key of weights."""
        return [self.categorical_column, self.weight_feature_key]

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features of the column of ids, and the weights, of any length."""
        config = dict(self.categorical_column.parse_example_spec)
        key = self.weight_feature_key
        if key in config:
            raise ValueError(f"Parse config {config[key]} already exists for {key}.")
        config[key] = VarLenFeature(self.dtype)
        return config

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        return int(self.categorical_column.num_buckets)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return ids and weights, both sparse."""
        weights = transformation_cache.get(self.weight_feature_key, state_manager)
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = as_sparse(weights, ignored=0.0)
        if not weights.dtype.is_floating:
            values = apply_op("Cast", weights.values, DstT=dtypes.float32)
            weights = SparseTensor(weights.indices, values, weights.dense_shape)
        pair = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return pair.id_tensor, weights

    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return ids and weights."""
        return IdWeightPair(*transformation_cache.get(self, state_manager))


@export("feature_column.weighted_categorical_column")
def weighted_categorical_column(
    categorical_column: CategoricalColumn,
    weight_feature_key: str,
    dtype: DTypeLike = dtypes.float32,
) -> WeightedCategoricalColumn:
    """Return a column with the ids of another one, and their weights from a feature.

    Args:
      weight_feature_key: of a feature with a number for each id.
    Raises: ValueError for a type that is no number.
    """
    if dtype is None or not (as_dtype(dtype).is_integer or as_dtype(dtype).is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, as_dtype(dtype))


class CrossedColumn(
    CategoricalColumn, namedtuple("CrossedColumn", ("keys", "hash_bucket_size", "hash_key"))
):
    """Ids by the hashes of combinations of several features' values."""

    @property
    def name(self) -> str:
        """The names of what is crossed, in order."""
        names = [one if isinstance(one, str) else one.name for one in self._leaves()]
        return "_X_".join(sorted(names))

    @property
    def parents(self) -> list[Any]:
        """What is crossed."""
        return list(self.keys)

    def _leaves(self) -> list[Any]:
        """Return keys and columns, those of crossed columns among them instead."""
        found: list[Any] = []
        for key in self.keys:
            found.extend(key._leaves() if isinstance(key, CrossedColumn) else [key])
        return found

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The features of all, those by key as strings of any length."""
        config: dict[str, Any] = {}
        for key in self.keys:
            is_key = isinstance(key, str)
            config.update({key: VarLenFeature(dtypes.string)} if is_key else key.parse_example_spec)
        return config

    @property
    def num_buckets(self) -> int:
        """How many buckets there are."""
        return int(self.hash_bucket_size)

    def transform_feature(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> Any:
        """Return the ids, sparse."""
        crossed = []
        for leaf in self._leaves():
            if isinstance(leaf, str):
                crossed.append(transformation_cache.get(leaf, state_manager))
                continue
            ids, weights = leaf.get_sparse_tensors(transformation_cache, state_manager)
            if weights is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column populates "
                    f"weight_tensor. Given column: {leaf.name}"
                )
            crossed.append(ids)
        return cross_hashed(crossed, self.hash_bucket_size, self.hash_key)

    def get_sparse_tensors(
        self, transformation_cache: FeatureTransformationCache, state_manager: Any
    ) -> IdWeightPair:
        """Return the ids, without weights."""
        return IdWeightPair(transformation_cache.get(self, state_manager), None)


@export("feature_column.crossed_column")
def crossed_column(
    keys: Sequence[Any], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Return a column whose ids are hashes of combinations of values.

    Args:
      keys: at least two keys of features, or columns of categories, but none by hash.
      hash_bucket_size: how many ids there are.
      hash_key: of the hash; TensorFlow's by default.
    Raises: ValueError for other keys.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column "
                f"except HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before "
                "crossing will increase probability of collision. Instead, use the feature name as "
                f"a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
