"""Means and variances over axes: plain, weighted, and by sums that are added up first.

Source: tensorflow/python/ops/nn_impl.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire import dtypes


def _keep(old: bool | None, new: bool | None) -> bool:
    """Return what keepdims, or keep_dims, its old name, says."""
    return bool(old if new is None else new)


def _widened(x: Tensor) -> Any:
    """Return x in a type that sums well: half-width floats as float32."""
    if x.dtype.base_dtype not in (dtypes.float16, dtypes.bfloat16):
        return x
    return apply_op("Cast", x, DstT="float")


def _without(x: Tensor, axes: Any) -> Any:
    return apply_op("Squeeze", x, squeeze_dims=np.atleast_1d(axes).tolist())


@export("nn.moments")
def moments(
    x: TensorLike,
    axes: TensorLike,
    shift: TensorLike | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and the (biased) variance of a tensor over axes.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      shift: not used, as in TensorFlow.
      keep_dims: the old name of keepdims.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: two tensors of the type of x.
    Example:
      >>> mean, variance = tf.nn.moments(tf.constant([1.0, 3.0]), [0])
      >>> float(mean), float(variance)
      (2.0, 1.0)
    """
    keep = _keep(keep_dims, keepdims)
    with get_default_graph().name_scope(name or "moments"):
        x = convert_to_tensor(x)
        y = _widened(x)
        mean = apply_op("Mean", y, axes, keep_dims=True, name="mean")
        distance = apply_op("SquaredDifference", y, apply_op("StopGradient", mean))
        is_known = not isinstance(axes, Tensor)
        variance = apply_op("Mean", distance, axes, keep_dims=keep or is_known, name="variance")
        if not keep and is_known:
            mean, variance = (_without(part, axes) for part in (mean, variance))
        elif not keep:
            mean = apply_op("Reshape", mean, apply_op("Shape", variance))
        if y is not x:
            mean = apply_op("Cast", mean, DstT=x.dtype)
            variance = apply_op("Cast", variance, DstT=x.dtype)
        return mean, variance


