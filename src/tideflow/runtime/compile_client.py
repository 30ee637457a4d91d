"""Has regions compiled by another process, so that steps go on meanwhile.

A step that shares its process with the compiler waits for the interpreter whenever that imports or
traces.  The server (`compile_server`) is one for all programs of the user on this host that run
this code; it is started when the first one needs it.  Where there is none, nothing is lost: who
asked compiles by itself.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import logging
import os
import platform
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import tideflow
from tideflow.platform import clock
from tideflow.runtime.jax_internals import compiler_key
from tideflow.runtime.jit_cache import ExecutableFolder, machine_and_code
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

_LOOK_MS = 10
# Importing takes a second, beside busy neighbours more.
_MOST_START_S = 30.0
# A server that nobody has asked for so long ends: it holds some hundred megabytes.
_IDLE_S = 15.0
# So long may a request take; then who asked compiles by itself, now and from now on.
_MOST_ANSWER_S = 60.0
# This package comes behind the standard library, and before other copies of it.
_START = """
import sys
root = sys.argv.pop(1)
others = (i for i, path in enumerate(sys.path) if path.endswith("-packages"))
sys.path.insert(next(others, len(sys.path)), root)
from tideflow.runtime.compile_server import main
main(sys.argv[1:], is_detached=True)
"""


# Folders for which no server could be started, or that of one that did not answer.
_given_up: set[Path] = set()


def may_serve(folder: ExecutableFolder) -> bool:
    """Whether there is a server for a folder, or may be one."""
    # An application may hold Python, and be started again under the name of the interpreter.
    is_python = Path(sys.executable or "").name.startswith("python") and not hasattr(sys, "frozen")
    has_means = is_python and hasattr(os, "mkfifo") and hasattr(os, "fork")
    # Who is the first process of a container would have to bury servers that have ended.
    return has_means and os.getpid() != 1 and folder.path not in _given_up


def compile_elsewhere(
    folder: ExecutableFolder, key: str, request: bytes, must_end: Callable[[], bool]
) -> bool:
    """Have a request compiled by the server; return whether what it made is in the folder.

    Raises: CancelledError once `must_end` says so; the server goes on, for the next program.
    """
    found = None
    try:
        for _ in range(2):  # a server that ends just now has not read what it was told
            found = _ask_server(folder, key, request, must_end)
            if found is not None:
                break
    except OSError:
        _LOGGER.debug("no other process compiles", exc_info=True)
    if not found:
        folder.drop_request(key)
    return bool(found)


def _ask_server(
    folder: ExecutableFolder, key: str, request: bytes, must_end: Callable[[], bool]
) -> bool | None:
    """Return whether what was made is in the folder; None where the server has ended."""
    line = _open_line(folder.path, must_end)
    if line is None:
        return False
    try:
        folder.ask(key, request)
        os.write(line, f"{key}\n".encode())
        ended = select.poll()
        ended.register(line, 0)  # that nobody reads any more is told in any case
        until = clock.monotonic_s() + _MOST_ANSWER_S
        while clock.monotonic_s() < until:
            has_ended = bool(ended.poll(_LOOK_MS))
            # The request goes after what was made of it is there.
            if not folder.has_request(key):
                return folder.has(key)
            if has_ended:
                return None
            _look(must_end)
    except BrokenPipeError:
        return None
    finally:
        os.close(line)
    _LOGGER.debug("the process that compiles does not answer")
    _given_up.add(folder.path)
    return False


def _open_line(path: Path, must_end: Callable[[], bool]) -> int | None:
    """Return the writing end of a server's FIFO; start a server where there is none."""
    name = server_name()
    line = _try_open(path / f"{name}.fifo")
    if line is not None:
        return line
    until = clock.monotonic_s() + _MOST_START_S
    if _start(path, name):
        while line is None and clock.monotonic_s() < until:
            select.poll().poll(_LOOK_MS)
            _look(must_end)
            line = _try_open(path / f"{name}.fifo")
    if line is None:
        _LOGGER.debug("no other process compiles: none could be started")
        _given_up.add(path)
    return line


def _try_open(fifo: Path) -> int | None:
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENXIO):  # there is none, or nobody reads
            _LOGGER.debug("a process that compiles cannot be asked", exc_info=True)
        return None


def _look(must_end: Callable[[], bool]) -> None:
    if must_end():
        raise errors.CancelledError("the program ends; nothing is compiled any more")


def _start(path: Path, name: str) -> bool:
    """Start a server, which is nobody's child; return whether that went well.

    One that is not needed, as there is one already, ends by itself.
    """
    root = str(Path(tideflow.__file__).parents[1])
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    # It compiles for others, too: what this program asks of jax holds for this program.
    env = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, given))
    # A GPU of jax's would be taken, with its memory, for code that runs on a CPU.
    env["JAX_PLATFORMS"] = "cpu"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _START, root, str(path), name, str(_IDLE_S)],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, check=False, timeout=_MOST_START_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@functools.cache
def server_name() -> str:
    """Return the name of servers that run this code on this machine, and so of their files.

    Several machines may share the folder; and no server takes the priority of its starter to
    programs that have another one.
    """
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        machine = platform.node()
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    parts = machine_and_code(), compiler_key(), sys.executable, sys.version, machine, niceness
    text = repr(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
