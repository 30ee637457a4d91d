"""Spectra of frames: short-time Fourier transforms, modified cosine transforms, mel scales.

Source: tensorflow/python/ops/signal/spectral_ops.py, mel_ops.py, mfcc_ops.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.math import linspace
from tideflow.ops.signal.cosine import dct
from tideflow.ops.signal.fourier import irfft, rfft
from tideflow.ops.signal.frames import frame, overlap_and_add
from tideflow.ops.signal.windows import hann_window, vorbis_window
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

Window = Callable[..., Any] | None


def _windowed(frames: Any, window_fn: Window, length: Any, factor: float = 1.0) -> Any:
    """Return frames times a window, or times a factor where there is none."""
    if window_fn is None:
        return frames if factor == 1.0 else frames * factor
    return frames * window_fn(length, dtype=frames.dtype)


def _power_of_two(length: Any) -> Any:
    """Return the least power of two that is not below a length."""
    if not isinstance(length, Tensor):
        return 1 << max(int(length) - 1, 0).bit_length()
    doublings = apply_op("Ceil", apply_op("Log", apply_op("Cast", length, DstT="double")) / _LOG_2)
    return apply_op("Cast", apply_op("Exp", doublings * _LOG_2) + 0.5, DstT="int32")


_LOG_2 = math.log(2)


def _vector(length: TensorLike) -> Any:
    return apply_op("Reshape", convert_to_tensor(length, dtypes.int32), [1])


@export("signal.stft")
def stft(
    signals: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the short-time Fourier transform of real signals [..., samples].

    Args:
      fft_length: how long each transform is; by default the least power of two that fits a frame.
      window_fn: gives the weights of a frame, called with its length and dtype; None for ones.
      pad_end: whether a last frame that is not full counts too.
    Returns: complex [..., frames, fft_length // 2 + 1].
    """
    with get_default_graph().name_scope(name or "stft"):
        frames = frame(convert_to_tensor(signals), frame_length, frame_step, pad_end=pad_end)
        length = _power_of_two(frame_length) if fft_length is None else fft_length
        made: Tensor = rfft(_windowed(frames, window_fn, frame_length), _vector(length))
        return made


@export("signal.inverse_stft")
def inverse_stft(
    stfts: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window = hann_window,
    name: str | None = None,
) -> Tensor:
    """Return the real signals [..., samples] of short-time Fourier transforms (see stft).

    Frames are weighted with window_fn and added up; inverse_stft_window_fn gives the window that
    undoes stft's.
    """
    with get_default_graph().name_scope(name or "inverse_stft"):
        length = _power_of_two(frame_length) if fft_length is None else fft_length
        frames = irfft(convert_to_tensor(stfts), _vector(length))[..., :frame_length]
        rank = frames.shape.rank or 2
        missing = apply_op(
            "Maximum", convert_to_tensor(frame_length) - apply_op("Shape", frames)[-1], 0
        )
        frames = apply_op("Pad", frames, [[0, 0]] * (rank - 1) + [[0, missing]])
        return overlap_and_add(_windowed(frames, window_fn, frame_length), frame_step)


@export("signal.inverse_stft_window_fn")
def inverse_stft_window_fn(
    frame_step: TensorLike,
    forward_window_fn: Callable[..., Any] = hann_window,
    name: str | None = None,
) -> Callable[..., Tensor]:
    """Return a window function with which inverse_stft undoes stft under forward_window_fn."""

    def inverse_window_fn(frame_length: TensorLike, dtype: DType) -> Tensor:
        with get_default_graph().name_scope(name or "inverse_stft_window_fn"):
            length: Any = convert_to_tensor(frame_length, dtypes.int32)
            step = convert_to_tensor(frame_step, dtypes.int32)
            forward = forward_window_fn(frame_length, dtype=dtype)
            overlaps = apply_op("FloorDiv", length + step - 1, step)
            squares = apply_op("Square", forward)
            whole = apply_op("Pad", squares, [[0, overlaps * step - length]])
            rows = apply_op("Reshape", whole, apply_op("Pack", [overlaps, step]))
            total = apply_op("Sum", rows, [0], keep_dims=True)
            everywhere = apply_op("Tile", total, apply_op("Pack", [overlaps, 1]))
            made: Tensor = forward / apply_op("Reshape", everywhere, [-1])[:length]
            return made

    return inverse_window_fn


