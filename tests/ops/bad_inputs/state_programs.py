"""Programs with one op each on variables, stacks, arrays and lists of tensors, queues,
accumulators and tables, whose inputs are fed (see programs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.programs import Build, Feeds
from ops.update_inputs import update_inputs
from tideflow.graph.building import apply_op
from tideflow.graph.op_def import get_op_def, registered_ops

F = np.float32
X = np.arange(6, dtype=F).reshape(3, 2)
Runs = Sequence[Sequence[Any]]

# ---- variables


def variable(value: Any, name: str = "v") -> tuple[Any, Any]:
    """Return a variable's handle, and what gives it its value, a tensor."""
    dtype = value.dtype
    handle = apply_op("VarHandleOp", dtype=dtype, shape=None, shared_name=name, name=name)
    return handle, apply_op("AssignVariableOp", handle, value)


def reference(value: Any, name: str = "v") -> tuple[Any, Any]:
    """Return a reference to a variable, and what gives it its value."""
    shape, dtype = value.shape, value.dtype
    made = apply_op("VariableV2", shape=shape, dtype=dtype, shared_name=name, name=name)
    return made, apply_op("Assign", made, tf.constant(value)).op


def _update_values(op: str) -> tuple[list[Any], list[Any]]:
    """Return old values and other inputs of an update op."""
    if "Apply" in op:
        return update_inputs(op, F, 0.05, -0.5)
    old = np.arange(12, dtype=F).reshape(4, 3)
    if "ScatterNd" in op:
        return [old], [np.array([[2, 1], [0, 0]], np.int32), F([5, 7])]
    if "Scatter" in op:
        return [old], [np.array([2, 0], np.int32), np.full((2, 3), 2, F)]
    if "Strided" in op:
        ends = [np.array(x, np.int32) for x in ([1, 0], [4, 2], [2, 1])]
        return [old], [*ends, np.full((2, 2), 9, F)]
    return [old], [np.full((4, 3), 2, F)]


def updating(op: str, feed: Feeds) -> Runs:
    """Change variables; their own values are fed too where they have no fixed shape."""
    olds, others = _update_values(op)
    if get_op_def(op).inputs[0].is_ref:
        made = [reference(old, f"v{i}") for i, old in enumerate(olds)]
    else:
        made = [variable(feed(old), f"v{i}") for i, old in enumerate(olds)]
    handles = [handle for handle, _ in made]
    changed = apply_op(op, *handles, *map(feed, others))
    if get_op_def(op).inputs[0].is_ref:
        return [[begin for _, begin in made], [changed], handles]
    values = [apply_op("ReadVariableOp", handle, dtype=F) for handle in handles]
    return [[begin for _, begin in made], [changed], values]


def gathering(op: str, feed: Feeds) -> Runs:
    handle, begin = variable(feed(np.arange(24, dtype=F).reshape(2, 3, 4)))
    found = apply_op(op, handle, feed(np.array([[1, 1], [0, 1]], np.int32)), dtype=F)
    return [[begin], [found]]


def reading(op: str, feed: Feeds) -> Runs:
    handle, begin = variable(feed(X))
    if op == "AssignVariableOp":
        return [[begin], [apply_op("VariableShape", handle)]]
    attrs = {"dtype": F} if op == "ReadVariableOp" else {}
    return [[begin], [apply_op(op, handle, **attrs)]]


def assigning(op: str, feed: Feeds) -> Runs:
    made, begin = reference(X)
    return [[begin], [apply_op(op, made, feed(X))], [made]]


# ---- what belongs to one step


