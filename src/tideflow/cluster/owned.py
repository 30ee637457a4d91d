"""Resources of a server that have one owner, which closes each of them once.

Sessions and contexts end in many ways: their client closes them, a newer one takes their place,
their client is gone, the server stops.  All of these end here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from tideflow.blocking import spawn

_LOGGER = logging.getLogger(__name__)

K = TypeVar("K")
R = TypeVar("R")


class Owned(Mapping[K, R]):
    """Resources by key; use it on the loop.

    Args:
      close: ends a resource that is no longer in the mapping.
      abandoned: says which of the resources nobody uses any more, and why.
      look_every_s: how often that is asked, while there are any; 0 for never.
    """

    def __init__(
        self,
        close: Callable[[R], Awaitable[None]],
        abandoned: Callable[[Mapping[K, R]], Iterable[tuple[K, str]]] = lambda kept: (),
        look_every_s: float = 0.0,
    ) -> None:
        self._close = close
        self._abandoned = abandoned
        self._look_every_s = look_every_s
        self._kept: dict[K, R] = {}
        # What is being closed; who asks for that again waits for the same.
        self._closing: dict[K, asyncio.Task[None]] = {}
        self._collector: asyncio.Task[None] | None = None

    def __getitem__(self, key: K) -> R:
        return self._kept[key]

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, key: K, resource: R) -> None:
        """Own a resource from now on; the key must be free."""
        assert key not in self._kept, f"{key!r} has an owner"
        self._kept[key] = resource
        if self._look_every_s > 0 and self._collector is None:
            self._collector = spawn(self._collect())

    def disown(self, key: K) -> None:
        """Leave the end of a resource to somebody else."""
        self._kept.pop(key, None)

    async def close(self, key: K) -> None:
        """End a resource, if it is there, or wait until it has ended.

        The end goes on where the caller is cancelled.  Raises: what closing it raised.
        """
        resource = self._kept.pop(key, None)
        if resource is not None:
            closing = self._closing[key] = spawn(self._end(resource))
            closing.add_done_callback(lambda done: self._forget(key, done))
        if key in self._closing:
            await asyncio.shield(self._closing[key])

    async def _end(self, resource: R) -> None:
        await self._close(resource)

    def _forget(self, key: K, closed: asyncio.Task[None]) -> None:
        if self._closing.get(key) is closed:
            del self._closing[key]

    async def close_all(self) -> None:
        """End all resources, and wait for those that are ending.

        Raises: the first error of one, once all have ended.
        """
        keys = dict.fromkeys([*self._kept, *self._closing])
        found = await asyncio.gather(*map(self.close, keys), return_exceptions=True)
        for error in found:
            if error is not None:
                raise error

    async def stop(self) -> None:
        """End all resources, and look for abandoned ones no longer."""
        if self._collector is not None:
            self._collector.cancel()
        try:
            await self.close_all()
        except asyncio.CancelledError:
            for closing in self._closing.values():
                closing.cancel()
            raise

    async def _collect(self) -> None:
        """Close what is abandoned, until nothing is left."""
        try:
            while self._kept:
                await asyncio.sleep(self._look_every_s)
                ends = []
                for key, reason in list(self._abandoned(self)):
                    _LOGGER.info("closing %s: %s", key, reason)
                    ends.append(self.close(key))
                for error in await asyncio.gather(*ends, return_exceptions=True):
                    if error is not None:
                        _LOGGER.warning("closing what was abandoned: %s", error)
        finally:
            self._collector = None
