"""Fetches of any nesting, flattened and put back together.

Lists, tuples, named tuples, dicts and dataclass-like attrs objects may hold tensors, operations,
variables, names, IndexedSlices, and each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.ragged import RaggedTensor, RaggedTensorValue, value_of_parts
from tideflow.ops.sparse import SparseTensor, SparseTensorValue

Build = Callable[[list[Any]], Any]


class IndexedSlicesValue(NamedTuple):
    """The value of fetched IndexedSlices."""

    values: Any
    indices: Any
    dense_shape: Any


class Fetches:
    """A fetch argument, parsed.

    Attributes:
      tensors: the tensors to fetch, each once.
      targets: the operations to run, each once.
    """

    def __init__(self, graph: Graph, fetches: Any) -> None:
        self._graph = graph
        self._slots: dict[int, int] = {}
        self._target_ids: set[int] = set()
        self.tensors: list[Tensor] = []
        self.targets: list[Operation] = []
        self._build = self._parse(fetches)

    def build(self, values: list[Any]) -> Any:
        """Return values in the shape of the argument, None in the place of an operation."""
        return self._build(values)

    def _parse(self, fetch: Any) -> Build:
        if fetch is None:
            raise TypeError("None cannot be fetched; leave it out")
        if isinstance(fetch, (list, tuple)):
            return self._parse_sequence(fetch)
        if isinstance(fetch, Mapping):
            keys = list(fetch)
            parts = [self._parse(fetch[key]) for key in keys]
            kind: Any = type(fetch)
            return lambda values: kind(zip(keys, (part(values) for part in parts)))
        if isinstance(fetch, IndexedSlices):
            return self._parse_slices(fetch)
        if isinstance(fetch, SparseTensor):
            parts = [self._parse(item) for item in fetch.parts]
            return lambda values: SparseTensorValue(*(part(values) for part in parts))
        if isinstance(fetch, RaggedTensor):
            parts = [self._parse(item) for item in _parts_of_rows(fetch)]
            return lambda values: value_of_parts(*(part(values) for part in parts))
        if hasattr(type(fetch), "__attrs_attrs__"):
            fields = [attribute.name for attribute in type(fetch).__attrs_attrs__]
            parts = [self._parse(getattr(fetch, name)) for name in fields]
            made = type(fetch)
            return lambda values: made(*(part(values) for part in parts))
        return self._parse_leaf(fetch)

    def _parse_sequence(self, fetch: Any) -> Build:
        parts = [self._parse(item) for item in fetch]
        if isinstance(fetch, list):
            return lambda values: [part(values) for part in parts]
        if hasattr(fetch, "_fields"):
            kind = type(fetch)
            return lambda values: kind(*(part(values) for part in parts))
        return lambda values: tuple(part(values) for part in parts)

    def _parse_slices(self, fetch: IndexedSlices) -> Build:
        given = [fetch.values, fetch.indices]
        if fetch.dense_shape is not None:
            given.append(fetch.dense_shape)
        parts = [self._parse(item) for item in given]
        has_shape = fetch.dense_shape is not None

        def build(values: list[Any]) -> IndexedSlicesValue:
            found = [part(values) for part in parts]
            return IndexedSlicesValue(found[0], found[1], found[2] if has_shape else None)

        return build

    def _parse_leaf(self, fetch: Any) -> Build:
        try:
            element = self._graph.as_graph_element(fetch)
        except TypeError as error:
            raise TypeError(f"cannot fetch {fetch!r}: {error}") from None
        except (KeyError, ValueError) as error:
            raise ValueError(f"cannot fetch {fetch!r}: {error.args[0]}") from None
        if not self._graph.is_fetchable(element):
            raise ValueError(f"{element.name!r} may not be fetched.")
        if isinstance(element, Operation):
            if id(element) not in self._target_ids:
                self._target_ids.add(id(element))
                self.targets.append(element)
            return lambda values: None
        slot = self._slots.get(id(element))
        if slot is None:
            slot = self._slots[id(element)] = len(self.tensors)
            self.tensors.append(element)
        found = slot
        return lambda values: values[found]


def _parts_of_rows(rows: Any) -> list[Any]:
    return [*rows.nested_row_splits, rows.flat_values]


def parts_of_feed(key: Any) -> list[Any] | None:
    """Return the tensors of which a key of a feed is made, None for one that is a tensor itself."""
    if isinstance(key, IndexedSlices):
        return [t for t in (key.values, key.indices, key.dense_shape) if t is not None]
    if isinstance(key, RaggedTensor):
        return _parts_of_rows(key)
    return list(key.parts) if isinstance(key, SparseTensor) else None


def values_of_parts(key: Any, value: Any) -> list[Any]:
    """Return the values fed to a tensor of several parts; the step names those that are missing.

    Raises: TypeError for a value without parts.
    """
    if isinstance(value, RaggedTensorValue):
        return _parts_of_rows(value)
    try:
        return list(value)
    except TypeError:
        raise TypeError(
            f"the feed {key!r} needs a value for each part, not {value!r:.50}"
        ) from None
