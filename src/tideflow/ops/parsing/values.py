"""Tensors out of strings: raw bytes, serialised tensors, compressed data, lines of CSV.

Source: tensorflow/core/kernels/decode_raw_op.cc, decode_csv_op.cc, decode_compressed_op.cc,
parse_tensor_op.cc.
"""

from __future__ import annotations

import itertools
import math
import re
import zlib
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.formats import inflate
from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as, scalar, unknown
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import check_scalar
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.shapes import encode_shape
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor


def _strings(value: object) -> list[bytes]:
    found: list[bytes] = np.asarray(value, object).reshape(-1).tolist()
    return found


# ---- raw bytes


def _raw_shape(c: ShapeContext) -> list[Dims]:
    dims = c.shape(0)
    return [None if dims is None else (*dims, None)]


_RAW_TYPES = (
    "half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, "
    "bfloat16"
)


@op(
    f"""
    DecodeRaw(bytes: string) -> output: out_type
    out_type: type in {{{_RAW_TYPES}}}
    little_endian: bool = true
    """,
    shape=_raw_shape,
)
def decode_raw_kernel(
    ctx: KernelContext, data: Array, *, out_type: DType, little_endian: bool
) -> Any:
    """Return the elements that strings of one length hold as bytes."""
    items = _strings(data)
    size = len(items[0]) if items else 0
    for index, item in enumerate(items):
        if len(item) != size:
            raise errors.InvalidArgumentError(
                f"DecodeRaw requires input strings to all be the same size, but element {index} "
                f"has size {len(item)} and the first has {size}"
            )
    if size % out_type.size:
        raise errors.InvalidArgumentError(
            f"Input to DecodeRaw has length {size} that is not a multiple of {out_type.size}, the "
            f"size of {out_type.name}"
        )
    found = np.frombuffer(bytearray(b"".join(items)), out_type.as_numpy_dtype)
    if not little_endian:
        found = found.byteswap()
    return found.reshape(*np.shape(data), size // out_type.size)


@export("io.decode_raw", "decode_raw")
def decode_raw(
    input_bytes: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: TensorLike | None = None,
) -> Tensor:
    """Return the elements that strings hold as bytes, along a new last axis."""
    given = bytes if input_bytes is None else input_bytes
    found: Tensor = apply_op(
        "DecodeRaw", given, out_type=as_dtype(out_type), little_endian=little_endian, name=name
    )
    return found


def _padded_shape(c: ShapeContext) -> list[Dims]:
    dims, length = c.shape(0), c.value(1)
    width = None if length is None or np.ndim(length) else int(length) // c.attrs["out_type"].size
    return [None if dims is None else (*dims, width)]


@op(
    """
    DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> output: out_type
    out_type: type in {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}
    little_endian: bool = true
    """,
    shape=_padded_shape,
)
def decode_padded_raw_kernel(
    ctx: KernelContext,
    data: Array | bytes,
    fixed_length: Array,
    *,
    out_type: DType,
    little_endian: bool,
) -> Any:
    """Return the elements that strings hold as bytes, each cut or filled with zeros to one length.

    Raises: InvalidArgumentError for a length that is no positive multiple of an element's.
    """
    check_scalar(fixed_length, "k")
    length = int(fixed_length)
    if length <= 0 or length % out_type.size:
        raise errors.InvalidArgumentError(
            f"fixed_length ({length}) must be a positive multiple of {out_type.size}, the size of "
            f"{out_type.name}"
        )
    whole = b"".join(item[:length].ljust(length, b"\0") for item in _strings(data))
    found = np.frombuffer(bytearray(whole), out_type.as_numpy_dtype)
    if not little_endian:
        found = found.byteswap()
    return found.reshape(*np.shape(data), length // out_type.size)


@export_v2("io.decode_raw")
def decode_raw_v2(
    input_bytes: TensorLike,
    out_type: DTypeLike,
    little_endian: bool = True,
    fixed_length: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the elements that strings hold as bytes, along a new last axis.

    fixed_length: cut the strings, or fill them with zeros, to so many bytes.
    Raises: InvalidArgumentError for strings of different lengths without it.
    """
    if fixed_length is None:
        return decode_raw(input_bytes, out_type, little_endian, name)
    attrs = {"out_type": as_dtype(out_type), "little_endian": little_endian}
    found: Tensor = apply_op("DecodePaddedRaw", input_bytes, fixed_length, name=name, **attrs)
    return found


_WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


@op(
    """
    DecodeCompressed(bytes: string) -> output: string
    compression_type: string = ''
    """,
    shape=same_as(),
)
def decode_compressed_kernel(
    ctx: KernelContext, data: Array | bytes, *, compression_type: str
) -> Any:
    """Return strings uncompressed."""
    if compression_type and compression_type not in _WINDOW_BITS:
        raise errors.InvalidArgumentError(
            f"Only ZLIB, GZIP or NONE are supported compressions; found {compression_type!r}"
        )
    if not compression_type:
        return data
    made = np.empty(np.shape(data), object)
    flat = made.reshape(-1)
    for i, item in enumerate(_strings(data)):
        if not item:
            flat[i] = b""
            continue
        try:
            inflater = zlib.decompressobj(_WINDOW_BITS[compression_type])
            flat[i] = bytes(inflate(inflater, item))
            if not inflater.eof:
                raise zlib.error("it is cut short")
        except zlib.error as error:
            raise errors.DataLossError(f"element {i} is no {compression_type}: {error}") from None
    return made


@export("io.decode_compressed", "decode_compressed")
def decode_compressed(
    bytes: TensorLike, compression_type: str = "", name: str | None = None
) -> Tensor:
    """Return strings uncompressed; compression_type is "ZLIB", "GZIP" or "" for none."""
    found: Tensor = apply_op(
        "DecodeCompressed", bytes, compression_type=compression_type, name=name
    )
    return found


# ---- serialised tensors


@op(
    """
    ParseTensor(serialized: string) -> output: out_type
    out_type: type
    """,
    shape=unknown,
)
def parse_tensor_kernel(ctx: KernelContext, serialized: Array | bytes, *, out_type: DType) -> Any:
    """Return the tensor that a string holds as a TensorProto."""
    if np.ndim(serialized):
        raise errors.InvalidArgumentError(
            f"Expected `serialized` to be a scalar, got shape "
            f"{shapes.format_dims(np.shape(serialized))}"
        )
    item = _strings(serialized)[0]
    try:
        tensor_pb = pb.TensorProto.FromString(item)
    except DecodeError:
        raise errors.InvalidArgumentError("the string is no TensorProto") from None
    if tensor_pb.dtype != out_type.number:
        raise errors.InvalidArgumentError(
            f"Type mismatch between parsed tensor ({tensor_pb.dtype}) and dtype ({out_type.name})"
        )
    return decode_tensor(tensor_pb)


@export("io.parse_tensor", "parse_tensor")
def parse_tensor(serialized: TensorLike, out_type: DTypeLike, name: str | None = None) -> Tensor:
    """Return the tensor that a string holds as a TensorProto."""
    found: Tensor = apply_op("ParseTensor", serialized, out_type=as_dtype(out_type), name=name)
    return found


def stored_tensor(value: Array, dtype: DType) -> pb.TensorProto:
    """Return a tensor's message as TensorFlow stores it: strings one by one, not as content."""
    if dtype is not dtypes.string:
        return encode_tensor(value, dtype)
    items = _strings(value)
    return pb.TensorProto(
        dtype=dtype.number, tensor_shape=encode_shape(np.shape(value)), string_val=items
    )


@op(
    """
    SerializeTensor(tensor: T) -> serialized: string
    T: type
    """,
    shape=scalar,
)
def serialize_tensor_kernel(ctx: KernelContext, tensor: Array, *, T: DType) -> Any:
    """Return a tensor as a TensorProto."""
    made = np.empty((), object)
    made[()] = stored_tensor(tensor, T).SerializeToString()
    return made


@export("io.serialize_tensor", "serialize_tensor")
def serialize_tensor(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor as a string that parse_tensor reads."""
    found: Tensor = apply_op("SerializeTensor", tensor, name=name)
    return found


# ---- CSV


def _csv_shape(c: ShapeContext) -> list[Dims]:
    for dims in c.inputs[1:]:
        if dims is not None and (len(dims) > 1 or (dims and dims[0] not in (None, 0, 1))):
            raise ValueError(
                "a default must be a scalar, or a vector of one element or none; found shape "
                f"{shapes.format_dims(dims)}"
            )
    return [c.shape(0)] * len(c.node.output_types)


@op(
    """
    DecodeCSV(records: string, record_defaults: *OUT_TYPE) -> output: *OUT_TYPE
    OUT_TYPE: list(type) in {float, double, int32, int64, string} >= 1
    field_delim: string = ','
    use_quote_delim: bool = true
    na_value: string = ''
    select_cols: list(int) = []
    """,
    shape=_csv_shape,
)
def decode_csv_kernel(
    ctx: KernelContext,
    records: Array | bytes,
    defaults: list[Any],
    *,
    OUT_TYPE: list[DType],
    field_delim: str,
    use_quote_delim: bool,
    na_value: str,
    select_cols: list[int],
) -> Any:
    """Return the columns of lines of comma-separated values."""
    delimiter = field_delim.encode()
    _check_csv(delimiter, select_cols, len(OUT_TYPE))
    for index, default in enumerate(defaults):
        if np.ndim(default) > 1 or np.size(default) > 1:
            raise errors.InvalidArgumentError(
                "There should only be 1 default per field, a scalar or a vector; that of field "
                f"{index} has shape {list(np.shape(default))}"
            )
    lines = _strings(records)
    shape = np.shape(records)
    columns = [np.empty(len(lines), dtype.as_numpy_dtype) for dtype in OUT_TYPE]
    missing = na_value.encode()
    for row, line in enumerate(lines):
        fields = split_csv(line, delimiter, use_quote_delim)
        if select_cols:
            fields = [fields[at] for at in select_cols if at < len(fields)]
        if len(fields) != len(columns):
            raise errors.InvalidArgumentError(
                f"Expect {len(columns)} fields but have {len(fields)} in record {row}"
            )
        for at, field in enumerate(fields):
            if field and field != missing:
                columns[at][row] = _parsed(field, OUT_TYPE[at], at, row)
            elif np.size(defaults[at]):
                columns[at][row] = np.asarray(defaults[at]).reshape(-1)[0]
            else:
                raise errors.InvalidArgumentError(
                    f"Field {at} is required but missing in record {row}!"
                )
    return [column.reshape(shape) for column in columns]


def _check_csv(delimiter: bytes, select_cols: list[int], count: int) -> None:
    if len(delimiter) != 1:
        raise errors.InvalidArgumentError(f"field_delim must be one byte; found {delimiter!r}")
    if select_cols and (
        len(select_cols) != count
        or select_cols[0] < 0
        or any(a >= b for a, b in itertools.pairwise(select_cols))
    ):
        raise errors.InvalidArgumentError(
            f"select_cols {select_cols} must ascend, and be as many as the {count} outputs"
        )


# More than any type has; to read all of a long field would take time that grows with its square.
_MOST_DIGITS = 30
_INTEGER = re.compile(rb"\s*[+-]?\d+\s*\Z")
# The digits before a point are taken as a whole: else each cut of them would be tried.
_FLOAT = re.compile(
    rb"\s*[+-]?(\d++\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*\Z", re.IGNORECASE
)
_HEXADECIMAL = re.compile(
    rb"\s*[+-]?0x([\da-f]++\.?[\da-f]*|\.[\da-f]+)(p[+-]?\d+)?\s*\Z", re.IGNORECASE
)


def _parsed(field: bytes, dtype: DType, at: int, row: int) -> Any:
    if dtype is dtypes.string:
        return field
    value = csv_value(field, dtype)
    if value is None:
        raise errors.InvalidArgumentError(
            f"Field {at} in record {row} is not a valid {dtype.name}: {field[:60]!r}"
        )
    return value


def csv_value(field: bytes, dtype: DType) -> int | float | None:
    """Return the number that a field is; None for a field that is none of that type."""
    if dtype.is_integer:
        if not _INTEGER.match(field):
            return None
        signed = field.strip()
        digits = signed.lstrip(b"+-").lstrip(b"0") or b"0"
        number = int(digits[:_MOST_DIGITS]) * (-1 if signed.startswith(b"-") else 1)
        return number if dtype.min <= number <= dtype.max else None
    elif _FLOAT.match(field):
        return float(field)
    elif _HEXADECIMAL.match(field):
        try:
            return float.fromhex(field.decode())
        except OverflowError:
            return -math.inf if field.strip().startswith(b"-") else math.inf
    return None


def split_csv(line: bytes, delimiter: bytes, use_quotes: bool) -> list[bytes]:
    """Return the fields of a line; quoted ones (see RFC 4180) without their quotes.

    Raises: InvalidArgumentError for a quote where none may be.
    """
    fields: list[bytes] = []
    at, size = 0, len(line)
    while at < size:
        if line[at : at + 1] in (b"\n", b"\r"):
            at += 1
            continue
        if use_quotes and line[at : at + 1] == b'"':
            field, at = _quoted(line, at + 1, delimiter)
        else:
            end = line.find(delimiter, at)
            end = size if end < 0 else end
            field = line[at:end]
            if b"\n" in field or b"\r" in field or (use_quotes and b'"' in field):
                raise errors.InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
            at = end + 1
        fields.append(field)
    if line.endswith(delimiter):
        fields.append(b"")
    return fields


def _quoted(line: bytes, at: int, delimiter: bytes) -> tuple[bytes, int]:
    found = b""
    size = len(line)
    while True:
        end = line.find(b'"', at)
        if end < 0:
            raise errors.InvalidArgumentError(
                "Quoted field has to end with quote followed by delim or end"
            )
        found += line[at:end]
        if end == size - 1 or line[end + 1 : end + 2] == delimiter:
            return found, end + 2
        if line[end + 1 : end + 2] != b'"':
            raise errors.InvalidArgumentError(
                "Quote inside a string has to be escaped by another quote"
            )
        found += b'"'
        at = end + 2


@export("io.decode_csv", "decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Any = None,
) -> Any:
    """Return the columns of lines of comma-separated values.

    Args:
      record_defaults: for each column its type and default: a list of one element, or of none
        where a value is required.
      select_cols: which columns to return, their numbers rising; all by default.
    Raises: ValueError for other numbers of columns.
    """
    chosen = list(select_cols or ())
    if chosen != sorted(set(chosen)) or any(column < 0 for column in chosen):
        raise ValueError(f"select_cols must be numbers from 0 on that rise; found {chosen}")
    return apply_op(
        "DecodeCSV",
        records,
        list(record_defaults),
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=list(select_cols or ()),
        name=name,
    )


not_differentiable(
    "DecodeRaw",
    "DecodePaddedRaw",
    "DecodeCompressed",
    "ParseTensor",
    "SerializeTensor",
    "DecodeCSV",
)
