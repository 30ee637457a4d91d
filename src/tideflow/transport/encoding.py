"""Messages as bytes, up to what a peer can read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from tideflow.blocking import LONG_BYTES, MESSAGES, run_blocking
from tideflow.transport.service import HoldsGraphs
from tideflow.wire import errors
from tideflow.wire.fields import Buffer
from tideflow.wire.parted import can_be_parted, parse, work_to_read
from tideflow.wire.work import PROTOBUF_BYTES

T = TypeVar("T")

# Protobuf writes more, but reads no more than this.
MOST_MESSAGE_BYTES = 2**31 - 1


def serialize(message: Message, path: str) -> bytes:
    """Return the bytes of a request or response of the method at `path`.

    Raises: ResourceExhaustedError for more than a peer can read.
    """
    data = message.SerializeToString()
    require_readable(message, len(data), path)
    return data


async def written(
    message: Message,
    path: str,
    write: Callable[[Message, str], T],
    holds_graphs: HoldsGraphs = False,
) -> T:
    """Return what write makes of a request or response of the method at `path`; the loop goes on
    while it writes a graph, or much that has to be copied.

    Raises: what write raises.
    """
    holds_graph = holds_graphs(message) if callable(holds_graphs) else holds_graphs
    if holds_graph or takes_long_to_write(message):
        return await run_blocking(MESSAGES, lambda _: write(message, path))
    return write(message, path)


def takes_long_to_write(message: Message) -> bool:
    """Whether to write a message may keep the loop from everything else.

    A class that stands for a message may offer `work_to_write() -> int`, in bytes to copy.
    """
    work: Any = getattr(type(message), "work_to_write", None)
    return work is not None and work(message) > LONG_BYTES


def reader_of(message_type: type[Message]) -> tuple[Callable[[Buffer], Any], bool]:
    """Return what makes messages out of bytes, and whether these may keep views of the bytes.

    A class of ours that stands for a message may keep them; so do messages with large tensors.
    """
    if can_be_parted(message_type):
        return functools.partial(parse, message_type), True
    read: Any = message_type.FromString
    return read, not issubclass(message_type, Message)


def work_of_reading(message_type: type[Message]) -> Callable[[Buffer], int]:
    """Return what tells as how many bytes the work counts that reads a large message.

    A class that stands for a message may offer `work_to_read(data) -> int`; one that does not only
    views what it reads.
    """
    if can_be_parted(message_type):
        return functools.partial(work_to_read, message_type)
    work: Callable[[Buffer], int] | None = getattr(message_type, "work_to_read", None)
    if work is not None:
        return work
    each = PROTOBUF_BYTES if issubclass(message_type, Message) else 0
    return lambda data: each * len(data)


def require_readable(message: Message, size: int, path: str) -> None:
    """Refuse a message of this size if no peer can read it; errors as in `serialize`."""
    if size > MOST_MESSAGE_BYTES:
        raise errors.ResourceExhaustedError(
            f"the {type(message).__name__} of {path} has {size} bytes; a message has at most"
            f" {MOST_MESSAGE_BYTES}. Feed, fetch or send less at once, for example a tensor in"
            " several parts, and keep large constants in variables"
        )
