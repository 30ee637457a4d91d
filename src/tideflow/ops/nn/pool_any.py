"""Pools over any number of spatial dimensions.

Source: tensorflow/python/ops/nn_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.nn.avg_pools import avg_pool, avg_pool1d
from tideflow.ops.nn.convolution_any import layout_of, per_dimension, with_space_to_batch
from tideflow.ops.nn.pools import max_pool, max_pool1d
from tideflow.ops.nn.volume_pools import avg_pool3d, max_pool3d

_POOLS: dict[str, dict[int, Callable[..., Tensor]]] = {
    "MAX": {1: max_pool1d, 2: max_pool, 3: max_pool3d},
    "AVG": {1: avg_pool1d, 2: avg_pool, 3: avg_pool3d},
}


def _by_rank(
    kind: str,
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    layout: str | None,
    name: Any,
) -> Tensor:
    x = convert_to_tensor(input)
    count = len(layout) - 2 if layout else (x.shape.rank or 2) - 2
    pools = _POOLS[kind]
    if count not in pools or (x.shape.rank not in (None, count + 2)):
        raise ValueError(
            f"input must have rank 3, 4 or 5, as data_format says; its shape is {x.shape}, "
            f"data_format {layout!r}"
        )
    if not isinstance(padding, str) and count != 2:
        raise ValueError(f"explicit padding is for images alone; the input has {count} dimensions")
    return pools[count](x, ksize, strides, padding, layout_of(layout, count), name=name)


@export_v2("nn.max_pool")
def max_pool_v2(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the greatest element of each window of sequences, images or volumes.

    Args:
      input: [batch, space..., channels], or with the channels second where data_format says so.
      ksize, strides: one int, one for each spatial dimension, or one for each dimension.
      padding: "SAME", "VALID", or, for images, pairs (before, after).
      data_format: "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW", with the channels last by
        default.
    Returns: a tensor in the input's layout and type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [3.0], [2.0], [0.0]]])
      >>> tf.nn.max_pool(x, ksize=2, strides=2, padding="VALID")[0, :, 0].numpy().tolist()
      [3.0, 2.0]
    """
    return _by_rank("MAX", input, ksize, strides, padding, data_format, name)


@export_v2("nn.avg_pool")
def avg_pool_v2(
    input: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int],
    padding: str | Sequence[Any],
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences, images or volumes; padding does not count.

    Args:
      input: floating numbers [batch, space..., channels], or with the channels second where
        data_format says so.
      ksize, strides: one int, one for each spatial dimension, or one for each dimension.
      padding: "SAME" or "VALID".
      data_format: "NWC", "NCW", "NHWC", "NCHW", "NDHWC" or "NCDHW", with the channels last by
        default.
    Returns: a tensor in the input's layout and type.
    Raises: ValueError for shapes or attrs that cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [3.0], [2.0]]])
      >>> tf.nn.avg_pool(x, ksize=2, strides=2, padding="SAME")[0, :, 0].numpy().tolist()
      [2.0, 2.0]
    """
    return _by_rank("AVG", input, ksize, strides, padding, data_format, name)


@export_v2("nn.pool")
def pool_v2(
    input: TensorLike,
    window_shape: Any,
    pooling_type: str,
    strides: int | Sequence[int] | None = None,
    padding: str | Sequence[Any] = "VALID",
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the greatest element, or the mean, of each window.

    Args:
      input: [batch, space..., channels], with one, two or three spatial dimensions.
      window_shape: the window's size in each spatial dimension, ints.
      pooling_type: "MAX" or "AVG".
      strides, dilations: one int, or one for each spatial dimension; 1 by default.
      padding: "SAME" or "VALID".
      data_format: where the channels are: "NWC", "NHWC" or "NDHWC" (default), or with "NC" second.
    Returns: a tensor in the input's layout and type.
    Raises: ValueError for strides and dilations both other than 1, dilations with padding "SAME",
    and for what cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [3.0], [2.0], [0.0]]])
      >>> tf.nn.pool(x, [2], "MAX", dilations=[2])[0, :, 0].numpy().tolist()
      [2.0, 3.0]
    """
    if pooling_type not in _POOLS:
        raise ValueError(f"pooling_type must be 'MAX' or 'AVG'; found {pooling_type!r}")
    window = [int(size) for size in window_shape]
    count = len(window)
    layout = layout_of(data_format, count)
    steps = per_dimension(strides, count, "strides")
    rates = per_dimension(dilations, count, "dilations")
    if max(steps) > 1 and max(rates) > 1:
        raise ValueError(f"strides {steps} and dilations {rates} cannot both be other than 1")
    if padding == "SAME" and max(rates) > 1:
        raise ValueError(f"dilated windows need padding 'VALID'; found 'SAME' for {rates}")
    pooled = _POOLS[pooling_type][count]
    is_first = layout.startswith("NC")

    def over(x: TensorLike, _: int, kept: TensorLike) -> Tensor:
        sizes = ([1, 1, *part] if is_first else [1, *part, 1] for part in (window, steps))
        return pooled(x, *sizes, kept, layout)

    with get_default_graph().name_scope(name or f"{pooling_type.lower()}_pool"):
        return with_space_to_batch(
            input, rates, padding, over, filter_shape=window, data_format=data_format
        )


@export("nn.pool")
def pool(
    input: TensorLike,
    window_shape: int | Sequence[int],
    pooling_type: str,
    padding: str | Sequence[Any],
    dilation_rate: int | Sequence[int] | None = None,
    strides: int | Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: int | Sequence[int] | None = None,
) -> Tensor:
    """Return the greatest element, or the mean, of each window.

    Args:
      input: [batch, space..., channels], with one, two or three spatial dimensions.
      window_shape: the window's size in each spatial dimension, ints.
      pooling_type: "MAX" or "AVG".
      padding: "SAME" or "VALID".
      dilation_rate: one int, or one for each spatial dimension, 1 by default; dilations is another
        name for it.
      strides: one int, or one for each spatial dimension; 1 by default.
      data_format: where the channels are: "NWC", "NHWC" or "NDHWC" (default), or with "NC" second.
    Returns: a tensor in the input's layout and type.
    Raises: ValueError for strides and dilations both other than 1, dilations with padding "SAME",
    and for what cannot fit.
    Example:
      >>> x = tf.constant([[[1.0], [3.0], [2.0], [0.0]]])
      >>> y = tf.nn.pool(x, [2], "AVG", "VALID", strides=[2])
      >>> tf.Session().run(y)[0, :, 0].tolist()
      [2.0, 1.0]
    """
    rate = dilation_rate if dilations is None else dilations
    return pool_v2(input, window_shape, pooling_type, strides, padding, data_format, rate, name)
