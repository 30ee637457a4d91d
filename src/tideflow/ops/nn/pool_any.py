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
      ksize, strides: one number, one for each spatial dimension, or one for each dimension.
      padding: "SAME", "VALID", or, for images, pairs (before, after).
    Raises: ValueError for shapes or attrs that cannot fit.
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

    Args: as max_pool, but padding is "SAME" or "VALID".
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
      window_shape: the window's size in each spatial dimension.
      pooling_type: "MAX" or "AVG".
      strides, dilations: one number, or one for each spatial dimension.
    Raises: ValueError for strides and dilations both other than 1, dilations with padding "SAME",
    and for what cannot fit.
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
    """Return the greatest element, or the mean, of each window; see pool of the TF2 shape.

    dilations is another name for dilation_rate.
    """
    rate = dilation_rate if dilations is None else dilations
    return pool_v2(input, window_shape, pooling_type, strides, padding, data_format, rate, name)
