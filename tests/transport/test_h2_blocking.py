"""Calls that a thread makes by itself, without the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BytesValue, Int32Value

from tideflow.runtime.loop import run_sync
from tideflow.transport import NotGrpcError, make_channel, methods_of
from tideflow.transport.channel import BlockingCaller
from tideflow.transport.h2 import blocking, frames
from tideflow.transport.h2.channel import H2Channel
from tideflow.transport.h2.failure_detector import Evidence
from tideflow.wire import errors
from transport.contract import PAYLOAD, Pair, Probe
from transport.ways import AtPort, BetweenHosts, OverTls, OverUnix

SPECS = methods_of(Probe)


def caller_of(pair: Pair) -> BlockingCaller:
    assert pair.channel.blocking is not None
    return pair.channel.blocking


def call(
    pair: Pair, method: str, request: Message | None = None, timeout_s: float | None = None
) -> Message:
    sent = Empty() if request is None else request
    return caller_of(pair).unary(SPECS[method], sent, timeout_s=timeout_s)


def echo(pair: Pair, value: bytes = b"alive") -> bytes:
    reply = call(pair, "Echo", BytesValue(value=value))
    assert isinstance(reply, BytesValue)
    return reply.value


def wait_blocked(pair: Pair, count: int) -> None:
    run_sync(pair.server.wait_blocked(count), timeout_s=30)


@pytest.fixture(params=[AtPort, BetweenHosts, OverUnix])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made: Pair = request.param()
    run_sync(made.start(), timeout_s=30)
    yield made
    run_sync(made.close(), timeout_s=30)
    seen = [*made.server.statistics.values(), *made.channel.statistics.values()]
    assert [one for one in seen if one.in_flight] == []


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as made:
        yield made


# ---- answers


@pytest.mark.parametrize("size", [0, 5, 100_000, 40 << 20])
@pytest.mark.keeps_loop("how large a message of protobuf is shows when it is written")
def test_a_message_of_any_size_comes_back(pair: Pair, size: int) -> None:
    value = os.urandom(1000) * (size // 1000) + bytes(size % 1000)
    assert echo(pair, value) == value
    assert echo(pair, value) == value


def test_an_error_arrives_with_its_class_text_and_payloads(pair: Pair) -> None:
    with pytest.raises(errors.NotFoundError, match=r"as asked\nAdditional.*Probe/Fail") as caught:
        call(pair, "Fail", Int32Value(value=errors.NOT_FOUND))
    assert PAYLOAD.items() <= caught.value.payloads.items()
    with pytest.raises(errors.UnimplementedError):
        call(pair, "Absent")
    assert echo(pair) == b"alive"


def test_calls_are_counted(pair: Pair) -> None:
    echo(pair, b"abc")
    with pytest.raises(errors.AbortedError):
        call(pair, "Fail", Int32Value(value=errors.ABORTED))
    assert pair.channel.statistics[SPECS["Echo"].path].calls == 1
    assert pair.channel.statistics[SPECS["Echo"].path].received_bytes == 5
    assert pair.channel.statistics[SPECS["Fail"].path].errors == 1


# ---- many threads


def test_calls_of_many_threads_do_not_meet(pair: Pair, threads: ThreadPoolExecutor) -> None:
    values = [b"%d" % i for i in range(300)]
    assert list(threads.map(lambda value: echo(pair, value), values)) == values


def test_waiting_calls_leave_no_room_until_they_end(
    pair: Pair, threads: ThreadPoolExecutor
) -> None:
    calls: list[Future[Message]] = []
    for count in range(1, blocking.MOST_CONNECTIONS + 1):
        assert caller_of(pair).has_room
        calls.append(threads.submit(call, pair, "Block"))
        wait_blocked(pair, count)
    assert not caller_of(pair).has_room
    run_sync(pair.channel.close(), timeout_s=30)
    for one in calls:
        with pytest.raises(errors.CancelledError, match="the channel was closed"):
            one.result(30)
    wait_blocked(pair, 0)
    with pytest.raises(errors.CancelledError, match="the channel was closed"):
        echo(pair)


# ---- ends


def test_a_deadline_ends_the_call_and_frees_the_server(pair: Pair) -> None:
    with pytest.raises(errors.DeadlineExceededError, match=r"Block.*within 0.05 s"):
        call(pair, "Block", timeout_s=0.05)
    wait_blocked(pair, 0)
    with pytest.raises(errors.DeadlineExceededError, match=r"BlockBriefly.*within 0.05 s"):
        call(pair, "BlockBriefly")
    assert echo(pair) == b"alive"


def test_ctrl_c_ends_the_call_and_frees_the_server(pair: Pair) -> None:
    def interrupt() -> None:
        wait_blocked(pair, 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call(pair, "Block")
    thread.join()
    wait_blocked(pair, 0)
    assert echo(pair) == b"alive"


def test_a_server_that_stops_ends_the_calls_in_flight(
    pair: Pair, threads: ThreadPoolExecutor
) -> None:
    waiting = threads.submit(call, pair, "Block")
    wait_blocked(pair, 1)
    run_sync(pair.stop_server(), timeout_s=30)
    with pytest.raises(errors.UnavailableError):
        waiting.result(30)
    with pytest.raises(errors.UnavailableError, match="cannot reach"):
        for _ in range(3):
            echo(pair)


def test_a_server_that_came_back_is_found_by_rested_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking, "RESTED_S", -1.0)

    async def restart() -> None:
        await pair.transport.stop()
        address = pair.channel.target.removeprefix("h2://")
        pair.address = lambda: address  # type: ignore[method-assign]
        channel = pair.channel
        await pair.start()
        await pair.channel.close()
        pair.channel = channel

    pair = AtPort()
    run_sync(pair.start(), timeout_s=30)
    try:
        assert echo(pair) == b"alive"
        run_sync(restart(), timeout_s=30)
        assert echo(pair, b"again") == b"again"
    finally:
        run_sync(pair.close(), timeout_s=30)


_FORKS = """
import os
import sys

