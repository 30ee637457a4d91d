"""Slices: boxes within a tensor, as checkpoints name them.

A slice is one (start, length) for each axis; a length of None takes the whole axis.  As text it is
"0,2:-:4,1", and in a shape_and_slice "10 20 30 0,2:-:4,1" the sizes of the whole tensor precede it.

Source: tensorflow/core/framework/tensor_slice.cc, core/util/saved_tensor_slice_util.cc and
core/lib/strings/ordered_code.cc (keys that sort as their parts do).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tideflow.wire import messages as pb
from tideflow.wire.errors import DataLossError, InternalError, InvalidArgumentError

Extent: TypeAlias = "tuple[int, int | None]"
Slice: TypeAlias = "tuple[Extent, ...]"


def parse_shape_and_slice(text: str) -> tuple[tuple[int, ...], Slice, tuple[int, ...]]:
    """Return the whole tensor's shape, the slice, and the slice's own shape.

    Raises: InvalidArgumentError for text that is none; InternalError (as TensorFlow) for a slice
    of other axes, or one that leaves the tensor.
    """
    *sizes, spec = text.split(" ")
    try:
        shape = tuple(int(size) for size in sizes)
        part = tuple(_parse_extent(piece) for piece in spec.split(":")) if spec else ()
    except ValueError:
        raise InvalidArgumentError(
            f"shape_and_slice {text!r} is malformed; it must read like '10 20 0,5:-'"
        ) from None
    if not shape or any(size < 0 for size in shape):
        raise InvalidArgumentError(f"shape_and_slice {text!r} must begin with the tensor's sizes")
    if len(part) != len(shape):
        raise InternalError(
            f"shape_and_slice {text!r} has {len(shape)} sizes and {len(part)} parts; it needs as "
            "many of each"
        )
    return shape, part, slice_shape(part, shape, text)


def _parse_extent(text: str) -> Extent:
    if text == "-":
        return 0, None
    start, length = (int(number) for number in text.split(","))
    if start < 0 or length <= 0:
        raise ValueError(text)
    return start, length


def slice_shape(part: Slice, shape: Sequence[int], what: str) -> tuple[int, ...]:
    """Return the shape of a slice of a tensor.

    Raises: InternalError for a slice that leaves the tensor; `what` names it.
    """
    found = []
    for (start, length), size in zip(part, shape, strict=True):
        if length is not None and start + length > size:
            raise InternalError(
                f"{what!r}: a slice from {start} of length {length} leaves an axis of size {size}"
            )
        found.append(size if length is None else length)
    return tuple(found)


def bounds(part: Slice, shape: Sequence[int]) -> list[tuple[int, int]]:
    """Return begin and end of a slice on each axis."""
    return [
        (start, size if length is None else start + length)
        for (start, length), size in zip(part, shape, strict=True)
    ]


def is_whole(part: Slice, shape: Sequence[int]) -> bool:
    """Whether a slice takes all of the tensor."""
    return all(begin == 0 and end == size for (begin, end), size in zip(bounds(part, shape), shape))


def encode_slice(part: Slice) -> pb.TensorSliceProto:
    """Return the message of a slice."""
    slice_pb = pb.TensorSliceProto()
    for start, length in part:
        if length is None:
            slice_pb.extent.add()
        else:
            slice_pb.extent.add(start=start, length=length)
    return slice_pb


def decode_slice(slice_pb: pb.TensorSliceProto, shape: Sequence[int]) -> Slice:
    """Return the slice of a message.

    Raises: DataLossError for one that does not lie within the shape.
    """
    part = tuple(
        (extent.start, extent.length if extent.HasField("length") else None)
        for extent in slice_pb.extent
    )
    inside = len(part) == len(shape) and all(
        0 <= begin <= end <= size for (begin, end), size in zip(bounds(part, shape), shape)
    )
    if not inside:
        raise DataLossError(f"slice {part} is not one of a tensor of shape {list(shape)}")
    return part


def slice_key(name: str, part: Slice) -> bytes:
    """Return the key under which a checkpoint keeps a slice of a tensor."""
    encoded = name.encode("utf-8", "surrogateescape")
    escaped = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in encoded)
    key = _ordered(0) + escaped + b"\0\x01" + _ordered(len(part))
    for start, length in part:
        key += _ordered_signed(start) + _ordered_signed(-1 if length is None else length)
    return key


_ESCAPES = {0: b"\0\xff", 0xFF: b"\xff\0"}


def _ordered(number: int) -> bytes:
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _ordered_signed(number: int) -> bytes:
    magnitude = ~number if number < 0 else number
    size = 1 + magnitude.bit_length() // 7
    # The first bits say how long the code is: as many ones (or, below 0, zeros) and then the other.
    header = ((1 << size) - 1) << (8 * size - size)
    coded = (number & ((1 << (8 * size)) - 1)) ^ header
    return coded.to_bytes(size, "big")
