"""The answer to RecvBuf: one piece on the way out, any pieces on the way in."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from tideflow.wire import messages as pb
from tideflow.wire.buffer_reply import BufferReply

URL = "type.googleapis.com/tensorflow.RecvBufRespExtra"


@pytest.mark.parametrize("size", [0, 1, 200, 100_000])
def test_what_is_written_is_the_message_and_reads_back(size: int) -> None:
    content = np.arange(size, dtype=np.uint8)
    data = BufferReply(content, send_start_us=5).SerializeToString()
    message = pb.RecvBufResponse.FromString(data)
    assert (message.num_bytes, message.send_start_micros) == (size, 5)
    assert message.transport_options.type_url == URL
    extra = pb.RecvBufRespExtra.FromString(message.transport_options.value)
    assert b"".join(extra.tensor_content) == content.tobytes()
    assert BufferReply.FromString(data).content.tobytes() == content.tobytes()


def test_pieces_are_joined() -> None:
    extra = pb.RecvBufRespExtra(tensor_content=[b"a" * 4096, b"b" * 4096, b"c"])
    message = pb.RecvBufResponse(num_bytes=8193)
    message.transport_options.type_url = URL
    message.transport_options.value = extra.SerializeToString()
    found = BufferReply.FromString(message.SerializeToString())
    assert found.content.tobytes() == b"a" * 4096 + b"b" * 4096 + b"c"


def test_an_answer_without_a_buffer_is_refused() -> None:
    with pytest.raises(DecodeError):
        BufferReply.FromString(pb.RecvBufResponse(num_bytes=3).SerializeToString())
