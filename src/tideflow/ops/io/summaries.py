"""Summaries: what a program tells of its values, as messages for event files.

Source: tensorflow/core/kernels/summary_op.cc, core/lib/histogram/histogram.cc,
python/summary/summary.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import wave
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.formats import encode_png
from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import constant
from tideflow.ops.parsing import stored_tensor
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.fields import tag_of, varint


def _message(content: bytes) -> Any:
    made = np.empty((), object)
    made[()] = content
    return made


def _summary_of(values: Iterable[tuple[bytes, pb.Summary.Value]]) -> Any:
    """Return a summary of values with tags of any bytes; the library takes valid text only."""
    content = b""
    for tag, value_pb in values:
        named = _field(1, tag) if tag else b""
        content += _field(1, named + value_pb.SerializeToString())
    return _message(content)


def _field(number: int, content: bytes) -> bytes:
    return varint(tag_of(number)) + varint(len(content)) + content


def _bytes(tag: Any) -> bytes:
    return bytes(tag.item() if isinstance(tag, np.ndarray) else tag)


def _tag(tag: Any, what: str = "tag") -> bytes:
    if np.ndim(tag):
        raise errors.InvalidArgumentError(
            f"{what} must be a scalar; its shape is {shapes.format_dims(np.shape(tag))}"
        )
    return _bytes(tag)


@op(
    """
    ScalarSummary(tags: string, values: T) -> summary: string
    T: type in reals
    """,
    shape=scalar,
)
def scalar_summary(ctx: KernelContext, tags: Array | bytes, values: Array) -> Any:
    """Return a summary of numbers, each with its tag."""
    if np.shape(tags) != np.shape(values):
        raise errors.InvalidArgumentError(
            f"tags and values are not the same shape: {shapes.format_dims(np.shape(tags))} and "
            f"{shapes.format_dims(np.shape(values))}"
        )
    numbers = np.asarray(values).reshape(-1).astype(np.float32)
    return _summary_of(
        (_bytes(tag), pb.Summary.Value(simple_value=float(value)))
        for tag, value in zip(np.asarray(tags, object).reshape(-1), numbers)
    )


@functools.cache
def _limits() -> Any:
    """Return the upper ends of a histogram's buckets: 0, and in steps of a tenth from 1e-12 on."""
    positive = []
    value = 1e-12
    while value < 1e20:
        positive.append(value)
        value *= 1.1
    positive.append(float(np.finfo(np.float64).max))
    return np.array([-x for x in reversed(positive)] + [0.0] + positive)


class Histogram:
    """Counts finite numbers by their size."""

    def __init__(self) -> None:
        limits = _limits()
        self._counts = np.zeros(len(limits), np.int64)
        self._least, self._most = float(limits[-1]), float(limits[0])
        self._sum = self._sum_squares = 0.0

    def add(self, values: Array) -> None:
        """Count numbers."""
        flat = np.asarray(values).reshape(-1).astype(np.float64)
        if not flat.size:
            return
        at = np.searchsorted(_limits(), flat, side="right")
        self._counts += np.bincount(at, minlength=len(self._counts))
        self._least = min(self._least, float(flat.min()))
        self._most = max(self._most, float(flat.max()))
        self._sum += float(flat.sum())
        self._sum_squares += float(np.square(flat).sum())

    def to_proto(self) -> pb.HistogramProto:
        """Return the counts; empty buckets in a row are one."""
        limits = _limits()
        found = pb.HistogramProto(
            min=self._least,
            max=self._most,
            num=int(self._counts.sum()),
            sum=self._sum,
            sum_squares=self._sum_squares,
        )
        last = -1
        for index in np.flatnonzero(self._counts).tolist():
            if index > last + 1:
                found.bucket_limit.append(float(limits[index - 1]))
                found.bucket.append(0.0)
            found.bucket_limit.append(float(limits[index]))
            found.bucket.append(float(self._counts[index]))
            last = index
        if last < len(limits) - 1:
            found.bucket_limit.append(float(limits[-1]))
            found.bucket.append(0.0)
        return found


def histogram(values: Array) -> pb.HistogramProto:
    """Return the histogram of finite numbers; empty buckets in a row count as one."""
    found = Histogram()
    found.add(values)
    return found.to_proto()


