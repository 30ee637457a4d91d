"""Loops over the rows of tensors: map_fn, foldl, foldr and scan.

Source: tensorflow/python/ops/control_flow/mapping.py, functional_ops.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.functions import new_body
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import Dims
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, type_spec_of
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.control_flow.functional import tracing
from tideflow.ops.control_flow.while_v1 import while_loop
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import nest
from tideflow.ops.framework.slices_spec import IndexedSlicesSpec
from tideflow.ops.tensor_arrays import TensorArray
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


class _Rows:
    """The rows of a structure of tensors, and values of users' classes, that have equally many.

    Attributes:
      count: how many, as a tensor; static_count: if it is known.
    Raises: ValueError for scalars, or different numbers of rows; TypeError for values without rows.
    """

    def __init__(self, elems: object) -> None:
        self.structure = elems
        self._specs = [_row_spec(leaf) for leaf in nest.flatten(elems)]
        self.tensors = tensors = [
            tensor for leaf in nest.flatten(elems) for tensor in _rows_of(leaf)
        ]
        if not tensors:
            raise ValueError("elems holds no tensors")
        self.static_count: int | None = None
        counts: Dims = (None,)
        for tensor in tensors:
            if tensor.dims == ():
                raise ValueError(f"elems must have rows, but {tensor.shown_name!r} is a scalar")
            if tensor.dims is not None:
                counts = shapes.merge(counts, tensor.dims[:1])
        assert counts is not None
        self.static_count = counts[0]
        if self.static_count is not None:
            self.count = convert_to_tensor(self.static_count, dtypes.int32)
        else:
            sizes = apply_op("Shape", tensors[0])
            self.count = apply_op("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)
        self.arrays = [
            TensorArray(t.dtype, self.count, dynamic_size=False, infer_shape=True).unstack(t)
            for t in tensors
        ]

    def row(self, index: Tensor | int) -> Any:
        """Return one row, in the structure of the whole."""
        given = iter([a.read(index) for a in self.arrays])
        leaves = [_value_of(spec, given) for spec in self._specs]
        return nest.pack_sequence_as(self.structure, leaves)

    def signature(self) -> Any:
        """Return what is known of a row: element types, and the specs of users' classes."""
        given = (array.dtype for array in self.arrays)
        leaves = [next(given) if spec is None else spec for spec in self._specs]
        return nest.pack_sequence_as(self.structure, leaves)

    def stacked(self, arrays: list[TensorArray], structure: object) -> Any:
        """Return results for each row as tensors, or values of users' classes, of as many rows."""
        found: list[Any] = []
        for array in arrays:
            tensor = array.stack()
            if tensor.dims is not None:
                tensor.set_shape((self.static_count, *tensor.dims[1:]))
            found.append(tensor)
        given = iter(found)
        batches = [
            spec.batched(self.static_count) if _has_parts(spec) else None
            for spec in nest.flatten(structure)
        ]
        leaves = [_value_of(spec, given) for spec in batches]
        return nest.pack_sequence_as(structure, leaves)


def _has_parts(spec: object) -> bool:
    """Whether a spec is of values of several tensors: sparse, ragged, or of a user's class."""
    return isinstance(spec, TypeSpec) and not isinstance(spec, (TensorSpec, IndexedSlicesSpec))


def _row_spec(leaf: object) -> Any:
    """Return the spec of a row of a value of several tensors; None for a tensor."""
    spec: Any = type_spec_of(leaf)
    return spec.unbatched() if _has_parts(spec) else None


def _rows_of(leaf: object) -> list[Tensor]:
    """Return tensors each row of which stands for a row."""
    spec: Any = type_spec_of(leaf)
    if _has_parts(spec):
        rows: list[Tensor] = spec.to_rows(leaf)
        return rows
    return [convert_to_tensor(leaf, name="elem")]


def _value_of(spec: Any, given: Iterator[Tensor]) -> Any:
    """Return the next tensor, or the value that the next tensors stand for."""
    return next(given) if spec is None else spec.from_tensors([next(given) for _ in spec.flat])


