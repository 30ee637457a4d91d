"""Functions of each element, on ragged tensors: operators, tf.math, tf.strings and others.

Several ragged tensors must have the same rows.  A dense one broadcasts to a ragged one: a scalar, a
size of 1 at any dimension, or as many elements as each row has.
Source: tensorflow/python/ops/ragged/ragged_functional_ops.py, ragged_operators.py,
ragged_dispatch.py (which functions).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, overload_each
from tideflow.ops.math import arithmetic, comparison, division, elementwise, powers
from tideflow.ops.operators import defer_to
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.broadcasting import broadcast_shapes, broadcast_to
from tideflow.ops.ragged.dynamic_shape import DynamicRaggedShape
from tideflow.ops.ragged.makers import from_tensor
from tideflow.ops.ragged.tensor import RaggedTensor, rebuilt
from tideflow.wire import dtypes


def _mapped(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return the function of the innermost values of ragged arguments, as rows of the first."""
    found: list[RaggedTensor] = []

    def flat(value: TensorLike) -> Any:
        if isinstance(value, RaggedTensor):
            found.append(value)
            return value.flat_values
        if isinstance(value, list) and any(isinstance(v, RaggedTensor) for v in value):
            return [flat(v) for v in value]
        return value

    plain_args = [flat(value) for value in args]
    plain_kwargs = {key: flat(value) for key, value in kwargs.items()}
    if not found:
        return function(*plain_args, **plain_kwargs)
    rows = _same_partition(found)
    return rows.with_flat_values(function(*plain_args, **plain_kwargs))


def _same_partition(found: list[RaggedTensor]) -> RaggedTensor:
    """Return the first of tensors whose rows are the same.  Raises: ValueError for other ranks."""
    first = found[0]
    checks = []
    for other in found[1:]:
        if other.ragged_rank != first.ragged_rank:
            raise ValueError(
                f"ragged tensors of ragged_rank {first.ragged_rank} and {other.ragged_rank} do not "
                "go together"
            )
        for one, two in zip(first.nested_row_splits, other.nested_row_splits):
            if one is not two:
                two = partition.number(two, one.dtype)
                checks.append(
                    (apply_op("Equal", one, two, incompatible_shape_error=False), "the same rows")
                )
    if not checks:
        return first
    outer = partition.require(first.row_splits, *checks)
    return rebuilt(first, [first.flat_values, outer, *first.nested_row_splits[1:]])


