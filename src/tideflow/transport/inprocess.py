"""A channel to services of this process: messages are handed over as they are.

Code that holds the local object just calls it.  This is for code that wants a channel, with all its
promises (deadlines, counting, errors as OpError), and for tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

from google.protobuf.message import Message

from tideflow.platform import clock
from tideflow.transport.answer import answer, answer_stream, is_being_cancelled
from tideflow.transport.channel import Channel, Metadata, deadline_error
from tideflow.transport.service import Binding, MethodSpec, Service, bind
from tideflow.transport.statistics import CountedCall
from tideflow.wire import errors, status

T = TypeVar("T")


class LocalChannel(Channel):
    """Calls services of this process.  Metadata and wait_for_ready mean nothing here."""

    def __init__(self, services: Iterable[Service], *, target: str = "this process") -> None:
        super().__init__(target)
        self._bindings = bind(services)
        self._calls: set[asyncio.Task[Any]] = set()
        self._ending: errors.OpError | None = None

    async def unary(
        self,
        method: MethodSpec,
        request: Message,
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> Message:
        binding = self._find(method)
        timeout_s = method.timeout_s if timeout_s is None else timeout_s
        with CountedCall(self.statistics_of(method.path)):
            return await self._run(answer(binding, request), method, timeout_s, timeout_s)

    async def stream(
        self,
        method: MethodSpec,
        requests: AsyncIterator[Message],
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> AsyncIterator[Message]:
        binding = self._find(method)
        timeout_s = method.timeout_s if timeout_s is None else timeout_s
        deadline_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        responses = answer_stream(binding, requests)
        with CountedCall(self.statistics_of(method.path)):
            try:
                while True:
                    # The deadline holds for waiting here, not for what the consumer does meanwhile.
                    left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
                    response = await self._run(_next(responses), method, left_s, timeout_s)
                    if response is None:
                        return
                    yield response
            finally:
                await responses.aclose()

    async def _run(
        self,
        work: Coroutine[Any, Any, T],
        method: MethodSpec,
        left_s: float | None,
        timeout_s: float | None,
    ) -> T:
        """Await work in a task of its own, which `end` can cancel without cancelling the caller."""
        call = asyncio.get_running_loop().create_task(work)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            async with asyncio.timeout(left_s) as scope:
                return await call
        except TimeoutError:
            if not scope.expired():
                raise
            raise deadline_error(method.path, self.target, timeout_s or 0.0) from None
        except asyncio.CancelledError:
            if self._ending is None or is_being_cancelled():
                raise
            raise self._ending.with_message(f"{method.path}: {self._ending}") from None

    async def close(self) -> None:
        await self.end(
            status.mark_derived(errors.CancelledError(f"the channel to {self.target} was closed"))
        )

    async def end(self, error: errors.OpError) -> None:
        """End the calls in flight, and every later one, with error; wait for their clean-up."""
        if self._ending is None:
            self._ending = error
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _find(self, method: MethodSpec) -> Binding:
        if self._ending is not None:
            raise self._ending.with_message(f"{method.path}: {self._ending}")
        found = self._bindings.get(method.path)
        if found is None:
            raise errors.UnimplementedError(f"{method.path} is not served in {self.target}")
        return found


async def _next(messages: AsyncGenerator[Message, None]) -> Message | None:
    return await anext(messages, None)
