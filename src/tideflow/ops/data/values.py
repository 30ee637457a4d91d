"""What a dataset is when it runs: a value that makes iterators.

A dataset never changes.  An iterator belongs to the event loop: every `next` is called there, one
at a time, and nothing is locked.  An iterator that failed or was cancelled may be asked again.

Source: tensorflow/core/framework/dataset.h; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from tideflow.graph import shapes as static_shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import Variant

# One value for each component.
Element: TypeAlias = "tuple[Any, ...]"

INFINITE = -1
UNKNOWN = -2


class Iterator(Protocol):
    """Gives the elements of a dataset, one after the other."""

    async def next(self) -> Element | None:
        """Return the next element; None when there are no more, then and ever after."""


class SeedSource(Protocol):
    """Gives a pair of seeds whenever it is asked."""

    def next(self) -> tuple[int, int]:
        """Return the next seeds."""

    def state(self) -> list[int]:
        """Return what tells all seeds to come."""

    def restore(self, state: Sequence[int]) -> None:
        """Go to a state."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The node that made a dataset, from which it can be made again elsewhere.

    Attributes:
      ctx: the context of the node.
      inputs: the values of its flat inputs.
    """

    ctx: KernelContext
    inputs: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Splits:
    """How the elements of a source are shared out one by one among those who walk over it.

    Attributes:
      keys: what names each element, in order.
      element: gives the element of a key; None where each who walks over it gets all elements.
    """

    keys: Sequence[int]
    element: Callable[[int], Element] | None


class Dataset:
    """A dataset.

    Attributes:
      kind: the op that made it, without "Dataset": "Map".
      types, shapes: of an element's components.
      inputs: the datasets that it reads.
      options: serialized tf.data options that were set here.
      batch_size: how many elements of its input each of its own has; 0 where it does not batch.
      stateful_ops: the ops with state in functions that it and its inputs call.
      is_direct: whether its elements may be made in the calling thread, without an event loop.
      seeds: those of its own and of its inputs that give seeds to the iterators.
      origin: how it was made; None where it cannot be told.
      splits: how its elements can be shared out, None where they cannot.

    Args:
      iterate: makes an iterator.
      count: tells the cardinality; asked only when somebody wants to know.
      is_direct: whether it is, where its inputs are.
    """

    __slots__ = (
        "_count", "_iterate", "_stateful_ops", "batch_size", "inputs", "is_direct", "kind",
        "options", "origin", "seeds", "shapes", "splits", "types",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        types: Sequence[DType],
        shapes: Sequence[Dims],
        iterate: Callable[[], Iterator],
        count: Callable[[], int] | int = UNKNOWN,
        inputs: Sequence[Dataset] = (),
        *,
        options: bytes = b"",
        batch_size: int = 0,
        is_direct: bool = False,
        stateful_ops: Callable[[], Iterable[str]] = tuple,
        seeds: SeedSource | None = None,
        origin: Origin | None = None,
        splits: Splits | None = None,
    ) -> None:
        self.kind = kind
        self.is_direct: bool = is_direct and all(source.is_direct for source in inputs)
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self.inputs = tuple(inputs)
        self.options = options
        self.batch_size = batch_size
        self._iterate = iterate
        self._count = count
        self._stateful_ops = stateful_ops
        self.origin = origin
        self.splits = splits
        inner = [one for source in inputs for one in source.seeds]
        self.seeds: list[SeedSource] = inner if seeds is None else [*inner, seeds]

    def iterator(self) -> Iterator:
        """Return a new iterator, at the first element."""
        return self._iterate()

    def iterate_by(self, iterate: Callable[[], Iterator]) -> None:
        """Have another function make the iterators from now on; there must not be any yet."""
        self._iterate = iterate
        self._count = UNKNOWN

    def cardinality(self) -> int:
        """Return the number of elements; INFINITE, or UNKNOWN where only running tells."""
        return self._count if isinstance(self._count, int) else self._count()

    @property
    def stateful_ops(self) -> list[str]:
        """The ops with state in the functions that it and its inputs call."""
        found = [name for source in self.inputs for name in source.stateful_ops]
        return [*found, *self._stateful_ops()]

    def to_variant(self) -> Variant:
        """Refuse to travel: what a dataset refers to is on the task that made it.

        Raises: UnimplementedError.
        """
        raise errors.UnimplementedError(
            f"a {self.kind}Dataset cannot leave the task that made it; put the dataset's "
            "operations and the iterator on one device"
        )

    def __repr__(self) -> str:
        return f"<Dataset {self.kind}>"


def fail(what: str) -> errors.InvalidArgumentError:
    """Return the error for a dataset that was given what it cannot use."""
    return errors.InvalidArgumentError(what)


# ---- arguments


def as_dataset(value: object) -> Dataset:
    """Return the dataset that an input is.  Raises: InvalidArgumentError for anything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if not isinstance(value, Dataset):
        kind = value.type_name if isinstance(value, Variant) else type(value).__name__
        raise fail(f"the input is no dataset but {kind or 'an empty variant'}")
    return value


