"""What the fields of extension types may be annotated with, and how values become what they say.

Source: tensorflow/python/framework/extension_type_field.py.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tideflow.eager.extension_types.composites import CompositeTensor
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.state import Variable
from tideflow.wire.dtypes import DType, as_dtype

_NONE = type(None)
_PLAIN = (int, float, str, bytes, bool, _NONE)


class Purpose(enum.Enum):
    """What values of fields are for: a value, its spec, or a default of the constructor."""

    VALUE = enum.auto()
    SPEC = enum.auto()
    DEFAULT = enum.auto()


class _NoDefault(enum.Enum):
    NO_DEFAULT = enum.auto()


NO_DEFAULT = _NoDefault.NO_DEFAULT


class Field(NamedTuple):
    """A field of an extension type: its name, its annotation, and what it is if left out."""

    name: str
    annotation: Any
    default: Any = NO_DEFAULT


class ImmutableDict(Mapping[Any, Any]):
    """A dict that nothing changes, as fields hold mappings."""

    __slots__ = ("_items",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._items = dict(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._items.items())))

    def __repr__(self) -> str:
        return f"ImmutableDict({self._items!r})"


# ---- which annotations there are


def _origin(annotation: Any) -> Any:
    """Return tuple, Mapping or Union for an annotation that says what is inside; else None."""
    found = typing.get_origin(annotation)
    if found is types.UnionType:
        return typing.Union
    return found if found in (tuple, collections.abc.Mapping, typing.Union) else None


def _is_composite(annotation: Any) -> bool:
    return (
        isinstance(annotation, type)
        and typing.get_origin(annotation) is None
        and issubclass(annotation, CompositeTensor)
        and not issubclass(annotation, Variable)
    )


def check_annotation(annotation: Any, in_key: bool = False) -> None:
    """Check that fields may be annotated so; names of classes to come are taken as they are.

    Args:
      in_key: whether it is said of the keys of a mapping, which are no tensors.
    Raises: TypeError.
    """
    if isinstance(annotation, (str, typing.ForwardRef)) or annotation is None:
        return
    origin = _origin(annotation)
    if origin is collections.abc.Mapping:
        key, value = typing.get_args(annotation)
        check_annotation(key, in_key=True)
        check_annotation(value, in_key)
    elif origin is not None:
        for inner in _members(annotation):
            check_annotation(inner, in_key)
    elif annotation in (Tensor, TensorShape) or _is_composite(annotation):
        if in_key:
            name = annotation.__name__
            raise TypeError(f"Mapping had a key {name!r} with type {type(annotation).__name__!r}")
    elif annotation not in (*_PLAIN, DType):
        name = annotation.__name__ if type(annotation) is type else annotation
        raise TypeError(f"Unsupported type annotation {name!r}")


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the annotations inside a union or tuple; of `tuple[X, ...]` that of each member."""
    return tuple(inner for inner in typing.get_args(annotation) if inner is not Ellipsis)


# ---- values as annotations say


def convert_fields(fields: Iterable[Field], values: dict[str, Any], purpose: Purpose) -> None:
    """Make the values of fields what their annotations say, in place.

    Raises: TypeError for a value of another type; ValueError for fields that are missing, or none.
    """
    known = {field.name: field for field in fields}
    if more := values.keys() - known.keys():
        raise ValueError(f"Got unexpected fields: {more}")
    if missing := known.keys() - values.keys():
        raise ValueError(f"Missing required fields: {missing}")
    converted = {
        name: convert(values[name], field.annotation, name, purpose)
        for name, field in known.items()
    }
    values.update(converted)


def convert(value: Any, annotation: Any, path: str, purpose: Purpose = Purpose.VALUE) -> Any:
    """Return a value as its annotation says; path: where it stands.  Raises: TypeError."""
    origin = _origin(annotation)
    if origin is tuple:
        return _as_tuple(value, annotation, path, purpose)
    if origin is collections.abc.Mapping:
        return _as_mapping(value, annotation, path, purpose)
    if origin is typing.Union:
        return _as_one_of(value, annotation, path, purpose)
    if annotation is Tensor:
        return _as_tensor(value, path, purpose)
    if _is_composite(annotation):
        return _as_composite(value, annotation, path, purpose)
    if annotation is TensorShape:
        return _made(lambda: TensorShape(value), "tf.TensorShape", value, path)
    if annotation is DType:
        return _made(lambda: as_dtype(value), "tf.DType", value, path)
    plain = _NONE if annotation is None else annotation
    if plain not in _PLAIN:
        raise TypeError(f"{path}: Unsupported type annotation {annotation!r}")
    if not isinstance(value, plain):
        raise _unexpected(path, repr(plain.__name__), value)
    return value


def _unexpected(path: str, wanted: str, value: Any) -> TypeError:
    return TypeError(f"{path}: expected {wanted}, got {type(value).__name__!r}")


def _made(make: typing.Callable[[], Any], wanted: str, value: Any, path: str) -> Any:
    try:
        return make()
    except TypeError as error:
        raise _unexpected(path, repr(wanted), value) from error


def _as_tensor(value: Any, path: str, purpose: Purpose) -> Any:
    if purpose is Purpose.SPEC:
        if isinstance(value, TypeSpec) and value.value_type is Tensor:
            return value
        raise _unexpected(path, "a TensorSpec", value)
    # A default is made a tensor where it is used: in a graph, of the graph.
    if isinstance(value, Tensor) or purpose is Purpose.DEFAULT:
        return value
    try:
        return convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise _unexpected(path, "a Tensor", value) from error


def _as_composite(value: Any, wanted: type, path: str, purpose: Purpose) -> Any:
    if purpose is Purpose.SPEC:
        if isinstance(value, TypeSpec) and issubclass(value.value_type, wanted):
            return value
        raise _unexpected(path, f"a TypeSpec for {wanted.__name__!r}", value)
    if not isinstance(value, wanted):
        raise _unexpected(path, repr(wanted.__name__), value)
    return value


def _as_tuple(value: Any, annotation: Any, path: str, purpose: Purpose) -> Any:
    if not isinstance(value, Sequence):
        raise _unexpected(path, "tuple", value)
    wanted = _members(annotation)
    if Ellipsis in typing.get_args(annotation):
        wanted *= len(value)
    if len(value) != len(wanted):
        raise _unexpected(path, f"tuple with length {len(wanted)}", value)
    pairs = enumerate(zip(value, wanted))
    return tuple(convert(item, kind, f"{path}[{i}]", purpose) for i, (item, kind) in pairs)


def _as_mapping(value: Any, annotation: Any, path: str, purpose: Purpose) -> Any:
    if not isinstance(value, Mapping):
        raise _unexpected(path, "mapping", value)
    of_keys, of_values = typing.get_args(annotation)
    return ImmutableDict(
        (
            convert(key, of_keys, f"{path}[<key>]", purpose),
            convert(item, of_values, f"{path}[{key!r}]", purpose),
        )
        for key, item in value.items()
    )


def _as_one_of(value: Any, annotation: Any, path: str, purpose: Purpose) -> Any:
    for kind in _members(annotation):
        try:
            return convert(value, kind, path, purpose)
        except TypeError:
            continue
    raise _unexpected(path, repr(annotation), value)
