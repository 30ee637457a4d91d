"""Records of training data become the tensors that TensorFlow makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.wire import messages as pb

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

INT32, INT64, FLOAT, STRING = "int32", "int64", "float", "string"
NONE = np.empty(0, object)


def record(**features: list[int] | list[float] | list[bytes] | None) -> bytes:
    made = pb.Example()
    for name, values in features.items():
        feature = made.features.feature[name]
        if values is None:
            continue
        kind = {int: "int64_list", float: "float_list", bytes: "bytes_list"}[
            type(values[0]) if values else int
        ]
        getattr(feature, kind).value.extend(values)
    return bytes(made.SerializeToString(deterministic=True))


FIRST = record(i=[1, 2], f=[0.5], s=[b"a", b"bc", b""])
SECOND = record(i=[3, -4], f=[1.5], s=[b"d"])
BARE = record(f=[2.5])
EMPTY = record(i=None, f=[7.0])


def call(serialized, dense=(), sparse=(), ragged=(), ident=""):
    """Put together a call: dense (key, default, shape), sparse (key, type), ragged likewise."""
    return Call(
        "ParseExampleV2",
        [
            as_array(serialized),
            NONE,
            as_array([key.encode() for key, _ in sparse]) if sparse else NONE,
            as_array([key.encode() for key, _, _ in dense]) if dense else NONE,
            as_array([key.encode() for key, _, _ in ragged]) if ragged else NONE,
            tuple(default for _, default, _ in dense),
        ],
        {
            "num_sparse": len(sparse),
            "sparse_types": [kind for _, kind in sparse],
            "ragged_value_types": [kind for _, kind, _ in ragged],
            "ragged_split_types": [kind for _, _, kind in ragged],
            "dense_shapes": [shape for _, _, shape in dense],
        },
        id=ident,
    )


NO_INT = np.empty(0, np.int64)
NO_FLOAT = np.empty(0, np.float32)
TWO = ("i", NO_INT, [2])
CALLS = [
    call([FIRST, SECOND], [TWO, ("f", NO_FLOAT, [])], ident="dense"),
    call([FIRST, SECOND], [("i", NO_INT, [2, 1]), ("f", NO_FLOAT, [1])], ident="dense-shapes"),
    call([FIRST, BARE], [("i", np.array([8, 9]), [2])], ident="default"),
    call([FIRST, EMPTY], [("i", np.array([8, 9]), [2])], ident="default-for-nothing"),
    call([FIRST, BARE], [TWO], ident="missing"),
    call([FIRST], [("i", NO_INT, [3])], ident="another-size"),
    call([FIRST], [("f", NO_INT, [1])], ident="another-type"),
    call([b"no record"], [TWO], ident="no-record"),
    call([FIRST, BARE], [("i", np.array(7), [None])], ident="rows"),
    call([record(i=[1, 2, 3, 4]), FIRST, BARE], [("i", np.array(7), [None, 2])], ident="pairs"),
    call([record(i=[1, 2, 3])], [("i", np.array(7), [None, 2])], ident="odd"),
    call([FIRST, SECOND, BARE], sparse=[("i", INT64), ("s", STRING)], ident="sparse"),
    call([FIRST, SECOND], sparse=[("s", INT64)], ident="sparse-type"),
    call([FIRST, BARE], sparse=[("none", FLOAT)], ident="sparse-nothing"),
    call([FIRST, BARE, SECOND], ragged=[("i", INT64, INT64), ("s", STRING, INT32)]),
    call([FIRST, SECOND], [TWO], [("s", STRING)], [("f", FLOAT, INT64)], ident="all"),
    call(NONE, [TWO], [("s", STRING)], [("f", FLOAT, INT64)], ident="no-records"),
    call(FIRST, [TWO, ("f", NO_FLOAT, [])], [("s", STRING)], ident="one"),
    call(FIRST, [("i", np.array(7), [None])], ident="one-rows"),
    call(BARE, [TWO], ident="one-missing"),
    call(BARE, [], [("s", STRING)], ident="one-sparse-missing"),
    call([[FIRST]], [TWO], ident="matrix"),
]


@pytest.mark.parametrize("each", CALLS, ids=str)
def test_records_become_what_tensorflow_makes_of_them(each: Call) -> None:
    check_ends_alike(tensorflow, each)


def _json(*features):
    return ('{"features":{"feature":{' + ",".join(features) + "}}}").encode()


JSON = [
    _json(
        '"b":{"int64List":{"value":[1,"-2"]}}',
        '"a":{"floatList":{"value":[1.5,2]}}',
        '"c":{"bytesList":{"value":["YWI=",""]}}',
    ),
    _json('"b":{"int64_list":{"value":[1]}}', '"d":{}', '"e":{"floatList":{"value":[]}}'),
    _json('"b":{"int64List":{"value":[1.5]}}'),
    _json('"b":{"bytesList":{"value":["%%"]}}'),
    _json('"b":{"floatList":{"value":["NaN","Infinity"]}}'),
    *(b"{}", b"", b'{"features":{}}', b'{"features":null}', b'{"nope":1}', b"[1]", b"{"),
]


@pytest.mark.parametrize(
    "call",
    [
        *[Call("DecodeJSONExample", [text]) for text in JSON],
        Call("DecodeJSONExample", [np.array([[JSON[0], b"{}"]], object)]),
    ],
    ids=lambda call: str(call.inputs[0])[:60],
)
def test_json_becomes_the_same_records(call):
    check_ends_alike(tensorflow, call)
