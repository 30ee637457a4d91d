"""The structure of a dataset's elements, and a dataset as the tensor that holds it.

An element is a structure of tuples and dicts.  At its leaves are tensors, and what has a TypeSpec:
sparse and ragged tensors, datasets and others, which travel as variant tensors.  The spec at a leaf
says which tensors stand for it; the ops know these alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from tideflow.graph.building import apply_op, convert_to_tensor, make_op
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import get_op_def
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, type_spec_of
from tideflow.graph.types import TensorLike
from tideflow.ops.data.options_api import AutoShardPolicy
from tideflow.ops.framework import nest
from tideflow.ops.sparse import SparseTensor, SparseTensorValue
from tideflow.wire import dtypes


class StructuredVariant:
    """A tensor that holds a dataset, with the structure of its elements.

    Classes that programs derive call the constructor, and say of what structure their elements are
    by a property `element_spec` of their own.

    Args:
      variant_tensor: a variant scalar that holds the dataset.
    Attributes:
      _kind: the class of what transformations make, of derived classes too.
    """

    _kind: ClassVar[type[Any]]
    # None stands for itself in structures.
    _known: Any = NotImplemented

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls is cls._kind:
            raise TypeError(f"{cls.__name__} is abstract; its methods, such as `range`, make them")
        return super().__new__(cls)

    def __init__(self, variant_tensor: Tensor) -> None:
        self._variant = variant_tensor
        self._made_of: tuple[str, Sequence[Any], dict[str, Any]] | None = None
        self._options: Any = None

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of an element.

        Example:
          >>> tf.data.Dataset.range(3).element_spec.dtype.name
          'int64'
        """
        if self._known is NotImplemented:
            raise NotImplementedError(f"{type(self).__name__} has no property `element_spec`")
        return self._known

    @property
    def _element(self) -> Any:
        return self.element_spec

    @classmethod
    def _held(cls, variant: Tensor, element: Any) -> Self:
        """Return the dataset that a tensor holds, of the class that transformations make.

        element: the structure of the elements, with a TypeSpec at each leaf.
        """
        made: Self = object.__new__(cls._kind)
        StructuredVariant.__init__(made, variant)
        made._known = element
        return made

    def _stand_for(self, other: StructuredVariant) -> None:
        """Become, in a constructor, the same as another dataset."""
        self._variant = other._variant
        self._known = other._element
        self._made_of, self._options = other._made_of, other._options

    @classmethod
    def _make(
        cls,
        op: str,
        inputs: Sequence[Any],
        element: TensorLike,
        types: str = "output_types",
        **attrs: Any,
    ) -> Self:
        """Return the dataset that an op makes; among its inputs may be datasets."""
        known = get_op_def(op).attrs
        flat = flat_specs(element)
        if types in known:
            attrs[types] = [spec.dtype for spec in flat]
        if "output_shapes" in known:
            attrs["output_shapes"] = [spec.shape for spec in flat]
        variants = nest.map_structure(variant_of, list(inputs))
        made = cls._held(make(op, variants, **attrs).outputs[0], element)
        made._made_of = op, inputs, attrs
        return made

    def _like(self, op: str, *inputs: Any, **attrs: Any) -> Self:
        return self._make(op, [self, *inputs], self._element, **attrs)

    def by_hints(self, count: int, index: int) -> Self:
        """Return the dataset with the hints of `shard` filled in.

        Args:
          count, index: how many shards there are, and which one is wanted.
        Returns: a dataset.
        Example:
          >>> hint = tf.data.experimental.SHARD_HINT
          >>> [int(x) for x in tf.data.Dataset.range(5).shard(hint, hint).by_hints(2, 1)]
          [1, 3]
        """
        policy = int(AutoShardPolicy.HINT)
        return self._like("AutoShardDataset", int64(count), int64(index), auto_shard_policy=policy)

    def remade(self) -> Self:
        """Return the same dataset made once more, on the device that is current now.

        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).remade()]
          [0, 1]
        """
        if self._made_of is None:
            return self
        op, inputs, attrs = self._made_of
        parts = nest.map_structure(
            lambda leaf: leaf.remade() if isinstance(leaf, StructuredVariant) else leaf,
            list(inputs),
        )
        return self._make(op, parts, self._element, **attrs)


def make(op: str, inputs: Sequence[Any], name: str | None = None, **attrs: Any) -> Operation:
    """Make an op by its name."""
    return make_op(get_op_def(op), inputs, attrs, name or op)


def int64(value: TensorLike, name: str | None = None) -> Tensor:
    """Return a number as an int64 tensor; name is that of the constant that is made of it."""
    return convert_to_tensor(value, dtypes.int64, name=name)


