"""Elements of datasets in the messages that workers answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import MESSAGES, run_sized, writing_work
from tideflow.formats import CompressedElement, uncompress_element
from tideflow.ops.data import Element
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.parted import MaybeParted, parted, take_apart, with_content
from tideflow.wire.tensor_codec import decode_tensor, put_tensor, reading_work


async def with_element(
    reply: pb.GetElementResponse, element: Element, types: Sequence[DType]
) -> MaybeParted[pb.GetElementResponse]:
    """Return an answer with an element: as it is where it is compressed, else as tensors."""
    if len(element) == 1 and types[0] is dtypes.variant:
        [value] = element
        bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        if isinstance(bare, CompressedElement):
            reply.compressed.CopyFrom(bare.message)
            return with_content(reply, reply.compressed, "data", bare.data)

    def put() -> dict[int, memoryview]:
        contents: dict[int, memoryview] = {}
        for at, (value, dtype) in enumerate(zip(element, types)):
            content = put_tensor(reply.uncompressed.components.add(), value, dtype)
            if content is not None:
                contents[at] = content
        return contents

    return parted(reply, await run_sized(MESSAGES, sum(map(writing_work, element)), put))


async def element_of(answer: MaybeParted[pb.GetElementResponse], uncompress: bool) -> Element:
    """Return the element of an answer.

    uncompress: whether a compressed one is taken apart.
    Raises: InternalError or DataLossError for one that is damaged.
    """
    reply, contents = take_apart(answer)
    size = sum(map(len, contents.values()))
    if reply.WhichOneof("element") == "compressed":
        compressed = CompressedElement.of(reply.compressed, contents.get(0))
        if not uncompress:
            return (compressed,)
        parts = compressed.message.component_metadata
        work = max(size, sum(sum(one.uncompressed_bytes) for one in parts))
        return await run_sized(MESSAGES, work, lambda: tuple(uncompress_element(compressed)))
    components = reply.uncompressed.components
    apart = [contents.get(at) for at in range(len(components))]
    size += sum(map(reading_work, components, apart))
    return await run_sized(MESSAGES, size, lambda: tuple(map(_owned, components, apart)))


def _owned(tensor_pb: pb.TensorProto, content: memoryview | None) -> Any:
    """Return the value of a component, as an array that may be changed: a worker of this process
    may keep the one that it has given."""
    value = decode_tensor(tensor_pb, content)
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value