def array(op: str, feed: Feeds) -> Runs:
    """Run one op of arrays of tensors; the array has two elements."""
    size = feed(np.int32(3)) if op == "TensorArrayV3" else 3
    handle, flow = apply_op("TensorArrayV3", size, dtype=F, dynamic_size=op == "TensorArraySplitV3")
    write = partial(apply_op, "TensorArrayWriteV3", handle)
    if op in ("TensorArrayScatterV3", "TensorArraySplitV3"):
        second = np.array([2, 0, 1], np.int32)
        if op == "TensorArraySplitV3":
            flow = apply_op(op, handle, feed(X), feed(np.array([1, 0, 2])), flow)
        else:
            flow = apply_op(op, handle, feed(second), feed(X), flow)
        return [[apply_op("TensorArrayReadV3", handle, 1, flow, dtype=F)]]
    is_write = op == "TensorArrayWriteV3"
    flow = write(feed(np.int32(0)) if is_write else 0, feed(X), flow)
    flow = write(1, feed(X + 1), flow)
    flow = write(2, tf.constant(X), flow)
    if op in ("TensorArrayV3", "TensorArrayWriteV3"):
        return [[apply_op("TensorArrayReadV3", handle, 0, flow, dtype=F)]]
    if op == "TensorArrayReadV3":
        return [[apply_op(op, handle, feed(np.int32(1)), flow, dtype=F)]]
    if op == "TensorArrayGatherV3":
        return [[apply_op(op, handle, feed(np.array([1, 0], np.int32)), flow, dtype=F)]]
    if op == "TensorArrayConcatV3":
        return [list(apply_op(op, handle, flow, dtype=F))]
    assert op == "TensorArrayGradV3"
    made, after = apply_op(op, handle, flow, source="g")
    after = apply_op("TensorArrayWriteV3", made, feed(np.int32(1)), feed(X), after)
    return [[apply_op("TensorArrayReadV3", made, 1, after, dtype=F)]]


def array_of(value: Any) -> tuple[Any, Any]:
    """Return the handle and the flow of an array of one tensor."""
    handle, flow = apply_op("TensorArrayV3", 1, dtype=F)
    return handle, apply_op("TensorArrayWriteV3", handle, 0, value, flow)


def stack(op: str, feed: Feeds) -> Runs:
    made = apply_op("StackV2", feed(np.int32(1)), elem_type=F)
    pushed = apply_op("StackPushV2", made, feed(X))
    with tf.control_dependencies([pushed]):
        pushed = apply_op("StackPushV2", made, pushed) if op == "StackPushV2" else pushed
    with tf.control_dependencies([pushed]):
        popped = apply_op("StackPopV2", made, elem_type=F)
    with tf.control_dependencies([popped]):
        again = apply_op("StackPopV2", made, elem_type=F)
    return [[popped], [again]] if op == "StackPopV2" else [[popped]]


# ---- lists

_SHAPE = np.array([2], np.int32)
_WIDE = np.array([-1, 2], np.int32)


def rows(feed: Feeds) -> Any:
    return apply_op("TensorListFromTensor", feed(X), feed(_SHAPE))


def stacked(made: Any) -> Any:
    return apply_op("TensorListStack", made, -1, element_dtype=F)


LISTS: dict[str, Callable[[Feeds], Runs]] = {
    "TensorListFromTensor": lambda feed: [[stacked(rows(feed))]],
    "TensorListStack": lambda feed: [
        [apply_op("TensorListStack", rows(feed), feed(_SHAPE), element_dtype=F)]
    ],
    "TensorListReserve": lambda feed: [
        [
            apply_op(
                "TensorListStack",
                apply_op("TensorListReserve", feed(_SHAPE), feed(np.int32(3)), element_dtype=F),
                feed(_SHAPE),
                element_dtype=F,
            )
        ]
    ],
    "EmptyTensorList": lambda feed: [
        [
            apply_op(
                "TensorListLength",
                apply_op(
                    "TensorListPushBack",
                    apply_op("EmptyTensorList", feed(_SHAPE), feed(np.int32(4)), element_dtype=F),
                    feed(X[0]),
                ),
            )
        ]
    ],
    "TensorListSetItem": lambda feed: [
        [stacked(apply_op("TensorListSetItem", rows(feed), feed(np.int32(1)), feed(X[0])))]
    ],
    "TensorListGetItem": lambda feed: [
        [
            apply_op(
                "TensorListGetItem",
                rows(feed),
                feed(np.int32(1)),
                feed(_SHAPE),
                element_dtype=F,
            )
        ]
    ],
    "TensorListPushBack": lambda feed: [
        [stacked(apply_op("TensorListPushBack", rows(feed), feed(X[0])))]
    ],
    "TensorListPopBack": lambda feed: [
        list(apply_op("TensorListPopBack", rows(feed), feed(_SHAPE), element_dtype=F)[1:])
    ],
    "TensorListResize": lambda feed: [
        [
            apply_op(
                "TensorListLength",
                apply_op("TensorListResize", rows(feed), feed(np.int32(2), most=99)),
            )
        ]
    ],
    "TensorListGather": lambda feed: [
        [
            apply_op(
                "TensorListGather",
                rows(feed),
                feed(np.array([2, 0], np.int32)),
                feed(_SHAPE),
                element_dtype=F,
            )
        ]
    ],
    "TensorListSplit": lambda feed: [
        [
            apply_op(
                "TensorListGetItem",
                apply_op("TensorListSplit", feed(X), feed(_WIDE), feed(np.array([1, 2]))),
                0,
                -1,
                element_dtype=F,
            )
        ]
    ],
    "TensorListConcatV2": lambda feed: [
        list(
            apply_op(
                "TensorListConcatV2",
                apply_op("TensorListSplit", feed(X), feed(_WIDE), np.array([1, 2])),
                feed(_WIDE),
                feed(np.array([1, 2])),
                element_dtype=F,
            )
        )
    ],
    "TensorListElementShape": lambda feed: [
        [apply_op("TensorListElementShape", rows(feed), shape_type="int32")]
    ],
}