@export("ragged.map_flat_values")
def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function makes of the innermost values of ragged tensors with the same rows.

    Raises: InvalidArgumentError where rows differ; ValueError where the function gives another
    number of values.
    """

    def checked(*values: Any, **named: Any) -> Any:
        found = op(*values, **named)
        rows = next(v for v in (*values, *named.values()) if isinstance(v, Tensor))
        if rows.dims is not None and isinstance(found, Tensor):
            sizes = {*(found.dims or (None,))[:1], *rows.dims[:1]} - {None}
            if found.dims == () or len(sizes) > 1:
                raise ValueError(
                    "tf.ragged.map_flat_values requires that the output of `op` have the same "
                    f"outer-dimension size as flat_values of any ragged inputs: {found.shape} and "
                    f"{rows.shape}"
                )
        return found

    return _mapped(checked, args, kwargs)


# ---- broadcasting


def _operand(value: TensorLike, rows: RaggedTensor) -> Tensor:
    """Return a tensor, of the type of the rows where a Python value fits to it."""
    if isinstance(value, Tensor):
        return value
    try:
        return convert_to_tensor(value, rows.dtype)
    except (TypeError, ValueError):
        return convert_to_tensor(value)


def _like(value: TensorLike, rows: RaggedTensor) -> Any:
    """Return a dense operand as it goes with the innermost values of a ragged one."""
    given = _operand(value, rows)
    if given.dims is None:
        raise ValueError("an operand beside a ragged tensor must have a known rank")
    inner = len(rows.flat_values.dims or (None,)) - 1
    if len(given.dims) <= inner:
        return given
    depth = rows.ragged_rank + 1
    outer = len(given.dims) - inner
    if outer > depth:
        raise ValueError(f"an operand of shape {given.shape} has a higher rank than {rows.shape}")
    for axis in range(depth - outer):
        given = apply_op("ExpandDims", given, axis)
    return _per_value(given, rows)


def _per_value(given: Tensor, rows: RaggedTensor) -> Any:
    """Return dense rows, of as many dimensions as ragged ones, for each innermost value."""
    dims = given.dims or ()
    count = rows.nrows()
    if dims[0] == 1:
        repeated = apply_op("ZerosLike", rows.row_lengths())
        given = apply_op("GatherV2", given, repeated, 0)
    else:
        own = partition.count_of(given, count.dtype)
        given = partition.require(given, (apply_op("Equal", own, count), "as many rows"))
    if dims[1] == 1:
        column = apply_op("Squeeze", given, squeeze_dims=[1])
        within = apply_op("GatherV2", column, rows.value_rowids(), 0)
        inner = rows.values
        if not isinstance(inner, RaggedTensor):
            return within
        return _per_value(within, inner) if within.dims and len(within.dims) > 1 else within
    dense = from_tensor(given, row_splits_dtype=rows.row_splits.dtype)
    alike = apply_op("Equal", dense.row_splits, rows.row_splits)
    values = partition.require(dense.flat_values, (alike, "rows are as long as the operand's"))
    return _per_value(values, rows.values) if isinstance(rows.values, RaggedTensor) else values


def _may_broadcast(one: RaggedTensor, other: RaggedTensor) -> bool:
    """Whether rows of one may be repeated as those of the other are: some have one length."""
    if one.shape.rank != other.shape.rank or one.ragged_rank != other.ragged_rank:
        return True
    if one.row_splits is not other.row_splits and (
        one.uniform_row_length is not None or other.uniform_row_length is not None
    ):
        return True
    inner = one.values, other.values
    return all(isinstance(each, RaggedTensor) for each in inner) and _may_broadcast(*inner)


def _broadcast(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    ragged = [v for v in (*args, *kwargs.values()) if isinstance(v, RaggedTensor)]
    if not ragged:  # shapes, perhaps
        return function(*args, **kwargs)
    if any(_may_broadcast(ragged[0], other) for other in ragged[1:]):
        shape = functools.reduce(broadcast_shapes, map(DynamicRaggedShape.from_tensor, ragged))
        made = {id(each): broadcast_to(each, shape) for each in ragged}
        args = [made.get(id(value), value) for value in args]
        kwargs = {key: made.get(id(value), value) for key, value in kwargs.items()}
        ragged = list(made.values())
    rows = ragged[0]

    def fitting(value: TensorLike) -> Any:
        is_operand = isinstance(value, (Tensor, int, float, list, tuple)) or hasattr(value, "dtype")
        return value if isinstance(value, RaggedTensor) or not is_operand else _like(value, rows)

    named = {key: v if key == "name" else fitting(v) for key, v in kwargs.items()}
    return _mapped(function, [fitting(value) for value in args], named)


# ---- functions

_UNARY = """
math.abs math.acos math.acosh math.angle math.asin math.asinh math.atan math.atanh math.ceil
math.conj math.cos math.cosh math.digamma math.erf math.erfc math.exp math.expm1 math.floor
math.imag math.is_finite math.is_inf math.is_nan math.lgamma math.log math.log1p math.log_sigmoid
math.logical_not math.negative math.real math.reciprocal math.rint math.round math.rsqrt
math.sigmoid math.sign math.sin math.sinh math.softplus math.softsign math.sqrt math.square math.tan
math.tanh cast dtypes.saturate_cast clip_by_value identity ones_like zeros_like nn.relu nn.relu6
nn.elu nn.selu nn.gelu nn.leaky_relu nn.silu nn.dropout nn.experimental.stateless_dropout nn.softmax
math.add_n debugging.check_numerics
bitwise.invert as_string io.decode_base64 io.encode_base64 io.decode_raw io.decode_compressed
strings.length strings.lower strings.upper strings.strip strings.substr strings.to_number
strings.regex_full_match strings.regex_replace strings.to_hash_bucket strings.to_hash_bucket_fast
strings.to_hash_bucket_strong strings.unicode_transcode strings.unicode_script
image.convert_image_dtype image.adjust_brightness stop_gradient
""".split()  # noqa: SIM905 - a list of quoted names reads worse

_BINARY = """
math.add math.atan2 math.divide math.divide_no_nan math.equal math.floordiv math.floormod
math.greater math.greater_equal math.less math.less_equal math.logical_and math.logical_or
math.logical_xor math.maximum math.minimum math.multiply math.multiply_no_nan math.not_equal
math.pow math.squared_difference math.subtract math.truediv math.xdivy math.xlogy realdiv
truncatediv truncatemod bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor
bitwise.left_shift bitwise.right_shift math.zeta math.igamma math.igammac math.nextafter
""".split()  # noqa: SIM905

for _name in _UNARY:
    overload_each(_name, _mapped)
for _name in _BINARY:
    overload_each(_name, _broadcast)


def _joined(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return strings.join of a list, in which some are ragged and others broadcast to them."""
    inputs, *rest = args if args else [kwargs.pop("inputs")]
    rows = next(v for v in inputs if isinstance(v, RaggedTensor))
    fitting = [v if isinstance(v, RaggedTensor) else _like(v, rows) for v in inputs]
    return _mapped(function, [fitting, *rest], kwargs)


