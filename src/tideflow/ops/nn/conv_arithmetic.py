"""Convolutions and their two transposes in both tiers, in NHWC and HWIO order.

The NumPy tier gathers patches and multiplies matrices; the traced tier asks XLA, or oneDNN where
that is faster.  Grouped convolutions split channels of x into `groups`; a depthwise one has a group
for each channel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework import lax
from tideflow.ops.nn.activations import wide
from tideflow.ops.nn.conv_geometry import Window, cropped, padded, patches, tap
from tideflow.ops.nn.onednn_in_xla import (
    Pads,
    TracedConvolution,
    convolve_by_onednn,
    convolve_by_xla,
    pays,
)

# From so many channels on, oneDNN computes the gradient of a filter faster than Eigen.
_LEAST_DEPTH_OF_ONEDNN = 4
# Up to so many groups of several channels, the gradients of their filters are made one by one: XLA
# takes a hundred times as long for all of them.
_MOST_SPLIT_GROUPS = 64
# So much of what is read for each tap stays in a core's cache between two of them.
_CACHED_BYTES = 1 << 20


def convolve(
    xp: ArrayNamespace, x: Array, w: Array, rows: Window, columns: Window, groups: int = 1
) -> Any:
    """Return the convolution of x [N, H, W, C] with w [kh, kw, C / groups, O]: [N, h, w, O]."""
    shape = (x.shape[0], rows.out, columns.out, w.shape[3])
    if not (x.size and w.size and rows.out and columns.out):
        return xp.zeros(shape, x.dtype)
    if xp is not np:
        pads = (rows.before, _reached(rows)), (columns.before, _reached(columns))
        x, pads = _padded_in_advance(x, pads)
        strides = rows.stride, columns.stride
        dilations = rows.dilation, columns.dilation
        how = TracedConvolution(shape, pads, strides, dilations, groups=groups)
        return (convolve_by_onednn if pays(x, w, how) else convolve_by_xla)(x, w, how)
    full = padded(_number(x), rows, columns)
    weights = _number(w)
    if groups == 1:
        found = _columns(full, rows, columns) @ weights.reshape(-1, w.shape[3])
        return found.reshape(shape).astype(x.dtype, copy=False)
    if w.shape[2] == 1:
        return _depthwise(full, weights, rows, columns).reshape(shape).astype(x.dtype, copy=False)
    parts = [
        (_columns(xs, rows, columns) @ ws.reshape(-1, ws.shape[3])).reshape(*shape[:3], -1)
        for xs, ws in zip(np.split(full, groups, axis=3), np.split(weights, groups, axis=3))
    ]
    return np.concatenate(parts, axis=3).astype(x.dtype, copy=False)


def input_gradient(
    xp: ArrayNamespace, w: Array, dy: Array, rows: Window, columns: Window, channels: int
) -> Any:
    """Return the gradient for x [N, H, W, channels] of a convolution, given that of its result."""
    shape = (dy.shape[0], rows.size, columns.size, channels)
    if not (dy.size and w.size):
        return xp.zeros(shape, dy.dtype)
    groups = channels // w.shape[2]
    if xp is not np:
        strides = rows.stride, columns.stride
        turned = _flipped(xp, w, groups)
        dilations = rows.dilation, columns.dilation
        pads = _transposed_padding(rows), _transposed_padding(columns)
        how = TracedConvolution(shape, pads, dilations=dilations, groups=groups)
        is_onednns = pays(dy, turned, how) and (groups > 1 or strides == (1, 1))
        if is_onednns or min(map(min, pads)) < 0:
            dy, pads = _padded_in_advance(dy, pads, strides)
            strides = (1, 1)
        if is_onednns:
            return convolve_by_onednn(dy, turned, replace(how, pads=pads))
        return lax().conv_general_dilated(
            dy,
            turned,
            window_strides=(1, 1),
            padding=pads,
            lhs_dilation=strides,
            rhs_dilation=dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
    grad, weights = _number(dy), _number(w)
    made = np.zeros(_padded_shape(shape, rows, columns), grad.dtype)
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            at = made[:, slice(*tap(rows, i)), slice(*tap(columns, j))]
            at += _tap_input_gradient(grad, weights[i, j], groups)
    found: Any = np.ascontiguousarray(cropped(made, rows, columns))
    return found.astype(dy.dtype, copy=False)


def filter_gradient(
    xp: ArrayNamespace, x: Array, dy: Array, rows: Window, columns: Window, depth: int
) -> Any:
    """Return the gradient for w [kh, kw, depth, O] of a convolution, given that of its result."""
    shape = (rows.kernel, columns.kernel, depth, dy.shape[3])
    if not (x.size and dy.size):
        return xp.zeros(shape, dy.dtype)
    groups = x.shape[3] // depth
    if xp is not np:
        if groups == 1 or (depth > 1 and groups > _MOST_SPLIT_GROUPS):
            return _traced_filter_gradient(x, dy, rows, columns, groups)
        by_group = _depthwise_filter_gradient_traced if depth == 1 else _filter_gradient_by_group
        return lax().platform_dependent(
            x,
            dy,
            cpu=lambda x, dy: by_group(xp, x, dy, rows, columns, groups),
            default=lambda x, dy: _traced_filter_gradient(x, dy, rows, columns, groups),
        )
    full, grad = padded(_number(x), rows, columns), _number(dy)
    if groups > 1 and depth == 1:
        return _depthwise_filter_gradient(full, grad, rows, columns).astype(dy.dtype, copy=False)
    parts = [
        (_columns(xs, rows, columns).T @ gs.reshape(-1, gs.shape[3])).reshape(*shape[:3], -1)
        for xs, gs in zip(np.split(full, groups, axis=3), np.split(grad, groups, axis=3))
    ]
    return np.concatenate(parts, axis=3).astype(dy.dtype, copy=False)


def _traced_filter_gradient(x: Any, dy: Any, rows: Window, columns: Window, groups: int) -> Any:
    """Return the gradient for a filter as one convolution."""
    depth, out = x.shape[3] // groups, dy.shape[3]
    pads = (rows.before, _reached(rows)), (columns.before, _reached(columns))
    x, pads = _padded_in_advance(x, pads)
    strides = rows.stride, columns.stride
    dilations = rows.dilation, columns.dilation
    # A picture for each channel of x, and a channel for each of its pictures.
    shape = (depth, rows.kernel, columns.kernel, out)
    how = TracedConvolution(shape, pads, dilations, strides, filter_order="IHWO")
    has_taps = rows.kernel * columns.kernel > 1
    if groups == 1 and depth >= _LEAST_DEPTH_OF_ONEDNN and has_taps and pays(x, dy, how):
        return convolve_by_onednn(x.transpose(3, 1, 2, 0), dy, how).transpose(1, 2, 0, 3)
    return lax().conv_general_dilated(
        x,
        dy,
        window_strides=dilations,
        padding=pads,
        rhs_dilation=strides,
        dimension_numbers=("CHWN", "IHWO", "HWNC"),
        batch_group_count=groups,
    )


def _filter_gradient_by_group(
    xp: Any, x: Any, dy: Any, rows: Window, columns: Window, groups: int
) -> Any:
    """Return the same, a convolution for each group."""
    parts = zip(xp.split(x, groups, 3), xp.split(dy, groups, 3))
    return xp.concatenate([_traced_filter_gradient(a, b, rows, columns, 1) for a, b in parts], 3)


def _depthwise_filter_gradient_traced(
    xp: Any, x: Any, dy: Any, rows: Window, columns: Window, groups: int
) -> Any:
    """Return the same where each channel is a group.

    Every channel of every picture is convolved with its own slopes; pictures are then added up.
    """
    batch, *sizes, out = dy.shape
    pads = (rows.before, _reached(rows)), (columns.before, _reached(columns))
    images, pads = _padded_in_advance(x, pads)
    images, slopes = _side_by_side(xp.repeat(images, out // groups, 3))[None], _side_by_side(dy)
    how = TracedConvolution(
        (1, rows.kernel, columns.kernel, batch * out), pads,
        (rows.dilation, columns.dilation), (rows.stride, columns.stride), groups=batch * out,
    )  # fmt: skip
    slopes = slopes.reshape(*sizes, 1, batch * out)
    if not pays(images, slopes, how):
        return _depthwise_by_taps(xp, x, dy, rows, columns, groups)
    made = convolve_by_onednn(images, slopes, how)
    return xp.sum(made.reshape(rows.kernel, columns.kernel, 1, batch, out), 3)


def _side_by_side(x: Any) -> Any:
    """Return [H, W, N * C] of x [N, H, W, C]: the channels of one picture after the other's."""
    return x.transpose(1, 2, 0, 3).reshape(*x.shape[1:3], -1)


