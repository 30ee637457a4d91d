"""Connectionist temporal classification: the loss over all alignments, and decoders.

Source: Graves et al., "Connectionist Temporal Classification" (2006);
tensorflow/core/util/ctc, core/kernels/ctc_loss_op.cc, ctc_decoder_ops.cc.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.errors import FailedPreconditionError, InvalidArgumentError


def _loss_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    if given is not None and len(given) != 3:
        raise ValueError(f"inputs must be [time, batch, classes]; their rank is {len(given)}")
    return [None if given is None else (given[1],), given]


def _log_softmax(x: Array) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _rows(indices: Any, values: Any, batch: int, blank: int) -> list[list[int]]:
    """Return each row's labels, up to the first one from the blank on.

    Raises: InvalidArgumentError for a negative label, or a further one after that end.
    """
    rows = [tuple(at) for at in indices.tolist()]
    if len(rows) != len(values) or any(a >= b for a, b in itertools.pairwise(rows)):
        raise InvalidArgumentError(
            f"labels_indices must rise, one for each of {len(values)} labels; found {rows}"
        )
    if rows and min(column for _, column in rows) < 0:
        raise InvalidArgumentError(f"labels_indices must not be negative; found {rows}")
    found: list[list[int]] = [[] for _ in range(batch)]
    ended: set[int] = set()
    for (row, _), value in zip(indices.tolist(), values.tolist()):
        if not 0 <= row < batch:
            raise InvalidArgumentError(f"labels name row {row} of a batch of {batch}")
        if value < 0 or (value < blank and row in ended):
            what = "is negative" if value < 0 else f"follows one that is not below {blank}"
            raise InvalidArgumentError(f"label {value} of row {row} {what}")
        if value >= blank:
            ended.add(row)
        else:
            found[row].append(value)
    return found


def _without_repeats(labels: list[int]) -> list[int]:
    return [label for i, label in enumerate(labels) if i == 0 or label != labels[i - 1]]


def _alignments(
    logs: Array, labels: list[int], blank: int, merge_repeated: bool
) -> tuple[float, Any]:
    """Return the logarithm of the sum over all alignments of a sequence with its labels, and each
    step's share of it by class.

    logs: [time, classes] log-probabilities.
    """
    path = np.full(2 * len(labels) + 1, blank)
    path[1::2] = labels
    emitted = logs[:, path]
    # From where one may skip the blank in between: not where a label would be repeated.
    skips = np.zeros(len(path), bool)
    skips[2:] = path[2:] != blank
    stays = np.ones(len(path), bool)
    if merge_repeated:
        skips[2:] &= path[2:] != path[:-2]
    else:
        stays = path == blank  # a label that is emitted again is another one
    forward = _walk(emitted, skips, stays)
    # Backwards, the same walk with all turned around.
    turned = np.zeros(len(path), bool)
    turned[2:] = skips[::-1][: len(path) - 2]
    backward = _walk(emitted[::-1, ::-1], turned, stays[::-1])[::-1, ::-1] - emitted
    total = np.logaddexp.reduce(forward[-1, -2:])
    shares = np.zeros_like(logs)
    if np.isfinite(total):
        weights = np.exp(forward + backward - total)
        np.add.at(shares.T, path, weights.T)
    return float(total), shares


def _walk(emitted: Array, skips: Array, stays: Array) -> Any:
    """Return the logarithm of the sum over walks to each place, by step, emissions included.

    skips, stays: to which places one may come from two places before, or from the place itself.
    """
    steps, places = emitted.shape
    found = np.full((steps, places), -np.inf)
    found[0, :2] = emitted[0, :2]
    for t in range(1, steps):
        before = found[t - 1]
        here = np.where(stays, before, -np.inf)
        here[1:] = np.logaddexp(here[1:], before[:-1])
        here[2:] = np.where(skips[2:], np.logaddexp(here[2:], before[:-2]), here[2:])
        found[t] = here + emitted[t]
    return found


@op(
    """
    CTCLoss(inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32)
      -> loss: T, gradient: T
    preprocess_collapse_repeated: bool = false
    ctc_merge_repeated: bool = true
    ignore_longer_outputs_than_inputs: bool = false
    T: type in {float, double} = float
    """,
    shape=_loss_shape,
)
def ctc_loss_kernel(
    ctx: KernelContext,
    inputs: Array,
    labels_indices: Array,
    labels_values: Array,
    sequence_length: Array,
    *,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> Any:
    """Return the loss of each sequence, and its gradient for the inputs.

    Raises: InvalidArgumentError for labels or lengths that do not fit.
    """
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs must have rank 3; found {list(inputs.shape)}")
    steps, batch, classes = inputs.shape
    _check_lengths(sequence_length, batch, steps)
    blank = classes - 1
    loss, slope = np.zeros(batch, inputs.dtype), np.zeros_like(inputs)
    with np.errstate(invalid="ignore"):
        for row, labels in enumerate(_rows(labels_indices, labels_values, batch, blank)):
            length = int(sequence_length[row])
            if preprocess_collapse_repeated:
                labels = _without_repeats(labels)
            if len(labels) > length:
                if ignore_longer_outputs_than_inputs:
                    continue
                raise InvalidArgumentError(
                    f"sequence {row} has {length} steps, too few for its {len(labels)} labels"
                )
            if not length:
                continue
            logs = _log_softmax(inputs[:length, row].astype(np.float64))
            total, shares = _alignments(logs, labels, blank, ctc_merge_repeated)
            loss[row] = -total
            slope[:length, row] = np.exp(logs) - shares
    return loss, slope


def _check_lengths(
    lengths: Any, batch: int, steps: int, error: type[Exception] = InvalidArgumentError
) -> None:
    if lengths.shape != (batch,):
        raise error(f"sequence_length must have shape [{batch}]; found {list(lengths.shape)}")
    if batch and (lengths.min() < 0 or lengths.max() > steps):
        raise error(f"sequence_length must lie in [0, {steps}]; found {lengths}")


@gradient("CTCLoss")
def ctc_loss_gradient(op: Operation, grad: Tensor, _: Tensor) -> list[Any]:
    """Scale what the op has found."""
    found = apply_op("ExpandDims", apply_op("ExpandDims", grad, 0), 2)
    return [apply_op("Mul", found, apply_op("StopGradient", op.outputs[1])), None, None, None]


def _decoded_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    batch = None if given is None else given[1]
    return [(None, 2), (None,), (2,), (batch, 1)]


@op(
    """
    CTCGreedyDecoder(inputs: T, sequence_length: int32)
      -> decoded_indices: int64, decoded_values: int64, decoded_shape: int64, log_probability: T
    merge_repeated: bool = false
    blank_index: int = -1
    T: type in {float, double} = float
    """,
    shape=_decoded_shape,
)
def ctc_greedy_decoder_kernel(
    ctx: KernelContext,
    inputs: Array,
    sequence_length: Array,
    *,
    merge_repeated: bool,
    blank_index: int,
) -> Any:
    """Return the most likely class of each step without blanks, as a sparse tensor."""
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs must have rank 3; found {list(inputs.shape)}")
    steps, batch, classes = inputs.shape
    if not inputs.size:
        raise InvalidArgumentError(f"inputs of shape {list(inputs.shape)} have no elements")
    if sequence_length.ndim != 1:
        raise InvalidArgumentError(
            f"sequence_length must be a vector; its shape is {list(sequence_length.shape)}"
        )
    # A negative length is taken for zero.
    sequence_length = np.maximum(sequence_length, 0)
    _check_lengths(sequence_length, batch, steps, FailedPreconditionError)
    if not -classes <= blank_index < classes:
        raise InvalidArgumentError(f"blank_index {blank_index} lies outside {classes} classes")
    blank = blank_index % classes
    best = inputs.argmax(axis=2) if inputs.size else np.zeros((steps, batch), int)
    rows, scores = [], np.zeros((batch, 1), inputs.dtype)
    for row in range(batch):
        path = best[: int(sequence_length[row]), row]
        scores[row, 0] = -inputs[np.arange(len(path)), row, path].sum()
        is_new = np.ones(len(path), bool)
        if merge_repeated:
            is_new[1:] = path[1:] != path[:-1]
        rows.append(path[is_new & (path != blank)])
    places = [(row, i) for row, found in enumerate(rows) for i in range(len(found))]
    width = max((len(found) for found in rows), default=0)
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64),
        np.array([batch, width], np.int64),
        scores,
    )


not_differentiable("CTCGreedyDecoder")


# ---- public functions


@export("nn.ctc_greedy_decoder")
def ctc_greedy_decoder(
    inputs: TensorLike,
    sequence_length: TensorLike,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseTensor], Tensor]:
    """Return the most likely class of each step, without blanks.

    Args:
      inputs: logits, float32 or float64 [time, batch, classes].
      sequence_length: int32 [batch].
      merge_repeated: whether neighbours that are the same count once.
      blank_index: which class is the blank; the last by default, negative ones count from there.
    Returns: a list of one int64 sparse tensor [batch, most labels], and the negative sums [batch,
      1] of the logits taken.
    Raises: ValueError for inputs of another rank; InvalidArgumentError, when run, for a blank that
      is no class.
    Example:
      >>> logits = tf.math.log([[[0.8, 0.1, 0.1]], [[0.1, 0.1, 0.8]], [[0.1, 0.7, 0.2]]])
      >>> (decoded,), _ = tf.nn.ctc_greedy_decoder(logits, [3])
      >>> decoded.values.numpy().tolist()
      [0, 1]
    """
    *parts, scores = apply_op(
        "CTCGreedyDecoder",
        inputs,
        sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(*parts)], scores


@export("nn.ctc_loss")
def ctc_loss(
    labels: SparseTensor,
    inputs: TensorLike | None = None,
    sequence_length: TensorLike | None = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: TensorLike | None = None,
) -> Tensor:
    """Return the negative logarithm of the probability of labels, over all alignments.

    Args:
      labels: int32 [batch, most labels], sparse; the blank is the last class.
      inputs: logits, float32 or float64 [time, batch, classes], or [batch, time, classes] unless
        time_major; `logits` is another name for it.
      sequence_length: int32 [batch].
      preprocess_collapse_repeated: whether neighbours that are the same count once in labels.
      ctc_merge_repeated: whether a label that is emitted again in the next step is the same one.
      ignore_longer_outputs_than_inputs: whether labels that do not fit give 0 rather than an error.
    Returns: [batch].
    Raises: TypeError for labels that are not sparse; InvalidArgumentError, when run, for labels and
      lengths that do not fit.
    Example:
      >>> labels = tf.SparseTensor([[0, 0]], tf.constant([0]), [1, 1])
      >>> loss = tf.nn.ctc_loss(labels, tf.zeros([2, 1, 2]), sequence_length=[2])
      >>> print(tf.Session().run(loss).round(4))
      [0.2877]
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(f"labels must be a SparseTensor; found {type(labels).__name__}")
    x = convert_to_tensor(inputs if logits is None else logits)
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = apply_op("Cast", x, DstT=dtypes.float32) if narrow else x
    loss: Tensor = apply_op(
        "CTCLoss",
        wide if time_major else apply_op("Transpose", wide, [1, 0, 2]),
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )[0]
    return apply_op("Cast", loss, DstT=x.dtype) if narrow else loss


