"""Programs with one op each that a call cannot show: some outputs are not compared, names of attrs
are not TensorFlow's functions', random values are each framework's own (see programs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.programs import Build, Feeds
from ops.bad_inputs.state_programs import array_of, reference, rows, stacked, variable
from tideflow.graph.building import apply_op

F = np.float32
I32 = np.int32
I64 = np.int64
X = np.arange(6, dtype=F).reshape(3, 2)
Runs = Sequence[Sequence[Any]]

# ---- random values, of which the form is compared


def _form(drawn: Any) -> Runs:
    return [[tf.shape(drawn)]]


def _drawn(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(np.array([2, 3])), dtype=F, seed=1, seed2=2)]]


def _drawn_integers(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(np.array([2, 3], I32)), feed(I64(-5)), feed(I64(9)), seed=1)]]


def _shuffled(op: str, feed: Feeds) -> Runs:
    """Shuffle rows: which of them are there is told by their sums."""
    drawn = apply_op(op, feed(X), seed=1, seed2=2)
    return [[tf.shape(drawn), tf.reduce_sum(drawn)]]


def _events(op: str, feed: Feeds) -> Runs:
    feed.producer = 24
    return [[apply_op(op, feed(np.array([2, 3], I32)), feed(F([1, 20])), seed=1, seed2=2)]]


def _successes(op: str, feed: Feeds) -> Runs:
    state = feed(np.array([1, 2, 3]))
    handle, begin = variable(tf.zeros_like(state))
    # The value is the variable's own then: TensorFlow moves the state in place, or a copy of it.
    added = apply_op("AssignAddVariableOp", handle, state)
    inputs = [feed(I64(1)), feed(np.array([4, 2], I32)), feed(F([5, 9])), feed(F([0.5, 0.25]))]
    return [[begin], [added], [apply_op(op, handle, *inputs, dtype=F)]]


_STATE = np.array([1, 2, 3])


def _drawn_from_a_state(op: str, feed: Feeds) -> Runs:
    handle, begin = variable(tf.constant(_STATE))
    inputs = [feed(I64(1)), feed(np.array([4, 2], I32))]
    attrs: dict[str, Any] = {"dtype": F}
    if "Int" in op:
        attrs = {"dtype": np.int64}
    if op == "StatefulUniformInt":
        inputs += [feed(I64(-3)), feed(I64(9))]
    return [[begin], [apply_op(op, handle, *inputs, **attrs)]]


def _skipped(op: str, feed: Feeds) -> Runs:
    handle, begin = variable(tf.constant(_STATE))
    if op == "RngSkip":
        skipped = apply_op(op, handle, feed(I64(1)), feed(I64(5)))
    else:
        skipped = apply_op(op, handle, feed(I32(1)), feed(np.uint64(5)))
    return [[begin], [skipped], [apply_op("ReadVariableOp", handle, dtype=np.int64)]]


# ---- some of the outputs


def _normalization_grad(op: str, feed: Feeds) -> Runs:
    rng = np.random.default_rng(0)
    grad, x = (rng.normal(size=(2, 2, 3, 2)).astype(F) for _ in range(2))
    scale, mean = rng.normal(size=(2, 2)).astype(F)
    given = [feed(value) for value in (grad, x, scale, mean, np.ones(2, F))]
    return [list(apply_op(op, *given, tf.zeros([0]), is_training=True))[:3]]


def _eigenvalues(op: str, feed: Feeds) -> Runs:
    attrs = {"Tout": np.complex64} if op == "Eig" else {}
    values = apply_op(op, feed(np.diag(F([1, 2, 3]))), compute_v=False, **attrs)[0]
    return [[tf.sort(tf.real(values) if attrs else values)]]


def _png(op: str, feed: Feeds) -> Runs:
    return [[apply_op("DecodePng", apply_op(op, feed(np.full((2, 2, 3), 7, np.uint8))))]]


def _image(op: str, feed: Feeds) -> Runs:
    """Show an image: how its file is packed is each framework's own."""
    summary = apply_op(op, feed("tag"), feed(np.ones((2, 2, 2, 3), np.uint8)), max_images=1)
    return [[tf.shape(summary)]]


def _squeezed(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(X[None]), squeeze_dims=[0])], [apply_op(op, feed(X[:, :1]))]]


def _alternative(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(X), shape=[None, 2])]]


def _eager_constant(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(X), name="made")]]


# ---- variables, tables, queues


def _counted(op: str, feed: Feeds) -> Runs:
    if op == "CountUpTo":
        made, begin = reference(I64(5))
        changed = apply_op("Assign", made, feed(I64(5)))
        return [[begin], [changed], *[[apply_op(op, made, limit=7)]] * 3]
    handle, begin = variable(feed(I64(5)))
    return [[begin], *[[apply_op(op, handle, limit=7, T=I64)]] * 3]


def _of_one_step(op: str, feed: Feeds) -> Runs:
    kept = apply_op("TemporaryVariable", shape=(3, 2), dtype=F, var_name="t")
    first = apply_op("Assign", kept, feed(X))
    return [[apply_op("DestroyTemporaryVariable", first, var_name="t")]]


