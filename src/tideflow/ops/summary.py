"""Summaries: what a program tells of its values, as messages for event files.

Source: tensorflow/core/kernels/summary_op.cc, core/lib/histogram/histogram.cc,
python/summary/summary.py.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.ops.export import export
from tideflow.ops.parsing import stored_tensor
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType


def _message(summary_pb: pb.Summary) -> Any:
    made = np.empty((), object)
    made[()] = summary_pb.SerializeToString()
    return made


def _text(tag: Any) -> str:
    item = tag.item() if isinstance(tag, np.ndarray) else tag
    return str(item.decode("utf-8", "replace"))


def _tag(tag: Any, what: str = "tag") -> str:
    if np.ndim(tag):
        raise errors.InvalidArgumentError(
            f"{what} must be a scalar; its shape is {shapes.format_dims(np.shape(tag))}"
        )
    return _text(tag)


@op(
    """
    ScalarSummary(tags: string, values: T) -> summary: string
    T: type in reals
    """,
    shape=scalar,
)
def scalar_summary(ctx: Any, tags: Any, values: Any) -> Any:
    """Return a summary of numbers, each with its tag."""
    if np.shape(tags) != np.shape(values):
        raise errors.InvalidArgumentError(
            f"tags and values are not the same shape: {shapes.format_dims(np.shape(tags))} and "
            f"{shapes.format_dims(np.shape(values))}"
        )
    summary_pb = pb.Summary()
    numbers = np.asarray(values).reshape(-1).astype(np.float32)
    for tag, value in zip(np.asarray(tags, object).reshape(-1), numbers):
        summary_pb.value.add(tag=_text(tag), simple_value=float(value))
    return _message(summary_pb)


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


def histogram(values: Any) -> pb.HistogramProto:
    """Return the histogram of finite numbers; empty buckets in a row count as one."""
    flat = np.asarray(values).reshape(-1).astype(np.float64)
    limits = _limits()
    at = np.searchsorted(limits, flat, side="right")
    counts = np.bincount(at, minlength=len(limits))
    found = pb.HistogramProto(
        min=float(flat.min()) if flat.size else float(limits[-1]),
        max=float(flat.max()) if flat.size else float(limits[0]),
        num=flat.size,
        sum=float(flat.sum()),
        sum_squares=float(np.square(flat).sum()),
    )
    used = np.flatnonzero(counts)
    last = -1
    for index in used.tolist():
        if index > last + 1:
            found.bucket_limit.append(float(limits[index - 1]))
            found.bucket.append(0.0)
        found.bucket_limit.append(float(limits[index]))
        found.bucket.append(float(counts[index]))
        last = index
    if last < len(limits) - 1:
        found.bucket_limit.append(float(limits[-1]))
        found.bucket.append(0.0)
    return found


@op(
    """
    HistogramSummary(tag: string, values: T) -> summary: string
    T: type in reals = float
    """,
    shape=scalar,
)
def histogram_summary(ctx: Any, tag: Any, values: Any) -> Any:
    """Return a summary with the histogram of numbers.  Raises: InvalidArgumentError for nan."""
    name = _tag(tag)
    numbers = np.asarray(values).astype(np.float64)
    if np.isnan(numbers).any() or np.isinf(numbers).any():
        kind = "Nan" if np.isnan(numbers).any() else "Infinity"
        raise errors.InvalidArgumentError(f"{kind} in summary histogram for: {name}")
    summary_pb = pb.Summary()
    summary_pb.value.add(tag=name).histo.CopyFrom(histogram(numbers))
    return _message(summary_pb)


@op(
    """
    TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> summary: string
    T: type
    """,
    shape=scalar,
)
def tensor_summary(ctx: Any, tag: Any, tensor: Any, metadata: Any, *, T: DType) -> Any:
    """Return a summary that holds a tensor."""
    summary_pb = pb.Summary()
    value_pb = summary_pb.value.add(tag=_tag(tag))
    value_pb.tensor.CopyFrom(stored_tensor(tensor, T))
    serialized = metadata.item() if isinstance(metadata, np.ndarray) else metadata
    value_pb.metadata.SetInParent()
    with contextlib.suppress(DecodeError):  # as TensorFlow, which takes no notice of other bytes
        value_pb.metadata.CopyFrom(pb.SummaryMetadata.FromString(serialized))
    return _message(summary_pb)


@op(
    """
    MergeSummary(inputs: N * string) -> summary: string
    N: int >= 1
    """,
    shape=scalar,
)
def merge_summary(ctx: Any, inputs: list[Any]) -> Any:
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
    return _message(summary_pb)


not_differentiable("ScalarSummary", "HistogramSummary", "TensorSummaryV2", "MergeSummary")

_NOT_IN_NAMES = re.compile(r"[^-/\w\.]")


def _summary(op_name: str, name: str, family: str | None, collections: Any, values: Any) -> Tensor:
    """Make a summary op whose tag is its name, scopes included (a family's name leads it)."""
    clean = _NOT_IN_NAMES.sub("_", name).lstrip("/")
    if not clean:
        raise ValueError(f"{name!r} leaves no name for a summary")
    graph = get_default_graph()
    with graph.name_scope(clean if family is None else f"{family}/{clean}") as scope:
        tag = scope.rstrip("/") if family is None else f"{family}/{scope.rstrip('/')}"
        made: Tensor = apply_op(op_name, tag, values, name=scope)
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        graph.add_to_collection(key, made)
    return made


@export("summary.scalar")
def scalar_summary_of(
    name: str, tensor: Any, collections: Any = None, family: str | None = None
) -> Tensor:
    """Return a summary of a number, as a string; it is collected for merge_all."""
    return _summary("ScalarSummary", name, family, collections, tensor)


@export("summary.histogram")
def histogram_summary_of(
    name: str, values: Any, collections: Any = None, family: str | None = None
) -> Tensor:
    """Return a summary with the histogram of numbers; it is collected for merge_all."""
    return _summary("HistogramSummary", name, family, collections, values)


@export("summary.merge")
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Return one summary of several.  Run fails if two have the same tag."""
    made: Tensor = apply_op("MergeSummary", list(inputs), name=name)
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
