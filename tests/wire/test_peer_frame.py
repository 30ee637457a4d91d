"""Frames between peers: what is written is read, and what is no frame is refused."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame

LARGE = np.arange(50_000, dtype=np.float32).reshape(500, 100)


def frame_of(*values):
    frame = PeerFrame()
    for i, value in enumerate(values):
        frame.add(7, f"key{i}", value, value is None)
    return frame


def values_in(data):
    frame = PeerFrame.FromString(data)
    return [None if e.is_dead else frame.value(e) for e in frame.message.tensor]


@pytest.mark.parametrize("values", [
    [np.float32(1.5)],
    [np.arange(3), np.array([[True], [False]]), np.zeros([0, 4])],
    [LARGE, np.float64(2), LARGE.T],
    [np.array([b"a", b"", b"bcd"], object), None],
])  # fmt: skip
def test_values_come_back(values):
    frame = frame_of(*values)
    data = frame.SerializeToString()
    assert b"".join(frame.SerializeToParts()) == data
    for found, value in zip(values_in(data), values, strict=True):
        if value is None:
            assert found is None
        else:
            np.testing.assert_array_equal(found, value)
            assert found.dtype == value.dtype
            assert not getattr(found, "flags", found).writeable


def test_a_frame_is_a_message_as_others_read_it():
    found = pb.PeerFrame.FromString(frame_of(LARGE, np.int32(5)).SerializeToString())
    first, second = found.tensor
    assert found.content[first.begin : first.begin + first.size] == LARGE.tobytes()
    assert found.content[second.begin : second.begin + second.size] == np.int32(5).tobytes()


def test_large_elements_are_neither_copied_nor_out_of_line():
    frame = frame_of(np.float32(1), LARGE)
    assert any(part is not None and np.shares_memory(np.frombuffer(part, np.uint8), LARGE)
               for part in frame.SerializeToParts())  # fmt: skip
    received = np.frombuffer(frame.SerializeToString(), np.uint8)
    _, found = values_in(received.data)
    assert np.shares_memory(found, received)
    assert (found.ctypes.data - received.ctypes.data) % 64 == 0


def test_an_empty_frame_has_bytes():
    assert PeerFrame.FromString(PeerFrame().SerializeToString()).message == pb.PeerFrame()


def test_fields_that_come_late_are_read():
    data = frame_of(LARGE).SerializeToString() + pb.PeerFrame(seen_count=3).SerializeToString()
    frame = PeerFrame.FromString(data)
    assert frame.message.seen_count == 3
    np.testing.assert_array_equal(frame.value(frame.message.tensor[0]), LARGE)


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x12\x05", b"\x7a\xff\xff\xff\xff\x0f" + bytes(70_000)]
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(DecodeError):
        PeerFrame.FromString(data)


@pytest.mark.parametrize(("begin", "size"), [(0, 12), (8, 8), (2**63, 8), (0, 4)])
def test_a_tensor_out_of_place_is_refused(begin, size):
    message = frame_of(np.zeros(2, np.float32)).message
    message.tensor[0].begin, message.tensor[0].size = begin, size
    frame = PeerFrame(message, bytes(8))
    with pytest.raises(errors.InvalidArgumentError):
        frame.value(message.tensor[0])


def test_a_tensor_without_elements_is_of_zeros_only_where_it_may_be():
    message = frame_of(np.zeros([0, 3], np.float32)).message
    assert PeerFrame(message).value(message.tensor[0]).shape == (0, 3)
    message.tensor[0].header = b"\xff"
    with pytest.raises((errors.InvalidArgumentError, DecodeError)):
        PeerFrame(message).value(message.tensor[0])


def test_halves_say_the_same_one_after_the_other():
    values = [np.float32(1.5), LARGE, None, np.array([b"a", b"bcd"], object), LARGE.T, np.int64(7)]
    frame = frame_of(*values)
    message = frame.message
    message.hello.task = "/job:ps"
    message.seen_count = 5
    message.refused.extend([3, 4])
    message.tensor.add(step_id=8, rendezvous_key="asked for", ask=True)
    message.run.add(step_id=9)
    message.run_end.add(step_id=10, code=3, message="bad", payloads={"a": b"b"})
    message.given_up_step.extend([11, 12])
    message.over_step.append(13)

    def single(frame: PeerFrame) -> list[PeerFrame]:
        halves = frame.halves()
        return [frame] if halves is None else [one for half in halves for one in single(half)]

    parts = [PeerFrame.FromString(part.SerializeToString()) for part in single(frame)]
    assert [field.name for part in parts for field, _ in part.message.ListFields()
            if field.name != "content"] == (
        ["hello", "refused", "refused", "seen_count", *["tensor"] * 7, "run",
         "given_up_step", "given_up_step", "run_end", "over_step"])  # fmt: skip
    merged = pb.PeerFrame()
    for part in parts:
        for entry_pb in part.message.tensor:
            assert entry_pb.begin % 64 == 0
        merged.MergeFrom(part.message)
    merged.ClearField("content")
    for entry_pb, own_pb in zip(merged.tensor, message.tensor, strict=True):
        entry_pb.begin = own_pb.begin
    assert merged == message
    found = [
        None if entry_pb.is_dead else part.value(entry_pb)
        for part in parts
        for entry_pb in part.message.tensor
        if not entry_pb.ask
    ]
    for one, value in zip(found, values, strict=True):
        np.testing.assert_array_equal(one, value)


def test_a_value_under_a_key_that_cannot_be_written_leaves_no_trace():
    frame = frame_of(np.float32(1))
    before = frame.SerializeToString()
    with pytest.raises((ValueError, UnicodeError)):
        frame.add(7, "\udce9", LARGE, False)
    assert frame.SerializeToString() == before
