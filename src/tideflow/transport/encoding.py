"""Messages as bytes, up to what a peer can read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from tideflow.blocking import MESSAGES, run_blocking
from tideflow.transport.service import MethodSpec
from tideflow.wire import errors
from tideflow.wire.fields import Buffer
from tideflow.wire.parted import can_be_parted, parse

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


async def written(method: MethodSpec, message: Message, write: Callable[[Message, str], T]) -> T:
    """Return what write makes of a request; the loop goes on while it writes a graph.

    Raises: what write raises.
    """
    if method.sends_graphs:
        return await run_blocking(MESSAGES, lambda _: write(message, method.path))
    return write(message, method.path)


def reader_of(message_type: type[Message]) -> tuple[Callable[[Buffer], Any], bool]:
    """Return what makes messages out of bytes, and whether these may keep views of the bytes.

    A class of ours that stands for a message may keep them; so do messages with large tensors.
    """
    if can_be_parted(message_type):
        return functools.partial(parse, message_type), True
    read: Any = message_type.FromString
    return read, not issubclass(message_type, Message)


def require_readable(message: Message, size: int, path: str) -> None:
    """Refuse a message of this size if no peer can read it; errors as in `serialize`."""
    if size > MOST_MESSAGE_BYTES:
        raise errors.ResourceExhaustedError(
            f"the {type(message).__name__} of {path} has {size} bytes; a message has at most"
            f" {MOST_MESSAGE_BYTES}. Feed, fetch or send less at once, for example a tensor in"
            " several parts, and keep large constants in variables"
        )
