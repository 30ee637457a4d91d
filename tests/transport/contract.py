"""What every way to call a service promises; `ways` lists them, `test_contract` runs it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, ClassVar

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BytesValue, Int32Value, StringValue

from tideflow.runtime.loop import run_sync
from tideflow.transport import (
    AtOnce,
    Channel,
    Service,
    methods_of,
    rpc,
    rpc_stream,
    stub,
    within,
)
from tideflow.wire import errors, status

PAYLOAD = {"type.googleapis.com/tideflow.test.Fact": b"\x00\xffpayload"}


class Probe(Service, name="tideflow.test.Probe"):
    @rpc
    async def Echo(self, request: BytesValue) -> BytesValue: ...

    @rpc
    async def Fail(self, request: Int32Value) -> Empty: ...

    @rpc
    async def FailWith(self, request: StringValue) -> Empty: ...

    @rpc
    async def FailOddly(self, request: Empty) -> Empty: ...

    @rpc
    async def Explode(self, request: Empty) -> Empty: ...

    @rpc
    async def Block(self, request: Empty) -> Empty: ...

    @rpc(timeout_s=0.05)
    async def BlockBriefly(self, request: Empty) -> Empty: ...

    @rpc
    async def Mistake(self, request: Empty) -> Empty: ...

    @rpc
    async def CancelItself(self, request: Empty) -> Empty: ...

    @rpc
    async def FailInGroup(self, request: Empty) -> Empty: ...

    @rpc
    async def Absent(self, request: Empty) -> Empty: ...

    @rpc_stream
    def Count(self, requests: AsyncIterator[Int32Value]) -> AsyncIterator[Int32Value]: ...


class Elsewhere(Service, name="tideflow.test.Elsewhere"):
    @rpc
    async def Echo(self, request: BytesValue) -> BytesValue: ...


class Prober(Probe):
    """Answers, fails or blocks as asked.

    Attributes:
      blocked_count: how many handlers are blocked.
    """

    def __init__(self) -> None:
        self.blocked_count = 0
        self._changed = asyncio.Condition()

    async def Echo(self, request: BytesValue) -> BytesValue:
        return request

    async def Fail(self, request: Int32Value) -> Empty:
        raise errors.error_for_code(request.value)("as asked", payloads=PAYLOAD)

    async def FailWith(self, request: StringValue) -> Empty:
        raise errors.AbortedError(request.value)

    async def FailOddly(self, request: Empty) -> Empty:
        raise errors.AbortedError("cannot open \udc80.txt")

    async def Explode(self, request: Empty) -> Empty:
        raise ZeroDivisionError("boom")

    async def Block(self, request: Empty) -> Empty:
        await self._change(1)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._change(-1)
        return Empty()

    async def BlockBriefly(self, request: Empty) -> Empty:
        return await self.Block(request)

    async def Mistake(self, request: Empty) -> Empty:
        return BytesValue()  # type: ignore[return-value]

    async def CancelItself(self, request: Empty) -> Empty:
        waited = asyncio.get_running_loop().create_future()
        waited.cancel()
        await waited
        return Empty()

    async def FailInGroup(self, request: Empty) -> Empty:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.Fail(Int32Value(value=errors.NOT_FOUND)))
            group.create_task(self.Block(request))
        return Empty()

    async def Count(self, requests: AsyncIterator[Int32Value]) -> AsyncIterator[Int32Value]:
        total = 0
        async for request in requests:
            if request.value < 0:
                raise errors.OutOfRangeError("negative", payloads=PAYLOAD)
            total += request.value
            yield Int32Value(value=total)
            if request.value == 0:
                await self.Block(Empty())

    async def _change(self, by: int) -> None:
        async with self._changed:
            self.blocked_count += by
            self._changed.notify_all()

    async def wait_blocked(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.blocked_count == count)


class ProberAtOnce(Prober):
    """Has its answers, and what goes wrong, at once where it need not wait."""


def _at_once(name: str) -> Callable[[Prober, Message], AtOnce[Message]]:
    def method(self: Prober, request: Message) -> AtOnce[Message]:
        work: Coroutine[Any, Any, Message] = getattr(self, name)(request)
        if name in ("Block", "BlockBriefly", "CancelItself", "FailInGroup"):
            return work
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        raise AssertionError(f"{name} waits")

    return method


for _name, _spec in methods_of(Probe).items():
    if not _spec.streaming and _name != "Absent":
        setattr(ProberAtOnce, f"{_name}_at_once", _at_once(_name))


class Pair(ABC):
    """A running server of a Prober, and a channel to it.

    ends_with_its_task: whether cancelling the task that waits for a call ends the call.
    """

    ends_with_its_task: ClassVar[bool] = True
    server: Prober
    channel: Channel

    @property
    def stub(self) -> Probe:
        return stub(Probe, self.channel)

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop_server(self) -> None: ...

    async def close(self) -> None:
        await self.channel.close()
        await self.stop_server()


async def numbers(*values: int) -> AsyncIterator[Int32Value]:
    for value in values:
        yield Int32Value(value=value)


def run_pair(pair_class: type[Pair]) -> Iterator[Pair]:
    """Start a pair, yield it, stop it, and see that no call was left behind."""
    pair = pair_class()
    run_sync(pair.start(), timeout_s=30)
    yield pair
    run_sync(pair.close(), timeout_s=30)
    assert [n for n, seen in pair.server.statistics.items() if seen.in_flight] == []
    assert [p for p, seen in pair.channel.statistics.items() if seen.in_flight] == []


class CallContract:
    """What holds for calls with one message each way.  A subclass has the fixture `pair`."""

    async def test_a_message_comes_back_as_it_went(self, pair: Pair) -> None:
        reply = await pair.stub.Echo(BytesValue(value=b"hello\x00"))
        assert reply == BytesValue(value=b"hello\x00")

    async def test_an_empty_message_comes_back(self, pair: Pair) -> None:
        assert await pair.stub.Echo(BytesValue()) == BytesValue()

    @pytest.mark.keeps_loop("how large a message of protobuf is shows when it is written")
    async def test_a_message_of_64_mib_comes_back(self, pair: Pair) -> None:
        data = bytes(range(256)) * (64 * 4096)
        reply = await pair.stub.Echo(BytesValue(value=data))
        assert reply.value == data

    @pytest.mark.parametrize("code", range(1, 17))
    async def test_an_error_arrives_with_its_class_text_and_payloads(
        self, pair: Pair, code: int
    ) -> None:
        with pytest.raises(errors.error_for_code(code)) as caught:
            await pair.stub.Fail(Int32Value(value=code))
        assert caught.value.error_code == code
        assert caught.value.message.startswith("as asked")
        assert PAYLOAD.items() <= caught.value.payloads.items()

    @pytest.mark.parametrize("text", ["", "line\nbreak\ttab", "größer als 100 %: 数据流"])
    async def test_the_text_of_an_error_arrives_unchanged(self, pair: Pair, text: str) -> None:
        with pytest.raises(errors.AbortedError) as caught:
            await pair.stub.FailWith(StringValue(value=text))
        assert caught.value.message.partition("\nAdditional")[0] == text

    async def test_the_start_of_a_long_error_text_arrives(self, pair: Pair) -> None:
        text = "数" * 100_000
        with pytest.raises(errors.AbortedError) as caught:
            await pair.stub.FailWith(StringValue(value=text))
        assert caught.value.message.startswith(text[:600])

    async def test_an_unexpected_exception_is_internal_and_logged(
        self, pair: Pair, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(errors.InternalError, match="ZeroDivisionError: boom"):
            await pair.stub.Explode(Empty())
        assert "ZeroDivisionError" in caplog.text
        assert await pair.stub.Echo(BytesValue(value=b"alive")) == BytesValue(value=b"alive")

    async def test_a_wrong_response_type_is_internal(self, pair: Pair) -> None:
        with pytest.raises(errors.InternalError, match="returned BytesValue, not Empty"):
            await pair.stub.Mistake(Empty())

    async def test_a_handler_that_awaits_something_cancelled_fails_alone(self, pair: Pair) -> None:
        with pytest.raises(errors.CancelledError, match="waited for something that was cancelled"):
            await pair.stub.CancelItself(Empty())
        assert await pair.stub.Echo(BytesValue(value=b"alive")) == BytesValue(value=b"alive")

    async def test_an_error_in_a_task_group_is_the_error_of_the_call(self, pair: Pair) -> None:
        with pytest.raises(errors.NotFoundError, match="as asked"):
            await pair.stub.FailInGroup(Empty())
        await pair.server.wait_blocked(0)

    async def test_a_deadline_ends_the_call_and_frees_the_server(self, pair: Pair) -> None:
        with pytest.raises(errors.DeadlineExceededError, match=r"Block.*within 0.05 s"):
            await within(0.05, pair.stub.Block, Empty())
        await pair.server.wait_blocked(0)

    async def test_a_declared_deadline_holds_for_calls_that_state_none(self, pair: Pair) -> None:
        with pytest.raises(errors.DeadlineExceededError, match=r"BlockBriefly.*within 0.05 s"):
            await pair.stub.BlockBriefly(Empty())
        await pair.server.wait_blocked(0)

    async def test_stopping_the_server_ends_calls_in_flight(self, pair: Pair) -> None:
        calls = [asyncio.ensure_future(pair.stub.Block(Empty())) for _ in range(3)]
        await pair.server.wait_blocked(3)
        await pair.stop_server()
        for call in calls:
            with pytest.raises(errors.UnavailableError):
                await call
        await pair.server.wait_blocked(0)
        with pytest.raises(errors.UnavailableError):
            await pair.stub.Echo(BytesValue())

    async def test_closing_the_channel_ends_calls_in_flight(self, pair: Pair) -> None:
        call = asyncio.ensure_future(pair.stub.Block(Empty()))
        await pair.server.wait_blocked(1)
        await pair.channel.close()
        with pytest.raises(errors.CancelledError, match="closed") as caught:
            await call
        assert status.is_derived(caught.value)
        await pair.server.wait_blocked(0)

    async def test_a_closed_channel_calls_no_more_and_closes_again(self, pair: Pair) -> None:
        await pair.channel.close()
        await pair.channel.close()
        with pytest.raises(errors.CancelledError, match="closed"):
            await pair.stub.Echo(BytesValue())

    async def test_a_method_without_implementation_is_unimplemented(self, pair: Pair) -> None:
        with pytest.raises(errors.UnimplementedError, match=r"Prober.*Probe/Absent"):
            await pair.stub.Absent(Empty())

    async def test_an_unknown_service_is_unimplemented(self, pair: Pair) -> None:
        with pytest.raises(errors.UnimplementedError, match=r"/tideflow\.test\.Elsewhere/Echo"):
            await stub(Elsewhere, pair.channel).Echo(BytesValue())

    async def test_both_sides_count_calls(self, pair: Pair) -> None:
        await pair.stub.Echo(BytesValue(value=b"12345"))
        await pair.stub.Echo(BytesValue(value=b"12345"))
        with pytest.raises(errors.NotFoundError):
            await pair.stub.Fail(Int32Value(value=errors.NOT_FOUND))
        for echo, fail in (
            (pair.server.statistics["Echo"], pair.server.statistics["Fail"]),
            (
                pair.channel.statistics["/tideflow.test.Probe/Echo"],
                pair.channel.statistics["/tideflow.test.Probe/Fail"],
            ),
        ):
            assert (echo.calls, echo.errors, echo.in_flight) == (2, 0, 0)
            assert (fail.calls, fail.errors, fail.in_flight) == (1, 1, 0)
            assert echo.total_s > 0


class TransportContract(CallContract):
    """What holds besides where many calls run at once, and a task that waits for one can end it."""

    async def test_calls_run_at_the_same_time(self, pair: Pair) -> None:
        async with asyncio.TaskGroup() as calls:
            blocked = [calls.create_task(pair.stub.Block(Empty())) for _ in range(20)]
            await pair.server.wait_blocked(20)
            echoes = [
                calls.create_task(pair.stub.Echo(BytesValue(value=b"%d" % i))) for i in range(50)
            ]
            replies = await asyncio.gather(*echoes)
            for call in blocked:
                call.cancel()
        assert [reply.value for reply in replies] == [b"%d" % i for i in range(50)]

    async def test_cancelling_a_call_frees_the_server(self, pair: Pair) -> None:
        call = asyncio.ensure_future(pair.stub.Block(Empty()))
        await pair.server.wait_blocked(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await pair.server.wait_blocked(0)

    async def test_thousands_of_calls_may_wait_at_once(self, pair: Pair) -> None:
        # A step over a large graph asks for that many tensors before the first is there.
        calls = [asyncio.ensure_future(pair.stub.Block(Empty())) for _ in range(2500)]
        await pair.server.wait_blocked(2500)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        await pair.server.wait_blocked(0)
        assert all(call.cancelled() for call in calls)

    async def test_a_stream_answers_message_by_message(self, pair: Pair) -> None:
        replies = pair.stub.Count(numbers(1, 2, 3))
        assert [reply.value async for reply in replies] == [1, 3, 6]

    async def test_a_stream_ends_with_the_handler_s_error(self, pair: Pair) -> None:
        seen = []
        with pytest.raises(errors.OutOfRangeError, match="negative") as caught:
            async for reply in pair.stub.Count(numbers(1, -1)):
                seen.append(reply.value)
        assert seen == [1]
        assert PAYLOAD.items() <= caught.value.payloads.items()

    async def test_cancelling_a_stream_frees_the_server(self, pair: Pair) -> None:
        async def consume() -> None:
            async for _ in pair.stub.Count(numbers(0)):
                pass

        call = asyncio.ensure_future(consume())
        await pair.server.wait_blocked(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await pair.server.wait_blocked(0)

    async def test_stopping_the_server_ends_streams(self, pair: Pair) -> None:
        async def consume() -> None:
            async for _ in pair.stub.Count(numbers(0)):
                pass

        call = asyncio.ensure_future(consume())
        await pair.server.wait_blocked(1)
        await pair.stop_server()
        with pytest.raises(errors.UnavailableError):
            await call
        await pair.server.wait_blocked(0)
