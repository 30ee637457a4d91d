"""Likely sequences of labels of a CTC network, by a search that keeps the best few prefixes.

Source: Graves, "Sequence transduction with recurrent neural networks" (2012), section 2.5;
tensorflow/core/util/ctc/ctc_beam_search.h for how prefixes are left.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.sparse import SparseTensor
from tideflow.wire.errors import FailedPreconditionError, InvalidArgumentError

_NEVER = -math.inf


def _log_sum(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    return a if b == _NEVER else a + math.log1p(math.exp(b - a))


class _Prefix:
    """Labels so far; logarithms of how likely they are, ending in a blank, in a label, and at all.

    The `old` ones are those before the step.
    """

    __slots__ = (
        *("blank", "children", "label", "last", "old_blank", "old_label", "old_total"),
        *("parent", "total"),
    )

    def __init__(self, parent: _Prefix | None, last: int) -> None:
        self.parent, self.last = parent, last
        self.children: dict[int, _Prefix] = {}
        self.leave()
        self.remember()

    def remember(self) -> None:
        self.old_blank, self.old_label, self.old_total = self.blank, self.label, self.total

    def leave(self) -> None:
        self.blank = self.label = self.total = _NEVER

    def before(self, label: int) -> float:
        """Return how likely the prefix was such that the label could follow as another one."""
        return self.old_blank if label == self.last else self.old_total

    def labels(self, merge_repeated: bool) -> list[int]:
        found: list[int] = []
        at, later = self, -1
        while at.parent is not None:
            if not merge_repeated or at.last != later:
                found.append(at.last)
            at, later = at.parent, at.last
        return found[::-1]


class _Beam:
    """The best prefixes of one step."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._heap: list[tuple[float, int, _Prefix]] = []
        self._count = 0

    def takes(self, total: float) -> bool:
        return total > _NEVER and (len(self._heap) < self._width or total > self._heap[0][0])

    def push(self, prefix: _Prefix) -> None:
        self._count += 1
        item = (prefix.total, -self._count, prefix)
        if len(self._heap) < self._width:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)[2].leave()

    def best_first(self) -> list[_Prefix]:
        return [prefix for _, _, prefix in sorted(self._heap, key=lambda item: item[:2])[::-1]]


def _step(prefixes: list[_Prefix], scores: Any, width: int) -> list[_Prefix]:
    """Return the best prefixes after a step, given the logarithms of its probabilities."""
    blank = len(scores) - 1
    values = scores.tolist()
    beam = _Beam(width)
    for prefix in prefixes:
        prefix.remember()
    for prefix in prefixes:
        parent = prefix.parent
        if parent is not None:
            grown = parent.before(prefix.last) if parent.total > _NEVER else _NEVER
            prefix.label = _log_sum(prefix.old_label, grown) + values[prefix.last]
        prefix.blank = prefix.old_total + values[blank]
        prefix.total = _log_sum(prefix.blank, prefix.label)
    for prefix in prefixes:
        beam.push(prefix)
    for prefix in prefixes:
        if beam.takes(prefix.old_total):
            _grow(prefix, values[:blank], beam)
    return beam.best_first()


def _grow(prefix: _Prefix, values: list[float], beam: _Beam) -> None:
    for label, score in enumerate(values):
        total = score + prefix.before(label)
        child = prefix.children.get(label)
        if child is not None and child.total > _NEVER:
            continue
        if not beam.takes(total):
            if child is not None:
                # It may have been pushed out in this very step; then it does not grow either.
                child.leave()
                child.remember()
            continue
        if child is None:
            child = prefix.children[label] = _Prefix(prefix, label)
        child.blank, child.label, child.total = _NEVER, total, total
        beam.push(child)


def _search(logits: Any, width: int) -> list[_Prefix]:
    """Return the best prefixes of one sequence of logits [time, classes], the best first."""
    root = _Prefix(None, -1)
    root.blank = root.total = 0.0
    found = [root]
    for row in logits:
        most = row.max()
        found = _step(found, row - (most + np.log(np.exp(row - most).sum())), width)
    return found


def _shape(c: ShapeContext) -> list[Dims]:
    batch = with_rank(c.inputs[0], 3, "inputs")[1]
    lengths = with_rank(c.inputs[1], 1, "sequence_length")[0]
    paths = c.attrs["top_paths"]
    rows = lengths if batch is None else batch
    return [*[(None, 2)] * paths, *[(None,)] * paths, *[(2,)] * paths, (rows, paths)]


