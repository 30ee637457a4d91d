"""Pools over regions whose sizes are drawn, so that images shrink by any ratio.

Source: tensorflow/core/kernels/fractional_pool_common.cc, fractional_max_pool_op.cc,
fractional_avg_pool_op.cc (Graham, "Fractional Max-Pooling", 2015).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import check_vector, get_seed
from tideflow.ops.random import Samples
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

_TYPES = "{float, double, int32, int64}"

# ---- where regions begin


class _Draws:
    """Numbers of a generator, as TensorFlow draws them: each sequence begins at a whole block."""

    def __init__(self, seed: int, seed2: int) -> None:
        self._samples = Samples(seed, seed2)
        self._taken = 0

    def word(self) -> int:
        self._taken += 1
        return self._samples.next()

    def fraction(self) -> float:
        """Return a double in [0, 1)."""
        high, low = self.word(), self.word()
        return (((high & 0xFFFFF) << 32) | low) / 2.0**52

    def below(self, n: int) -> int:
        if n & (n - 1) == 0:
            return self.word() & (n - 1)
        least = (0xFFFFFFFF % n) + 1
        while (word := self.word()) < least:
            pass
        return word % n

    def end_sequence(self, reserved: int) -> None:
        """Go on behind the words that were reserved for a sequence."""
        while self._taken % 4 or self._taken < reserved:
            self.word()
        self._taken = 0


def _starts(size: int, out: int, draws: _Draws, pseudo_random: bool) -> list[int]:
    """Return where each of `out` regions begins, and the end: [out + 1] from 0 to size."""
    if size % out == 0:
        draws.end_sequence(2 if pseudo_random else out)
        return [i * (size // out) for i in range(out + 1)]
    if pseudo_random:
        return _smooth_starts(size, out, draws)
    sizes = [size // out + (i < size % out) for i in range(out)]
    for i in range(out - 1):
        j = i + draws.below(out - i)
        sizes[i], sizes[j] = sizes[j], sizes[i]
    draws.end_sequence(out)
    return [0, *np.cumsum(sizes).tolist()]


def _smooth_starts(size: int, out: int, draws: _Draws) -> list[int]:
    alpha = size / out
    k = int(alpha)
    most = min((k + 2) / alpha - 1, (size + 1 - k) / alpha - (out - 1))
    u = draws.fraction() * most
    draws.end_sequence(2)
    return [0, *(math.ceil(alpha * (i + u)) - 1 for i in range(1, out)), size]


def _out_size(size: int, ratio: float) -> int:
    return int(np.floor(np.float32(size) / np.float32(ratio)))


def _check_ratio(ratio: list[float]) -> None:
    if len(ratio) != 4:
        raise ValueError(f"pooling_ratio must have 4 elements; found {ratio}")
    if min(ratio) < 1:
        raise ValueError(f"pooling_ratio must not be below 1; found {ratio}")


def _pool_shape(c: ShapeContext) -> list[Dims]:
    given, ratio = with_rank(c.inputs[0], 4, "value"), c.attrs["pooling_ratio"]
    _check_ratio(ratio)
    sizes = [None if n is None else _out_size(n, r) for n, r in zip(given, ratio)]
    if 0 in sizes:
        raise ValueError(f"nothing is left of {given} with ratios {ratio}")
    return [tuple(sizes), (None,), (None,)]


def _grid(value: Array, attrs: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Return the starts of rows and columns.  Raises: InvalidArgumentError; UnimplementedError."""
    ratio, seeds = attrs["pooling_ratio"], (attrs["seed"], attrs["seed2"])
    if ratio[0] != 1 or ratio[3] != 1:
        raise UnimplementedError(f"images are pooled over space alone; found ratios {ratio}")
    if not attrs["deterministic"] and any(seeds):
        raise InvalidArgumentError("seeds must be 0 where regions are not deterministic")
    if value.ndim != 4:
        raise InvalidArgumentError(f"value must have rank 4; found {list(value.shape)}")
    sizes = [(size, _out_size(size, r)) for size, r in zip(value.shape[1:3], ratio[1:3])]
    if not value.size or any(not out for _, out in sizes):
        raise InvalidArgumentError(f"nothing is left of {list(value.shape)} with ratios {ratio}")
    if not attrs["deterministic"]:
        seeds = tuple(np.random.default_rng().integers(1, 1 << 62, 2).tolist())
    draws = _Draws(*seeds)
    rows, columns = (_starts(size, out, draws, attrs["pseudo_random"]) for size, out in sizes)
    return rows, columns


