"""Elements of datasets in the messages that workers answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import MESSAGES, run_blocking
from tideflow.formats import CompressedElement, uncompress_element
from tideflow.ops.data import Element
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_codec import decode_for_owner, encode_tensor

# Elements of this size are not written or read on the event loop.
_LARGE_BYTES = 1 << 20


async def put_element(
    reply: pb.GetElementResponse, element: Element, types: Sequence[DType]
) -> None:
    """Put an element into an answer: as it is where it is compressed, else as tensors."""
    if len(element) == 1 and types[0] is dtypes.variant:
        [value] = element
        bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        if isinstance(bare, CompressedElement):
            reply.compressed.CopyFrom(bare.message)
            return

    def put(_: object) -> None:
        for value, dtype in zip(element, types):
            reply.uncompressed.components.append(encode_tensor(value, dtype))

    if sum(getattr(value, "nbytes", 0) for value in element) < _LARGE_BYTES:
        put(None)
    else:
        await run_blocking(MESSAGES, put)


async def element_of(reply: pb.GetElementResponse, uncompress: bool) -> Element:
    """Return the element of an answer.

    uncompress: whether a compressed one is taken apart.
    Raises: InternalError or DataLossError for one that is damaged.
    """
    if reply.WhichOneof("element") == "compressed" and not uncompress:
        return (CompressedElement(reply.compressed),)

    def read(_: object) -> tuple[Any, ...]:
        if reply.WhichOneof("element") == "compressed":
            return tuple(uncompress_element(reply.compressed))
        return tuple(map(decode_for_owner, reply.uncompressed.components))

    if reply.ByteSize() < _LARGE_BYTES:
        return read(None)
    return await run_blocking(MESSAGES, read)