def scalar(value: Any, what: str) -> Any:
    """Return an input that must be a scalar as a Python value.

    Raises: InvalidArgumentError for one that is none.
    """
    if isinstance(value, bytes):
        return value
    if np.ndim(value):
        found = static_shapes.format_dims(np.shape(value))
        raise fail(f"{what} must be a scalar; its shape is {found}")
    return np.asarray(value).item()


def vector(value: Any, what: str) -> list[Any]:
    """Return an input that must have rank 1 at most as a list of Python values.

    Raises: InvalidArgumentError for one of higher rank.
    """
    if isinstance(value, bytes):
        return [value]
    if np.ndim(value) > 1:
        found = static_shapes.format_dims(np.shape(value))
        raise fail(f"{what} must be a scalar or a vector; its shape is {found}")
    found_list: list[Any] = np.asarray(value).reshape(-1).tolist()
    return found_list


def check_positive(value: int, what: str) -> int:
    """Return a number that must be greater than zero.

    Raises: InvalidArgumentError for one that is not.
    """
    if value <= 0:
        raise fail(f"{what} must be greater than zero; it is {value}")
    return value


def owned(value: object) -> Any:
    """Return a value that may be kept: a view's owner may change it once the step has ended."""
    if isinstance(value, np.ndarray):
        return value if value.base is None else np.array(value)
    return value


def dims_of(given: Sequence[TensorShape]) -> tuple[Dims, ...]:
    """Return an output_shapes attr as Dims."""
    return tuple(shape.sizes for shape in given)


def component_shapes(c: ShapeContext) -> list[Dims]:
    """Give components the shapes that the attr output_shapes says."""
    given = c.attrs["output_shapes"]
    count = len(c.node.output_types)
    return [shape.sizes for shape in given] if len(given) == count else [None] * count


def check_structure(
    types: Sequence[DType],
    shapes: Sequence[Dims],
    found_types: Sequence[DType],
    found_shapes: Sequence[Dims],
) -> None:
    """Check that what an op declares is what a dataset gives.

    Raises: InvalidArgumentError, in TensorFlow's words, where it is not.
    """
    if len(types) != len(found_types):
        raise fail(
            f"Number of components does not match: expected {len(types)} types but got "
            f"{len(found_types)}."
        )
    for i, (wanted, found) in enumerate(zip(types, found_types)):
        if wanted is not found:
            raise fail(
                f"Data type mismatch at component {i}: expected {wanted.name} but got {found.name}."
            )
    if len(shapes) != len(found_shapes):
        raise fail(
            f"Number of components does not match: expected {len(shapes)} shapes but got "
            f"{len(found_shapes)}."
        )
    for i, (want, have) in enumerate(zip(shapes, found_shapes)):
        if not static_shapes.compatible(want, have):
            raise fail(
                f"Incompatible shapes at component {i}: expected {static_shapes.format_dims(want)} "
                f"but got {static_shapes.format_dims(have)}."
            )


# ---- elements


def stack(values: Sequence[Any], dtype: DType, component: int) -> Any:
    """Return one component of several elements as one array.

    Raises: InvalidArgumentError, in TensorFlow's words, for elements of different shapes.
    """
    first = np.shape(values[0])
    for i, value in enumerate(values):
        if np.shape(value) != first:
            raise fail(
                f"Cannot batch tensors with different shapes in component {component}. First "
                f"element had shape {static_shapes.format_dims(first)} and element {i} had shape "
                f"{static_shapes.format_dims(np.shape(value))}."
            )
    if dtype.as_numpy_dtype is object:
        made = np.empty((len(values), *first), object)
        for i, value in enumerate(values):
            # A scalar object may come as an array of rank 0, which must not become an element.
            made[i] = value[()] if not first and isinstance(value, np.ndarray) else value
        return made
    if not first:
        return np.array(values, dtype.as_numpy_dtype)
    return np.stack([np.asarray(value) for value in values])


def batch(elements: Sequence[Element], types: Sequence[DType]) -> Element:
    """Return elements as one, whose components have a further axis in front."""
    return tuple(
        stack(column, dtype, i) for i, (column, dtype) in enumerate(zip(zip(*elements), types))
    )


def text(value: bytes) -> Any:
    """Return a string as a scalar of a component."""
    made = np.empty((), object)
    made[()] = value
    return made


def row(value: Any, index: int) -> Any:
    """Return one row of a component."""
    found = value[index]
    return text(found) if isinstance(found, bytes) else found


def rows(column: Any) -> Iterable[Any]:
    """Return the rows of a component."""
    if column.dtype == object and column.ndim == 1:
        return [row(column, i) for i in range(len(column))]
    return column  # type: ignore[no-any-return]
