"""Calls to a master: waits until it is there, tries again when it is briefly away.

Rule 1: a session is made patiently: an absent master, or one that waits for other tasks, is waited
        for, and after a few seconds a line on stderr says so.  The caller's deadline bounds the
        wait, or else a long one that the environment may change.
Rule 2: any other call that finds the master unavailable is sent again a few times, with the same
        request id, and then fails: the session that it belongs to is gone.
Source: grpc_remote_master.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, TypeVar

from google.protobuf.message import Message

from tideflow.client.wait_progress import Progress
from tideflow.cluster import local_servers
from tideflow.cluster.master import Master
from tideflow.cluster.services import MasterService
from tideflow.cluster.status import StatusService
from tideflow.platform.settings import Settings
from tideflow.runtime.loop import on_loop, run_sync
from tideflow.transport import (
    Channel,
    MethodSpec,
    NotGrpcError,
    growing_pauses_s,
    make_channel,
    methods_of,
    stub,
    within,
)
from tideflow.transport.channel import deadline_error
from tideflow.wire import errors
from tideflow.wire import messages as pb

T = TypeVar("T")

_MOST_RETRIES = 10
_FIRST_PAUSE_S = 0.005
_MOST_PAUSE_S = 0.2
_FIRST_PATIENT_PAUSE_S = 0.1
_MOST_PATIENT_PAUSE_S = 1.0
_STATUS_S = 1.0


class MasterChannel:
    """The way to one master.  Use it on the event loop; any thread may make it.

    Args:
      target: `grpc://host:port`.
      settings: of the connection, and of how long the master is waited for.
    Attributes:
      local: the master itself, if its server runs in this process.
    """

    def __init__(self, target: str, settings: Settings) -> None:
        self.target = target
        self._wait_s = settings.wait_s
        server = local_servers.find(target)
        self.local: MasterService | None = None if server is None else server.master
        self._channel: Channel | None = (
            make_channel(target, settings=settings) if server is None else None
        )
        self._waiting: set[asyncio.Task[Any]] = set()
        self._given_up = threading.Event()

    async def call(
        self,
        method: str,
        request: Message,
        timeout_s: float | None = None,
        patiently: bool = False,
        retries: int = _MOST_RETRIES,
    ) -> Message:
        """Call a method of MasterService.

        Raises: what the master answers; DeadlineExceededError after timeout_s; UnavailableError
        when it is not there; UnimplementedError when something else is.
        """
        if patiently:
            return await self._call_patiently(method, request, timeout_s)
        return await self._call_with_retries(method, request, timeout_s, retries)

    def call_blocking(
        self,
        method: str,
        request: Message,
        timeout_s: float | None = None,
        retries: int = _MOST_RETRIES,
    ) -> Message:
        """Call a method as `call` does, not patiently, and wait in the calling (user's) thread.

        Where the transport can, the loop takes no part.
        """
        blocking = None if self._channel is None else self._channel.blocking
        if blocking is None or not blocking.has_room or on_loop():
            return run_sync(self.call(method, request, timeout_s, retries=retries))
        spec = methods_of(MasterService)[method]
        pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        while True:
            try:
                return blocking.unary(spec, request, timeout_s=timeout_s)
            except errors.OpError as error:
                told = self._told(error, spec)
                if not retries or not isinstance(told, errors.UnavailableError):
                    raise told from None
            retries -= 1
            self._given_up.wait(next(pauses_s))

    def _told(self, error: errors.OpError, spec: MethodSpec) -> errors.OpError:
        """Return the error of a call as the client is to see it."""
        if isinstance(error, errors.UnimplementedError):
            return error.with_message(
                f"the server at {self.target} speaks gRPC, but is no master: it does not offer "
                f"{spec.path}. Give the address of a tideflow or TensorFlow server "
                f"({error.message})"
            )
        return (
            errors.UnimplementedError(error.message) if isinstance(error, NotGrpcError) else error
        )

    async def await_local(self, call: Awaitable[T], timeout_s: float | None) -> T:
        """Await a call of the local master with a deadline."""
        if timeout_s is None:
            return await call
        try:
            async with asyncio.timeout(timeout_s) as scope:
                return await call
        except TimeoutError:
            if not scope.expired():
                raise
            raise deadline_error("the step", self.target, timeout_s) from None

    async def _call_once(self, method: str, request: Message, timeout_s: float | None) -> Message:
        if self.local is not None:
            return await within(timeout_s, getattr(self.local, method), request)
        assert self._channel is not None
        spec = methods_of(MasterService)[method]
        try:
            return await self._channel.unary(
                spec, request, timeout_s=timeout_s, wait_for_ready=False
            )
        except errors.OpError as error:
            raise self._told(error, spec) from None

    async def _call_with_retries(
        self, method: str, request: Message, timeout_s: float | None, retries: int
    ) -> Message:
        pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
        while True:
            try:
                return await self._call_once(method, request, timeout_s)
            except errors.UnavailableError:
                if not retries:
                    raise
            retries -= 1
            await asyncio.sleep(next(pauses_s))

    async def _call_patiently(
        self, method: str, request: Message, timeout_s: float | None
    ) -> Message:
        if self._given_up.is_set():
            raise errors.CancelledError(f"{method} at {self.target}: the session was closed")
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        limit_s = self._wait_s if timeout_s is None else timeout_s
        progress = Progress(method, self.target, limit_s, self._missing_tasks)
        before = task.cancelling()
        try:
            async with asyncio.timeout(limit_s) as scope:
                return await self._until_there(method, request, progress)
        except TimeoutError:
            if not scope.expired():
                raise
            hint = "; TIDEFLOW_WAIT_S says how long to wait" if timeout_s is None else ""
            raise errors.DeadlineExceededError(
                f"{method} at {self.target} gave up after {limit_s:g} s; it waited for "
                f"{progress.what}{hint}"
            ) from None
        except asyncio.CancelledError:
            if not self._given_up.is_set():
                raise
            if task.cancelling() > before:
                task.uncancel()
            raise errors.CancelledError(
                f"{method} at {self.target}: the session was closed"
            ) from None
        finally:
            progress.end()
            self._waiting.discard(task)

    async def _until_there(self, method: str, request: Message, progress: Progress) -> Message:
        pauses_s = growing_pauses_s(_FIRST_PATIENT_PAUSE_S, _MOST_PATIENT_PAUSE_S)
        while True:
            try:
                progress.trying()
                return await self._call_once(method, request, None)
            except errors.UnavailableError as error:
                progress.unavailable(error)
            await asyncio.sleep(next(pauses_s))

    async def _missing_tasks(self) -> list[str]:
        """Return the tasks that the master waits for, as far as it can say."""
        if self._channel is None:
            return self.local.waited_for() if isinstance(self.local, Master) else []
        page = stub(StatusService, self._channel)
        try:
            status = await within(_STATUS_S, page.GetServerStatus, pb.ServerStatusRequest())
        except errors.OpError:  # TensorFlow's servers do not tell
            return []
        return list(status.waited_for)

    def give_up_waiting(self) -> None:
        """End the patient calls with CancelledError."""
        self._given_up.set()
        for task in list(self._waiting):
            task.cancel()

    async def close(self) -> None:
        """Let the connection go."""
        if self._channel is not None:
            await self._channel.close()
