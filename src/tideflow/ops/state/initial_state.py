"""Tables and other state that is no variable: what creates it, and what of it is missing.

Source: tensorflow/python/ops/resources.py, lookup_ops.py (tables_initializer) for names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.array import boolean_mask, stack
from tideflow.ops.control_flow import group
from tideflow.ops.export import export
from tideflow.ops.framework import constant, no_op


class Resource(NamedTuple):
    """State that a graph needs.

    Attributes:
      handle: the tensor that names it.
      create: the operation that makes it.
      is_initialized: a bool tensor: whether it is there.
    """

    handle: Tensor
    create: Operation
    is_initialized: Tensor


def register_resource(
    handle: Tensor, create_op: Operation, is_initialized_op: Tensor, is_shared: bool = True
) -> None:
    """Have sessions create a resource when they initialize a model.

    is_shared: whether all tasks use it, so that only the chief creates it.
    """
    key = GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES
    get_default_graph().add_to_collection(key, Resource(handle, create_op, is_initialized_op))


def shared_resources() -> list[Resource]:
    """Return the resources that all tasks share."""
    return get_default_graph().get_collection(GraphKeys.RESOURCES)


def local_resources() -> list[Resource]:
    """Return the resources that each task has of its own."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: Sequence[Resource], name: str = "init") -> Operation:
    """Return an operation that creates resources."""
    if not resource_list:
        return no_op(name=name)
    return group(*[resource.create for resource in resource_list], name=name)


def report_uninitialized_resources(
    resource_list: Sequence[Resource] | None = None, name: str = "report_uninitialized_resources"
) -> Tensor:
    """Return a string vector with the names of resources that are not there yet."""
    if resource_list is None:
        resource_list = [*shared_resources(), *local_resources()]
    graph = get_default_graph()
    with graph.name_scope(name), graph.device("/cpu:0"):
        if not resource_list:
            return constant(np.array([], object), "string")
        flags = stack([resource.is_initialized for resource in resource_list])
        names = constant([resource.handle.name for resource in resource_list])
        missing: Tensor = boolean_mask(names, apply_op("LogicalNot", flags))
        return missing


@export("tables_initializer", "initializers.tables_initializer", "initialize_all_tables")
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return an operation that fills the graph's lookup tables."""
    initializers = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    if not initializers:
        return no_op(name=name)
    return group(*initializers, name=name)
