"""Message streams: messages both ways without tasks, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.runtime.loop import run_sync
from tideflow.transport import LocalChannel, MessageStream, Service, methods_of, rpc_stream
from tideflow.transport.h2.channel import H2Channel
from tideflow.transport.h2.server import H2Server
from tideflow.wire import errors


class Talking(Service, name="tideflow.test.Talking"):
    @rpc_stream
    def Talk(self, requests: AsyncIterator[BytesValue]) -> AsyncIterator[BytesValue]: ...


TALK = methods_of(Talking)["Talk"]


class End:
    """One end of a stream; answers what it gets if it is told to."""

    def __init__(self, answers: bool = False) -> None:
        self.stream: MessageStream | None = None
        self.answers = answers
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.over: asyncio.Future[errors.OpError | None] = asyncio.Future()

    def received(self, message: Any) -> None:
        if message.value == b"refuse":
            raise errors.InvalidArgumentError("not that")
        self.messages.put_nowait(message.value)
        if self.answers:
            self.stream.send(BytesValue(value=b"re: " + message.value))

    def ended(self, error: errors.OpError | None) -> None:
        self.over.set_result(error)

    async def get(self) -> bytes:
        async with asyncio.timeout(10):
            return await self.messages.get()

    async def end(self) -> errors.OpError | None:
        async with asyncio.timeout(10):
            return await self.over


class Host(Talking):
    def __init__(self) -> None:
        self.ends: list[End] = []

    def accept_message_stream(self, name: str, stream: MessageStream) -> End:
        end = End(answers=True)
        end.stream = stream
        self.ends.append(end)
        return end


class Pair:
    """A server with one client's stream."""

    def __init__(self) -> None:
        self.host = Host()
        self.server = H2Server([self.host], "127.0.0.1:0")

    async def __aenter__(self) -> Pair:
        port = await self.server.start()
        self.channel = H2Channel(f"127.0.0.1:{port}")
        self.near = End()
        self.near.stream = await self.channel.open_message_stream(TALK, self.near)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.server.stop()

    def say(self, value: bytes) -> bool:
        return self.near.stream.send(BytesValue(value=value))


def on_loop(test):
    """Run a test on the process's loop, as servers do."""

    def run() -> None:
        run_sync(test(), 60)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@on_loop
async def test_messages_go_both_ways_in_order():
    async with Pair() as pair:
        sizes = [0, 1, 1000, 100_000, 3 << 20, 5]
        for size in sizes:
            assert pair.say(b"x" * size)
        assert [len(await pair.near.get()) for _ in sizes] == [size + 4 for size in sizes]
        assert pair.channel.statistics_of(TALK.path).in_flight == 1


@on_loop
async def test_both_ends_hear_that_the_client_has_closed():
    async with Pair() as pair:
        pair.say(b"a")
        await pair.near.get()
        pair.near.stream.close()
        assert await pair.near.end() is None
        await pair.host.ends[0].end()
        assert not pair.say(b"b")
        assert not pair.host.ends[0].stream.send(BytesValue())
        assert pair.channel.statistics_of(TALK.path).in_flight == 0


@on_loop
async def test_the_client_hears_why_the_server_has_closed():
    async with Pair() as pair:
        pair.say(b"a")
        await pair.near.get()
        pair.host.ends[0].stream.close(errors.AbortedError("enough"))
        error = await pair.near.end()
        assert isinstance(error, errors.AbortedError)
        assert "enough" in error.message


@on_loop
async def test_a_message_that_is_refused_ends_the_stream_for_the_sender_too():
    async with Pair() as pair:
        pair.say(b"refuse")
        assert isinstance(await pair.near.end(), errors.InvalidArgumentError)
        assert isinstance(await pair.host.ends[0].end(), errors.InvalidArgumentError)


@on_loop
async def test_a_server_that_stops_ends_its_stream_and_waits_for_none():
    async with Pair() as pair:
        pair.say(b"a")
        await pair.near.get()
        async with asyncio.timeout(30):
            await pair.server.stop(grace_s=60)
        assert isinstance(await pair.near.end(), errors.UnavailableError)


@on_loop
async def test_a_channel_that_closes_ends_its_streams():
    async with Pair() as pair:
        pair.say(b"a")
        await pair.near.get()
        await pair.channel.close()
        assert isinstance(await pair.near.end(), errors.CancelledError)
        await pair.host.ends[0].end()


@on_loop
async def test_nobody_there_is_an_error_of_opening():
    async with Pair() as pair:
        await pair.server.stop()
        await pair.near.end()
        with pytest.raises(errors.UnavailableError):
            await pair.channel.open_message_stream(TALK, End())


@on_loop
async def test_a_transport_without_stream_says_so():
    with pytest.raises(errors.UnimplementedError, match="streams"):
        await LocalChannel([Host()]).open_message_stream(TALK, End())
