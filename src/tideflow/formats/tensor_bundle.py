"""Tensor bundles: the files of a checkpoint, as TensorFlow's V2 savers write and read them.

A bundle named `prefix` is `prefix.index`, a sorted table from tensor names to where their bytes
lie, and the bytes in `prefix.data-00000-of-00001` (and so on, for a bundle of several shards).  A
tensor that is saved in slices has an entry that lists them; each has an entry of its own.

Strings lie as their lengths (varints), a checksum of these, and then their bytes; variants one by
one, as length, message and the checksum of all up to there.  Tensors go to
the file, and come from it, a piece at a time: nothing is held twice.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from typing import Any, cast

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.blocking import Parts
from tideflow.formats.access import open_file
from tideflow.formats.bundle_files import (
    data_path,
    index_path,
    make_directory,
    read_index,
    replaced,
)
from tideflow.formats.files import AtomicFile, file_errors, remove_abandoned
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.checksum import extend, mask
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.fields import varint
from tideflow.wire.handles import SupportsVariant, read_variant
from tideflow.wire.shapes import decode_full_shape, encode_shape
from tideflow.wire.tensor_slice import (
    Slice,
    bounds,
    decode_slice,
    encode_slice,
    is_whole,
    slice_key,
    slice_shape,
)

_PIECE_BYTES = 1 << 20


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _go_on(count: int) -> None:
    """Take no notice: the work is not one that can be stopped, or that somebody watches."""


class BundleWriter:
    """Writes a bundle of one shard.

    Use as a context manager; the files appear under their names when it is left without an error,
    and are on the disk then.  A bundle that had the name is whole until the new one takes its
    place.

    Args:
      check: called after each piece with its bytes; may raise, to stop.
    """

    def __init__(self, prefix: str, check: Callable[[int], None] = _go_on) -> None:
        self.prefix = prefix
        self._check = check
        self._entries: dict[bytes, pb.BundleEntryProto] = {}
        self._data = AtomicFile(data_path(prefix, 0, 1), False, lambda: check(0))
        self._offset = 0
        self._checksum = 0

    def __enter__(self) -> BundleWriter:
        make_directory(os.path.dirname(self.prefix))
        remove_abandoned(os.path.dirname(self.prefix) or os.curdir)
        self._data.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._data.__exit__(kind, *rest)
        if kind is not None:
            return
        try:
            with replaced(self.prefix, self._entries, 1) as (place,):
                self._data.publish(place)
        except BaseException:
            self._data.discard()
            raise

    def add(self, name: str, value: Any, dtype: DType) -> None:
        """Write a tensor.

        Raises: InvalidArgumentError for a name that is there; UnimplementedError for a type that
        has no form in a file; what the operating system says of the file.
        """
        self._add(_key(name), name, value, dtype)

    def add_slice(
        self, name: str, shape: Sequence[int], part: Slice, value: Any, dtype: DType
    ) -> None:
        """Write a slice of a tensor whose whole shape is given.  Raises: as add."""
        if is_whole(part, shape):
            self.add(name, value, dtype)
            return
        entry = self._entries.setdefault(_key(name), pb.BundleEntryProto())
        if entry.dtype not in (0, dtype.number) or (entry.dtype and not entry.slices):
            raise errors.InvalidArgumentError(f"tensor {name!r} is added twice, in different ways")
        entry.dtype = dtype.number
        entry.shape.CopyFrom(encode_shape(shape))
        entry.slices.append(encode_slice(part))
        self._add(slice_key(name, part), name, value, dtype)

    def _add(self, key: bytes, name: str, value: Any, dtype: DType) -> None:
        if key in self._entries or not key:
            raise errors.InvalidArgumentError(f"tensor name {name!r} is empty, or added twice")
        if dtype is dtypes.resource:
            raise errors.UnimplementedError(
                f"tensor {name!r} is a {dtype.name}, which has no form in a checkpoint; save what "
                "it holds"
            )
        array = _objects(value) if dtype is dtypes.variant else np.asarray(value)
        entry = pb.BundleEntryProto(dtype=dtype.number, offset=self._offset)
        entry.shape.CopyFrom(encode_shape(array.shape))
        self._checksum = 0
        if dtype is dtypes.string:
            self._write_strings(array)
        elif dtype is dtypes.variant:
            self._write_variants(array, name)
        else:
            for piece in _pieces(array):
                self._write(piece)
        entry.size = self._offset - entry.offset
        entry.crc32c = mask(self._checksum)
        self._entries[key] = entry

    def _write(self, data: bytes | memoryview) -> None:
        self._checksum = extend(self._checksum, data)
        self._data.write(data)
        self._offset += len(data)
        self._check(len(data))

    def _write_strings(self, array: np.ndarray[Any, Any]) -> None:
        items = [x.encode() if isinstance(x, str) else x for x in array.reshape(-1).tolist()]
        sizes = [len(item) for item in items]
        lengths = b"".join(varint(size) for size in sizes)
        checksum = lengths_checksum(sizes)
        self._write_lengths(lengths)
        # What follows is checksummed as it is written; the lengths as numbers of 4 bytes.
        self._checksum = checksum
        self._write(struct.pack("<I", mask(checksum)))
        for item in items:
            self._write(item)

    def _write_lengths(self, lengths: bytes) -> None:
        """Write lengths; the checksum takes them as numbers of a fixed size."""
        self._data.write(lengths)
        self._offset += len(lengths)

    def _write_variants(self, array: np.ndarray[Any, Any], name: str) -> None:
        for element in array.flat:
            if not isinstance(element, SupportsVariant):
                raise errors.UnimplementedError(
                    f"tensor {name!r} holds a {type(element).__name__}, which has no form in a "
                    "checkpoint; save what it holds"
                )
            data = element.to_variant().to_proto().SerializeToString()
            self._write_lengths(varint(len(data)))
            self._checksum = extend(self._checksum, struct.pack("<Q", len(data)))
            self._write(data)
            self._write(struct.pack("<I", mask(self._checksum)))


def _objects(value: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of objects as an array; a scalar one is the bare object."""
    if isinstance(value, np.ndarray):
        return value
    made = np.empty((), object)
    made[()] = value
    return made