def _spans(starts: Sequence[int], overlapping: bool) -> list[slice]:
    """Return the regions; overlapping ones share their edges."""
    last = starts[-1]
    return [slice(a, min(b + 1, last) if overlapping else b) for a, b in itertools.pairwise(starts)]


def _pooled(value: Array, overlapping: bool, grid: tuple[list[int], list[int]], take: Any) -> Any:
    rows, columns = (_spans(starts, overlapping) for starts in grid)
    made = np.empty((len(value), len(rows), len(columns), value.shape[3]), value.dtype)
    for i, down in enumerate(rows):
        for j, across in enumerate(columns):
            made[:, i, j] = take(value[:, down, across])
    return made, np.array(grid[0], np.int64), np.array(grid[1], np.int64)


def _mean(part: Any) -> Any:
    count = part.shape[1] * part.shape[2]
    total = np.sum(part, axis=(1, 2), dtype=part.dtype)
    return total / part.dtype.type(count) if part.dtype.kind == "f" else np.fix(total / count)


def _define(name: str, take: Any) -> None:
    @op(
        f"""
        {name}(value: T) -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64
        pooling_ratio: list(float) >= 4
        pseudo_random: bool = false
        overlapping: bool = false
        deterministic: bool = false
        seed: int = 0
        seed2: int = 0
        T: type in {_TYPES}
        """,
        shape=_pool_shape,
    )
    def kernel(
        ctx: KernelContext,
        value: Array,
        *,
        pooling_ratio: list[float],
        pseudo_random: bool,
        overlapping: bool,
        deterministic: bool,
        seed: int,
        seed2: int,
    ) -> Any:
        attrs = {
            "pooling_ratio": pooling_ratio,
            "pseudo_random": pseudo_random,
            "deterministic": deterministic,
            "seed": seed,
            "seed2": seed2,
        }
        return _pooled(value, overlapping, _grid(value, attrs), take)


_define("FractionalMaxPool", lambda part: part.max(axis=(1, 2)))
_define("FractionalAvgPool", _mean)

# ---- gradients


def _check_starts(starts: Array, out: int, size: int, what: str) -> list[int]:
    check_vector(starts, what)
    found: list[int] = starts.tolist()
    rises = all(a < b for a, b in itertools.pairwise(found))
    if len(found) != out + 1 or not rises or found[0] < 0 or found[-1] > size:
        raise InvalidArgumentError(
            f"{what} must rise from 0 to {size} in {out} steps; found {found}"
        )
    return found


@op(
    f"""
    FractionalMaxPoolGrad(orig_input: T, orig_output: T, out_backprop: T,
      row_pooling_sequence: int64, col_pooling_sequence: int64) -> output: T
    overlapping: bool = false
    T: type in {_TYPES}
    """,
    shape=lambda c: [with_rank(c.inputs[0], 4, "orig_input")],
)
def fractional_max_pool_grad_kernel(
    ctx: KernelContext, x: Array, y: Array, dy: Array, rows: Array, columns: Array, *,
    overlapping: bool,
) -> Any:  # fmt: skip
    """Return each gradient where the first greatest element of its region was."""
    if x.ndim != 4 or y.ndim != 4 or dy.shape != y.shape:
        raise InvalidArgumentError(
            f"inputs must have rank 4, outputs and gradients one shape; found {list(x.shape)}, "
            f"{list(y.shape)} and {list(dy.shape)}"
        )
    grid = (
        _check_starts(rows, y.shape[1], x.shape[1], "row_pooling_sequence"),
        _check_starts(columns, y.shape[2], x.shape[2], "col_pooling_sequence"),
    )
    if (y.shape[0], y.shape[3]) != (x.shape[0], x.shape[3]):
        raise InvalidArgumentError("orig_input and orig_output must have one batch and channels")
    made = np.zeros_like(x)
    images, channels = np.indices((x.shape[0], x.shape[3]))
    for i, down in enumerate(_spans(grid[0], overlapping)):
        for j, across in enumerate(_spans(grid[1], overlapping)):
            part = x[:, down, across]
            flat = part.reshape(part.shape[0], -1, part.shape[3])
            at = flat.argmax(axis=1)
            if not np.array_equal(np.take_along_axis(flat, at[:, None], 1)[:, 0], y[:, i, j]):
                raise InvalidArgumentError("orig_output is not that of orig_input")
            row, column = np.divmod(at, part.shape[2])
            places = (images, down.start + row, across.start + column, channels)
            np.add.at(made, places, dy[:, i, j])
    return made