@op(
    """
    HistogramSummary(tag: string, values: T) -> summary: string
    T: type in reals = float
    """,
    shape=scalar,
)
def histogram_summary(ctx: KernelContext, tag: Array | bytes, values: Array) -> Any:
    """Return a summary with the histogram of numbers.  Raises: InvalidArgumentError for nan."""
    name = _tag(tag)
    numbers = np.asarray(values).astype(np.float64)
    if np.isnan(numbers).any() or np.isinf(numbers).any():
        kind = "Nan" if np.isnan(numbers).any() else "Infinity"
        raise errors.InvalidArgumentError(
            f"{kind} in summary histogram for: {name.decode('utf-8', 'replace')}"
        )
    return _summary_of([(name, pb.Summary.Value(histo=histogram(numbers)))])


@op(
    """
    TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> summary: string
    T: type
    """,
    shape=scalar,
)
def tensor_summary(
    ctx: KernelContext, tag: Array | bytes, tensor: Array, metadata: Array | bytes, *, T: DType
) -> Any:
    """Return a summary that holds a tensor."""
    name = _tag(tag)
    value_pb = pb.Summary.Value(tensor=stored_tensor(tensor, T))
    if np.ndim(metadata):
        raise errors.InvalidArgumentError(
            "serialized_summary_metadata must be a scalar; its shape is "
            f"{shapes.format_dims(np.shape(metadata))}"
        )
    serialized = metadata.item() if isinstance(metadata, np.ndarray) else metadata
    value_pb.metadata.SetInParent()
    with contextlib.suppress(DecodeError):  # as TensorFlow, which takes no notice of other bytes
        value_pb.metadata.CopyFrom(pb.SummaryMetadata.FromString(serialized))
    return _summary_of([(name, value_pb)])


@op(
    """
    TensorSummary(tensor: T) -> summary: string
    T: type
    description: string = ''
    labels: list(string) = []
    display_name: string = ''
    """,
    shape=scalar,
)
def tensor_summary_of_node(
    ctx: KernelContext,
    tensor: Array,
    *,
    T: DType,
    description: str,
    labels: list[str],
    display_name: str,
) -> Any:
    """Return a summary that holds a tensor and the node's name."""
    value_pb = pb.Summary.Value(node_name=ctx.node.name, tensor=stored_tensor(tensor, T))
    return _message(pb.Summary(value=[value_pb]).SerializeToString())


@op(
    """
    MergeSummary(inputs: N * string) -> summary: string
    N: int >= 1
    """,
    shape=scalar,
)
def merge_summary(ctx: KernelContext, inputs: list[Any]) -> Any:
    """Return one summary of several.  Raises: InvalidArgumentError for a tag in two of them."""
    summary_pb = pb.Summary()
    seen: set[str] = set()
    for given in inputs:
        for item in np.asarray(given, object).reshape(-1):
            try:
                part_pb = pb.Summary.FromString(item)
            except DecodeError:
                raise errors.InvalidArgumentError(
                    "Could not parse one of the summary inputs"
                ) from None
            for value_pb in part_pb.value:
                if value_pb.tag and value_pb.tag in seen:
                    raise errors.InvalidArgumentError(
                        f"Duplicate tag {value_pb.tag} found in summary inputs"
                    )
                seen.add(value_pb.tag)
            summary_pb.MergeFrom(part_pb)
    return _message(summary_pb.SerializeToString())


_NEARLY_ZERO = 1e-6


