"""The rounds of one consumer of a coordinated read.

Rule 1: in a round a consumer asks each task for one element, in the order of their numbers, so
        that all consumers are with the same task at the same time.
Rule 2: a task takes part from the round in which the dispatcher says that it begins.  That has all
        consumers stop before a round until it knows that they all know.
Rule 3: a task whose worker is away is waited for, until all consumers ask that it goes.

Source: tensorflow/core/data/service/client/data_service_client.cc.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tideflow.data_service.calls import AWAY, FIRST_PAUSE_S, MOST_PAUSE_S, until_reached
from tideflow.data_service.services import DataWorkerService, DispatcherService
from tideflow.transport import growing_pauses_s
from tideflow.wire import messages as pb
from tideflow.wire.parted import MaybeParted, take_apart


@dataclass(eq=False, slots=True)
class RoundTask:
    """A task that takes part in rounds.

    Attributes:
      is_removed: whether it does so no more.
      has_skipped: whether its worker had nothing in the last round.
    """

    info: pb.TaskInfo
    worker: DataWorkerService
    is_removed: bool = False
    has_skipped: bool = False


class Rounds:
    """Where a consumer is."""

    def __init__(self, consumer: int) -> None:
        self.reader: asyncio.Task[None] | None = None
        self._consumer = consumer
        self._tasks: dict[int, RoundTask] = {}
        self._index = -1
        # The round that must not begin yet.
        self._limit: int | None = None
        self._changed = asyncio.Event()

    # ---- what the dispatcher is told, and tells

    def tell(self, request: pb.ClientHeartbeatRequest) -> None:
        """Say where the consumer is."""
        request.current_round = max(self._index, 0)
        if self._limit is not None:
            request.blocked_round = self._limit

    def heard(self, reply: pb.ClientHeartbeatResponse) -> bool:
        """Take note of the round before which to stop; return whether to answer at once."""
        before, self._limit = self._limit, None
        is_asked = reply.WhichOneof("optional_block_round") is not None
        if is_asked and max(self._index, 0) < reply.block_round:
            self._limit = reply.block_round
        self._changed.set()
        return is_asked and self._limit != before

    def add(self, info: pb.TaskInfo, worker: DataWorkerService) -> None:
        """Have a task take part."""
        self._tasks[info.task_id] = RoundTask(info, worker)

    def remove(self, number: int) -> None:
        """Have a task take part no more."""
        found = self._tasks.pop(number, None)
        if found is not None:
            found.is_removed = True

    # ---- rounds

    async def begin(self) -> list[RoundTask]:
        """Begin the next round, once that may be; return its tasks, in order."""
        wanted = self._index + 1
        while not self._tasks or (self._limit is not None and wanted >= self._limit):
            self._changed.clear()
            await self._changed.wait()
        self._index = wanted
        # Rounds before the first task begins have none, and must not keep the loop.
        await asyncio.sleep(0)
        return [
            task
            for _, task in sorted(self._tasks.items())
            if task.info.starting_round <= wanted and not task.is_removed
        ]

    async def ask(
        self, task: RoundTask, dispatcher: DispatcherService
    ) -> MaybeParted[pb.GetElementResponse] | None:
        """Return the answer of a task in this round; None where it has nothing, or has gone."""
        request = pb.GetElementRequest(
            task_id=task.info.task_id,
            consumer_index=self._consumer,
            round_index=self._index,
            skipped_previous_round=task.has_skipped,
            allow_skip=True,
        )
        for attempt, pause_s in enumerate(growing_pauses_s(FIRST_PAUSE_S, MOST_PAUSE_S)):
            if task.is_removed:
                return None
            try:
                answer = await task.worker.GetElement(request)
            except AWAY:
                if attempt and await self._may_leave(task, dispatcher):
                    task.is_removed = True
                    return None
                await asyncio.sleep(pause_s)
                continue
            reply, _ = take_apart(answer)
            task.has_skipped = reply.skip_task
            return None if reply.skip_task or reply.end_of_sequence else answer
        raise AssertionError("pauses have no end")

    async def _may_leave(self, task: RoundTask, dispatcher: DispatcherService) -> bool:
        request = pb.MaybeRemoveTaskRequest(
            task_id=task.info.task_id, consumer_index=self._consumer, round=self._index
        )
        return (await until_reached(lambda: dispatcher.MaybeRemoveTask(request))).removed
