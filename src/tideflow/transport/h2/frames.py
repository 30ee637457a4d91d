"""HTTP/2 frames as bytes: how each kind is written, and how its payload is read.

A frame is a header of nine bytes (length of the payload, kind, flags, stream) and a payload.
Nothing here knows the state of a connection.
Source: RFC 9113, sections 4 and 6
"""

from __future__ import annotations

import struct

from tideflow.transport.h2.faults import ConnectionFault, ErrorCode

Buffer = bytes | bytearray | memoryview

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9

DATA = 0x0
HEADERS = 0x1
PRIORITY = 0x2
RST_STREAM = 0x3
SETTINGS = 0x4
PUSH_PROMISE = 0x5
PING = 0x6
GOAWAY = 0x7
WINDOW_UPDATE = 0x8
CONTINUATION = 0x9

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

SETTING_HEADER_TABLE_BYTES = 0x1
SETTING_ENABLE_PUSH = 0x2
SETTING_MAX_STREAMS = 0x3
SETTING_INITIAL_WINDOW = 0x4
SETTING_MAX_FRAME_BYTES = 0x5
SETTING_MAX_HEADER_LIST_BYTES = 0x6
# Of ours: whoever says it may be pinged often.
SETTING_HEARTBEAT = 0xF7DF

# What holds until a peer's SETTINGS say otherwise.
DEFAULT_WINDOW = 65535
DEFAULT_MAX_FRAME_BYTES = 16384

MAX_WINDOW = 2**31 - 1
MAX_STREAM_ID = 2**31 - 1
MAX_FRAME_BYTES = 2**24 - 1

_HEADER = struct.Struct(">BHBBL")
_SETTING = struct.Struct(">HL")
_U32 = struct.Struct(">L")
_TWO_U32 = struct.Struct(">LL")

unpack_header = _HEADER.unpack_from


def begins_tls(data: Buffer) -> bool:
    """Whether a peer's first bytes are a TLS greeting or a TLS alert, not HTTP/2."""
    return len(data) > 1 and data[0] in (0x15, 0x16) and data[1] == 0x03


def frame_header(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    """Return the nine bytes before a payload of the given length."""
    return _HEADER.pack(length >> 16, length & 0xFFFF, kind, flags, stream_id)


def headers_frames(
    stream_id: int, block: bytes, *, end_stream: bool, max_frame_bytes: int
) -> list[bytes]:
    """Return a header block as one HEADERS frame, and CONTINUATION frames where it is too long."""
    flags = END_STREAM if end_stream else 0
    if len(block) <= max_frame_bytes:
        return [frame_header(len(block), HEADERS, flags | END_HEADERS, stream_id), block]
    made = [frame_header(max_frame_bytes, HEADERS, flags, stream_id), block[:max_frame_bytes]]
    for at in range(max_frame_bytes, len(block), max_frame_bytes):
        piece = block[at : at + max_frame_bytes]
        last = END_HEADERS if at + max_frame_bytes >= len(block) else 0
        made += [frame_header(len(piece), CONTINUATION, last, stream_id), piece]
    return made


def settings_frame(settings: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    payload = b"".join(_SETTING.pack(number, value) for number, value in settings.items())
    return frame_header(len(payload), SETTINGS, 0, 0) + payload


SETTINGS_ACK = frame_header(0, SETTINGS, ACK, 0)


def ping_frame(payload: bytes, *, ack: bool) -> bytes:
    """Return a PING of eight bytes, or the answer to one."""
    return frame_header(8, PING, ACK if ack else 0, 0) + payload


def reset_frame(stream_id: int, code: int) -> bytes:
    """Return a RST_STREAM."""
    return frame_header(4, RST_STREAM, 0, stream_id) + _U32.pack(code)


def window_update_frame(stream_id: int, increment: int) -> bytes:
    """Return a WINDOW_UPDATE; stream 0 is the connection."""
    return frame_header(4, WINDOW_UPDATE, 0, stream_id) + _U32.pack(increment)


def goaway_frame(last_stream_id: int, code: int, text: str = "") -> bytes:
    """Return a GOAWAY: no stream after last_stream_id was or will be looked at."""
    debug = text.encode(errors="replace")[:256]
    return frame_header(8 + len(debug), GOAWAY, 0, 0) + _TWO_U32.pack(last_stream_id, code) + debug


def read_u32(payload: Buffer, kind: str) -> int:
    """Return the number that is the whole payload of a RST_STREAM or WINDOW_UPDATE.

    Raises: ConnectionFault (FRAME_SIZE_ERROR) for another size.
    """
    if len(payload) != 4:
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, f"{kind} with {len(payload)} bytes; it has 4"
        )
    found: int = _U32.unpack(payload)[0]
    return found


def read_settings(payload: Buffer) -> list[tuple[int, int]]:
    """Return the settings of a SETTINGS frame in order.

    Raises: ConnectionFault for a payload that is no list of settings, or a value out of range.
    """
    if len(payload) % _SETTING.size:
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS with {len(payload)} bytes; each setting has 6"
        )
    found = list(_SETTING.iter_unpack(payload))
    for number, value in found:
        if number == SETTING_INITIAL_WINDOW and value > MAX_WINDOW:
            raise ConnectionFault(
                ErrorCode.FLOW_CONTROL_ERROR, f"an initial window of {value}; most is {MAX_WINDOW}"
            )
        if number == SETTING_MAX_FRAME_BYTES and not (
            DEFAULT_MAX_FRAME_BYTES <= value <= MAX_FRAME_BYTES
        ):
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes; 2^14 to 2^24-1 are allowed"
            )
        if number == SETTING_ENABLE_PUSH and value > 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}, not 0 or 1")
    return found


def read_goaway(payload: Buffer) -> tuple[int, int, str]:
    """Return last stream, error code and text of a GOAWAY.

    Raises: ConnectionFault for a payload that is too short.
    """
    if len(payload) < 8:
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY with {len(payload)} bytes; it has 8 at least"
        )
    last, code = _TWO_U32.unpack_from(payload)
    return last & MAX_STREAM_ID, code, bytes(payload[8:]).decode(errors="replace")


def without_padding(payload: memoryview, flags: int) -> memoryview:
    """Return a HEADERS payload without its padding and its priority.

    Raises: ConnectionFault for more padding than payload.
    """
    begin, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padded HEADERS without a length")
        begin, end = 1, end - payload[0]
    if flags & HAS_PRIORITY:
        begin += 5
    if begin > end:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS with more padding than payload")
    return payload[begin:end]
