"""Set operations, Unicode, ngrams and joins by segments beside TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, as_array, check_ends_alike

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
ONE = [I64([[0, 0], [0, 1], [1, 0]]), np.int32([1, 2, 3]), I64([2, 2])]
OTHER = [I64([[0, 0], [1, 0], [1, 1]]), np.int32([2, 3, 4]), I64([2, 2])]
DENSE = np.int32([[5, 1, 2], [3, 3, 6]])
WORDS = as_array([["b", "a"], ["c", "c"]])
OPERATIONS = ("a-b", "b-a", "intersection", "union")
TEXT = as_array(["aé".encode(), b"", "b\x07漢".encode(), b"\xff\xe2\x82x", b"\xf0\x9f\x98\x80"])
SPLITS = I64([0, 2, 2, 5])
DATA = as_array(["a", "b", "c", "d", "e"])


def unicode(op, **attrs):
    given = {"errors": "replace", "replacement_char": 63, "replace_control_characters": True}
    return Call(op, [TEXT], {"input_encoding": "UTF-8", **given, **attrs}, id=f"{op}-{attrs}")


def ngrams(data=DATA, splits=SPLITS, **attrs):
    given = {
        "separator": "|",
        "ngram_widths": [2],
        "left_pad": "L",
        "right_pad": "R",
        "pad_width": 0,
        "preserve_short_sequences": False,
        **attrs,
    }
    return Call("StringNGrams", [data, splits], given, id=f"ngrams-{attrs}-{len(splits)}")


CALLS = [
    *(
        call
        for o in OPERATIONS
        for call in (
            Call("DenseToDenseSetOperation", [DENSE, DENSE[::-1].copy()], {"set_operation": o}),
            Call("DenseToDenseSetOperation", [WORDS, WORDS[::-1].copy()], {"set_operation": o}),
            Call("DenseToSparseSetOperation", [DENSE, *OTHER], {"set_operation": o}),
            Call("SparseToSparseSetOperation", [*ONE, *OTHER], {"set_operation": o}),
        )
    ),
    Call("DenseToDenseSetOperation", [DENSE, DENSE[:1]], {"set_operation": "union"}),
    Call("DenseToDenseSetOperation", [DENSE[0], DENSE[0]], {"set_operation": "union"}),
    *(
        unicode(name, errors=errors)
        for name in ("UnicodeDecode", "UnicodeDecodeWithOffsets")
        for errors in ("replace", "ignore", "strict")
    ),
    *(
        unicode("UnicodeTranscode", output_encoding=encoding, errors=errors)
        for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE")
        for errors in ("replace", "ignore", "strict")
    ),
    unicode("UnicodeTranscode", output_encoding="UTF-8", input_encoding="no such"),
    *(
        Call(
            "UnicodeEncode",
            [np.int32([97, 233, 0xD800, 98, 0x110000]), splits],
            {"output_encoding": "UTF-8", "errors": errors, "replacement_char": 63},
            id=f"encode-{errors}-{splits}",
        )
        for errors in ("replace", "ignore", "strict")
        for splits in (SPLITS, I64([0, 2]), I64([0, 3, 1, 5]))
    ),
    *(
        ngrams(ngram_widths=widths, pad_width=pads, preserve_short_sequences=short)
        for widths in ([1], [2, 3], [4])
        for pads in (-1, 0, 1, 5)
        for short in (False, True)
    ),
    ngrams(splits=I64([0, 3])),
    Call("UnsortedSegmentJoin", [DATA, np.int32([1, 0, 1, 3, 0]), np.int32(5)], {"separator": "-"}),
    Call("UnsortedSegmentJoin", [WORDS, np.int32([1, 1]), np.int32(2)]),
    Call("UnsortedSegmentJoin", [WORDS, np.int32([[1, 0], [0, 1]]), np.int32(2)]),
    Call("UnsortedSegmentJoin", [WORDS, np.int32([0, 2]), np.int32(2)]),
    Call("UnsortedSegmentJoin", [WORDS, np.int32([0, 1, 1]), np.int32(2)]),
    Call("StringToHashBucket", [TEXT], {"num_buckets": 1000003}),
    Call("StringSplitV2", [as_array(["a,,b", "", ",", "c"]), as_array(",")]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)
