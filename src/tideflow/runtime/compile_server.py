"""The process that compiles for all programs of a user on a host, one region after the other.

    python -m tideflow.runtime.compile_server FOLDER NAME IDLE_S

It reads keys from a FIFO in the folder of executables, which is its user's alone, and finds what
is to be compiled under each key in a file.  What it makes it keeps there; who asks takes it
from there, as the next one does that wants the same.  It ends when nobody has asked for a
while; another one then starts when it is needed (`compile_client`).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import select
import signal
import sys
from pathlib import Path

from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jit_cache import ExecutableFolder
from tideflow.runtime.jit_compile import compile_request

_LOGGER = logging.getLogger(__name__)

_MOST_BYTES = 1 << 16
_KEY = re.compile("[0-9a-f]{64}")


def serve(folder: ExecutableFolder, fifo: Path, idle_s: float) -> None:
    """Compile what is asked for until nobody has asked for so many seconds."""
    asked = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    # Without a writer of our own the FIFO would be at its end whenever nobody else has it open.
    kept_open = os.open(fifo, os.O_WRONLY)
    load_jax()
    ready = select.poll()
    ready.register(asked, select.POLLIN)
    try:
        while ready.poll(idle_s * 1000):
            for key in os.read(asked, _MOST_BYTES).decode("ascii", "replace").split():
                answer(folder, key)
    finally:
        os.close(kept_open)
        os.close(asked)


def answer(folder: ExecutableFolder, key: str) -> None:
    """Compile what is asked for under a key; who asked looks whether the request is gone."""
    if not _KEY.fullmatch(key):
        return
    request = folder.find_request(key)
    try:
        if request is not None and not folder.has(key):
            folder.keep(key, compile_request(request))
    except Exception:  # whatever a compiler raises: who asked finds nothing, and sees to it
        _LOGGER.debug("a request fails", exc_info=True)
    finally:
        folder.drop_request(key)


def _step_back() -> None:
    """Let what wakes up go first: the processes of a step, which wake each other all the time.

    Who started this may have a priority of its own, which is not ours.
    """
    if hasattr(os, "sched_setscheduler"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main(arguments: list[str]) -> None:
    """Serve a folder, unless another process does so already."""
    # Who started the program interrupts the program alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _step_back()
    os.chdir("/")  # whose folder it was started in may want to remove that
    path, name, idle_s = Path(arguments[0]), arguments[1], float(arguments[2])
    fifo, lock = path / f"{name}.fifo", path / f"{name}.lock"
    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        held.truncate(0)
        held.write(f"{os.getpid()}\n")
        held.flush()
        with contextlib.suppress(FileExistsError):
            os.mkfifo(fifo, 0o600)
        try:
            serve(ExecutableFolder(path), fifo, idle_s)
        finally:
            fifo.unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
