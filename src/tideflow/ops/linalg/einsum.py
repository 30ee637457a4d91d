"""Contractions of tensors: einsum and tensordot.

Source: linalg/einsum_op_impl.h and special_math_ops.py's behaviour, TensorFlow 2.21.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims, format_dims
from tideflow.graph.shapes import broadcast as broadcast_dims
from tideflow.graph.types import ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.wire.errors import InvalidArgumentError

_DOTS = "..."


def _parse(equation: str) -> tuple[list[str], str]:
    """Split an equation into the labels of each operand and of the result.

    Raises: ValueError for one that is malformed.
    """
    compact = equation.replace(" ", "")
    given, arrow, result = compact.partition("->")
    operands = given.split(",")
    if not re.fullmatch(r"[A-Za-z.]*(,[A-Za-z.]*)*(->[A-Za-z.]*)?", compact) or any(
        part.replace(_DOTS, "", 1).count(".") for part in (*operands, result)
    ):
        raise ValueError(f"not an einsum equation: {equation!r}")
    if not arrow:
        letters = "".join(operands).replace(".", "")
        once = sorted(label for label in set(letters) if letters.count(label) == 1)
        result = (_DOTS if _DOTS in given else "") + "".join(once)
    for label in set(result) - {"."}:
        if label not in given or result.count(label) > 1:
            raise ValueError(
                f"label {label!r} of the result must stand in an operand, and once in the result: "
                f"{equation!r}"
            )
    return operands, result


def _bind_sizes(
    labels: str, dims: tuple[int | None, ...], sizes: dict[str, int | None]
) -> tuple[int | None, ...]:
    """Enter an operand's sizes under its labels; return those that its dots stand for."""
    before, dots, after = labels.partition(_DOTS)
    extra = len(dims) - len(before) - len(after)
    if extra < 0 or (extra and not dots):
        raise ValueError(f"labels {labels!r} do not fit an operand of shape {format_dims(dims)}")
    named = zip(before + after, dims[: len(before)] + dims[len(before) + extra :])
    for label, size in named:
        known = sizes.get(label)
        if known is not None and size is not None and known != size and 1 not in (known, size):
            raise ValueError(f"label {label!r} has sizes {known} and {size}")
        if known in (None, 1):
            sizes[label] = size
    return dims[len(before) : len(before) + extra]


def _einsum_shape(c: ShapeContext) -> list[Dims]:
    operands, result = _parse(c.attrs["equation"])
    if len(operands) != len(c.inputs):
        raise ValueError(f"the equation names {len(operands)} operands, not {len(c.inputs)}")
    sizes: dict[str, int | None] = {}
    dots: Dims = ()
    for labels, dims in zip(operands, c.inputs):
        if dims is None:
            return [None]
        dots = broadcast_dims(dots, _bind_sizes(labels, dims, sizes))
    before, has_dots, after = result.partition(_DOTS)
    middle = (dots or ()) if has_dots else ()
    return [(*(sizes[x] for x in before), *middle, *(sizes[x] for x in after))]


@op(
    """
Einsum(inputs: N * T) -> output: T
equation: string
N: int >= 1
T: type
""",
    shape=_einsum_shape,
    compiles=Compiles.ALWAYS,
)
def _einsum(xp: ArrayNamespace, inputs: list[Any], *, equation: str) -> Any:
    dtype = inputs[0].dtype
    if xp is np and dtype.itemsize == 2:
        inputs = [value.astype(np.float32) for value in inputs]
    try:
        operands, result = _parse(equation)
        full = f"{','.join(operands)}->{result}"
        return xp.einsum(full, *inputs, optimize=True).astype(dtype)
    except ValueError as error:
        shapes = ", ".join(str(list(value.shape)) for value in inputs)
        raise InvalidArgumentError(f"einsum {equation!r} of shapes {shapes}: {error}") from None


@gradient("Einsum")
def _einsum_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Contract the result's gradient with the other operand, once for each operand."""
    operands, result = _parse(op.attrs["equation"])
    tensors = op.inputs
    grads = []
    for i, (labels, tensor) in enumerate(zip(operands, tensors)):
        others = [operands[j] for j in range(len(operands)) if j != i]
        parts = [grad, *(conj(t) for j, t in enumerate(tensors) if j != i)]
        grads.append(_operand_grad(labels, tensor, [result, *others], parts))
    return grads


def _operand_grad(labels: str, like: Tensor, sources: list[str], parts: list[Any]) -> Any:
    plain = labels.replace(_DOTS, "")
    if len(set(plain)) != len(plain):
        raise ValueError(f"no gradient of einsum for a repeated label within one operand: {labels}")
    available = set("".join(sources))
    missing = [label for label in plain if label not in available]
    kept = "".join(label for label in labels if label not in missing)
    has_dots = _DOTS in labels and any(_DOTS in source for source in sources)
    if _DOTS in labels and not has_dots:
        kept = kept.replace(_DOTS, "")
    dots_extra = not has_dots and any(_DOTS in source for source in sources)
    target = (_DOTS + kept) if dots_extra else kept
    found = apply_op("Einsum", parts, equation=f"{','.join(sources)}->{target}")
    if not (missing or dots_extra or has_dots or _has_unknown_or_one(like)):
        return found
    if missing:
        found = _insert_summed_labels(found, labels, missing)
    return _sum_to_shape(found, like)


