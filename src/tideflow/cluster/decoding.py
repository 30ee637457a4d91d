"""Tensors of messages, decoded and encoded beside the event loop where that takes long.

Contents of numbers are viewed where they lie.  All else is made or looked at element by element,
and a message of a few bytes may hold a tensor of any size: one value stands for all its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from tideflow.blocking import LONG_BYTES, MESSAGES, run_sized, writing_work
from tideflow.wire import messages as pb
from tideflow.wire.parted import MaybeParted, with_tensors
from tideflow.wire.tensor_codec import Value, reading_work

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def takes_long(
    tensors: Iterable[pb.TensorProto], contents: Mapping[int, memoryview] | None = None
) -> bool:
    """Whether to decode tensors may keep the loop from everything else.

    contents: those of large tensors that were kept apart, by position.
    """
    return _work(tensors, contents) > LONG_BYTES


def _work(tensors: Iterable[pb.TensorProto], contents: Mapping[int, memoryview] | None) -> int:
    apart = contents or {}
    return sum(reading_work(one, apart.get(position)) for position, one in enumerate(tensors))


async def decoded(
    tensors: Iterable[pb.TensorProto],
    decode: Callable[[], T],
    contents: Mapping[int, memoryview] | None = None,
    is_kept: bool = False,
) -> T:
    """Return what decode makes of tensors.

    is_kept: whether it copies the contents (decode_to_keep).
    Raises: what it raises.
    """
    work = _work(tensors, contents)
    if is_kept and contents:
        work += sum(map(len, contents.values()))
    return await run_sized(MESSAGES, work, decode)


def encoding_takes_long(values: Iterable[Value]) -> bool:
    """Whether to encode values may keep the loop from everything else."""
    return sum(map(writing_work, values)) > LONG_BYTES


async def encoded(message: M, named: Sequence[tuple[str, Value]]) -> MaybeParted[M]:
    """Return a message with tensors (see with_tensors)."""
    work = sum(writing_work(value) for _, value in named)
    return await run_sized(MESSAGES, work, lambda: with_tensors(message, named))
