"""Nested structures: lists, tuples, named tuples and dicts of things.

Dicts are walked in the order of their sorted keys, classes of attrs in that of their fields.  A
composite (IndexedSlices, TensorArray) is one thing, or several tensors where it is expanded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, MappingView, MutableMapping
from typing import Any

from tideflow.graph.type_spec import Composite
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework.indexed_slices import IndexedSlices

_END = object()
Flatten = Callable[[Any], list[Any]]
Rebuild = Callable[[Any, list[Any]], Any]

_composites: list[tuple[type, Flatten, Rebuild, Callable[[Any], Hashable]]] = []


def register_composite(
    kind: type,
    flatten_parts: Flatten,
    rebuild: Rebuild,
    told: Callable[[Any], Hashable] = type,
) -> None:
    """Teach a class that stands for several tensors.

    Args:
      flatten_parts: gives the tensors of an instance.
      rebuild: makes an instance like a given one from other tensors.
      told: gives what an instance is besides its tensors, its class by default.
    """
    _composites.append((kind, flatten_parts, rebuild, told))


def _composite(
    value: object,
) -> tuple[type, Flatten, Rebuild, Callable[[Any], Hashable]] | None:
    for entry in _composites:
        if isinstance(value, entry[0]):
            return entry
    return None


def is_composite(value: TensorLike) -> bool:
    """Whether a value stands for several tensors."""
    return _composite(value) is not None


def told_of(value: object) -> Any:
    """Return what a value that stands for several tensors is besides them."""
    entry = _composite(value)
    return type(value) if entry is None else entry[3](value)


def components(value: Any) -> Any:
    """Return what a value is made of that stands for several tensors, as its spec has it."""
    if isinstance(value, Composite):
        return value._type_spec._to_components(value)
    entry = _composite(value)
    assert entry is not None
    return entry[1](value)


@export("nest.is_nested")
def is_nested(seq: object) -> bool:
    """Whether seq is a list, tuple, dict, view of a dict, or of a class that attrs made."""
    return isinstance(seq, (list, tuple, Mapping, MappingView, range)) or is_attrs(seq)


def is_attrs(obj: object) -> bool:
    """Whether a value is of a class that attrs made."""
    return hasattr(type(obj), "__attrs_attrs__")


def is_namedtuple(instance: object, strict: bool = False) -> bool:
    """Whether a value is a named tuple; strict: of no class derived from one."""
    if not isinstance(instance, tuple) or (strict and type(instance).__base__ is not tuple):
        return False
    fields = getattr(instance, "_fields", None)
    return isinstance(fields, (list, tuple)) and all(isinstance(name, str) for name in fields)


def same_namedtuples(one: Any, other: Any) -> bool:
    """Whether two named tuples have classes of the same name, with the same fields."""
    return type(one).__name__ == type(other).__name__ and one._fields == other._fields


def sorted_items(structure: Any) -> list[tuple[Any, Any]]:
    """Return the keys, places or fields of one level of a structure, with what stands there.

    Raises: TypeError for a dict whose keys cannot be sorted.
    """
    if isinstance(structure, Mapping):
        return [(key, structure[key]) for key in _sorted(structure)]
    if is_namedtuple(structure):
        return list(zip(structure._fields, structure))
    if is_attrs(structure):
        names = [field.name for field in type(structure).__attrs_attrs__]
        return [(name, getattr(structure, name)) for name in names]
    return list(enumerate(structure))


def _sorted(keys: Any) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def sequence_like(instance: Any, args: list[Any]) -> Any:
    """Return one level of a structure like another one, with other members, in the same order."""
    if isinstance(instance, Mapping):
        return _like_mapping(instance, dict(zip(_sorted(instance), args)))
    if isinstance(instance, (MappingView, range)):
        return list(args)
    if is_namedtuple(instance) or is_attrs(instance):
        return type(instance)(*args)
    return type(instance)(args)


@export("nest.flatten")
def flatten(structure: object, expand_composites: bool = False) -> list[Any]:
    """Return the leaves of a structure; a leaf alone gives a list of one."""
    return list(_leaves(structure, expand_composites))


def _leaves(structure: object, expand: bool) -> Iterator[Any]:
    if isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _leaves(item, expand)
    elif is_nested(structure):
        for _, item in sorted_items(structure):
            yield from _leaves(item, expand)
    else:
        entry = _composite(structure) if expand else None
        if entry is None:
            yield structure
        else:
            yield from entry[1](structure)


@export("nest.pack_sequence_as")
def pack_sequence_as(
    structure: object, flat_sequence: list[Any], expand_composites: bool = False
) -> Any:
    """Return the leaves put into the form of a structure.

    Raises: ValueError when there are not as many leaves as the structure has.
    """
    leaves = iter(flat_sequence)
    try:
        packed = _pack(structure, leaves, expand_composites)
        fits = next(leaves, _END) is _END
    except StopIteration:
        fits = False
    if not fits:
        wanted = sum(_count(leaf, expand_composites) for leaf in flatten(structure))
        raise ValueError(f"the structure has {wanted} leaves; {len(flat_sequence)} were given")
    return packed


def _pack(structure: object, leaves: Iterator[Any], expand: bool) -> Any:
    if is_nested(structure):
        items = [_pack(item, leaves, expand) for _, item in sorted_items(structure)]
        return sequence_like(structure, items)
    entry = _composite(structure) if expand else None
    if entry is None:
        return next(leaves)
    return entry[2](structure, [next(leaves) for _ in range(_count(structure, expand))])


def _count(leaf: object, expand: bool) -> int:
    """Return how many leaves stand for one that is no list, tuple or dict."""
    if expand and isinstance(leaf, Composite):
        # Its tensors may have to be computed, its spec says how many there are.
        return len(leaf._type_spec.parts)
    entry = _composite(leaf) if expand else None
    return 1 if entry is None else len(entry[1](leaf))


def _like_mapping(original: Mapping[Any, Any], packed: dict[Any, Any]) -> Any:
    kind: Any = type(original)
    ordered = {key: packed[key] for key in original}
    if kind is dict:
        return ordered
    if not isinstance(original, MutableMapping):
        return kind(ordered.items())
    made = defaultdict(original.default_factory) if isinstance(original, defaultdict) else kind()
    made.update(ordered)
    return made


@export("nest.map_structure")
def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return func applied to the leaves of one structure, or of several alike.

    Keyword arguments: expand_composites; check_types.
    Raises: TypeError or ValueError when the structures differ; ValueError for other keywords.
    """
    unknown = sorted(set(kwargs) - {"expand_composites", "check_types"})
    if unknown:
        raise ValueError(f"map_structure takes expand_composites and check_types, not {unknown}")
    expand = bool(kwargs.get("expand_composites", False))
    for other in structure[1:]:
        assert_same_structure(structure[0], other, kwargs.get("check_types", True), expand)
    flat = [flatten(s, expand) for s in structure]
    return pack_sequence_as(structure[0], [func(*row) for row in zip(*flat)], expand)


