"""Strings as characters of an encoding: decoded to code points, encoded, transcoded, split.

Source: tensorflow/core/kernels/unicode_ops.cc, python/ops/ragged/ragged_string_ops.py.
"""

from __future__ import annotations

import codecs
import itertools
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.ragged import RaggedTensor, partition, rows_of
from tideflow.ops.strings.strings import map_strings
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError

_WRITTEN = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
_READ = {"UTF-16-BE": "utf-16-be", "UTF-16-LE": "utf-16-le", "UTF-32-BE": "utf-32-be"}
_HOW = """
    errors: string in {"strict", "replace", "ignore"} = "replace"
    replacement_char: int = 65533
    replace_control_characters: bool = false
"""
_CONTROL = {*range(0x20), *range(0x7F, 0xA0)}


class _Reader:
    """Reads strings of an encoding as code points."""

    def __init__(
        self, encoding: str, errors: str, replacement_char: int, replace_control_characters: bool
    ) -> None:
        try:
            self._codec = codecs.lookup(_READ.get(encoding, encoding))
        except LookupError:
            raise InvalidArgumentError(f"there is no input encoding {encoding!r}") from None
        self._errors = errors
        self._instead = _checked_char(replacement_char)
        self._without_control = replace_control_characters

    def __call__(self, item: bytes) -> list[tuple[int, int]]:
        """Return code points, with the byte at which each begins.

        Raises: InvalidArgumentError for what is not of the encoding, in the way "strict".
        """
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(item):
            try:
                text = self._codec.decode(item[at:], "strict")[0]
                bad = (len(item), len(item))
            except UnicodeDecodeError as error:
                bad = (at + error.start, at + error.end)
                text = self._codec.decode(item[at : bad[0]], "strict")[0]
            for char in text:
                if not self._is_replaced(ord(char)):
                    found.append((ord(char), at))
                elif self._errors != "ignore":
                    found.append((self._instead, at))
                at += len(self._codec.encode(char)[0])
            if bad[1] > bad[0]:
                if self._errors == "strict":
                    raise InvalidArgumentError(f"invalid formatting on input string {item!r}")
                if self._errors == "replace":
                    found.append((self._instead, bad[0]))
            at = bad[1]
        return found

    def _is_replaced(self, point: int) -> bool:
        return self._without_control and point in _CONTROL


def _checked_char(point: int) -> int:
    if not 0 <= point <= 0x10FFFF or 0xD800 <= point < 0xE000:
        raise InvalidArgumentError(f"replacement_char {point} is no code point of a character")
    return point


# ---- ops


@op(
    f"""
    UnicodeTranscode(input: string) -> output: string
    input_encoding: string
    output_encoding: string in {{"UTF-8", "UTF-16-BE", "UTF-32-BE"}}
    {_HOW}
    """,
    shape=same_as(),
)
def unicode_transcode_kernel(
    ctx: KernelContext,
    x: Array,
    *,
    input_encoding: str,
    output_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
) -> Any:
    """Return strings in another encoding."""
    read = _Reader(input_encoding, errors, replacement_char, replace_control_characters)
    encoding = _WRITTEN[output_encoding]
    return map_strings(lambda item: "".join(chr(p) for p, _ in read(item)).encode(encoding), x)


def _decode(x: Array, read: _Reader, kind: DType) -> tuple[Any, Any, Any]:
    rows = [read(item) for item in np.asarray(x, object).reshape(-1).tolist()]
    splits = np.cumsum([0, *(len(row) for row in rows)]).astype(kind.as_numpy_dtype)
    flat = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
    return splits, flat[:, 0].astype(np.int32), flat[:, 1]


