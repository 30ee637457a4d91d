"""The answer to RecvBuf as a value: a buffer of a collective, written from where it lies.

It stands in the place of the message RecvBufResponse and reads and writes its bytes itself.  The
buffer is one piece on the way out; a TensorFlow server sends pieces of 4096 bytes, and reads any.
Source: worker.proto and transport_options.proto of TensorFlow 2.21; runtime facts on RecvBuf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from tideflow.wire import messages as pb
from tideflow.wire.fields import VARINT, Buffer, scan, tag_of, the_one, varint
from tideflow.wire.work import PROTOBUF_BYTES

_NUM_BYTES = tag_of(pb.RecvBufResponse.DESCRIPTOR.fields_by_name["num_bytes"].number, VARINT)
_OPTIONS = tag_of(pb.RecvBufResponse.DESCRIPTOR.fields_by_name["transport_options"].number)
_SEND_START = tag_of(
    pb.RecvBufResponse.DESCRIPTOR.fields_by_name["send_start_micros"].number, VARINT
)
_CONTENT = tag_of(pb.RecvBufRespExtra.DESCRIPTOR.fields_by_name["tensor_content"].number)
# Of google.protobuf.Any.
_TYPE_URL, _VALUE = tag_of(1), tag_of(2)
_URL = b"type.googleapis.com/tensorflow.RecvBufRespExtra"


@dataclass(slots=True)
class BufferReply:
    """A buffer that one worker gives to another.

    Attributes:
      content: its bytes, flat.
      send_start_us: wall clock of the sender.
    """

    content: npt.NDArray[np.uint8]
    send_start_us: int = 0

    @staticmethod
    def work_to_read(data: Buffer) -> int:
        """Return as how many bytes (see work.py) the work of `FromString` counts: the content may
        come in many pieces."""
        return PROTOBUF_BYTES * len(data)

    def SerializeToParts(self) -> list[Buffer]:
        """Return buffers whose bytes, in a row, are those of the RecvBufResponse.

        The last is the content's own memory, which must not change until it has been sent.
        """
        size = self.content.nbytes
        head = varint(_NUM_BYTES) + varint(size)
        if self.send_start_us:
            head += varint(_SEND_START) + varint(self.send_start_us)
        url = varint(_TYPE_URL) + varint(len(_URL)) + _URL
        if not size:
            return [head + varint(_OPTIONS) + varint(len(url)) + url]
        piece = varint(_CONTENT) + varint(size)
        extra = varint(_VALUE) + varint(len(piece) + size) + piece
        whole = varint(len(url) + len(extra) + size)
        return [head + varint(_OPTIONS) + whole + url + extra, self.content.data]

    def SerializeToString(self) -> bytes:
        """Return the bytes of the RecvBufResponse."""
        return b"".join(self.SerializeToParts())

    @classmethod
    def FromString(cls, data: Buffer) -> BufferReply:
        """Return what the bytes of a RecvBufResponse say.

        A content in one piece is viewed where it arrived.
        Raises: DecodeError for bytes that are none, or carry no buffer.
        """
        view = memoryview(data)
        options = the_one(scan(view, 0, len(view)), _OPTIONS)
        if options is not None:
            value = the_one(scan(view, options.body, options.end), _VALUE)
            if value is None:
                return cls(_EMPTY)
            piece = the_one(scan(view, value.body, value.end), _CONTENT)
            if piece is not None:
                return cls(np.frombuffer(view[piece.body : piece.end], np.uint8))
        response = pb.RecvBufResponse.FromString(bytes(view))
        options_pb = response.transport_options
        if not options_pb.type_url.endswith(".RecvBufRespExtra"):
            raise DecodeError("a RecvBufResponse carries no RecvBufRespExtra")
        extra = pb.RecvBufRespExtra.FromString(options_pb.value)
        return cls(np.frombuffer(b"".join(extra.tensor_content), np.uint8))


_EMPTY = np.zeros(0, np.uint8)
