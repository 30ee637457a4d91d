"""Checkpoints of the first version: one file, a sorted table of slices of tensors.

The empty key holds what is there, each other key a slice, its elements in the lists of a
TensorProto that has neither a type nor a shape.  TensorFlow's ops Save and SaveSlices write such
files, and Restore, RestoreSlice and RestoreV2 read them.
Source: tensorflow/core/util/tensor_slice_writer.cc, tensor_slice_reader.cc and
saved_tensor_slice.proto.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.formats.access import open_file
from tideflow.formats.files import AtomicFile, file_errors
from tideflow.formats.sorted_table import read_table, write_table
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.shapes import decode_full_shape, encode_shape
from tideflow.wire.tensor_codec import decode_tensor
from tideflow.wire.tensor_slice import (
    Slice,
    bounds,
    decode_slice,
    encode_slice,
    parse_shape_and_slice,
    slice_key,
)

_PRODUCER = 1
# The list of a TensorProto that holds the elements of each type.
_LISTS = {
    dtypes.float32: "float_val", dtypes.float64: "double_val", dtypes.int64: "int64_val",
    dtypes.bool_: "bool_val", dtypes.string: "string_val", dtypes.half: "half_val",
    dtypes.complex64: "scomplex_val", dtypes.complex128: "dcomplex_val",
    **dict.fromkeys(
        (dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8, dtypes.uint16, dtypes.qint8,
         dtypes.quint8, dtypes.qint32, dtypes.qint16, dtypes.quint16),
        "int_val",
    ),
}  # fmt: skip


class SliceFileWriter:
    """Writes a file of slices; `finish` puts it in its place.

    Args:
      path: the file.
      check: is called with the bytes of each piece; may raise, to stop.
    """

    def __init__(self, path: str, check: Callable[[int], None]) -> None:
        self._path = path
        self._check = check
        self._meta = pb.SavedTensorSliceMeta(versions=pb.VersionDef(producer=_PRODUCER))
        self._tensors: dict[str, pb.SavedSliceMeta] = {}
        self._slices: dict[bytes, bytes] = {}

    def add(self, name: str, shape: Sequence[int], part: Slice, value: Any, dtype: DType) -> None:
        """Add a slice of a tensor whose whole shape is given.

        Raises: InternalError for a tensor that was added with another type or shape, as TensorFlow;
        UnimplementedError or InvalidArgumentError for a type that has no form in such a file.
        """
        shape_pb = encode_shape(shape)
        known = self._tensors.get(name)
        if known is None:
            known = self._meta.tensor.add(name=name, shape=shape_pb, type=dtype.number)
            self._tensors[name] = known
        elif known.shape != shape_pb or known.type != dtype.number:
            raise errors.InternalError(
                f"tensor {name!r} is saved twice, with shapes or types that are not the same"
            )
        slice_pb = encode_slice(part)
        known.slice.append(slice_pb)
        data = pb.SavedSlice(name=name, slice=slice_pb, data=_as_lists(name, value, dtype))
        self._check(getattr(value, "nbytes", 0))
        entry = pb.SavedTensorSlices(data=data).SerializeToString()
        self._slices[slice_key(name, part)] = entry

    def finish(self) -> None:
        """Write the file.  Raises: what the operating system says of it."""
        meta = pb.SavedTensorSlices(meta=self._meta).SerializeToString()
        entries = [(b"", meta), *sorted(self._slices.items())]
        with AtomicFile(self._path, check=lambda: self._check(0)) as file:
            for piece in write_table(entries):
                file.write(piece)


def _as_lists(name: str, value: Any, dtype: DType) -> pb.TensorProto:
    """Return the elements of a value in the list that its type has."""
    field = _LISTS.get(dtype)
    if field is None:
        kind = (
            errors.UnimplementedError
            if dtype is dtypes.bfloat16
            else errors.InvalidArgumentError  # as TensorFlow
        )
        raise kind(
            f"tensor {name!r} is {dtype.name}, which has no form in a checkpoint of the first "
            "version; save it as version 2"
        )
    flat = np.asarray(value).reshape(-1)
    if dtype is dtypes.half:
        flat = flat.view(np.uint16)
    elif flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    elif flat.dtype.names:  # quantised types
        flat = flat.view(flat.dtype[0])
    tensor_pb = pb.TensorProto()
    getattr(tensor_pb, field).extend(flat.tolist())
    return tensor_pb


class SliceFiles:
    """Reads the tensors of one file of slices, or of the set of files that a pattern names.

    Raises: NotFoundError where no file has the name; DataLossError for damaged ones.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        paths = sorted(glob.glob(pattern))
        if not paths:
            raise errors.NotFoundError(
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {pattern}"
            )
        self._entries: dict[bytes, bytes] = {}
        self._tensors: dict[str, tuple[DType, tuple[int, ...], list[Slice]]] = {}
        for path in paths:
            self._load(path)

    def _load(self, path: str) -> None:
        try:
            with file_errors("read", path), open_file(path) as file:
                found = dict(read_table(file.read(), path))
        except errors.OpError as error:
            raise errors.DataLossError(
                f"Unable to open table file {path}: {error.message}: perhaps your file is in a "
                "different file format and you need to use a different restore operator?"
            ) from error
        meta_pb = pb.SavedTensorSlices.FromString(found.pop(b"", b"")).meta
        for one in meta_pb.tensor:
            shape = decode_full_shape(one.shape)
            dtype = dtypes.as_dtype(one.type)
            known = self._tensors.setdefault(one.name, (dtype, shape, []))
            if known[:2] != (dtype, shape):
                raise errors.DataLossError(f"{path}: tensor {one.name!r} is there in two forms")
            known[2].extend(decode_slice(part, shape) for part in one.slice)
        self._entries.update(found)

    def __enter__(self) -> SliceFiles:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing is open: all was read at the start."""

    def names(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        return sorted(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def describe(self, name: str) -> tuple[DType, tuple[int, ...]]:
        """Return a tensor's type and shape.  Raises: NotFoundError."""
        if name not in self:
            raise errors.NotFoundError(
                f'Tensor name "{name}" not found in checkpoint files {self.pattern}'
            )
        dtype, shape, _ = self._tensors[name]
        return dtype, shape

    def read(self, name: str) -> Any:
        """Return a tensor.  Raises: as `tensor`."""
        return self.tensor(name, "", self.describe(name)[0])

    def tensor(self, name: str, spec: str, dtype: DType) -> Any:
        """Return a tensor, or the slice of it that a shape_and_slice names.

        Raises: NotFoundError for another name; InvalidArgumentError for another type or shape than
        that stored, or a slice that is not there.
        """
        stored, shape = self.describe(name)
        if stored is not dtype:
            raise errors.InvalidArgumentError(
                f"Expected to restore a tensor of type {dtype.name}, got a tensor of type "
                f"{stored.name} instead: tensor_name = {name}"
            )
        if not spec:
            return self._read(name, tuple((0, None) for _ in shape))
        whole, part, _ = parse_shape_and_slice(spec)
        if whole != shape:
            raise errors.InvalidArgumentError(
                f"Shape in shape_and_slice spec {list(whole)} does not match the shape in the save "
                f"file: {list(shape)}, save file path: {self.pattern}"
            )
        return self._read(name, part)

    def _read(self, name: str, part: Slice) -> Any:
        """Return a slice of a tensor, put together from those that are stored.

        Raises: InvalidArgumentError, as TensorFlow, where they do not cover it.
        """
        dtype, shape, stored = self._tensors[name]
        wanted = bounds(part, shape)
        made = np.empty([end - begin for begin, end in wanted], dtype.as_numpy_dtype)
        left = made.size
        for other in stored:
            common = [
                (max(a, c), min(b, d)) for (a, b), (c, d) in zip(wanted, bounds(other, shape))
            ]
            if any(begin >= end for begin, end in common):
                continue
            value = self._stored(name, other, dtype, shape)
            into = tuple(slice(b - a, e - a) for (b, e), (a, _) in zip(common, wanted))
            out = tuple(slice(b - a, e - a) for (b, e), (a, _) in zip(common, bounds(other, shape)))
            made[into] = value[out]
            left -= math.prod(end - begin for begin, end in common)
        if left > 0:
            raise errors.InvalidArgumentError(
                f"the checkpoint {self.pattern} does not hold all of the wanted slice of {name!r}"
            )
        return made

    def _stored(self, name: str, part: Slice, dtype: DType, shape: Sequence[int]) -> Any:
        data = self._entries.get(slice_key(name, part))
        if data is None:
            raise errors.DataLossError(f"{self.pattern} lacks a slice of {name!r} that it names")
        tensor_pb = pb.SavedTensorSlices.FromString(data).data.data
        tensor_pb.dtype = dtype.number
        sizes = [end - begin for begin, end in bounds(part, shape)]
        tensor_pb.tensor_shape.CopyFrom(encode_shape(sizes))
        return np.asarray(decode_tensor(tensor_pb))
