"""Spectra of audio over time, and the cepstral coefficients that speech recognition starts from.

Source: tensorflow/core/kernels/spectrogram.cc, mfcc_mel_filterbank.cc, mfcc_dct.cc, mfcc.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.wire import errors

# Energies below this count as this.
_FLOOR = 1e-12


def _points(window_size: int) -> int:
    """Return the length of the transform: the next power of two."""
    return 1 << (window_size - 1).bit_length()


def _frames(samples: int, window_size: int, stride: int) -> int:
    return 0 if samples < window_size else 1 + (samples - window_size) // stride


def _spectrogram_shape(c: ShapeContext) -> list[Dims]:
    samples, channels = with_rank(c.inputs[0], 2, "input")
    window_size, stride = c.attrs["window_size"], c.attrs["stride"]
    if window_size < 1 or stride < 1:
        raise ValueError(f"window_size {window_size} and stride {stride} must be positive")
    frames = None if samples is None else _frames(samples, window_size, stride)
    return [(channels, frames, 1 + _points(window_size) // 2)]


@op(
    """
    AudioSpectrogram(input: float) -> spectrogram: float
    window_size: int
    stride: int
    magnitude_squared: bool = false
    """,
    shape=_spectrogram_shape,
)
def audio_spectrogram_kernel(
    ctx: KernelContext, input: Array, *, window_size: int, stride: int, magnitude_squared: bool
) -> Any:
    """Return the magnitudes of audio [samples, channels]: [channels, frames, frequencies]."""
    if input.ndim != 2:
        raise errors.InvalidArgumentError(
            f"input must be 2-dimensional; its shape is {list(input.shape)}"
        )
    if window_size < 2 or stride < 1:
        raise errors.InvalidArgumentError(
            f"Spectrogram initialization failed for window size {window_size} and stride {stride}"
        )
    points, frames = _points(window_size), _frames(len(input), window_size, stride)
    if not frames or not input.shape[1]:
        return np.zeros((input.shape[1], frames, 1 + points // 2), np.float32)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    places = np.arange(frames)[:, None] * stride + np.arange(window_size)
    cut = input.T.astype(np.float64)[:, places] * window
    found = np.fft.rfft(cut, points)
    squares = (found.real**2 + found.imag**2).astype(np.float32)
    return squares if magnitude_squared else np.sqrt(squares)


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)


def _energies(magnitudes: Any, rate: float, count: int, low: float, high: float) -> Any:
    """Return the energies [..., count] that the filters of the bank let through.

    The filters are triangles whose tips lie at equal distances on the mel scale; of a spectrum that
    ends below the highest frequency there are none.
    """
    bins = magnitudes.shape[-1]
    edge, span = _mel(low), _mel(high) - _mel(low)
    tips = edge + span / (count + 1) * np.arange(1, count + 2)
    step = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / step), -1 if math.isnan(high) else int(high / step)
    if last >= bins:
        return magnitudes[..., :0]
    found = np.zeros((*magnitudes.shape[:-1], count))
    for at in range(first, last + 1):
        mel = _mel(at * step)
        channel = int(np.searchsorted(tips[:count], mel)) - 1
        begin = tips[channel] if channel >= 0 else edge
        part = magnitudes[..., at] * (tips[channel + 1] - mel) / (tips[channel + 1] - begin)
        if channel >= 0:
            found[..., channel] += part
        if channel + 1 < count:
            found[..., channel + 1] += magnitudes[..., at] - part
    return found


def _mfcc_shape(c: ShapeContext) -> list[Dims]:
    given = with_rank(c.inputs[0], 3, "spectrogram")
    with_rank(c.inputs[1], 0, "sample_rate")
    return [(*given[:2], c.attrs["dct_coefficient_count"])]


@op(
    """
    Mfcc(spectrogram: float, sample_rate: int32) -> output: float
    upper_frequency_limit: float = 4000.0
    lower_frequency_limit: float = 20.0
    filterbank_channel_count: int = 40
    dct_coefficient_count: int = 13
    """,
    shape=_mfcc_shape,
)
def mfcc_kernel(
    ctx: KernelContext,
    spectrogram: Array,
    sample_rate: Array,
    *,
    upper_frequency_limit: float,
    lower_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Any:
    """Return the cepstral coefficients of squared magnitudes [channels, frames, frequencies]."""
    if spectrogram.ndim != 3:
        raise errors.InvalidArgumentError(
            f"spectrogram must be 3-dimensional; its shape is {list(spectrogram.shape)}"
        )
    check_scalar(sample_rate, "sample_rate")
    bins, rate = spectrogram.shape[2], int(sample_rate)
    low, high = float(lower_frequency_limit), float(upper_frequency_limit)
    count, kept = filterbank_channel_count, dct_coefficient_count
    if rate <= 0 or bins < 2 or low < 0 or high <= low or not 1 <= kept <= count:
        raise errors.InvalidArgumentError(
            f"Mfcc initialization failed for {bins} frequencies, sample rate {rate}, limits {low} "
            f"and {high}, {count} channels and {kept} coefficients"
        )
    energies = _energies(np.sqrt(spectrogram.astype(np.float64)), rate, count, low, high)
    logs = np.log(np.where(energies < _FLOOR, _FLOOR, energies))
    places = np.outer(np.arange(energies.shape[-1]) + 0.5, np.arange(kept)) * (math.pi / count)
    return (logs @ (math.sqrt(2.0 / count) * np.cos(places))).astype(np.float32)