def _chosen(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    given = [value for key, value in kwargs.items() if key != "name" and value is not None]
    if len(given) + sum(value is not None for value in args) > 1:
        return _broadcast(function, args, kwargs)
    condition = (*args, *given)[0]
    places = condition.to_sparse()
    kept = apply_op("Squeeze", apply_op("Where", places.values), squeeze_dims=[1])
    return apply_op("GatherV2", places.indices, kept, 0)


overload_each("strings.join", _joined)
overload_each("where", _chosen)


def _sized(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return tf.size: how many elements there are in all rows."""
    rows, *rest = args if args else [kwargs.pop("input")]
    return function(rows.flat_values, *rest, **kwargs)


def _ranked(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    rows = args[0] if args else kwargs["input"]
    inner = apply_op("Rank", rows.flat_values)
    return apply_op("AddV2", inner, rows.ragged_rank)


overload_each("size", _sized)
overload_each("rank", _ranked)


# ---- operators


def _operator(function: Callable[..., Any], is_reflected: bool = False) -> Callable[..., Any]:
    def operate(self: RaggedTensor, other: TensorLike) -> Any:
        return _broadcast(function, [other, self] if is_reflected else [self, other], {})

    return operate


def _by_type(on_bools: Callable[..., Any], on_numbers: Callable[..., Any]) -> Callable[..., Any]:
    def combine(x: Any, y: Any) -> Any:
        return (on_bools if x.dtype is dtypes.bool_ else on_numbers)(x, y)

    return combine


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": division.truediv,
    "floordiv": division.floordiv,
    "mod": division.floormod,
    "pow": powers.pow,
    "and": _by_type(comparison.logical_and, comparison.bitwise_and),
    "or": _by_type(comparison.logical_or, comparison.bitwise_or),
    "xor": _by_type(comparison.logical_xor, comparison.bitwise_xor),
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "lt": comparison.less,
    "le": comparison.less_equal,
    "gt": comparison.greater,
    "ge": comparison.greater_equal,
}


def _equality(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    """Return == or !=: elementwise where tensors are compared so, else of identity."""

    def compare(self: RaggedTensor, other: object) -> Any:
        if other is None or not get_default_graph().compares_elementwise:
            return (self is other) is not is_reflected
        return _broadcast(function, [self, other], {})

    return compare


def _hash(self: RaggedTensor) -> int:
    """Return a number of the identity.  Raises: TypeError where == compares elements."""
    if get_default_graph().compares_elementwise:
        raise TypeError("RaggedTensor is unhashable; use the id of its parts as a key")
    return id(self)


def _inverted(self: RaggedTensor) -> Any:
    is_bool = self.dtype is dtypes.bool_
    return _mapped(comparison.logical_not if is_bool else comparison.invert, [self], {})


def _install() -> None:
    for name, function in _OPERATORS.items():
        setattr(RaggedTensor, f"__{name}__", _operator(function))
        setattr(RaggedTensor, f"__r{name}__", _operator(function, is_reflected=True))
    for name, function in _COMPARISONS.items():
        setattr(RaggedTensor, f"__{name}__", _operator(function))
    for name, one in (("neg", elementwise.negative), ("abs", elementwise.abs)):
        setattr(RaggedTensor, f"__{name}__", lambda self, one=one: _mapped(one, [self], {}))
    setattr(RaggedTensor, "__invert__", _inverted)  # noqa: B010 - the class comes first
    RaggedTensor.__eq__ = _equality(comparison.equal, False)  # type: ignore[method-assign]
    RaggedTensor.__ne__ = _equality(comparison.not_equal, True)  # type: ignore[method-assign]
    RaggedTensor.__hash__ = _hash  # type: ignore[method-assign,assignment]


_install()
defer_to(RaggedTensor)
