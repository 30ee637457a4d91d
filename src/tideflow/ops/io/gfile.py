"""tf.io.gfile: files and directories of this machine, at once, with the protocol's errors.

Source: tensorflow/python/lib/io/file_io.py.
"""

from __future__ import annotations

import glob as globbing
import os
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

from tideflow.formats import file_errors
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire import errors

_MODES = ("r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "rb+", "wb+", "ab+")


class FileStatistics(NamedTuple):
    """What is known of a file: its size in bytes, when it changed, whether it is a directory."""

    length: int
    mtime_nsec: int
    is_directory: bool


@export_v2("io.gfile.GFile")
class GFile:
    """A file, opened when it is first read or written; a context manager that closes it.

    Args:
      mode: as of Python's open: r, w or a, with b for bytes and + for both ways.
    Raises: InvalidArgumentError for another mode; NotFoundError and others when it is used.
    """

    def __init__(self, name: str, mode: str = "r") -> None:
        if mode not in _MODES:
            raise errors.InvalidArgumentError(f"mode {mode!r} is none of {', '.join(_MODES)}")
        self.name, self.mode = os.fspath(name), mode
        self._file: Any = None

    def _opened(self) -> Any:
        if self._file is None:
            encoding = None if "b" in self.mode else "utf-8"
            with file_errors("open", os.fsdecode(self.name)):
                self._file = open(self.name, self.mode, encoding=encoding)  # noqa: SIM115
        return self._file

    def _reading(self) -> Any:
        if "r" not in self.mode and "+" not in self.mode:
            raise errors.PermissionDeniedError("the file was not opened for reading")
        return self._opened()

    def read(self, n: int = -1) -> Any:
        """Return n characters or bytes, or all that are left."""
        return self._reading().read(n)

    def readline(self) -> Any:
        """Return the next line, with its end; nothing at the end of the file."""
        return self._reading().readline()

    def readlines(self) -> list[Any]:
        """Return all lines that are left."""
        return list(self._reading().readlines())

    def write(self, file_content: TensorLike) -> None:
        """Write text, or bytes."""
        if self.mode in ("r", "rb"):
            raise errors.PermissionDeniedError("the file was not opened for writing")
        with file_errors("write", os.fsdecode(self.name)):
            self._opened().write(file_content)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Go to a place, from the beginning (whence 0), from here (1) or from the end (2)."""
        self._opened().seek(position if offset is None else offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return int(self._opened().tell())

    def size(self) -> int:
        """Return the size in bytes."""
        return stat(self.name).length

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._file is not None:
            with file_errors("write", os.fsdecode(self.name)):
                self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with file_errors("close", os.fsdecode(self.name)):
                self._file.close()
            self._file = None

    def seekable(self) -> bool:
        """Return True: places can be gone to."""
        return True

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._reading())


@export_v2("io.gfile.exists")
def exists(path: Any) -> bool:
    """Whether there is a file or directory."""
    return os.path.exists(path)


@export_v2("io.gfile.isdir")
def isdir(path: Any) -> bool:
    """Whether there is a directory."""
    return os.path.isdir(path)


@export_v2("io.gfile.join")
def join(path: Any, *paths: Any) -> Any:
    """Return a path of parts."""
    return os.path.join(path, *paths)


@export_v2("io.gfile.listdir")
def listdir(path: Any) -> list[str]:
    """Return the names in a directory.  Raises: NotFoundError where there is none."""
    if not os.path.isdir(path):
        raise errors.NotFoundError(f"there is no directory {os.fspath(path)}")
    with file_errors("list", os.fsdecode(path)):
        return os.listdir(path)


@export_v2("io.gfile.glob")
def glob(pattern: Any) -> list[str]:
    """Return the files that match a pattern, or any of several, sorted."""
    patterns = pattern if isinstance(pattern, (list, tuple)) else [pattern]
    return [name for one in patterns for name in sorted(globbing.glob(os.fspath(one)))]


@export_v2("io.gfile.mkdir")
def mkdir(path: Any) -> None:
    """Make a directory; its parent must be there."""
    with file_errors("make directory", os.fsdecode(path)):
        os.mkdir(path)


@export_v2("io.gfile.makedirs")
def makedirs(path: Any) -> None:
    """Make a directory, and those that lead to it; no error where it is there."""
    with file_errors("make directory", os.fsdecode(path)):
        os.makedirs(path, exist_ok=True)


@export_v2("io.gfile.remove")
def remove(path: Any) -> None:
    """Delete a file.  Raises: NotFoundError where there is none."""
    with file_errors("delete", os.fsdecode(path)):
        os.remove(path)


@export_v2("io.gfile.rmtree")
def rmtree(path: Any) -> None:
    """Delete a directory with all that is in it.  Raises: NotFoundError where there is none."""
    with file_errors("delete", os.fsdecode(path)):
        shutil.rmtree(path)


def _check_free(path: Any, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(f"{os.fspath(path)} is there, and overwrite is False")


@export_v2("io.gfile.copy")
def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.  Raises: AlreadyExistsError where dst is there, unless overwrite."""
    _check_free(dst, overwrite)
    with file_errors("copy", os.fsdecode(src)):
        shutil.copyfile(src, dst)


@export_v2("io.gfile.rename")
def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename a file.  Raises: AlreadyExistsError where dst is there, unless overwrite."""
    _check_free(dst, overwrite)
    with file_errors("rename", os.fsdecode(src)):
        os.replace(src, dst)


@export_v2("io.gfile.stat")
def stat(path: Any) -> FileStatistics:
    """Return what is known of a file.  Raises: NotFoundError where there is none."""
    with file_errors("look at", os.fsdecode(path)):
        found = os.stat(path)
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(path))


@export_v2("io.gfile.walk")
def walk(
    top: Any, topdown: bool = True, onerror: Any = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield directories under a path: each with the names of those in it, and of its files."""
    for path, directories, files in os.walk(top, topdown, onerror):
        yield path, sorted(directories), sorted(files)


@export("io.gfile.get_registered_schemes")
def get_registered_schemes() -> list[str]:
    """Return the schemes that names of files may begin with: those of the local file system."""
    return ["file", ""]
