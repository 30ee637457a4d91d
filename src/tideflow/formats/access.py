"""Which files graphs may reach: all of the user, or those beneath some folders.

Rule 1: what a graph names goes through `permitted`, what is opened through `open_file`.
Rule 2: where there are folders (Settings.file_roots), a file is opened step by step from its
        folder, following no link: nothing that is put in its way meanwhile leads elsewhere.
Rule 3: there, only regular files are opened: no device, no pipe, no socket.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TypeVar, cast

from tideflow.platform.settings import NO_FILES, process_settings
from tideflow.wire import errors

AnyPath = TypeVar("AnyPath", str, bytes)


def _roots() -> tuple[str, ...] | None:
    """Return the folders that there are, without links; None where all files may be reached."""
    given = process_settings().file_roots
    if not given:
        return None
    if given == NO_FILES:
        return ()
    return tuple(os.path.realpath(one) for one in given.split(os.pathsep))


def permitted(path: str) -> str:
    """Return where a file is that a graph names: the path itself, or one without links.

    Raises: PermissionDeniedError for one that graphs may not reach.
    """
    roots = _roots()
    if roots is None:
        return path
    found, _ = _beneath(path, roots)
    # Whoever asks for what lies in a folder says so by its end.
    return found + os.sep if path.endswith(os.sep) else found


def _beneath(path: str, roots: tuple[str, ...]) -> tuple[str, str]:
    """Return a path without links, and the folder beneath which it is."""
    if "\0" in path:
        raise errors.InvalidArgumentError(f"{path!r} is no name of a file")
    found = os.path.realpath(path)
    for root in roots:
        if found == root or found.startswith(root.rstrip(os.sep) + os.sep):
            return found, root
    among = f"beneath {', '.join(roots)}" if roots else "none"
    raise errors.PermissionDeniedError(
        f"graphs may not reach {path} here: of files they may reach {among}; start the server with"
        " --file-root DIR (in a program: TIDEFLOW_FILE_ROOTS=DIR), or with --file-root / for all"
    )


def open_file(path: str, mode: str = "rb", buffering: int = -1) -> BinaryIO:
    """Open a file as `open` does, in a binary mode.

    Raises: OSError; PermissionDeniedError for one that graphs may not reach.
    """
    return cast(BinaryIO, open(path, mode, buffering, opener=_open))


def _open(path: str, flags: int) -> int:
    roots = _roots()
    if roots is None:
        return os.open(path, flags, 0o666)
    found, root = _beneath(path, roots)
    *folders, name = os.path.relpath(found, root).split(os.sep)
    with contextlib.ExitStack() as held:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held.callback(os.close, at)
        for folder in folders:
            step = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            at = os.open(folder, step, dir_fd=at)
            held.callback(os.close, at)
        # A pipe or a device would let the call wait.
        kept = flags & ~os.O_TRUNC
        made = os.open(name, kept | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, 0o666, dir_fd=at)
    mode = os.fstat(made).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        os.close(made)
        raise errors.PermissionDeniedError(f"graphs may not reach {path} here: it is no file")
    if flags & os.O_TRUNC:
        os.ftruncate(made, 0)
    return made


def matching(pattern: AnyPath) -> list[AnyPath]:
    """Return the names that match a pattern, without those that graphs may not reach.

    Raises: PermissionDeniedError where the pattern begins in a folder that they may not reach.
    """
    if _roots() is None:
        return glob.glob(pattern, include_hidden=True)
    fixed = os.fsdecode(pattern)
    for mark in "*?[":
        fixed = fixed.partition(mark)[0]
    permitted(os.path.dirname(fixed) or os.curdir)
    return list(_permitted_ones(glob.iglob(pattern, include_hidden=True)))


def _permitted_ones(paths: Iterable[AnyPath]) -> Iterator[AnyPath]:
    for path in paths:
        with contextlib.suppress(errors.PermissionDeniedError):
            permitted(os.fsdecode(path))
            yield path
