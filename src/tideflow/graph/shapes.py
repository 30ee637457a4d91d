"""Static shapes: what is known of a tensor's shape before anything runs.

Inside the package a static shape is a plain tuple of sizes, None for an unknown size, or None as
a whole for an unknown rank (`Dims`).  `TensorShape` is the same for users, with arithmetic; its
sizes are numbers and None, or Dimension objects where a program chose TensorFlow 1 behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from tideflow.graph.behavior import behavior
from tideflow.graph.dimension import Dimension

Dims: TypeAlias = tuple[int | None, ...] | None

UNKNOWN: Dims = None
SCALAR: Dims = ()


class TensorShape:
    """A static shape: sizes (None where unknown), or unknown altogether.

    `TensorShape([2, None])` has rank 2; `TensorShape(None)` may be any shape.
    Raises: ValueError for a negative size or something that is no list of sizes.
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Any) -> None:
        self._dims: Dims = as_dims(dims)

    @property
    def sizes(self) -> Dims:
        """The sizes as a tuple with None for unknown ones, or None for an unknown rank."""
        return self._dims

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes as Dimension objects, or None for an unknown rank."""
        return None if self._dims is None else [Dimension(size) for size in self._dims]

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    def as_list(self) -> list[int | None]:
        """The sizes as a list.  Raises: ValueError when the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() of a shape of unknown rank")
        return list(self._dims)

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError when a size is not known."""
        if not self.is_fully_defined():
            raise ValueError(f"shape {self} is not fully known")

    def num_elements(self) -> int | None:
        """The product of the sizes, or None where one is unknown."""
        return num_elements(self._dims)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one shape can satisfy both."""
        return compatible(self._dims, as_dims(other))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError when no shape satisfies both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"shapes {self} and {TensorShape(other)} are not compatible")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError for another rank."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError for a shape of another rank."""
        rank = TensorShape(other).rank
        if rank is not None:
            self.assert_has_rank(rank)

    def merge_with(self, other: Any) -> TensorShape:
        """Return what both say together.  Raises: ValueError when they disagree."""
        return TensorShape(merge(self._dims, as_dims(other)))

    def concatenate(self, other: Any) -> TensorShape:
        """Return the sizes of self followed by those of other."""
        tail = as_dims(other)
        return TensorShape(None if self._dims is None or tail is None else self._dims + tail)

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape, known to have the rank.  Raises: ValueError when it has another."""
        return self.merge_with((None,) * rank)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape.  Raises: ValueError when it has fewer dimensions than rank."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"shape {self} must have at least {rank} dimensions")
        return self

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("a shape of unknown rank has no length")
        return len(self._dims)

    def __iter__(self) -> Iterator[Any]:
        if self._dims is None:
            raise ValueError("a shape of unknown rank cannot be iterated")
        return iter(self._dims if behavior.tensorshape else map(Dimension, self._dims))

    def __bool__(self) -> bool:
        return self._dims is not None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return TensorShape(_unknown_slice(key) if self._dims is None else self._dims[key])
        found = None if self._dims is None else self._dims[key]
        return found if behavior.tensorshape else Dimension(found)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == as_dims(other)
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        if self._dims is None:
            return "TensorShape(None)"
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        sizes = [str(size) for size in self]
        return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorShape, (self._dims,))


def _unknown_slice(key: slice) -> Dims:
    """Return a slice of a shape of unknown rank, whose own rank its ends may tell."""
    start: int = key.start or 0
    if key.step is not None or key.stop is None or start < 0 or key.stop < 0:
        return None
    stop: int = key.stop
    return (None,) * max(stop - start, 0)


def as_dims(shape: Any) -> Dims:
    """Return any description of a static shape as Dims.

    Takes a TensorShape, a list or tuple of sizes (None or -1: unknown), one size, or None.
    Raises: ValueError for a size below -1; TypeError for anything else.
    """
    if shape is None:
        return None
    if isinstance(shape, TensorShape):
        return shape.sizes
    if isinstance(shape, (int, Dimension)) or getattr(shape, "ndim", None) == 0:
        return (_as_size(shape),)
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(f"{shape!r} is not a shape; give a list of sizes, or None for any")
    return tuple(_as_size(size) for size in shape)


def _as_size(size: Any) -> int | None:
    if isinstance(size, Dimension):
        return size.value
    if size is None:
        return None
    value = int(size)
    if value < -1:
        raise ValueError(f"a size must be at least 0, or -1 or None if unknown; found {value}")
    return None if value == -1 else value


def format_dims(dims: Sequence[int | None] | None) -> str:
    """Return a shape for a message: [32,?] or <unknown>."""
    if dims is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in dims) + "]"


def num_elements(dims: Dims) -> int | None:
    """Return the product of the sizes, or None where one is unknown."""
    if dims is None:
        return None
    count = 1
    for size in dims:
        if size is None:
            return None
        count *= size
    return count


def compatible(a: Dims, b: Dims) -> bool:
    """Whether one shape can satisfy both."""
    if a is None or b is None:
        return True
    if len(a) != len(b):
        return False
    return all(x is None or y is None or x == y for x, y in zip(a, b))


def merge(a: Dims, b: Dims) -> Dims:
    """Return what both shapes say together.  Raises: ValueError when they disagree."""
    if a is None:
        return b
    if b is None:
        return a
    if not compatible(a, b):
        raise ValueError(f"shapes {format_dims(a)} and {format_dims(b)} are not compatible")
    return tuple(y if x is None else x for x, y in zip(a, b))


def relax(a: Dims, b: Dims) -> Dims:
    """Return the most that is true of both shapes: sizes on which they agree."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b))


def broadcast(a: Dims, b: Dims) -> Dims:
    """Return the shape of an elementwise result.  Raises: ValueError when they do not match."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    return tuple(_broadcast_size(x, y, a, b) for x, y in zip(left, right))


def _broadcast_size(x: int | None, y: int | None, a: Dims, b: Dims) -> int | None:
    if x == y or y == 1:
        return x
    if x == 1:
        return y
    if x is None:
        return y
    if y is None:
        return x
    raise ValueError(
        f"shapes {format_dims(a)} and {format_dims(b)} do not broadcast: {x} against {y}"
    )
