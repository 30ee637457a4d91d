"""Ordering without branching: groups of ops, tuples of values that are ready together.

Source: tensorflow/python/ops/control_flow/primitives.py for names and the shape of the graphs.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, identity, nest, no_op


@export("control_dependencies")
def control_dependencies(control_inputs: object) -> Any:
    """Let ops made inside the `with` run only after others; None clears what is outside."""
    return get_default_graph().control_dependencies(control_inputs)


def with_dependencies(
    dependencies: object, output_tensor: TensorLike, name: str | None = None
) -> Any:
    """Return output_tensor's value, available only after the dependencies have run."""
    graph = get_default_graph()
    with graph.name_scope(name or "control_dependency") as scope:
        with graph.control_dependencies(dependencies):
            return _pass_on(output_tensor, scope)


def _pass_on(value: TensorLike, name: str | None) -> Any:
    if isinstance(value, IndexedSlices):
        return IndexedSlices(identity(value.values), value.indices, value.dense_shape)
    return identity(convert_to_tensor(value), name=name)


def as_operation(item: object) -> Operation:
    """Return the operation that an item is, makes or stands for.

    Raises: TypeError for something that is none of these.
    """
    if isinstance(item, IndexedSlices):
        item = item.values
    if not isinstance(item, (Operation, str)):
        item = getattr(item, "op", item)
    found = get_default_graph().as_graph_element(item)
    return found if isinstance(found, Operation) else found.op


def group(*inputs: Any, name: str | None = None) -> Operation:
    """Return an op that runs once all of the given ops and tensors have.

    Items on other devices are first gathered there, so that one signal crosses for each device.
    Raises: TypeError for an item that is neither an op nor a tensor.
    """
    graph = get_default_graph()
    ops = [as_operation(item) for item in nest.flatten(list(inputs)) if item is not None]
    by_device: dict[str, list[Operation]] = {}
    for op in ops:
        by_device.setdefault(op.device, []).append(op)
    with graph.name_scope(name or "group_deps") as scope:
        if not by_device:
            return no_op(name=scope)
        if len(by_device) == 1:
            device, members = next(iter(by_device.items()))
            return _group_on(device, members, scope)
        gathered = [_group_on(device, by_device[device], None) for device in sorted(by_device)]
        with graph.control_dependencies(gathered):
            return no_op(name=scope)


@export("group")
def group_here(*inputs: Any, name: str | None = None) -> Operation | None:
    """Return an op that runs once all of the given ops and tensors have (see group).

    None where operations are called at once, since all have run.
    """
    return None if get_default_graph().is_eager else group(*inputs, name=name)


def _group_on(device: str, ops: list[Operation], name: str | None) -> Operation:
    graph = get_default_graph()
    with graph.control_dependencies(ops):
        if not device:
            return no_op(name=name)
        with graph.device(device):
            return no_op(name=name)


@export("tuple")
def tuple_(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """Return the same tensors, none available before all are computed.

    Args:
      tensors: a list of tensors, IndexedSlices, ops, and None for what is to stay None.
      control_inputs: further ops to wait for.
    Raises: ValueError when there is nothing to wait for; TypeError for a bad control input.
    """
    graph = get_default_graph()
    if graph.is_eager:
        return list(tensors)
    with graph.name_scope(name or "tuple"):
        waits = [as_operation(t) for t in tensors if t is not None]
        for item in control_inputs or ():
            if not isinstance(item, (Operation, Tensor)) and not hasattr(item, "op"):
                raise TypeError(f"control input {item!r} is no operation or tensor")
            waits.append(as_operation(item))
        if not waits:
            raise ValueError("tf.tuple needs at least one tensor or operation that is not None")
        gate = group(*dict.fromkeys(waits))
        passed: list[Any] = []
        for item in tensors:
            if item is None or isinstance(item, Operation):
                passed.append(gate if item is not None else None)
            else:
                passed.append(with_dependencies([gate], item))
        return passed
