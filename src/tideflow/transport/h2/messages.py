"""Messages in the bodies of calls: cut out of DATA as it arrives, and put before it on the way out.

A large message is received into memory made for the whole of it, by the socket itself where the
caller asks for `room`.  Memory of messages that protobuf has parsed is used again: fresh pages cost
more than the transfer.
Source: gRPC over HTTP/2 (Length-Prefixed-Message)
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from google.protobuf.message import Message

from tideflow.blocking import LONG_BYTES, MESSAGES, run_blocking
from tideflow.formats import inflate
from tideflow.runtime.memory import FreeMemory, Lender
from tideflow.transport.encoding import reader_of, require_readable, serialize, work_of_reading
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.shared_memory import DESCRIPTOR_BYTES
from tideflow.wire import errors
from tideflow.wire.room import require_room

_PREFIX = struct.Struct(">BI")
PREFIX_BYTES = _PREFIX.size
# From this size on a message gets memory of its own before it is complete.
LARGE_BYTES = 64 * 1024
MOST_MESSAGE_BYTES = 2**32 - 1
# Smaller ones are read in a moment, whatever they hold.
_LOOKED_INTO_BYTES = 256 * 1024

# What the byte before a message says: as it is, compressed, or in shared memory (between tideflow
# peers only; see shared_memory_link.py).
COMPRESSED, SHARED = 1, 2

# A few KiB may expand to GiBs: without a limit of the caller's, this is the most.
_MOST_EXPANDED_BYTES = 256 << 20
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


# One for the process: servers and channels see the same sizes.
_POOL: FreeMemory[bytearray] = FreeMemory()
_LENDER = Lender()
# In a fork's child: a thread that it does not have may have been within, with the lock.
os.register_at_fork(after_in_child=_POOL.reset)
os.register_at_fork(after_in_child=_LENDER.reset)


def lend_memory(size: int) -> memoryview:
    """Return aligned memory of so many bytes, used again when nothing views it any more."""
    return _LENDER.lend(size)


def parts_of(message: Message, path: str) -> list[Buffer]:
    """Return a message of the method at `path` as it travels: its prefix and its bytes.

    A class that stands for a message may offer `SerializeToParts() -> list of buffers`, to be sent
    without joining them.
    Raises: ResourceExhaustedError for more than a peer can read.
    """
    to_parts = getattr(message, "SerializeToParts", None)
    if to_parts is None:
        data = serialize(message, path)
        return [b"\x00" + len(data).to_bytes(4, "big"), data]
    parts = [memoryview(part).cast("B") for part in to_parts()]
    size = sum(map(len, parts))
    require_readable(message, size, path)
    return [b"\x00" + size.to_bytes(4, "big"), *parts]


class Packed:
    """A compressed message as it came.

    Args:
      encoding: how it is compressed, as `grpc-encoding` says.
      most_bytes: how large it may be.
    """

    __slots__ = ("_data", "_encoding", "_most_bytes")

    def __init__(self, data: Buffer, encoding: str, most_bytes: int) -> None:
        self._data = data
        self._encoding = encoding
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._data)

    def unpack(self) -> Buffer:
        """Return the message, which takes long if it is large.

        Raises: OpError for one that is too large or cannot be decompressed.
        """
        bits = _WINDOW_BITS.get(self._encoding)
        if bits is None:
            raise errors.InternalError(
                f"a message is marked as compressed, but grpc-encoding is {self._encoding!r}"
            )
        inflater = zlib.decompressobj(bits)
        most = self._most_bytes if self._most_bytes < MOST_MESSAGE_BYTES else _MOST_EXPANDED_BYTES
        try:
            found = inflate(inflater, self._data, most)
        except zlib.error as error:
            raise errors.InternalError(f"a message cannot be decompressed: {error}") from None
        if len(found) > most:
            del found  # the error's traceback would hold it
            raise errors.ResourceExhaustedError(
                f"a decompressed message is larger than max ({most} bytes)"
            )
        if not inflater.eof:
            raise errors.InternalError("a compressed message is cut short")
        return found


# What came of a message: its bytes, or what they are packed in.
MessageData: TypeAlias = "Buffer | Packed"


async def unpacked(data: MessageData) -> Buffer:
    """Return the bytes of a message; the loop goes on while it is decompressed.

    Raises: as Packed.unpack.
    """
    if type(data) is Packed:
        return await run_blocking(MESSAGES, lambda _: data.unpack())
    return data  # type: ignore[return-value]


async def parsed(
    parser: Parser, data: MessageData, parse: Callable[[MessageData], Message]
) -> Message:
    """Return what parse makes of a message of the parser's class; the loop goes on meanwhile.

    Raises: as Packed.unpack and parse.
    """
    data = await unpacked(data)
    if not parser.takes_long(data):
        return parse(data)
    return await run_blocking(MESSAGES, lambda _: parse(data))


class Parser:
    """Makes messages of one class out of received bytes."""

    def __init__(self, message_type: type[Message], pool: FreeMemory[bytearray] = _POOL) -> None:
        self._pool = pool
        self._from_string, keeps = reader_of(message_type)
        # Protobuf copies out of what it parses.
        self._copies = not keeps
        self._work = work_of_reading(message_type)

    def takes_long(self, data: MessageData) -> bool:
        """Whether to parse a message would keep the loop from everything else."""
        if isinstance(data, Packed):
            return True
        return len(data) >= _LOOKED_INTO_BYTES and self._work(data) > LONG_BYTES

    def parse(self, data: MessageData) -> Message:
        """Return the message.

        Raises: DecodeError for bytes that are none; as Packed.unpack.
        """
        if isinstance(data, Packed):
            data = data.unpack()
        if self._copies and type(data) is memoryview:
            # Protobuf would copy it as well, but into fresh memory.
            data = self._copied(data)
        message: Message = self._from_string(data)
        if self._copies and type(data) is bytearray:
            self._pool.give(len(data), data)
        return message

    def _copied(self, data: memoryview) -> bytearray:
        copy = self._pool.take(len(data)) or bytearray(len(data))
        np.copyto(np.frombuffer(copy, np.uint8), np.frombuffer(data, np.uint8))
        return copy

    def allocate(self, size: int) -> bytearray | memoryview:
        """Return memory for a large message, which `parse` gets then.

        The kernel gives pages to fresh memory as it is written to, so that a peer which promises a
        message and sends none gets none; a new bytearray would be filled at once.
        """
        pooled = self._pool.take(size) if self._copies else None
        return _LENDER.lend(size) if pooled is None else pooled


class Assembler:
    """Cuts one direction of one call into messages.

    Attributes:
      encoding: how messages marked as compressed are compressed.
      view_shared: returns the message (of so many bytes at most) that a descriptor tells of; None
        where none may come.
    """

    __slots__ = ("_at", "_flag", "_head", "_into", "_most_bytes", "_parser", "_view",
                 "encoding", "view_shared")  # fmt: skip

    def __init__(self, parser: Parser, most_bytes: int | None) -> None:
        self._parser = parser
        self._most_bytes = MOST_MESSAGE_BYTES if most_bytes is None else most_bytes
        self._head = b""
        self._into: bytearray | memoryview | None = None
        self._view: memoryview | None = None
        self._at = 0
        self._flag = 0
        self.encoding = "identity"
        self.view_shared: Callable[[Buffer, int], memoryview] | None = None

    @property
    def is_between(self) -> bool:
        """Whether no message is half received."""
        return self._view is None and not self._head

    def feed(self, data: Buffer) -> list[MessageData]:
        """Take a piece of the body; return the messages that it completes.

        Raises: OpError for a message that is too large.
        """
        size = len(data)
        if (
            self._view is None
            and not self._head
            and size >= PREFIX_BYTES
            and not data[0]
            and int.from_bytes(data[1:PREFIX_BYTES], "big") == size - PREFIX_BYTES
            and size - PREFIX_BYTES <= self._most_bytes
            and size < LARGE_BYTES
        ):
            return [bytes(data[PREFIX_BYTES:])]
        return self._feed(memoryview(data))

    def _feed(self, data: memoryview) -> list[MessageData]:
        done: list[MessageData] = []
        at = 0
        while True:
            if self._view is None and not self._head:
                at = self._take_small(data, at, done)
            if self._view is None:
                need = PREFIX_BYTES - len(self._head)
                self._head += bytes(data[at : at + need])
                at += need
                if len(self._head) < PREFIX_BYTES:
                    return done
                self._begin()
                assert self._view is not None
            piece = data[at : at + len(self._view) - self._at]
            self._view[self._at : self._at + len(piece)] = piece
            at += len(piece)
            complete = self.filled(len(piece))
            if complete is None:
                return done
            done.append(complete)

    def _take_small(self, data: memoryview, at: int, done: list[MessageData]) -> int:
        """Take the plain small messages that are whole in data; return where they end."""
        most = min(self._most_bytes, LARGE_BYTES - 1)
        end = len(data)
        while end - at >= PREFIX_BYTES:
            flag, size = _PREFIX.unpack_from(data, at)
            begin = at + PREFIX_BYTES
            if flag or size > most or end - begin < size:
                break
            at = begin + size
            done.append(bytes(data[begin:at]))
        return at

    def _begin(self) -> None:
        size = int.from_bytes(self._head[1:], "big")
        flag, self._head = self._head[0], b""
        if flag > (COMPRESSED if self.view_shared is None else SHARED):
            raise errors.InternalError(f"a message begins with {flag}, not 0 or 1")
        if flag == SHARED and size != DESCRIPTOR_BYTES:
            raise errors.InternalError(
                f"a place in shared memory was named in {size} bytes, not {DESCRIPTOR_BYTES}"
            )
        if size > self._most_bytes:
            raise errors.ResourceExhaustedError(
                f"a received message is larger than max ({size} vs. {self._most_bytes} bytes)"
            )
        self._flag = flag
        self._at = 0
        require_room(size, "a message that comes")
        try:
            if size < LARGE_BYTES:
                self._into = np.empty(size, np.uint8).data if size else bytearray()
            else:
                self._into = _LENDER.lend(size) if flag else self._parser.allocate(size)
        except MemoryError:
            raise errors.ResourceExhaustedError(f"no memory for {size} bytes") from None
        self._view = memoryview(self._into)

    def room(self) -> memoryview | None:
        """Return where the rest of the message being received belongs."""
        return None if self._view is None else self._view[self._at :]

    def filled(self, count: int) -> MessageData | None:
        """Take note of bytes put into `room`; return the message if it is complete."""
        self._at += count
        view, into = self._view, self._into
        assert view is not None
        assert into is not None
        if self._at < len(view):
            return None
        self._view = self._into = None
        if self._flag == COMPRESSED:
            return Packed(into, self.encoding, self._most_bytes)
        if self._flag == SHARED and self.view_shared is not None:
            return self.view_shared(into, self._most_bytes)
        if len(into) < LARGE_BYTES:
            return bytes(into)
        if isinstance(into, memoryview):
            return into
        view.release()
        return into
