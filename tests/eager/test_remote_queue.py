"""The queue of operations for another task, when the task ends the stream or it cannot be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tideflow.cluster.services import EagerService
from tideflow.eager.remote.queue import RemoteQueue
from tideflow.transport import make_channel, make_server
from tideflow.wire import errors
from tideflow.wire import messages as pb

TASK = "/job:worker/replica:0/task:0"


class Short(EagerService):
    """Answers the first messages of a stream; once it has read more, ends it without an error."""

    def __init__(self, answered: int) -> None:
        self.answered = answered
        self.streams = 0
        self.may_end = asyncio.Event()

    async def StreamingEnqueue(
        self, requests: AsyncIterator[pb.EnqueueRequest]
    ) -> AsyncIterator[pb.EnqueueResponse]:
        self.streams += 1
        left = self.answered
        async for request in requests:
            if not left:
                await self.may_end.wait()
                return
            left -= 1
            yield pb.EnqueueResponse(
                queue_response=[pb.EagerQueueResponse() for _ in request.queue]
            )


def item() -> pb.EagerQueueItem:
    return pb.EagerQueueItem(sync_remote_executor_for_stream=pb.SyncRemoteExecutorForStream())


def large_item(size: int) -> pb.EagerQueueItem:
    tensor_pb = pb.TensorProto(tensor_content=bytes(size))
    return pb.EagerQueueItem(send_tensor=pb.SendTensorOp(tensors=[tensor_pb]))


async def turns_until_sent(queue: RemoteQueue, service: Short) -> None:
    async with asyncio.timeout(10):
        while not service.streams:
            await asyncio.sleep(0.001)


async def test_a_stream_that_ends_without_an_error_fails_all_that_it_was_to_answer():
    service = Short(answered=0)
    server = make_server("grpc", [service], "127.0.0.1:0")
    port = await server.start()
    channel = make_channel(f"127.0.0.1:{port}", peer_name=TASK)
    queue = RemoteQueue(1, channel, TASK, lambda: True)
    try:
        answers = []
        # One message for each, until so many are unanswered that the rest is kept back.
        for _ in range(10):
            answers.append(queue.put(item()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await turns_until_sent(queue, service)
        service.may_end.set()
        async with asyncio.timeout(10):
            for answer in answers:
                with pytest.raises(errors.UnavailableError, match="ended the stream"):
                    await asyncio.wrap_future(answer)
        # The queue goes on, with a new stream.
        service.answered = 1
        async with asyncio.timeout(10):
            assert await asyncio.wrap_future(queue.put(item())) == []
        assert service.streams == 2
    finally:
        queue.close()
        await channel.close()
        await server.stop()


async def test_a_stream_that_ends_when_all_is_answered_is_no_error():
    service = Short(answered=1)
    server = make_server("grpc", [service], "127.0.0.1:0")
    port = await server.start()
    channel = make_channel(f"127.0.0.1:{port}", peer_name=TASK)
    queue = RemoteQueue(1, channel, TASK, lambda: True)
    try:
        async with asyncio.timeout(10):
            assert await asyncio.wrap_future(queue.put(item())) == []
        assert queue.error is None
    finally:
        queue.close()
        await channel.close()
        await server.stop()


@pytest.mark.parametrize("is_open", [False, True])
async def test_items_that_do_not_fit_into_one_message_go_in_several(
    monkeypatch: pytest.MonkeyPatch, is_open: bool
):
    monkeypatch.setattr("tideflow.transport.encoding.MOST_MESSAGE_BYTES", 1000)
    service = Short(answered=1000)
    server = make_server("grpc", [service], "127.0.0.1:0")
    port = await server.start()
    channel = make_channel(f"127.0.0.1:{port}", peer_name=TASK)
    queue = RemoteQueue(1, channel, TASK, lambda: True)
    try:
        async with asyncio.timeout(10):
            if is_open:
                await asyncio.wrap_future(queue.put(item()))
            for answer in [queue.put(large_item(400)) for _ in range(5)]:
                assert await asyncio.wrap_future(answer) == []
            # One that cannot go fails, with those after it; the queue goes on.
            sizes = (400, 2000, 400)
            _, *rest = [queue.put(large_item(size)) for size in sizes]
            for answer in rest:
                with pytest.raises(errors.ResourceExhaustedError, match="at most 1000"):
                    await asyncio.wrap_future(answer)
            assert await asyncio.wrap_future(queue.put(large_item(400))) == []
            assert service.streams == 2
    finally:
        queue.close()
        await channel.close()
        await server.stop()
