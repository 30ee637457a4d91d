"""Strings.  They are bytes in object arrays, so these ops run on the host.

Source: tensorflow/core/ops/string_ops.cc and its kernels.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, broadcast, reduction, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar, scoped
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError, OutOfRangeError


def map_strings(function: Callable[[bytes], Any], x: object, dtype: Any = object) -> Any:
    """Return the function of each string, as an array of the type (bytes by default)."""
    given = np.asarray(x, object)
    made = np.empty(given.shape, dtype)
    flat = made.reshape(-1)
    for i, item in enumerate(given.reshape(-1)):
        flat[i] = function(item)
    return made


def encoded(text: str) -> bytes:
    """Return the bytes of an attr."""
    return text.encode("utf-8", "surrogateescape")


def scalar_string(x: object, what: str) -> bytes:
    """Return a string that must be a scalar.  Raises: InvalidArgumentError."""
    check_scalar(x, what)
    found: bytes = np.asarray(x, object).reshape(-1)[0]
    return found


# ---- joining


def _join_shape(c: ShapeContext) -> list[Dims]:
    found: Dims = ()
    for dims in c.inputs:
        if dims == ():
            continue
        found = dims if found == () or found is None else shapes.merge(found, dims)
    return [None if any(dims is None for dims in c.inputs) and found == () else found]


@op(
    """
    StringJoin(inputs: N * string) -> output: string
    N: int >= 0
    separator: string = ''
    """,
    shape=_join_shape,
)
def string_join_kernel(ctx: KernelContext, inputs: list[Any], *, separator: str) -> Any:
    """Return the inputs joined element by element; scalars stand for every element.

    Raises: InvalidArgumentError for inputs of different shapes.
    """
    arrays = [np.asarray(x, object) for x in inputs]
    sizes = {x.shape for x in arrays if x.shape}
    if len(sizes) > 1:
        raise InvalidArgumentError(f"StringJoin wants one shape; found {sorted(sizes)}")
    shape = sizes.pop() if sizes else ()
    between = separator.encode("utf-8", "surrogateescape")
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in arrays]
    made = np.empty(shape, object)
    made_flat = made.reshape(-1)
    for i in range(made.size):
        made_flat[i] = between.join([part[i] for part in flat])
    return made


@export("string_join", "strings.join")
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """Return string tensors joined element by element; scalars stand for every element."""
    made: Tensor = apply_op("StringJoin", list(inputs), separator=separator, name=name)
    return made


@op(
    """
    ReduceJoin(inputs: string, reduction_indices: int32) -> output: string
    keep_dims: bool = false
    separator: string = ''
    """,
    shape=reduction,
)
def reduce_join_kernel(
    ctx: KernelContext, inputs: Array, axes: Array, *, keep_dims: bool, separator: str
) -> Any:
    """Return the strings joined along the axes: along the first one given, then the next."""
    rank = inputs.ndim
    order = axes.reshape(-1).tolist()
    if any(not -rank <= a < rank for a in order):
        raise OutOfRangeError(f"ReduceJoin: axes {order} for rank {rank}")
    if len({a % rank for a in order}) != len(order):
        raise InvalidArgumentError(f"ReduceJoin: axes {order} name one axis twice")
    order = [a % rank for a in order]
    if not order:
        return inputs
    kept = [a for a in range(rank) if a not in order]
    rows = np.transpose(inputs, [*kept, *reversed(order)])
    outer = [inputs.shape[a] for a in kept]
    rows = rows.reshape(int(np.prod(outer, dtype=np.int64)), -1)
    between = separator.encode("utf-8", "surrogateescape")
    made = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        made[i] = between.join(row.tolist())
    final = [1 if a in order else inputs.shape[a] for a in range(rank)] if keep_dims else outer
    return made.reshape(final)


@export("reduce_join", "strings.reduce_join")
@scoped("ReduceJoin")
def reduce_join(
    inputs: TensorLike,
    axis: TensorLike | None = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: TensorLike | None = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Return strings joined along axes; along all of them by default.

    Raises: ValueError without axes for an input of unknown rank.
    """
    given = convert_to_tensor(inputs)
    axes = reduction_indices if axis is None else axis
    if axes is None:
        if given.dims is None:
            raise ValueError("reduce_join of an unknown rank needs axis")
        axes = np.arange(len(given.dims), dtype=np.int32)
    keep = bool(keepdims if keep_dims is None else keep_dims)
    made: Tensor = apply_op(
        "ReduceJoin", given, axes, keep_dims=keep, separator=separator, name=name
    )
    return made