from tideflow.runtime.loop import run_sync
from transport import ways
from transport.test_h2_blocking import echo

pair = getattr(ways, sys.argv[1])()
run_sync(pair.start(), timeout_s=30)
assert echo(pair) == b"alive"
child = os.fork()
if not child:
    status = 1
    try:
        status = 0 if echo(pair, b"child") == b"child" else 2
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
assert echo(pair) == b"alive"
run_sync(pair.close(), timeout_s=30)
print("child", os.waitstatus_to_exitcode(status))
"""


def test_a_fork_makes_connections_of_its_own(pair: Pair) -> None:
    # In a process of its own: this one may have threads of others, which no fork survives.
    ended = subprocess.run(
        # Python 3.12 and later warn of every fork beside threads; that it works is what is tested.
        [
            sys.executable,
            "-W",
            "ignore:This process:DeprecationWarning",
            "-c",
            _FORKS,
            type(pair).__name__,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.stdout, ended.stderr) == ("child 0\n", "")


# ---- odd peers


class RawServer:
    """Takes one connection after the other and says the given bytes first."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.accepted: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted.append(connection)
            connection.sendall(self._greeting)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (self._listening, *self.accepted):
            one.close()


def raw_call(
    greeting: bytes, keepalive_s: float = 30.0, timeout_s: float = 20.0, value: bytes = b""
) -> None:
    """Make a call to a server that says no more than its greeting."""
    server = RawServer(greeting)
    channel = H2Channel(server.address, keepalive_s=keepalive_s)
    try:
        assert channel.blocking is not None
        channel.blocking.unary(SPECS["Echo"], BytesValue(value=value), timeout_s=timeout_s)
    finally:
        run_sync(channel.close())
        server.close()


def test_another_protocol_is_recognised() -> None:
    with pytest.raises(NotGrpcError, match="does not speak gRPC"):
        raw_call(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_a_silent_peer_that_is_there_is_waited_for() -> None:
    with pytest.raises(errors.DeadlineExceededError):
        raw_call(frames.settings_frame({}), keepalive_s=0.01, timeout_s=1.0)


def test_where_the_kernel_cannot_tell_a_silent_peer_is_given_up_after_a_ping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking, "PING_TIMEOUT_S", 0.05)
    monkeypatch.setattr(blocking, "view_of", lambda connection: lambda: Evidence.NONE)
    with pytest.raises(errors.UnavailableError, match=r"did not answer a ping within 0\.05 s"):
        raw_call(frames.settings_frame({}), keepalive_s=0.05)


def test_a_peer_that_is_gone_while_it_is_written_to_is_unavailable_not_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking, "view_of", lambda connection: lambda: Evidence.CUT_OFF)
    room = 1 << 30
    greeting = frames.settings_frame({frames.SETTING_INITIAL_WINDOW: room})
    greeting += frames.window_update_frame(0, room)
    with pytest.raises(errors.UnavailableError, match="acknowledged nothing"):
        raw_call(greeting, timeout_s=600, value=bytes(1 << 26))


def test_a_peer_that_only_says_that_it_is_leaving_is_unavailable() -> None:
    greeting = frames.settings_frame({}) + frames.goaway_frame(0, 0)
    with pytest.raises(errors.UnavailableError, match="takes no calls now"):
        raw_call(greeting)


def test_nobody_at_the_address_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    channel = make_channel(f"h2://127.0.0.1:{port}")
    try:
        assert channel.blocking is not None
        for _ in range(3):
            with pytest.raises(errors.UnavailableError, match="cannot reach 127"):
                channel.blocking.unary(SPECS["Echo"], BytesValue())
    finally:
        run_sync(channel.close())


def test_channels_with_tls_and_other_transports_leave_calls_to_the_loop() -> None:
    async def has_blocking(made: Pair) -> bool:
        await made.start()
        found = made.channel.blocking is not None
        await made.close()
        return found

    assert not run_sync(asyncio.wait_for(has_blocking(OverTls()), 30))
    assert run_sync(asyncio.wait_for(has_blocking(AtPort()), 30))
