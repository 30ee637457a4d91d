"""Datasets that are kept in files once they were read.

The files are a bundle (see tensor_bundle) with one tensor for each component of each element, as
TensorFlow has them: either reads what the other wrote.  While it is written, a lock file says so.

Source: tensorflow/core/kernels/data/cache_dataset_ops.cc (FileDatasetBase).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tideflow.formats import BundleReader, BundleWriter, file_errors, index_path, permitted
from tideflow.ops.data.record_stream import in_file_thread
from tideflow.ops.data.values import Dataset, Element, Iterator, owned
from tideflow.platform import clock
from tideflow.wire import errors

# Digits of an element's number in a tensor's name, filled up with blanks.
_DIGITS = 7
# Elements that go to the disk, or come from it, in one go.
_AT_ONCE = 64


def _name(element: int, component: int, components: int) -> str:
    return f"{element:{_DIGITS}d}_{component:{len(str(components - 1))}d}"


class _Writing:
    """Gives the elements of a dataset, and writes them on the way.

    Nothing is left of the files where it is dropped before the end.
    """

    def __init__(self, dataset: Dataset, path: str) -> None:
        self._dataset = dataset
        self._source = dataset.iterator()
        self._path = path
        self._lock = f"{path}_0.lockfile"
        self._is_locked = False
        self._files = contextlib.ExitStack()
        self._writer: BundleWriter | None = None
        self._held: list[Element] = []
        self._written = 0
        self._ended = False

    async def next(self) -> Element | None:
        if self._ended:
            return None
        if self._writer is None:
            await in_file_thread(self._open)
        element = await self._source.next()
        if element is not None:
            element = tuple(owned(value) for value in element)
            self._held.append(element)
        if element is None or len(self._held) >= _AT_ONCE:
            await in_file_thread(self._write)
        if element is None:
            self._ended = True
            await in_file_thread(self._close)
        return element

    def _open(self) -> None:
        with file_errors("make", self._lock):
            try:
                file = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                raise errors.AlreadyExistsError(
                    "There appears to be a concurrent caching iterator running - cache lockfile "
                    f"already exists ('{self._lock}'). If you are sure no other running "
                    "computations are using this cache prefix, delete the lockfile and "
                    "re-initialize the iterator."
                ) from None
            with os.fdopen(file, "w") as text:
                text.write(f"Created at: {int(clock.wall_s())}")
        self._is_locked = True
        self._writer = self._files.enter_context(BundleWriter(self._path))

    def _write(self) -> None:
        assert self._writer is not None
        types = self._dataset.types
        for element in self._held:
            for i, (value, dtype) in enumerate(zip(element, types)):
                self._writer.add(_name(self._written, i, len(types)), value, dtype)
            self._written += 1
        self._held = []

    def _close(self) -> None:
        self._files.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._is_locked:
            self._is_locked = False
            Path(self._lock).unlink(missing_ok=True)

    def __del__(self) -> None:
        if self._is_locked:
            # As in TensorFlow: a part of a dataset must not pass for the whole.
            error = errors.CancelledError("the dataset was not read to its end")
            with contextlib.suppress(errors.OpError, OSError):
                self._files.__exit__(type(error), error, None)
            with contextlib.suppress(OSError):
                self._unlock()


class _Reading:
    """Gives the elements that are in the files."""

    def __init__(self, dataset: Dataset, path: str) -> None:
        self._dataset = dataset
        self._path = path
        self._reader: BundleReader | None = None
        self._ready: list[Element] = []
        self._read = 0

    async def next(self) -> Element | None:
        if not self._ready:
            await in_file_thread(self._fetch)
        return self._ready.pop() if self._ready else None

    def _fetch(self) -> None:
        if self._reader is None:
            self._reader = BundleReader(self._path)
        components = len(self._dataset.types)
        for _ in range(_AT_ONCE):
            names = [_name(self._read, i, components) for i in range(components)]
            if names[0] not in self._reader:
                break
            self._ready.insert(0, tuple(self._reader.read(name) for name in names))
            self._read += 1

    def __del__(self) -> None:
        if self._reader is not None:
            self._reader.close()


class FileCached:
    """Reads the files of a common prefix where they are there, or else writes them."""

    def __init__(self, dataset: Dataset, path: str) -> None:
        self._dataset = dataset
        self._path = permitted(path)
        self._source: Iterator | None = None

    async def next(self) -> Element | None:
        if self._source is None:
            exists = await in_file_thread(Path(index_path(self._path)).exists)
            self._source = (_Reading if exists else _Writing)(self._dataset, self._path)
        return await self._source.next()