@export_v2("nn.moments")
def moments_v2(
    x: TensorLike,
    axes: TensorLike,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and the (biased) variance of a tensor over axes.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      shift: not used, as in TensorFlow.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: two tensors of the type of x.
    Example:
      >>> mean, variance = tf.nn.moments(tf.constant([1.0, 3.0]), [0])
      >>> float(mean), float(variance)
      (2.0, 1.0)
    """
    return moments(x, axes, shift, name, keepdims=keepdims)


@export("nn.weighted_moments")
def weighted_moments(
    x: TensorLike,
    axes: TensorLike,
    frequency_weights: TensorLike,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance over axes, where elements count as often as their weights say.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      frequency_weights: numbers whose shape broadcasts with that of x.
      keep_dims: the old name of keepdims.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: two tensors of the type of x.
    Example:
      >>> mean, variance = tf.nn.weighted_moments(tf.constant([1.0, 3.0]), [0], [3.0, 1.0])
      >>> float(mean), float(variance)
      (1.5, 0.75)
    """
    with get_default_graph().name_scope(name or "weighted_moments"):
        given = convert_to_tensor(x)
        y = _widened(given)
        weights: Any = convert_to_tensor(frequency_weights)
        if weights.dtype != y.dtype:
            weights = apply_op("Cast", weights, DstT=y.dtype)
        everywhere = weights + apply_op("ZerosLike", y)
        share = apply_op("Reciprocal", apply_op("Sum", everywhere, axes, keep_dims=True))
        mean = apply_op("Sum", weights * y, axes, keep_dims=True) * share
        distance = weights * apply_op("SquaredDifference", y, mean)
        variance = apply_op("Sum", distance, axes, keep_dims=True) * share
        if not _keep(keep_dims, keepdims):
            kept = apply_op("Shape", apply_op("Sum", y, axes))
            mean, variance = (apply_op("Reshape", part, kept) for part in (mean, variance))
        if y is not given:
            mean, variance = (apply_op("Cast", part, DstT=given.dtype) for part in (mean, variance))
        return mean, variance


@export_v2("nn.weighted_moments")
def weighted_moments_v2(
    x: TensorLike,
    axes: TensorLike,
    frequency_weights: TensorLike,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance over axes, where elements count as often as their weights say.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      frequency_weights: numbers whose shape broadcasts with that of x.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: two tensors of the type of x.
    Example:
      >>> mean, variance = tf.nn.weighted_moments(tf.constant([1.0, 3.0]), [0], [3.0, 1.0])
      >>> float(mean), float(variance)
      (1.5, 0.75)
    """
    return weighted_moments(x, axes, frequency_weights, name, keepdims=keepdims)


@export("nn.sufficient_statistics")
def sufficient_statistics(
    x: TensorLike,
    axes: TensorLike,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Return sums of which normalize_moments makes moments; those of parts may be added up first.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      shift: subtracted from x, so that squares lose less precision; None for nothing.
      keep_dims: the old name of keepdims.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: how many elements each sum has, the sums over axes of x and of its squares, and shift.
    Example:
      >>> count, total, squares, _ = tf.nn.sufficient_statistics(tf.constant([1.0, 3.0]), [0])
      >>> float(count), float(total), float(squares)
      (2.0, 4.0, 10.0)
    """
    keep = _keep(keep_dims, keepdims)
    with get_default_graph().name_scope(name or "sufficient_statistics"):
        x = convert_to_tensor(x)
        sizes = apply_op("GatherV2", apply_op("Shape", x), axes, 0)
        count = apply_op("Cast", apply_op("Prod", sizes, [0]), DstT=x.dtype)
        if shift is None:
            sums, squares = x, apply_op("Square", x)
        else:
            shift = convert_to_tensor(shift, x.dtype)
            sums, squares = x - shift, apply_op("SquaredDifference", x, shift)
        total = apply_op("Sum", sums, axes, keep_dims=keep, name="mean_ss")
        return count, total, apply_op("Sum", squares, axes, keep_dims=keep, name="var_ss"), shift


@export_v2("nn.sufficient_statistics")
def sufficient_statistics_v2(
    x: TensorLike,
    axes: TensorLike,
    shift: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Return sums of which normalize_moments makes moments; those of parts may be added up first.

    Args:
      x: floating numbers of any shape; float16 is computed in float32.
      axes: the dimensions over which the moments are taken, integers.
      shift: subtracted from x, so that squares lose less precision; None for nothing.
      keepdims: whether reduced dimensions stay, with size 1.
    Returns: how many elements each sum has, the sums over axes of x and of its squares, and shift.
    Example:
      >>> count, total, squares, _ = tf.nn.sufficient_statistics(tf.constant([1.0, 3.0]), [0])
      >>> float(count), float(total), float(squares)
      (2.0, 4.0, 10.0)
    """
    return sufficient_statistics(x, axes, shift, None, name, keepdims)


@export("nn.normalize_moments")
def normalize_moments(
    counts: TensorLike,
    mean_ss: TensorLike,
    variance_ss: TensorLike,
    shift: TensorLike,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance of what sufficient_statistics gave.

    Args:
      counts: how many elements each sum has.
      mean_ss: the sums of elements (less the shift).
      variance_ss: the sums of their squares.
      shift: what was subtracted, or None.
    Returns: two tensors of the type of mean_ss.
    Example:
      >>> mean, variance = tf.nn.normalize_moments(2.0, 4.0, 10.0, None)
      >>> float(mean), float(variance)
      (2.0, 1.0)
    """
    with get_default_graph().name_scope(name or "normalize"):
        share = apply_op("Reciprocal", counts)
        mean = apply_op("Mul", mean_ss, share)
        variance = apply_op("Mul", variance_ss, share) - apply_op("Square", mean)
        return mean if shift is None else apply_op("AddV2", mean, shift), variance
