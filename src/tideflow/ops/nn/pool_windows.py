"""The windows of pools, and the taps of these.

Source: tensorflow/core/kernels/maxpooling_op.cc, avgpooling_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.framework import lax
from tideflow.ops.nn.conv_geometry import (
    Window,
    check_attrs,
    cropped,
    dims_from_nhwc,
    dims_to_nhwc,
    out_size,
    padded,
    spatial,
    tap,
    windows,
)
from tideflow.wire import errors

GEOMETRY = ("ksize", "strides", "padding", "data_format")


def pool_shape(c: ShapeContext, *, beyond_first: bool = False) -> list[Dims]:
    """Give a pool its shape.

    beyond_first: what is refused first (see check_windows).
    Raises: ValueError; UnimplementedError.
    """
    strides, layout = c.attrs["strides"], c.attrs["data_format"]
    if len(strides) == 4 and strides[_channel(layout)] <= 0:
        raise ValueError(f"strides must be positive; found {strides}")
    check_windows(c.attrs, beyond_first=beyond_first)
    given = dims_to_nhwc(with_rank(c.inputs[0], 4, "input"), layout)
    height, width = spatial(c.attrs["ksize"], layout)
    found = (
        given[0],
        out_size(given[1], height, 0, c.attrs),
        out_size(given[2], width, 1, c.attrs),
        given[3],
    )
    return [dims_from_nhwc(found, layout)]


def _channel(layout: str) -> int:
    return 1 if layout == "NCHW" else 3


def check_windows(attrs: dict[str, Any], *, beyond_first: bool) -> None:
    """Check windows and steps.

    beyond_first: whether windows over batch or channels are refused before those of no size; in
      that TensorFlow's ops differ.
    Raises: ValueError; UnimplementedError for windows or steps over batch or channels.
    """
    ksize = attrs["ksize"]
    if len(ksize) == len(attrs["strides"]) == 4:
        if not beyond_first and min(ksize) <= 0:
            raise ValueError(f"ksize must be positive; found {ksize}")
        if ksize[0] != 1 or ksize[_channel(attrs["data_format"])] != 1:
            raise errors.UnimplementedError(
                f"pooling over batch or channels is not supported; ksize is {ksize}"
            )
    check_attrs(attrs, errors.UnimplementedError)


def image_windows(
    x_sizes: Any, ksize: list[int], strides: list[int], padding: str, explicit: Any, layout: str
) -> tuple[Window, Window]:
    return windows(x_sizes, spatial(ksize, layout), strides, padding, explicit, layout)


def filled(xp: Any, x: object, rows: Window, columns: Window, fill: object) -> Any:
    """Return x with its windows' padding added, in either tier."""
    if xp is np:
        return padded(x, rows, columns, fill)
    widths = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
    return xp.pad(x, widths, constant_values=fill)


def taps(x: Tensor, rows: Window, columns: Window) -> Iterator[tuple[int, int, Any]]:
    """Give (i, j, slice) for each tap of the windows over a padded x."""
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            yield i, j, x[:, slice(*tap(rows, i)), slice(*tap(columns, j))]


def _placed(xp: Any, part: Any, rows: Window, columns: Window, i: int, j: int) -> Any:
    """Return zeros like the input with `part` where tap (i, j) of the windows lies (traced)."""
    config = [(0, 0, 0), _place(rows, i), _place(columns, j), (0, 0, 0)]
    return lax().pad(part, xp.zeros((), part.dtype), config)


def _place(w: Window, index: int) -> tuple[int, int, int]:
    low = index * w.dilation - w.before
    return low, w.size - low - ((w.out - 1) * w.stride + 1), w.stride - 1


class Spread:
    """The sum of what taps send back to the input, in either tier."""

    def __init__(
        self,
        xp: ArrayNamespace,
        batch: int,
        channels: int,
        rows: Window,
        columns: Window,
        dtype: DTypeLike,
    ) -> None:
        self.xp, self.rows, self.columns = xp, rows, columns
        height = rows.size + (rows.before + rows.after if xp is np else 0)
        width = columns.size + (columns.before + columns.after if xp is np else 0)
        self.sum = xp.zeros((batch, height, width, channels), dtype)

    def add(self, part: TensorLike, i: int, j: int) -> None:
        """Add a part [N, rows.out, columns.out, C] that belongs to tap (i, j)."""
        rows, columns = self.rows, self.columns
        if self.xp is np:
            at = self.sum[:, slice(*tap(rows, i)), slice(*tap(columns, j))]
            at += part
        elif rows.out and columns.out:
            self.sum = self.sum + _placed(self.xp, part, rows, columns, i, j)

    def result(self) -> Any:
        """Return the sum without padding."""
        if self.xp is np:
            return np.ascontiguousarray(cropped(self.sum, self.rows, self.columns))
        return self.sum


def along_one_axis(
    pool: Callable[..., Tensor],
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    layout: str,
) -> Tensor:
    """Pool [batch, width, channels] (or "NCW") as images of height 1."""
    at = 1 if layout.endswith("C") else 2
    sizes = [1, _one_size(ksize)], [1, _one_size(strides)]
    images = apply_op("ExpandDims", input, at)
    made = pool(images, *sizes, padding, "NHWC" if at == 1 else "NCHW")
    found: Tensor = apply_op("Squeeze", made, squeeze_dims=[at])
    return found


def _one_size(size: Any) -> int:
    """Return the size along the width: of one number, [width] or [1, width, 1]."""
    if isinstance(size, int):
        return size
    return int(size[0] if len(size) == 1 else next((n for n in size if n != 1), 1))
