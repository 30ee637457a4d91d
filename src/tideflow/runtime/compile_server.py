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


def serve(folder: ExecutableFolder, fifo: RequestFifo, idle_s: float) -> None:
    """Compile what is asked for until nobody has asked for so many seconds."""
    load_jax()
    ready = select.poll()
    ready.register(fifo.asked, select.POLLIN)
    while ready.poll(idle_s * 1000):
        for key in os.read(fifo.asked, _MOST_BYTES).decode("ascii", "replace").split():
            answer(folder, key)


class RequestFifo:
    """The FIFO of the one process that serves a folder under a name.

    Raises: BlockingIOError where another process has it; OSError where there can be none.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._fifo, self._lock = path / f"{name}.fifo", path / f"{name}.lock"
        self._held = self._take_lock()
        with contextlib.suppress(FileExistsError):
            os.mkfifo(self._fifo, 0o600)
        self.asked = os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
        # Without a writer of our own the FIFO would be at its end whenever nobody else has it open.
        self._kept_open = os.open(self._fifo, os.O_WRONLY)

    def _take_lock(self) -> int:
        while True:
            held = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # One that ended may have removed the file before it was locked.
                if os.path.samestat(os.fstat(held), self._lock.stat()):
                    return held
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(held)
                raise
            os.close(held)

    def note_process(self) -> None:
        """Say which process serves."""
        os.ftruncate(self._held, 0)
        os.write(self._held, f"{os.getpid()}\n".encode())

    def remove(self) -> None:
        """Leave the name to the next process."""
        self._fifo.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)


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


def main(arguments: list[str], *, is_detached: bool = False) -> None:
    """Serve a folder, unless another process does so already.

    is_detached: in a process of its own, once it is known that one can.
    """
    path, name, idle_s = Path(arguments[0]), arguments[1], float(arguments[2])
    try:
        fifo = RequestFifo(path, name)
    except BlockingIOError:
        return
    if is_detached and os.fork():
        os._exit(0)
    try:
        fifo.note_process()
        # Who started the program interrupts the program alone; its thread may take no signals.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _step_back()
        os.chdir("/")  # whose folder it was started in may want to remove that
        serve(ExecutableFolder(path), fifo, idle_s)
    finally:
        fifo.remove()


if __name__ == "__main__":
    main(sys.argv[1:])
