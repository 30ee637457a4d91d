"""Programs with one op of iterators or optionals each, whose inputs are fed (see
programs.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tideflow.v1 as tf
from ops.bad_inputs.programs import Build, Feeds
from tideflow.graph.building import apply_op
from tideflow.graph.node import FunctionRef
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.control_flow.functional import defun

F = np.float32
I32 = np.int32
I64 = np.int64
X = np.arange(6, dtype=F).reshape(3, 2)
Runs = Sequence[Sequence[Any]]


def _kind(dtype: Any = tf.int64, dims: Dims = ()) -> dict[str, Any]:
    return {"output_types": [dtype], "output_shapes": [TensorShape(dims)]}


KIND = _kind()
# The structure that the op itself says, beside the one of the elements.
_SAID = {"": KIND, "of_other_types": _kind(tf.float32), "of_other_shapes": _kind(dims=(2,))}


def _one(found: Any) -> Any:
    return found[0] if isinstance(found, (list, tuple)) else found


def _rows(feed: Feeds, dims: Dims = ()) -> tuple[Any, dict[str, Any]]:
    """Return a dataset of the rows of what is fed, and what its elements are said to be."""
    kind = _kind(dims=dims)
    made = apply_op("TensorSliceDataset", [feed(np.arange(3))], output_shapes=kind["output_shapes"])
    return made, kind


def _iterator(op: str = "IteratorV2", name: str = "it", **kind: Any) -> Any:
    return apply_op(op, shared_name=name, container="", **(kind or KIND))


# ---- iterators


def _next(said: str, op: str, feed: Feeds) -> Runs:
    dataset, _ = _rows(feed)
    handle = _iterator("Iterator" if op == "Iterator" else "IteratorV2")
    begin = apply_op("MakeIterator", dataset, handle)
    step = op if "GetNext" in op else "IteratorGetNext"
    taken = _one(apply_op(step, handle, **_SAID[said]))
    if op == "IteratorGetNextAsOptional":
        has = apply_op("OptionalHasValue", taken)
        return [[begin], *[[has]] * 4]
    return [[begin], *[[taken]] * 4]


def _begun_in_the_step(op: str, feed: Feeds) -> Runs:
    made = apply_op(op, **KIND)
    handle = _one(made)
    with tf.control_dependencies([apply_op("MakeIterator", _rows(feed)[0], handle)]):
        taken = _one(apply_op("IteratorGetNext", handle, **KIND))
    return [[taken]]


def _next_of_unknown(op: str, feed: Feeds) -> Runs:
    """Say less of the elements when they are taken than is true of them, or something else."""
    kinds = [_kind(dims=dims) for dims in (None, (None,), (2,))]
    made = apply_op(
        "TensorSliceDataset", [feed(np.arange(6).reshape(3, 2))], output_shapes=[TensorShape(None)]
    )
    mapped = FunctionRef(defun(lambda x: tf.identity(x), [tf.int64]).name)
    dataset = apply_op("MapDataset", made, [], f=mapped, **kinds[0])
    handle = _iterator(**kinds[0])
    begin = apply_op("MakeIterator", dataset, handle)
    return [[begin], *([_one(apply_op(op, handle, **kind))] for kind in kinds)]


def _of_another_kind(op: str, feed: Feeds) -> Runs:
    handle = _iterator(**_kind(tf.string))
    return [[apply_op(op, _rows(feed)[0], handle)]]


def _by_string(said: str, op: str, feed: Feeds) -> Runs:
    handle = _iterator()
    begin = apply_op("MakeIterator", _rows(feed)[0], handle)
    from_string = op if op.startswith("IteratorFrom") else "IteratorFromStringHandle"
    name = apply_op("IteratorToStringHandle", handle)
    again = apply_op(from_string, name, **_SAID[said])
    return [[begin], [_one(apply_op("IteratorGetNext", again, **_SAID[said]))]]


def _no_string(op: str, feed: Feeds) -> Runs:
    handle = apply_op(op, feed("nonsense"), **KIND)
    return [[_one(apply_op("IteratorGetNext", handle, **KIND))]]


def _device(op: str, feed: Feeds) -> Runs:
    handle = _iterator()
    return [[apply_op("MakeIterator", _rows(feed)[0], handle)], [apply_op(op, handle)]]


def _deleted(op: str, feed: Feeds) -> Runs:
    handle, deleter = apply_op("AnonymousIteratorV2", **KIND)
    with tf.control_dependencies([apply_op("MakeIterator", _rows(feed)[0], handle)]):
        taken = _one(apply_op("IteratorGetNext", handle, **KIND))
    with tf.control_dependencies([taken]):
        return [[taken, apply_op(op, handle, deleter)]]


# ---- several devices


def _shared_out(op: str, feed: Feeds) -> Runs:
    name = "AnonymousMultiDeviceIterator"
    kinds = {name, f"{name}V3"}
    devices = {"devices": ["/cpu:0", "/cpu:0"], **KIND}
    if op in (*kinds, "DeleteMultiDeviceIterator"):
        made = apply_op(op if op in kinds else name, **devices)
        handle = _one(made)
        incarnation = apply_op("MultiDeviceIteratorInit", _rows(feed)[0], handle, feed(I64(2)))
        taken = _shard(handle, feed(I32(1)), incarnation)
        if op in kinds:
            return [[taken]]
        with tf.control_dependencies([taken]):
            return [[taken, apply_op(op, handle, [], made[1])]]
    handle = apply_op("MultiDeviceIterator", shared_name="m", container="", **devices)
    begin = apply_op("MultiDeviceIteratorInit", _rows(feed)[0], handle, feed(I64(2)))
    if op.endswith("StringHandle"):
        name = apply_op("MultiDeviceIteratorToStringHandle", handle)
        handle = apply_op("MultiDeviceIteratorFromStringHandle", name, **KIND)
    taken = _shard(handle, feed(I32(1)), feed(I64(1)))
    return [[begin], [taken]]


def _shard(handle: Any, number: Any, incarnation: Any) -> Any:
    op = "MultiDeviceIteratorGetNextFromShard"
    return _one(apply_op(op, handle, number, incarnation, **KIND))


def _no_shared_string(op: str, feed: Feeds) -> Runs:
    return [[_shard(apply_op(op, feed("nonsense"), **KIND), I32(0), I64(1))]]


# ---- optionals


def _optional(said: str, op: str, feed: Feeds) -> Runs:
    made = apply_op("OptionalFromValue", [feed(np.arange(2))])
    if op == "OptionalHasValue":
        return [[apply_op(op, made), tf.identity(feed(X))]]
    return [[_one(apply_op("OptionalGetValue", made, **_SAID[said]))]]


def _no_optional(op: str, feed: Feeds) -> Runs:
    made = apply_op("OptionalNone")
    return [[apply_op("OptionalHasValue", made), tf.identity(feed(X))], [_value_of(made)]]


def _value_of(made: Any) -> Any:
    return _one(apply_op("OptionalGetValue", made, **KIND))


def _chosen_optional(op: str, feed: Feeds) -> Runs:
    """Choose between an optional with a value and one without."""
    some = apply_op("OptionalFromValue", [feed(I64(7))])
    none = apply_op("OptionalNone")
    chosen = tf.cond(feed(np.bool_(True)), lambda: some, lambda: none)
    return [[apply_op("OptionalHasValue", chosen)], [_value_of(chosen)]]


_BUILDERS: list[tuple[Callable[[str, Feeds], Runs], str]] = [
    (
        partial(_next, ""),
        "Iterator IteratorV2 IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional",
    ),
    (_begun_in_the_step, "AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3"),
    (_of_another_kind, "MakeIterator"),
    (
        partial(_by_string, ""),
        "IteratorFromStringHandle IteratorFromStringHandleV2 IteratorToStringHandle",
    ),
    (_device, "IteratorGetDevice ExperimentalIteratorGetDevice"),
    (_deleted, "DeleteIterator"),
    (
        _shared_out,
        "MultiDeviceIterator MultiDeviceIteratorInit MultiDeviceIteratorGetNextFromShard "
        "MultiDeviceIteratorToStringHandle MultiDeviceIteratorFromStringHandle "
        "AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator",
    ),
    (partial(_optional, ""), "OptionalFromValue OptionalGetValue OptionalHasValue"),
    (_no_optional, "OptionalNone"),
]


def iterator_programs() -> dict[str, Build]:
    """Return how the program of each op is built."""
    found: dict[str, Build] = {}
    for builder, ops in _BUILDERS:
        found |= {op: partial(builder, op) for op in ops.split()}
    for said in ("of_other_types", "of_other_shapes"):
        found[f"IteratorGetNext {said}"] = partial(_next, said, "IteratorGetNext")
        found[f"OptionalGetValue {said}"] = partial(_optional, said, "OptionalGetValue")
        op = "IteratorFromStringHandle"
        found[f"{op} {said}"] = partial(_by_string, said, op)
    for op in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
        found[f"{op} of_nonsense"] = partial(_no_string, op)
    op = "MultiDeviceIteratorFromStringHandle"
    found[f"{op} of_nonsense"] = partial(_no_shared_string, op)
    found["IteratorGetNext of_unknown_shapes"] = partial(_next_of_unknown, "IteratorGetNext")
    found["OptionalNone by_chance"] = partial(_chosen_optional, "OptionalNone")
    return found
