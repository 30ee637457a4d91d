"""Where the windows of convolutions and pools lie: paddings, strides, dilations.

Everything here is in the order batch, spatial..., channels; `to_nhwc` and `from_nhwc` carry
arrays of the NCHW layout there and back.
Source: tensorflow/core/framework/kernel_shape_util.cc.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.graph.shapes import Dims
from tideflow.wire import errors


@dataclass(frozen=True, slots=True)
class Window:
    """Windows along one spatial axis.

    Attributes:
      size: positions of the input; kernel: taps of the window; out: number of windows.
      stride, dilation: steps between windows and between taps.
      before, after: padding of the input; `after` may exceed what the last window reaches.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    out: int

    @property
    def is_tiling(self) -> bool:
        """Whether each position of the input lies in exactly one window, and no padding does."""
        return (
            self.kernel == self.stride
            and self.dilation == 1
            and not self.before
            and self.out * self.stride == self.size
        )


class GeometryError(ValueError):
    """Windows that cannot be laid over an input."""


@functools.lru_cache(maxsize=4096)
def window(
    size: int, kernel: int, stride: int, dilation: int, padding: str, before: int, after: int
) -> Window:
    """Return the windows along one axis; before and after count for padding "EXPLICIT" only.

    Raises: GeometryError.
    """
    if kernel <= 0 or stride <= 0 or dilation <= 0:
        raise GeometryError(
            f"window sizes, strides and dilations must be positive; found {kernel}, {stride}, "
            f"{dilation}"
        )
    reach = (kernel - 1) * dilation + 1
    if padding == "SAME":
        out = -(-size // stride)
        total = max((out - 1) * stride + reach - size, 0)
        before, after = total // 2, total - total // 2
    else:
        if padding == "VALID":
            before = after = 0
        if before < 0 or after < 0:
            raise GeometryError(f"explicit paddings must not be negative; found {before}, {after}")
        # TensorFlow divides towards zero: up to one stride short gives no windows, not an error.
        out = int((size + before + after - reach + stride) / stride)
        if out < 0:
            raise GeometryError(
                f"a window that reaches over {reach} positions does not fit into {size} "
                f"(padding {padding}, {before} before, {after} after)"
            )
    return Window(size, kernel, stride, dilation, before, after, out)


def spatial(values: Sequence[int], data_format: str) -> tuple[int, int]:
    """Return the height and width entries of a list of four."""
    if data_format == "NCHW":
        return values[2], values[3]
    return values[1], values[2]


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    attrs_strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int],
    data_format: str,
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> tuple[Window, Window]:
    """Return the windows along height and width.

    Args:
      sizes, kernel: of height and width.
      attrs_strides, explicit_paddings, dilations: as the op's attrs give them.
    Raises: InvalidArgumentError.
    """
    strides = spatial(attrs_strides, data_format)
    rates = spatial(dilations, data_format)
    pads = _explicit(padding, explicit_paddings, data_format)
    try:
        return (
            window(sizes[0], kernel[0], strides[0], rates[0], padding, *pads[0]),
            window(sizes[1], kernel[1], strides[1], rates[1], padding, *pads[1]),
        )
    except GeometryError as error:
        raise errors.InvalidArgumentError(str(error)) from None


def _explicit(
    padding: str, explicit: Sequence[int], data_format: str
) -> tuple[tuple[int, int], tuple[int, int]]:
    if padding != "EXPLICIT":
        return (0, 0), (0, 0)
    first = 4 if data_format == "NCHW" else 2
    return (explicit[first], explicit[first + 1]), (explicit[first + 2], explicit[first + 3])


def check_attrs(attrs: dict[str, Any], beyond: type[Exception] = ValueError) -> None:
    """Check the lists of four that conv and pool ops have as attrs.

    beyond: raised for steps over batch or channels; TensorFlow's ops differ in that.
    Raises: ValueError.
    """
    channel = 1 if attrs["data_format"] == "NCHW" else 3
    for name in ("strides", "dilations", "ksize"):
        values = attrs.get(name)
        if values is None:
            continue
        if len(values) != 4:
            raise ValueError(f"{name} must have 4 entries; found {values}")
        is_beyond = name != "ksize" and (values[0] != 1 or values[channel] != 1)
        if any(value <= 0 for value in values) and not (is_beyond and beyond is not ValueError):
            raise ValueError(f"{name} must be positive; found {values}")
        if is_beyond:
            raise beyond(f"{name} must be 1 for batch and channels; found {values}")
    explicit = attrs.get("explicit_paddings") or []
    if attrs["padding"] == "EXPLICIT":
        if len(explicit) != 8:
            raise ValueError(f"explicit_paddings must have 8 entries; found {explicit}")
        fixed = (*explicit[:2], *explicit[2 * channel : 2 * channel + 2])
        if any(fixed) or min(explicit) < 0:
            raise ValueError(
                f"explicit_paddings must be 0 for batch and channels and never negative; "
                f"found {explicit}"
            )
    elif explicit:
        raise ValueError(f"explicit_paddings are for padding EXPLICIT, not {attrs['padding']}")


