"""The variables that get_variable has made, and how it makes and finds one.

Source: tensorflow/python/ops/state/scopes.py
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.state.api import Variable
from tideflow.ops.state.base import create_variable
from tideflow.ops.state.initializers import GlorotUniform, Zeros
from tideflow.ops.state.partitioners import PartitionedVariable, PartitionInfo, split_sizes
from tideflow.ops.state.slices import SaveSliceInfo
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("no_regularizer")
def no_regularizer(_: object) -> None:
    """Stand for no regularizer, where one would otherwise be inherited."""


def is_value(initializer: object) -> bool:
    """Whether an initializer is a value, no function that makes one."""
    return not callable(initializer) or isinstance(initializer, (Tensor, Variable))


class VariableStore:
    """The variables of a graph that get_variable made, by their full names."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.partitioned: dict[str, PartitionedVariable] = {}

    def get(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        initializer: Callable[..., Any] | None = None,
        regularizer: Callable[..., Any] | None = None,
        partitioner: Callable[..., Any] | None = None,
        reuse: bool | None = None,
        **options: Any,
    ) -> Any:
        """Return the variable of the name, made or found as reuse says.

        Raises: ValueError when it is there but must not be, or the other way round, or differs.
        """
        wanted = None if dtype is None else as_dtype(dtype)
        if partitioner is not None and shape is not None:
            parts = _counts_of_parts(partitioner, TensorShape(shape), wanted or dtypes.float32)
            if any(count > 1 for count in parts) or name + "/part_0" in self.variables:
                return self.get_partitioned(
                    name,
                    TensorShape(shape),
                    wanted,
                    initializer,
                    regularizer,
                    reuse,
                    parts,
                    options,
                )
        found = self.variables.get(name)
        # Where operations are called at once, each call makes a variable of its own.
        if found is not None and (reuse or not get_default_graph().is_eager):
            return _checked(found, name, shape, wanted, reuse)
        _refuse_missing(name, reuse)
        made = _make(name, shape, wanted, initializer, options)
        self.variables[name] = made
        _regularize(name, made, regularizer)
        return made

    def get_partitioned(
        self,
        name: str,
        shape: TensorShape,
        dtype: DType | None,
        initializer: object,
        regularizer: object,
        reuse: object,
        parts: list[int],
        options: dict[str, Any],
    ) -> PartitionedVariable:
        """Return a variable cut into parts, made or found as reuse says.

        Raises: ValueError as `get`, and where it is cut in another way.
        """
        whole = self.partitioned.get(name)
        if whole is not None:
            _checked(whole, name, shape, dtype, reuse)
            if whole._get_partitions() != parts:
                raise ValueError(
                    f"variable {name!r} is split as {whole._get_partitions()}, not {parts}"
                )
            return whole
        _refuse_missing(name, reuse)
        sizes = [int(size or 0) for size in shape.as_list()]
        axis = next((i for i, count in enumerate(parts) if count > 1), 0)
        offset = [0] * len(sizes)
        made: list[Any] = []
        for i, length in enumerate(split_sizes(sizes[axis], parts[axis])):
            part_sizes = [length if j == axis else size for j, size in enumerate(sizes)]
            part_name = f"{name}/part_{i}"
            value = initializer
            if initializer is not None and is_value(initializer):
                value = _share(initializer, list(offset), part_sizes)
            part = _make(
                part_name,
                None if value is not initializer else part_sizes,
                dtype,
                value,
                options,
                PartitionInfo(sizes, list(offset)),
            )
            part._set_save_slice_info(SaveSliceInfo(name, sizes, list(offset), part_sizes))
            self.variables[part_name] = part
            _regularize(part_name, part, regularizer)
            made.append(part)
            offset[axis] += length
        element = dtype or made[0].dtype.base_dtype
        whole = PartitionedVariable(name, sizes, element, made, parts)
        self.partitioned[name] = whole
        return whole


