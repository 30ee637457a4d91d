"""One chief for one checkpoint directory.

Two processes that save to one directory, and initialize or restore the same variables, undo each
other's work without a word.  So a chief locks a file there.

Rule 1: the lock is the kernel's (fcntl): it goes with its process, however that ends, so a chief
        that was killed can come back at once; and it is not inherited by what the chief started.
Rule 2: one process may lock a directory several times, as notebooks do.
Rule 3: the file goes when the lock is let go; whoever locks one that has gone begins again.
Rule 4: where files cannot be locked, or are not on a file system at all, nothing is.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import socket
import time
import weakref
from dataclasses import dataclass
from typing import TextIO

from tideflow.platform import clock
from tideflow.runtime.deferring_lock import DeferringLock
from tideflow.train.threads.waiting import RetryPauses
from tideflow.wire import errors

try:
    import fcntl
except ImportError:  # no such thing on Windows
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "chief.lock"

# A chief that was asked to end may be saving its last checkpoint.
HANDOVER_S = 5.0
_TAKEN = (errno.EACCES, errno.EAGAIN)


@dataclass
class _Held:
    file: TextIO
    count: int = 0


_held: dict[str, _Held] = {}
_mutex = DeferringLock()


class ChiefLock:
    """A claim on a checkpoint directory, until `release` or the end of this object.

    Args:
      directory: is made if it is not there.
      handover_s: how long another chief may take to end.
    Raises: FailedPreconditionError that names the other process.
    """

    def __init__(self, directory: str, handover_s: float | None = None) -> None:
        handover_s = HANDOVER_S if handover_s is None else handover_s
        self._path = os.path.join(os.path.realpath(directory), FILE_NAME)
        is_locked = fcntl is not None and "://" not in directory and _lock(self._path, handover_s)
        self._unlock = weakref.finalize(self, _let_go_soon, self._path) if is_locked else None

    def release(self) -> None:
        """Let others be chief; a second release does nothing."""
        if self._unlock is not None and self._unlock.detach() is not None:
            with _mutex:
                _let_go(self._path)


def _lock(path: str, handover_s: float) -> bool:
    """Lock a file; False where that is not possible.  Raises: as ChiefLock."""
    pauses = RetryPauses("another chief to end", handover_s, longest_pause_s=0.5)
    while True:
        with _mutex:
            held = _held.get(path) or _open(path)
            if held is None:
                return False
            if held.count or _is_lockable(held.file):
                if not _is_at(held.file, path):
                    held.file.close()
                    continue
                held.count += 1
                _held[path] = held
                return True
            holder = _holder(held.file)
            held.file.close()
        if not pauses.pause(f"{holder} holds {path}"):
            raise errors.FailedPreconditionError(
                f"{os.path.dirname(path)} has a chief already: {holder}. Two chiefs would "
                "overwrite each other's variables and checkpoints. End the other one, make this "
                "task a worker (is_chief=False), or give it a checkpoint directory of its own"
            )


def _open(path: str) -> _Held | None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return _Held(os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+"))
    except OSError:
        # What cannot be written will be told of by the first checkpoint.
        return None


def _is_lockable(file: TextIO) -> bool:
    """Lock a file and say whose it is; False where another process has it."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # File systems without locks answer otherwise; then there is nothing to be had.
        return error.errno not in _TAKEN
    file.seek(0)
    file.truncate()
    task = _task()
    facts = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "task": task,
        "since": clock.wall_s(),
    }
    file.write(json.dumps(facts) + "\n")
    file.flush()
    return True


def _is_at(file: TextIO, path: str) -> bool:
    """Whether a file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _task() -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        return f"{task['type']}:{task['index']}"
    return ""


def _holder(file: TextIO) -> str:
    """Say whose lock it is, as far as the file tells."""
    try:
        file.seek(0)
        facts = json.loads(file.read())
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts["since"]))
        task = f", task {facts['task']}" if facts["task"] else ""
        return f"process {facts['pid']} on {facts['host']}{task}, since {since}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _let_go_soon(path: str) -> None:
    """Let go from a finaliser."""
    _mutex.run_when_free(functools.partial(_let_go, path))


def _let_go(path: str) -> None:
    """Let go, with `_mutex` held."""
    held = _held.get(path)
    if held is None:
        return
    held.count -= 1
    if not held.count:
        del _held[path]
        with contextlib.suppress(OSError):
            os.unlink(path)
        held.file.close()