def lengths_checksum(sizes: Sequence[int]) -> int:
    """Return the checksum of the lengths of strings: as numbers of 4 bytes, or 8 where needed."""
    packed = b"".join(struct.pack("<I" if n < 1 << 32 else "<Q", n) for n in sizes)
    return extend(0, packed)


def _pieces(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    """Yield the bytes of an array in row-major order, without a copy of all of it."""
    if not array.size:
        return
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for begin in range(0, flat.size, _PIECE_BYTES):
            yield flat[begin : begin + _PIECE_BYTES].data
        return
    if array.ndim > 1 and array[0].nbytes > _PIECE_BYTES:
        for row in array:
            yield from _pieces(row)
        return
    rows = max(1, _PIECE_BYTES // max(1, array[:1].nbytes))
    for begin in range(0, len(array), rows):
        part = np.ascontiguousarray(array[begin : begin + rows])
        yield part.reshape(-1).view(np.uint8).data


class BundleReader:
    """Reads a bundle, in any number of threads.  Use as a context manager, or call close.

    Args:
      check: called after each piece with its bytes; may raise, to stop.
      parts: reads what is started, a piece each; without them it is read when it is waited for.
    Raises: NotFoundError when there is no index file; DataLossError for a damaged one.
    """

    def __init__(
        self,
        prefix: str,
        check: Callable[[int], None] = _go_on,
        parts: Parts | None = None,
    ) -> None:
        self.prefix = prefix
        self._check = check
        self._parts = parts
        self._files: dict[int, BufferedReader] = {}
        self._opening = threading.Lock()
        self.header, self.entries = read_index(prefix)

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the data files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def names(self) -> list[str]:
        """Return the names of the tensors, sorted; slices count as parts of theirs."""
        return [key.decode("utf-8", "surrogateescape") for key in self.entries if key[:1] != b"\0"]

    def __contains__(self, name: str) -> bool:
        return _key(name) in self.entries

    def describe(self, name: str) -> tuple[DType, tuple[int, ...]]:
        """Return a tensor's type and shape.  Raises: NotFoundError."""
        entry = self._entry(name)
        return self._dtype(entry, name), decode_full_shape(entry.shape)

    def stored_bytes(self, name: str) -> int:
        """Return how much of a data file a tensor takes; 0 for one that is stored in slices."""
        return int(self._entry(name).size)

    def read(self, name: str) -> Any:
        """Return a tensor.

        Raises: NotFoundError; DataLossError where the data file is cut short or damaged.
        """
        return self.reading(name, None)()

    def read_slice(self, name: str, part: Slice) -> Any:
        """Return a slice of a tensor, however it was stored.

        Raises: as read; InvalidArgumentError for a slice of other axes; InternalError for one that
        leaves the tensor; NotFoundError where the slices stored do not make up the one wanted.
        """
        return self.reading(name, part)()

    def reading(self, name: str, part: Slice | None) -> Callable[[], Any]:
        """Begin to read a tensor, or a slice of it; return what waits for it and gives it.

        Both raise, as read and read_slice do.
        """
        entry = self._entry(name)
        dtype, shape = self.describe(name)
        if part is None and not entry.slices:
            return self._loading(entry, name, dtype, shape)
        wanted = part if part is not None else ((0, None),) * len(shape)
        if len(wanted) != len(shape):
            raise errors.InvalidArgumentError(
                f"tensor {name!r} has shape {list(shape)}; a slice of {len(wanted)} axes is wanted"
            )
        found = slice_shape(wanted, shape, name)
        # Not started before it is wanted: what is read is more than what is given.
        if entry.slices:
            return lambda: self._assemble(entry, name, dtype, shape, wanted, found)
        place = tuple(slice(a, b) for a, b in bounds(wanted, shape))
        return lambda: self._loading(entry, name, dtype, shape)()[place].copy()

    def _assemble(
        self,
        entry: pb.BundleEntryProto,
        name: str,
        dtype: DType,
        shape: tuple[int, ...],
        wanted: Slice,
        found: tuple[int, ...],
    ) -> Any:
        result = np.empty(found, dtype.as_numpy_dtype)
        box = bounds(wanted, shape)
        missing = result.size
        for slice_pb in entry.slices:
            part = decode_slice(slice_pb, shape)
            stored = bounds(part, shape)
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, stored)]
            if any(a >= b for a, b in common):
                continue
            key = slice_key(name, part)
            if key not in self.entries:
                raise errors.DataLossError(
                    f"{index_path(self.prefix)}: slice {part} of tensor {name!r} is listed, but "
                    "is not there"
                )
            sizes = tuple(b - a for a, b in stored)
            value = self._loading(self.entries[key], name, dtype, sizes)()
            to = tuple(slice(a - at, b - at) for (a, b), (at, _) in zip(common, box))
            of = tuple(slice(a - at, b - at) for (a, b), (at, _) in zip(common, stored))
            result[to] = value[of]
            missing -= int(np.prod([b - a for a, b in common], dtype=np.int64))
        if missing > 0:
            raise errors.NotFoundError(
                f"{index_path(self.prefix)}: the slices of tensor {name!r} that are stored leave "
                f"out {missing} of the elements wanted"
            )
        return result

    # ---- entries

    def _entry(self, name: str) -> pb.BundleEntryProto:
        entry = self.entries.get(_key(name))
        if entry is None:
            raise errors.NotFoundError(f"Key {name} not found in checkpoint {self.prefix}")
        return entry

    def _dtype(self, entry: pb.BundleEntryProto, name: str) -> DType:
        try:
            return as_dtype(int(entry.dtype))
        except TypeError:
            raise errors.DataLossError(
                f"{index_path(self.prefix)}: tensor {name!r} has unknown type {entry.dtype}"
            ) from None

    # ---- bytes

    def _loading(
        self, entry: pb.BundleEntryProto, name: str, dtype: DType, shape: tuple[int, ...]
    ) -> Callable[[], Any]:
        """Begin to load what an entry tells of; return what gives it."""
        if dtype is dtypes.resource:
            raise errors.UnimplementedError(
                f"{index_path(self.prefix)}: tensor {name!r} is a {dtype.name}; these are not read"
            )
        stored = decode_full_shape(entry.shape)
        if stored != shape:
            raise self._loss(name, f"has shape {list(stored)}; {list(shape)} is expected")
        if dtype is dtypes.string:
            return lambda: self._load_strings(entry, name, shape)
        if dtype is dtypes.variant:
            return lambda: self._load_variants(entry, name, shape)
        count = int(np.prod(shape, dtype=np.int64))
        if entry.size != count * dtype.size:
            raise self._loss(name, f"has {entry.size} bytes; {count * dtype.size} are expected")
        file = self._open(entry, name)
        self._check_size(entry, name, file)
        result = np.empty(shape, dtype.as_numpy_dtype)
        flat = result.reshape(-1).view(np.uint8).data if count else memoryview(b"")
        pieces = [flat[at : at + _PIECE_BYTES] for at in range(0, len(flat), _PIECE_BYTES)]
        reads = []
        for number, piece in enumerate(pieces):
            at = entry.offset + number * _PIECE_BYTES
            read = functools.partial(self._read_into, file, piece, at, name)
            reads.append(read if self._parts is None else self._parts.start(read))

        def finish() -> Any:
            checksum = 0
            for piece, read in zip(pieces, reads):
                read()
                checksum = extend(checksum, piece)
                self._check(len(piece))
            self._compare(entry, name, checksum)
            return result

        return finish

    def _load_all(self, entry: pb.BundleEntryProto, name: str) -> memoryview:
        file = self._open(entry, name)
        self._check_size(entry, name, file)
        data = memoryview(bytearray(entry.size))
        self._read_into(file, data, entry.offset, name)
        return data

    def _load_variants(self, entry: pb.BundleEntryProto, name: str, shape: tuple[int, ...]) -> Any:
        data = self._load_all(entry, name)
        # Before memory is taken for them: an element has a length and a checksum at least.
        if int(np.prod(shape, dtype=np.int64)) * 5 > len(data):
            raise self._loss(name, f"has {len(data)} bytes, too few for shape {list(shape)}")
        result = np.empty(shape, object)
        flat = result.reshape(-1)
        checksum = at = 0
        for i in range(flat.size):
            size, at = self._length(data, at, name)
            if at + size + 4 > len(data):
                raise self._loss(name, f"is cut short in element {i}")
            element = data[at : at + size]
            checksum = extend(extend(checksum, struct.pack("<Q", size)), element)
            (stored,) = struct.unpack_from("<I", data, at + size)
            if stored != mask(checksum):
                raise self._loss(
                    name,
                    f"has checksum {mask(checksum):#010x} at element {i}; {stored:#010x} is stored",
                )
            checksum = extend(checksum, data[at + size : at + size + 4])
            at += size + 4
            flat[i] = self._variant(bytes(element), name)
        self._compare(entry, name, checksum)
        return result if shape else result[()]

    def _variant(self, element: bytes, name: str) -> SupportsVariant:
        try:
            return read_variant(pb.VariantTensorDataProto.FromString(element))
        except DecodeError:
            raise self._loss(name, "has an element that is no variant") from None

    def _load_strings(self, entry: pb.BundleEntryProto, name: str, shape: tuple[int, ...]) -> Any:
        data = self._load_all(entry, name)
        count = int(np.prod(shape, dtype=np.int64))
        sizes, at = self._lengths(data, count, name)
        checksum = lengths_checksum(sizes)
        if at + 4 + sum(sizes) != len(data):
            raise self._loss(name, f"has {len(data)} bytes; {at + 4 + sum(sizes)} are expected")
        (stored,) = struct.unpack_from("<I", data, at)
        if stored != mask(checksum):
            raise self._loss(
                name, f"has lengths of checksum {mask(checksum):#010x}; {stored:#010x} is stored"
            )
        self._compare(entry, name, extend(checksum, data[at:]))
        at += 4
        result = np.empty(count, object)
        for i, size in enumerate(sizes):
            result[i] = bytes(data[at : at + size])
            at += size
        return result.reshape(shape)

    def _lengths(self, data: memoryview, count: int, name: str) -> tuple[list[int], int]:
        sizes, at = [], 0
        for _ in range(count):
            size, at = self._length(data, at, name)
            sizes.append(size)
        if at + 4 > len(data):
            raise self._loss(name, "is cut short behind its lengths")
        return sizes, at

    def _length(self, data: memoryview, at: int, name: str) -> tuple[int, int]:
        """Return the length at a place, and the place behind it."""
        number = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise self._loss(name, "has lengths that do not end")
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number, at

    def _open(self, entry: pb.BundleEntryProto, name: str) -> BufferedReader:
        shard = entry.shard_id
        with self._opening:
            if shard not in self._files:
                if not 0 <= shard < self.header.num_shards:
                    raise self._loss(name, f"lies in shard {shard} of {self.header.num_shards}")
                path = data_path(self.prefix, shard, self.header.num_shards)
                with file_errors("read", path):
                    self._files[shard] = cast(BufferedReader, open_file(path))
            return self._files[shard]

    def _check_size(self, entry: pb.BundleEntryProto, name: str, file: BufferedReader) -> None:
        # Before memory is taken for it: a damaged size may be any number.
        there = os.fstat(file.fileno()).st_size
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > there:
            raise self._loss(
                name,
                f"lies at [{entry.offset}, {entry.offset + entry.size}) of {file.name}, which has "
                f"{there} bytes; the file was cut short",
            )

    def _read_into(self, file: BufferedReader, piece: memoryview, offset: int, name: str) -> None:
        # By offset, not by the file's own position: several threads read one file.
        while len(piece):
            with file_errors("read", str(file.name)):
                found = os.preadv(file.fileno(), [piece], offset)
            if not found:
                raise self._loss(name, f"ends early in {file.name}")
            piece = piece[found:]
            offset += found

    def _compare(self, entry: pb.BundleEntryProto, name: str, checksum: int) -> None:
        if mask(checksum) != entry.crc32c:
            path = data_path(self.prefix, entry.shard_id, self.header.num_shards)
            raise self._loss(
                name,
                f"in {path} has checksum {mask(checksum):#010x}; {entry.crc32c:#010x} is stored",
            )

    def _loss(self, name: str, what: str) -> errors.DataLossError:
        return errors.DataLossError(f"checkpoint {self.prefix}: tensor {name!r} {what}")


