"""Structures that are walked as far as another one goes, and the paths to what they hold.

A shallow tree is a structure whose leaves stand for whole parts of another one.  A path is a tuple
of keys of dicts, places in sequences and names of fields; a composite that is expanded adds the
name of its class.

Source: tensorflow/python/util/nest.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.framework import nest

Path = tuple[Any, ...]


def is_nested_or_composite(structure: Any) -> bool:
    """Whether a value is a structure, stands for several tensors, or is a spec of such a value."""
    return nest.is_nested(structure) or _expands(structure)


def _expands(value: Any) -> bool:
    """Whether a value is taken apart where composites are expanded."""
    if isinstance(value, TypeSpec):
        return hasattr(value, "_component_specs")
    return nest.is_composite(value)


def _is_nested(structure: Any, expand: bool) -> bool:
    return is_nested_or_composite(structure) if expand else nest.is_nested(structure)


def sorted_items(structure: Any) -> list[tuple[Any, Any]]:
    """Return the keys, places or fields of one level, with what stands there, in order."""
    if isinstance(structure, TypeSpec):
        spec: Any = structure
        return [(structure.value_type.__name__, spec._component_specs)]
    if nest.is_composite(structure):
        return [(type(structure).__name__, nest.components(structure))]
    return nest.sorted_items(structure)


def values(structure: Any) -> Iterator[Any]:
    """Give what one level of a structure holds, in order."""
    return (value for _, value in sorted_items(structure))


def sequence_like(instance: Any, args: Iterable[Any]) -> Any:
    """Return a structure like one level of another, with other members.

    Args:
      args: as many members as the instance has, in the order of its sorted keys.
    """
    given = list(args)
    if isinstance(instance, TypeSpec):
        spec: Any = instance
        return spec._from_components(given[0])
    if nest.is_composite(instance):
        return nest.pack_sequence_as(instance, nest.flatten(given[0], True), True)
    return nest.sequence_like(instance, given)


# ---- as far as another one goes


def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Check that a structure goes on at least where the shallow one does.

    Raises: TypeError where one is a structure and the other is not, or, with check_types, where
    their classes differ; ValueError for other lengths or keys.
    """
    if not _is_nested(shallow_tree, expand_composites):
        return
    if not _is_nested(input_tree, expand_composites):
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. "
            f"Input has type: {type(input_tree)}."
        )
    composite = _expands(shallow_tree) or _expands(input_tree)
    if composite:
        _assert_same_composite(shallow_tree, input_tree)
    elif check_types and not _same_kind(shallow_tree, input_tree):
        raise _other_type(shallow_tree, input_tree)
    elif len(shallow_tree) != len(input_tree):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(input_tree)}, while shallow structure has length {len(shallow_tree)}."
        )
    if isinstance(shallow_tree, Mapping):
        absent = sorted(set(shallow_tree) - set(input_tree))
        if absent:
            raise ValueError(
                "The shallow_tree's keys are not a subset of the input_tree's keys. The "
                "shallow_tree has the following keys that are not in the input_tree: "
                f"{absent}."
            )
    for shallow, given in zip(values(shallow_tree), values(input_tree)):
        assert_shallow_structure(shallow, given, check_types, expand_composites)


def _same_kind(one: Any, other: Any) -> bool:
    if isinstance(other, type(one)):
        return True
    if nest.is_namedtuple(one) and nest.is_namedtuple(other):
        return nest.same_namedtuples(one, other)
    return any(isinstance(one, kind) and isinstance(other, kind) for kind in (list, Mapping))


def _other_type(shallow: Any, given: Any) -> TypeError:
    return TypeError(
        "The two structures don't have the same sequence type. Input structure has type "
        f"{type(given)}, while shallow structure has type {type(shallow)}."
    )


def _assert_same_composite(shallow: Any, given: Any) -> None:
    if not (_expands(shallow) and _expands(given)):
        raise _other_type(shallow, given)
    first, second = (_structure_of(one) for one in (shallow, given))
    if first is None or second is None:
        if type(shallow) is not type(given):
            raise _other_type(shallow, given)
    elif first.most_specific_common_supertype([second]) is None:
        raise ValueError(f"Incompatible CompositeTensor TypeSpecs: {first} vs. {second}")


def _structure_of(value: Any) -> TypeSpec | None:
    if isinstance(value, TypeSpec):
        return value
    found: TypeSpec | None = getattr(value, "_type_spec", None)
    return found


