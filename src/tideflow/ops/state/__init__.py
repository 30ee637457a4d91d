"""Variables and other named state: cells, assignments, updates, scopes, initializers."""

from __future__ import annotations

from tideflow.ops.state.api import (
    RefVariable,
    ResourceVariable,
    Variable,
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    moving_average_variables,
    report_uninitialized_variables,
    trainable_variables,
)
from tideflow.ops.state.assigning import assign
from tideflow.ops.state.base import (
    VariableAggregation,
    VariableSynchronization,
    creators_in_force,
    disable_resource_variables,
    enable_resource_variables,
    init_scope,
    kinds,
    outermost_graph,
    variable_creator_scope,
    with_creators,
)
from tideflow.ops.state.cells import (
    ANONYMOUS_NAME,
    OwnMemory,
    ResourceVariableState,
    VariableState,
    as_numpy,
    held_only_here,
    in_lock_order,
    uninitialized,
    wrong_dtype,
)
from tideflow.ops.state.initial_state import (
    initialize_resources,
    local_resources,
    report_uninitialized_resources,
    shared_resources,
    tables_initializer,
)
from tideflow.ops.state.initializers import Ones, Zeros
from tideflow.ops.state.partitioners import PartitionedVariable
from tideflow.ops.state.scopes import get_variable, variable_scope
from tideflow.ops.state.session_tensors import (
    SessionTensors,
    delete_session_tensor,
    device_of_handle,
    get_session_tensor,
    kept_type,
    not_kept,
    read_type,
)
from tideflow.ops.state.step_counter import (
    READ_KEY,
    get_global_step,
    get_or_create_global_step_read,
    global_step,
)
from tideflow.ops.state.templates import Template
from tideflow.ops.state.updates import bind_update

__all__ = [
    "ANONYMOUS_NAME",
    "READ_KEY",
    "Ones",
    "OwnMemory",
    "PartitionedVariable",
    "RefVariable",
    "ResourceVariable",
    "ResourceVariableState",
    "SessionTensors",
    "Template",
    "Variable",
    "VariableAggregation",
    "VariableState",
    "VariableSynchronization",
    "Zeros",
    "as_numpy",
    "assign",
    "bind_update",
    "creators_in_force",
    "delete_session_tensor",
    "device_of_handle",
    "disable_resource_variables",
    "enable_resource_variables",
    "get_global_step",
    "get_or_create_global_step_read",
    "get_session_tensor",
    "get_variable",
    "global_step",
    "global_variables",
    "global_variables_initializer",
    "held_only_here",
    "in_lock_order",
    "init_scope",
    "initialize_resources",
    "kept_type",
    "kinds",
    "local_resources",
    "local_variables_initializer",
    "moving_average_variables",
    "not_kept",
    "outermost_graph",
    "read_type",
    "report_uninitialized_resources",
    "report_uninitialized_variables",
    "shared_resources",
    "tables_initializer",
    "trainable_variables",
    "uninitialized",
    "variable_creator_scope",
    "variable_scope",
    "with_creators",
    "wrong_dtype",
]