def _finite_scale(values: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return factor and offset that bring numbers to 0 to 255; a picture with negative ones has 0
    in the middle.  The factor is computed as a float and then is of the values' own type, as
    TensorFlow's, so that the same bytes come out."""
    number = values.dtype.type
    if not values.size:
        return number(0), number(0)
    low, high = values.min(), values.max()
    most, middle = (max(-low, high), 128) if low < 0 else (high, 0)
    span = np.float32(127 if low < 0 else 255)
    factor = np.float32(0) if most < _NEARLY_ZERO else span / np.float32(most)
    return number(factor), number(middle)


def _pixels(image: np.ndarray[Any, Any], bad_color: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a picture as bytes; pixels that are not finite get a colour of their own."""
    if image.dtype == np.uint8:
        return image
    good = np.isfinite(image).all(axis=-1)
    factor, offset = _finite_scale(image[good])
    made = np.empty(image.shape, np.uint8)
    made[good] = (image[good] * factor + offset).astype(np.uint8)
    made[~good] = bad_color[: image.shape[-1]]
    return made


@op(
    """
    ImageSummary(tag: string, tensor: T) -> summary: string
    max_images: int >= 1 = 3
    T: type in {uint8, float, half, double} = float
    bad_color: tensor = uint8 [255, 0, 0, 255]
    """,
    shape=scalar,
)
def image_summary(
    ctx: KernelContext, tag: Array | bytes, tensor: Array, *, max_images: int, bad_color: Array
) -> Any:
    """Return a summary with the first pictures of a batch [batch, height, width, channels].

    Raises: InvalidArgumentError for another shape, or a number of channels other than 1, 3 and 4.
    """
    name = _tag(tag, "Tags")
    images = np.asarray(tensor)
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise errors.InvalidArgumentError(
            "Tensor must be 4-D with last dim 1, 3, or 4, not "
            f"{shapes.format_dims(np.shape(tensor))}"
        )
    color = np.asarray(bad_color)
    if color.ndim != 1 or color.dtype != np.uint8 or len(color) < images.shape[3]:
        raise errors.InvalidArgumentError(
            f"bad_color must be uint8 values for the {images.shape[3]} channels; found {color!r}"
        )
    values = []
    for i, image in enumerate(images[:max_images]):
        value_pb = pb.Summary.Value()
        value_pb.image.height, value_pb.image.width, value_pb.image.colorspace = image.shape
        value_pb.image.encoded_image_string = encode_png(_pixels(image, color))
        values.append((name + (b"/image/%d" % i if max_images > 1 else b"/image"), value_pb))
    return _summary_of(values)


@op(
    """
    AudioSummaryV2(tag: string, tensor: float, sample_rate: float) -> summary: string
    max_outputs: int >= 1 = 3
    """,
    shape=scalar,
)
def audio_summary(
    ctx: KernelContext, tag: Array | bytes, tensor: Array, sample_rate: Array, *, max_outputs: int
) -> Any:
    """Return a summary with the first sounds of a batch [batch, frames] or [batch, frames,
    channels], values from -1 to 1.

    Raises: InvalidArgumentError for another shape or rate.
    """
    name = _tag(tag, "Tag")
    sounds = np.asarray(tensor)
    if sounds.ndim not in (2, 3):
        raise errors.InvalidArgumentError(
            f"Tensor must be 3-D or 2-D, got: {shapes.format_dims(sounds.shape)}"
        )
    rate = float(np.asarray(sample_rate).item())
    if not 0 < rate < 2**32:
        raise errors.InvalidArgumentError(f"sample_rate must be in (0, 2^32), found {rate}")
    if sounds.ndim == 2:
        sounds = sounds[:, :, None]
    values = []
    for i, sound in enumerate(sounds[:max_outputs]):
        value_pb = pb.Summary.Value()
        value_pb.audio.sample_rate = rate
        value_pb.audio.length_frames, value_pb.audio.num_channels = sound.shape
        value_pb.audio.content_type = "audio/wav"
        value_pb.audio.encoded_audio_string = _wav(sound, rate)
        values.append((name + (b"/audio/%d" % i if max_outputs > 1 else b"/audio"), value_pb))
    return _summary_of(values)


def _wav(sound: np.ndarray[Any, Any], rate: float) -> bytes:
    """Return sound [frames, channels] as a file of 16 bit samples."""
    scaled = np.clip(np.rint(sound.astype(np.float64) * 32768.0), -32768, 32767)
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(round(rate))
        file.writeframes(scaled.astype("<i2").tobytes())
    return target.getvalue()


not_differentiable(
    "ScalarSummary",
    "HistogramSummary",
    "TensorSummary",
    "TensorSummaryV2",
    "MergeSummary",
    "ImageSummary",
    "AudioSummaryV2",
)

_NOT_IN_NAMES = re.compile(r"[^-/\w\.]")


# The names of the inputs that take the tag, where it is not "tag".
_TAG_INPUTS = {"ScalarSummary": "tags"}


def _summary(
    op_name: str,
    name: str,
    family: str | None,
    collections: Any,
    values: TensorLike,
    *more: Any,
    metadata_pb: pb.SummaryMetadata | None = None,
    **attrs: Any,
) -> Tensor:
    """Make a summary op whose tag is its name, scopes included (a family's name leads it)."""
    clean = _NOT_IN_NAMES.sub("_", name).lstrip("/")
    if not clean:
        raise ValueError(f"{name!r} leaves no name for a summary")
    graph = get_default_graph()
    with graph.name_scope(clean if family is None else f"{family}/{clean}") as scope:
        tag = scope.rstrip("/") if family is None else f"{family}/{scope.rstrip('/')}"
        given = constant(tag, name=_TAG_INPUTS.get(op_name, "tag"))
        if metadata_pb is not None:
            serialized = metadata_pb.SerializeToString()
            more = (constant(serialized, name="serialized_summary_metadata"),)
        made: Tensor = apply_op(op_name, given, values, *more, name=scope, **attrs)
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        graph.add_to_collection(key, made)
    return made


@export("summary.scalar")
def scalar_summary_of(
    name: str,
    tensor: TensorLike,
    collections: str | Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary of a number, as a string; it is collected for merge_all."""
    return _summary("ScalarSummary", name, family, collections, tensor)


@export("summary.histogram")
def histogram_summary_of(
    name: str,
    values: TensorLike,
    collections: str | Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary with the histogram of numbers; it is collected for merge_all."""
    return _summary("HistogramSummary", name, family, collections, values)


@export("summary.merge")
def merge(
    inputs: Any, collections: str | Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Return one summary of several.  Run fails if two have the same tag."""
    with get_default_graph().name_scope(name or "Merge"):
        made: Tensor = apply_op("MergeSummary", list(inputs))
    for key in collections or ():
        get_default_graph().add_to_collection(key, made)
    return made


@export("summary.merge_all")
def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """Return one summary of all that were collected, None where there are none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found, name=name) if found else None


@export("summary.image")
def image_summary_of(
    name: str,
    tensor: TensorLike,
    max_outputs: int = 3,
    collections: str | Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary with the first pictures of a batch [batch, height, width, 1, 3 or 4].

    uint8 is shown as it is; other numbers are scaled, each picture by itself, to 0 to 255 (with 0
    in the middle where there are negative ones).
    """
    return _summary("ImageSummary", name, family, collections, tensor, max_images=max_outputs)


@export("summary.audio")
def audio_summary_of(
    name: str,
    tensor: TensorLike,
    sample_rate: TensorLike,
    max_outputs: int = 3,
    collections: str | Sequence[str] | None = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary with the first sounds of a batch [batch, frames, channels], -1 to 1."""
    rate = convert_to_tensor(sample_rate, "float32")
    return _summary(
        "AudioSummaryV2", name, family, collections, tensor, rate, max_outputs=max_outputs
    )


@export("summary.tensor_summary")
def tensor_summary_of(
    name: str,
    tensor: TensorLike,
    summary_description: str | None = None,
    collections: str | Sequence[str] | None = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Return a summary that holds a tensor of any type, for a plugin to show.

    summary_metadata: says which plugin, and what it needs.
    """
    metadata_pb = pb.SummaryMetadata()
    if summary_metadata is not None:
        metadata_pb.MergeFromString(summary_metadata.SerializeToString())
    if display_name is not None:
        metadata_pb.display_name = display_name
    if summary_description is not None:
        metadata_pb.summary_description = summary_description
    return _summary("TensorSummaryV2", name, family, collections, tensor, metadata_pb=metadata_pb)


@export("summary.text")
def text_summary_of(
    name: str, tensor: TensorLike, collections: str | Sequence[str] | None = None
) -> Tensor:
    """Return a summary of strings, shown as Markdown; it is collected for merge_all.

    Raises: ValueError for a tensor that holds no strings.
    """
    strings = convert_to_tensor(tensor)
    if strings.dtype is not dtypes.string:
        raise ValueError(f"a text summary takes strings; {name!r} has {strings.dtype.name}")
    metadata_pb = pb.SummaryMetadata()
    metadata_pb.plugin_data.plugin_name = "text"
    return tensor_summary_of(name, strings, collections=collections, summary_metadata=metadata_pb)