@op(
    f"""
    FractionalAvgPoolGrad(orig_input_tensor_shape: int64, out_backprop: T,
      row_pooling_sequence: int64, col_pooling_sequence: int64) -> output: T
    overlapping: bool = false
    T: type in {_TYPES}
    """,
    shape=lambda c: [c.value_as_shape(0) or (None,) * 4],
)
def fractional_avg_pool_grad_kernel(
    ctx: KernelContext, sizes: Array, dy: Array, rows: Array, columns: Array, *, overlapping: bool
) -> Any:
    """Return each gradient shared by all elements of its region."""
    if np.shape(sizes) != (4,) or dy.ndim != 4 or (np.asarray(sizes) < 0).any():
        raise InvalidArgumentError(
            f"the input's shape must have 4 sizes, out_backprop rank 4; found {sizes} and "
            f"{list(dy.shape)}"
        )
    shape = tuple(int(n) for n in sizes)
    if (dy.shape[0], dy.shape[3]) != (shape[0], shape[3]):
        raise InvalidArgumentError("out_backprop must have the batch and channels of the input")
    grid = (
        _check_starts(rows, dy.shape[1], shape[1], "row_pooling_sequence"),
        _check_starts(columns, dy.shape[2], shape[2], "col_pooling_sequence"),
    )
    made = np.zeros(shape, np.float64)
    for i, down in enumerate(_spans(grid[0], overlapping)):
        for j, across in enumerate(_spans(grid[1], overlapping)):
            count = (down.stop - down.start) * (across.stop - across.start)
            made[:, down, across] += (dy[:, i, j] / count)[:, None, None]
    return made.astype(dy.dtype)


@gradient("FractionalMaxPool")
def fractional_max_pool_gradient(op: Operation, grad: Tensor, *_: Tensor) -> list[Any]:
    return [
        apply_op("FractionalMaxPoolGrad", op.inputs[0], op.outputs[0], grad, *op.outputs[1:],
                 overlapping=op.attrs["overlapping"])
    ]  # fmt: skip


@gradient("FractionalAvgPool")
def fractional_avg_pool_gradient(op: Operation, grad: Tensor, *_: Tensor) -> list[Any]:
    shape = apply_op("Shape", op.inputs[0], out_type="int64")
    return [
        apply_op("FractionalAvgPoolGrad", shape, grad, *op.outputs[1:],
                 overlapping=op.attrs["overlapping"])
    ]  # fmt: skip


# ---- public functions


def _ratios(ratio: Any) -> list[float]:
    """Return four ratios of one, two (height, width) or four."""
    given = list(ratio) if isinstance(ratio, Sequence) else [ratio]
    if len(given) not in (1, 2, 4):
        raise ValueError(f"pooling_ratio has 1, 2 or 4 elements; found {ratio}")
    if len(given) == 4:
        return [float(r) for r in given]
    return [1.0, float(given[0]), float(given[-1]), 1.0]


def _pool(op_name: str, value: TensorLike, ratio: Any, seed: int, **attrs: Any) -> Any:
    if seed:
        first, second = get_seed(seed)
        attrs.update(deterministic=True, seed=first, seed2=second)
    return apply_op(op_name, value, pooling_ratio=_ratios(ratio), **attrs)