@export("nest.assert_same_structure")
def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise ValueError where two structures differ in form, TypeError where in type."""
    if is_nested(nest1) != is_nested(nest2):
        raise ValueError(f"structures differ: {_kind(nest1)} against {_kind(nest2)}")
    if not is_nested(nest1):
        if expand_composites:
            one, two = _composite(nest1), _composite(nest2)
            if isinstance(nest1, Composite) or isinstance(nest2, Composite):
                _assert_same_specs(nest1, nest2)
            elif one is not two:
                raise TypeError(f"structures differ: {_kind(nest1)} against {_kind(nest2)}")
        return
    if check_types and not _alike(nest1, nest2):
        raise TypeError(f"structures differ in type: {_kind(nest1)} against {_kind(nest2)}")
    if isinstance(nest1, Mapping) != isinstance(nest2, Mapping):
        raise TypeError(f"structures differ in type: {_kind(nest1)} against {_kind(nest2)}")
    if check_types and isinstance(nest1, Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"dicts have keys {sorted(nest1)} and {sorted(nest2)}")
    members = [[value for _, value in sorted_items(one)] for one in (nest1, nest2)]
    if len(members[0]) != len(members[1]):
        raise ValueError(f"structures have {len(members[0])} and {len(members[1])} members")
    for one, two in zip(*members):
        assert_same_structure(one, two, check_types, expand_composites)


def _assert_same_specs(one: Any, two: Any) -> None:
    if not (isinstance(one, Composite) and isinstance(two, Composite)):
        raise ValueError(f"structures differ: {_kind(one)} against {_kind(two)}")
    first, second = one._type_spec, two._type_spec
    if first.most_specific_common_supertype([second]) is None:
        raise ValueError(f"Incompatible CompositeTensor TypeSpecs: {first} vs. {second}")


def _alike(one: object, other: object) -> bool:
    """Whether two structures are of one kind, though of different classes, on their top level."""
    if type(one) is type(other):
        return True
    if is_namedtuple(one) and is_namedtuple(other):
        return same_namedtuples(one, other)
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in (list, Mapping))


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def _slices_parts(value: IndexedSlices) -> list[Any]:
    parts = [value.values, value.indices]
    return parts if value.dense_shape is None else [*parts, value.dense_shape]


def _slices_like(_: IndexedSlices, parts: list[Any]) -> IndexedSlices:
    return IndexedSlices(*parts)


register_composite(IndexedSlices, _slices_parts, _slices_like)
register_composite(
    Composite,
    lambda value: flatten(value._type_spec._to_components(value), expand_composites=True),
    lambda value, parts: value._type_spec.from_parts(parts),
    lambda value: value._type_spec.told,
)
