"""Executables kept in a folder, for programs that start again (TIDEFLOW_JIT_CACHE).

Rule 1: what is loaded is code that runs, so the folder must be its user's alone to write.
Rule 2: a file carries a checksum; one that does not fit is as good as missing, and is written anew.
Rule 3: a file appears under its name when it is complete.
Rule 4: the folder is bounded; what was not used for longest goes first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import tideflow
from tideflow.platform import clock
from tideflow.platform.settings import process_settings

_LOGGER = logging.getLogger(__name__)
_MAGIC = b"tideflow executable 1\n"
_CHECKSUM_BYTES = 32
_FINISHED = ".tfx"
# A program that was killed leaves such a file behind.
_UNFINISHED = ".tfx-unfinished"
# What another process is to compile (compile_server).
_ASKED = ".tfx-asked"
_MOST_BYTES = 512 << 20
# Once there is more, the oldest go until this share of it is left.
_SHARE_LEFT = 0.75


class ExecutableFolder:
    """Files of a folder, by content keys.  It never raises: a cache that fails is an empty one.

    most_bytes: how much it may hold.
    level: at which it is logged that the folder cannot be used.
    """

    def __init__(
        self, path: Path, most_bytes: int = _MOST_BYTES, level: int = logging.WARNING
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._level = level

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def has(self, key: str) -> bool:
        """Whether something is kept under a key, damaged or not."""
        return self._file(key).exists()

    def find(self, key: str) -> bytes | None:
        """Return what was kept under a key, or None."""
        file = self._file(key)
        body = self._read(file)
        if body is not None:
            with contextlib.suppress(OSError):
                os.utime(file)
        return body

    def keep(self, key: str, body: bytes) -> None:
        """Keep bytes under a key."""
        self._write(self._file(key), body)
        self._make_room()

    def drop(self, key: str) -> None:
        """Keep nothing under a key."""
        with contextlib.suppress(OSError):
            self._file(key).unlink(missing_ok=True)

    def ask(self, key: str, request: bytes) -> None:
        """Say what is to be compiled, and kept under a key."""
        self._write(self._file(key, _ASKED), request)

    def has_request(self, key: str) -> bool:
        """Whether what is asked for under a key waits, or is being compiled."""
        return self._file(key, _ASKED).exists()

    def find_request(self, key: str) -> bytes | None:
        """Return what is asked for under a key, or None."""
        return self._read(self._file(key, _ASKED))

    def drop_request(self, key: str) -> None:
        """Note that a request is answered, as far as it can be."""
        with contextlib.suppress(OSError):
            self._file(key, _ASKED).unlink(missing_ok=True)

    def _read(self, file: Path) -> bytes | None:
        try:
            data = file.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _CHECKSUM_BYTES
        body = data[start:]
        if data[:start] != _MAGIC + hashlib.sha256(body).digest():
            _LOGGER.warning("%s is damaged; what it held is compiled again", file)
            return None
        return body

    def _write(self, file: Path, body: bytes) -> None:
        made = file.with_name(f"{file.stem}.{os.getpid()}-{threading.get_ident()}{_UNFINISHED}")
        try:
            made.write_bytes(_MAGIC + hashlib.sha256(body).digest() + body)
            made.replace(file)
        except OSError as error:
            _LOGGER.log(self._level, "compiled code is not kept in %s: %s", self._path, error)
            with contextlib.suppress(OSError):
                made.unlink()

    def _make_room(self) -> None:
        """Delete what was not used for longest, where there is too much."""
        found = sorted(self._files())
        total = sum(size for _, size, _ in found)
        if total <= self._most_bytes:
            return
        for _, size, path in found:
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._most_bytes * _SHARE_LEFT:
                return

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        """Give when each of our files was used last, its size, and its path."""
        for pattern in (f"*{_FINISHED}", f"*{_UNFINISHED}", f"*{_ASKED}"):
            for path in self._path.glob(pattern):
                with contextlib.suppress(OSError):
                    about = path.stat()
                    yield about.st_mtime_ns, about.st_size, path

    def _file(self, key: str, suffix: str = _FINISHED) -> Path:
        return self._path / f"{key}{suffix}"


def asked_folder() -> ExecutableFolder | None:
    """Return the folder that the process's settings name, made if need be; None without one."""
    given = process_settings().jit_cache
    if given == "off":
        return None
    if given == "auto":
        return _open_folder(str(user_folder()), logging.DEBUG)
    return _open_folder(given, logging.WARNING)


def user_folder() -> Path:
    """Return where executables are kept unless something else is said: in the user's own cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~", ".cache")
    return Path(caches, "tideflow", "compiled")


@functools.cache
def _open_folder(path: str, level: int) -> ExecutableFolder | None:
    """Return a folder, made if need be; None, and a message, where it cannot be used."""
    try:
        folder = Path(path).expanduser().absolute()
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        # Who may write to the folder above could put another one in its place.
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the home of the user
        _LOGGER.log(level, "TIDEFLOW_JIT_CACHE=%s is not used: %s", path, error)
        return None
    if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
        _LOGGER.warning(
            "TIDEFLOW_JIT_CACHE=%s is not used: code is loaded from it, so it must belong to you "
            "and nobody else may write to it (chmod go-w)", path
        )  # fmt: skip
        return None
    return ExecutableFolder(folder, level=level)


@functools.cache
def machine_and_code() -> str:
    """Return what executables depend on besides their regions: the processor and this package."""
    return code_key(Path(tideflow.__file__).parent, clock.LOADED_NS)


def code_key(package: Path, loaded_ns: int) -> str:
    """Return a key of the processor and a package's code.

    All modules count: what a region computes is decided in many of them.
    loaded_ns: when the process began to load the package.  Of one that was changed since, nobody
      knows which code it runs: its key is that of no other process.
    """
    code, changed_ns = _record(package) or _modules(package)
    of_its_own = secrets.token_hex() if changed_ns > loaded_ns else ""
    parts = platform.machine(), _processor_flags(), code, of_its_own
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _record(package: Path) -> tuple[object, int] | None:
    """Return the record of a package that was installed from a wheel, with hashes of its files,
    and when it was written.

    To look at each of some hundred files takes long beside steps that run: each call of the system
    lets the interpreter go.
    """
    found = list(package.parent.glob(f"{package.name}-*.dist-info/RECORD"))
    try:
        record = found[0].read_bytes() if len(found) == 1 else b""
        # That of an editable installation names none of the modules.
        if f"\n{package.name}/__init__.py,sha256=".encode() in b"\n" + record:
            return record, found[0].stat().st_mtime_ns
    except OSError:
        pass
    return None


def _modules(package: Path) -> tuple[object, int]:
    """Return path, size and time of each module, and the last of these times."""
    found = sorted(_walk(package, ""))
    return found, max((changed_ns for _, _, changed_ns in found), default=0)


def _walk(folder: Path, within: str) -> Iterator[tuple[str, int, int]]:
    """Give path, size and time of each module."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = within + entry.name
            if entry.is_dir():
                yield from _walk(folder / entry.name, name + "/")
            elif name.endswith(".py"):
                found = entry.stat()
                yield name, found.st_size, found.st_mtime_ns


def _processor_flags() -> str:
    try:
        with Path("/proc/cpuinfo").open() as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()
