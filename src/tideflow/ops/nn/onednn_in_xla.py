"""Convolutions in compiled code for CPUs by oneDNN, which jaxlib is built with.

XLA's own convolutions on CPUs are Eigen's, which are slower for filters of more than one tap
(docs/performance.md, "Convolutions by oneDNN").  jaxlib for x86-64 also holds oneDNN and a custom
call that runs its forward convolution on XLA's threads.  The gradients are forward convolutions,
too, of other arrays.

The call is not documented: its options are the message `OneDnnConvolutionConfig` of XLA's
backend_config.proto, as JSON.  oneDNN ends the process where they make no sense, so the call is
made only with releases of jaxlib that were tried (tests/ops/test_onednn_in_xla.py).

Where oneDNN has no code of its own for a convolution it multiplies matrices, and each of XLA's
threads that does so waits for parts of its work that it has given to these threads: with two of
them the program stands still.  Its code for AVX2 and later takes all convolutions but dilated ones
in groups, so that those are called with filters that zeros have spread, and older processors do
without oneDNN.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import json
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from tideflow.ops.framework import lax
from tideflow.platform.settings import process_settings

# (before, after) of height and of width.
Pads: TypeAlias = "tuple[tuple[int, int], tuple[int, int]]"

TARGET = "__onednn$convolution"
# Those whose options for the call are as written here.
TRIED_JAXLIB = frozenset({"0.10.2"})

_IMAGES = {"batch_dim": "0", "feature_dim": "3", "spatial_dims": ["1", "2"]}


@dataclass(frozen=True)
class TracedConvolution:
    """A convolution of images in NHWC order, as compiled code makes it.

    Attributes:
      shape: of the result, in NHWC order.
      pads: of height and width: (before, after), never below 0.
      strides, dilations: of height and width.
      filter_order: of the filter's dimensions: "HWIO", or "IHWO".
      groups: into which channels are split; the filter has those of one.
    """

    shape: tuple[int, ...]
    pads: Pads
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    filter_order: str = "HWIO"
    groups: int = 1


def is_used() -> bool:
    """Whether compiled code calls oneDNN: it is there, and not switched off."""
    return process_settings().onednn and is_there()


@functools.cache
def is_there() -> bool:
    """Whether jaxlib holds oneDNN, and takes the options that are written here."""
    is_built_with_it = sys.platform == "linux" and platform.machine() == "x86_64"
    return is_built_with_it and version("jaxlib") in TRIED_JAXLIB and _has_avx2()


def _has_avx2() -> bool:
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text(encoding="ascii")
    except OSError:
        return False


_is_left_out = contextvars.ContextVar("onednn_is_left_out", default=False)


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Let what is traced meanwhile call no oneDNN: jaxlib can write code without it to a file.

    Convolutions in groups call it still: XLA takes ten to four hundred times as long for them.
    """
    before = _is_left_out.set(True)
    try:
        yield
    finally:
        _is_left_out.reset(before)


def pays(x: Any, w: Any, how: TracedConvolution) -> bool:
    """Whether oneDNN may compute a convolution, and does so faster than Eigen."""
    height, width = _filter_sizes(w, how)
    is_faster = height * width > 1 or how.groups > 1
    is_called = is_used() and (how.groups > 1 or not _is_left_out.get())
    return is_called and is_faster and x.dtype == "float32" and w.dtype == "float32"


def convolve_by_xla(x: Any, w: Any, how: TracedConvolution) -> Any:
    """Return a convolution by XLA's own means, on any device."""
    return lax().conv_general_dilated(
        x,
        w,
        window_strides=how.strides,
        padding=how.pads,
        rhs_dilation=how.dilations,
        dimension_numbers=("NHWC", how.filter_order, "NHWC"),
        feature_group_count=how.groups,
    )


def convolve_by_onednn(x: Any, w: Any, how: TracedConvolution) -> Any:
    """Return a convolution by oneDNN where it is compiled for a CPU, and by XLA's means elsewhere.

    `pays` must have said so.
    """
    jax = importlib.import_module("jax")
    if how.groups > 1 and how.dilations != (1, 1):
        w, how = _spread(w, how)
    call = jax.ffi.ffi_call(
        TARGET,
        jax.ShapeDtypeStruct(how.shape, x.dtype),
        custom_call_api_version=1,
        legacy_backend_config=_options(w, how),
    )
    otherwise = functools.partial(convolve_by_xla, how=how)
    return lax().platform_dependent(x, w, cpu=call, default=otherwise)


def _spread(w: Any, how: TracedConvolution) -> tuple[Any, TracedConvolution]:
    """Return a filter with zeros between its taps, and the convolution with that."""
    apart = {"H": how.dilations[0] - 1, "W": how.dilations[1] - 1}
    zeros = [(0, 0, apart.get(name, 0)) for name in how.filter_order]
    return lax().pad(w, w.dtype.type(0), zeros), replace(how, dilations=(1, 1))


def _options(w: Any, how: TracedConvolution) -> str:
    order = how.filter_order
    weights = {
        "input_feature_dim": str(order.index("I")),
        "output_feature_dim": str(order.index("O")),
        "spatial_dims": _texts([order.index("H"), order.index("W")]),
        "shape": _texts(w.shape),
    }
    window = {
        "size": _texts(_filter_sizes(w, how)),
        "pad_left": _texts(before for before, _ in how.pads),
        "pad_right": _texts(after for _, after in how.pads),
        "strides": _texts(how.strides),
        "window_dilations": _texts(how.dilations),
    }
    options = {
        "dims": "4",
        "input": {"dims": "4", "data": _IMAGES},
        "kernel": {"dims": "4", "filter": weights},
        "output": {"dims": "4", "data": _IMAGES},
        "window": window,
        "feature_groups": str(how.groups),
    }
    return json.dumps({"onednn_conv_config": options})


def _filter_sizes(w: Any, how: TracedConvolution) -> tuple[int, int]:
    """Return the filter's height and width."""
    order = how.filter_order
    return w.shape[order.index("H")], w.shape[order.index("W")]


def _texts(numbers: Iterable[int]) -> list[str]:
    # JSON has no integers of 64 bits, so messages have them as text.
    return [str(number) for number in numbers]