def out_size(size: int | None, kernel: int | None, axis: int, attrs: dict[str, Any]) -> int | None:
    """Return the static number of windows along height (axis 0) or width (axis 1).

    Raises: ValueError.
    """
    padding, layout = attrs["padding"], attrs["data_format"]
    if size is None or (kernel is None and padding != "SAME"):
        return None
    dilation = spatial(attrs.get("dilations") or (1, 1, 1, 1), layout)[axis]
    stride = spatial(attrs["strides"], layout)[axis]
    pads = _explicit(padding, attrs.get("explicit_paddings") or [], layout)[axis]
    return window(size, kernel or 1, stride, dilation, padding, *pads).out


def dims_to_nhwc(dims: tuple[int | None, ...], data_format: str) -> tuple[int | None, ...]:
    """Return a static shape of rank 4 in the order batch, height, width, channels."""
    if data_format == "NCHW":
        return dims[0], dims[2], dims[3], dims[1]
    return dims


def dims_from_nhwc(dims: tuple[int | None, ...], data_format: str) -> Dims:
    """Return such a shape in the layout of data_format."""
    if data_format == "NCHW":
        return dims[0], dims[3], dims[1], dims[2]
    return dims


def to_nhwc(x: Any, data_format: str) -> Any:
    """Return an array of rank 4 in the order batch, height, width, channels.

    Raises: InvalidArgumentError for another rank, and for NCHW_VECT_C, a layout of GPUs.
    """
    if data_format == "NCHW_VECT_C":
        raise errors.InvalidArgumentError(f"data_format must be NHWC or NCHW, not {data_format}")
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"input must have rank 4; its shape is {list(x.shape)}")
    return x.transpose(0, 2, 3, 1) if data_format == "NCHW" else x


def from_nhwc(x: Any, data_format: str) -> Any:
    """Return such an array in the layout of data_format."""
    return x.transpose(0, 3, 1, 2) if data_format == "NCHW" else x


def tap(w: Window, index: int) -> tuple[int, int, int]:
    """Return start, stop and step of what one tap of all windows touches in the padded input."""
    start = index * w.dilation
    return start, start + (w.out - 1) * w.stride + 1 if w.out else start, w.stride


def padded(x: Any, rows: Window, columns: Window, fill: Any = 0) -> Any:
    """Return a NumPy array of NHWC order with its windows' padding added."""
    if not (rows.before or rows.after or columns.before or columns.after):
        return x
    batch, height, width, channels = x.shape
    shape = (
        batch,
        height + rows.before + rows.after,
        width + columns.before + columns.after,
        channels,
    )
    made = np.full(shape, fill, x.dtype) if fill else np.zeros(shape, x.dtype)
    made[:, rows.before : rows.before + height, columns.before : columns.before + width] = x
    return made


def patches(x: Any, rows: Window, columns: Window) -> Any:
    """Return a view of a padded NumPy array: [batch, out rows, out columns, kh, kw, channels]."""
    batch, _, _, channels = x.shape
    by_batch, by_row, by_column, by_channel = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (batch, rows.out, columns.out, rows.kernel, columns.kernel, channels),
        (
            by_batch,
            by_row * rows.stride,
            by_column * columns.stride,
            by_row * rows.dilation,
            by_column * columns.dilation,
            by_channel,
        ),
        writeable=False,
    )


def cropped(x: Any, rows: Window, columns: Window) -> Any:
    """Return a padded array without its padding."""
    height = slice(rows.before, rows.before + rows.size)
    width = slice(columns.before, columns.before + columns.size)
    return x[:, height, width]


def per_axis(value: Any, what: str, data_format: str) -> list[int]:
    """Return strides or dilations as four numbers, from one, two or four of them.

    Raises: ValueError for another count.
    """
    given = [1] if value is None else [value] if isinstance(value, int) else list(value)
    if len(given) == 4:
        return given
    if len(given) not in (1, 2):
        raise ValueError(f"{what} must have 1, 2 or 4 entries; found {given}")
    height, width = given[0], given[-1]
    return [1, 1, height, width] if data_format == "NCHW" else [1, height, width, 1]


def padding_attrs(padding: object, data_format: str) -> dict[str, Any]:
    """Return the attrs for a padding: "SAME", "VALID", or four pairs (before, after).

    Raises: ValueError for anything else.
    """
    if isinstance(padding, str):
        return {"padding": padding.upper(), "explicit_paddings": []}
    pairs = [list(pair) for pair in padding] if isinstance(padding, (list, tuple)) else []
    if len(pairs) != 4 or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"padding must be 'SAME', 'VALID' or a pair (before, after) for each of 4 dimensions "
            f"of {data_format}; found {padding!r}"
        )
    return {"padding": "EXPLICIT", "explicit_paddings": [n for pair in pairs for n in pair]}


def one_of(name: str, value: object, alias: str, alias_value: object) -> Any:
    """Return the one that was given of an argument and its alias.

    Raises: ValueError when both or neither were.
    """
    if (value is None) == (alias_value is None):
        raise ValueError(f"give exactly one of {name!r} and {alias!r}")
    return value if value is not None else alias_value