# ---- numbers


@op(
    """
    AsString(input: T) -> output: string
    T: type in {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, \
uint64, complex64, complex128, bool, variant, string}
    precision: int = -1
    scientific: bool = false
    shortest: bool = false
    width: int = -1
    fill: string = ''
    """,
    shape=same_as(0),
)
def as_string_kernel(
    ctx: KernelContext,
    x: Array,
    *,
    T: DType,
    precision: int,
    scientific: bool,
    shortest: bool,
    width: int,
    fill: str,
) -> Any:
    """Return each element as C's printf would write it."""
    if T is dtypes.string:
        return np.asarray(x, object)
    pattern = _printf(T, precision, scientific, shortest, width, fill)
    flat = np.asarray(x).reshape(-1)
    values = flat.astype(np.float64) if T.is_floating else flat
    made = np.empty(np.shape(x), object)
    made_flat = made.reshape(-1)
    for i, value in enumerate(values.tolist()):
        if T.is_bool:
            text = pattern % ("true" if value else "false")
        elif T.is_complex:
            text = f"({pattern % value.real},{pattern % value.imag})"
        else:
            text = pattern % value
        made_flat[i] = text.encode()
    return made


def _printf(
    dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: str
) -> str:
    if scientific and shortest:
        raise InvalidArgumentError("AsString: scientific and shortest exclude each other")
    if len(fill) > 1 or (fill and fill not in " +-0#"):
        raise InvalidArgumentError(f"AsString: fill {fill!r} is none of ' ', '+', '-', '0', '#'")
    size = ("%" + fill + str(width)) if width >= 0 else "%" + fill
    if dtype.is_bool:
        return size.replace("0", "", 1) + "s" if fill == "0" else size + "s"
    if not (dtype.is_floating or dtype.is_complex):
        if precision >= 0 or scientific or shortest:
            raise InvalidArgumentError(f"AsString: {dtype.name} has no precision")
        return size + "d"
    size += f".{precision}" if precision >= 0 else ""
    return size + ("e" if scientific else "g" if shortest else "f")


