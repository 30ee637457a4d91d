"""Branches and loops as functions: If, Case and While ops, or plain Python where nothing is built.

This is the form inside of traced functions.  Names and results are those of TF2: a loop returns the
structure of its variables, a branch exactly what its function gives.

Source: tensorflow/python/ops/cond_v2.py and while_v2.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, builds_functional_flow, get_default_graph
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow.functional import case_op, if_op, while_op
from tideflow.ops.framework import nest
from tideflow.wire import dtypes, errors

Branch = Callable[[], Any]


def is_functional() -> bool:
    """Whether branches and loops are functions here, or run at once."""
    return builds_functional_flow()


def _known(tensor: TensorLike) -> Any:
    """Return the value of a tensor that is called at once; None in a graph, even of a constant."""
    if isinstance(tensor, Tensor):
        return tensor.numpy() if tensor.graph.is_eager else None  # type: ignore[attr-defined]
    return tensor


def cond(pred: TensorLike, true_fn: Branch, false_fn: Branch, name: str | None = None) -> Any:
    """Return what true_fn gives where pred holds, else what false_fn gives.

    Raises: TypeError for a Python bool in a graph.
    """
    if isinstance(pred, bool) and not get_default_graph().is_eager:
        raise TypeError("pred must not be a Python bool; write a plain `if`")
    known = pred if isinstance(pred, bool) else _known(convert_to_tensor(pred))
    if known is not None:
        return true_fn() if known else false_fn()
    _require_one_bool(convert_to_tensor(pred))
    return if_op(pred, true_fn, false_fn, name or "cond")


def _require_one_bool(pred: Tensor) -> None:
    """Raise InvalidArgumentError for a condition that is not one bool, as far as that is known."""
    if pred.dtype.base_dtype is not dtypes.bool_ or pred.shape.num_elements() not in (None, 1):
        raise errors.InvalidArgumentError(
            f"the condition of a branch must be one bool; {pred.shown_name} is of type "
            f"{pred.dtype.name} and shape {pred.shape}"
        )


def switch_case(
    branch_index: TensorLike,
    functions: Sequence[tuple[int, Branch]],
    default: Branch,
    name: str | None,
) -> Any:
    """Return what the function of an index gives, or the default."""
    index = convert_to_tensor(branch_index, dtypes.int32)
    by_index = dict(functions)
    known = _known(index)
    if known is not None:
        return by_index.get(int(known), default)()
    if min(by_index) < 0 or max(by_index) >= 2 * len(by_index):
        for at, function in reversed(functions):
            default = _chained(index, at, function, default)
        return default()
    # A Case runs the last one for what has no function.
    table = [by_index.get(at, default) for at in range(max(by_index) + 1)]
    return case_op(index, table if table[-1] is default else [*table, default], name)


def _chained(index: Tensor, at: int, function: Branch, rest: Branch) -> Branch:
    return lambda: cond(apply_op("Equal", index, at), function, rest)


def while_loop(
    test: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any,
    parallel_iterations: int,
    maximum_iterations: object,
    name: str | None,
) -> Any:
    """Repeat body while test holds; returns the variables in their structure.

    Raises: ValueError or TypeError where what body gives does not fit the variables.
    """
    graph = get_default_graph()
    if graph.is_eager:
        return _run(test, body, loop_vars, maximum_iterations)
    first = [convert_to_tensor(v) for v in nest.flatten(loop_vars, expand_composites=True)]
    kept = [t.dims for t in first]
    if shape_invariants is not None:
        kept = _invariants(loop_vars, shape_invariants, kept)
    limit = None
    if maximum_iterations is not None:
        limit = convert_to_tensor(maximum_iterations, dtypes.int32)

    def pack(flat: Sequence[Tensor]) -> Any:
        return nest.pack_sequence_as(loop_vars, list(flat), expand_composites=True)

    def holds(count: Tensor | None, *flat: Tensor) -> Any:
        found = _predicate(test(*pack(flat)))
        return found if count is None else _both(apply_op("Less", count, limit), found)

    def advance(*flat: Tensor) -> list[Tensor]:
        result = as_loop_vars(body(*pack(flat)), loop_vars)
        found = [convert_to_tensor(v) for v in nest.flatten(result, expand_composites=True)]
        for before, after, dims in zip(first, found, kept):
            _require_same(before, after, dims)
        return found

    with graph.name_scope(name or "while"):
        if limit is None:
            made = while_op(
                lambda *flat: holds(None, *flat),
                advance,
                first,
                parallel_iterations,
                invariants=kept,
            )
        else:
            zero = convert_to_tensor(0, dtypes.int32)
            made = while_op(
                holds,
                lambda count, *flat: [apply_op("AddV2", count, 1), *advance(*flat)],
                [zero, *first],
                parallel_iterations,
                invariants=[(), *kept],
            )[1:]
    return pack(made)


def _predicate(found: Any) -> Any:
    """Return what a condition gave.  Raises: InvalidArgumentError for what is no bool scalar."""
    if isinstance(found, Tensor) and (
        found.dtype is not dtypes.bool_ or found.dims not in (None, ())
    ):
        raise errors.InvalidArgumentError(
            f"the condition of while_loop must give a bool scalar; it gave {found.dtype.name} of "
            f"shape {shapes.format_dims(found.dims)}"
        )
    return found


def _both(one: Tensor, other: Tensor) -> Any:
    return apply_op("LogicalAnd", one, convert_to_tensor(other, dtypes.bool_))


def _run(
    test: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, maximum_iterations: Any
) -> Any:
    """Run a loop as plain Python: what is no tensor becomes one at the end."""
    limit = None if maximum_iterations is None else int(maximum_iterations)
    values = loop_vars
    turn = 0
    while (limit is None or turn < limit) and test(*values):
        result = body(*values)
        values = as_loop_vars(result, loop_vars)
        if type(result) is tuple and not nest.is_namedtuple(values):
            values = tuple(values)
        turn += 1
    return nest.map_structure(convert_to_tensor, values, expand_composites=True)


def as_loop_vars(result: object, loop_vars: Any) -> Any:
    """Return what a body gives in the structure of the loop's variables.

    Raises: ValueError or TypeError for another structure.
    """
    if not isinstance(result, (list, tuple)) or (
        len(loop_vars) == 1 and nest.is_nested(loop_vars[0]) and not _fits(loop_vars, result)
    ):
        result = [result]
    packed = list(result) if isinstance(loop_vars, list) else tuple(result)
    try:
        nest.assert_same_structure(list(loop_vars), list(packed), False, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"the body of while_loop must give as many things, in the same structure, as there "
            f"are loop variables: {error}"
        ) from None
    return nest.sequence_like(loop_vars, list(packed)) if nest.is_namedtuple(loop_vars) else packed


def _fits(loop_vars: Any, result: Any) -> bool:
    try:
        nest.assert_same_structure(list(loop_vars), list(result), False, expand_composites=True)
    except (TypeError, ValueError):
        return False
    return True


def _require_same(before: Tensor, after: Tensor, dims: Dims) -> None:
    if before.dtype.base_dtype is not after.dtype.base_dtype:
        raise TypeError(
            f"loop variable {before.shown_name!r} has dtype {before.dtype.name} before the "
            f"loop, but dtype {after.dtype.name} after one iteration"
        )
    if not narrows(dims, after.dims):
        raise ValueError(
            f"loop variable {before.shown_name!r} enters the loop with shape "
            f"{shapes.format_dims(before.dims)}, but has shape {shapes.format_dims(after.dims)} "
            "after one iteration; give shape_invariants for what changes"
        )


def narrows(dims: Dims, found: Dims) -> bool:
    """Whether a shape is one of those that an invariant allows."""
    if dims is None:
        return True
    if found is None or len(found) != len(dims):
        return False
    return all(wanted is None or wanted == size for wanted, size in zip(dims, found))


def _invariants(loop_vars: object, given: object, own: Sequence[Dims]) -> list[Dims]:
    """Return one shape for each tensor of the loop's variables."""
    leaves = nest.flatten(loop_vars)
    shapes_given = _flat_shapes(given, len(leaves))
    if len(shapes_given) != len(leaves):
        raise ValueError(
            f"{len(shapes_given)} shape_invariants for {len(leaves)} loop variables; give a "
            "tf.TensorShape for each"
        )
    found: list[Dims] = []
    for leaf, invariant in zip(leaves, shapes_given):
        parts = nest.flatten(leaf, expand_composites=True)
        if not nest.is_composite(leaf):
            found.append(_dims(invariant))
        else:
            found.extend(own[len(found)] if len(parts) == 1 else None for _ in parts)
    return found


def _flat_shapes(given: object, count: int) -> list[Any]:
    if not isinstance(given, (list, tuple)) or (count == 1 and _is_sizes(given)):
        return [given]
    flat: list[Any] = []
    for item in given:
        flat.extend([item] if _is_sizes(item) else _flat_shapes(item, 0))
    return flat


def _is_sizes(value: TensorLike) -> bool:
    """Whether a list is a shape written as sizes."""
    if not isinstance(value, (list, tuple)):
        return True
    return all(size is None or isinstance(size, int) for size in value)


def _dims(invariant: object) -> Dims:
    spec_shape = getattr(invariant, "shape", invariant)
    return TensorShape(spec_shape).sizes