# ---- merging


def merge_bundles(
    prefixes: Sequence[str],
    destination: str,
    allow_missing: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Make one bundle of several: their data files are renamed, their indices joined.

    Args:
      check: called between files, and before anything is changed; may raise, to stop.
    Raises: InvalidArgumentError for a tensor that is in two of them, and for a bundle that is not
    there (unless allow_missing, and another one is).
    """
    entries: dict[bytes, pb.BundleEntryProto] = {}
    moves: list[str] = []
    merged = []
    for prefix in prefixes:
        check()
        if not os.path.exists(index_path(prefix)):
            if allow_missing:
                continue
            raise errors.InvalidArgumentError(
                f"the checkpoint {prefix} that is to be merged is not there"
            )
        header, found = read_index(prefix)
        numbers: dict[int, int] = {}
        for shard in sorted({entry.shard_id for entry in found.values() if not entry.slices}):
            numbers[shard] = len(moves)
            moves.append(data_path(prefix, shard, header.num_shards))
        for key, entry in found.items():
            entry.shard_id = numbers.get(entry.shard_id, 0)
            _merge_entry(entries, key, entry)
        merged.append(prefix)
    if not merged:
        raise errors.InvalidArgumentError(
            f"none of the checkpoints to merge is there: {list(prefixes)}"
        )
    check()
    make_directory(os.path.dirname(destination))
    with replaced(destination, entries, max(1, len(moves))) as places:
        for path, place in zip(moves, places):
            with file_errors("rename", path):
                os.replace(path, place)
    for prefix in merged:
        if os.path.abspath(prefix) != os.path.abspath(destination):
            with contextlib.suppress(OSError):
                os.unlink(index_path(prefix))


def _merge_entry(
    entries: dict[bytes, pb.BundleEntryProto], key: bytes, entry: pb.BundleEntryProto
) -> None:
    known = entries.get(key)
    if known is None:
        entries[key] = entry
        return
    same = known.dtype == entry.dtype and known.shape == entry.shape
    if not (same and known.slices and entry.slices):
        raise errors.InvalidArgumentError(
            f"tensor {key.decode('utf-8', 'replace')!r} is in several of the checkpoints to merge"
        )
    known.slices.extend(entry.slices)