def lists(op: str, feed: Feeds) -> Runs:
    return LISTS[op](feed)


# ---- queues and accumulators


def queue(op: str, feed: Feeds) -> Runs:
    """Fill a queue, close it, so that nothing waits, and take from it."""
    kind = op if op.endswith("QueueV2") else "FIFOQueueV2"
    attrs: dict[str, Any] = {"component_types": [F], "shapes": [[2]], "capacity": 9}
    if kind == "RandomShuffleQueueV2":
        attrs |= {"seed": 1, "seed2": 2}
    made = apply_op(kind, **attrs)
    filled = [
        apply_op("QueueEnqueueV2", made, [feed(X[0])])
        if op == "QueueEnqueueV2"
        else apply_op("QueueEnqueueManyV2", made, [feed(X)])
    ]
    closed = [apply_op("QueueCloseV2", made)]
    size = [apply_op("QueueSizeV2", made)]
    if op == "RandomShuffleQueueV2":  # the order is each framework's own
        return [filled, closed, size]
    if op in ("QueueDequeueManyV2", "QueueDequeueUpToV2"):
        taken = apply_op(op, made, feed(np.int32(2)), component_types=[F])
    else:
        taken = apply_op("QueueDequeueV2", made, component_types=[F])
    return [filled, closed, size, list(taken) if isinstance(taken, (list, tuple)) else [taken]]


def accumulator(op: str, feed: Feeds) -> Runs:
    kind = "Resource" if op.startswith("Resource") else ""
    made = apply_op(f"{kind}ConditionalAccumulator", dtype=F, shape=[3, 2])
    step = feed(np.int64(5)) if op.endswith("SetGlobalStep") else np.int64(5)
    begin = apply_op(f"{kind}AccumulatorSetGlobalStep", made, step)
    local = feed(np.int64(6)) if op.endswith("ApplyGradient") else np.int64(99)
    given = feed(X) if op.endswith("ApplyGradient") else tf.constant(X)
    applied = apply_op(f"{kind}AccumulatorApplyGradient", made, local, given)
    count = apply_op(f"{kind}AccumulatorNumAccumulated", made)
    runs = [[begin], [applied], [count]]
    if op.endswith("TakeGradient"):
        wanted = feed(np.int32(1), most=1)
        runs.append([apply_op(f"{kind}AccumulatorTakeGradient", made, wanted, dtype=F)])
    return runs


