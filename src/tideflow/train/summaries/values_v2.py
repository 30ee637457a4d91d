"""What tf.summary of the TF2 shape writes: numbers, histograms, pictures, sounds and texts.

Each is a tensor with a plugin's name, by which TensorBoard knows how to show it.
Source: tensorboard/plugins/{scalar,histogram,image,audio,text}/summary_v2.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.array import concat, reshape, stack
from tideflow.ops.control_flow import cond
from tideflow.ops.control_flow.mapping import map_fn
from tideflow.ops.export import export_v2
from tideflow.ops.framework import constant
from tideflow.ops.image.adjustments import convert_image_dtype
from tideflow.ops.math import cast, equal, linspace
from tideflow.ops.signal.wav import encode_wav
from tideflow.train.summaries.writers_v2 import metadata_of, summary_scope, write
from tideflow.wire import dtypes

# AudioPluginData with encoding = WAV.
_WAV = b"\x10\x0b"
_BUCKETS = 30


@export_v2("summary.scalar")
def scalar(
    name: str, data: TensorLike, step: TensorLike | None = None, description: str | None = None
) -> Any:
    """Write a number, as a float; return whether it was written.

    Raises: ValueError for what is no scalar, or without a step.
    """
    metadata = metadata_of("scalars", description)
    with summary_scope(name, "scalar_summary", [data, step]) as (tag, _):
        given = convert_to_tensor(data)
        if given.shape.ndims not in (None, 0):
            raise ValueError(f"data must be a scalar; its shape is {given.shape}")
        return write(tag, cast(given, dtypes.float32), step, metadata)


@export_v2("summary.histogram")
def histogram(
    name: str,
    data: TensorLike,
    step: TensorLike | None = None,
    buckets: int | None = None,
    description: str | None = None,
) -> Any:
    """Write how many numbers fall into each of `buckets` parts of their range, 30 by default.

    Returns: whether it was written.  Raises: ValueError without a step.
    """
    metadata = metadata_of("histograms", description)
    with summary_scope(name, "histogram_summary", [data, buckets, step]) as (tag, _):
        count = _BUCKETS if buckets is None else buckets
        return write(tag, lambda: _buckets(convert_to_tensor(data), count), step, metadata)


def _buckets(data: Tensor, count: int) -> Tensor:
    """Return the buckets of numbers [count, 3]: left end, right end, how many."""
    flat = cast(reshape(data, [-1]), dtypes.float64)
    if count <= 0:
        return constant([], dtypes.float64, [0, 3])
    empty = constant([[0.0] * 3] * count, dtypes.float64)
    is_empty = apply_op("Equal", apply_op("Size", flat), 0)
    found: Tensor = cond(is_empty, lambda: empty, lambda: _filled(flat, count))
    return found


def _filled(flat: Tensor, count: int) -> Tensor:
    """Return the buckets of some numbers; those that are all alike are in the last one."""
    low, high = apply_op("Min", flat, 0), apply_op("Max", flat, 0)
    width = high - low
    is_single = equal(width, 0)
    places = cast((flat - low) / apply_op("SelectV2", is_single, width + 1, width / count), "int32")
    places = apply_op("SelectV2", is_single, count - 1, apply_op("Minimum", places, count - 1))
    zeros = constant([0.0] * count, dtypes.float64)
    at = apply_op("ExpandDims", apply_op("BroadcastTo", places, apply_op("Shape", flat)), 1)
    counts = apply_op("TensorScatterAdd", zeros, at, apply_op("OnesLike", flat))
    edges = linspace(low, high, count + 1)
    return stack([edges[:-1], concat([edges[1:-1], [high]], 0), counts], 1)


@export_v2("summary.image")
def image(
    name: str,
    data: TensorLike,
    step: TensorLike | None = None,
    max_outputs: int = 3,
    description: str | None = None,
) -> Any:
    """Write the first pictures of a batch [batch, height, width, 1 to 4 channels], as PNG.

    Floats are from 0 to 1.  Returns: whether they were written.
    Raises: ValueError without a step.
    """
    metadata = metadata_of("images", description)

    def encoded() -> Tensor:
        pictures = convert_image_dtype(convert_to_tensor(data), dtypes.uint8, saturate=True)
        sizes = apply_op("AsString", apply_op("Shape", pictures))
        files = apply_op("EncodePng", pictures[:max_outputs])
        return concat([stack([sizes[2], sizes[1]]), files], 0)

    with summary_scope(name, "image_summary", [data, max_outputs, step]) as (tag, _):
        return write(tag, encoded, step, metadata)


@export_v2("summary.audio")
def audio(
    name: str,
    data: TensorLike,
    sample_rate: TensorLike,
    step: TensorLike | None = None,
    max_outputs: int = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> Any:
    """Write the first sounds of a batch [batch, frames, channels] from -1 to 1, as WAV.

    Returns: whether they were written.  Raises: ValueError for another encoding, or without a step.
    """
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}")
    metadata = metadata_of("audio", description, _WAV)

    def encoded() -> Tensor:
        sounds = convert_to_tensor(data)[:max_outputs]
        files = map_fn(lambda sound: encode_wav(sound, sample_rate), sounds, dtypes.string)
        texts = apply_op("Fill", apply_op("Shape", sounds)[:1], "")
        return stack([reshape(files, [-1]), texts], 1)

    inputs = [data, sample_rate, max_outputs, step]
    with summary_scope(name, "audio_summary", inputs) as (tag, _):
        return write(tag, encoded, step, metadata)


@export_v2("summary.text")
def text(
    name: str, data: TensorLike, step: TensorLike | None = None, description: str | None = None
) -> Any:
    """Write strings of any shape; return whether they were written.

    Raises: TypeError for what is no string; ValueError without a step.
    """
    metadata = metadata_of("text", description)
    with summary_scope(name, "text_summary", [data, step]) as (tag, _):
        given = convert_to_tensor(data)
        if given.dtype is not dtypes.string:
            raise TypeError(f"a text is strings, not {given.dtype.name}")
        return write(tag, given, step, metadata)