@export("nn.ctc_loss_v2")
@export_v2("nn.ctc_loss")
def ctc_loss_v2(
    labels: Any,
    logits: TensorLike,
    label_length: TensorLike,
    logit_length: TensorLike,
    logits_time_major: bool = True,
    unique: TensorLike | None = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the negative logarithm of the probability of labels, over all alignments.

    Args:
      labels: int32 [batch, most labels], dense or sparse.
      logits: float32 or float64 [time, batch, classes], or [batch, time, classes] unless
        logits_time_major.
      label_length: int32 [batch], for dense labels; None for sparse ones.
      logit_length: int32 [batch].
      unique: accepted; it spares TensorFlow some work.
      blank_index: which class is the blank; 0 for dense labels by default, and must be given for
        sparse ones; negative ones count from the end.
    Returns: [batch]; infinite for dense labels that do not fit into the steps.
    Raises: ValueError for sparse labels without blank_index.
    Example:
      >>> loss = tf.nn.ctc_loss([[1]], tf.zeros([2, 1, 2]), label_length=[1], logit_length=[2])
      >>> print(loss.numpy().round(4))
      [0.2877]
    """
    del unique
    own = "ctc_loss" if isinstance(labels, SparseTensor) else "ctc_loss_dense"
    with get_default_graph().name_scope(name or own):
        x = convert_to_tensor(logits)
        classes = x.dims[-1] if x.dims else None
        if classes is None:
            raise ValueError("how many classes the logits have must be known")
        is_sparse = isinstance(labels, SparseTensor)
        if blank_index is None:
            if is_sparse:
                raise ValueError("blank_index must be given for sparse labels")
            blank_index = 0
        blank = blank_index % classes
        lengths = apply_op("Cast", convert_to_tensor(logit_length), DstT=dtypes.int32)
        if not is_sparse and blank == 0:
            counts = (label_length, lengths)
            return _loss_with_blank_labels(labels, x, *counts, logits_time_major)
        if blank != classes - 1:
            order = [*(i for i in range(classes) if i != blank), blank]
            x = apply_op("GatherV2", x, order, -1)
        if is_sparse:
            moved = labels.with_values(_past(labels.values, blank))
            return ctc_loss(moved, x, lengths, time_major=logits_time_major)
        return _dense_loss(_past(labels, blank), x, label_length, lengths, logits_time_major)


def _past(labels: object, blank: int) -> Tensor:
    """Return labels as they count once the blank has moved to the end.

    A label that is the blank stands for the class before it, as in TensorFlow.
    """
    given = apply_op("Cast", convert_to_tensor(labels), DstT=dtypes.int32)
    beyond = apply_op("Cast", apply_op("GreaterEqual", given, blank), DstT=dtypes.int32)
    made: Tensor = given - beyond
    return made


def _loss_with_blank_labels(
    labels: object, x: Any, label_length: TensorLike, lengths: Tensor, time_major: bool
) -> Tensor:
    """Return the loss of dense labels for a blank of 0, which may be among them.

    As a label it is a class of its own that is as likely as the blank.  What this class adds to the
    sum of likelihoods in each step is taken off again: a path has one class in each step.
    """
    narrow = x.dtype in (dtypes.float16, dtypes.bfloat16)
    logs = apply_op("LogSoftmax", apply_op("Cast", x, DstT=dtypes.float32) if narrow else x)
    logs = logs if time_major else apply_op("Transpose", logs, [1, 0, 2])
    blank = logs[:, :, :1]
    wide = apply_op("ConcatV2", [logs[:, :, 1:], blank, blank], 2)
    given = apply_op("Cast", convert_to_tensor(labels), DstT=dtypes.int32)
    own = x.dims[-1] - 1
    moved = apply_op("SelectV2", apply_op("Equal", given, 0), own, given - 1)
    loss: Any = _dense_loss(moved, wide, label_length, lengths, True)
    added = apply_op("Log1p", apply_op("Exp", blank[:, :, 0]))
    steps = apply_op("Range", 0, apply_op("Shape", added)[0], 1)
    is_step = apply_op("Less", apply_op("ExpandDims", steps, 1), lengths)
    zeros = apply_op("ZerosLike", added)
    loss = loss - apply_op("Sum", apply_op("SelectV2", is_step, added, zeros), [0])
    made: Tensor = apply_op("Cast", loss, DstT=x.dtype) if narrow else loss
    return made


def _dense_loss(
    given: Any, x: Tensor, label_length: TensorLike, lengths: Tensor, time_major: bool
) -> Tensor:
    """Return the loss of dense labels, for the blank at the end."""
    counts = apply_op("Cast", convert_to_tensor(label_length), DstT=dtypes.int32)
    sizes = apply_op("Shape", given, out_type=dtypes.int64)
    width = apply_op("StridedSlice", apply_op("Shape", given), [1], [2], [1], shrink_axis_mask=1)
    places = apply_op("Range", 0, width, 1)
    is_label = apply_op("Less", places, apply_op("ExpandDims", counts, 1))
    indices = apply_op("Where", is_label)
    sparse = SparseTensor(indices, apply_op("GatherNd", given, indices), sizes)
    loss = ctc_loss(
        sparse, x, lengths, ignore_longer_outputs_than_inputs=True, time_major=time_major
    )
    # Between two labels that are the same there has to be a blank.
    same = apply_op("Equal", given[:, 1:], given[:, :-1])
    repeats = apply_op("LogicalAnd", same, is_label[:, 1:])
    needed = counts + apply_op("Sum", apply_op("Cast", repeats, DstT=dtypes.int32), [1])
    infinite = convert_to_tensor(np.inf, loss.dtype)
    made: Tensor = apply_op("SelectV2", apply_op("Greater", needed, lengths), infinite, loss)
    return made


@export("nn.ctc_unique_labels")
def ctc_unique_labels(labels: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return each row's distinct labels, and where each label is among them.

    Args:
      labels: int32 or int64 [batch, most labels].
    Returns: the distinct labels (int64), filled with zeros, and indices (int32), both
      [batch, most labels].
    Example:
      >>> distinct, places = tf.nn.ctc_unique_labels([[3, 4, 4, 3]])
      >>> distinct.numpy().tolist(), places.numpy().tolist()
      ([[3, 4, 0, 0]], [[0, 1, 1, 0]])
    """
    with get_default_graph().name_scope(name or "ctc_unique_labels"):
        given = apply_op("Cast", convert_to_tensor(labels), DstT=dtypes.int64)
        width = apply_op("Shape", given)[1]
        rows = apply_op("Unpack", given, num=given.shape[0])
        values, places = [], []
        for row in rows:
            distinct, where = apply_op("Unique", row)
            missing = width - apply_op("Size", distinct)
            values.append(apply_op("Pad", distinct, [[0, missing]]))
            places.append(where)
        return apply_op("Pack", values), apply_op("Pack", places)


@export("nn.collapse_repeated")
def collapse_repeated(
    labels: TensorLike, seq_length: TensorLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return rows in which neighbours that are the same count once, and their lengths.

    Args:
      labels: integers [batch, most labels].
      seq_length: integers [batch], how many labels of each row count.
    Returns: labels [batch, most labels that are left], filled with zeros, and lengths [batch].
    Example:
      >>> labels, lengths = tf.nn.collapse_repeated([[1, 1, 2, 1], [3, 3, 9, 9]], seq_length=[4, 2])
      >>> labels.numpy().tolist(), lengths.numpy().tolist()
      ([[1, 2, 1], [3, 0, 0]], [3, 1])
    """
    with get_default_graph().name_scope(name or "collapse_repeated_labels"):
        given = convert_to_tensor(labels)
        lengths = apply_op("Cast", convert_to_tensor(seq_length), DstT=dtypes.int32)
        width = apply_op("Shape", given)[1]
        within = apply_op(
            "Less", apply_op("Range", 0, width, 1), apply_op("ExpandDims", lengths, 1)
        )
        first = apply_op("OnesLike", within[:, :1])
        differs = apply_op("NotEqual", given[:, 1:], given[:, :-1])
        kept = apply_op("LogicalAnd", apply_op("ConcatV2", [first, differs], 1), within)
        numbers = apply_op("Cast", kept, DstT=dtypes.int32)
        counts = apply_op("Sum", numbers, [1])
        # Each that is kept goes where as many were kept before it.
        at = apply_op("Where", kept)
        columns = apply_op("GatherNd", apply_op("Cumsum", numbers, 1, exclusive=True), at)
        rows = apply_op("Cast", at[:, 0], DstT=dtypes.int32)
        places = apply_op("Pack", [rows, columns], axis=1)
        sizes = apply_op("Pack", [apply_op("Shape", given)[0], apply_op("Max", counts, [0])])
        return apply_op("ScatterNd", places, apply_op("GatherNd", given, at), sizes), counts
