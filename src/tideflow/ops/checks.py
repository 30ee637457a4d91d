"""Assertions about tensors: their values, ranks and types.

What is known when the graph is built is checked then; the rest is left to an Assert op.

Source: tensorflow/python/ops/check_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import as_dims, compatible, format_dims
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.framework import Assert, IndexedSlices, check_numerics, get_static_value, no_op
from tideflow.ops.sparse import SparseTensor
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError

# The checks of values by their names.
CHECKS: dict[str, Callable[..., Any]] = {}


def _known(tensor: Tensor) -> Any:
    if get_default_graph().is_eager:
        return np.asarray(tensor)
    return get_static_value(tensor)


def _known_condition(condition: Tensor) -> Any:
    """Return what a comparison gives where the values of both sides are known."""
    if get_default_graph().is_eager:
        return np.asarray(condition)
    if any(_known(given) is None for given in condition.op.inputs):
        return None
    return static_value(*condition.edge)


def _all(condition: Tensor) -> Tensor:
    axes = apply_op("Range", 0, apply_op("Rank", condition), 1)
    made: Tensor = apply_op("All", condition, axes)
    return made


def _done(name: str | None) -> Any:
    """Return an op that does nothing, since all was checked; None where nothing is built."""
    return None if get_default_graph().is_eager else no_op(name)


def _assertion(
    condition: Tensor, data: Sequence[Any] | None, said: Sequence[Any], options: tuple[Any, ...]
) -> Any:
    """Return an op that fails unless all of condition is true; None where it was eagerly checked.

    Raises: InvalidArgumentError at once where it is known to be false.
    """
    message, summarize, scope = options
    known = _known_condition(condition)
    if known is not None:
        if not np.all(known):
            details = " ".join(str(part) for part in said)
            raise InvalidArgumentError(f"{message or ''} {details}".strip())
        return _done(scope)
    items = list(data) if data is not None else [message or "", *said]
    return Assert(_all(condition), items, summarize, scope)


def _require_all(
    condition: Tensor,
    left: Tensor,
    right: Tensor,
    sign: str,
    options: tuple[str | None, int | None],
) -> None:
    """Raise InvalidArgumentError that lists the elements for which a condition does not hold."""
    holds = _known_condition(condition)
    if holds is None or np.all(holds):
        return
    message, summarize = options
    most = 3 if summarize is None else summarize
    differing = ~np.asarray(holds)
    values = {"x": np.asarray(left), "y": np.asarray(right)}
    places = np.argwhere(differing)[: most if most >= 0 else None]
    lines = [message] if message else []
    lines += [f"Condition x {sign} y did not hold."]
    lines += [f"Indices of first {len(places)} different values:", str(places)]
    for name, value in values.items():
        shown = np.broadcast_to(value, differing.shape)[differing]
        lines += [f"Corresponding {name} values:", str(shown[: len(places)])]
    for name, value in values.items():
        first = value.reshape(-1)[: most if most >= 0 else None]
        lines += [f"First {len(first)} elements of {name}:", str(first)]
    raise InvalidArgumentError("\n".join(lines))


def _export_binary(name: str, op_name: str, sign: str, words: str) -> None:
    def check(
        x: TensorLike,
        y: TensorLike,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Any:
        if default_name == "assert_equal" and not get_default_graph().is_eager:
            if x is y:
                return _done(name or default_name)
            # TensorFlow opens the scope twice.
            get_default_graph().unique_name(name or default_name)
        with get_default_graph().name_scope(name or default_name) as scope:
            left = convert_to_tensor(x)
            right = convert_to_tensor(y, left.dtype.base_dtype)
            said = [
                f"Condition x {sign} y did not hold.",
                f"x ({left.shown_name}) = ",
                left,
                f"y ({right.shown_name}) = ",
                right,
            ]
            condition = apply_op(op_name, left, right)
            if data is None and get_default_graph().is_eager:
                _require_all(condition, left, right, sign, (message, summarize))
            return _assertion(condition, data, said, (message, summarize, scope))

    default_name = name
    check.__name__ = name
    check.__doc__ = f"Return an op that fails unless x is {words} y, element by element."
    export_value(name, check)
    export_value(f"debugging.{name}", check)
    CHECKS[name] = check


for _name, _op, _sign, _words in (
    ("assert_equal", "Equal", "==", "equal to"),
    ("assert_none_equal", "NotEqual", "!=", "different from"),
    ("assert_less", "Less", "<", "less than"),
    ("assert_less_equal", "LessEqual", "<=", "at most"),
    ("assert_greater", "Greater", ">", "greater than"),
    ("assert_greater_equal", "GreaterEqual", ">=", "at least"),
):
    _export_binary(_name, _op, _sign, _words)


def _export_sign(name: str, op_name: str, sign: str, words: str) -> None:
    def check(
        x: TensorLike,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Any:
        with get_default_graph().name_scope(name or default_name) as scope:
            given = convert_to_tensor(x)
            zero = np.zeros((), given.dtype.as_numpy_dtype)
            condition = apply_op(op_name, given, zero)
            said = [
                f"Condition x {sign} 0 did not hold element-wise:",
                f"x ({given.shown_name}) = ",
                given,
            ]
            return _assertion(condition, data, said, (message, summarize, scope))

    default_name = name
    check.__name__ = name
    check.__doc__ = f"Return an op that fails unless every element of x is {words}."
    export_value(name, check)
    export_value(f"debugging.{name}", check)
    CHECKS[name] = check


for _name, _op, _sign, _words in (
    ("assert_positive", "Greater", ">", "positive"),
    ("assert_negative", "Less", "<", "negative"),
    ("assert_non_negative", "GreaterEqual", ">=", "not negative"),
    ("assert_non_positive", "LessEqual", "<=", "not positive"),
):
    _export_sign(_name, _op, _sign, _words)


@export("assert_near", "debugging.assert_near")
def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike | None = None,
    atol: TensorLike | None = None,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Return an op that fails unless |x - y| < atol + rtol * |y|, element by element.

    rtol, atol: ten times the resolution of the type by default.
    """
    with get_default_graph().name_scope(name or "assert_near") as scope:
        left = convert_to_tensor(x)
        dtype = left.dtype.base_dtype
        right = convert_to_tensor(y, dtype)
        least = 10 * float(np.finfo(np.float64 if dtype.size >= 8 else np.float32).eps)
        relative = convert_to_tensor(least if rtol is None else rtol, dtype)
        absolute = convert_to_tensor(least if atol is None else atol, dtype)
        allowed = apply_op("AddV2", absolute, apply_op("Mul", relative, apply_op("Abs", right)))
        difference = apply_op("Abs", apply_op("Sub", left, right))
        condition = apply_op("Less", difference, allowed)
        said = ["x and y not equal to tolerance.", "x = ", left, "y = ", right]
        return _assertion(condition, data, said, (message, summarize, scope))


