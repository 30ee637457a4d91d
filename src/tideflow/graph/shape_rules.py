"""What shape rules are made of.

A rule is a function of a ShapeContext that returns a list with the Dims of each output.  It may
raise ValueError for inputs that can never fit; the op is then refused when the graph is built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tideflow.graph import roles, shapes
from tideflow.graph.node import Node, arg_sizes
from tideflow.graph.shapes import Dims
from tideflow.wire.dtypes import DType

# Their outputs are inputs of theirs, handles too.
_HANDING_ON = (roles.CONTROL_FLOW - {roles.LOOP_COND}) | {roles.IDENTITY, roles.IDENTITY_N}

ShapeRule: TypeAlias = "Callable[[ShapeContext], list[Dims]]"


class ShapeContext:
    """What a rule may ask about the node whose output shapes it finds.

    Attributes:
      node: the node.
      inputs: Dims of each input tensor, in flat order.
    """

    __slots__ = ("_value_of", "inputs", "node")

    def __init__(
        self, node: Node, inputs: Sequence[Dims], value_of: Callable[[int], Any] | None = None
    ) -> None:
        self.node = node
        self.inputs = inputs
        self._value_of = value_of

    @property
    def attrs(self) -> dict[str, Any]:
        """The node's attr values."""
        return self.node.attrs

    def index(self, name: str) -> int:
        """Return the flat index of a (single-tensor) input, by its name in the signature."""
        start = 0
        sizes = arg_sizes(self.node.op_def.inputs, self.node.attrs)
        for arg, size in zip(self.node.op_def.inputs, sizes):
            if arg.name == name:
                return start
            start += 1 if size is None else size
        raise KeyError(f"{self.node.op} has no input {name!r}")

    def shape(self, which: int | str) -> Dims:
        """Return the static shape of an input, by flat index or by name."""
        return self.inputs[which if isinstance(which, int) else self.index(which)]

    def value(self, which: int | str) -> np.ndarray[Any, Any] | None:
        """Return an input's value where it is known without running, else None."""
        index = which if isinstance(which, int) else self.index(which)
        found = None if self._value_of is None else self._value_of(index)
        if found is None or isinstance(found, tuple):
            return None
        return np.asarray(found)

    def value_as_shape(self, which: int | str) -> Dims:
        """Return the shape that an input's value (a vector of sizes) stands for, if known in part.

        A size of -1 counts as unknown.
        """
        index = which if isinstance(which, int) else self.index(which)
        found = None if self._value_of is None else self._value_of(index)
        if found is None:
            given = self.inputs[index]
            if given is not None and len(given) == 1 and given[0] is not None:
                return (None,) * given[0]
            return None
        if isinstance(found, tuple):
            return found
        flat = np.asarray(found).reshape(-1)
        return tuple(None if size < 0 else int(size) for size in flat)

    def handle_data(self, which: int | str) -> tuple[DType, Dims] | None:
        """Return element type and shape of what a resource input stands for (handle_data_of)."""
        index = which if isinstance(which, int) else self.index(which)
        return handle_data_of(*self.node.edges[index])


def handle_data_of(source: Node, port: int) -> tuple[DType, Dims] | None:
    """Return element type and shape of the variable that a handle (an output) stands for.

    Of a lookup table whose keys are known to be scalars they are those of the value of a key.
    """
    while source.op_def.role in _HANDING_ON and source.edges:
        source, port = source.edges[port if source.op_def.role is roles.IDENTITY_N else 0]
    attrs = source.attrs
    if source.op_def.role is roles.VARIABLE_HANDLE:
        return attrs["dtype"], attrs["shape"].sizes
    if "value_dtype" in attrs and not source.edges:  # a table whose keys are scalars
        return attrs["value_dtype"], attrs["value_shape"].sizes if "value_shape" in attrs else ()
    known = attrs.get("_handle_dtypes"), attrs.get("_handle_shapes")
    if known[0] and known[1]:
        return known[0][0], known[1][0].sizes
    return None


def same_as(which: int | str = 0) -> ShapeRule:
    """Every output has the shape of one input."""

    def rule(c: ShapeContext) -> list[Dims]:
        return [c.shape(which)] * len(c.node.output_types)

    return rule


def merged(c: ShapeContext) -> list[Dims]:
    """Give the one output the shape that all inputs must have."""
    found: Dims = None
    for dims in c.inputs:
        found = shapes.merge(found, dims)
    return [found]


def broadcast(c: ShapeContext) -> list[Dims]:
    """Give the output of an elementwise op of two inputs its shape."""
    return [shapes.broadcast(c.inputs[0], c.inputs[1])]


def scalar(c: ShapeContext) -> list[Dims]:
    """Every output is a scalar."""
    return [()] * len(c.node.output_types)


def unknown(c: ShapeContext) -> list[Dims]:
    """Nothing is known before the op runs."""
    return [None] * len(c.node.output_types)


def no_outputs(c: ShapeContext) -> list[Dims]:
    """The op gives no tensor."""
    return []


def from_attr(name: str) -> ShapeRule:
    """The output has the shape that an attr names."""

    def rule(c: ShapeContext) -> list[Dims]:
        return [c.attrs[name].sizes]

    return rule


def with_rank(dims: Dims, rank: int, what: str) -> tuple[int | None, ...]:
    """Return the sizes of a shape that must have the rank.

    Raises: ValueError naming `what` when it has another.
    """
    if dims is None:
        return (None,) * rank
    if len(dims) != rank:
        raise ValueError(
            f"Shape must be rank {rank} but is rank {len(dims)}: "
            f"{what} has the shape {shapes.format_dims(dims)}"
        )
    return dims


def reduction(c: ShapeContext) -> list[Dims]:
    """Give the output of a reduction (input, axes; attr keep_dims) its shape."""
    given = c.inputs[0]
    axes = c.value(1)
    keep = bool(c.attrs.get("keep_dims", False))
    if given is None:
        return [None]
    if axes is None:
        return [(None,) * len(given) if keep else None]
    rank = len(given)
    reduced = set()
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise ValueError(
                f"axis {axis} lies outside the input's shape {shapes.format_dims(given)}"
            )
        reduced.add(axis % rank if rank else 0)
    if keep:
        return [tuple(1 if i in reduced else size for i, size in enumerate(given))]
    return [tuple(size for i, size in enumerate(given) if i not in reduced)]
