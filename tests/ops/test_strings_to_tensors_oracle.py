"""Hashes, summaries, parsing and whole files, compared with TensorFlow."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, as_array, check_ends_alike, outcome

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(1)
LINES = np.array([b"x" * n + bytes(RNG.integers(0, 256, n)) for n in range(160)], object)
NUMBERS = np.array([1.5, -2.0, 0.0, 0.25, 1e-13, 1e25, -3.5, 0.25], np.float32)
SUMMARY = np.array(b"\n\x08\n\x01a\x15\x00\x00\x80?", object)
OTHER = np.array([b"\n\x08\n\x01b\x15\x00\x00\x80?", b"\n\x08\n\x01c\x15\x00\x00\x80?"], object)


def raw(data, out_type="int32", **attrs):
    return Call("DecodeRaw", [data], {"out_type": out_type, **attrs}, id=f"raw-{data}-{out_type}")


def csv(records, defaults, **attrs):
    given = [as_array(default) for default in defaults]
    return Call("DecodeCSV", [records, given], attrs, id=f"csv-{records}-{attrs}")


EMPTY = np.zeros(0, np.float32)
CALLS = [
    *[
        Call("StringToHashBucketFast", [LINES.reshape(2, 80)], {"num_buckets": n})
        for n in (1, 10, 2**40, 2**63 - 1)
    ],
    Call("StringToHashBucketFast", [b"abc"], {"num_buckets": 7}),
    *[
        Call("StringToHashBucketStrong", [LINES], {"num_buckets": 2**50, "key": key})
        for key in ([1, 2], [-1, 2**62], [1], [1, 2, 3])
    ],
    Call("ScalarSummary", ["a", np.float32(2.5)], {}),
    Call("ScalarSummary", [["a", "b"], np.array([1, 2], np.int64)], {}),
    Call("ScalarSummary", [["a"], np.float64(2)], {}),
    Call("ScalarSummary", [["a", "b"], np.float32(2)], {}),
    Call("ScalarSummary", ["", np.float32(np.nan)], {}),
    Call("HistogramSummary", ["h", NUMBERS], {}),
    Call("HistogramSummary", ["h", np.arange(-5, 5)], {}),
    Call("HistogramSummary", ["h", EMPTY], {}),
    Call("HistogramSummary", ["h", np.float32([1, np.nan])], {}),
    Call("HistogramSummary", ["h", np.float32([1, np.inf])], {}),
    Call("HistogramSummary", [["h"], NUMBERS], {}),
    Call("TensorSummaryV2", ["t", np.float32([1, 2]), b""], {}),
    Call("TensorSummaryV2", ["t", np.int32([[1], [2]]), b"\x12\x01d"], {}),
    Call("TensorSummaryV2", ["t", as_array(["a", "bc"]), b""], {}),
    Call("TensorSummaryV2", ["t", np.int32(1), b"\xff"], {}),
    Call("MergeSummary", [[SUMMARY, OTHER]], {}),
    Call("MergeSummary", [[SUMMARY, OTHER, SUMMARY]], {}),
    Call("MergeSummary", [[np.array(b"\xff", object)]], {}),
    raw([b"abcd", b"efgh"]),
    raw(b"abcdefgh"),
    raw(b"abcdefgh", "int16", little_endian=False),
    raw([b"abcd", b"ab"]),
    raw(b"abcde"),
    raw([b"", b""]),
    raw(b"\x01\x00\x01", "bool"),
    raw(b"abcdefgh", "complex64"),
    raw(b"abcdefgh", "bfloat16"),
    raw(b"abcdefgh", "half"),
    Call("DecodeRaw", [np.zeros((0,), object)], {"out_type": "float"}),
    *[
        Call("DecodePaddedRaw", [data, np.int32(length)], {"out_type": out_type, **attrs})
        for data, length, out_type, attrs in (
            ([b"abcd", b"efghijkl"], 4, "int32", {}),
            ([[b"abcd"], [b"e"]], 8, "int16", {"little_endian": False}),
            ([b"", b"abc"], 2, "uint8", {}),
            (b"abcdefgh", 8, "double", {}),
            ([b"abcd"], 3, "int16", {}),
            ([b"abcd"], 0, "int16", {}),
            ([b"abcd"], -2, "int16", {}),
            ([b"abcd"], [2], "int16", {}),
            (np.zeros((0,), object), 2, "int16", {}),
        )
    ],
    Call("DecodeCompressed", [[zlib.compress(b"abc")]], {"compression_type": "ZLIB"}),
    Call("DecodeCompressed", [[gzip.compress(b"abc")]], {"compression_type": "GZIP"}),
    Call("DecodeCompressed", [[b"abc"]], {}),
    Call("DecodeCompressed", [[b"abc"]], {"compression_type": "NEW"}),
    Call("DecodeCompressed", [[b"no zlib"]], {"compression_type": "ZLIB"}),
    *[
        Call("SerializeTensor", [value], {}, id=f"serialize-{i}")
        for i, value in enumerate([np.float32([[1, 2]]), ["a", ""], np.int64(7), [True]])
    ],
    *[
        Call("ParseTensor", [tensorflow.io.serialize_tensor(value).numpy()], {"out_type": dtype})
        for value, dtype in [
            (np.float32([[1, 2]]), "float32"),
            (["a", ""], "string"),
            (np.int64(7), "int64"),
            (np.int64(7), "int32"),
        ]
    ],
    Call("ParseTensor", [b"\xff\xff"], {"out_type": "int32"}),
    Call("ParseTensor", [[b"", b""]], {"out_type": "int32"}),
    csv(["1,2.5,a", "3,,b"], [[0], [7.5], [""]]),
    csv([["1,2"], ["3,4"]], [[0], [0]]),
    csv('1,"a,b"', [[0], [""]]),
    csv('"a""b",c', [[""], [""]]),
    csv('"a"b,c', [[""], [""]]),
    csv('a"b,c', [[""], [""]]),
    csv('"ab,c', [[""], [""]]),
    csv("a\nb,c", [[""], [""]]),
    csv("\na,c", [[""], [""]]),
    csv("", [[""]]),
    csv("a,", [[""], ["x"]]),
    csv('a"b,c', [[""], [""]], use_quote_delim=False),
    csv("1|2", [[0], [0]], field_delim="|"),
    csv("0x1.8p3, -0X.4 ", [[0.0], [0.0]]),
    csv("0x10", [[0]]),
    csv("1,2", [[0], [0]], field_delim="||"),
    csv("1,NA,3", [[0], [9], [0]], na_value="NA"),
    csv("1,2,3", [[0], [0]], select_cols=[0, 2]),
    csv("1,2,3", [[0], [0]], select_cols=[2, 0]),
    csv("1,2,3", [[0], [0]], select_cols=[0, 5]),
    csv("1,2,3", [[0], [0]]),
    csv("1,", [[0], EMPTY]),
    csv("1,", [[0], [1.0, 2.0]]),
    csv("1,x", [[0], [1.0]]),
    csv("1.5", [[0]]),
    csv(" 1 , 2.5 ,x y", [[0], [0.0], [""]]),
    csv("99999999999", [[0]]),
    csv("99999999999", [[np.int64(0)]]),
    csv("inf,nan,-1e3", [[0.0], [0.0], [np.float64(0)]]),
    Call("ReadFile", [b"/nowhere/at/all"], {}),
    Call("ReadFile", [b"/"], {}),
    Call("ReadFile", [[b"/a", b"/b"]], {}),
    Call("MatchingFiles", [[[b"/a"]]], {}),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)


def test_files_are_written_found_and_read_alike(tmp_path):
    for tf in (ours, tensorflow):
        home = str(tmp_path / tf.__name__)
        for name in ("a1", "a2", ".a3", "b1", "sub/a1", "sub/deep/a1"):
            path = f"{home}/{name}".encode()
            assert outcome(tf, Call("WriteFile", [path, name.encode()])) == []
            assert outcome(tf, Call("ReadFile", [path]))[0].item() == name.encode()
    for patterns in (["a*"], ["*"], ["*/a*", "b?"], ["none"], ["a[12]"], ["sub/*/*"], ["a*", "a*"]):
        found = []
        for tf in (ours, tensorflow):
            home = str(tmp_path / tensorflow.__name__)
            given = np.array([f"{home}/{pattern}".encode() for pattern in patterns], object)
            found.append(outcome(tf, Call("MatchingFiles", [given]))[0].tolist())
        assert found[0] == found[1], patterns
    ended = [
        outcome(tf, Call("WriteFile", [str(tmp_path).encode(), b""])) for tf in (ours, tensorflow)
    ]
    assert ended[0] == ended[1]


def test_summary_functions_name_their_tags_alike():
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.name_scope("layer"):
                tf.summary.scalar("loss value", tf.constant(1.0))
                tf.summary.scalar("loss value", tf.constant(2.0))
                tf.summary.histogram("h", tf.constant([1.0, 2.0]), family="all")
            tf.summary.scalar("/other", tf.constant(1.0), collections=[])
            found.append(session.run(tf.summary.merge_all()))
    assert found[0] == found[1]