def _require_callable(fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {fn!r:.60}")


@export("map_fn")
def map_fn(
    fn: Callable[[Any], Any],
    elems: object,
    dtype: DTypeLike | None = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: object | None = None,
) -> Any:
    """Return fn applied to each row of elems, stacked.

    Args:
      elems: a tensor, or a structure of tensors with equally many rows.
      dtype: the structure of types that fn gives, where it differs from that of elems.
      infer_shape: check that all results have one shape.
    Raises: TypeError for an fn that is no function, or results of another type; ValueError for
    elems without rows or results of another structure.
    """
    _require_callable(fn)
    fn = tracing.convert(fn)
    with get_default_graph().name_scope(name or "map"):
        rows = _Rows(elems)
        signature = fn_output_signature if fn_output_signature is not None else dtype
        if signature is None:
            signature = rows.signature()
        kinds = nest.flatten(signature)
        results = [
            TensorArray(_type_of(part), rows.count, dynamic_size=False, infer_shape=infer_shape)
            for kind in kinds
            for part in (kind.flat if _has_parts(kind) else [kind])
        ]

        def body(index: Tensor, arrays: list[TensorArray]) -> Any:
            found = fn(rows.row(index))
            nest.assert_same_structure(signature, found, check_types=False)
            values = [
                value
                for kind, leaf in zip(kinds, nest.flatten(found), strict=True)
                for value in (kind.to_tensors(leaf) if _has_parts(kind) else [leaf])
            ]
            following = [a.write(index, v) for a, v in zip(arrays, values, strict=True)]
            return apply_op("AddV2", index, 1), following

        _, results = while_loop(
            lambda index, _: apply_op("Less", index, rows.count),
            body,
            (0, results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return rows.stacked(results, signature)


def _type_of(kind: object) -> dtypes.DType:
    """Return the element type of one result: given as itself, or as a TensorSpec."""
    found: dtypes.DType = as_dtype(getattr(kind, "dtype", kind))
    return found


@export_v2("vectorized_map")
def vectorized_map(
    fn: Callable[[Any], Any], elems: object, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Return fn applied to each row of elems, stacked; results may be of any types.

    Raises: as map_fn.
    """
    _require_callable(fn)
    graph = get_default_graph()
    first = nest.map_structure(lambda t: apply_op("GatherV2", convert_to_tensor(t), 0, 0), elems)
    if graph.is_eager:
        found = fn(first)
    else:
        with new_body(graph.unique_name("first_row"), graph).as_default():
            found = fn(first)
    types = nest.map_structure(lambda t: convert_to_tensor(t).dtype, found)
    return map_fn(fn, elems, fn_output_signature=types)


@export("foldl")
def foldl(
    fn: Callable[[Any, Any], Any],
    elems: object,
    initializer: Callable[..., Any] | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return fn(...fn(fn(initializer, row 0), row 1)..., last row).

    Args:
      initializer: the first value; row 0 itself if left out.
    Raises: TypeError for an fn that is no function; ValueError for elems without rows.
    """
    options = (parallel_iterations, back_prop, swap_memory)
    return _fold(fn, elems, initializer, False, options, name or "foldl")


@export("foldr")
def foldr(
    fn: Callable[[Any, Any], Any],
    elems: object,
    initializer: Callable[..., Any] | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Return fn(...fn(fn(initializer, last row), row before it)..., row 0).

    Args:
      initializer: the first value; the last row itself if left out.
    Raises: TypeError for an fn that is no function; ValueError for elems without rows.
    """
    options = (parallel_iterations, back_prop, swap_memory)
    return _fold(fn, elems, initializer, True, options, name or "foldr")


class _Order:
    """The order in which rows are taken: first index, condition and step."""

    def __init__(self, rows: _Rows, reverse: bool, skip_first: bool) -> None:
        self.rows = rows
        self.reverse = reverse
        self.first: Any = apply_op("Sub", rows.count, 1) if reverse else 0
        self.start: Any = self.step(convert_to_tensor(self.first)) if skip_first else self.first

    def goes_on(self, index: Tensor, *_: Any) -> Any:
        if self.reverse:
            return apply_op("GreaterEqual", index, 0)
        return apply_op("Less", index, self.rows.count)

    def step(self, index: Tensor) -> Tensor:
        found: Tensor = apply_op("AddV2", index, -1 if self.reverse else 1)
        return found


def _first_value(rows: _Rows, initializer: object, order: _Order) -> Any:
    if initializer is not None:
        return nest.map_structure(convert_to_tensor, initializer)
    # Not read from the arrays, which give each row once only.
    found = [apply_op("GatherV2", tensor, order.first, 0) for tensor in rows.tensors]
    return nest.pack_sequence_as(rows.structure, found)


def _fold(
    fn: Callable[[Any, Any], Any],
    elems: object,
    initializer: object,
    reverse: bool,
    options: tuple[int, bool, bool],
    name: str,
) -> Any:
    _require_callable(fn)
    with get_default_graph().name_scope(name):
        rows = _Rows(elems)
        order = _Order(rows, reverse, skip_first=initializer is None)
        first = _first_value(rows, initializer, order)

        def body(index: Tensor, value: TensorLike) -> Any:
            return order.step(index), fn(value, rows.row(index))

        parallel, back_prop, swap = options
        return while_loop(
            order.goes_on,
            body,
            (order.start, first),
            parallel_iterations=parallel,
            back_prop=back_prop,
            swap_memory=swap,
            maximum_iterations=rows.count,
        )[1]


@export("scan")
def scan(
    fn: Callable[[Any, Any], Any],
    elems: object,
    initializer: Callable[..., Any] | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Return all values of a fold over the rows of elems, stacked.

    Args:
      initializer: the value before the first row; the first row itself if left out.
      reverse: begin with the last row; results stay in the rows' order.
      infer_shape: check that all values have one shape.
    Raises: TypeError for an fn that is no function; ValueError for elems without rows or results
    of another structure.
    """
    _require_callable(fn)
    with get_default_graph().name_scope(name or "scan"):
        rows = _Rows(elems)
        order = _Order(rows, reverse, skip_first=initializer is None)
        first = _first_value(rows, initializer, order)
        flat = nest.flatten(first)
        results = [
            TensorArray(
                t.dtype,
                rows.count,
                dynamic_size=False,
                infer_shape=infer_shape,
                element_shape=t.dims if infer_shape else None,
            )
            for t in flat
        ]
        if initializer is None:
            results = [a.write(order.first, t) for a, t in zip(results, flat)]

        def body(index: Tensor, value: TensorLike, arrays: list[TensorArray]) -> Any:
            found = fn(value, rows.row(index))
            nest.assert_same_structure(first, found, check_types=False)
            values = nest.flatten(found)
            following = [a.write(index, v) for a, v in zip(arrays, values, strict=True)]
            return order.step(index), nest.pack_sequence_as(first, values), following

        _, _, results = while_loop(
            order.goes_on,
            body,
            (order.start, first, results),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return rows.stacked(results, first)
