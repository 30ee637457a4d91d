"""Variables of the v1 API, and the collections and initializers that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.array import boolean_mask, stack
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.framework import constant, no_op
from tideflow.ops.state import ref as variables_ref
from tideflow.ops.state import resource as variables_resource
from tideflow.ops.state.base import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    init_scope,
)

RefVariable = variables_ref.RefVariable
ResourceVariable = variables_resource.ResourceVariable

__all__ = [
    "RefVariable",
    "ResourceVariable",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "init_scope",
]


@export("global_variables", "all_variables")
def global_variables(scope: str | None = None) -> list[Any]:
    """Return the graph's global variables (those that all tasks share)."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


@export("local_variables")
def local_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that belong to one process."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


@export("model_variables")
def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that a model needs for inference."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


@export("moving_average_variables")
def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that have moving averages."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


@export("trainable_variables")
def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers change by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


@export("variables_initializer", "initializers.variables", "initialize_variables")
def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """Return an operation that initializes the variables given."""
    if not var_list:
        return no_op(name=name)
    return group(*[v.initializer for v in var_list], name=name)


@export("global_variables_initializer", "initializers.global_variables", "initialize_all_variables")
def global_variables_initializer() -> Operation:
    """Return an operation that initializes all global variables."""
    return variables_initializer(global_variables())


@export("local_variables_initializer", "initializers.local_variables", "initialize_local_variables")
def local_variables_initializer() -> Operation:
    """Return an operation that initializes all local variables."""
    return variables_initializer(local_variables())


@export("is_variable_initialized")
def is_variable_initialized(variable: Any) -> Tensor:
    """Return a bool tensor: whether the variable has a value."""
    made: Tensor = variable.is_initialized()
    return made


@export("report_uninitialized_variables")
def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return a string vector with the names of variables that have no value yet."""
    if var_list is None:
        var_list = [*global_variables(), *local_variables()]
    graph = get_default_graph()
    with graph.name_scope(name):
        if not var_list:
            return constant(np.array([], object), "string")
        flags = stack([is_variable_initialized(v) for v in var_list])
        missing = apply_op("LogicalNot", flags)
        names = constant([v.op.name for v in var_list])
        return boolean_mask(names, missing)


@export("assert_variables_initialized")
def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Operation | None:
    """Return an operation that fails with FailedPreconditionError while a variable has no value.

    None without variables.
    """
    if var_list is None:
        var_list = [*global_variables(), *local_variables()]
    if not var_list:
        return None
    return group(*[v.read_value().op for v in var_list], name="assert_initialized")
