"""A scalar string is to every op what any other scalar is, wherever it comes from.

Each row of the table takes one scalar string.  It is given to TensorFlow's kernels and to ours as a
constant, as a feed, as what other kernels give, as an element of a dataset or of a queue, as the
value of variables, and out of a branch and of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op as op
from tideflow.graph.node import FunctionRef
from tideflow.ops.control_flow.functional import defun

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

WORD = b"Ab\x00c\x00"
NUMBER = b"12"
NAMES = ("constant", "fed", "joined", "row", "element", "dequeued", "read", "referred", "chosen",
         "returned")  # fmt: skip


def same(word: Any) -> Any:
    ref = FunctionRef(defun(tf.identity, [tf.string]).name)
    (found,) = op("PartitionedCall", [word], Tout=[tf.string], f=ref)
    return found


def sources(value: bytes) -> tuple[list[Any], list[Any], dict[Any, Any]]:
    """Return a scalar string from each kind of source, what to run first, and the feeds."""
    constant = tf.constant(value)
    fed = tf.placeholder(tf.string, [])
    flag = tf.placeholder(tf.bool, [])
    joined = tf.strings.join([tf.constant(value[:1]), tf.constant(value[1:])])
    row = tf.unstack(tf.placeholder_with_default(tf.constant([value, b"?"]), [2]))[0]
    dataset = tf.data.Dataset.from_tensor_slices([value]).repeat()
    iterator = tf.data.make_initializable_iterator(dataset)
    queue = tf.FIFOQueue(9, [tf.string], [[]])
    resource = tf.get_variable("resource", initializer=constant, use_resource=True)
    reference = tf.get_variable("reference", initializer=constant, use_resource=False)
    found = [
        constant,
        fed,
        joined,
        row,
        iterator.get_next(),
        queue.dequeue(),
        resource.read_value(),
        tf.get_default_graph().get_tensor_by_name("reference:0"),
        tf.cond(flag, lambda: fed, lambda: tf.strings.join([fed, fed])),
        same(fed),
    ]
    first = [
        iterator.initializer,
        resource.initializer,
        reference.initializer,
        *(queue.enqueue([constant]) for _ in range(4)),
    ]
    return found, first, {fed: value, flag: True}


def ints(*values: int) -> Any:
    return tf.constant(np.int32(values))


# By name: a function of one scalar string that returns tensors.
_Row = Callable[[Any], Any]
ARRAYS: dict[str, _Row] = {
    "Reshape": lambda w: [op("Reshape", w, ints()), op("Reshape", w, ints(-1)),
                          op("Reshape", w, ints(1, 1))],
    "ExpandDims": lambda w: [op("ExpandDims", w, tf.constant(0)),
                             op("ExpandDims", w, tf.constant(-1))],
    "Squeeze": lambda w: [op("Squeeze", w), op("Squeeze", op("Reshape", w, ints(1, 1)))],
    "Shape": lambda w: [op("Shape", w), op("Shape", w, out_type=tf.int64)],
    "ShapeN": lambda w: op("ShapeN", [w, w]),
    "Size": lambda w: op("Size", w),
    "Rank": lambda w: op("Rank", w),
    "Pack": lambda w: [op("Pack", [w, w]), op("Pack", [w])],
    "Unpack": lambda w: op("Unpack", op("Pack", [w, w]), num=2),
    "ConcatV2": lambda w: op("ConcatV2", [op("Pack", [w]), tf.constant(["z"])], tf.constant(0)),
    "Concat": lambda w: op("Concat", tf.constant(0), [op("Pack", [w]), tf.constant(["z"])]),
    "Fill": lambda w: [op("Fill", ints(2, 2), w), op("Fill", ints(), w), op("Fill", ints(0), w)],
    "BroadcastTo": lambda w: [op("BroadcastTo", w, ints(2)), op("BroadcastTo", w, ints())],
    "Tile": lambda w: [op("Tile", w, ints()), op("Tile", op("Pack", [w]), ints(3))],
    "Transpose": lambda w: op("Transpose", w, ints()),
    "Slice": lambda w: [op("Slice", w, ints(), ints()), op("Slice", op("Pack", [w, w]), ints(1),
                                                          ints(1))],
    "StridedSlice": lambda w: [tf.stack([w, w])[0], tf.stack([w, w])[1:], w[...], w[None]],
    "Gather": lambda w: [op("Gather", op("Pack", [w, "z"]), tf.constant(1)),
                         op("Gather", op("Pack", [w, "z"]), ints(0, 1, 0))],
    "GatherV2": lambda w: [op("GatherV2", op("Pack", [w, "z"]), tf.constant(0), tf.constant(0)),
                           op("GatherV2", op("Pack", [w, "z"]), ints(1), tf.constant(0))],
    "GatherNd": lambda w: [op("GatherNd", op("Pack", [w, "z"]), ints(0)),
                           op("GatherNd", op("Pack", [w]), ints(0))],
    "ScatterNd": lambda w: op("ScatterNd", tf.constant([[1]]), op("Pack", [w]), ints(3)),
    "TensorScatterUpdate": lambda w: op("TensorScatterUpdate", op("Fill", ints(3), w),
                                        tf.constant([[1]]), tf.constant(["z"])),
    "OneHot": lambda w: [op("OneHot", tf.constant(1), tf.constant(3), w, "off"),
                         op("OneHot", ints(0, 1), tf.constant(2), "on", w)],
    "PadV2": lambda w: op("PadV2", tf.constant(["y"]), tf.constant([[1, 1]]), w),
    "Pad": lambda w: [op("Pad", op("Pack", [w]), tf.constant([[1, 1]])),
                      op("Pad", w, tf.constant(np.zeros([0, 2], np.int32)))],
    "MirrorPad": lambda w: op("MirrorPad", op("Pack", [w]), tf.constant([[1, 0]]),
                              mode="SYMMETRIC"),
    "Select": lambda w: [op("Select", tf.constant(flag), w, "z") for flag in (True, False)],
    "SelectV2": lambda w: [op("SelectV2", tf.constant(True), w, "z"),
                           op("SelectV2", tf.constant([True, False]), w, "z"),
                           op("SelectV2", tf.constant([True, False]), ["x", "y"], w)],
    "Equal": lambda w: [op("Equal", w, w), op("Equal", w, "z"), op("Equal", w, ["z", WORD])],
    "NotEqual": lambda w: [op("NotEqual", w, w), op("NotEqual", ["z", WORD], w)],
    "Add": lambda w: [op("Add", w, w), op("Add", ["z", "y"], w)],
    "IdentityN": lambda w: op("IdentityN", [w, ints(1)]),
    "StopGradient": lambda w: op("StopGradient", w),
    "EnsureShape": lambda w: op("EnsureShape", w, shape=[]),
    "PlaceholderWithDefault": lambda w: op("PlaceholderWithDefault", w, shape=[]),
    "ZerosLike": lambda w: op("ZerosLike", w),
    "Split": lambda w: op("Split", tf.constant(0), op("Pack", [w, w]), num_split=2),
    "SplitV": lambda w: op("SplitV", op("Pack", [w, w, w]), ints(1, 2), tf.constant(0),
                           num_split=2),
    "ReverseV2": lambda w: [op("ReverseV2", op("Pack", [w, "z"]), ints(0)),
                            op("ReverseV2", w, ints())],
    "ReverseSequence": lambda w: op("ReverseSequence", op("Reshape", op("Pack", [w, "z"]),
                                    ints(1, 2)), ints(2), seq_dim=1),
    "Roll": lambda w: op("Roll", op("Pack", [w, "z"]), tf.constant(1), tf.constant(0)),
    "DynamicPartition": lambda w: [*op("DynamicPartition", w, tf.constant(1), num_partitions=2),
                                   *op("DynamicPartition", op("Pack", [w, "z"]), ints(1, 0),
                                       num_partitions=2)],
    "DynamicStitch": lambda w: op("DynamicStitch", [tf.constant(1), tf.constant(0)], [w, "z"]),
    "ParallelDynamicStitch": lambda w: op("ParallelDynamicStitch",
                                          [tf.constant(1), tf.constant(0)], [w, "z"]),
    "Unique": lambda w: [*op("Unique", op("Pack", [w, "z", w])),
                         *op("UniqueWithCounts", op("Pack", [w, "z", w])),
                         *op("UniqueV2", op("Pack", [w, w]), tf.constant([0]))],
    "ListDiff": lambda w: op("ListDiff", op("Pack", ["z", w]), op("Pack", [w])),
    "RandomShuffle": lambda w: op("RandomShuffle", op("Pack", [w, w])),
    "Assert": lambda w: _after(op("Assert", tf.constant(True), [w, ints(1)])),
    "Print": lambda w: op("Print", w, [w], summarize=1, message="", first_n=0),
    "GuaranteeConst": lambda w: op("GuaranteeConst", w),
    "SparseToDense": lambda w: [op("SparseToDense", tf.constant([1, 2]), ints(4), w, "d"),
                                op("SparseToDense", tf.constant(2), ints(4), "v", w)],
    "SparseFillEmptyRows": lambda w: op("SparseFillEmptyRows", np.int64([[1, 0]]),
                                        op("Pack", ["z"]), np.int64([2, 1]), w),
    "RaggedTensorToTensor": lambda w: op("RaggedTensorToTensor", np.int64([2, 2]), op("Pack",
                                         [w, "z", w]), w, [np.int64([0, 1, 3])],
                                         row_partition_types=["ROW_SPLITS"]),
    "TensorListPushBack": lambda w: _tensor_list(w),
    "TensorArray": lambda w: _tensor_array(w),
    "StackV2": lambda w: _stack(w),
    "Table": lambda w: _table(w),
    "Variable": lambda w: _variable(w),
}  # fmt: skip


def _after(run: Any) -> Any:
    with tf.control_dependencies([run]):
        return tf.constant(1)


def _tensor_array(w: Any) -> Any:
    array = tf.TensorArray(tf.string, 3, element_shape=[])
    array = array.write(0, w).write(1, "z").write(2, w)
    return [array.read(2), array.stack(), array.size()]


def _tensor_list(w: Any) -> Any:
    made = op("EmptyTensorList", ints(), tf.constant(5), element_dtype=tf.string)
    longer = op("TensorListPushBack", op("TensorListPushBack", made, w), "z")
    return [
        op("TensorListStack", longer, ints(), element_dtype=tf.string),
        op("TensorListGetItem", longer, tf.constant(0), ints(), element_dtype=tf.string),
    ]


def _stack(w: Any) -> Any:
    stack = op("StackV2", tf.constant(3), elem_type=tf.string)
    with tf.control_dependencies([op("StackPushV2", stack, w)]):
        return op("StackPopV2", stack, elem_type=tf.string)


def _table(w: Any) -> Any:
    table = op("MutableHashTableV2", key_dtype=tf.string, value_dtype=tf.int64)
    other = op("MutableHashTableV2", key_dtype=tf.int64, value_dtype=tf.string)
    one = tf.constant(np.int64(1))
    put = [op("LookupTableInsertV2", table, w, one), op("LookupTableInsertV2", other, one, w)]
    with tf.control_dependencies(put):
        found = op("LookupTableFindV2", table, w, np.int64(-1))
        absent = op("LookupTableFindV2", other, tf.constant(np.int64([1, 2])), w)
        with tf.control_dependencies([found, absent]):
            return [found, absent, op("LookupTableSizeV2", table)]


def _variable(w: Any) -> Any:
    handle = op("VarHandleOp", dtype=tf.string, shape=[], shared_name="written")
    with tf.control_dependencies([op("AssignVariableOp", handle, w)]):
        first = op("ReadVariableOp", handle, dtype=tf.string)
    with tf.control_dependencies([first]):
        shape = op("VariableShape", handle)
    return [first, shape]


STRINGS: dict[str, _Row] = {
    "StringJoin": lambda w: [op("StringJoin", [w, w], separator="-"), op("StringJoin",
                             [w, ["y", "z"]]), op("StringJoin", [w])],
    "StringLength": lambda w: [op("StringLength", w), op("StringLength", w, unit="UTF8_CHAR")],
    "StringLower": lambda w: op("StringLower", w),
    "StringUpper": lambda w: [op("StringUpper", w), op("StringUpper", op("EncodeBase64", w),
                              encoding="utf-8")],
    "StringStrip": lambda w: op("StringStrip", w),
    "Substr": lambda w: [op("Substr", w, tf.constant(1), tf.constant(1)),
                         op("Substr", w, ints(0, 1), ints(1, 1))],
    "StringSplitV2": lambda w: [*op("StringSplitV2", op("Pack", [w]), ""),
                                *op("StringSplitV2", tf.constant(["xAb\0c\0y"]), w)],
    "RegexFullMatch": lambda w: [op("RegexFullMatch", w, "A.*"), op("StaticRegexFullMatch", w,
                                 pattern="A.*")],
    "RegexReplace": lambda w: [op("RegexReplace", w, "b", "__"), op("StaticRegexReplace", w,
                               pattern="b", rewrite="_"), op("RegexReplace", "xbx", "b", w)],
    "ReduceJoin": lambda w: [op("ReduceJoin", op("Pack", [w, "z"]), tf.constant(0),
                             separator="-"), op("ReduceJoin", w, ints())],
    "UnsortedSegmentJoin": lambda w: op("UnsortedSegmentJoin", op("Pack", [w, "z"]), ints(1, 1),
                                        tf.constant(2), separator="+"),
    "StringToHashBucket": lambda w: [op("StringToHashBucket", w, num_buckets=99),
                                     op("StringToHashBucketFast", w, num_buckets=99),
                                     op("StringToHashBucketStrong", w, num_buckets=99,
                                        key=[1, 2])],
    "AsString": lambda w: op("AsString", op("StringLength", w)),
    "EncodeBase64": lambda w: [op("EncodeBase64", w), op("DecodeBase64", op("EncodeBase64", w))],
    "DecodeRaw": lambda w: [op("DecodeRaw", w, out_type=tf.uint8),
                            op("DecodePaddedRaw", op("Pack", [w]), tf.constant(8),
                               out_type=tf.uint8)],
    "DecodeCompressed": lambda w: op("DecodeCompressed", w, compression_type=""),
    "DecodeCSV": lambda w: op("DecodeCSV", w, [tf.constant(["d"], tf.string)]),
    "Fingerprint": lambda w: op("Fingerprint", op("Pack", [w, w]), tf.constant("farmhash64")),
    "StringFormat": lambda w: op("StringFormat", [w, ints(1)], template="%s,%s", placeholder="%s",
                                 summarize=3),
    "StringNGrams": lambda w: op("StringNGrams", op("Pack", [w, "z"]), np.int64([0, 2]),
                                 separator=" ", ngram_widths=[2], left_pad="", right_pad="",
                                 pad_width=0, preserve_short_sequences=False),
    "UnicodeDecode": lambda w: [*op("UnicodeDecode", w, input_encoding="UTF-8"),
                                *op("UnicodeDecodeWithOffsets", w, input_encoding="UTF-8")],
    "UnicodeTranscode": lambda w: op("UnicodeTranscode", w, input_encoding="UTF-8",
                                     output_encoding="UTF-16-BE"),
    "SerializeTensor": lambda w: [op("ParseTensor", op("SerializeTensor", w), out_type=tf.string)],
    "EditDistance": lambda w: op("EditDistance", np.int64([[0, 0]]), op("Pack", [w]),
                                 np.int64([1, 1]), np.int64([[0, 0]]), op("Pack", ["z"]),
                                 np.int64([1, 1])),
    "ShardedFilename": lambda w: op("ShardedFilename", op("EncodeBase64", w), tf.constant(1),
                                    tf.constant(3)),
    "SparseCross": lambda w: op("SparseCrossV2", [], [], [], [op("Reshape", w, ints(1, 1)),
                                op("Reshape", w, ints(1, 1))], w),
    "SetSize": lambda w: op("SetSize", np.int64([[0, 0]]), op("Pack", [w]), np.int64([1, 1])),
    "DenseToDenseSet": lambda w: op("DenseToDenseSetOperation", op("Reshape", w, ints(1, 1)),
                                    op("Reshape", w, ints(1, 1)), set_operation="intersection"),
    "ScalarSummary": lambda w: [op("ScalarSummary", w, 1.0), op("MergeSummary",
                                [op("ScalarSummary", "t", 1.0)])],
    "HistogramSummary": lambda w: op("StringLength", op("HistogramSummary", "h", [1.0, 2.0])),
    "TensorSummaryV2": lambda w: op("StringLength", op("TensorSummaryV2", "tag", w, "")),
}  # fmt: skip
NUMBERS: dict[str, _Row] = {
    "StringToNumber": lambda w: [op("StringToNumber", w, out_type=kind) for kind in
                                 (tf.float32, tf.int64)],
    "DecodeCSVNumbers": lambda w: op("DecodeCSV", w, [tf.constant([1.5])]),
}  # fmt: skip

_DATASETS: dict[str, Callable[[Any, Any], Any]] = {
    "TensorDataset": lambda data, w: data.from_tensors(w),
    "TensorSliceDataset": lambda data, w: data.from_tensor_slices(tf.stack([w, w])),
    "RepeatDataset": lambda data, w: data.from_tensors(w).repeat(2),
    "BatchDatasetV2": lambda data, w: data.from_tensors(w).repeat(3).batch(2),
    "MapDataset": lambda data, w: data.from_tensors(w).map(lambda x: tf.reshape(x, [1, 1])),
    "MapCaptured": lambda data, w: data.range(2).map(lambda i: tf.expand_dims(w, 0)),
    "FlatMapDataset": lambda data, w: data.from_tensors(w).flat_map(
        lambda x: data.from_tensor_slices(tf.stack([x, x]))),
    "FilterDataset": lambda data, w: data.from_tensors(w).filter(lambda x: tf.not_equal(x, "z")),
    "ShuffleDataset": lambda data, w: data.from_tensors(w).repeat(2).shuffle(3, seed=1),
    "CacheDataset": lambda data, w: data.from_tensors(w).cache().repeat(2),
    "UnbatchDataset": lambda data, w: data.from_tensors(tf.stack([w, w])).unbatch(),
    "ZipDataset": lambda data, w: data.zip((data.from_tensors(w), data.range(2))),
    "ConcatenateDataset": lambda data, w: data.from_tensors(w).concatenate(data.from_tensors(w)),
    "InterleaveDataset": lambda data, w: data.from_tensors(w).interleave(
        lambda x: data.from_tensors(x).repeat(2), cycle_length=2),
    "PrefetchDataset": lambda data, w: data.from_tensors(w).prefetch(1),
    "TakeWhileDataset": lambda data, w: data.from_tensors(w).repeat(2).enumerate().filter(
        lambda i, x: tf.equal(x, w)),
    "ReduceDataset": lambda data, w: data.from_tensors(
        data.range(2).reduce(w, lambda s, i: tf.strings.join([s, w]))),
}  # fmt: skip


def flat(found: Any) -> list[Any]:
    if not isinstance(found, (list, tuple)):
        return [found]
    return [tensor for one in found for tensor in flat(one)]


def check(row: _Row, value: bytes = WORD) -> None:
    """Compare what a row gives for a scalar string from each source, in a run of its own each."""

    def build() -> list[Run]:
        words, first, feeds = sources(value)
        begin = [Run([one]) for one in first]
        return [*begin, *(Run(flat(row(word)), feeds) for word in words)]

    ends = check_both_run(build, [])
    assert len(ends) > len(NAMES)
    refused = [name for name, end in zip(NAMES, ends[-len(NAMES) :]) if isinstance(end, str)]
    assert not refused or len(refused) == len(NAMES), f"only some are refused: {refused}"


@pytest.mark.parametrize("name", ARRAYS)
def test_a_scalar_string_in_an_array_op(name):
    check(ARRAYS[name])


@pytest.mark.parametrize("name", STRINGS)
def test_a_scalar_string_in_a_string_op(name):
    check(STRINGS[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_a_scalar_string_that_is_read(name):
    check(NUMBERS[name], NUMBER)


@pytest.mark.parametrize("name", _DATASETS)
def test_a_scalar_string_in_a_dataset(name):
    def build() -> list[Run]:
        words, first, feeds = sources(WORD)
        runs = [Run([one]) for one in first]
        for word in words:
            iterator = tf.data.make_initializable_iterator(_DATASETS[name](tf.data.Dataset, word))
            element = flat(iterator.get_next())
            runs += [Run([iterator.initializer], feeds)]
            runs += [Run([*element, *(tf.shape(one) for one in element)])] * 5
        return runs

    check_both_run(build, [])
