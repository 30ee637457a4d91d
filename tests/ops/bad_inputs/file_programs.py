"""Programs with one op on files each, whose inputs are fed: checkpoints, readers, records, saved
datasets (see programs.py)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.dataset_programs import first_elements
from ops.bad_inputs.programs import Build, Feeds
from ops.dataset_graphs import Made, function, numbers
from tideflow.formats import framed
from tideflow.graph.building import apply_op

F = np.float32
I64 = np.int64
X = np.arange(6, dtype=F).reshape(3, 2)
NO = np.bool_(False)
YES = np.bool_(True)
Runs = Sequence[Sequence[Any]]


def _written(feed: Feeds, name: str, content: bytes) -> Any:
    return apply_op("WriteFile", feed.beside(name), tf.constant(content))


# ---- checkpoints

_NAMES = np.array([b"x", b"n"], object)
_SLICES = np.array([b"4 2 0,3:-", b""], object)
_TYPES = [F, I64]


def _save(feed: Feeds, name: str = "a", given: Callable[[Any], Any] = tf.constant) -> Any:
    tensors = [given(X), given(np.arange(4))]
    return apply_op("SaveV2", feed.beside(name), given(_NAMES), given(_SLICES), tensors)


def _saved(op: str, feed: Feeds) -> Runs:
    restored = apply_op("RestoreV2", feed.beside("a"), ["x", "n"], ["4 2 0,3:-", ""], dtypes=_TYPES)
    return [[_save(feed, given=feed)], list(restored)]


def _saved_to(op: str, feed: Feeds) -> Runs:
    name = feed.path("a")
    saved = apply_op("SaveV2", name, ["x"], [""], [tf.constant(X)])
    return [[saved], list(apply_op("RestoreV2", name, ["x"], [""], dtypes=[F]))]


def _restored(op: str, feed: Feeds) -> Runs:
    given = [feed.path("a"), feed(_NAMES), feed(_SLICES)]
    return [[_save(feed)], list(apply_op(op, *given, dtypes=_TYPES))]


def _restored_as(dtypes: Sequence[Any], op: str, feed: Feeds) -> Runs:
    given = [feed.path("a"), feed(_NAMES), feed(np.array([b"4 2 1,2:-", b""], object))]
    return [[_save(feed)], list(apply_op(op, *given, dtypes=dtypes))]


def _saved_in_slices(op: str, feed: Feeds) -> Runs:
    tensors = [feed(X), feed(np.arange(4))]
    slices = [feed(_SLICES)] if op == "SaveSlices" else []
    saved = apply_op(op, feed.beside("s"), feed(_NAMES), *slices, tensors)
    return [[saved], [apply_op("Restore", feed.beside("s"), "n", dt=I64)]]


def _restored_from_slices(op: str, feed: Feeds) -> Runs:
    saved = apply_op("SaveSlices", feed.beside("s"), _NAMES, _SLICES, [X, np.arange(4)])
    if op == "Restore":
        return [[saved], [apply_op(op, feed.path("s"), feed("n"), dt=I64)]]
    return [[saved], [apply_op(op, feed.path("s"), feed("x"), feed("4 2 1,2:-"), dt=F)]]


def _merged(op: str, feed: Feeds) -> Runs:
    one, two = (
        apply_op("SaveV2", feed.beside(name), [name], [""], [tf.constant(X)]) for name in ("x", "n")
    )
    parts, whole = feed.path(_NAMES), feed.path("all")
    merged = apply_op(op, parts, whole, delete_old_dirs=False)
    return [
        [one, two],
        [merged],
        list(apply_op("RestoreV2", whole, _NAMES, ["", ""], dtypes=[F, F])),
    ]


def _sharded_name(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed("name"), feed(np.int32(1)), feed(np.int32(2)))]]


def _file(op: str, feed: Feeds) -> Runs:
    name = feed.path("a")
    return [[apply_op(op, name, feed("content"))], [apply_op("ReadFile", name)]]


# ---- readers

_CONTENTS = {
    "TextLineReaderV2": b"one\ntwo\n",
    "FixedLengthRecordReaderV2": b"abcdef",
    "TFRecordReaderV2": framed(b"one") + framed(b"two"),
}
_READER_ATTRS: dict[str, dict[str, Any]] = {"FixedLengthRecordReaderV2": {"record_bytes": 2}}


def _reader(feed: Feeds, kind: str) -> tuple[Any, Any, list[Any]]:
    """Return a reader, a closed queue with the name of a file, and what fills these."""
    attrs = _READER_ATTRS.get(kind, {})
    reader = apply_op(kind, **attrs)
    queue = apply_op("FIFOQueueV2", component_types=[tf.string], shapes=[[]], capacity=9)
    # Written and enqueued at once: the queue takes a name, whatever the file.
    written = _written(feed, "a", _CONTENTS.get(kind, b"content"))
    filled = apply_op("QueueEnqueueManyV2", queue, [feed.path(np.array([b"a"], object))])
    return reader, queue, [[written], [filled], [apply_op("QueueCloseV2", queue)]]


def _counts(reader: Any) -> list[Any]:
    ops = ("ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompletedV2")
    return [apply_op(op, reader) for op in ops]


def _read(op: str, feed: Feeds) -> Runs:
    kind = op if op.endswith("ReaderV2") else "TextLineReaderV2"
    reader, queue, begin = _reader(feed, kind)
    if op == "ReaderReadUpToV2":
        found = apply_op(op, reader, queue, feed(I64(2)))
    else:
        found = apply_op("ReaderReadV2", reader, queue)
    counts = _counts(reader)
    return [*begin, list(found), counts, list(found), counts]


def _reset(op: str, feed: Feeds) -> Runs:
    reader, queue, begin = _reader(feed, "TextLineReaderV2")
    found = apply_op("ReaderReadV2", reader, queue)
    return [*begin, list(found), [apply_op(op, reader)], _counts(reader)]


def _states(op: str, feed: Feeds) -> Runs:
    reader, queue, begin = _reader(feed, "IdentityReaderV2")
    found = apply_op("ReaderReadV2", reader, queue)
    state = apply_op("ReaderSerializeStateV2", reader)
    # The records 1 and the units 2 of a state; a file's name would be the session's own.
    restored = apply_op("ReaderRestoreStateV2", reader, feed(b"\x08\x02\x10\x02\x18\x03"))
    if op == "ReaderSerializeStateV2":
        return [*begin, [tf.strings.length(state)], list(found)]
    return [*begin, [restored], _counts(reader), [state]]


# ---- datasets of files


def _texts(op: str, *inputs: Any) -> Runs:
    return first_elements(Made(apply_op(op, *inputs), [tf.string], [()]))


def _lines(op: str, feed: Feeds) -> Runs:
    content = _CONTENTS["TextLineReaderV2" if op == "TextLineDataset" else "TFRecordReaderV2"]
    inputs = [feed.path(np.array([b"a"], object)), feed(""), feed(I64(99))]
    return [[_written(feed, "a", content)], *_texts(op, *inputs)]


def _packed(op: str, feed: Feeds) -> Runs:
    content = _CONTENTS["TextLineReaderV2" if op == "TextLineDataset" else "TFRecordReaderV2"]
    written = _written(feed, "a", gzip.compress(content, mtime=0))
    return [[written], *_texts(op, feed.beside(["a"]), feed("GZIP"), I64(99))]


def _fixed(op: str, feed: Feeds) -> Runs:
    sizes = [feed(I64(size)) for size in (1, 2, 1, 99)]
    packing = [feed("")] if op.endswith("V2") else []
    inputs = [feed.path(np.array([b"a"], object)), *sizes, *packing]
    return [[_written(feed, "a", b"#abcd$")], *_texts(op, *inputs)]


def _matching(op: str, feed: Feeds) -> Runs:
    written = [_written(feed, name, b"") for name in ("aa", "ab", "b")]
    return [written, *_texts(op, feed.path(np.array([b"a*", b"b"], object)))]


def _comma_separated(op: str, feed: Feeds) -> Runs:
    inputs = [
        feed.path(np.array([b"a"], object)),
        feed(""),
        feed(I64(99)),
        feed(NO),
        feed(","),
        feed(YES),
        feed("none"),
        feed(np.array([0, 2])),
        [feed(np.zeros(1, I64)), feed(np.array([b"x"], object))],
    ]
    if op.endswith("V2"):
        inputs.append(feed(np.zeros(0, I64)))
    made = Made(None, [tf.int64, tf.string], [(), ()])
    made.variant = apply_op(op, *inputs, **made.structure)
    return [[_written(feed, "a", b"1,2,c\nnone,5,\n7,8,9\n")], *first_elements(made)]


def _saved_dataset(op: str, feed: Feeds) -> Runs:
    made = Made(None)
    made.variant = apply_op("RangeDataset", I64(0), feed(I64(3)), feed(I64(1)), **made.structure)
    shard = function(lambda x, by: x % by, tf.int64, (tf.int64, None))
    attrs = {"compression": "", "shard_func": shard, "use_shard_func": True}
    path = feed.path("d")
    by = [feed(I64(2))]
    if op == "SaveDatasetV2":
        saving = first_elements(made.to(op, path, by, **attrs))
    else:
        saving = [[apply_op("SaveDataset", made.variant, path, by, **attrs)]]
    if op != "LoadDataset":
        return saving
    attrs = {"compression": "", "reader_func": function(_one_by_one, tf.variant, tf.int64)}
    loaded = Made(None)
    loaded.variant = apply_op(op, path, [feed(I64(1))], **loaded.structure, **attrs)
    return [*saving, *first_elements(loaded)]


def _one_by_one(shards: Any, cycle: Any) -> Any:
    one = function(lambda shard: shard, tf.variant)
    attrs = {**Made(None).structure, "f": one}
    return apply_op("InterleaveDataset", shards, [], cycle, I64(1), **attrs)


def _kept_in_a_file(op: str, feed: Feeds) -> Runs:
    inputs = [feed.path("c")]
    if op == "CacheDatasetV2":
        inputs.append(apply_op("AnonymousMemoryCache")[0])
    kept = first_elements(numbers(2).to(op, *inputs))
    return [*kept[:3], [tf.constant(0)]]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_saved, "SaveV2"),
    (_restored, "RestoreV2"),
    (_merged, "MergeV2Checkpoints"),
    (_saved_in_slices, "Save SaveSlices"),
    (_restored_from_slices, "Restore RestoreSlice"),
    (_sharded_name, "ShardedFilename"),
    (_file, "WriteFile"),
    (
        _read,
        "TextLineReaderV2 FixedLengthRecordReaderV2 TFRecordReaderV2 WholeFileReaderV2 "
        "IdentityReaderV2 ReaderReadV2 ReaderReadUpToV2 ReaderNumRecordsProducedV2 "
        "ReaderNumWorkUnitsCompletedV2",
    ),
    (_reset, "ReaderResetV2"),
    (_states, "ReaderSerializeStateV2 ReaderRestoreStateV2"),
    (_lines, "TextLineDataset TFRecordDataset"),
    (_fixed, "FixedLengthRecordDataset FixedLengthRecordDatasetV2"),
    (_matching, "MatchingFilesDataset ExperimentalMatchingFilesDataset"),
    (_comma_separated, "CSVDataset CSVDatasetV2 ExperimentalCSVDataset"),
    (_saved_dataset, "SaveDataset SaveDatasetV2 LoadDataset"),
]

# The same ops again, otherwise.
_OTHERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_saved_to, "SaveV2 elsewhere"),
    (partial(_restored_as, [F, F]), "RestoreV2 of_other_types"),
    (partial(_restored_as, [F, I64]), "RestoreV2 of_slices"),
    (_packed, "TextLineDataset packed"),
    (_packed, "TFRecordDataset packed"),
    (_kept_in_a_file, "CacheDataset in_files"),
    (_kept_in_a_file, "CacheDatasetV2 in_files"),
]


def file_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    found: dict[str, Build] = {}
    for builder, ops in _BUILDERS:
        found |= {op: partial(builder, op) for op in ops.split()}
    return found | {name: partial(builder, name.split()[0]) for builder, name in _OTHERS}
