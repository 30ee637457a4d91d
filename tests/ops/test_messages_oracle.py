"""Messages of any type become what TensorFlow makes of them, and tensors the messages it makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.message_types import SOURCE, TYPES, delimited, field, number_of
from ops.outcomes import Call, as_array, check_ends_alike, outcome

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I32 = np.int32
_FAR = b"\xff" * 9 + b"\x01"
_VALUES: dict[str, list[Any]] = {
    "string": [b"a", b""],
    "bytes": [b"\xff", b"b"],
    "message": [b"\x08\x04", b"\xff"],
    "group": [b"\x08\x03", b""],
    "bool": [True, False],
    "float": [1.1, -3],
    "double": [1.1, -3],
    "enum": [-1, 5],
    "uint32": [2**32 - 5, 7],
    "fixed32": [2**32 - 5, 7],
    "uint64": [2**64 - 5, 7],
    "fixed64": [2**64 - 5, 7],
    "int64": [-(2**40), 7],
}


def values_of(kind: str, dtype: str) -> Any:
    found = _VALUES.get(kind, [-5, 7])
    return as_array([found]) if dtype == "string" else np.array([found], dtype)


def decode(data: Any, fields: dict[str, str], ident: str = "", **attrs: Any) -> Call:
    given = {
        "message_type": "sample.All",
        "field_names": list(fields),
        "output_types": list(fields.values()),
        "descriptor_source": SOURCE,
    } | attrs
    return Call("DecodeProtoV2", [as_array(data)], given, id=ident)


def encode(sizes: Any, values: Any, names: list[str], ident: str = "", **attrs: Any) -> Call:
    given = {"field_names": names, "message_type": "sample.All", "descriptor_source": SOURCE}
    return Call("EncodeProto", [I32(sizes), tuple(values)], given | attrs, id=ident)


def written(kind: str, label: str) -> bytes:
    """Two values of a type as a field, by tideflow; that it writes them rightly is compared."""
    made = outcome(ours, encode([[2]], [values_of(kind, TYPES[kind][0])], [f"{label}_{kind}"]))
    content: bytes = made[0].item()
    return content


def labels(kind: str) -> list[str]:
    plain = kind in ("string", "bytes", "message", "group")
    return ["one", "some"] if plain else ["one", "some", "packed"]


CASES = [(kind, label, dtype) for kind in TYPES for label in labels(kind) for dtype in TYPES[kind]]


def test_every_type_of_fields() -> None:
    for kind, label, dtype in CASES:
        data = written(kind, label)
        check_ends_alike(tensorflow, decode([data, b""], {f"{label}_{kind}": dtype}, kind))
        values = values_of(kind, dtype)
        check_ends_alike(tensorflow, encode([[2]], [values], [f"{label}_{kind}"], kind))


def test_no_other_type_is_taken() -> None:
    others = ["float16", "float32", "int8", "int32", "int64", "uint64", "string", "bool"]
    for kind, types in TYPES.items():
        for dtype in set(others) - set(types):
            check_ends_alike(tensorflow, decode([b""], {f"one_{kind}": dtype}, kind))
    for kind in ("double", "uint32", "string"):
        check_ends_alike(tensorflow, encode([[1]], [I32([[1]])], [f"one_{kind}"], kind))


NUMBER = number_of("default_int32")
TWO = delimited(number_of("some_int32"), b"\x01\x02") + field(number_of("one_int32"), 0, b"\x09")
ALL = {"some_int32": "int32", "one_int32": "int64", "default_int32": "int32"}


@pytest.mark.parametrize(
    "call",
    [
        decode([TWO, b""], ALL, "two messages"),
        encode(
            [[0, 2], [1, 1]],
            [I32([[1], [2]]), I32([[3, 4], [5, 6]])],
            ["one_int32", "some_int32"],
            "two fields",
        ),
    ],
    ids=str,
)
def test_several_fields_of_several_messages(call: Call) -> None:
    check_ends_alike(tensorflow, call)


def test_shapes_defaults_and_names() -> None:
    kinds = ["int32", "string", "enum", "uint64", "double", "bool", "bytes", "int64"]
    defaults = {f"default_{kind}": TYPES[kind][0] for kind in kinds}
    twice = {"field_names": ["one_int32"] * 2, "output_types": ["int32", "int64"]}
    for call in [
        decode(TWO, ALL),
        decode([[TWO, b""], [b"", TWO]], ALL),
        decode(np.empty([0], object), ALL),
        decode([TWO], {}),
        decode([TWO, b""], defaults),
        decode([TWO], {}, **twice),
        decode([field(100, 0, b"\x03")], {"sample.extra": "int32"}),
        decode([b""], {"extra": "int32"}),
        decode([b""], {"nothing": "int32"}),
        decode([b""], ALL, message_type="sample.Nothing"),
        decode([b""], ALL, message_type=".sample.All"),
        decode([b""], ALL, output_types=["int32"]),
        decode([b""], ALL, message_format="json"),
        *(
            decode([b""], ALL, descriptor_source=source)
            for source in ("", "local://", "bytes://", "bytes://ab", "/nothing", "local://x")
        ),
        *(
            decode([b""], {"node": "string"}, descriptor_source=source, message_type=name)
            for source in ("", "local://")
            for name in ("tensorflow.GraphDef", ".tensorflow.GraphDef", "tensorflow.Nothing")
        ),
        decode(
            [b"\x08\x05"],
            {"seconds": "int64"},
            descriptor_source="local://",
            message_type="google.protobuf.Timestamp",
        ),
    ]:
        check_ends_alike(tensorflow, call)


def test_what_is_unusual_on_the_wire() -> None:
    one, some, text = number_of("one_int32"), number_of("some_int32"), number_of("one_string")
    group, double = number_of("one_group"), number_of("packed_double")
    inner = field(group, 3, b"\x08\x01") + field(group, 4, b"")
    asked = {"one_int32": "int32", "some_int32": "int64", "one_string": "string"}
    asked |= {"one_group": "string", "packed_double": "float64", "default_int32": "int32"}
    packed, single = delimited(NUMBER, b"\x09\x0a"), field(NUMBER, 0, b"\x03")
    for data in [
        field(one, 0, b"\x01") + field(one, 0, b"\x02"),
        field(one, 0, b"\xff\xff\xff\xff\xff\x0f"),
        field(one, 0, _FAR),
        field(one, 0, b"\xff" + _FAR),
        field(one, 5, b"1234"),
        field(some, 5, b"1234") + field(some, 0, b"\x07"),
        field(some, 1, b"12345678"),
        field(some, 0, _FAR),
        delimited(some, _FAR),
        delimited(some, b"\xff" + _FAR),
        delimited(some, b"\x01") + field(some, 0, b"\x02"),
        delimited(some, b""),
        delimited(double, b"1234567"),
        field(text, 0, b"\x01"),
        field(text, 2, b"\x05ab"),
        field(text, 2, b"\x81\x80\x80\x80\x10a"),
        field(text, 2, b"\xff\xff\xff\xff\x0f"),
        *(
            packed,
            packed + single,
            single + packed,
            packed + packed,
            single + delimited(NUMBER, b""),
        ),
        *(inner, inner[:-1], inner + inner, field(group, 4, b""), delimited(group, b"\x08\x01")),
        field(500, 3, inner) + field(500, 4, b""),
        field(500, 3, inner),
        *(b"\xff", b"\x00", b"\x07", b"\x06\x00", b"\x02\x00", b"\xa8\x00\x05"),
        *(field(one, 0, b"\x05") + more for more in (b"\x00", b"\x00\x28\x06", b"\x01", b"\x28")),
    ]:
        check_ends_alike(tensorflow, decode([data], asked))
        check_ends_alike(tensorflow, decode([data], {}))


def test_what_is_parsed_first() -> None:
    some = number_of("some_enum")
    message = number_of("one_message")
    asked = {"one_message": "string", "some_enum": "int32", "this": "int32", "that": "int32"}
    for data in [
        delimited(message, b"\x08\x01") + delimited(message, b"\x12\x01x"),
        delimited(message, b"\x12\x01x\x50\x07\x08\x01"),
        delimited(message, b"\xff"),
        delimited(some, b"\x05\x63\x00") + field(some, 0, b"\x63"),
        field(81, 0, b"\x01") + field(82, 0, b"\x02"),
    ]:
        check_ends_alike(tensorflow, decode([data], asked))
        check_ends_alike(tensorflow, decode([data], asked, sanitize=True))
    needy = {"message_type": "sample.Needy"}
    check_ends_alike(tensorflow, decode([b"\x10\x01"], {"w": "int32"}, **needy))
    check_ends_alike(tensorflow, decode([b"\x10\x01"], {"w": "int32"}, sanitize=True, **needy))
    for text in [
        "this: 3 some_enum: [RED, BLUE]",
        "one_message { a: 1 c: [1, 2] }",
        "one_message: < a: -0x3 > # comment",
        "one_message { a: 1 } some_enum: BLUE some_enum: 5",
        "",
        *("{", "nothing: 3", "this: 'a'", "some_enum: 77", "this: 1 this: 2", "this: 1 that: 2"),
        *("this: 5000000000", "500: 3"),
    ]:
        check_ends_alike(tensorflow, decode([text], asked, message_format="text"))
    check_ends_alike(tensorflow, decode(["w: 3"], {"w": "int32"}, message_format="text", **needy))


def test_what_is_written() -> None:
    one, some = ["one_int32"], ["some_int32"]
    both = [*one, *some]
    matrix = I32([[1, 2]])
    for call in [
        encode([[1], [1]], [I32([[1], [2]])], one),
        encode([[[1]], [[1]]], [I32([[[1]], [[2]]])], one),
        encode([[2]], [matrix], one),
        encode([[1, 1]], [I32([[7]]), I32([[8]])], ["some_int32", "one_int32"]),
        encode([[1, 1]], [I32([[7]]), I32([[8]])], ["one_int32", "one_int32"]),
        encode([[-1]], [matrix], some),
        encode([[0]], [np.empty([1, 0], I32)], some),
        encode([[0]], [matrix], ["packed_int32"]),
        encode([[3]], [matrix], some),
        encode([[1]], [np.int64([[2**40 + 5]])], one),
        encode([[1]], [np.int64([[-7 - 2**40]])], ["one_sint32"]),
        encode([[1]], [np.uint64([[2**64 - 1]])], ["one_fixed32"]),
        encode([[1]], [np.float64([[1e300]])], ["one_float"]),
        encode([[1]], [as_array([[b"\xff"]])], ["one_string"]),
        encode(np.empty([0, 1]), [np.empty([0, 1], I32)], one),
        encode([1], [I32([1])], one),
        encode(1, [I32([1])], one),
        encode([1], [I32(1)], one),
        encode([[1]], [I32([[1], [2]])], one),
        encode([[1, 1]], [I32([[1]])], one),
        encode([[1, 1]], [I32([[1]])], both),
        encode([[1]], [I32([[1]]), I32([[1]])], both),
        encode([[1, 1]], [I32([[1]]), I32([[1], [2]])], both),
        encode([[1]], [I32([[1]])], ["nothing"]),
        encode([[1]], [I32([[1]])], ["sample.extra"]),
        encode([[1]], [I32([[1]])], one, message_type="sample.Nothing"),
        encode([[1]], [I32([[1]])], one, descriptor_source="/nothing"),
    ]:
        check_ends_alike(tensorflow, call)