def _decoded_shape(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[0]
    count = None
    if dims is not None and None not in dims:
        count = int(np.prod([size for size in dims if size is not None], dtype=np.int64)) + 1
    return [(count,), (None,), (None,)]


@op(
    f"""
    UnicodeDecode(input: string) -> row_splits: Tsplits, char_values: int32
    input_encoding: string
    {_HOW}
    Tsplits: type in indices = int64
    """,
    shape=lambda c: _decoded_shape(c)[:2],
)
def unicode_decode_kernel(
    ctx: KernelContext,
    x: Array,
    *,
    input_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> Any:
    """Return row splits and code points, a row for each string."""
    read = _Reader(input_encoding, errors, replacement_char, replace_control_characters)
    return _decode(x, read, Tsplits)[:2]


@op(
    f"""
    UnicodeDecodeWithOffsets(input: string)
    -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64
    input_encoding: string
    {_HOW}
    Tsplits: type in indices = int64
    """,
    shape=_decoded_shape,
)
def unicode_decode_with_offsets_kernel(
    ctx: KernelContext,
    x: Array,
    *,
    input_encoding: str,
    errors: str,
    replacement_char: int,
    replace_control_characters: bool,
    Tsplits: DType,
) -> Any:
    """Return row splits, code points, and the bytes at which they begin."""
    read = _Reader(input_encoding, errors, replacement_char, replace_control_characters)
    return _decode(x, read, Tsplits)


def _encoded_shape(c: ShapeContext) -> list[Dims]:
    splits = c.inputs[1]
    if splits is None or len(splits) != 1 or splits[0] is None:
        return [(None,)]
    return [(splits[0] - 1,)]


@op(
    """
    UnicodeEncode(input_values: int32, input_splits: Tsplits) -> output: string
    errors: string in {"ignore", "replace", "strict"} = "replace"
    output_encoding: string in {"UTF-8", "UTF-16-BE", "UTF-32-BE"}
    replacement_char: int = 65533
    Tsplits: type in indices = int64
    """,
    shape=_encoded_shape,
)
def unicode_encode_kernel(
    ctx: KernelContext,
    values: Array,
    splits: Array,
    *,
    errors: str,
    output_encoding: str,
    replacement_char: int,
) -> Any:
    """Return a string for each row of code points."""
    instead, encoding = _checked_char(replacement_char), _WRITTEN[output_encoding]
    if np.ndim(splits) != 1 or not len(splits) or splits[0] != 0 or splits[-1] != len(values):
        raise InvalidArgumentError(f"row splits must go from 0 to {len(values)}; found {splits}")
    if (np.diff(splits) < 0).any():
        raise InvalidArgumentError(f"row splits must never fall; found {splits}")
    made = np.empty(len(splits) - 1, object)
    points = values.tolist()
    for at, (begin, end) in enumerate(itertools.pairwise(splits)):
        made[at] = _encode(points[begin:end], errors, instead).encode(encoding)
    return made


def _encode(points: list[int], errors: str, instead: int) -> str:
    text = []
    for point in points:
        if 0 <= point <= 0x10FFFF and not 0xD800 <= point < 0xE000:
            text.append(chr(point))
        elif errors == "strict":
            raise InvalidArgumentError(
                f"code point {point} is out of range for Unicode, or is a surrogate"
            )
        elif errors == "replace":
            text.append(chr(instead))
    return "".join(text)


not_differentiable("UnicodeTranscode", "UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode")


# ---- public functions


@export("strings.unicode_transcode")
def unicode_transcode(
    input: TensorLike,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return strings in another encoding: UTF-8, UTF-16-BE or UTF-32-BE.

    Args:
      errors: what becomes of bytes that are not of the encoding: "replace", "ignore" or "strict".
      replacement_char: the code point in their place.
      replace_control_characters: let it stand for control characters, too.
    Raises: InvalidArgumentError for an unknown encoding, or such bytes in the way "strict".
    """
    made: Tensor = apply_op(
        "UnicodeTranscode",
        input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
        name=name,
    )
    return made


def _characters(input: TensorLike, with_offsets: bool, attrs: dict[str, Any]) -> list[Any]:
    """Return code points (and byte offsets) of strings: a vector for a scalar, else ragged."""
    if isinstance(input, RaggedTensor):
        found = _characters(input.flat_values, with_offsets, attrs)
        return [input.with_flat_values(x) for x in found]
    given = convert_to_tensor(input, dtypes.string)
    if given.dims is None:
        raise ValueError("decoding needs strings of known rank")
    op_name = "UnicodeDecodeWithOffsets" if with_offsets else "UnicodeDecode"
    splits, *parts = apply_op(op_name, given, **attrs)
    if not given.dims:
        return list(parts)
    return [_of_shape(rows_of(values, splits), given) for values in parts]


def _of_shape(rows: RaggedTensor, like: Tensor) -> RaggedTensor:
    """Return rows, one for each element of a tensor, in its shape."""
    kind = rows.row_splits.dtype
    shape = apply_op("Shape", like, out_type=kind)
    made = rows
    for axis in range(len(like.dims or ()) - 1, 0, -1):
        outer = apply_op("Prod", apply_op("Slice", shape, [0], [axis]), [0])
        width = apply_op("StridedSlice", shape, [axis], [axis + 1], [1], shrink_axis_mask=1)
        made = rows_of(made, partition.uniform_splits(outer, width), width)
    return made


def _attrs(encoding: str, errors: str, char: int, control: bool = False) -> dict[str, Any]:
    return {
        "input_encoding": encoding,
        "errors": errors,
        "replacement_char": char,
        "replace_control_characters": control,
    }


@export("strings.unicode_decode")
def unicode_decode(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Return the code points of strings: a vector for one, ragged rows for several."""
    with get_default_graph().name_scope(name or "UnicodeDecode"):
        attrs = _attrs(input_encoding, errors, replacement_char, replace_control_characters)
        return _characters(input, False, attrs)[0]


@export("strings.unicode_decode_with_offsets")
def unicode_decode_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the code points of strings, and the bytes at which they begin (see unicode_decode)."""
    with get_default_graph().name_scope(name or "UnicodeDecodeWithOffsets"):
        attrs = _attrs(input_encoding, errors, replacement_char, replace_control_characters)
        points, offsets = _characters(input, True, attrs)
        return points, offsets


def _as_strings(points: Any) -> Any:
    if isinstance(points, RaggedTensor):
        return points.with_flat_values(_as_strings(points.flat_values))
    count = partition.count_of(points, dtypes.int64)
    splits = partition.uniform_splits(count, partition.number(1, dtypes.int64))
    return apply_op("UnicodeEncode", points, splits, output_encoding="UTF-8")


@export("strings.unicode_split")
def unicode_split(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    name: str | None = None,
) -> Any:
    """Return the characters of strings, in UTF-8: a vector for one, ragged rows for several."""
    with get_default_graph().name_scope(name or "UnicodeSplit"):
        attrs = _attrs(input_encoding, errors, replacement_char)
        return _as_strings(_characters(input, False, attrs)[0])


@export("strings.unicode_split_with_offsets")
def unicode_split_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the characters of strings, and the bytes at which they begin (see unicode_split)."""
    with get_default_graph().name_scope(name or "UnicodeSplitWithOffsets"):
        points, offsets = _characters(input, True, _attrs(input_encoding, errors, replacement_char))
        return _as_strings(points), offsets


@export("strings.unicode_encode")
def unicode_encode(
    input: TensorLike,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Return a string for each row of code points [..., length], dense or ragged."""
    with get_default_graph().name_scope(name or "UnicodeEncode"):
        attrs = {
            "output_encoding": output_encoding,
            "errors": errors,
            "replacement_char": replacement_char,
        }
        return _encoded(input, attrs)


def _encoded(input: TensorLike, attrs: dict[str, Any]) -> Any:
    if isinstance(input, RaggedTensor):
        if isinstance(input.values, RaggedTensor):
            return input.with_values(_encoded(input.values, attrs))
        return apply_op("UnicodeEncode", input.values, input.row_splits, **attrs)
    given = convert_to_tensor(input, dtypes.int32)
    if not given.dims:
        raise ValueError(f"code points have a known rank of 1 at least; found {given.shape}")
    shape = apply_op("Shape", given, out_type=dtypes.int64)
    outer = apply_op("Slice", shape, [0], [len(given.dims) - 1])
    width = apply_op("StridedSlice", shape, [-1], [0], [1], shrink_axis_mask=1)
    splits = partition.uniform_splits(apply_op("Prod", outer, [0]), width)
    found = apply_op("UnicodeEncode", apply_op("Reshape", given, [-1]), splits, **attrs)
    return apply_op("Reshape", found, outer)
