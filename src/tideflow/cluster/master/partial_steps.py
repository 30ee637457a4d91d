"""Partial runs: steps that are fed and fetched in several calls.

All parts start with the first call; later calls reach only the client device's task, where feeds
and fetches live; the last one goes to all parts and waits for their end.
Source: runtime facts on partial runs and on RunGraph's is_partial.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideflow.cluster.master.session import MasterSession, PreparedStep
from tideflow.cluster.master.step_runner import StepRun, clean_up, run_parts
from tideflow.compile.feeds import PartialRun
from tideflow.compile.prune import Signature
from tideflow.wire import errors
from tideflow.wire.ids import new_step_id
from tideflow.wire.tensor_codec import Value


@dataclass(slots=True)
class _OpenRun:
    prepared: PreparedStep
    state: PartialRun
    step_id: int
    is_started: bool = False


class PartialSteps:
    """The partial runs of one session.  Use it on the event loop."""

    def __init__(self, session: MasterSession) -> None:
        self._session = session
        self._open: dict[str, _OpenRun] = {}
        self._handles = itertools.count()

    async def set_up(self, signature: Signature) -> str:
        """Begin a partial run; return its handle.  Raises: as `prune` does."""
        async with self._session.active():
            prepared = await self._session.prepare(signature, is_partial=True)
        template = prepared.graph.partial
        assert template is not None
        state = PartialRun(template.signature, template.needs)
        handle = str(next(self._handles))
        self._open[handle] = _OpenRun(prepared, state, new_step_id())
        return handle

    def feed_types(self, handle: str) -> dict[str, int]:
        """Return the element types of a run's feeds, by name.

        Raises: InvalidArgumentError for a run that is not there.
        """
        graph = self._find(handle).prepared.graph
        return dict(zip(graph.signature.feeds, graph.feed_types))

    async def run(
        self, handle: str, feeds: Mapping[str, Value], fetches: Sequence[str]
    ) -> tuple[list[Value], bool]:
        """Go on with a run; return the fetched values, and whether it has ended with this call.

        Raises: InvalidArgumentError for feeds or fetches that may not come now (the run goes on);
        the step's error, which ends it.
        """
        found = self._find(handle)
        found.state.check(list(feeds), list(fetches))
        found.state.advance(list(feeds), list(fetches))
        is_last = found.state.is_finished
        async with self._session.active():
            try:
                values = await self._exchange(found, feeds, fetches, is_last)
            except BaseException:
                await self._end(handle)
                raise
        if is_last:
            await self._end(handle)
        return values, is_last

    async def _exchange(
        self, found: _OpenRun, feeds: Mapping[str, Value], fetches: Sequence[str], is_last: bool
    ) -> list[Value]:
        graph, parts = found.prepared.graph, found.prepared.parts
        session = self._session
        keys = dict(zip(graph.signature.feeds, graph.feed_keys))
        fetch_keys = dict(zip(graph.signature.fetches, graph.fetch_keys))
        run = StepRun(
            session.handle,
            found.step_id,
            session.client_task,
            {key: value for name, value in feeds.items() if (key := keys[name]) is not None},
            [fetch_keys[name] for name in fetches],
            is_partial=True,
            is_last_partial_run=is_last,
        )
        if not found.is_started:
            session.step_count += 1
        elif not is_last:
            parts = [part for part in parts if part.task == session.client_task]
        found.is_started = True
        results = await run_parts(parts, run) if parts else {}
        return results[session.client_task].values if fetches else []

    def _find(self, handle: str) -> _OpenRun:
        found = self._open.get(handle)
        if found is None:
            raise errors.InvalidArgumentError(
                f"partial run {handle!r} is not there: it was never set up, or has ended"
            )
        return found

    async def _end(self, handle: str) -> None:
        found = self._open.pop(handle, None)
        if found is not None and found.is_started:
            await clean_up(found.prepared.parts, found.step_id)

    async def close(self) -> None:
        """Drop all runs."""
        for handle in list(self._open):
            await self._end(handle)
