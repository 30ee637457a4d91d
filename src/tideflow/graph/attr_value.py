"""Attr values between Python and the AttrValue message.

The Python side is what tideflow.graph.node describes.  The message says by its field which kind
it holds, so decoding needs no op definition; encoding needs the kind, because 1 may be an int or
a float.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from tideflow.graph.node import FunctionRef
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents, put_aside
from tideflow.wire.shapes import decode_shape, encode_shape
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor, put_tensor


def encode_attr(
    kind: str, value: Any, contents: MutableMapping[bytes, Buffer] | None = None
) -> pb.AttrValue:
    """Return an attr value as it travels.

    Args:
      kind: "int", "list(type)" and so on, as the op's definition says.
      contents: is given the large content of a tensor; None leaves it in the message.
    """
    if kind == "tensor" and contents is not None:
        tensor_pb = pb.TensorProto()
        content = put_tensor(tensor_pb, value)
        if content is not None:
            tensor_pb.tensor_content = put_aside(content, contents)
        return pb.AttrValue(tensor=tensor_pb)
    if kind.startswith("list("):
        list_pb = pb.AttrValue(list=pb.AttrValue.ListValue())
        field, encode = _ENCODERS[kind[5:-1]]
        getattr(list_pb.list, field).extend(encode(item) for item in value)
        return list_pb
    field, encode = _ENCODERS[kind]
    encoded = encode(value)
    if kind in _MESSAGES:
        attr_pb = pb.AttrValue()
        getattr(attr_pb, field).CopyFrom(encoded)
        return attr_pb
    return pb.AttrValue(**{field: encoded})


def encode_unknown_attr(value: Any) -> pb.AttrValue:
    """Return an attr that no definition describes (its name begins with an underscore)."""
    return encode_attr(_kind_of(value), value)


def _kind_of(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"list({_kind_of(value[0]) if value else 'string'})"
    for kind, classes in _KINDS:
        if isinstance(value, classes):
            return kind
    return "tensor"


_KINDS: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("bool", bool),
    ("int", int),
    ("float", float),
    ("string", (str, bytes)),
    ("type", DType),
    ("shape", TensorShape),
    ("func", FunctionRef),
)


def _encode_string(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


def _decode_string(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _encode_func(ref: FunctionRef) -> pb.NameAttrList:
    func_pb = pb.NameAttrList(name=ref.name)
    for name, value in ref.attrs.items():
        func_pb.attr[name].CopyFrom(encode_unknown_attr(value))
    return func_pb


def _decode_func(func_pb: pb.NameAttrList) -> FunctionRef:
    return FunctionRef(func_pb.name, {n: decode_attr(v) for n, v in func_pb.attr.items()})


def _decode_dims(shape_pb: pb.TensorShapeProto) -> TensorShape:
    return TensorShape(decode_shape(shape_pb))


def _encode_shape(shape: TensorShape) -> pb.TensorShapeProto:
    return encode_shape(shape.sizes)


_ENCODERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "string": ("s", _encode_string),
    "int": ("i", int),
    "float": ("f", float),
    "bool": ("b", bool),
    "type": ("type", lambda dtype: dtype.number),
    "shape": ("shape", _encode_shape),
    "tensor": ("tensor", encode_tensor),
    "func": ("func", _encode_func),
}
_MESSAGES = frozenset({"shape", "tensor", "func"})

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "s": _decode_string,
    "i": int,
    "f": float,
    "b": bool,
    "type": lambda number: dtypes.as_dtype(int(number)),
    "shape": _decode_dims,
    "tensor": decode_tensor,
    "func": _decode_func,
}
_LIST_FIELDS = ("i", "type", "shape", "s", "f", "b", "tensor", "func")


def holds_kind(attr_pb: pb.AttrValue, kind: str) -> bool:
    """Whether a message holds an attr of a kind, such as "int" or "list(type)"."""
    field = attr_pb.WhichOneof("value")
    if field == "placeholder":
        return True
    if not kind.startswith("list("):
        return bool(field == _ENCODERS[kind][0])
    list_pb = attr_pb.list
    return field == "list" and bool(
        len(getattr(list_pb, _ENCODERS[kind[5:-1]][0])) or not list_pb.ByteSize()
    )


def without_symbols(attr_pb: pb.AttrValue) -> pb.AttrValue:
    """Return a note on a node with sizes below -1 as -1.

    TensorFlow's optimizer notes shapes in which unknown sizes that are equal have one such number.
    """
    if not any(_has_symbols(shape_pb) for shape_pb in (attr_pb.shape, *attr_pb.list.shape)):
        return attr_pb
    plain = pb.AttrValue()
    plain.CopyFrom(attr_pb)
    for shape_pb in plain.list.shape if plain.HasField("list") else [plain.shape]:
        for dim_pb in shape_pb.dim:
            dim_pb.size = max(dim_pb.size, -1)
    return plain


def _has_symbols(shape_pb: pb.TensorShapeProto) -> bool:
    return any(dim_pb.size < -1 for dim_pb in shape_pb.dim)


def decode_attr(attr_pb: pb.AttrValue, contents: GraphContents | None = None) -> Any:
    """Return an attr value as Python; None for an empty message.

    An empty list has no kind of its own: it is [].
    contents: to which a tensor may refer; they are viewed.
    Raises: InvalidArgumentError for an unknown element type or a malformed tensor or shape.
    """
    kind = attr_pb.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        return _decode_list(attr_pb.list)
    if kind == "placeholder":
        # A function's parameter, replaced when the function is instantiated.
        return Placeholder(attr_pb.placeholder)
    try:
        if kind == "tensor" and contents:
            tensor_pb = attr_pb.tensor
            return decode_tensor(tensor_pb, contents.get(tensor_pb.tensor_content))
        return _DECODERS[kind](getattr(attr_pb, kind))
    except TypeError as error:
        raise errors.InvalidArgumentError(f"malformed attr: {error}") from None


def _decode_list(list_pb: pb.AttrValue.ListValue) -> list[Any]:
    for field in _LIST_FIELDS:
        items = getattr(list_pb, field)
        if len(items):
            decode = _DECODERS[field]
            return [decode(item) for item in items]
    return []


class Placeholder(str):
    """An attr that stands for a parameter of the function around it."""

    __slots__ = ()