@export("signal.mdct")
def mdct(
    signals: Any,
    frame_length: Any,
    window_fn: Window = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the modified discrete cosine transform of real signals [..., samples].

    Args:
      frame_length: a multiple of four; frames overlap by half.
      norm: None, or "ortho" for an orthonormal transform.
    Returns: [..., frames, frame_length // 2].
    Raises: ValueError for another frame_length or norm.
    """
    with get_default_graph().name_scope(name or "mdct"):
        if isinstance(frame_length, int) and (frame_length < 1 or frame_length % 4):
            raise ValueError(f"frame_length must be a multiple of 4; found {frame_length}")
        frames = frame(convert_to_tensor(signals), frame_length, frame_length // 2, pad_end)
        weighted = _windowed(frames, window_fn, frame_length, math.sqrt(0.5))
        first, second, third, fourth = apply_op("Split", -1, weighted, num_split=4)
        early = apply_op("Neg", apply_op("ReverseV2", third, [-1])) - fourth
        late = first - apply_op("ReverseV2", second, [-1])
        return dct(apply_op("ConcatV2", [early, late], -1), type=4, norm=norm)


@export("signal.inverse_mdct")
def inverse_mdct(
    mdcts: TensorLike,
    window_fn: Window = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the real signals [..., samples] of modified cosine transforms (see mdct)."""
    with get_default_graph().name_scope(name or "inverse_mdct"):
        x = convert_to_tensor(mdcts)
        size = x.dims[-1] if x.dims else None
        half = apply_op("Shape", x)[-1] if size is None else size
        found: Any = dct(x, type=4, norm=norm)
        if norm is None:
            found = found * 0.5 / apply_op("Cast", convert_to_tensor(half), DstT=x.dtype)
        early, late = apply_op("Split", -1, found, num_split=2)
        parts = [
            late,
            apply_op("Neg", apply_op("ReverseV2", late, [-1])),
            apply_op("Neg", apply_op("ReverseV2", early, [-1])),
            apply_op("Neg", early),
        ]
        frames = apply_op("ConcatV2", parts, -1)
        return overlap_and_add(_windowed(frames, window_fn, half * 2, math.sqrt(0.5)), half)


# ---- mel scales


def _mel(hertz: Any) -> Any:
    """Return frequencies on the mel scale (O'Shaughnessy 1987)."""
    return apply_op("Log", hertz / 700.0 + 1.0) * 1127.0


@export("signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: TensorLike = 129,
    sample_rate: TensorLike = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return the weights that make mel bins of the bins of a spectrogram.

    Each mel bin is a triangle on the mel scale, between its neighbours' centres.
    Returns: [num_spectrogram_bins, num_mel_bins].
    Raises: ValueError for edges or sizes that cannot be.
    """
    wanted = as_dtype(dtype)
    _check_mel(num_mel_bins, sample_rate, lower_edge_hertz, upper_edge_hertz, wanted)
    with get_default_graph().name_scope(name or "linear_to_mel_weight_matrix"):
        low, high = (
            convert_to_tensor(edge, wanted) for edge in (lower_edge_hertz, upper_edge_hertz)
        )
        rate = apply_op("Cast", convert_to_tensor(sample_rate), DstT=wanted)
        zero = apply_op("ZerosLike", rate)
        bins = linspace(zero, rate / 2.0, num_spectrogram_bins)[1:]
        places = apply_op("ExpandDims", _mel(bins), 1)
        edges = linspace(_mel(low), _mel(high), num_mel_bins + 2)
        before, centre, after = edges[:-2], edges[1:-1], edges[2:]
        rising = (places - before) / (centre - before)
        falling = (after - places) / (after - centre)
        weights = apply_op("Relu", apply_op("Minimum", rising, falling))
        # The bin of frequency 0 belongs to none.
        made: Tensor = apply_op("Pad", weights, [[1, 0], [0, 0]])
        return made


def _check_mel(count: int, rate: Any, low: float, high: float, dtype: DType) -> None:
    if count < 1:
        raise ValueError(f"num_mel_bins must be positive; found {count}")
    if low < 0 or low >= high:
        raise ValueError(f"the edges must be 0 <= lower < upper; found {low} and {high}")
    if not isinstance(rate, Tensor):
        if rate <= 0:
            raise ValueError(f"sample_rate must be positive; found {rate}")
        if high > rate / 2:
            raise ValueError(f"the upper edge {high} lies beyond half the sample rate {rate}")
    if not dtype.is_floating:
        raise ValueError(f"dtype must be floating; found {dtype.name}")


@export("signal.mfccs_from_log_mel_spectrograms")
def mfccs_from_log_mel_spectrograms(
    log_mel_spectrograms: TensorLike, name: str | None = None
) -> Tensor:
    """Return mel-frequency cepstral coefficients, in the shape of the spectrograms [..., bins].

    Raises: ValueError for no bins.
    """
    with get_default_graph().name_scope(name or "mfccs_from_log_mel_spectrograms"):
        x = convert_to_tensor(log_mel_spectrograms)
        if x.dims and x.dims[-1] == 0:
            raise ValueError("there must be mel bins; the last size is 0")
        count = apply_op("Cast", apply_op("Shape", x)[-1], DstT=x.dtype)
        made: Tensor = apply_op("Mul", dct(x), apply_op("Rsqrt", count * 2.0))
        return made