def _share(value: object, offset: list[int], sizes: list[int]) -> Any:
    rows = tuple(slice(o, o + s) for o, s in zip(offset, sizes))
    # An array is cut as it is: a variable of another type takes it.
    return value[rows] if isinstance(value, np.ndarray) else convert_to_tensor(value)[rows]


def _refuse_missing(name: str, reuse: object) -> None:
    if reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you "
            "mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )


def _checked(found: Any, name: str, shape: Any, dtype: DType | None, reuse: object) -> Any:
    """Return an existing variable if it may be reused and is what is asked for."""
    if not reuse:
        op = getattr(found, "op", None)
        where = f" Made at {op.made_at[0]}:{op.made_at[1]}." if op is not None else ""
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            f"reuse=tf.AUTO_REUSE in VarScope?{where}"
        )
    if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {TensorShape(shape)} and found "
            f"shape {found.shape}."
        )
    if dtype is not None and not dtype.is_compatible_with(found.dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{found.dtype.name}."
        )
    return found


def _counts_of_parts(partitioner: Any, shape: TensorShape, dtype: DType) -> list[int]:
    """Return in how many parts each dimension is cut.  Raises: ValueError for what says no such."""
    if not callable(partitioner):
        raise ValueError(f"the partitioner must be a function; found {partitioner!r}")
    found = partitioner(shape=shape, dtype=dtype)
    if not isinstance(found, Sequence):
        raise ValueError(f"the partitioner must give a list; it gave {found!r}")
    if len(found) != shape.rank or any(count < 1 for count in found):
        raise ValueError(
            "the partitioner must give a count of parts, at least 1, for each dimension of "
            f"{shape}; it gave {list(found)}"
        )
    return list(found)


def _make(
    name: str,
    shape: Any,
    dtype: DType | None,
    initializer: Any,
    options: dict[str, Any],
    part: PartitionInfo | None = None,
) -> Any:
    """Make a new variable.  Raises: ValueError when shape and initializer do not say enough."""
    if initializer is None:
        initializer = default_initializer(name, dtype or dtypes.float32)
    if is_value(initializer):
        if shape is not None:
            raise ValueError(
                f"If initializer is a constant, do not specify shape: {name} has {shape}."
            )
        return create_variable(initial_value=initializer, name=name, dtype=dtype, **options)
    made: Any = initializer() if inspect.isclass(initializer) else initializer
    if shape is None:
        if not _takes_no_arguments(made):
            raise ValueError(
                "The initializer passed is not valid: without a shape it must be a function "
                f"without arguments. Shape of a new variable ({name}) must be fully defined, but "
                "instead was <unknown>."
            )
        return create_variable(initial_value=made, name=name, dtype=dtype, **options)
    sizes = TensorShape(shape)
    if not sizes.is_fully_defined():
        raise ValueError(
            f"Shape of a new variable ({name}) must be fully defined, but instead was {sizes}."
        )
    given_options: dict[str, Any] = {"dtype": dtype or dtypes.float32}
    if part is not None and _accepts(made, "partition_info"):
        given_options["partition_info"] = part
    return create_variable(
        initial_value=functools.partial(made, sizes.as_list(), **given_options),
        name=name,
        dtype=dtype,
        **options,
    )


def _takes_no_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return not any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in parameters
    )


def _accepts(function: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def default_initializer(name: str, dtype: DType) -> Any:
    """Return what initializes a variable that names no initializer.

    Raises: ValueError for a type without a natural choice.
    """
    if dtype.is_floating:
        return GlorotUniform()
    if dtype.is_integer or dtype.is_bool or dtype is dtypes.string:
        return Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype.name} is required")


def _regularize(name: str, variable: Any, regularizer: Any) -> None:
    if regularizer is None or regularizer is no_regularizer:
        return
    graph = variable.graph
    with graph.colocate_with(variable.op), graph.name_scope(name + "/Regularizer/"):
        loss = regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
