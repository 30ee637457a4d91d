"""Callables: steps that a client names once and runs by a number.

Source: runtime facts on MakeCallable, RunCallable and ReleaseCallable.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tideflow.cluster.master.session import MasterSession
from tideflow.compile.prune import Signature
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import Value


@dataclass(frozen=True, slots=True)
class Callable:
    """What a callable runs.  Its signature names each fetch once, `fetches` as often as asked."""

    signature: Signature
    fetches: tuple[str, ...]
    connections: tuple[tuple[str, str], ...]
    feed_types: tuple[int, ...]
    run_options: pb.RunOptions


class Callables:
    """The callables of one session.  Use it on the event loop."""

    def __init__(self, session: MasterSession) -> None:
        self._session = session
        self._made: dict[int, Callable] = {}
        self._handles = itertools.count()

    async def make(self, options: pb.CallableOptions) -> int:
        """Prepare a callable; return its handle.

        Raises: UnimplementedError for feeds or fetches on devices; as `prune` does.
        """
        if options.feed_devices or options.fetch_devices:
            raise errors.UnimplementedError(
                "feed_devices and fetch_devices need memory that client and master share; leave "
                "them out, so that feeds and fetches travel as messages"
            )
        signature = Signature(
            tuple(options.feed), tuple(dict.fromkeys(options.fetch)), tuple(options.target)
        )
        connections = tuple((c.from_tensor, c.to_tensor) for c in options.tensor_connection)
        async with self._session.active():
            prepared = await self._session.prepare(signature, connections)
        handle = next(self._handles)
        self._made[handle] = Callable(
            signature,
            tuple(options.fetch),
            connections,
            tuple(prepared.graph.feed_types),
            options.run_options,
        )
        return handle

    def find(self, handle: int) -> Callable:
        """Return a callable.  Raises: InvalidArgumentError when it is not there."""
        found = self._made.get(handle)
        if found is None:
            raise errors.InvalidArgumentError(
                f"callable {handle} is not there: it was never made, or was released"
            )
        return found

    async def run(
        self, made: Callable, feeds: Sequence[Value]
    ) -> tuple[list[Value], pb.RunMetadata]:
        """Run a callable; return the values of its fetches, as often as they were named."""
        values, metadata = await self._session.run(
            made.signature, feeds, made.run_options, made.connections
        )
        if made.fetches == made.signature.fetches:
            return values, metadata
        by_name = dict(zip(made.signature.fetches, values))
        return [by_name[name] for name in made.fetches], metadata

    def release(self, handle: int) -> None:
        """Forget a callable; any number will do."""
        self._made.pop(handle, None)