# ---- ranks


def _export_rank(name: str, fits: Callable[[int, int], bool], op_name: str, words: str) -> None:
    def check(
        x: TensorLike,
        rank: TensorLike,
        data: Sequence[Any] | None = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Any:
        with get_default_graph().name_scope(name or default_name) as scope:
            given = convert_to_tensor(x)
            wanted = convert_to_tensor(rank)
            known = _known(wanted)
            if known is not None and given.dims is not None:
                if not fits(len(given.dims), int(known)):
                    raise ValueError(
                        f"{message or ''} tensor {given.shown_name} must have rank {words} "
                        f"{known}; its shape is {given.shape}".strip()
                    )
                return _done(scope)
            condition = apply_op(op_name, apply_op("Rank", given), wanted)
            said = [
                f"Tensor {given.shown_name} must have rank {words}",
                wanted,
                "Received shape: ",
                apply_op("Shape", given),
            ]
            return _assertion(condition, data, said, (message, summarize, scope))

    default_name = name
    check.__name__ = name
    check.__doc__ = f"Return an op that fails unless x has rank {words} the one given."
    export_value(name, check)
    export_value(f"debugging.{name}", check)


_export_rank("assert_rank", lambda have, want: have == want, "Equal", "equal to")
_export_rank("assert_rank_at_least", lambda have, want: have >= want, "GreaterEqual", "at least")


@export("assert_rank_in", "debugging.assert_rank_in")
def assert_rank_in(
    x: TensorLike,
    ranks: Sequence[int],
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Return an op that fails unless the rank of x is among those given."""
    with get_default_graph().name_scope(name or "assert_rank_in") as scope:
        given = convert_to_tensor(x)
        if given.dims is not None:
            if len(given.dims) not in ranks:
                raise ValueError(
                    f"{message or ''} tensor {given.shown_name} must have a rank in "
                    f"{list(ranks)}; its shape is {given.shape}".strip()
                )
            return _done(scope)
        found = apply_op("Rank", given)
        matches = apply_op("Equal", found, np.array(ranks, np.int32))
        condition = apply_op("Any", matches, [0])
        said = [f"Tensor {given.shown_name} must have a rank in {list(ranks)}; it has", found]
        return _assertion(condition, data, said, (message, summarize, scope))


# ---- what is known at once


@export("assert_scalar", "debugging.assert_scalar")
def assert_scalar(
    tensor: TensorLike, name: str | None = None, message: str | None = None
) -> Tensor:
    """Return the tensor.  Raises: ValueError unless it is known to be a scalar."""
    given = convert_to_tensor(tensor, name=name)
    if given.dims != ():
        raise ValueError(f"{message or ''} expected a scalar; found {given.shape}".strip())
    return given


@export_v2("debugging.assert_scalar")
def assert_scalar_v2(
    tensor: TensorLike, message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError unless the tensor is known to be a scalar."""
    assert_scalar(tensor, name, message)


@export("assert_type", "debugging.assert_type")
def assert_type(
    tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: str | None = None
) -> Any:
    """Return an op that does nothing.  Raises: TypeError when the tensor has another type."""
    given, wanted = convert_to_tensor(tensor), as_dtype(tf_type)
    if given.dtype.base_dtype is not wanted:
        found = f"{given.shown_name} must be of type {wanted.name}, not {given.dtype.name}"
        raise TypeError(f"{message or ''} {found}".strip())
    return _done(name or "statically_determined_correct_type")


@export("debugging.assert_integer", "assert_integer")
def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> Any:
    """Return an op that does nothing.  Raises: TypeError when x is not of integers."""
    given = convert_to_tensor(x)
    if not given.dtype.base_dtype.is_integer:
        found = f"{given.shown_name} must be of integers, not {given.dtype.name}"
        raise TypeError(f"{message or ''} {found}".strip())
    return _done(name or "assert_integer")


@export_v2("debugging.assert_integer")
def assert_integer_v2(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError when x is not of integers."""
    assert_integer(x, message, name)


@export("debugging.assert_proper_iterable", "assert_proper_iterable")
def assert_proper_iterable(values: TensorLike) -> None:
    """Raise TypeError for what is no list of things: a tensor, an array, text, or not iterable."""
    single = (Tensor, IndexedSlices, SparseTensor, np.ndarray, str, bytes)
    if isinstance(values, single) or not isinstance(values, Iterable):
        raise TypeError(f"expected an iterable of things; found {type(values).__name__}")


@export("debugging.assert_all_finite", "verify_tensor_all_finite")
def verify_tensor_all_finite(
    t: TensorLike | None = None,
    msg: Any = None,
    name: str | None = None,
    x: TensorLike | None = None,
    message: Any = None,
) -> Tensor:
    """Return a tensor; running it fails with the message if it holds a NaN or an infinity.

    x and message are other names for t and msg.
    """
    with get_default_graph().name_scope(name or "VerifyFinite"):
        given = convert_to_tensor(t if x is None else x)
        return check_numerics(given, msg if message is None else message)


@export_v2("debugging.assert_all_finite")
def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return a tensor; running it fails with the message if it holds a NaN or an infinity."""
    return verify_tensor_all_finite(x, message, name)


@export("debugging.assert_same_float_dtype", "assert_same_float_dtype")
def assert_same_float_dtype(tensors: Any = None, dtype: DTypeLike | None = None) -> Any:
    """Return the floating type that all tensors have, or float32 without any.

    Raises: ValueError for different types or one that is not floating.
    """
    found = None if dtype is None else as_dtype(dtype)
    for tensor in tensors or []:
        if tensor is None:
            continue
        own = tensor.dtype.base_dtype
        if found is not None and own is not found:
            raise ValueError(f"{tensor!r} must be of type {found.name}")
        found = own
    found = found or as_dtype("float32")
    if not found.is_floating:
        raise ValueError(f"expected a floating type, found {found.name}")
    return found


@export("debugging.assert_shapes")
def assert_shapes(
    shapes: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Any:
    """Return an op that does nothing, once static shapes agree with those given.

    shapes: pairs (tensor, sizes), or a dict of them; a size is a number, None, or a letter that
    stands for the same size everywhere.
    Raises: ValueError where they contradict.
    """
    pairs = list(shapes.items()) if hasattr(shapes, "items") else list(shapes)
    letters: dict[str, int] = {}
    for tensor, wanted in pairs:
        given = convert_to_tensor(tensor.deref() if hasattr(tensor, "deref") else tensor)
        sizes = [None if isinstance(size, str) else size for size in wanted]
        if not compatible(given.dims, as_dims(sizes)):
            raise ValueError(
                f"{message or ''} {given.shown_name} has shape {given.shape}, expected "
                f"{format_dims(sizes)}".strip()
            )
        for letter, size in zip(wanted, given.dims or ()):
            if not isinstance(letter, str) or size is None:
                continue
            if letters.setdefault(letter, size) != size:
                raise ValueError(
                    f"{message or ''} size {letter!r} is {letters[letter]} and {size}".strip()
                )
    return _done(name or "assert_shapes")


@export("is_numeric_tensor", "debugging.is_numeric_tensor")
def is_numeric_tensor(tensor: TensorLike) -> bool:
    """Whether the value is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype.is_numeric


@export("is_tensor")
def is_tensor(x: TensorLike) -> bool:
    """Whether the value is a tensor, or something that stands for one, such as a variable."""
    if isinstance(x, Tensor) or hasattr(x, "_as_graph_element"):
        return True
    return hasattr(x, "indices") and hasattr(x, "values") and hasattr(x, "dense_shape")
