"""Axes and vectors of sizes carried from one layout of images to another.

Source: tensorflow/core/kernels/data_format_ops.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.wire.errors import InvalidArgumentError


def _places(src_format: str, dst_format: str) -> list[int]:
    """Return where each letter of src_format stands in dst_format.

    Raises: InvalidArgumentError.
    """
    for what, layout in (("src_format", src_format), ("dst_format", dst_format)):
        if len(layout) not in (4, 5):
            raise InvalidArgumentError(f"{what} must have 4 or 5 letters; found {layout!r}")
    if sorted(src_format) != sorted(dst_format) or len(set(src_format)) != len(src_format):
        raise InvalidArgumentError(
            f"{dst_format!r} must have the letters of {src_format!r}, each once"
        )
    return [dst_format.index(letter) for letter in src_format]


@op(
    """
    DataFormatDimMap(x: T) -> y: T
    T: type in indices = int32
    src_format: string = 'NHWC'
    dst_format: string = 'NCHW'
    """,
    shape=same_as(),
)
def data_format_dim_map_kernel(
    xp: ArrayNamespace, x: Array, *, src_format: str, dst_format: str
) -> Any:
    """Return where axes of the first layout are in the second; negative ones count from the end."""
    places = _places(src_format, dst_format)
    return xp.take(xp.asarray(places, x.dtype), x % len(places), axis=0)


@op(
    """
    DataFormatVecPermute(x: T) -> y: T
    T: type in indices = int32
    src_format: string = 'NHWC'
    dst_format: string = 'NCHW'
    """,
    shape=same_as(),
)
def data_format_vec_permute_kernel(
    xp: ArrayNamespace, x: Array, *, src_format: str, dst_format: str
) -> Any:
    """Return sizes [rank], or pairs [rank, 2], in the order of the second layout.

    Where there are two fewer, they are those of space alone.
    """
    rank = len(_places(src_format, dst_format))
    if np.ndim(x) not in (1, 2):
        raise InvalidArgumentError(f"x must be a vector or matrix; its shape is {list(x.shape)}")
    if len(x) not in (rank, rank - 2) or (np.ndim(x) == 2 and x.shape[1] != 2):
        raise InvalidArgumentError(
            f"x must be [{rank}] or [{rank - 2}], of numbers or pairs; it is {list(x.shape)}"
        )
    if len(x) < rank:
        space = "HW" if rank == 4 else "DHW"
        if not set(space) <= set(src_format):
            raise InvalidArgumentError(f"{src_format!r} must have the letters {space}")
        src_format, dst_format = (
            "".join(letter for letter in layout if letter in space)
            for layout in (src_format, dst_format)
        )
    order = [src_format.index(letter) for letter in dst_format]
    return xp.take(x, np.array(order), axis=0)