def _has_unknown_or_one(tensor: Tensor) -> bool:
    return tensor.dims is None or None in tensor.dims or 1 in tensor.dims


def _insert_summed_labels(found: object, labels: str, missing: list[str]) -> Any:
    """Give a gradient size 1 along the labels that only its operand had, to be stretched."""
    before, _, after = labels.partition(_DOTS)
    for position, label in enumerate(before):
        if label in missing:
            found = apply_op("ExpandDims", found, position)
    for position, label in reversed(list(enumerate(after))):
        if label in missing:
            found = apply_op("ExpandDims", found, position - len(after))
    return found


def _sum_to_shape(found: object, like: Tensor) -> Any:
    """Sum what was stretched, and stretch what was summed, to the shape of the operand."""
    shape = apply_op("Shape", like)
    axes, _ = apply_op("BroadcastGradientArgs", shape, apply_op("Shape", found))
    summed = apply_op("Sum", found, axes, keep_dims=True)
    rank = apply_op("Size", shape)
    extra = apply_op("Sub", apply_op("Rank", summed), rank)
    own = apply_op(
        "StridedSlice",
        apply_op("Shape", summed),
        apply_op("Reshape", extra, [1]),
        [0],
        [1],
        end_mask=1,
    )
    return apply_op("BroadcastTo", apply_op("Reshape", summed, own), shape)


@export("einsum", "linalg.einsum")
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Any:
    """Contract tensors as an equation such as "ij,jk->ik" says.

    Labels that the result lacks are summed; "..." stands for dimensions that broadcast.
    Raises: ValueError for a malformed equation, or shapes that do not fit it.
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"einsum takes no arguments {sorted(kwargs)}")
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
        inputs = tuple(inputs[0])
    operands, result = _parse(equation)
    if len(operands) != len(inputs):
        raise ValueError(f"{equation!r} names {len(operands)} operands; {len(inputs)} were given")
    full = f"{','.join(operands)}->{result}"
    with get_default_graph().name_scope(name or "einsum"):
        return apply_op("Einsum", list(inputs), equation=full)


@export("linalg.tensordot", "tensordot")
def tensordot(a: TensorLike, b: TensorLike, axes: TensorLike, name: str | None = None) -> Any:
    """Sum products of a and b over pairs of axes.

    Args:
      axes: a number n (the last n axes of a with the first n of b), or two lists of axes.
    Shapes: the result has the other axes of a, then those of b.
    Raises: ValueError for axes that do not pair.
    """
    with get_default_graph().name_scope(name or "Tensordot") as scope:
        a = convert_to_tensor(a)
        b = convert_to_tensor(b, a.dtype.base_dtype)
        a_axes, b_axes = _paired_axes(a, b, axes)
        left, a_free = _as_matrix(a, a_axes, False)
        right, b_free = _as_matrix(b, b_axes, True)
        product = apply_op("MatMul", left, right)
        if isinstance(a_free, np.ndarray) and isinstance(b_free, np.ndarray):
            shape: Any = np.concatenate([a_free, b_free]).astype(np.int32)
        else:
            shape = apply_op("ConcatV2", [a_free, b_free], 0)
        return apply_op("Reshape", product, shape, name=scope)


def _paired_axes(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError(f"tensordot needs axes of at least 0; found {axes}")
        if a.dims is None:
            raise ValueError("tensordot over a number of axes needs a of known rank")
        return list(range(len(a.dims) - axes, len(a.dims))), list(range(axes))
    first, second = (np.ravel(part).astype(int).tolist() for part in axes)
    if len(first) != len(second):
        raise ValueError(f"tensordot pairs axes one by one; found {first} and {second}")
    return _from_front(a, first), _from_front(b, second)


def _from_front(x: Tensor, axes: list[int]) -> list[int]:
    if x.dims is None:
        raise ValueError(f"tensordot needs operands of known rank; that of {x.name} is unknown")
    return [axis % len(x.dims) for axis in axes]


def _as_matrix(x: Tensor, axes: list[int], summed_first: bool) -> tuple[Any, Any]:
    """Return x as a matrix of free and summed sizes, and its free sizes as a vector."""
    if x.dims is None:
        raise ValueError(f"tensordot needs operands of known rank; that of {x.name} is unknown")
    free = [axis for axis in range(len(x.dims)) if axis not in axes]
    order = axes + free if summed_first else free + axes
    turned = x if order == sorted(order) else apply_op("Transpose", x, order)
    if None not in x.dims:
        sizes = np.array([x.dims[axis] for axis in free], np.int32)
        inner = math.prod(x.dims[axis] or 0 for axis in axes)
        outer: Any = int(np.prod(sizes, dtype=np.int64))
        shape: Any = [inner, outer] if summed_first else [outer, inner]
        return apply_op("Reshape", turned, np.array(shape, np.int32)), sizes
    dynamic = apply_op("Shape", x)
    free_sizes = apply_op("GatherV2", dynamic, np.array(free, np.int32), 0)
    summed = apply_op("GatherV2", dynamic, np.array(axes, np.int32), 0)
    outer = apply_op("Prod", free_sizes, [0])
    total = apply_op("Prod", summed, [0])
    shape = apply_op("Pack", [total, outer] if summed_first else [outer, total])
    return apply_op("Reshape", turned, shape), free_sizes
