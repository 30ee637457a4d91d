"""Nested structures: lists, tuples, named tuples and dicts of things.

Dicts are walked in the order of their sorted keys.  A composite (IndexedSlices, TensorArray) is
one thing, or several tensors where it is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
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


@export("nest.is_nested")
def is_nested(seq: object) -> bool:
    """Whether seq is a list, tuple or dict."""
    return isinstance(seq, (list, tuple, Mapping))


@export("nest.flatten")
def flatten(structure: object, expand_composites: bool = False) -> list[Any]:
    """Return the leaves of a structure; a leaf alone gives a list of one."""
    return list(_leaves(structure, expand_composites))


def _leaves(structure: object, expand: bool) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in sorted(structure):
            yield from _leaves(structure[key], expand)
    elif isinstance(structure, (list, tuple)):
        for item in structure:
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
    if isinstance(structure, Mapping):
        packed = {key: _pack(structure[key], leaves, expand) for key in sorted(structure)}
        return _like_mapping(structure, packed)
    if isinstance(structure, (list, tuple)):
        items = [_pack(item, leaves, expand) for item in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*items)
        return items if isinstance(structure, list) else tuple(items)
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
    ordered = {key: packed[key] for key in original}
    return ordered if type(original) is dict else type(original)(ordered)  # type: ignore[call-arg]


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
    if check_types and type(nest1) is not type(nest2) and not _both_plain_dicts(nest1, nest2):
        raise TypeError(f"structures differ in type: {_kind(nest1)} against {_kind(nest2)}")
    if isinstance(nest1, Mapping) != isinstance(nest2, Mapping):
        raise TypeError(f"structures differ in type: {_kind(nest1)} against {_kind(nest2)}")
    if isinstance(nest1, Mapping):
        if set(nest1) != set(nest2):
            raise ValueError(f"dicts have keys {sorted(nest1)} and {sorted(nest2)}")
        pairs = [(nest1[key], nest2[key]) for key in sorted(nest1)]
    else:
        if len(nest1) != len(nest2):
            raise ValueError(f"structures have {len(nest1)} and {len(nest2)} members")
        pairs = list(zip(nest1, nest2))
    for one, two in pairs:
        assert_same_structure(one, two, check_types, expand_composites)


def _assert_same_specs(one: Any, two: Any) -> None:
    if not (isinstance(one, Composite) and isinstance(two, Composite)):
        raise ValueError(f"structures differ: {_kind(one)} against {_kind(two)}")
    first, second = one._type_spec, two._type_spec
    if first.most_specific_common_supertype([second]) is None:
        raise ValueError(f"Incompatible CompositeTensor TypeSpecs: {first} vs. {second}")


def _both_plain_dicts(one: object, two: object) -> bool:
    return isinstance(one, dict) and isinstance(two, dict)


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