def variant_of(leaf: object) -> Any:
    """Return the tensor that holds a dataset; anything else as it is."""
    return leaf._variant if isinstance(leaf, StructuredVariant) else leaf


def tensors(value: Any) -> Any:
    """Return a structure of tuples and dicts with tensors, or what has a spec, as leaves.

    A list is one tensor, unless it is one of datasets.  Constants get the names of TensorFlow.
    Raises: TypeError or ValueError for what becomes no tensor.
    """
    with get_default_graph().name_scope("normalize_element"):
        return _tensors(value, itertools.count())


def _tensors(value: Any, numbers: Iterator[int]) -> Any:
    if isinstance(value, dict):
        # Components are numbered in the order of keys.
        found = {key: _tensors(value[key], numbers) for key in sorted(value)}
        made = {key: found[key] for key in value}
        return made if type(value) is dict else type(value)(made)
    if isinstance(value, tuple) and not isinstance(value, SparseTensorValue):
        items = [_tensors(item, numbers) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    number = next(numbers)
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if isinstance(value, list) and value and isinstance(value[0], StructuredVariant):
        return VariantBatch.of(value)
    has_spec = not isinstance(value, Tensor) and type_spec_of(value) is not None
    return value if has_spec else convert_to_tensor(value, name=f"component_{number}")


class VariantBatch:
    """Datasets as the elements of a tensor.

    Attributes:
      variant: the tensor that holds them.
      spec: the spec of one of them.
    """

    def __init__(self, variant: Tensor, spec: TypeSpec) -> None:
        self.variant = variant
        self.spec = spec

    @classmethod
    def of(cls, datasets: Sequence[StructuredVariant]) -> VariantBatch:
        """Return datasets of one structure as a batch."""
        return cls(apply_op("Pack", [one._variant for one in datasets]), spec_of(datasets[0]))


def spec_of(leaf: Any) -> TypeSpec:
    """Return what is known of a leaf of an element.  Raises: TypeError for what has no spec."""
    found = type_spec_of(leaf)
    if found is None:
        raise TypeError(f"{type(leaf).__name__} has no type spec")
    return found


def specs_of(structure: Any) -> Any:
    """Return the specs of a structure of tensors and what has a spec."""
    return nest.map_structure(spec_of, structure)


def flat_specs(element: Any) -> list[TensorSpec]:
    """Return what is known of the tensors that stand for an element."""
    return [spec for leaf in nest.flatten(element) for spec in leaf.flat]


def flat_tensors(structure: Any) -> list[Tensor]:
    """Return the tensors that stand for an element."""
    return [one for leaf in nest.flatten(structure) for one in spec_of(leaf).to_tensors(leaf)]


def flat_rows(structure: Any) -> list[Tensor]:
    """Return tensors whose rows stand for the rows of an element.

    Raises: TypeError or ValueError for a component without rows.
    """
    return [one for leaf in nest.flatten(structure) for one in spec_of(leaf).to_rows(leaf)]


def check_rows(rows: Sequence[Tensor]) -> None:
    """Check that there are tensors, and that they have rows, all as many where that is known.

    Raises: ValueError.
    """
    if not rows:
        raise ValueError("Invalid `element`. `element` should not be empty.")
    counts = [tensor.dims[0] for tensor in rows if tensor.dims]
    known = [count for count in counts if count is not None]
    if len(set(known)) > 1:
        raise ValueError(f"Dimensions {known[0]} and {known[1]} are not compatible")


def packed(element: Any, flat: Sequence[Any]) -> Any:
    """Return the element that tensors stand for."""
    given = iter(flat)
    leaves = []
    for spec in nest.flatten(element):
        if isinstance(spec, TensorSpec):
            leaves.append(next(given))
        else:
            leaves.append(spec.from_tensors([next(given) for _ in spec.flat]))
    return nest.pack_sequence_as(element, leaves)


def relaxed(one: Any, other: Any) -> Any:
    """Return the structure of specs for the elements of both.

    Raises: TypeError where they are of other types or structures.
    """
    try:
        found = nest.map_structure(lambda a, b: a.relaxed(b), one, other)
    except (TypeError, ValueError):
        found = None
    if any(leaf is None for leaf in nest.flatten(found)):
        raise TypeError(f"Incompatible dataset elements:\n  {one!r} vs.   {other!r}")
    return found


def attrs_of(element: Any) -> dict[str, Any]:
    """Return the attrs that say the types and shapes of an element."""
    flat = flat_specs(element)
    return {
        "output_types": [spec.dtype for spec in flat],
        "output_shapes": [spec.shape for spec in flat],
    }
