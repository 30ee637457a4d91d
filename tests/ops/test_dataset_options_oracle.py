"""Ops that say something about a dataset, and those of files, beside TensorFlow."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    END,
    INVALID,
    Made,
    check_elements,
    check_refused,
    function,
    int64,
    numbers,
    plain,
    steps,
)
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


# ---- what passes elements on

HINTS = {
    "BytesProducedStatsDataset": lambda: tf.constant("tag"),
    "ExperimentalBytesProducedStatsDataset": lambda: tf.constant("tag"),
    "LatencyStatsDataset": lambda: tf.constant("tag"),
    "ExperimentalLatencyStatsDataset": lambda: tf.constant("tag"),
    "MaxIntraOpParallelismDataset": lambda: int64(1),
    "ExperimentalMaxIntraOpParallelismDataset": lambda: int64(1),
    "PrivateThreadPoolDataset": lambda: int64(2),
    "ExperimentalPrivateThreadPoolDataset": lambda: int64(2),
    "OptimizeDataset": lambda: tf.constant(["map_and_batch_fusion"]),
    "SleepDataset": lambda: int64(10),
    "ExperimentalSleepDataset": lambda: int64(10),
}


@pytest.mark.parametrize("op", HINTS)
def test_elements_are_passed_on_whatever_the_hint(op):
    def build():
        f = function(lambda x: x * x, tf.int64)
        return numbers(5).to("MapDataset", [], f=f).to(op, HINTS[op]())

    assert check_elements(build, [op]) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(
    "op",
    [
        "ModelDataset", "FinalizeDataset", "NonSerializableDataset",
        "ExperimentalNonSerializableDataset",
    ],
)  # fmt: skip
def test_elements_are_passed_on(op):
    assert check_elements(lambda: numbers(3).to(op), [op]) == [0, 1, 2]


def test_elements_are_passed_on_by_optimizers():
    def build():
        names = [
            tf.constant([name] if name else [], tf.string) for name in ("noop_elimination", "", "")
        ]
        return numbers(3).to("OptimizeDatasetV2", *names)

    assert check_elements(build, ["OptimizeDatasetV2"]) == [0, 1, 2]


@pytest.mark.parametrize("negative", [-1, -7])
@pytest.mark.parametrize(
    "op",
    [
        "MaxIntraOpParallelismDataset", "ExperimentalMaxIntraOpParallelismDataset",
        "PrivateThreadPoolDataset", "ExperimentalPrivateThreadPoolDataset", "SleepDataset",
        "ExperimentalSleepDataset",
    ],
)  # fmt: skip
def test_hints_that_are_refused(op, negative):
    check_refused(lambda: numbers(3).to(op, int64(negative)), [op])


def on_threads(prefix, count, **attrs):
    pool = apply_op(f"{prefix}ThreadPoolHandle", num_threads=count, display_name="few", **attrs)
    return numbers(3).to(f"{prefix}ThreadPoolDataset", pool)


@pytest.mark.parametrize("name", ["", "shared"])
@pytest.mark.parametrize("prefix", ["", "Experimental"])
def test_elements_are_passed_on_by_threads(prefix, name):
    ops = [f"{prefix}ThreadPoolHandle", f"{prefix}ThreadPoolDataset"]
    count = 0 if name else 2
    found = check_elements(lambda: on_threads(prefix, count, shared_name=name), ops)
    assert found == [0, 1, 2]


def test_fewer_threads_than_none():
    check_refused(lambda: on_threads("", -1), ["ThreadPoolHandle"])


@pytest.mark.parametrize("op", ["AssertNextDataset", "ExperimentalAssertNextDataset"])
def test_what_comes_next(op):
    def build():
        f = function(lambda x: x + 1, tf.int64)
        return numbers(3).to(op, tf.constant(["Map"])).to("MapDataset", [], f=f)

    assert check_elements(build, [op]) == [1, 2, 3]


def test_what_comes_before():
    def build():
        f = function(lambda x: x + 1, tf.int64)
        before = tf.constant(['name: "MapDataset"'])
        return numbers(3).to("MapDataset", [], f=f).to("AssertPrevDataset", before)

    assert check_elements(build, ["AssertPrevDataset"]) == [1, 2, 3]


@pytest.mark.parametrize("op", ["AutoShardDataset", "ExperimentalAutoShardDataset"])
@pytest.mark.parametrize("policy", [-1, 0, 2, 3])
def test_one_worker_s_part(op, policy):
    found = check_elements(
        lambda: numbers(7).to(op, int64(3), int64(1), auto_shard_policy=policy), [op]
    )
    assert found == (list(range(7)) if policy in (-1, 3) else [1, 4])


def hinted(dataset, index=-1):
    return dataset.to("ShardDataset", int64(-1), int64(index))


def doubled(dataset):
    return dataset.to("MapDataset", [], f=function(lambda x: x * 2, tf.int64))


WITH_HINTS = {
    "one": lambda: hinted(numbers(10)),
    "of another index": lambda: hinted(numbers(10), 1),
    "two": lambda: hinted(doubled(hinted(numbers(20)))),
    "below a shard that is known": lambda: hinted(
        numbers(20).to("ShardDataset", int64(2), int64(1))
    ),
    "below others": lambda: doubled(hinted(numbers(10)).to("RepeatDataset", int64(2))),
    "beside one that has none": lambda: hinted(numbers(6)).to(
        "ConcatenateDataset", numbers(7, 9).variant
    ),
}


@pytest.mark.parametrize("workers", [(3, 1), (3, 2), (1, 0)])
@pytest.mark.parametrize("name", WITH_HINTS)
def test_one_worker_s_part_by_hints(name, workers):
    found = check_elements(
        lambda: WITH_HINTS[name]().to(
            "AutoShardDataset", *map(int64, workers), auto_shard_policy=3
        ),
        ["AutoShardDataset"],
    )
    assert found


@pytest.mark.parametrize("policy", [-1, 0, 2])
def test_hints_that_nobody_takes(policy):
    def build():
        limits = int64(3), int64(1)
        return hinted(numbers(10)).to("AutoShardDataset", *limits, auto_shard_policy=policy)

    check_refused(build, ["AutoShardDataset"], "FailedPreconditionError")


def test_a_worker_for_which_nothing_is_left_gets_nothing():
    def build():
        return hinted(numbers(1)).to("AutoShardDataset", int64(2), int64(1), auto_shard_policy=3)

    found = check_both_run(lambda: steps(build()), ["AutoShardDataset"])
    assert plain(found[1]) == END


def test_hints_where_there_is_too_little():
    def build():
        return hinted(numbers(2)).to("AutoShardDataset", int64(3), int64(1), auto_shard_policy=3)

    check_refused(build, ["AutoShardDataset"], INVALID, 1)


@pytest.mark.parametrize(("count", "index"), [(0, 0), (3, 3), (3, -1), (-1, 0)])
def test_parts_that_are_not_there(count, index):
    op = "AutoShardDataset"
    check_refused(lambda: numbers(7).to(op, int64(count), int64(index)), [op])


# ---- what is told of a dataset


def test_how_many_elements_there_are():
    op = "ExperimentalDatasetCardinality"

    def build():
        even = function(lambda x: tf.equal(x % 2, 0), tf.int64)
        datasets = [
            numbers(5),
            numbers(5).to("RepeatDataset", int64(-1)),
            numbers(5).to("FilterDataset", [], predicate=even),
        ]
        return [Run([apply_op(op, dataset.variant) for dataset in datasets])]

    assert plain(check_both_run(build, [op])[0]) == (5, -1, -2)


def test_options_of_a_dataset():
    def build():
        plainly = numbers(3)
        given = plainly.to("OptionsDataset", serialized_options=b"\x08\x01")
        later = given.to("TakeDataset", int64(2))
        return [Run([apply_op("GetOptions", one.variant) for one in (plainly, given, later)])]

    assert plain(check_both_run(build, ["GetOptions"])[0]) == (b"", b"\x08\x01", b"\x08\x01")


def test_wrapping():
    ops = ["WrapDatasetVariant", "UnwrapDatasetVariant"]

    def build():
        wrapped = apply_op("WrapDatasetVariant", numbers(3).variant)
        return Made(apply_op("UnwrapDatasetVariant", tf.identity(wrapped)))

    assert check_elements(build, ops) == [0, 1, 2]


def test_unwrapping_what_is_not_wrapped():
    check_refused(
        lambda: Made(apply_op("UnwrapDatasetVariant", numbers(3).variant)),
        ["UnwrapDatasetVariant"],
    )


# ---- files


def fixed(paths, header=2, length=3, footer=1, buffer=0):
    sizes = [int64(value) for value in (header, length, footer, buffer)]
    made = apply_op("FixedLengthRecordDataset", tf.constant([str(path) for path in paths]), *sizes)
    return Made(made, [tf.string])


@pytest.fixture
def records(tmp_path):
    """Two files of records of three bytes, with two bytes before and one after."""
    (tmp_path / "one").write_bytes(b"##abcdef$")
    (tmp_path / "two").write_bytes(b"##ghi$")
    return [tmp_path / "one", tmp_path / "two"]


def test_records_of_one_length(records):
    found = check_elements(lambda: fixed(records), ["FixedLengthRecordDataset"])
    assert found == [b"abc", b"def", b"ghi"]


@pytest.mark.parametrize(
    ("sizes", "at", "error"),
    [
        ({"length": 0}, 0, INVALID),
        ({"header": -1}, 0, INVALID),
        ({"footer": -1}, 0, INVALID),
        ({"buffer": -1}, 0, INVALID),
        ({"length": 4}, 1, INVALID),
    ],
    ids=str,
)
def test_records_of_wrong_lengths(records, sizes, at, error):
    check_refused(lambda: fixed(records, **sizes), ["FixedLengthRecordDataset"], error, at)


def test_records_of_no_file(tmp_path):
    check_refused(
        lambda: fixed([tmp_path / "none"]), ["FixedLengthRecordDataset"], "NotFoundError", 1
    )


def matching(op, *patterns):
    return Made(apply_op(op, tf.constant(list(patterns))), [tf.string])


MATCHING = ["MatchingFilesDataset", "ExperimentalMatchingFilesDataset"]


@pytest.fixture
def tree(tmp_path):
    for name in ("b.txt", "a.txt", "c.bin", "one/d.txt", "one/e.bin", "two/f.txt", ".hidden.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


PATTERNS = [
    ["*.txt"], ["[ab].txt"], ["?.bin"], ["*/*.txt"], ["one/*", "*.bin"], ["*.txt", "a.*"],
    ["o*/d.txt"], ["a.txt"], ["*.txt", "nothing*"], ["{a,b}.txt", "c*"], ["*"],
]  # fmt: skip


@pytest.mark.parametrize("op", MATCHING)
@pytest.mark.parametrize("patterns", PATTERNS, ids=" ".join)
def test_files_that_patterns_match(op, patterns, tree):
    check_elements(lambda: matching(op, *(f"{tree}/{one}" for one in patterns)), [op])


@pytest.mark.parametrize("op", MATCHING)
def test_patterns_that_match_nothing(op, tree):
    check_refused(lambda: matching(op, f"{tree}/nothing*"), [op], "NotFoundError", 1)


@pytest.mark.parametrize(
    ("directory", "error"), [("none", "NotFoundError"), ("a.txt", "FailedPreconditionError")]
)
def test_patterns_in_what_is_no_directory(directory, error, tree):
    patterns = [f"{tree}/c.bin", f"{tree}/{directory}/*"]
    check_refused(lambda: matching(MATCHING[0], *patterns), MATCHING[:1], error, 2)


def test_patterns_in_the_current_directory(tree, monkeypatch):
    monkeypatch.chdir(tree)
    found = check_elements(lambda: matching(MATCHING[0], "[^b].txt", "c.bin", "*/d*"), MATCHING[:1])
    assert found == [b"./a.txt", b"./c.bin", b"./one/d.txt"]