@export_v2("nn.fractional_max_pool")
def fractional_max_pool_v2(
    value: TensorLike,
    pooling_ratio: float | Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Return the greatest element of regions of images, whose sizes are drawn.

    Args:
      value: float32, float64, int32 or int64 [batch, height, width, channels].
      pooling_ratio: by what images shrink, 1 or more: one number, (height, width), or four.
      pseudo_random: whether the sizes of neighbours depend on each other, so that none are far off.
      overlapping: whether a region has the first row and column of the next.
      seed: other than 0, for the same regions each time.
    Returns: the pooled images, and where rows and columns of regions begin, with the end, int64.
    Raises: ValueError for ratios below 1, of another number, or that leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> pooled, rows, columns = tf.nn.fractional_max_pool(x, pooling_ratio=2.0, seed=1)
      >>> pooled[0, :, :, 0].numpy().tolist(), rows.numpy().tolist()
      ([[5.0, 7.0], [13.0, 15.0]], [0, 2, 4])
    """
    return _pool(
        "FractionalMaxPool",
        value,
        pooling_ratio,
        seed,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        name=name,
    )


@export("nn.fractional_max_pool")
def fractional_max_pool(
    value: TensorLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Return the greatest element of regions of images, with both seeds of the op.

    Args:
      value: float32, float64, int32 or int64 [batch, height, width, channels].
      pooling_ratio: by what images shrink, four numbers of 1 or more, 1.0 for batch and channels.
      pseudo_random: whether the sizes of neighbours depend on each other, so that none are far off.
      overlapping: whether a region has the first row and column of the next.
      deterministic: whether the regions are the same each time; seeds need it.
      seed, seed2: two ints that choose the regions.
    Returns: the pooled images, and where rows and columns of regions begin, with the end, int64.
    Raises: ValueError for ratios below 1, of another number, or that leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> pooled, _, _ = tf.nn.fractional_max_pool(
      ...     x, [1.0, 2.0, 2.0, 1.0], deterministic=True, seed=1, seed2=2)
      >>> tf.Session().run(pooled)[0, :, :, 0].tolist()
      [[5.0, 7.0], [13.0, 15.0]]
    """
    return apply_op(
        "FractionalMaxPool",
        value,
        pooling_ratio=pooling_ratio,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
        name=name,
    )


@export_v2("nn.fractional_avg_pool")
def fractional_avg_pool_v2(
    value: TensorLike,
    pooling_ratio: float | Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Any:
    """Return the mean of regions of images, whose sizes are drawn.

    Args:
      value: float32, float64, int32 or int64 [batch, height, width, channels].
      pooling_ratio: by what images shrink, 1 or more: one number, (height, width), or four.
      pseudo_random: whether the sizes of neighbours depend on each other, so that none are far off.
      overlapping: whether a region has the first row and column of the next.
      seed: other than 0, for the same regions each time.
    Returns: the pooled images, and where rows and columns of regions begin, with the end, int64.
    Raises: ValueError for ratios below 1, of another number, or that leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> pooled, rows, columns = tf.nn.fractional_avg_pool(x, pooling_ratio=2.0, seed=1)
      >>> pooled[0, :, :, 0].numpy().tolist(), rows.numpy().tolist()
      ([[2.5, 4.5], [10.5, 12.5]], [0, 2, 4])
    """
    return _pool(
        "FractionalAvgPool",
        value,
        pooling_ratio,
        seed,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        name=name,
    )


@export("nn.fractional_avg_pool")
def fractional_avg_pool(
    value: TensorLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Return the mean of regions of images, with both seeds of the op.

    Args:
      value: float32, float64, int32 or int64 [batch, height, width, channels].
      pooling_ratio: by what images shrink, four numbers of 1 or more, 1.0 for batch and channels.
      pseudo_random: whether the sizes of neighbours depend on each other, so that none are far off.
      overlapping: whether a region has the first row and column of the next.
      deterministic: whether the regions are the same each time; seeds need it.
      seed, seed2: two ints that choose the regions.
    Returns: the pooled images, and where rows and columns of regions begin, with the end, int64.
    Raises: ValueError for ratios below 1, of another number, or that leave nothing.
    Example:
      >>> x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
      >>> pooled, _, _ = tf.nn.fractional_avg_pool(
      ...     x, [1.0, 2.0, 2.0, 1.0], deterministic=True, seed=1, seed2=2)
      >>> tf.Session().run(pooled)[0, :, :, 0].tolist()
      [[2.5, 4.5], [10.5, 12.5]]
    """
    return apply_op(
        "FractionalAvgPool",
        value,
        pooling_ratio=pooling_ratio,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
        name=name,
    )
