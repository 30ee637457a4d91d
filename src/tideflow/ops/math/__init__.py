"""Arithmetic, comparison, reductions, scans, segments and special functions."""

from __future__ import annotations

from tideflow.ops.math.arithmetic import convert_pair_below
from tideflow.ops.math.casts import cast, saturate_cast
from tideflow.ops.math.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from tideflow.ops.math.comparison import equal, not_equal
from tideflow.ops.math.counting import bincount, whole_numbers
from tideflow.ops.math.elementwise import abs
from tideflow.ops.math.ranges import is_range, linspace
from tideflow.ops.math.reducing import (
    norm,
    one_of,
    reduce_any,
    reduce_mean,
    reduce_prod,
    reduce_std,
    reduce_sum,
)
from tideflow.ops.math.sorting import argsort

__all__ = [
    "abs",
    "argsort",
    "bincount",
    "cast",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "convert_pair_below",
    "equal",
    "is_range",
    "linspace",
    "norm",
    "not_equal",
    "one_of",
    "reduce_any",
    "reduce_mean",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "saturate_cast",
    "whole_numbers",
]
