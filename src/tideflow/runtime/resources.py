"""The named state of a device: variables, queues, tables.

Rule 1: a thing is known by (container, kind, name); it outlives sessions and dies with its device.
Rule 2: the default container is the job's name; an empty container name means it.
Rule 3: a lookup costs one dict access; only a miss takes the lock.
Source: tensorflow/core/framework/resource_mgr.cc
"""

from __future__ import annotations

import functools
import itertools
import weakref
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from tideflow.runtime.deferring_lock import DeferringLock
from tideflow.wire import errors
from tideflow.wire.handles import ResourceHandle

T = TypeVar("T")


# The same for all devices, so that a name tells things of several devices apart.
_anonymous_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One line of a status report.  size_bytes is 0 where a thing does not tell."""

    container: str
    name: str
    kind: str
    dtype: str
    shape: str
    size_bytes: int


class ResourceManager:
    """Keeps a device's things; any thread may call it (see tideflow.graph.kernel.Resources).

    Attributes:
      drops: how many things were dropped; while it stays the same, so does what a handle names.
    """

    def __init__(self, device: str = "", default_container: str = "localhost") -> None:
        self.device = device
        self.default_container = default_container
        self._things: dict[tuple[str, type, str], Any] = {}
        # All things of a name, so that a lookup by a base class finds one of a subclass.
        self._by_name: dict[tuple[str, str], list[Any]] = {}
        # Also for the finalisers of anonymous handles.
        self._lock = DeferringLock()
        self.drops = 0

    def lookup(self, handle: Any, kind: type[T]) -> T:
        """Return what a handle names.

        Raises: NotFoundError when it is not there; InvalidArgumentError for something that is no
        handle, or a handle to another device.
        """
        try:
            found = self._things[handle.container, kind, handle.name]
            if handle.device == self.device:
                return cast(T, found)
        except (KeyError, AttributeError):
            pass
        return self._lookup_slowly(handle, kind)

    def _lookup_slowly(self, handle: Any, kind: type[T]) -> T:
        if isinstance(handle, np.ndarray) and handle.size == 1:
            # A handle that came out of a tensor of handles is still wrapped in an array.
            return self.lookup(handle.item(), kind)
        if not isinstance(handle, ResourceHandle):
            raise errors.InvalidArgumentError(
                f"a resource handle is wanted, found {type(handle).__name__}"
            )
        if handle.device and self.device and handle.device != self.device:
            raise errors.InvalidArgumentError(
                f"the handle to {handle.name!r} belongs to device {handle.device}; it was used on "
                f"{self.device}. Place the operation where the resource is"
            )
        found = self.find(handle.container, handle.name, kind)
        if found is None:
            others = self._by_name.get((handle.container or self.default_container, handle.name))
            kinds = "".join(f"; the name belongs to a {kind_name(type(t))}" for t in others or ())
            raise errors.NotFoundError(
                f"container {handle.container or self.default_container!r} of device "
                f"{self.device or '(local)'} has no {kind_name(kind)} named {handle.name!r}{kinds}"
            )
        return found

    def find(self, container: str, name: str, kind: type[T]) -> T | None:
        """Return a thing by name, or None."""
        container = container or self.default_container
        found = self._things.get((container, kind, name))
        if found is None and (container, name) in self._by_name:
            with self._lock:
                for thing in self._by_name.get((container, name), ()):
                    if isinstance(thing, kind):
                        found = self._things[container, kind, name] = thing
                        break
        return cast("T | None", found)

    def lookup_or_create(
        self, container: str, name: str, kind: type[T], make: Callable[[], T]
    ) -> T:
        """Return a thing by name, made first if it is not there."""
        found = self.find(container, name, kind)
        if found is not None:
            return found
        with self._lock:
            found = self.find(container, name, kind)
            if found is None:
                found = make()
                self._enter(container or self.default_container, name, kind, found)
            return found

    def create(self, container: str, name: str, thing: Any) -> None:
        """Enter a thing.  Raises: AlreadyExistsError."""
        container = container or self.default_container
        kind = type(thing)
        with self._lock:
            if (container, kind, name) in self._things:
                raise errors.AlreadyExistsError(
                    f"container {container!r} has a {kind_name(kind)} named {name!r} already"
                )
            self._enter(container, name, kind, thing)

    def _enter(self, container: str, name: str, kind: type, thing: Any) -> None:
        self._things[container, kind, name] = thing
        self._by_name.setdefault((container, name), []).append(thing)

    def delete(self, handle: Any, kind: type[Any]) -> None:
        """Drop what a handle names.  Raises: NotFoundError."""
        with self._lock:
            thing = self.lookup(handle, kind)
            self._drop(handle.container or self.default_container, handle.name, thing)

    def _drop(self, container: str, name: str, thing: Any) -> None:
        self.drops += 1
        same = self._by_name.get((container, name), [])
        same[:] = [other for other in same if other is not thing]
        if not same:
            self._by_name.pop((container, name), None)
        # The thing may have been found by its bases' names, too.
        for kind in type(thing).__mro__:
            if self._things.get((container, kind, name)) is thing:
                del self._things[container, kind, name]

    def handle(self, container: str, name: str, kind: type[Any], **facts: Any) -> ResourceHandle:
        """Return a handle on this device for a thing that may not be there yet.

        facts: further fields of the handle, such as dtypes_and_shapes.
        """
        type_name = kind_name(kind)
        return ResourceHandle(
            device=self.device,
            container=container or self.default_container,
            name=name,
            hash_code=zlib.crc32(type_name.encode()),
            maybe_type_name=type_name,
            **facts,
        )

    def anonymous_handle(self, kind: type[Any], **facts: Any) -> ResourceHandle:
        """Return a handle to a new name; what is kept under it goes when the handle goes.

        Copies that travelled do not count: they keep nothing alive.
        """
        name = f"_anonymous_{next(_anonymous_numbers)}"
        made = self.handle("", name, kind, **facts)
        weakref.finalize(made, _forget, weakref.ref(self), made.container, name)
        return made

    def forget_name(self, container: str, name: str) -> None:
        """Drop all that is kept under a name, if there is anything."""
        container = container or self.default_container
        with self._lock:
            for thing in list(self._by_name.get((container, name), ())):
                self._drop(container, name, thing)

    def forget_name_soon(self, container: str, name: str) -> None:
        """Do what `forget_name` does once nobody is at it (safe where objects are collected)."""
        self._lock.run_when_free(functools.partial(self.forget_name, container, name))

    def cleanup(self, containers: Iterable[str] = ()) -> None:
        """Drop all that is in the containers; an empty list means the default container."""
        doomed = {name or self.default_container for name in containers}
        doomed = doomed or {self.default_container}
        with self._lock:
            for key in [key for key in self._by_name if key[0] in doomed]:
                self.forget_name(*key)

    def things(self, kind: type[T]) -> list[T]:
        """Return all things of a kind that are there now."""
        with self._lock:
            found = [thing for things in self._by_name.values() for thing in things]
        return [thing for thing in found if isinstance(thing, kind)]

    def snapshot(self) -> list[ResourceInfo]:
        """Return what is there now, by container and name."""
        with self._lock:
            entries = [(*key, thing) for key, things in self._by_name.items() for thing in things]
        rows = []
        for container, name, thing in entries:
            describe = getattr(thing, "describe", None)
            dtype, shape, size_bytes = describe() if describe is not None else ("", "", 0)
            rows.append(
                ResourceInfo(container, name, kind_name(type(thing)), dtype, shape, size_bytes)
            )
        return sorted(rows, key=lambda row: (row.container, row.name, row.kind))


def kind_name(kind: type[Any]) -> str:
    """Return what a kind of resource is called in handles and messages."""
    return str(getattr(kind, "type_name", None) or kind.__name__)


def _forget(manager: weakref.ref[ResourceManager], container: str, name: str) -> None:
    kept = manager()
    if kept is not None:
        kept.forget_name_soon(container, name)
