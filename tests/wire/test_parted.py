"""Messages with large tensors beside them: the same bytes to protobuf, no copy of the elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from tideflow.wire import messages as pb
from tideflow.wire.parted import (
    Parted,
    can_be_parted,
    entries_of,
    joined,
    of_items,
    parse,
    parted,
    put_tensors,
    take_apart,
    with_tensors,
)
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

LARGE = np.arange(50_000, dtype=np.float32).reshape(500, 100)
VALUES = {
    "scalar": np.float32(3),
    "large": LARGE,
    "empty": np.zeros([0, 2], np.int32),
    "turned": LARGE.T,
    "half": LARGE.astype(ml_dtypes.bfloat16),
    "bools": np.tile(LARGE > 7, 2),
    "words": np.array([b"a" * 70_000, b"", b"b"], object),
    "small": np.arange(10),
}
TYPES = {
    pb.RunStepRequest: "feed",
    pb.RunStepResponse: "tensor",
    pb.RunGraphRequest: "send",
    pb.RunGraphResponse: "recv",
    pb.RunCallableRequest: "feed",
    pb.RunCallableResponse: "fetch",
}


def plain(message_type, values):
    """Return the message as protobuf alone makes it."""
    made = message_type()
    entries = getattr(made, TYPES[message_type])
    for name, value in values.items():
        entry = entries.add()
        if isinstance(entry, pb.TensorProto):
            entry.CopyFrom(encode_tensor(value))
        else:
            entry.name = name
            entry.tensor.CopyFrom(encode_tensor(value))
    return made


def tensors(message):
    """Return the values in a message, parted or not."""
    whole, contents = take_apart(message)
    found = []
    for position, entry in enumerate(getattr(whole, TYPES[type(whole)])):
        tensor_pb = entry if isinstance(entry, pb.TensorProto) else entry.tensor
        found.append(decode_tensor(tensor_pb, contents.get(position)))
    return found


@pytest.mark.parametrize("message_type", TYPES, ids=lambda t: t.__name__)
def test_protobuf_reads_what_is_written_in_parts(message_type):
    made = with_tensors(message_type(), VALUES.items())
    assert isinstance(made, Parted)
    assert sorted(made.contents) == [1, 3, 4, 5, 6]
    data = made.SerializeToString()
    assert b"".join(made.SerializeToParts()) == data
    assert message_type.FromString(data) == plain(message_type, VALUES)


@pytest.mark.parametrize("message_type", TYPES, ids=lambda t: t.__name__)
def test_what_protobuf_writes_is_read_in_parts(message_type):
    found = parse(message_type, plain(message_type, VALUES).SerializeToString())
    assert isinstance(found, Parted)
    for value, wanted in zip(tensors(found), VALUES.values(), strict=True):
        np.testing.assert_array_equal(value, wanted)
        assert value.dtype == wanted.dtype
        assert value.flags.aligned


def test_a_place_is_as_deep_as_it_is():
    """Items of the eager queue hold tensors in two places, below messages that stand alone."""
    handle = pb.EagerQueueItem()
    handle.handle_to_decref.op_id = 3
    call = pb.EagerQueueItem()
    call.operation.name = "Sum"
    call.operation.op_inputs.add().remote_handle.op_id = 4
    call.operation.op_inputs.add().tensor.CopyFrom(encode_tensor(np.arange(3)))
    sent = pb.EagerQueueItem()
    sent.send_tensor.op_id = 5
    apart = put_tensors(sent.send_tensor.tensors, [("", v) for v in VALUES.values()])
    whole = pb.EagerQueueItem()
    whole.send_tensor.op_id = 5
    whole.send_tensor.tensors.extend(map(encode_tensor, VALUES.values()))

    items = [handle, parted(sent, apart), call, parted(sent, apart)]
    made = joined(pb.EnqueueRequest(context_id=7), "queue", items)
    data = made.SerializeToString()
    plain_pb = pb.EnqueueRequest(context_id=7, queue=[handle, whole, call, whole])
    assert pb.EnqueueRequest.FromString(data) == plain_pb

    for one in (data, plain_pb.SerializeToString()):
        message, contents = take_apart(parse(pb.EnqueueRequest, one))
        assert message.context_id == 7
        assert sorted(contents) == sorted(made.contents)
        found = list(of_items(message.queue, contents))
        assert [dict(apart) for _, apart in found[::2]] == [{}, {}]
        for item, own in found[1::2]:
            assert item.send_tensor.op_id == 5
            for at, wanted in enumerate(VALUES.values()):
                value = decode_tensor(item.send_tensor.tensors[at], own.get(at))
                np.testing.assert_array_equal(value, wanted)
        assert [e.WhichOneof("item") for e in entries_of(found[2][0])] == [
            "remote_handle",
            "tensor",
        ]


def test_what_is_no_tensor_can_lie_beside_its_message():
    made = pb.GetElementResponse(element_index=3)
    made.compressed.version = 0
    made.compressed.component_metadata.add(dtype=1)
    data = parted(made, {0: memoryview(b"x" * 100_000)}).SerializeToString()
    whole = pb.GetElementResponse()
    whole.CopyFrom(made)
    whole.compressed.data = b"x" * 100_000
    assert pb.GetElementResponse.FromString(data) == whole
    for one in (data, whole.SerializeToString()):
        message, contents = take_apart(parse(pb.GetElementResponse, one))
        assert message == made
        assert bytes(contents[0]) == b"x" * 100_000


def test_messages_that_rule_each_other_out_mean_what_protobuf_says():
    one, other = pb.EagerQueueItem(), pb.EagerQueueItem()
    one.operation.op_inputs.add().tensor.CopyFrom(encode_tensor(LARGE))
    other.send_tensor.tensors.add().CopyFrom(encode_tensor(LARGE[:400]))
    for twice in ((one, other), (other, one), (one, one)):
        body = b"".join(item.SerializeToString() for item in twice)
        data = b"\x1a" + _varint(len(body)) + body
        message, contents = take_apart(parse(pb.EnqueueRequest, data))
        assert not contents
        assert message == pb.EnqueueRequest.FromString(data)


def test_the_elements_are_not_copied():
    made = with_tensors(pb.RunStepResponse(), [("large", LARGE)])
    (content,) = [p for p in made.SerializeToParts() if len(p) == LARGE.nbytes]
    assert np.shares_memory(np.frombuffer(content, np.uint8), LARGE)
    received = np.frombuffer(made.SerializeToString(), np.uint8)
    (value,) = tensors(parse(pb.RunStepResponse, received.data))
    assert np.shares_memory(value, received)
    assert not value.flags.writeable


@pytest.mark.parametrize("size", [65536, 65537, 2_097_100, *range(2_097_145, 2_097_153)])
@pytest.mark.parametrize("name", ["", "a", "a:0" * 30])
def test_contents_begin_where_compiled_code_can_take_them(size, name):
    many = [(name, np.full(size, 7, np.int8)), (name, np.full(size, 9, np.int8))]
    data = with_tensors(pb.RunStepResponse(), many).SerializeToString()
    assert data.index(b"\x07" * 100) % 64 == 0
    assert data.index(b"\x09" * 100) % 64 == 0
    assert len(pb.RunStepResponse.FromString(data).tensor) == 2


def test_other_fields_stay():
    made = pb.RunStepRequest(session_handle="s", fetch=["a", "b"], request_id=7)
    made.options.timeout_in_ms = 5
    data = with_tensors(made, [("x", LARGE)]).SerializeToString()
    found, contents = take_apart(parse(pb.RunStepRequest, data))
    assert list(contents) == [0]
    assert (found.session_handle, list(found.fetch), found.request_id) == ("s", ["a", "b"], 7)
    assert found.options.timeout_in_ms == 5


def test_small_messages_are_themselves():
    made = with_tensors(pb.RunStepResponse(), [("small", np.arange(3))])
    assert isinstance(made, pb.RunStepResponse)
    assert isinstance(parse(pb.RunStepResponse, made.SerializeToString()), pb.RunStepResponse)
    assert can_be_parted(pb.RunStepResponse)
    assert not can_be_parted(pb.GraphDef)


def test_a_message_of_very_many_tensors_is_written_too():
    values = [(f"t{i}", np.float32(i)) for i in range(5000)]
    made = with_tensors(pb.RunStepResponse(), [*values, ("large", LARGE)])
    found = pb.RunStepResponse.FromString(made.SerializeToString())
    assert len(found.tensor) == 5001
    np.testing.assert_array_equal(decode_tensor(found.tensor[5000].tensor), LARGE)


def test_tensors_that_stand_in_pieces_mean_what_protobuf_says():
    name = b"\x0a\x01x"
    size = b"\x22\x80\x80\x04"
    twice = size + b"\x01" * 65536 + size + b"\x02" * 65536
    head = b"\x08\x04\x12\x05\x12\x03\x08\x80\x80\x04"[:2] + b"\x12\x06\x12\x04\x08\x80\x80\x04"
    body = head + twice
    entry = name + b"\x12" + _varint(len(body)) + body
    data = b"\x0a" + _varint(len(entry)) + entry
    assert tensors(parse(pb.RunStepResponse, data))[0].tolist() == [2] * 65536


def _varint(number):
    made = b""
    while number >= 0x80:
        made += bytes([number & 0x7F | 0x80])
        number >>= 7
    return made + bytes([number])


def read_by_protobuf(data):
    """Return the message that protobuf makes of bytes; None where it makes none."""
    try:
        return pb.RunStepResponse.FromString(data)
    except DecodeError:
        return None


def read_in_parts(data):
    """Return the message that ours makes of bytes, put together; None where it makes none."""
    try:
        found = parse(pb.RunStepResponse, data)
    except DecodeError:
        return None
    message, contents = take_apart(found)
    for position, content in contents.items():
        message.tensor[position].tensor.tensor_content = bytes(content)
    return message


WHOLE = with_tensors(
    pb.RunStepResponse(status_error_message="m"),
    [("a", LARGE[:90]), ("b", LARGE[:7]), ("c", LARGE)],
).SerializeToString()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE)))
def test_a_message_cut_short_is_what_protobuf_says(size):
    data = WHOLE[:size]
    assert read_in_parts(data) == read_by_protobuf(data)


HEADS = [i for i in range(len(WHOLE)) if i < 80 or 36_000 < i < 36_200 or i > len(WHOLE) - 40]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HEADS), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_mutated_message_is_what_protobuf_says(changes):
    data = bytearray(WHOLE)
    for position, byte in changes:
        data[position] = byte
    mutated = bytes(data)
    assert read_in_parts(mutated) == read_by_protobuf(mutated)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 4), st.binary(max_size=12))
def test_strange_bytes_are_what_protobuf_says(before, piece, after):
    pieces = [b"\xff" * 20_000, b"\x08\x01" * 9_000, b"\x0b" * 17_000, WHOLE, b"\x00" * 17_000]
    data = before + pieces[piece] + after
    assert read_in_parts(data) == read_by_protobuf(data)