def _up_to(shallow: Any, given: Any, expand: bool, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Give the paths of the leaves of a shallow tree, with what the other one has there."""
    if not _is_nested(shallow, expand):
        yield path, given
        return
    there = dict(sorted_items(given))
    for (key, below), place in zip(sorted_items(shallow), there):
        # Of composites only the classes' names may differ: a spec and its value.
        yield from _up_to(below, there[key if key in there else place], expand, (*path, key))


def flatten_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> list[Any]:
    """Return what a structure has where the shallow one has leaves.

    Raises: TypeError or ValueError where it does not go on as the shallow one does.
    """
    return [
        value
        for _, value in flatten_with_tuple_paths_up_to(
            shallow_tree, input_tree, check_types, expand_composites
        )
    ]


def flatten_with_tuple_paths_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> list[tuple[Path, Any]]:
    """Return what a structure has where the shallow one has leaves, each with its path.

    Raises: TypeError or ValueError where it does not go on as the shallow one does.
    """
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites)
    return list(_up_to(shallow_tree, input_tree, expand_composites))


def map_structure_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """Return a structure like the shallow one, of what func makes of what stands at its leaves.

    Args:
      inputs: structures that go on at least where the shallow one does.
      check_types, expand_composites: as in `assert_shallow_structure`; others go to func.
    Raises: ValueError without inputs, and as `assert_shallow_structure`.
    """
    return map_structure_with_tuple_paths_up_to(
        shallow_tree, lambda _, *given, **named: func(*given, **named), *inputs, **kwargs
    )


def map_structure_with_tuple_paths_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **kwargs: Any
) -> Any:
    """Return a structure like the shallow one, of what func makes of a path and what stands there.

    Arguments and errors are those of `map_structure_up_to`.
    """
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    for one in inputs:
        assert_shallow_structure(shallow_tree, one, check_types, expand)
    rows = [list(_up_to(shallow_tree, one, expand)) for one in inputs]
    results = [func(row[0][0], *(value for _, value in row), **kwargs) for row in zip(*rows)]
    return nest.pack_sequence_as(shallow_tree, results, expand)


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """Return a shallow tree of bools, that ends where a function says so.

    Args:
      traverse_fn: takes a part of the structure; whether to go on into it, or one level of bools
        that say so of each of its members.
    Raises: TypeError where it gives something else.
    """
    goes_on = traverse_fn(structure)
    if not _is_nested(structure, expand_composites):
        if not isinstance(goes_on, bool):
            raise TypeError(
                f"traverse_fn returned structure: {goes_on} for non-structure: {structure}"
            )
        return goes_on
    if goes_on is False:
        return False
    if goes_on is True:
        chosen: list[Any] = [True for _ in values(structure)]
    elif not _is_nested(goes_on, expand_composites):
        raise TypeError(f"traverse_fn returned a non-bool scalar: {goes_on} for input: {structure}")
    else:
        assert_shallow_structure(goes_on, structure, expand_composites=expand_composites)
        chosen = list(values(goes_on))
    if not all(isinstance(one, bool) for one in chosen):
        raise TypeError(
            f"traverse_fn didn't return a depth=1 structure of bools.  saw: {goes_on}  for "
            f"structure: {structure}"
        )
    below = [
        get_traverse_shallow_structure(traverse_fn, part, expand_composites) if go else False
        for go, part in zip(chosen, values(structure))
    ]
    return sequence_like(structure, below)


# ---- paths


def yield_flat_paths(nest: Any, expand_composites: bool = False) -> Iterator[Path]:
    """Give the path of each leaf, in the order of `flatten`."""
    return (path for path, _ in _up_to(nest, nest, expand_composites))


def flatten_with_tuple_paths(
    structure: Any, expand_composites: bool = False
) -> list[tuple[Path, Any]]:
    """Return the leaves of a structure, each with its path."""
    return list(_up_to(structure, structure, expand_composites))


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """Return the leaves of a structure, each with its path as text."""
    found = flatten_with_tuple_paths(structure, expand_composites)
    return [(separator.join(map(str, path)), value) for path, value in found]


def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return a structure of what func makes of the path of each leaf and the leaves there.

    Arguments and errors are those of `map_structure_up_to`, without the shallow tree.
    """
    if not structure:
        raise ValueError("Cannot map over no sequences")
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **kwargs)


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return a structure of what func makes of the path of each leaf, as text, and the leaves.

    Arguments and errors are those of `map_structure_up_to`, without the shallow tree.
    """
    return map_structure_with_tuple_paths(
        lambda path, *given, **named: func("/".join(map(str, path)), *given, **named),
        *structure,
        **kwargs,
    )


# ---- other forms


def list_to_tuple(structure: Any) -> Any:
    """Return a structure with tuples in the place of its lists, at all levels."""
    if not nest.is_nested(structure):
        return structure
    members = [list_to_tuple(value) for value in values(structure)]
    return tuple(members) if isinstance(structure, list) else sequence_like(structure, members)


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a dict whose keys may be structures as one of their leaves and those of the values.

    Raises: TypeError for what is no dict; ValueError for a key beside a value of another form, and
    for one that comes twice.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    found: dict[Any, Any] = {}
    for key, value in dictionary.items():
        pairs = [(key, value)]
        if nest.is_nested(key):
            nest.assert_same_structure(key, value, check_types=False)
            pairs = list(zip(nest.flatten(key), nest.flatten(value)))
        for one, its in pairs:
            if one in found:
                raise ValueError(f"Could not flatten dictionary: key {one} is not unique.")
            found[one] = its
    return found


def is_mapping(obj: object) -> bool:
    """Whether a value is a dict or like one."""
    return isinstance(obj, Mapping)