def sparse_accumulator(op: str, feed: Feeds) -> Runs:
    made = apply_op("SparseConditionalAccumulator", dtype=F, shape=[3, 2])
    is_apply = op == "SparseAccumulatorApplyGradient"
    step, at, rows, shape = np.int64(6), np.array([2, 0]), X[:2], np.array([3, 2])
    given = [feed(x) if is_apply else tf.constant(x) for x in (step, at, rows, shape)]
    applied = apply_op(
        "SparseAccumulatorApplyGradient", made, *given, has_known_shape=True, dtype=F
    )
    count = apply_op("AccumulatorNumAccumulated", made)
    if is_apply:  # a step that is too old leaves nothing to take
        return [[applied], [count]]
    taken = apply_op("SparseAccumulatorTakeGradient", made, feed(np.int32(1), most=1), dtype=F)
    return [[applied], [count], list(taken)]


# ---- tables


def table(op: str, feed: Feeds) -> Runs:
    kinds = {"LookupTableImportV2": "HashTableV2", "LookupTableFindV2": "HashTableV2"}
    kind = kinds.get(op, "MutableHashTableV2")
    made = apply_op(kind, key_dtype=np.int64, value_dtype=F)
    is_find = op in ("LookupTableFindV2", "LookupTableRemoveV2")
    keys, values = np.array([3, 1, 2]), F([30, 10, 20])
    fill = "LookupTableInsertV2" if op == "LookupTableInsertV2" else "LookupTableImportV2"
    given = [x if is_find else feed(x) for x in (keys, values)]
    runs = [[apply_op(fill, made, *given)]]
    if op == "LookupTableRemoveV2":
        runs.append([apply_op(op, made, feed(np.array([3, 5])))])
    default = feed(F(-1)) if op == "LookupTableFindV2" else F(-1)
    asked = feed(np.array([1, 7])) if op == "LookupTableFindV2" else np.array([1, 7])
    found = apply_op("LookupTableFindV2", made, asked, default)
    return [*runs, [apply_op("LookupTableSizeV2", made)], [found]]


def table_of_vectors(op: str, feed: Feeds) -> Runs:
    """Make a dense table, whose keys that mark buckets are fed."""
    marks = [feed(np.int64(-1)), feed(np.int64(-2))]
    made = apply_op(op, *marks, key_dtype=np.int64, value_dtype=F, value_shape=[2])
    put = apply_op("LookupTableInsertV2", made, feed(np.array([3, 1])), feed(F([[1, 2], [3, 4]])))
    found = apply_op("LookupTableFindV2", made, feed(np.array([1, 7])), feed(F([5, 6])))
    if op.startswith("Anonymous"):
        return [[put], [found]]
    gone = apply_op("LookupTableRemoveV2", made, feed(np.array([1])))
    return [[put], [found], [gone], [apply_op("LookupTableSizeV2", made)]]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (gathering, "ResourceGather ResourceGatherNd"),
    (reading, "AssignVariableOp ReadVariableOp VariableShape"),
    (assigning, "Assign"),
    (
        array,
        "TensorArrayV3 TensorArrayWriteV3 TensorArrayReadV3 TensorArrayGatherV3 "
        "TensorArrayConcatV3 TensorArrayScatterV3 TensorArraySplitV3 TensorArrayGradV3",
    ),
    (stack, "StackV2 StackPushV2 StackPopV2"),
    (lists, " ".join(LISTS)),
    (
        queue,
        "FIFOQueueV2 RandomShuffleQueueV2 PaddingFIFOQueueV2 QueueEnqueueV2 QueueEnqueueManyV2 "
        "QueueDequeueV2 QueueDequeueManyV2 QueueDequeueUpToV2",
    ),
    (
        accumulator,
        "ResourceAccumulatorApplyGradient ResourceAccumulatorSetGlobalStep "
        "ResourceAccumulatorTakeGradient AccumulatorApplyGradient AccumulatorSetGlobalStep "
        "AccumulatorTakeGradient",
    ),
    (sparse_accumulator, "SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient"),
    (table_of_vectors, "AnonymousMutableDenseHashTable MutableDenseHashTableV2"),
    (table, "LookupTableImportV2 LookupTableInsertV2 LookupTableFindV2 LookupTableRemoveV2"),
]


def state_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    found: dict[str, Build] = {
        op: partial(updating, op) for op in registered_ops() if get_op_def(op).update is not None
    }
    for builder, ops in _BUILDERS:
        found |= {op: partial(builder, op) for op in ops.split()}
    return found
