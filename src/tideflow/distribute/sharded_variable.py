"""A variable in parts, which lie on several parameter servers.

Source: tensorflow/python/distribute/sharded_variable.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor, register_tensor_conversion
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import Trackable
from tideflow.ops.operators import install_operators
from tideflow.wire.dtypes import DType


def split_evenly(size: int, count: int) -> list[int]:
    """Return the sizes of the parts of an axis; the first ones get what is left over."""
    return [size // count + (i < size % count) for i in range(count)]


class ShardedVariable(Trackable):
    """Parts of a variable along its first axis.

    Attributes:
      variables: the parts, in order.
      name: of the whole.
    """

    # Savers and modules take it as one variable.
    is_sharded_variable = True

    def __init__(self, variables: Sequence[Any], name: str = "ShardedVariable") -> None:
        self.variables = list(variables)
        self.name = name

    @property
    def dtype(self) -> DType:
        """The element type."""
        found: DType = self.variables[0].dtype
        return found

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        rows = sum(int(v.shape.as_list()[0]) for v in self.variables)
        return TensorShape([rows, *self.variables[0].shape.as_list()[1:]])

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it by default."""
        return bool(self.variables[0].trainable)

    def value(self) -> Tensor:
        """Return the whole as one tensor."""
        found: Tensor = apply_op("ConcatV2", [v.value() for v in self.variables], 0)
        return found

    read_value = value

    def numpy(self) -> Any:
        """Return the whole as an array."""
        return self.value().numpy()  # type: ignore[attr-defined]

    def _each(self, method: str, value: Any) -> ShardedVariable:
        tensor = convert_to_tensor(value, self.dtype)
        sizes = [int(v.shape.as_list()[0]) for v in self.variables]
        parts = apply_op("SplitV", tensor, sizes, 0, num_split=len(sizes))
        for variable, part in zip(self.variables, parts):
            getattr(variable, method)(part)
        return self

    def assign(self, value: TensorLike, **_: Any) -> ShardedVariable:
        """Give the parts their parts of a value."""
        return self._each("assign", value)

    def assign_add(self, delta: TensorLike, **_: Any) -> ShardedVariable:
        """Add to the parts."""
        return self._each("assign_add", delta)

    def assign_sub(self, delta: TensorLike, **_: Any) -> ShardedVariable:
        """Subtract from the parts."""
        return self._each("assign_sub", delta)

    def embedding_lookup(self, ids: Any) -> Tensor:
        """Return the rows of ids."""
        found: Tensor = apply_op("GatherV2", self.value(), ids, 0)
        return found

    def __getitem__(self, key: Any) -> Tensor:
        return self.value()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.variables)

    def __len__(self) -> int:
        return int(self.shape.as_list()[0] or 0)

    def __repr__(self) -> str:
        return f"<ShardedVariable {self.name!r} shape={self.shape} in {len(self.variables)} parts>"


def _convert(value: Any, dtype: DType | None, name: str | None) -> Tensor:
    return convert_to_tensor(value.value(), dtype, name)


register_tensor_conversion(ShardedVariable, _convert)
install_operators(ShardedVariable)
