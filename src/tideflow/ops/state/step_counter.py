"""The global step: the variable that counts training steps.

Source: tensorflow/python/training/training_util.py
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.state.api import Variable, VariableAggregation
from tideflow.ops.state.initializers import Zeros
from tideflow.ops.state.scopes import get_variable
from tideflow.wire import dtypes

READ_KEY = "global_step_read_op_cache"


@export("train.global_step")
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """Return the step that a session has reached; without a graph, the value."""
    if get_default_graph().is_eager:
        return int(global_step_tensor)
    return int(sess.run(global_step_tensor))


@export("train.get_global_step")
def get_global_step(graph: Graph | None = None) -> Any:
    """Return the graph's global step, None without one.

    Raises: TypeError for something named global_step that cannot count.
    """
    graph = graph or get_default_graph()
    members = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(members) > 1:
        raise RuntimeError(f"the graph has {len(members)} global steps; one is wanted")
    if members:
        found = members[0]
    else:
        operation = graph.operations_by_name.get("global_step")
        if operation is None:
            return None
        found = operation.outputs[0]
    assert_global_step(found)
    return found


@export("train.create_global_step")
def create_global_step(graph: Graph | None = None) -> Any:
    """Make the graph's global step.  Raises: ValueError when it has one."""
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            "global_step",
            shape=[],
            dtype=dtypes.int64,
            initializer=Zeros(),
            trainable=False,
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


@export("train.get_or_create_global_step")
def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """Return the graph's global step, made if it has none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


@export("train.assert_global_step")
def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError for something that is no scalar integer."""
    dtype, shape = global_step_tensor.dtype.base_dtype, global_step_tensor.shape
    if not dtype.is_integer and dtype is not dtypes.resource:
        raise TypeError(f'Existing "global_step" does not have integer type: {dtype.name}')
    if shape.rank not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {shape}')


def get_or_create_global_step_read(graph: Graph | None = None) -> Tensor | None:
    """Return a tensor that reads the graph's global step, made if it is missing; None without one.

    It is the value before or after the run's own increment.  Unlike TensorFlow's it has no branch
    for a step without a value, which would cost each run an executor for control flow.
    Raises: RuntimeError when the graph has several such tensors.
    """
    graph = graph or get_default_graph()
    members = graph.get_collection(READ_KEY)
    if len(members) > 1:
        raise RuntimeError(
            f"there are {len(members)} items in collection {READ_KEY}; one is wanted"
        )
    if members:
        found: Tensor = members[0]
        return found
    step = get_global_step(graph)
    if step is None:
        return None
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        value = step.read_value() if isinstance(step, Variable) else step
        zero = convert_to_tensor(0, step.dtype.base_dtype)
        made: Tensor = apply_op("AddV2", value, zero, name="add")
    graph.add_to_collection(READ_KEY, made)
    return made
