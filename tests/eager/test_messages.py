"""Messages of any type as tensors, and back: tf.io.decode_proto and tf.io.encode_proto."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tideflow as tf
from ops.message_types import SOURCE, delimited, descriptors, field, number_of
from tideflow.v1 import Summary, errors


def test_fields_come_filled_up_with_their_defaults() -> None:
    numbers = delimited(number_of("some_int32"), b"\x01\x02")
    sizes, (some, one, text) = tf.io.decode_proto(
        [numbers, field(number_of("default_int32"), 0, b"\x00")],
        "sample.All",
        ["some_int32", "default_int32", "default_string"],
        [tf.int64, tf.int32, tf.string],
        descriptor_source=SOURCE,
    )
    assert sizes.numpy().tolist() == [[2, 0, 0], [0, 1, 0]]
    assert some.numpy().tolist() == [[1, 2], [0, 0]]
    assert one.numpy().tolist() == [[7], [0]]
    assert text.numpy().tolist() == [[b"dflt"], [b"dflt"]]


@pytest.mark.parametrize("package", ["tideflow", "tensorflow"])
def test_the_types_of_this_process_have_tensorflows_names_too(package: str) -> None:
    summary = Summary.Value(tag="t", simple_value=1.5).SerializeToString()
    found = tf.io.decode_proto(
        summary, f"{package}.Summary.Value", ["tag", "simple_value"], [tf.string, tf.float32]
    )
    assert found.sizes.numpy().tolist() == [1, 1]
    assert [value.numpy().tolist() for value in found.values] == [[b"t"], [1.5]]
    again = tf.io.encode_proto(
        found.sizes[None],
        [value[None] for value in found.values],
        ["tag", "simple_value"],
        f"{package}.Summary.Value",
    )
    assert again.numpy().tolist() == [summary]


def test_types_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "types.pb"
    path.write_bytes(descriptors().SerializeToString())
    found = tf.io.encode_proto([[1]], [[[b"\x08\x05"]]], ["one_message"], "sample.All", str(path))
    assert found.numpy().tolist() == [delimited(number_of("one_message"), b"\x08\x05")]


def test_text_and_what_is_written_twice() -> None:
    number = number_of("one_message")
    twice = delimited(number, b"\x08\x01") + delimited(number, b"\x12\x01x")

    def decode(message: bytes | str, **more: object) -> list[list[bytes]]:
        given = (["one_message"], [tf.string], SOURCE)
        found: list[list[bytes]] = (
            tf.io.decode_proto([message], "sample.All", *given, **more).values[0].numpy().tolist()
        )
        return found

    assert decode(twice) == [[b"\x12\x01x"]]
    assert decode(twice, sanitize=True) == [[b"\x08\x01\x12\x01x"]]
    assert decode('one_message { a: 1 b: "x" }', message_format="text") == [[b"\x08\x01\x12\x01x"]]


def test_what_does_not_fit_is_named() -> None:
    def decode(message: bytes, name: str, dtype: tf.DType, source: str | bytes = SOURCE) -> None:
        tf.io.decode_proto([message], "sample.All", [name], [dtype], descriptor_source=source)

    invalid = errors.InvalidArgumentError
    with pytest.raises(invalid, match=r"for message type sample\.All"):
        decode(b"", "one_int32", tf.int32, "local://")
    with pytest.raises(invalid, match="does not represent serialized file descriptor set"):
        decode(b"", "one_int32", tf.int32, "/there/is/no/such.file")
    with pytest.raises(invalid, match="Unknown field: nothing in message type"):
        decode(b"", "nothing", tf.int32)
    with pytest.raises(invalid, match=r"Unexpected output type for sample\.All\.one_bool: bool"):
        decode(b"", "one_bool", tf.int32)
    with pytest.raises(errors.DataLossError, match="Failed to consume entire buffer"):
        decode(b"\xff", "one_int32", tf.int32)
    with pytest.raises(invalid, match="Size to write must not be larger than value tensor"):
        tf.io.encode_proto([[2]], [np.int32([[1]])], ["some_int32"], "sample.All", SOURCE)


def test_shapes_are_known_in_functions() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2, None], tf.string)])
    def decode(messages: tf.Tensor) -> tf.Tensor:
        sizes, (values,) = tf.io.decode_proto(
            messages, "sample.All", ["some_int32"], [tf.int32], descriptor_source=SOURCE
        )
        assert sizes.shape.as_list() == [2, None, 1]
        assert values.shape.as_list() == [2, None, None]
        made = tf.io.encode_proto(sizes, [values], ["some_int32"], "sample.All", SOURCE)
        assert made.shape.as_list() == [2, None]
        return made

    message = field(number_of("some_int32"), 0, b"\x05")
    assert decode([[message], [b""]]).numpy().tolist() == [[message], [b""]]