@export("as_string", "strings.as_string", "dtypes.as_string")
def as_string(
    input: TensorLike,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Return each element written as a string, as C's printf would."""
    made: Tensor = apply_op(
        "AsString",
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )
    return made


@op(
    """
    StringToNumber(string_tensor: string) -> output: out_type
    out_type: type in {float, double, int32, int64, uint32, uint64} = float
    """,
    shape=same_as(0),
)
def string_to_number_kernel(ctx: KernelContext, x: Array | bytes, *, out_type: DType) -> Any:
    """Return the numbers that strings spell.  Raises: InvalidArgumentError for other strings."""
    read: Callable[[bytes], Any] = float if out_type.is_floating else int

    def convert(item: bytes) -> Any:
        try:
            value = read(item) if b"_" not in item else None
        except ValueError:
            value = None
        if value is None or (out_type.is_integer and not out_type.min <= value <= out_type.max):
            raise InvalidArgumentError(
                f"StringToNumber: {item.decode('utf-8', 'replace')!r} is no {out_type.name}"
            )
        return value

    with np.errstate(over="ignore"):
        return map_strings(convert, x, out_type.as_numpy_dtype)


@export("string_to_number", "strings.to_number")
def string_to_number(
    string_tensor: TensorLike | None = None,
    out_type: DTypeLike = dtypes.float32,
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the numbers that strings spell."""
    given = input if string_tensor is None else string_tensor
    made: Tensor = apply_op("StringToNumber", given, out_type=out_type, name=name)
    return made


# ---- lengths, parts, case


@op(
    """
    StringLength(input: string) -> output: int32
    unit: string in {BYTE, UTF8_CHAR} = 'BYTE'
    """,
    shape=same_as(0),
)
def string_length_kernel(ctx: KernelContext, x: Array | bytes, *, unit: str) -> Any:
    """Return the length of each string in bytes or characters."""
    if unit == "BYTE":
        return map_strings(len, x, np.int32)
    # Every byte but those that continue a character begins one.
    return map_strings(lambda item: sum((b & 0xC0) != 0x80 for b in item), x, np.int32)


@export("strings.length", "string_length")
def string_length(input: TensorLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return the length of each string, in BYTE or UTF8_CHAR."""
    made: Tensor = apply_op("StringLength", input, unit=unit, name=name)
    return made


@op(
    """
    Substr(input: string, pos: T, len: T) -> output: string
    T: type in indices
    unit: string in {BYTE, UTF8_CHAR} = 'BYTE'
    """,
    shape=broadcast,
)
def substr_kernel(
    ctx: KernelContext, x: Array | bytes, position: Array, length: Array, *, unit: str
) -> Any:
    """Return the part of each string from a position on.

    Raises: InvalidArgumentError for a position outside a string, or shapes that do not match.
    """
    if np.shape(position) != np.shape(length):
        raise InvalidArgumentError("Substr: pos and len must have one shape")
    shape = np.broadcast_shapes(np.shape(x), np.shape(position))
    strings = np.broadcast_to(np.asarray(x, object), shape).reshape(-1)
    starts = np.broadcast_to(position, shape).reshape(-1).tolist()
    counts = np.broadcast_to(length, shape).reshape(-1).tolist()
    made = np.empty(shape, object)
    flat = made.reshape(-1)
    for i, (item, start, count) in enumerate(zip(strings, starts, counts)):
        units = item if unit == "BYTE" else item.decode("utf-8", "surrogateescape")
        if not -len(units) <= start <= len(units):
            raise InvalidArgumentError(
                f"pos {start} lies outside the {len(units)} units of string {i}"
            )
        begin = start + len(units) if start < 0 else start
        # A negative length takes all that is left.
        part = units[begin:] if count < 0 else units[begin : begin + count]
        flat[i] = part if unit == "BYTE" else part.encode("utf-8", "surrogateescape")
    return made


@export("substr", "strings.substr")
def substr(
    input: TensorLike, pos: TensorLike, len: TensorLike, name: str | None = None, unit: str = "BYTE"
) -> Tensor:
    """Return the part of each string from pos on, len units long."""
    made: Tensor = apply_op("Substr", input, pos, len, unit=unit, name=name)
    return made


def _case(x: TensorLike, encoding: str, change: str) -> Any:
    if encoding == "":
        return map_strings(lambda item: getattr(item, change)(), x)
    if encoding != "utf-8":
        raise InvalidArgumentError(f"encoding {encoding!r} is neither '' nor 'utf-8'")
    return map_strings(lambda item: getattr(item.decode("utf-8", "replace"), change)().encode(), x)


@op(
    """
    StringLower(input: string) -> output: string
    encoding: string = ''
    """,
    shape=same_as(0),
)
def string_lower_kernel(ctx: KernelContext, x: Array | bytes, *, encoding: str) -> Any:
    """Return the strings in lower case."""
    return _case(x, encoding, "lower")


@op(
    """
    StringUpper(input: string) -> output: string
    encoding: string = ''
    """,
    shape=same_as(0),
)
def string_upper_kernel(ctx: KernelContext, x: Array | bytes, *, encoding: str) -> Any:
    """Return the strings in upper case."""
    return _case(x, encoding, "upper")


@op("StringStrip(input: string) -> output: string", shape=same_as(0))
def string_strip_kernel(ctx: KernelContext, x: Array | bytes) -> Any:
    """Return the strings without white space at their ends."""
    return map_strings(bytes.strip, x)


@export("strings.lower")
def lower(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in lower case."""
    made: Tensor = apply_op("StringLower", input, encoding=encoding, name=name)
    return made


@export("strings.upper")
def upper(input: TensorLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Return strings in upper case."""
    made: Tensor = apply_op("StringUpper", input, encoding=encoding, name=name)
    return made


@export("string_strip", "strings.strip")
def string_strip(input: TensorLike, name: str | None = None) -> Tensor:
    """Return strings without white space at their ends."""
    made: Tensor = apply_op("StringStrip", input, name=name)
    return made


# ---- splitting


def _split_shape(c: ShapeContext) -> list[Dims]:
    return [(None, 2), (None,), (2,)]


@op(
    """
    StringSplitV2(input: string, sep: string) -> indices: int64, values: string, shape: int64
    maxsplit: int = -1
    """,
    shape=_split_shape,
)
def string_split_v2_kernel(
    ctx: KernelContext, x: Array, sep: Array | bytes, *, maxsplit: int
) -> Any:
    """Return the parts of each string as a sparse matrix, a row for each string."""
    between = scalar_string(sep, "sep") or None
    if np.ndim(x) != 1:
        raise InvalidArgumentError(f"StringSplitV2 wants a vector; found {list(np.shape(x))}")
    rows = [item.split(between, maxsplit) for item in x.tolist()]
    if between is None:
        # What is left after the last split is an element, even where nothing is left.
        rows = [[*row, b""] if len(row) == maxsplit else row for row in rows]
    return _sparse_rows(rows)


def _sparse_rows(rows: list[list[bytes]]) -> tuple[Any, Any, Any]:
    """Return indices, values and shape of the sparse matrix with these rows."""
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.empty(len(indices), object)
    for at, (i, j) in enumerate(indices):
        values[at] = rows[i][j]
    widest = max((len(row) for row in rows), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        values,
        np.array([len(rows), widest], np.int64),
    )


@op(
    """
    StringSplit(input: string, delimiter: string) -> indices: int64, values: string, shape: int64
    skip_empty: bool = true
    """,
    shape=_split_shape,
)
def string_split_kernel(
    ctx: KernelContext, x: Array, delimiter: Array | bytes, *, skip_empty: bool
) -> Any:
    """Return the parts of each string between any of the delimiter's bytes, as a sparse matrix.

    Without a delimiter each byte is a part.
    """
    marks = scalar_string(delimiter, "delimiter")
    if np.ndim(x) != 1:
        raise InvalidArgumentError(f"StringSplit wants a vector; found {list(np.shape(x))}")
    return _sparse_rows([_parts(item, marks, skip_empty) for item in x.tolist()])


def _parts(item: bytes, marks: bytes, skip_empty: bool) -> list[bytes]:
    if not item:
        return []
    if not marks:
        return [item[i : i + 1] for i in range(len(item))]
    found = re.split(b"[" + re.escape(marks) + b"]", item)
    return [part for part in found if part] if skip_empty else found


# ---- coding


@op(
    """
    EncodeBase64(input: string) -> output: string
    pad: bool = false
    """,
    shape=same_as(0),
)
def encode_base64_kernel(ctx: KernelContext, x: Array | bytes, *, pad: bool) -> Any:
    """Return the strings in web-safe base64."""
    if pad:
        return map_strings(base64.urlsafe_b64encode, x)
    return map_strings(lambda item: base64.urlsafe_b64encode(item).rstrip(b"="), x)


@op("DecodeBase64(input: string) -> output: string", shape=same_as(0))
def decode_base64_kernel(ctx: KernelContext, x: Array | bytes) -> Any:
    """Return what web-safe base64 stands for.  Raises: InvalidArgumentError for anything else."""

    def decode(item: bytes) -> bytes:
        try:
            padded = item + b"=" * (-len(item) % 4)
            return base64.b64decode(padded, altchars=b"-_", validate=True)
        except binascii.Error as error:
            raise InvalidArgumentError(f"{item!r} is no base64: {error}") from None

    return map_strings(decode, x)


@export("io.encode_base64", "encode_base64")
def encode_base64(input: TensorLike, pad: bool = False, name: str | None = None) -> Tensor:
    """Return strings in web-safe base64."""
    made: Tensor = apply_op("EncodeBase64", input, pad=pad, name=name)
    return made


@export("io.decode_base64", "decode_base64")
def decode_base64(input: TensorLike, name: str | None = None) -> Tensor:
    """Return what web-safe base64 stands for."""
    made: Tensor = apply_op("DecodeBase64", input, name=name)
    return made


not_differentiable(
    "StringJoin",
    "StringSplit",
    "ReduceJoin",
    "AsString",
    "StringToNumber",
    "StringLength",
    "Substr",
    "StringLower",
    "StringUpper",
    "StringStrip",
    "StringSplitV2",
    "EncodeBase64",
    "DecodeBase64",
)