def _several(op: str, feed: Feeds) -> Runs:
    attrs = {"containers": [""], "shared_names": ["v"], "dtypes": [F], "N": 1, "shapes": [[3, 2]]}
    handle = apply_op("_VarHandlesOp", **attrs, name="handles")[0]
    begin = apply_op("AssignVariableOp", handle, feed(X))
    return [[begin], list(apply_op("_ReadVariablesOp", [handle], dtypes=[F], name="read"))]


def _by_priority(op: str, feed: Feeds) -> Runs:
    made = apply_op(op, component_types=[F], shapes=[[2]], capacity=9)
    filled = apply_op("QueueEnqueueManyV2", made, [feed(np.array([3, 1, 2])), feed(X)])
    closed = apply_op("QueueCloseV2", made)
    taken = apply_op("QueueDequeueManyV2", made, feed(I32(2)), component_types=[I64, F])
    return [[filled], [closed], list(taken)]


# ---- lists and arrays

_SHAPE = np.array([2], I32)


def _list(op: str, feed: Feeds) -> Runs:
    if op == "TensorListConcat":
        pieces = apply_op(
            "TensorListSplit", feed(X), np.array([-1, 2], I32), feed(np.array([1, 2]))
        )
        return [list(apply_op(op, pieces, element_dtype=F, element_shape=[None, 2]))]
    if op == "TensorListConcatLists":
        return [[stacked(apply_op(op, rows(feed), rows(feed), element_dtype=F))]]
    if op == "TensorListPushBackBatch":
        lists = tf.stack([rows(feed), rows(feed)])
        batch = apply_op(op, lists, feed(X[:2]))
        return [[stacked(batch[0])]]
    count = [feed(I32(3))] if op == "TensorListScatterV2" else []
    made = apply_op(op, feed(X[:2]), feed(np.array([2, 0], I32)), feed(_SHAPE), *count)
    return [[stacked(made)]]


def _array_grad(op: str, feed: Feeds) -> Runs:
    handle, flow = array_of(feed(X))
    made, after = apply_op(op, handle, flow, feed(np.array([2], I32)), source="g")
    after = apply_op("TensorArrayWriteV3", made, 0, feed(np.stack([X, X])), after)
    return [[apply_op("TensorArrayReadV3", made, 0, after, dtype=F)]]


def _composed(op: str, feed: Feeds) -> Runs:
    return [[apply_op(op, feed(X), op_names=["Abs", "Log1p"], name="f")]]


_RAGGED = {"Tvalues": F, "Tsplits": I64}


def _ragged(op: str, feed: Feeds) -> Runs:
    """Put a ragged tensor into variants, and take it out."""
    splits, values = [feed(I64([0, 1, 3])), feed(I64([0, 2, 2, 3]))], feed(F([1, 2, 3]))
    runs = []
    for batched in (False, True):
        held = apply_op("RaggedTensorToVariant", splits, values, batched_input=batched)
        attrs = {"input_ragged_rank": -1, "output_ragged_rank": 2, **_RAGGED}
        nested, found = apply_op("RaggedTensorFromVariant", held, **attrs)
        runs.append([*nested, found])
    return runs


def _composite(op: str, feed: Feeds) -> Runs:
    """Put tensors into a variant, and take them out."""
    attrs: dict[str, Any] = {"metadata": b"\n\x02\x08\x03"}
    held = apply_op("CompositeTensorVariantFromComponents", [feed(X), feed(I64([1]))], **attrs)
    attrs["Tcomponents"] = [F, I64]
    return [apply_op("CompositeTensorVariantToComponents", held, **attrs)]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (_drawn, "RandomUniform RandomStandardNormal TruncatedNormal"),
    (_drawn_integers, "RandomUniformInt"),
    (_shuffled, "RandomShuffle"),
    (_events, "RandomPoisson"),
    (_successes, "StatefulRandomBinomial"),
    (
        _drawn_from_a_state,
        "StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt "
        "StatefulUniformInt",
    ),
    (_skipped, "RngSkip RngReadAndSkip"),
    (_normalization_grad, "FusedBatchNormGradV3"),
    (_eigenvalues, "Eig SelfAdjointEigV2"),
    (_png, "EncodePng"),
    (_image, "ImageSummary"),
    (_squeezed, "Squeeze"),
    (_alternative, "PlaceholderWithDefault"),
    (_eager_constant, "_EagerConst"),
    (_counted, "CountUpTo ResourceCountUpTo"),
    (_of_one_step, "TemporaryVariable DestroyTemporaryVariable"),
    (_several, "_VarHandlesOp _ReadVariablesOp"),
    (_by_priority, "PriorityQueueV2"),
    (
        _list,
        "TensorListConcat TensorListConcatLists TensorListPushBackBatch TensorListScatter "
        "TensorListScatterV2",
    ),
    (_array_grad, "TensorArrayGradWithShape"),
    (_composed, "_UnaryOpsComposition"),
    (_ragged, "RaggedTensorToVariant RaggedTensorFromVariant"),
    (_composite, "CompositeTensorVariantFromComponents CompositeTensorVariantToComponents"),
]


def other_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    return {op: partial(builder, op) for builder, ops in _BUILDERS for op in ops.split()}
