"""The rendezvous of one step as one task's kernels see it: here, or at the task that sends.

Source: tensorflow/core/distributed_runtime/rpc/rpc_rendezvous_mgr.cc
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Protocol

from tideflow.cluster.peers import KnownPeer, PushWait
from tideflow.cluster.repeated_calls import repeated
from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.runtime.rendezvous import PatientTaker, Received, Rendezvous
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import task_name
from tideflow.wire.ids import new_request_id
from tideflow.wire.tensor_reply import TensorReply


@functools.lru_cache(maxsize=65536)
def _consumer_of(key: str) -> str:
    """Return the task that a value is for."""
    return task_name(key.split(";", 3)[2])


class Peers(Protocol):
    """What a rendezvous needs of its worker session."""

    @property
    def workers(self) -> WorkerCache:
        """Finds the worker that sends a value."""


class RemoteRendezvous:
    """Implements RendezvousLike for one step of one worker session.

    Args:
      step_id: the step, by which the peers know it.
      local: the values that are made here, or were pushed before they were wanted.
      advised: keys that the producer asks us to ask for; shared with the step.
      peers: gives the workers of the session's cluster.
      log: takes note of transfers while it is on.
    """

    def __init__(
        self, step_id: int, local: Rendezvous, advised: set[str], peers: Peers, log: RpcLog
    ) -> None:
        self.step_id = step_id
        self.local = local
        self.take_nowait = local.take_nowait
        self._workers = peers.workers
        self._log = log
        # Frames number steps from 0; that of TensorFlow's eager context may be below.
        self._peers = peers.workers.peers if step_id >= 0 else None
        self._advised = advised
        self._waits: dict[str, PushWait] = {}
        self._calls: dict[asyncio.Task[TensorReply], str] = {}
        # The call that asks for a key.
        self._call_of: dict[str, asyncio.Task[TensorReply]] = {}
        self._brought: dict[str, Received] = {}
        self._error: errors.OpError | None = None

    def put(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Offer a value: to a peer that is to be given it, else to whoever takes it here.

        Raises: the error with which the step was aborted.
        """
        if self._peers is not None:
            stream = self._peers.stream(_consumer_of(key))
            if stream is not None:
                stream.put(self.step_id, self.local, key, value, is_dead)
                return
        self.local.put(key, value, is_dead)

    async def take(self, key: str, send_device: str) -> Received:
        """Wait for a value that is made here, or fetch it from the task that makes it.

        Raises: the error with which the step was aborted, or that of the peer; UnavailableError
        that names task and address when the peer cannot be reached.
        """
        owner = task_name(send_device) if send_device else self._workers.own_task
        if owner == self._workers.own_task:
            return await self.local.take(key)
        # Raises if the step was aborted; a peer may also have brought the value already.
        received = self.local.take_nowait(key)
        if received is not None:
            return received
        if self._peers is None or key in self._advised:
            self._advised.discard(key)
            return await self._fetch(key, owner)
        peer = self._peers.peer(owner)
        if not peer.pushes or key in self._waits:
            peer.greet()
            return await self._fetch(key, owner)
        received = await self._await_push(key, peer)
        if received is None:
            # It may have come after the wait was ended, in the same turn of the loop; then the
            # producer has it no more, and would never answer.
            received = self.local.take_nowait(key)
        if received is not None:
            return received
        self._advised.discard(key)
        return await self._fetch(key, owner)

    def expect(self, key: str, send_device: str, taker: PatientTaker) -> bool:
        """Give a taker a value that is made here or pushed; False for one to be asked for."""
        owner = task_name(send_device) if send_device else self._workers.own_task
        if owner == self._workers.own_task:
            return self.local.expect(key, send_device, taker)
        if self._peers is None or key in self._advised or key in self._waits:
            return False
        peer = self._peers.peer(owner)
        if not peer.pushes:
            return False
        self._waits[key] = peer.wait(_Expected(self, peer, key, taker))
        return True

    def end_expected(
        self, key: str, peer: KnownPeer, received: Received | None, since_ns: int
    ) -> None:
        """Note the end of a wait that a taker left to us."""
        peer.forget(self._waits.pop(key))
        if received is None:
            self._advised.add(key)
        elif self._log.enabled:
            self._log.record(self.step_id, key, since_ns, received.value)

    async def _await_push(self, key: str, peer: KnownPeer) -> Received | None:
        """Wait to be given a value; None when it is to be asked for."""
        started_ns = clock.wall_ns()
        future: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()
        wait = self._waits[key] = peer.wait(future)
        try:
            received = await future
        finally:
            peer.forget(wait)
            del self._waits[key]
        if received is not None and self._log.enabled:
            self._log.record(self.step_id, key, started_ns, received.value)
        return received

    def give(self, key: str, received: Received) -> None:
        """Take in a pushed value (call on the loop).  Of a failed step it is dropped."""
        if self._error is not None:
            return
        wait = self._waits.get(key)
        if wait is not None and not wait.future.done():
            wait.future.set_result(received)
            return
        call = self._call_of.get(key)
        if call is not None and not call.done() and key not in self._brought:
            self._brought[key] = received
            call.cancel()
            return
        self.local.put(key, received.value, received.is_dead)

    def advise_asking(self, key: str) -> None:
        """Ask for a value that the producer has, but does not push (call on the loop)."""
        if key in self._call_of:
            return
        self._advised.add(key)
        wait = self._waits.get(key)
        if wait is not None:
            wait.ask()

    async def _fetch(self, key: str, owner: str) -> Received:
        """Ask for a value."""
        request = pb.RecvTensorRequest(
            step_id=self.step_id, rendezvous_key=key, request_id=new_request_id()
        )
        started_ns = clock.wall_ns()
        worker = self._workers.get(owner)
        # A task of its own, so that `abort` can end the call wherever its waiter is.
        call = asyncio.get_running_loop().create_task(_recv_tensor(worker, request))
        self._calls[call] = key
        self._call_of[key] = call
        try:
            reply = await call
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if waiter and waiter.cancelling():
                raise
            if self._error is not None:
                raise self._error from None
            if key in self._brought:
                return self._brought[key]
            raise
        finally:
            del self._calls[call]
            if self._call_of.get(key) is call:
                del self._call_of[key]
            self._brought.pop(key, None)
        if self._log.enabled:
            self._log.record(self.step_id, key, started_ns, reply.value)
        if reply.require_ack:
            await worker.MarkRecvFinished(pb.MarkRecvFinishedRequest(request_id=request.request_id))
        return Received(reply.value, reply.is_dead)

    def abort(self, error: errors.OpError) -> None:
        """Fail all takes, now and later, and give up the calls in flight (call on the loop)."""
        if self._error is None:
            self._error = error
        self.local.abort(error)
        for wait in list(self._waits.values()):
            if not wait.future.done():
                wait.future.set_exception(error)
        for call in list(self._calls):
            call.cancel()


class _Expected:
    """Stands in a wait for the future of a taker, which is told at once what comes."""

    __slots__ = ("_is_over", "_key", "_peer", "_rendezvous", "_since_ns", "_taker")

    def __init__(
        self, rendezvous: RemoteRendezvous, peer: KnownPeer, key: str, taker: PatientTaker
    ) -> None:
        self._rendezvous = rendezvous
        self._peer = peer
        self._key = key
        self._taker = taker
        self._since_ns = clock.wall_ns()
        self._is_over = False

    def done(self) -> bool:
        return self._is_over or self._taker.done()

    def set_result(self, received: Received | None, /) -> None:
        self._is_over = True
        self._rendezvous.end_expected(self._key, self._peer, received, self._since_ns)
        if received is None:
            self._taker.ask()
        else:
            self._taker.set_result(received)

    def set_exception(self, error: errors.OpError, /) -> None:
        self._is_over = True
        self._taker.set_exception(error)


async def _recv_tensor(worker: Any, request: pb.RecvTensorRequest) -> TensorReply:
    reply: TensorReply = await repeated(worker, lambda: worker.RecvTensor(request))
    return reply
