"""Files: what the operating system says of them as errors of the protocol, and whole new ones.

Source: tensorflow/core/platform/error.cc (which errno is which status).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from tideflow.formats.access import open_file, permitted
from tideflow.platform import clock
from tideflow.wire import errors

_CODES: dict[int, type[errors.OpError]] = {
    errno.ENOENT: errors.NotFoundError,
    errno.EEXIST: errors.AlreadyExistsError,
    errno.ENOTEMPTY: errors.FailedPreconditionError,
    errno.EISDIR: errors.FailedPreconditionError,
    errno.ENOTDIR: errors.FailedPreconditionError,
    errno.EBUSY: errors.FailedPreconditionError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EPERM: errors.PermissionDeniedError,
    errno.EROFS: errors.PermissionDeniedError,
    errno.EINVAL: errors.InvalidArgumentError,
    errno.ENAMETOOLONG: errors.InvalidArgumentError,
    errno.ENOSPC: errors.ResourceExhaustedError,
    # TensorFlow says OutOfRangeError, which training takes for the end of its input.
    errno.EFBIG: errors.ResourceExhaustedError,
    errno.EDQUOT: errors.ResourceExhaustedError,
    errno.EMFILE: errors.ResourceExhaustedError,
    errno.ENOMEM: errors.ResourceExhaustedError,
}


@contextlib.contextmanager
def file_errors(doing: str, path: str) -> Iterator[None]:
    """Turn what the operating system refuses in the block into an error of the protocol."""
    try:
        yield
    except OSError as error:
        kind = _CODES.get(error.errno or 0, errors.UnknownError)
        raise kind(f"cannot {doing} {path}: {error.strerror or error}") from error


def path_of(value: Any, what: str) -> str:
    """Return the path that a string tensor of one element holds.

    Raises: InvalidArgumentError for a tensor of more elements or none; PermissionDeniedError for a
    file that graphs may not reach.
    """
    shape = getattr(value, "shape", ())
    if shape and getattr(value, "size", 1) != 1:
        raise errors.InvalidArgumentError(f"{what} must be one string; its shape is {list(shape)}")
    item = value.item() if hasattr(value, "item") else value
    return permitted(os.fsdecode(item))


# Behind it come 16 digits.
_TEMPORARY = ".tempstate"
_is_temporary = re.compile(rf".*{re.escape(_TEMPORARY)}[0-9a-f]{{16}}", re.DOTALL).fullmatch
# Within so many seconds a writer may not have its lock yet.
_ABANDONED_S = 60.0


class AtomicFile:
    """A file that appears under its name only once it is complete, and is on the disk.

    Use as a context manager: leaving it with an error drops what was written.  With publish=False
    it stays under its temporary name until `publish` is called, or is dropped by `discard`.

    Args:
      check: called before the file gets its name; may raise, to stop.
    """

    def __init__(
        self, path: str, publish: bool = True, check: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self._check = check
        self._temporary = f"{permitted(path)}{_TEMPORARY}{uuid.uuid4().hex[:16]}"
        self._file: BinaryIO | None = None
        self._publish = publish

    def __enter__(self) -> AtomicFile:
        with file_errors("write", self.path):
            self._file = open_file(self._temporary, "wb", 1 << 16)
            with contextlib.suppress(OSError):  # not all file systems have locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Append data.  Raises: ResourceExhaustedError on a full disk, and the like."""
        assert self._file is not None
        with file_errors("write", self.path):
            self._file.write(data)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self._complete()
            if self._publish:
                self.publish(self.path)
        except BaseException:
            self.discard()
            raise

    def _complete(self) -> None:
        """Bring all of the file to the disk, so that a machine that stops loses nothing of it."""
        assert self._file is not None
        with file_errors("write", self.path), self._file as file:
            file.flush()
            os.fsync(file.fileno())

    def publish(self, path: str) -> None:
        """Give the file its name, in place of any other file that has it."""
        self._check()
        with file_errors("write", path):
            os.replace(self._temporary, permitted(path))
            sync_directory(os.path.dirname(path))

    def discard(self) -> None:
        """Drop the file, unless it was published."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def remove_abandoned(directory: str) -> None:
    """Delete what writers that were killed left in a directory under temporary names.

    A writer that lives holds the lock of its file.
    """
    for path in glob.glob(os.path.join(glob.escape(directory), f"*{_TEMPORARY}*")):
        with contextlib.suppress(OSError):
            if not _is_temporary(path) or clock.wall_s() - os.stat(path).st_mtime < _ABANDONED_S:
                continue
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)


def sync_directory(path: str) -> None:
    """Bring the names in a directory to the disk, where the file system can."""
    with contextlib.suppress(OSError):
        directory = os.open(path or os.curdir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