def _depthwise_by_taps(xp: Any, x: Any, dy: Any, rows: Window, columns: Window, groups: int) -> Any:
    """Return the same as a sum of products for each tap."""
    pads = (rows.before, rows.after), (columns.before, columns.after)
    full = xp.pad(wide(xp, x), ((0, 0), *pads, (0, 0)))
    by_channel = wide(xp, dy).reshape(*dy.shape[:3], groups, -1)

    def of_some(given: tuple[Any, Any]) -> Any:
        pictures, slopes = given
        made = [
            xp.sum(at[..., None] * slopes, (0, 1, 2))
            for i in range(rows.kernel)
            for j in range(columns.kernel)
            for at in [pictures[:, slice(*tap(rows, i)), slice(*tap(columns, j))]]
        ]
        return xp.stack(made).reshape(rows.kernel, columns.kernel, 1, dy.shape[3])

    batch = x.shape[0]
    fitting = max(1, _CACHED_BYTES // (full.size // batch * full.dtype.itemsize))
    count = max(one for one in range(1, min(fitting, batch) + 1) if batch % one == 0)
    if count == batch:
        return of_some((full, by_channel)).astype(dy.dtype)
    # All taps of some pictures, while these lie in the processor's cache.
    blocks = [one.reshape(batch // count, count, *one.shape[1:]) for one in (full, by_channel)]
    return xp.sum(lax().map(of_some, tuple(blocks)), 0).astype(dy.dtype)


def _padded_in_advance(x: Any, pads: Pads, strides: tuple[int, int] = (1, 1)) -> tuple[Any, Pads]:
    """Return x spread by strides and cropped by paddings below 0, and the paddings that are left.

    XLA and oneDNN do not compute convolutions right that have paddings below 0.
    """
    if strides == (1, 1) and min(map(min, pads)) >= 0:
        return x, pads
    edges = [
        (min(before, 0), min(after, 0), stride - 1)
        for (before, after), stride in zip(pads, strides)
    ]
    made = lax().pad(x, x.dtype.type(0), [(0, 0, 0), *edges, (0, 0, 0)])
    (top, bottom), (left, right) = pads
    return made, ((max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0)))


def _number(x: object) -> Any:
    """Return x in the type in which NumPy multiplies: BLAS has no types of 16 bits."""
    return wide(np, x)


def _reached(w: Window) -> int:
    """Return the padding after the input that windows reach; negative where they fall short."""
    return (w.kernel - 1) * w.dilation + (w.out - 1) * w.stride + 1 - w.size - w.before


def _transposed_padding(w: Window) -> tuple[int, int]:
    reach = (w.kernel - 1) * w.dilation
    before = reach - w.before
    return before, w.size + reach - ((w.out - 1) * w.stride + 1) - before


def _flipped(xp: Any, w: Array, groups: int) -> Any:
    """Return w turned around in space, with input and output channels of each group swapped."""
    height, width, depth, out = w.shape
    split = xp.flip(w, (0, 1)).reshape(height, width, depth, groups, out // groups)
    return split.transpose(0, 1, 4, 3, 2).reshape(height, width, out // groups, groups * depth)


def _padded_shape(shape: tuple[int, ...], rows: Window, columns: Window) -> tuple[int, ...]:
    return (
        shape[0],
        shape[1] + rows.before + rows.after,
        shape[2] + columns.before + columns.after,
        shape[3],
    )


def _columns(full: object, rows: Window, columns: Window) -> Any:
    """Return a matrix with one row for each window: [N * h * w, kh * kw * C]."""
    found = patches(full, rows, columns)
    count = found.shape[0] * found.shape[1] * found.shape[2]
    return found.reshape(count, -1)


def _depthwise(full: Any, weights: Array, rows: Window, columns: Window) -> Any:
    """Return [N, h, w, C, multiplier]: every channel under filters of its own."""
    height, width, _, out = weights.shape
    channels = full.shape[3]
    by_channel = weights.reshape(height, width, channels, out // channels)
    made = np.zeros((full.shape[0], rows.out, columns.out, *by_channel.shape[2:]), full.dtype)
    for i in range(height):
        for j in range(width):
            at = full[:, slice(*tap(rows, i)), slice(*tap(columns, j))]
            made += at[..., None] * by_channel[i, j]
    return made


def _depthwise_filter_gradient(full: Any, grad: Any, rows: Window, columns: Window) -> Any:
    channels = full.shape[3]
    by_channel = grad.reshape(*grad.shape[:3], channels, -1)
    made = np.empty((rows.kernel, columns.kernel, 1, grad.shape[3]), full.dtype)
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            at = full[:, slice(*tap(rows, i)), slice(*tap(columns, j))]
            made[i, j, 0] = np.einsum("nhwc,nhwcm->cm", at, by_channel).reshape(-1)
    return made


def _tap_input_gradient(grad: Array, w: Array, groups: int) -> Any:
    """Return what one tap w [C / groups, O] sends back: [N, h, w, C]."""
    if groups == 1:
        return grad @ w.T
    depth, out = w.shape
    by_group = grad.reshape(*grad.shape[:3], groups, out // groups)
    weights = w.reshape(depth, groups, out // groups)
    found = np.einsum("nhwgo,dgo->nhwgd", by_group, weights)
    return found.reshape(*grad.shape[:3], groups * depth)
