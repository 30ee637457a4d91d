"""The contexts that a client has on other tasks: made, kept, told of new views, closed.

Source: runtime facts on EagerService (connecting).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence

from tideflow.cluster.worker_cache import WorkerCache
from tideflow.eager.remote.queue import RemoteQueue
from tideflow.eager.remote.task import RemoteTask
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name

KEEP_ALIVE_S = 600
# How long a task may take to say that it still has its context, and to close it.
_ANSWER_S = 5.0


class RemoteContexts:
    """The client's contexts on the other tasks of a cluster (everything here is on the loop).

    Args:
      context_id: the client's number of all of them.
      server_pb: the cluster, as the client's own server has it.
      workers: the connections to the tasks.
      is_peer: whether a task is a tideflow peer.
    """

    def __init__(
        self,
        context_id: int,
        server_pb: pb.ServerDef,
        workers: WorkerCache,
        is_peer: Callable[[str], bool],
    ) -> None:
        self._context_id = context_id
        self._server_pb = server_pb
        self._workers = workers
        self._is_peer = is_peer

    async def make(
        self, task: RemoteTask, view_id: int, devices: Sequence[pb.DeviceAttributes]
    ) -> None:
        """Make a context, and a queue of operations for it.

        devices: of all tasks of the cluster.
        """
        request = pb.CreateContextRequest(
            server_def=self._server_def_for(task),
            keep_alive_secs=KEEP_ALIVE_S,
            context_id=self._context_id,
            context_view_id=view_id,
            lazy_copy_remote_function_inputs=True,
            cluster_device_attributes=devices,
        )
        await task.service.CreateContext(request)
        task.queue = RemoteQueue(
            self._context_id,
            self._workers.channel(task.name),
            task.name,
            functools.partial(self._is_peer, task.name),
        )
        task.has_context = True
        task.view_id = request.context_view_id
        task.functions = set()

    def _server_def_for(self, task: RemoteTask) -> pb.ServerDef:
        spec = parse_device_name(task.name)
        server_pb = pb.ServerDef()
        server_pb.CopyFrom(self._server_pb)
        server_pb.job_name, server_pb.task_index = spec.job or "", spec.task or 0
        return server_pb

    async def is_kept(self, task: RemoteTask) -> bool:
        """Whether a task still has the context, as the client knows it."""
        request = pb.KeepAliveRequest(context_id=self._context_id)
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await task.service.KeepAlive(request)
        except (TimeoutError, errors.OpError):
            return False
        return answer.context_view_id == task.view_id

    async def update(self, task: RemoteTask, devices: Sequence[pb.DeviceAttributes] | None) -> None:
        """Tell a task of another view of the cluster; of its devices, if these have changed."""
        alive = pb.KeepAliveRequest(context_id=self._context_id)
        request = pb.UpdateContextRequest(context_id=self._context_id)
        if devices is not None:
            request.server_def.CopyFrom(self._server_def_for(task))
            request.cluster_device_attributes.extend(devices)
        try:
            async with asyncio.timeout(_ANSWER_S):
                # It may have missed versions when it did not answer.
                seen = (await task.service.KeepAlive(alive)).context_view_id
                request.context_view_id = seen + 1
                await task.service.UpdateContext(request)
        except (TimeoutError, errors.UnavailableError, errors.AbortedError):
            # The task is away too, or it is a new process.  The next look at all tasks finds it
            # with another view.
            return
        task.view_id = request.context_view_id

    async def close(self, task: RemoteTask, view_id: int) -> None:
        """Close a task's context, if it has one; a task that is away finds out by itself."""
        if not task.has_context:
            return
        task.queue.close()
        request = pb.CloseContextRequest(context_id=self._context_id, context_view_id=view_id)
        with contextlib.suppress(TimeoutError, errors.OpError):
            async with asyncio.timeout(_ANSWER_S):
                await task.service.CloseContext(request)
