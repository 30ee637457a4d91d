"""Audio as WAV files.

Source: tensorflow/core/ops/audio_ops.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.formats import wav
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import check_scalar
from tideflow.wire.errors import InvalidArgumentError


def _encoded_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 2, "audio")
    with_rank(c.inputs[1], 0, "sample_rate")
    return scalar(c)


@op("EncodeWav(audio: float, sample_rate: int32) -> contents: string", shape=_encoded_shape)
def encode_wav_kernel(ctx: KernelContext, audio: Array, sample_rate: Array) -> Any:
    """Return the file of audio [samples, channels]."""
    if np.ndim(audio) != 2:
        raise InvalidArgumentError(f"audio must be 2-dimensional; its shape is {np.shape(audio)}")
    check_scalar(sample_rate, "sample_rate")
    channels, rate = audio.shape[1], int(np.asarray(sample_rate).item())
    if not 0 < channels < 2**16 or rate <= 0:
        raise InvalidArgumentError(
            f"num_channels must be in (0, 2^16) and sample_rate positive; found {channels} and "
            f"{rate}"
        )
    return np.array(wav.encode_wav(audio, rate), object)


def _decoded_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "contents")
    channels, samples = c.attrs["desired_channels"], c.attrs["desired_samples"]
    if channels < -1:
        raise ValueError(f"desired_channels must be -1 or more; found {channels}")
    if samples < -1:
        raise ValueError(f"desired_samples must be -1 or more; found {samples}")
    return [(None if samples == -1 else samples, None if channels == -1 else channels), ()]


@op(
    """
    DecodeWav(contents: string) -> audio: float, sample_rate: int32
    desired_channels: int = -1
    desired_samples: int = -1
    """,
    shape=_decoded_shape,
)
def decode_wav_kernel(
    ctx: KernelContext, contents: Array, *, desired_channels: int, desired_samples: int
) -> Any:
    """Return the audio [samples, channels] of a file, cut or filled to the sizes desired.

    Samples are filled with silence, channels with the last one.
    """
    check_scalar(contents, "contents")
    try:
        audio, rate = wav.decode_wav(np.asarray(contents, object).item())
    except ValueError as error:
        raise InvalidArgumentError(f"this is no WAV file that can be read: {error}") from None
    if desired_channels != -1:
        audio = audio[:, np.minimum(np.arange(desired_channels), audio.shape[1] - 1)]
    if desired_samples != -1:
        silence = np.zeros((max(0, desired_samples - len(audio)), audio.shape[1]), np.float32)
        audio = np.concatenate([audio[:desired_samples], silence])
    return audio, np.int32(rate)


not_differentiable("EncodeWav", "DecodeWav")


@export("audio.encode_wav")
def encode_wav(audio: TensorLike, sample_rate: TensorLike, name: str | None = None) -> Tensor:
    """Return audio [samples, channels], float32 in [-1, 1], as a WAV file of 16 bits.

    sample_rate: samples for each second.
    """
    made: Tensor = apply_op("EncodeWav", audio, sample_rate, name=name)
    return made


@export("audio.decode_wav")
def decode_wav(
    contents: TensorLike,
    desired_channels: int = -1,
    desired_samples: int = -1,
    name: str | None = None,
) -> Any:
    """Return the audio [samples, channels] of a WAV file of 16 bits, and its sample rate.

    desired_channels, desired_samples: sizes to which the audio is cut or filled; -1 for the file's.
    Raises: InvalidArgumentError for what is no such file.
    """
    return apply_op(
        "DecodeWav",
        contents,
        desired_channels=desired_channels,
        desired_samples=desired_samples,
        name=name,
    )