@op(
    """
    CTCBeamSearchDecoder(inputs: T, sequence_length: int32) -> decoded_indices: top_paths * int64, \
decoded_values: top_paths * int64, decoded_shape: top_paths * int64, log_probability: T
    beam_width: int >= 1
    top_paths: int >= 1
    merge_repeated: bool = true
    T: type in {float, double} = float
    """,
    shape=_shape,
)
def ctc_beam_search_decoder_kernel(
    ctx: KernelContext,
    inputs: Array,
    sequence_length: Array,
    *,
    beam_width: int,
    top_paths: int,
    merge_repeated: bool,
) -> Any:
    """Return the likeliest sequences of labels as sparse tensors, and how likely they are."""
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor; its shape is {list(inputs.shape)}")
    steps, batch, _ = inputs.shape
    if not inputs.size:
        raise InvalidArgumentError(f"inputs of shape {list(inputs.shape)} have no elements")
    if sequence_length.ndim != 1:
        raise InvalidArgumentError("sequence_length is not a vector")
    if len(sequence_length) != batch or (sequence_length > steps).any():
        raise FailedPreconditionError(
            f"sequence_length {sequence_length.tolist()} must be of {batch} lengths up to {steps}"
        )
    if top_paths > beam_width:
        raise InvalidArgumentError("requested more paths than the beam width.")
    likely = np.zeros((batch, top_paths), inputs.dtype)
    paths: list[list[list[int]]] = [[] for _ in range(top_paths)]
    for row in range(batch):
        # A negative length is taken for zero.
        logits = inputs[: max(int(sequence_length[row]), 0), row].astype(np.float64)
        best = _search(logits, beam_width)
        if len(best) < top_paths:
            raise InvalidArgumentError("Less leaves in the beam search than requested.")
        likely[row] = [prefix.total for prefix in best[:top_paths]]
        for path, prefix in zip(paths, best):
            path.append(prefix.labels(merge_repeated))
    columns = [list(column) for column in zip(*map(_sparse, paths))]
    return (*columns, likely)


def _sparse(rows: list[list[int]]) -> tuple[Any, Any, Any]:
    places = [(row, at) for row, found in enumerate(rows) for at in range(len(found))]
    values = [label for found in rows for label in found]
    width = max(map(len, rows), default=0)
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array([len(rows), width], np.int64),
    )


not_differentiable("CTCBeamSearchDecoder")


@export("nn.ctc_beam_search_decoder")
def ctc_beam_search_decoder(
    inputs: TensorLike,
    sequence_length: TensorLike,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[SparseTensor], Tensor]:
    """Return the likeliest sequences of labels, found by a beam search.

    Args:
      inputs: logits, float32 or float64 [time, batch, classes]; the blank is the last class.
      sequence_length: int32 [batch].
      beam_width: how many prefixes are kept at each step.
      top_paths: how many sequences are wanted, at most beam_width.
      merge_repeated: whether neighbours that are the same become one in what is returned.
    Returns: top_paths int64 sparse tensors [batch, most labels], the likeliest first, and the
      logarithms of their probabilities [batch, top_paths].
    Raises: InvalidArgumentError, when run, where fewer sequences are found than wanted.
    Example:
      >>> logits = tf.math.log([[[0.8, 0.1, 0.1]], [[0.1, 0.1, 0.8]], [[0.8, 0.1, 0.1]]])
      >>> (decoded,), _ = tf.nn.ctc_beam_search_decoder(logits, [3], merge_repeated=True)
      >>> tf.Session().run(decoded).values.tolist()
      [0]
    """
    indices, values, sizes, likely = apply_op(
        "CTCBeamSearchDecoder",
        inputs,
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    return [SparseTensor(*parts) for parts in zip(indices, values, sizes)], likely


@export("nn.ctc_beam_search_decoder_v2")
@export_v2("nn.ctc_beam_search_decoder")
def ctc_beam_search_decoder_v2(
    inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Return the likeliest sequences of labels, found by a beam search; repeated ones stay as they
    are.

    Args:
      inputs: logits, float32 or float64 [time, batch, classes]; the blank is the last class.
      sequence_length: int32 [batch].
      beam_width: how many prefixes are kept at each step.
      top_paths: how many sequences are wanted, at most beam_width.
    Returns: top_paths int64 sparse tensors [batch, most labels], the likeliest first, and the
      logarithms of their probabilities [batch, top_paths].
    Raises: InvalidArgumentError, when run, where fewer sequences are found than wanted.
    Example:
      >>> logits = tf.math.log([[[0.8, 0.1, 0.1]], [[0.1, 0.1, 0.8]], [[0.8, 0.1, 0.1]]])
      >>> (decoded,), _ = tf.nn.ctc_beam_search_decoder(logits, [3])
      >>> decoded.values.numpy().tolist()
      [0, 0]
    """
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)
