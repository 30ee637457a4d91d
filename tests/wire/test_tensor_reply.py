"""The answer to RecvTensor: its bytes are those of the message, read and written without it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from google.protobuf.message import DecodeError

from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor
from tideflow.wire.tensor_reply import TensorReply, dead_reply

LARGE = np.arange(50_000, dtype=np.float32).reshape(500, 100)

VALUES = [
    np.float32(3),
    np.zeros([0, 2], np.int32),
    LARGE,
    LARGE.T,
    LARGE.astype(np.float64),
    LARGE.astype(ml_dtypes.bfloat16),
    LARGE > 7,
    np.array([b"a" * 20_000, b"", b"b"], object),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{v.dtype}-{v.shape}")
def test_it_agrees_with_the_message_both_ways(value):
    data = TensorReply(value, send_start_us=1_700_000_000_000_000).SerializeToString()
    message = pb.RecvTensorResponse.FromString(data)
    assert message.send_start_micros == 1_700_000_000_000_000
    assert not message.is_dead
    np.testing.assert_array_equal(decode_tensor(message.tensor), value)

    other = pb.RecvTensorResponse(tensor=encode_tensor(value), send_start_micros=5)
    for found, sent in (
        (TensorReply.FromString(data), 1_700_000_000_000_000),
        (TensorReply.FromString(other.SerializeToString()), 5),
    ):
        np.testing.assert_array_equal(found.value, value)
        assert found.value.dtype == value.dtype
        assert found.value.flags.aligned
        assert not found.value.flags.writeable
        assert found.send_start_us == sent
        assert (found.is_dead, found.require_ack) == (False, False)


def test_marks_travel():
    data = TensorReply(LARGE, require_ack=True).SerializeToString()
    assert pb.RecvTensorResponse.FromString(data).require_ack
    assert TensorReply.FromString(data).require_ack


def test_a_dead_tensor_is_a_float_of_no_elements():
    data = dead_reply(9).SerializeToString()
    message = pb.RecvTensorResponse.FromString(data)
    assert message.is_dead
    assert message.tensor == encode_tensor(np.zeros([0], np.float32))
    found = TensorReply.FromString(data)
    assert found.is_dead
    assert found.send_start_us == 9
    assert found.value.shape == (0,)


def test_an_empty_message_is_a_float_of_no_elements():
    found = TensorReply.FromString(b"")
    assert found.value.dtype == np.float32
    assert found.value.shape == (0,)


@pytest.mark.parametrize("size", range(65536, 65536 + 20))
@pytest.mark.parametrize("sent", [0, 1, 1 << 40])
def test_large_elements_begin_where_arrays_may(size, sent):
    data = TensorReply(np.full(size, 7, np.int8), send_start_us=sent).SerializeToString()
    assert data.index(b"\x07" * 100) % 64 == 0
    assert pb.RecvTensorResponse.FromString(data).tensor.tensor_shape.dim[0].size == size


def test_elements_in_list_fields_or_in_another_order_are_read_too():
    listed = pb.RecvTensorResponse(tensor=pb.TensorProto(dtype=1, float_val=[1.5] * 9000))
    listed.tensor.tensor_shape.dim.add(size=9000)
    assert TensorReply.FromString(listed.SerializeToString()).value.tolist() == [1.5] * 9000

    content = pb.TensorProto(tensor_content=LARGE.tobytes()).SerializeToString()
    rest = pb.TensorProto(dtype=1, tensor_shape=encode_tensor(LARGE).tensor_shape)
    tensor = content + rest.SerializeToString()
    size = len(tensor)
    varint = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    found = TensorReply.FromString(b"\x0a" + varint + tensor)
    np.testing.assert_array_equal(found.value, LARGE)


def test_broken_bytes_are_refused():
    data = TensorReply(LARGE).SerializeToString()
    with pytest.raises(DecodeError):
        TensorReply.FromString(data[:-1])
    with pytest.raises(DecodeError):
        TensorReply.FromString(b"\xff" * 20_000)
    wrong = pb.RecvTensorResponse(tensor=encode_tensor(LARGE))
    wrong.tensor.tensor_shape.dim[0].size = 499
    with pytest.raises(errors.InvalidArgumentError, match="200000 bytes"):
        TensorReply.FromString(wrong.SerializeToString())
