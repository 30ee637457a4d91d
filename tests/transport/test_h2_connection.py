"""The HTTP/2 core, fed bytes and asked for events: no sockets, no loop."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideflow.transport.h2 import frames
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    GoAway,
    HeadersReceived,
    PingAnswered,
    StreamReset,
)
from tideflow.transport.h2.faults import ConnectionFault, ErrorCode, MisuseError
from tideflow.transport.h2.header_blocks import HeaderReader, encode_block
from tideflow.transport.h2.limits import Limits

HEAD = encode_block([(b":method", b"POST"), (b":path", b"/s/m"), (b"te", b"trailers")])
TAIL = encode_block([(b"grpc-status", b"0")])
HELLO = frames.PREFACE + frames.settings_frame({})

SMALL = Limits(
    max_frame_bytes=16384,
    stream_window_bytes=65535,
    connection_window_bytes=100_000,
    max_streams=3,
    idle_frames=20,
    resets=10,
    max_continuations=4,
)


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return frames.frame_header(len(payload), kind, flags, stream_id) + payload


def headers(stream_id: int, block: bytes = HEAD, *, end: bool = False, flags: int = 0) -> bytes:
    flags |= frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frame(frames.HEADERS, flags, stream_id, block)


def data(stream_id: int, payload: bytes, *, end: bool = False) -> bytes:
    return frame(frames.DATA, frames.END_STREAM if end else 0, stream_id, payload)


def server(limits: Limits = SMALL) -> Connection:
    made = Connection(is_client=False, limits=limits, clock=lambda: 0.0)
    assert not any(isinstance(e, ConnectionFailed) for e in made.receive(HELLO))
    made.take_output()
    return made


def client() -> Connection:
    made = Connection(is_client=True, limits=SMALL, clock=lambda: 0.0)
    made.receive(frames.settings_frame({}))
    made.take_output()
    return made


def output(connection: Connection) -> bytes:
    return b"".join(connection.take_output())


def failure(events: Sequence[Event]) -> ErrorCode:
    assert isinstance(events[-1], ConnectionFailed), events
    return events[-1].code


def summary(events: Sequence[Event]) -> list[tuple[object, ...]]:
    """Return events with the pieces of each body joined, as cuts may fall anywhere."""
    made: list[tuple[object, ...]] = []
    for event in events:
        if isinstance(event, DataReceived):
            piece = bytes(event.data)
            last = made[-1] if made else ()
            if last[:2] == ("data", event.stream_id) and not last[3]:
                made[-1] = ("data", event.stream_id, last[2] + piece, event.end_stream)
            else:
                made.append(("data", event.stream_id, piece, event.end_stream))
        elif isinstance(event, HeadersReceived):
            made.append(("headers", event.stream_id, event.headers.pairs, event.end_stream))
        else:
            made.append((event,))
    return made


CONVERSATION = (
    HELLO
    + headers(1)
    + data(1, b"x" * 300)
    + headers(3, flags=0)
    + frame(frames.PING, 0, 0, b"12345678")
    + frame(frames.DATA, frames.PADDED, 3, b"\x05hello" + bytes(5))
    + data(1, b"", end=True)
    + frame(frames.HEADERS, 0, 5, HEAD[:7])
    + frame(frames.CONTINUATION, frames.END_HEADERS, 5, HEAD[7:])
    + frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\1\0")
    + frame(frames.RST_STREAM, 0, 5, b"\0\0\0\x08")
    + frame(0xEE, 0, 9, b"unknown")
    + frame(frames.DATA, frames.PADDED | frames.END_STREAM, 3, b"\x02\0\0")
)


class TestReceiving:
    def test_a_conversation_is_understood(self) -> None:
        found = summary(server().receive(CONVERSATION[len(HELLO) :]))
        assert [entry[:2] for entry in found[:3]] == [("headers", 1), ("data", 1), ("headers", 3)]
        assert found[3] == ("data", 3, b"hello", False)
        assert found[4] == ("data", 1, b"", True)
        assert found[6] == (StreamReset(5, ErrorCode.CANCEL, "", True),)
        assert found[7] == ("data", 3, b"", True)

    @given(cuts=st.lists(st.integers(1, len(CONVERSATION) - 1), unique=True, max_size=30))
    @settings(max_examples=60, deadline=None)
    def test_cuts_change_nothing(self, cuts: list[int]) -> None:
        whole = Connection(is_client=False, limits=SMALL, clock=lambda: 0.0)
        expected = summary(whole.receive(CONVERSATION))
        pieces = Connection(is_client=False, limits=SMALL, clock=lambda: 0.0)
        edges = [0, *sorted(cuts), len(CONVERSATION)]
        found: list[Event] = []
        for begin, end in itertools.pairwise(edges):
            for event in pieces.receive(CONVERSATION[begin:end]):
                if isinstance(event, DataReceived):
                    event.data = bytes(event.data)
                found.append(event)
        assert summary(found) == expected
        assert output(pieces) == output(whole)

    @given(noise=st.binary(max_size=400), after=st.booleans())
    @settings(max_examples=200, deadline=None)
    def test_noise_never_raises(self, noise: bytes, after: bool) -> None:
        connection = Connection(is_client=False, limits=SMALL, clock=lambda: 0.0)
        events = connection.receive(CONVERSATION + noise if after else noise)
        assert connection.is_failed == any(isinstance(e, ConnectionFailed) for e in events)

    def test_bodies_can_be_received_in_place(self) -> None:
        connection = server()
        connection.receive(headers(1) + data(1, b"x" * 1000, end=True)[:109])
        assert connection.body_wanted == (1, 900)
        assert connection.received_in_place(500) == []
        assert connection.received_in_place(400) == [DataReceived(1, b"", True)]
        assert connection.body_wanted == (0, 0)

    def test_a_ping_is_answered(self) -> None:
        connection = server()
        connection.receive(frame(frames.PING, 0, 0, b"abcdefgh"))
        assert output(connection) == frame(frames.PING, frames.ACK, 0, b"abcdefgh")

    def test_our_ping_s_answer_is_reported(self) -> None:
        connection = client()
        connection.ping(b"abcdefgh")
        assert connection.receive(output(connection)[:4] + b"\x01" + bytes(4) + b"abcdefgh") == [
            PingAnswered(b"abcdefgh")
        ]

    def test_a_farewell_is_reported(self) -> None:
        connection = client()
        assert connection.receive(frames.goaway_frame(7, 2, "why")) == [GoAway(7, 2, "why")]
        assert not connection.can_open


BAD = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", ErrorCode.PROTOCOL_ERROR),
    "no settings first": (
        frames.PREFACE + frame(frames.PING, 0, 0, bytes(8)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a huge frame": (
        HELLO + frames.frame_header(1 << 20, frames.DATA, 0, 1),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    "data on stream 0": (HELLO + data(0, b"x"), ErrorCode.PROTOCOL_ERROR),
    "data on an idle stream": (HELLO + data(1, b"x"), ErrorCode.PROTOCOL_ERROR),
    "headers on stream 0": (HELLO + headers(0), ErrorCode.PROTOCOL_ERROR),
    "an even stream": (HELLO + headers(2), ErrorCode.PROTOCOL_ERROR),
    "a reset of an idle stream": (
        HELLO + frame(frames.RST_STREAM, 0, 1, bytes(4)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a short reset": (
        HELLO + headers(1) + frame(frames.RST_STREAM, 0, 1, b"\0"),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    "a push": (HELLO + frame(frames.PUSH_PROMISE, 4, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "a short ping": (HELLO + frame(frames.PING, 0, 0, b"x"), ErrorCode.FRAME_SIZE_ERROR),
    "a ping on a stream": (HELLO + frame(frames.PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "odd settings": (HELLO + frame(frames.SETTINGS, 0, 0, b"x"), ErrorCode.FRAME_SIZE_ERROR),
    "a full acknowledgement": (
        HELLO + frame(frames.SETTINGS, 1, 0, bytes(6)),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    "a window that is too large": (
        HELLO + frames.settings_frame({frames.SETTING_INITIAL_WINDOW: 1 << 31}),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "frames that are too small": (
        HELLO + frames.settings_frame({frames.SETTING_MAX_FRAME_BYTES: 100}),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "an overflowing connection window": (
        HELLO + frames.window_update_frame(0, frames.MAX_WINDOW),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a window update of 0": (HELLO + frames.window_update_frame(0, 0), ErrorCode.PROTOCOL_ERROR),
    "a frame within a block": (
        HELLO + frame(frames.HEADERS, 0, 1, HEAD) + frame(frames.PING, 0, 0, bytes(8)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a continuation of nothing": (
        HELLO + frame(frames.CONTINUATION, 4, 1, HEAD),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a block that cannot be decoded": (
        HELLO + headers(1, b"\xff\xff\xff\xff\xff"),
        ErrorCode.COMPRESSION_ERROR,
    ),
    "a header bomb": (
        HELLO + headers(1, b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000 + b"\xbe" * 40),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "a flood of continuations": (
        HELLO + frame(frames.HEADERS, 0, 1) + frame(frames.CONTINUATION, 0, 1) * 6,
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "a flood of pings": (
        HELLO + frame(frames.PING, 0, 0, bytes(8)) * 30,
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "a flood of settings": (HELLO + frames.settings_frame({}) * 30, ErrorCode.ENHANCE_YOUR_CALM),
    "a flood of empty data": (
        HELLO + headers(1) + data(1, b"") * 30,
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "rapid resets": (
        HELLO
        + b"".join(
            headers(i, end=True) + frames.reset_frame(i, ErrorCode.CANCEL) for i in range(1, 41, 2)
        ),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "more padding than data": (
        HELLO + headers(1) + frame(frames.DATA, frames.PADDED, 1, b"\x09abc"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "more data than the connection has room for": (
        HELLO + headers(1) + data(1, bytes(80_000)),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
}


class TestBadPeers:
    @pytest.mark.parametrize("what", BAD)
    def test_it_ends_the_connection_with_the_right_code(self, what: str) -> None:
        sent, code = BAD[what]
        limits = SMALL
        if what.startswith("more data than the connection"):
            limits = Limits(
                max_frame_bytes=1 << 20, stream_window_bytes=1 << 20, connection_window_bytes=70_000
            )
        connection = Connection(is_client=False, limits=limits, clock=lambda: 0.0)
        assert failure(connection.receive(sent)) is code
        assert frames.GOAWAY in [f[3] for f in connection.take_output()[-1:]]
        assert connection.receive(headers(1)) == []

    def test_a_frame_on_an_ended_half_ends_the_stream_only(self) -> None:
        connection = server()
        events = connection.receive(headers(1, end=True) + data(1, b"x") + headers(3))
        assert [type(e) for e in events] == [HeadersReceived, StreamReset, HeadersReceived]
        assert frames.reset_frame(1, ErrorCode.STREAM_CLOSED) in output(connection)

    def test_more_data_than_the_stream_has_room_for_ends_the_stream_only(self) -> None:
        connection = server(Limits(stream_window_bytes=1000, max_frame_bytes=16384))
        events = connection.receive(headers(1) + data(1, bytes(1001)) + headers(3))
        assert isinstance(events[1], StreamReset)
        assert events[1].code is ErrorCode.FLOW_CONTROL_ERROR
        assert isinstance(events[2], HeadersReceived)

    @pytest.mark.parametrize(
        "pairs",
        [
            [(b"Upper", b"x")],
            [(b"te", b"trailers"), (b":path", b"/")],
            [(b":path", b"/"), (b":path", b"/")],
            [(b"connection", b"close")],
        ],
    )
    def test_malformed_headers_end_the_stream_only(self, pairs: list[tuple[bytes, bytes]]) -> None:
        events = server().receive(headers(1, encode_block(pairs)) + headers(3))
        assert [type(e) for e in events] == [StreamReset, HeadersReceived]

    def test_a_stream_over_the_limit_is_refused(self) -> None:
        connection = server()
        events = connection.receive(b"".join(headers(i) for i in (1, 3, 5, 7)))
        assert [e.stream_id for e in events if isinstance(e, HeadersReceived)] == [1, 3, 5]
        assert frames.reset_frame(7, ErrorCode.REFUSED_STREAM) in output(connection)

    def test_a_budget_fills_up_with_time(self) -> None:
        now_s = [0.0]
        connection = Connection(is_client=False, limits=SMALL, clock=lambda: now_s[0])
        connection.receive(HELLO)
        for _ in range(50):
            now_s[0] += 5.0
            assert connection.receive(frame(frames.PING, 0, 0, bytes(8))) == []

    def test_frames_for_a_stream_that_is_over_are_ignored(self) -> None:
        connection = server()
        connection.receive(headers(1))
        connection.reset(1, ErrorCode.CANCEL)
        late = data(1, b"late") + frames.window_update_frame(1, 5) + headers(1, TAIL, end=True)
        assert connection.receive(late) == []


class TestSending:
    def test_a_small_answer_is_one_piece(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True))
        connection.take_output()
        connection.send_whole(1, HEAD, [b"12345", b"body"], TAIL)
        assert connection.take_output() == [
            headers(1, HEAD) + data(1, b"12345body") + headers(1, TAIL, end=True)
        ]
        assert connection.streams == {}

    def test_two_cores_understand_each_other(self) -> None:
        ours, theirs = client(), server()
        stream_id = ours.open_stream()
        ours.send_whole(stream_id, HEAD, [b"question"])
        found = summary(theirs.receive(output(ours)))
        assert found[1] == ("data", stream_id, b"question", True)
        theirs.send_whole(stream_id, HEAD, [b"answer"], TAIL)
        found = summary(ours.receive(output(theirs)))
        assert found[1] == ("data", stream_id, b"answer", False)
        assert found[2] == ("headers", stream_id, ((b"grpc-status", b"0"),), True)
        assert ours.streams == theirs.streams == {}

    def test_a_body_waits_for_the_windows_and_its_trailers_for_it(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True))
        connection.take_output()
        connection.send_whole(1, HEAD, [bytes(100_000)], TAIL)
        sent = output(connection)
        assert sum_of_data(sent) == 65535
        assert connection.is_stalled
        connection.receive(frames.window_update_frame(1, 50_000))
        assert output(connection) == b""
        connection.receive(frames.window_update_frame(0, 50_000))
        rest = output(connection)
        assert sum_of_data(rest) == 100_000 - 65535
        assert rest.endswith(headers(1, TAIL, end=True))
        assert connection.streams == {}

    def test_settings_shift_the_windows_of_streams(self) -> None:
        connection = server()
        connection.receive(
            frames.settings_frame({frames.SETTING_INITIAL_WINDOW: 10}) + headers(1, end=True)
        )
        connection.take_output()
        connection.send_headers(1, HEAD)
        connection.send_data(1, [bytes(30)])
        assert sum_of_data(output(connection)) == 10
        connection.receive(frames.settings_frame({frames.SETTING_INITIAL_WINDOW: 25}))
        assert sum_of_data(output(connection)) == 15

    def test_settings_may_take_a_window_back_from_a_stream_in_line(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True) + headers(3, end=True))
        connection.send_headers(1, HEAD)
        connection.send_data(1, [bytes(30_000)])
        connection.take_output(1)
        connection.receive(frames.settings_frame({frames.SETTING_INITIAL_WINDOW: 100}))
        assert sum_of_data(output(connection)) == 0
        connection.receive(frames.settings_frame({}) + frames.window_update_frame(1, 40_000))
        assert sum_of_data(output(connection)) == 30_000 - 16384
        assert not connection.has_output

    def test_a_failed_connection_says_why_and_no_more(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True))
        connection.send_headers(1, HEAD)
        connection.send_data(1, [bytes(30_000)])
        connection.receive(data(0, b"x"))
        assert connection.take_output()[-1][3] == frames.GOAWAY
        assert not connection.has_output

    def test_streams_take_turns(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True) + headers(3, end=True))
        connection.take_output()
        for stream_id in (1, 3):
            connection.send_headers(stream_id, HEAD)
            connection.send_data(stream_id, [bytes(30_000)])
        connection.take_output(0)
        order = [f[8] for f in map(bytes, connection.take_output()) if len(f) == 9]
        assert order == [1, 3, 1, 3]

    def test_output_stops_near_what_was_asked_for(self) -> None:
        connection = server()
        connection.receive(headers(1, end=True))
        connection.send_headers(1, HEAD)
        connection.send_data(1, [bytes(60_000)])
        assert sum_of_data(b"".join(connection.take_output(20_000))) == 2 * 16384

    def test_long_headers_are_continued(self) -> None:
        ours, theirs = client(), server()
        block = encode_block([(b"x", b"y" * 40_000)])
        ours.send_headers(ours.open_stream(), block, end_stream=True)
        (event,) = theirs.receive(output(ours))
        assert isinstance(event, HeadersReceived)
        assert event.headers.pairs == ((b"x", b"y" * 40_000),)

    def test_room_is_given_back_before_half_is_gone(self) -> None:
        connection = server()
        connection.receive(headers(1) + data(1, bytes(16000)) * 3)
        connection.take_output()
        connection.acknowledge(1, 48_000)
        assert output(connection) == frames.window_update_frame(1, 48_000)

    def test_the_connection_s_room_comes_back_by_itself(self) -> None:
        connection = server()
        connection.receive(headers(1) + data(1, bytes(16000)) * 4)
        assert frames.window_update_frame(0, 64_000) in output(connection)

    def test_a_leaving_connection_refuses_new_streams_only(self) -> None:
        connection = server()
        connection.receive(headers(1))
        connection.leave()
        assert frames.goaway_frame(1, 0) in output(connection)
        assert connection.receive(headers(3)) == []
        assert len(connection.receive(data(1, b"x"))) == 1


def sum_of_data(sent: bytes) -> int:
    total, at = 0, 0
    while at < len(sent):
        high, low, kind, _, _ = frames.unpack_header(sent, at)
        length = high << 16 | low
        total += length if kind == frames.DATA else 0
        at += 9 + length
    return total


class TestOurMisuse:
    def test_sending_on_no_stream(self) -> None:
        with pytest.raises(MisuseError, match="stream 1 is not open"):
            server().send_headers(1, HEAD)

    def test_sending_after_the_end(self) -> None:
        connection = client()
        stream_id = connection.open_stream()
        connection.send_headers(stream_id, HEAD, end_stream=True)
        with pytest.raises(MisuseError, match="half closed by us"):
            connection.send_data(stream_id, [b"x"])

    def test_opening_more_streams_than_granted(self) -> None:
        connection = client()
        connection.receive(frames.settings_frame({frames.SETTING_MAX_STREAMS: 1}))
        connection.open_stream()
        with pytest.raises(MisuseError):
            connection.open_stream()


class TestHeaderBlocks:
    @given(
        st.lists(
            st.tuples(st.from_regex(rb"\A[a-z-]{1,200}\Z"), st.binary(max_size=300)),
            max_size=10,
        )
    )
    @settings(max_examples=50, deadline=None)
    def test_another_decoder_reads_what_we_write(self, pairs: list[tuple[bytes, bytes]]) -> None:
        found = hpack.Decoder().decode(encode_block(pairs), raw=True)
        assert [tuple(pair) for pair in found] == pairs

    def test_blocks_mean_what_the_table_says_when_they_come(self) -> None:
        encoder, reader = hpack.Encoder(), HeaderReader(65536)
        lists = [[("a", str(i % 3)), ("b", "x"), ("c", str(i % 7))] for i in range(60)]
        for pairs in lists:
            found = reader.read(encoder.encode(pairs))
            assert [(n.decode(), v.decode()) for n, v in found.pairs] == pairs

    def test_a_block_seen_before_is_the_same_object(self) -> None:
        reader = HeaderReader(65536)
        assert reader.read(HEAD) is reader.read(HEAD)

    def test_a_block_is_read_anew_after_the_table_changed(self) -> None:
        reader = HeaderReader(65536)
        reader.read(b"\x40\x01a\x01x")
        first = reader.read(b"\xbe")
        reader.read(b"\x40\x01b\x01y")
        assert first.pairs == ((b"a", b"x"),)
        assert reader.read(b"\xbe").pairs == ((b"b", b"y"),)

    def test_blocks_that_differ_in_their_last_value_are_told_apart(self) -> None:
        reader = HeaderReader(65536)
        stem = encode_block([(b":path", b"/a"), (b"te", b"trailers")]) + b"\x00\x02id"
        for value in (b"1", b"2", b"", b"300", b"2"):
            block = stem + bytes([len(value)]) + value
            found = reader.read(block)
            assert found.pairs == ((b":path", b"/a"), (b"te", b"trailers"), (b"id", value))
            assert found.fault == ""

    def test_a_block_that_goes_on_after_a_known_beginning_is_read_whole(self) -> None:
        reader = HeaderReader(65536)
        reader.read(b"\x00\x01a\x011")
        assert reader.read(b"\x00\x01a\x012\x00\x01b\x013").pairs == ((b"a", b"2"), (b"b", b"3"))
        with pytest.raises(ConnectionFault):
            reader.read(b"\x00\x01a\x052")

    def test_a_last_value_in_the_table_is_forgotten_with_it(self) -> None:
        reader = HeaderReader(65536)
        reader.read(b"\x40\x01a\x01x")
        assert reader.read(b"\xbe\x00\x01b\x011").pairs == ((b"a", b"x"), (b"b", b"1"))
        reader.read(b"\x40\x01c\x01y")
        assert reader.read(b"\xbe\x00\x01b\x012").pairs == ((b"c", b"y"), (b"b", b"2"))

    @given(
        st.lists(
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=3)), max_size=3
            ),
            max_size=20,
        ),
        st.lists(st.booleans(), min_size=60, max_size=60),
    )
    @settings(max_examples=100, deadline=None)
    def test_memory_changes_no_meaning(
        self, blocks: list[list[tuple[bytes, bytes]]], indexed: list[bool]
    ) -> None:
        reader, plain = HeaderReader(65536), hpack.Decoder()
        marks = iter(indexed)
        for pairs in blocks:
            block = b"".join(
                (b"\x40" if next(marks) else b"\x00")
                + bytes([len(name)]) + name + bytes([len(value)]) + value
                for name, value in pairs
            )  # fmt: skip
            expected = [tuple(pair) for pair in plain.decode(block, raw=True)]
            assert list(reader.read(block).pairs) == expected


def test_a_flood_is_parsed_as_far_as_the_caller_says() -> None:
    core = Connection(is_client=False)
    ping = frames.ping_frame(b"12345678", ack=True)
    flood = frames.PREFACE + frames.settings_frame({}) + ping * 10
    seen = [len(core.receive(flood, 4))]
    while core.has_more:
        seen.append(len(core.receive(b"", 4)))
    once = Connection(is_client=False).receive(flood)
    assert sum(seen) == len(once)
    assert len(seen) == 3
