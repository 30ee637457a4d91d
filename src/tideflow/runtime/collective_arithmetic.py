"""How collectives merge buffers, and how TensorFlow's rings cut them into chunks.

Source: collective_util.cc, ring_alg.cc and base_collective_executor.h (chunks) of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tideflow.blocking import KERNELS, run_blocking
from tideflow.ops.collectives import CollectiveCall

Array = npt.NDArray[Any]
T = TypeVar("T")

# To the memory of chunks; also what an aligned chunk still grows by.
_ALIGNMENT = 64

# Rings are doubled while their chunks are larger.
_MOST_CHUNK_BYTES = 4 << 20
_SUBDIVISIONS = 2

# More of it would hold up the loop for longer than a change of threads takes.
_THREAD_BYTES = 1 << 20

_MERGES: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
}


def merge_into(merge_op: str, out: Array, first: Array, second: Array) -> None:
    """Write two buffers merged, element by element, into a third, which may be one of them."""
    _MERGES[merge_op](first, second, out=out)


def finish(call: CollectiveCall, merged: Array) -> None:
    """Apply the final op of a reduction in place."""
    if call.final_op != "Div":
        return
    size = merged.dtype.type(call.group_size)
    if call.dtype.is_integer:
        # Towards zero, as C divides.
        np.floor_divide(merged - np.fmod(merged, size), size, out=merged)
    else:
        np.divide(merged, size, out=merged)


async def off_loop(size_bytes: int, work: Callable[[], T]) -> T:
    """Do work on so many bytes: at once, or in another thread while the loop goes on."""
    if size_bytes < _THREAD_BYTES:
        return work()
    return await run_blocking(KERNELS, lambda _: work())


def aligned_chunk_elements(count: int, chunks: int, item_bytes: int) -> int:
    """Return how many of `count` elements each of some chunks takes; the last ones may get fewer.

    A chunk whose bytes are a multiple of 64 already still grows by 64, as TensorFlow's does.
    """
    base = -(-count // chunks)
    return base + (_ALIGNMENT - base * item_bytes % _ALIGNMENT) // item_bytes


def chunk_bounds(count: int, chunk: int, elements: int) -> tuple[int, int]:
    """Return where a chunk begins and ends."""
    return min(chunk * elements, count), min((chunk + 1) * elements, count)


def ring_offsets(call: CollectiveCall, size_bytes: int, tasks: int) -> list[int]:
    """Return the offsets of the rings that share the work: one, or where the op leaves it open as
    many as keep chunks below 4 MiB, up to two (or what it allows) for each device of a task."""
    if call.subdivisions:
        return list(call.subdivisions)
    if call.most_subdivisions < 0:
        return [0]
    per_task = call.group_size // tasks
    most = per_task * (call.most_subdivisions or _SUBDIVISIONS)
    count = 1
    while size_bytes // (call.group_size * count) > _MOST_CHUNK_BYTES and count < most:
        count += 1
    stride = per_task // count or 1
    return [-stride * at if at % 2 else stride * at for at in range(count)]


def ring_order(offset: int, per_task: list[int]) -> list[int]:
    """Return the ranks in the order of a ring.

    Within each task the devices are turned by the offset; a negative one turns the reverse order.
    """
    order: list[int] = []
    before = 0
    for count in per_task:
        for at in range(count):
            turned = (at + abs(offset)) % count
            order.append(before + (count - 1 - turned if offset < 0 else turned))
        before += count
    return order
