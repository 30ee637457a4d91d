"""Tensors of messages, decoded beside the event loop where that takes long.

Contents of numbers are viewed where they lie.  All else is made or looked at element by element,
and a message of a few bytes may hold a tensor of any size: one value stands for all its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tideflow.blocking import MESSAGES, run_blocking
from tideflow.wire import messages as pb

T = TypeVar("T")

# To fill, or look at, so many elements takes about as long as a change of threads.
_LONG_ELEMENTS = 1 << 18


def takes_long(tensors: Iterable[pb.TensorProto]) -> bool:
    """Whether to decode tensors may keep the loop from everything else."""
    left = _LONG_ELEMENTS
    for tensor_pb in tensors:
        count = 1
        for dim in tensor_pb.tensor_shape.dim:
            count *= dim.size
        left -= count
    return left < 0


async def decoded(tensors: Iterable[pb.TensorProto], decode: Callable[[], T]) -> T:
    """Return what decode makes of tensors.  Raises: what it raises."""
    if takes_long(tensors):
        return await run_blocking(MESSAGES, lambda _: decode())
    return decode()
